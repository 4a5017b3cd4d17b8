"""A fit for machines."""

from typing import Any

from irlax.estimators.tabular.fit import TabularFit
from irlax.precision import scope
from irlax.records import plain
from irlax.rewards.base import flat


def description(fit: TabularFit) -> dict[str, Any]:
    """What the summary says, as plain values under fixed names."""
    certificate = {} if fit.certificate is None else vars(fit.certificate)
    return {
        "method": fit.method,
        "status": fit.status.name.lower(),
        "converged": fit.converged,
        "message": fit.status.value,
        "settings": {name: plain(value) for name, value in fit.settings},
        "reward": type(fit.reward).__name__,
        "parameters": _parameters(fit),
        "num_states": fit.mdp.num_states,
        "num_actions": fit.mdp.num_actions,
        "num_mdps": len(fit.experts),
        "discount": float(fit.mdp.discount),
        "horizon": fit.mdp.horizon,
        "episodes": fit.num_episodes,
        "choices": fit.num_choices,
        "log_likelihood": plain(fit.log_likelihood),
        "held_out_log_likelihood": plain(fit.held_out_log_likelihood),
        "certificate": {name: plain(value) for name, value in certificate.items()},
        "missing_mass": plain(fit.missing_mass),
        "extras": {extra.name: plain(extra.value) for extra in fit.extras},
        "steps": fit.iterations,
        "seconds": plain(fit.seconds),
    }


def _parameters(fit: TabularFit) -> list[dict[str, Any]]:
    with scope():
        columns = {"estimate": flat(fit.reward.parameters)}
    if fit.feature_gap is not None:
        columns["feature_gap"] = fit.feature_gap
    if fit.samples is not None:
        columns["sd"] = fit.samples.std(axis=0, ddof=1)
    names = fit.reward.parameter_names()
    return [{"name": name} | {key: plain(column[k]) for key, column in columns.items()} for k, name in enumerate(names)]
