"""A fit for machines."""

from typing import Any

from irlax.estimators.sampled import SampledFit
from irlax.estimators.tabular.mixture_fit import MixtureFit
from irlax.estimators.tabular.tabular_fit import TabularFit
from irlax.precision import scope
from irlax.records import plain
from irlax.rewards.reward import flat


def description(fit: TabularFit | MixtureFit | SampledFit) -> dict[str, Any]:
    """What the summary says, as plain values under fixed names."""
    if isinstance(fit, SampledFit):
        return _sampled(fit)
    return _mixture(fit) if isinstance(fit, MixtureFit) else _tabular(fit)


def _ending(fit: Any) -> dict[str, Any]:
    """What was asked for, and how it ended: the same for every fit."""
    return {
        "method": fit.method,
        "status": fit.status.name.lower(),
        "converged": fit.converged,
        "message": fit.status.value,
        "settings": {name: plain(value) for name, value in fit.settings},
    }


def _tabular(fit: TabularFit) -> dict[str, Any]:
    certificate = {} if fit.certificate is None else vars(fit.certificate)
    return {
        **_ending(fit),
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


def _mixture(fit: MixtureFit) -> dict[str, Any]:
    mdp = fit.expert.mdp
    names = fit.rewards[0].parameter_names()
    errors = fit.standard_errors() if fit.converged else [[None] * len(names)] * fit.num_types
    share_errors = fit.share_errors() if fit.converged else [None] * fit.num_types
    types = [
        {
            "share": plain(fit.shares[g]),
            "share_error": plain(share_errors[g]),
            "parameters": [
                {"name": name, "estimate": plain(fit.parameters[g, k]), "standard_error": plain(errors[g][k])}
                for k, name in enumerate(names)
            ],
        }
        for g in range(fit.num_types)
    ]
    return {
        "method": "MixtureIRL",
        "status": fit.status.name.lower(),
        "converged": fit.converged,
        "message": fit.status.value,
        "settings": {name: plain(value) for name, value in fit.settings},
        "reward": type(fit.rewards[0]).__name__,
        "types": types,
        "num_states": mdp.num_states,
        "num_actions": mdp.num_actions,
        "discount": float(mdp.discount),
        "horizon": mdp.horizon,
        "reason": fit.reason,
        "individuals": plain(fit.num_individuals),
        "choices": plain(fit.num_choices),
        "log_likelihood": plain(fit.log_likelihood),
        "held_out_log_likelihood": plain(fit.held_out_log_likelihood),
        "bic": plain(fit.bic) if fit.converged else None,
        "extras": {extra.name: plain(extra.value) for extra in fit.extras},
        "certificate": {name: plain(value) for name, value in vars(fit.certificate).items()},
        "steps": fit.iterations,
        "seconds": plain(fit.seconds),
    }


def _sampled(fit: SampledFit) -> dict[str, Any]:
    return {
        **_ending(fit),
        "reward": None if fit.reward is None else type(fit.reward).__name__,
        "environment": fit.environment,
        "episodes": fit.num_episodes,
        "choices": fit.num_choices,
        "log_likelihood": plain(fit.log_likelihood),
        "feature_gap": plain(fit.feature_gap),
        "return_mean": plain(fit.returns.mean()),
        "return_sd": plain(fit.returns.std()),
        "demonstrated_return_mean": plain(fit.demonstrated_return),
        "history": {name: plain(column) for name, column in fit.history.items()},
        "rounds": fit.iterations,
        "steps": int(fit.history["steps"][-1]),
        "seconds": plain(fit.seconds),
    }
