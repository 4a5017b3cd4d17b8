"""What is told of a drifting reward: its tables, and the same as plain values."""

from typing import Any

import numpy as np

from irlax.analysis.regression import decimals
from irlax.estimators.fit import ending
from irlax.estimators.mixed.drifting_fit import DriftingFit
from irlax.records import plain
from irlax.tables import Summary, Table, pairs


def summarised(fit: DriftingFit) -> Summary:
    """See `DriftingFit.summary`."""
    return Summary([_parameters(fit), _facts(fit)])


def _parameters(fit: DriftingFit) -> Table:
    names = fit.reward.parameter_names()
    errors = fit.standard_errors()
    title = f"{fit.method}: parameters" if fit.converged else f"{fit.method}: the last iterate; no estimates"
    several = len(fit.paths) > 1
    heads = ("parameter", "constant", "first", "s.e.", "last", "s.e.", "σ", "s.e. of log σ")
    rows = [
        (
            name,
            *(float(np.mean(column)) for column in (fit.constant[:, k], fit.paths[:, 0, k], errors[:, 0, k])),
            *(float(np.mean(column)) for column in (fit.paths[:, -1, k], errors[:, -1, k])),
            float(fit.drift[k]),
            float(fit.drift_log_errors[k]) if np.isfinite(fit.drift_log_errors[k]) else None,
        )
        for k, name in enumerate(names)
    ]
    notes = ["Means over individuals."] if several else []
    if np.isnan(fit.drift).any():
        notes.append("NaN: no choice at any time identifies the parameter.")
    return Table(heads, rows, title=title, notes=notes)


def _facts(fit: DriftingFit) -> Table:
    per = 1 / fit.num_choices
    facts = [
        ("status", fit.status.value),
        *fit.estimator.settings(),
        ("discount", float(fit.mdp.discount)),
        ("paths", len(fit.paths)),
        ("periods", fit.num_periods),
        ("choices", fit.num_choices),
        ("log evidence ratio, drift to none", decimals(fit.log_evidence_ratio)),
        ("verdict", fit.verdict),
        ("log likelihood", decimals(fit.log_likelihood)),
        ("log likelihood a choice", fit.log_likelihood * per),
        ("the same with a constant reward", fit.constant_log_likelihood * per),
        ("the same with equal chances", fit.uniform_log_likelihood * per),
    ]
    if fit.held_out_log_likelihood is not None:
        facts.append(("log likelihood, held out", decimals(fit.held_out_log_likelihood)))
    facts += [
        ("largest gradient", fit.certificate.gradient),
        ("steps", fit.iterations),
        ("seconds", round(fit.seconds, 3)),
    ]
    return pairs(f"{fit.method}: fit", facts, [fit.reason] if fit.reason else [])


def described(fit: DriftingFit) -> dict[str, Any]:
    """See `Fit.describe`."""
    names, errors = fit.reward.parameter_names(), fit.standard_errors()
    parameters = [
        {
            "name": name,
            "constant": [plain(value) for value in fit.constant[:, k]],
            "drift": plain(fit.drift[k]),
            "drift_log_error": plain(fit.drift_log_errors[k]),
            "path": [[plain(value) for value in path] for path in fit.paths[:, :, k]],
            "standard_error": [[plain(value) for value in path] for path in errors[:, :, k]],
        }
        for k, name in enumerate(names)
    ]
    numbers = {
        "log_evidence": fit.log_evidence,
        "log_evidence_ratio": fit.log_evidence_ratio,
        "p_value": fit.p_value,
        "log_likelihood": fit.log_likelihood,
        "constant_log_likelihood": fit.constant_log_likelihood,
        "uniform_log_likelihood": fit.uniform_log_likelihood,
        "held_out_log_likelihood": fit.held_out_log_likelihood,
        "choices": fit.num_choices,
        "seconds": fit.seconds,
    }
    return {
        **ending(fit),
        "settings": {name: plain(value) for name, value in fit.estimator.settings()},
        "reward": type(fit.reward).__name__,
        "individuals": [plain(label) for label in fit.individuals],
        "periods": fit.num_periods,
        "parameters": parameters,
        "verdict": fit.verdict,
        "num_states": fit.mdp.num_states,
        "num_actions": fit.mdp.num_actions,
        "discount": float(fit.mdp.discount),
        "horizon": fit.mdp.horizon,
        **{name: plain(value) for name, value in numbers.items()},
        "certificate": {name: plain(value) for name, value in vars(fit.certificate).items()},
        "reason": fit.reason,
        "steps": fit.iterations,
    }
