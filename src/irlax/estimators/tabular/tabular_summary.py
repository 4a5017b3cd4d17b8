"""A tabular fit as tables, and as a record for `describe`."""

from typing import Any

import numpy as np

from irlax.analysis.identifiability import cost_of_identifying
from irlax.analysis.regression import decimals
from irlax.estimators.fit import ending
from irlax.estimators.tabular.tabular_fit import TabularFit
from irlax.precision import scope
from irlax.records import plain
from irlax.rewards.reward import flat
from irlax.tables import Summary, Table, pairs

#: A summary lists the parameters if there are at most this many.
SHOWN_PARAMETERS = 40
#: Identifiability is computed if it takes at most this many multiplications: a few seconds.
AFFORDABLE = 5e9


def summary(fit: TabularFit) -> Summary:
    """The parameters, and how good the fit is."""
    tables = [_facts(fit)]
    if fit.reward.num_parameters <= SHOWN_PARAMETERS:
        tables.insert(0, _parameters(fit))
    return Summary(tables)


def description(fit: TabularFit) -> dict[str, Any]:
    """The content of the summary, as plain values under fixed names."""
    parts = {"certificate": fit.certificate, "cross_validation": fit.cross_validation, "mixture": fit.mixture}
    facts = {name: None if part is None else _scalars(part) for name, part in parts.items()}
    return {
        **ending(fit),
        "settings": {name: plain(value) for name, value in fit.settings},
        "reward": type(fit.reward).__name__,
        "parameters": _parameter_records(fit),
        "num_states": fit.mdp.num_states,
        "num_actions": fit.mdp.num_actions,
        "num_mdps": len(fit.experts),
        "discount": float(fit.mdp.discount),
        "horizon": fit.mdp.horizon,
        "episodes": fit.num_episodes,
        "choices": fit.num_choices,
        "log_likelihood": plain(fit.log_likelihood),
        "held_out_log_likelihood": plain(fit.held_out_log_likelihood),
        **facts,
        "posterior": None if fit.posterior is None else _scalars(fit.posterior),
        "identified": _identified(fit),
        "missing_mass": plain(fit.missing_mass),
        "steps": fit.iterations,
        "seconds": plain(fit.seconds),
    }


def _scalars(part: Any) -> dict[str, Any]:
    return {name: plain(value) for name, value in vars(part).items() if np.ndim(value) == 0}


def _parameter_records(fit: TabularFit) -> list[dict[str, Any]]:
    with scope():
        columns = {"estimate": flat(fit.reward.parameters)}
    if fit.has_standard_errors:
        columns["standard_error"] = fit.standard_errors()
    if fit.feature_gap is not None:
        columns["feature_gap"] = fit.feature_gap
    if fit.samples is not None:
        columns["sd"] = fit.samples.std(axis=0, ddof=1)
        columns["low"], columns["high"] = np.quantile(fit.samples, [0.025, 0.975], axis=0)
    names = fit.reward.parameter_names()
    return [{"name": name} | {key: plain(column[k]) for key, column in columns.items()} for k, name in enumerate(names)]


def _identified(fit: TabularFit) -> str:
    if any(expert.mdp.spans_processes for expert in fit.experts):
        return "not computed for an MDP that several processes hold"
    costs = [cost_of_identifying(expert.mdp, fit.reward.num_parameters) for expert in fit.experts]
    if sum(costs) > AFFORDABLE:
        return "not computed for a problem this large; `fit.identification()` does"
    if len(fit.experts) == 1:
        return fit.identification().line()
    revealed = np.concatenate([fit.identification(i).contrasts for i in range(len(fit.experts))])
    total, rank = fit.reward.num_parameters, int(np.linalg.matrix_rank(revealed)) if len(revealed) else 0
    return f"all {total} parameters, together" if rank == total else f"{rank} of {total} dimensions, together"


def _parameters(fit: TabularFit) -> Table:
    names, estimates = fit.reward.parameter_names(), flat(fit.reward.parameters)
    columns, cells = ["parameter", "estimate"], [names, [float(value) for value in estimates]]
    if fit.samples is not None:
        columns += ["sd", "2.5%", "97.5%"]
        low, high = np.quantile(fit.samples, [0.025, 0.975], axis=0)
        cells += [fit.samples.std(axis=0, ddof=1).tolist(), low.tolist(), high.tolist()]
    if fit.has_standard_errors:
        columns += ["s.e.", "z"]
        errors = fit.standard_errors()
        cells += [errors.tolist(), (estimates / np.where(errors > 0, errors, np.nan)).tolist()]
    if fit.feature_gap is not None:
        columns.append("feature gap")
        cells.append([float(gap) for gap in fit.feature_gap])
    return Table(columns, list(zip(*cells, strict=True)), title=f"{fit.method}: {type(fit.reward).__name__}")


def _facts(fit: TabularFit) -> Table:
    rows: list[tuple[str, Any]] = [("status", fit.status.value), *fit.settings]
    rows += [("states", fit.mdp.num_states), ("actions", fit.mdp.num_actions)]
    if len(fit.experts) > 1:
        rows.append(("MDPs", len(fit.experts)))
    rows += [("discount", float(fit.mdp.discount)), ("horizon", fit.mdp.horizon or "infinite")]
    rows.append(("parameters", fit.reward.num_parameters))
    if fit.num_episodes:
        rows += [("episodes", fit.num_episodes), ("choices", fit.num_choices)]
    if fit.log_likelihood is not None:
        rows.append(("log likelihood", decimals(fit.log_likelihood)))
    if fit.held_out_log_likelihood is not None:
        rows.append(("log likelihood, held out", decimals(fit.held_out_log_likelihood)))
    if fit.feature_gap is not None:
        rows.append(("largest feature gap", float(np.abs(fit.feature_gap).max())))
    rows += [] if fit.certificate is None else fit.certificate.facts()
    rows.append(("identified", _identified(fit)))
    if fit.missing_mass:
        rows.append(("discounted mass unobserved", f"{fit.missing_mass:.2%}"))
    rows += [fact for part in fit.components() for fact in part.facts()]
    rows += [("steps", fit.iterations), ("seconds", round(fit.seconds, 3))]
    return pairs(f"{fit.method}: fit", rows)
