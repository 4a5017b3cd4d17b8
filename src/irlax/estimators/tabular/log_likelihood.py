"""The log likelihood of observed choices under a plan or a policy."""

import numpy as np

from irlax.demos.likelihood import log_policy_by_time, log_policy_of_choices
from irlax.estimators.tabular.expert import Expert
from irlax.planning import Plan
from irlax.precision import scope
from irlax.typing import Float


def total_log_likelihood(model: Plan | Float[np.ndarray, "*T R A"], expert: Expert) -> float:
    """Σ w log π over observed choices, undiscounted; −inf if the model gives one of them probability 0."""
    if isinstance(model, Plan) and expert.statistics is not None:
        observed = expert.choices(discounted=False)
        with scope():
            choices = np.asarray(log_policy_by_time(model, observed.states, observed.actions))
        return expert.weight * _weighted_sum(observed.weights, choices)
    demos = expert.recorded
    assert demos is not None
    if isinstance(model, Plan):
        with scope():
            choices = np.asarray(log_policy_of_choices(model, demos))
    else:
        over_time = model if model.ndim == 3 else model[None]
        times = demos.times if model.ndim == 3 else np.zeros_like(demos.times)
        with np.errstate(divide="ignore"):
            choices = np.log(over_time[times, demos.tabular_states, demos.actions])
    return _weighted_sum(demos.choice_weights, choices)


def _weighted_sum(weights: Float[np.ndarray, "*n"], choices: Float[np.ndarray, "*n"]) -> float:
    """Σ w x, where a choice of weight 0 counts 0 even if it is −inf."""
    return float((weights * np.where(weights > 0, choices, 0.0)).sum())
