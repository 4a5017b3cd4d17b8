"""Motives that switch as tables, and as plain values."""

from typing import Any

import numpy as np

from irlax.analysis.regression import decimals
from irlax.estimators.fit import ending
from irlax.estimators.mixed.switching_fit import SwitchingFit
from irlax.estimators.tabular.tabular_summary import SHOWN_PARAMETERS
from irlax.records import plain
from irlax.tables import Summary, Table, pairs
from irlax.typing import Float

_NO_ESTIMATES = "the last iterate; these are no estimates"


def summary(fit: SwitchingFit) -> Summary:
    """Parameters by motive, how motives switch, and how good the fit is."""
    return Summary([*_rewards(fit), _switches(fit), _facts(fit)])


def _with_errors(values: np.ndarray, errors: np.ndarray | None) -> list[Any]:
    """Each value, followed by its standard error if there are any."""
    if errors is None:
        return values.tolist()
    return np.stack([values, errors], axis=-1).ravel().tolist()


def _heads(fit: SwitchingFit, numbers: list[int]) -> list[str]:
    columns = [f"motive {k + 1}" for k in numbers]
    return ["", *(columns if not fit.converged else [each for name in columns for each in (name, "s.e.")])]


def _rewards(fit: SwitchingFit) -> list[Table]:
    """One table with a column for each motive; one for each motive if their rewards have other parameters."""
    names = [reward.parameter_names() for reward in fit.rewards]
    together = all(of_motive == names[0] for of_motive in names)
    groups = [list(range(fit.num_motives))] if together else [[k] for k in range(fit.num_motives)]
    errors = fit.standard_errors() if fit.converged else None
    tables = []
    for numbers in groups:
        shown = min(len(names[numbers[0]]), SHOWN_PARAMETERS)
        rows = [("share of choices", *_blank_errors(fit, fit.shares[numbers]))]
        for i, name in enumerate(names[numbers[0]][:shown]):
            values = np.array([fit.parameters[k][i] for k in numbers])
            of_row = None if errors is None else np.array([errors[k][i] for k in numbers])
            rows.append((name, *_with_errors(values, of_row)))
        left_out = len(names[numbers[0]]) - shown
        notes = [f"{left_out} more parameters are not shown."] if left_out else []
        notes += fit.error_notes if not tables else ()
        title = "SwitchingIRL: " + ("rewards of motives" if fit.converged else _NO_ESTIMATES)
        tables.append(Table(_heads(fit, numbers), rows, title=title, notes=notes))
    return tables


def _blank_errors(fit: SwitchingFit, values: Float[np.ndarray, " k"]) -> list[Any]:
    return values.tolist() if not fit.converged else [cell for value in values for cell in (float(value), "")]


def _switches(fit: SwitchingFit) -> Table:
    table, by_state = fit.mean_switching, fit.chain.slopes is not None
    errors = fit.switching_errors() if fit.converged and not by_state else None
    first_errors = fit.initial_errors() if fit.converged and not by_state else None
    rows: list[tuple[Any, ...]] = [("first motive", *_with_errors(fit.initial, first_errors), "")]
    for k in range(fit.num_motives):
        with np.errstate(divide="ignore"):
            lasts = float(1 / (1 - table[k, k]))
        rows.append((f"from motive {k + 1}", *_with_errors(table[k], None if errors is None else errors[k]), lasts))
    heads = ["", *(f"to motive {k + 1}" for k in range(fit.num_motives)), "steps it lasts"]
    if errors is not None:
        heads = ["", *(each for k in range(fit.num_motives) for each in (f"to motive {k + 1}", "s.e.")), heads[-1]]
    notes = ["Means over the states of each motive's choices; `switching` has them for each state."] if by_state else []
    if not (fit.chain.free_base.all() and fit.chain.free_initial.all()):
        notes.append("A probability of 0 is at the edge of what is possible, and has no standard error.")
    return Table(heads, rows, title="SwitchingIRL: probabilities of the next motive", notes=notes)


def _facts(fit: SwitchingFit) -> Table:
    each = fit.log_likelihood / fit.num_choices
    facts: list[tuple[str, Any]] = [
        ("status", fit.status.value),
        *fit.settings,
        ("discount", float(fit.mdp.discount)),
        *([] if fit.goals is None else [("goals", len(fit.goals))]),
        ("episodes", sum(demos.num_episodes for demos in fit.demos)),
        ("choices", fit.num_choices),
        ("log likelihood", decimals(fit.log_likelihood)),
        ("bits a choice", -each / float(np.log(2))),
    ]
    if fit.held_out_log_likelihood is not None:
        facts.append(("log likelihood, held out", decimals(fit.held_out_log_likelihood)))
    if fit.converged:
        facts += [("AIC", decimals(fit.aic)), ("BIC", decimals(fit.bic))]
    facts += [
        ("mean probability of the likeliest motive", float(fit.motive_probabilities().max(axis=1).mean())),
        *([] if fit.cross_validation is None else fit.cross_validation.facts()),
        ("largest gradient", fit.certificate.gradient),
        ("steps", fit.iterations),
        ("seconds", round(fit.seconds, 3)),
    ]
    return pairs("SwitchingIRL: fit", facts, [fit.reason] if fit.reason else [])


def description(fit: SwitchingFit) -> dict[str, Any]:
    """What the summary says, as plain values."""
    errors: Any = fit.standard_errors() if fit.converged else [[None] * len(theta) for theta in fit.parameters]
    motives = [
        {
            "share": plain(fit.shares[k]),
            "initial": plain(fit.initial[k]),
            "parameters": [
                {"name": name, "estimate": plain(fit.parameters[k][i]), "standard_error": plain(errors[k][i])}
                for i, name in enumerate(reward.parameter_names())
            ],
        }
        for k, reward in enumerate(fit.rewards)
    ]
    has_errors = fit.converged and fit.chain.slopes is None
    chosen = fit.cross_validation
    return {
        **ending(fit),
        "settings": {name: plain(value) for name, value in fit.settings},
        "reward": type(fit.rewards[0]).__name__,
        "motives": motives,
        "switching": plain(fit.mean_switching.tolist()),
        "switching_errors": plain(fit.switching_errors().tolist()) if has_errors else None,
        "num_states": fit.mdp.num_states,
        "num_actions": fit.mdp.num_actions,
        "discount": float(fit.mdp.discount),
        "horizon": fit.mdp.horizon,
        "goals": None if fit.goals is None else len(fit.goals),
        "reason": fit.reason,
        "episodes": sum(demos.num_episodes for demos in fit.demos),
        "choices": plain(fit.num_choices),
        "log_likelihood": plain(fit.log_likelihood),
        "held_out_log_likelihood": plain(fit.held_out_log_likelihood),
        "aic": plain(fit.aic) if fit.converged else None,
        "bic": plain(fit.bic) if fit.converged else None,
        "cross_validation": None if chosen is None else {name: plain(value) for name, value in vars(chosen).items()},
        "certificate": {name: plain(value) for name, value in vars(fit.certificate).items()},
        "steps": fit.iterations,
        "seconds": plain(fit.seconds),
    }
