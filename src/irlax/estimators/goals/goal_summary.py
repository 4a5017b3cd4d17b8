"""A fit with goals as tables, and as a record for `describe`."""

from typing import Any

import numpy as np

from irlax.analysis.regression import decimals, pseudo_r_squared, regression_table
from irlax.analysis.standard_errors import rank
from irlax.estimators.fit import ending
from irlax.estimators.goals.goal_fit import GoalFit, Kind
from irlax.estimators.tabular.inference import Cluster, Weights
from irlax.estimators.tabular.regression import error_method
from irlax.estimators.tabular.tabular_summary import SHOWN_PARAMETERS
from irlax.records import plain
from irlax.tables import Summary, Table, pairs

#: Up to this many parameters it is computed which of them are identified.
MAX_IDENTIFIED = 200


def summary(fit: GoalFit) -> Summary:
    """The parameters, and how good the fit is."""
    tables = [_facts(fit)]
    if fit.reward.num_parameters <= SHOWN_PARAMETERS:
        tables.insert(0, _parameters(fit))
    return Summary(tables)


def description(fit: GoalFit) -> dict[str, Any]:
    """The content of the summary, as plain values under fixed names."""
    columns = {"estimate": fit.estimates}
    if fit.has_standard_errors and fit.reward.num_parameters <= MAX_IDENTIFIED:
        columns["standard_error"] = fit.standard_errors()
    if fit.feature_gap is not None:
        columns["feature_gap"] = fit.feature_gap
    parameters = [
        {"name": name} | {key: plain(column[k]) for key, column in columns.items()}
        for k, name in enumerate(fit.parameter_names)
    ]
    parts = {"certificate": fit.certificate, "cross_validation": fit.cross_validation}
    facts = {
        name: None if part is None else {key: plain(v) for key, v in vars(part).items()} for name, part in parts.items()
    }
    return {
        **ending(fit),
        "settings": {name: plain(value) for name, value in fit.settings},
        "reward": type(fit.reward).__name__,
        "parameters": parameters,
        "num_states": fit.mdp.num_states,
        "num_actions": fit.mdp.num_actions,
        "discount": float(fit.mdp.discount),
        "goals": len(fit.goals),
        "episodes": fit.num_episodes,
        "choices": fit.num_choices,
        "log_likelihood": plain(fit.log_likelihood),
        "held_out_log_likelihood": plain(fit.held_out_log_likelihood),
        **facts,
        "identified": _identified(fit),
        "steps": fit.iterations,
        "seconds": plain(fit.seconds),
    }


def _parameters(fit: GoalFit) -> Table:
    names, estimates = fit.parameter_names, fit.estimates
    columns, cells = ["parameter", "estimate"], [names, estimates.tolist()]
    if fit.has_standard_errors:
        columns += ["s.e.", "z"]
        errors = fit.standard_errors()
        cells += [errors.tolist(), (estimates / np.where(errors > 0, errors, np.nan)).tolist()]
    if fit.feature_gap is not None:
        columns.append("feature gap")
        cells.append(fit.feature_gap.tolist())
    return Table(columns, list(zip(*cells, strict=True)), title=f"{fit.method}: {type(fit.reward).__name__}")


def _facts(fit: GoalFit) -> Table:
    rows: list[tuple[str, Any]] = [("status", fit.status.value), *fit.settings]
    rows += [("states", fit.mdp.num_states), ("discount", float(fit.mdp.discount)), ("goals", len(fit.goals))]
    rows += [("parameters", len(fit.estimates)), ("episodes", fit.num_episodes), ("choices", fit.num_choices)]
    rows.append(("log likelihood", decimals(fit.log_likelihood)))
    if fit.held_out_log_likelihood is not None:
        rows.append(("log likelihood, held out", decimals(fit.held_out_log_likelihood)))
    if fit.feature_gap is not None:
        rows.append(("largest feature gap", float(np.abs(fit.feature_gap).max())))
    rows += fit.certificate.facts()
    rows.append(("identified", _identified(fit)))
    rows += [] if fit.cross_validation is None else fit.cross_validation.facts()
    rows += [("steps", fit.iterations), ("seconds", round(fit.seconds, 3))]
    return pairs(f"{fit.method}: fit", rows)


def _identified(fit: GoalFit) -> str:
    """How many directions of the parameters these demonstrations identify, and which they do not."""
    total = len(fit.estimates)
    if total > MAX_IDENTIFIED or not fit.reward.is_linear:
        return "not computed"
    hidden = fit.unidentified()
    if not len(hidden):
        return f"all {total} parameters"
    names = fit.parameter_names
    first = hidden[0] / np.abs(hidden[0]).max()
    terms = [f"{value:+.3g}·{name}" for name, value in zip(names, first, strict=True) if abs(value) > 1e-6]
    more = f", and {len(hidden) - 1} more" if len(hidden) > 1 else ""
    return f"{total - len(hidden)} of {total} dimensions; not {' '.join(terms[:6])}{more}"


def regression_table_of_goals(fit: GoalFit, kind: Kind, cluster: Cluster, weights: Weights, level: float) -> Summary:
    """The reward's parameters and the statistics of their fit."""
    errors = fit.standard_errors(kind, cluster=cluster, weights=weights)
    counts = fit.demos.choice_weights
    null = -float(counts @ np.log(fit.mdp.num_available[fit.demos.tabular_states]))
    return regression_table(
        fit.parameter_names,
        fit.estimates,
        errors,
        level=level,
        title=f"{fit.method}: {type(fit.reward).__name__}",
        how=f"{error_method(kind, cluster, weights)}, at the given dynamics",
        log_likelihood=fit.log_likelihood,
        rank=rank(fit.information.hessian),
        observations=float(counts.sum()),
        facts=[
            ("pseudo-R² of choices, against equal chances", pseudo_r_squared(fit.log_likelihood, null)),
            ("episodes", fit.num_episodes),
            ("goals", len(fit.goals)),
            ("observations", fit.num_choices),
        ],
    )
