"""A fit under the likelihood objective as a regression table."""

from typing import TYPE_CHECKING, Any

import numpy as np

from irlax.analysis.regression import pseudo_r_squared, regression_table
from irlax.analysis.standard_errors import Kind, rank
from irlax.estimators.tabular.inference import Cluster, Weights, all_demos
from irlax.rewards.reward import flat
from irlax.tables import Summary

if TYPE_CHECKING:
    from irlax.estimators.tabular.tabular_fit import TabularFit

_ERRORS = {"hessian": "inverse Hessian", "opg": "outer product of scores", "sandwich": "sandwich"}


def regression_table_of_fit(fit: "TabularFit", kind: Kind, cluster: Cluster, weights: Weights, level: float) -> Summary:
    """The reward's parameters and the statistics of their fit."""
    information = fit.information
    errors = np.sqrt(np.diag(information.covariance(kind, cluster, weights)))
    assert fit.log_likelihood is not None
    return regression_table(
        fit.reward.parameter_names(),
        flat(fit.reward.parameters),
        errors,
        level=level,
        title=f"{fit.method}: {type(fit.reward).__name__}",
        how=f"{error_method(kind, cluster, weights)}, at the given dynamics",
        log_likelihood=fit.log_likelihood,
        rank=rank(information.hessian),
        observations=observations(fit),
        facts=choice_facts(fit, fit.log_likelihood),
    )


def error_method(kind: Kind, cluster: Cluster, weights: Weights) -> str:
    """How standard errors were computed, as text for a table."""
    by = "" if cluster is None else ", clustered by individual" if isinstance(cluster, str) else ", clustered by label"
    return _ERRORS[kind] + by + (", weights from sampling" if weights == "sampling" else "")


def observations(fit: "TabularFit") -> float:
    """The number of observed choices, each counted by the weight of its episode."""
    return float(sum(demos.weights @ demos.lengths for demos in all_demos(fit)))


def choice_facts(fit: "TabularFit", log_likelihood: float) -> list[tuple[str, Any]]:
    """The pseudo-R² of choices, and the numbers of individuals and observations, for a table."""
    null, meaning = _null_log_likelihood(fit)
    return [
        (f"pseudo-R² of choices, against {meaning}", pseudo_r_squared(log_likelihood, null)),
        ("individuals", fit.num_episodes),
        ("observations", fit.num_choices),
    ]


def _null_log_likelihood(fit: "TabularFit") -> tuple[float, str]:
    """The log likelihood of a model without the state, and the name of that model.

    If every action is available in all states, its probabilities are the actions' shares, the fit of one constant for
    each action. Else the available actions have equal probabilities.
    """
    if all(expert.mdp.mask is None for expert in fit.experts):
        actions = np.concatenate([demos.actions for demos in all_demos(fit)])
        weights = np.concatenate([np.repeat(demos.weights, demos.lengths) for demos in all_demos(fit)])
        taken = np.bincount(actions, weights=weights)
        taken = taken[taken > 0]
        return float(taken @ np.log(taken / taken.sum())), "the actions' shares"
    total = 0.0
    for expert in fit.experts:
        demos = expert.recorded
        assert demos is not None
        exist = expert.mdp.num_available[demos.tabular_states]
        total -= float(np.repeat(demos.weights, demos.lengths) @ np.log(exist))
    return total, "equal chances"
