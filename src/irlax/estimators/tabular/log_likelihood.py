"""The log likelihood of observed choices under a plan or a policy."""

import numpy as np

from irlax.demos.likelihood import log_policy_of_choices
from irlax.estimators.tabular.expert import Expert
from irlax.planning import Plan
from irlax.precision import scope
from irlax.typing import Float


def total_log_likelihood(model: Plan | Float[np.ndarray, "*T R A"], expert: Expert) -> float:
    """Σ w log π over observed choices, undiscounted; −inf if the model never makes one of them."""
    assert expert.demos is not None
    demos = expert.demos
    if isinstance(model, Plan):
        with scope():
            choices = np.asarray(log_policy_of_choices(model, demos))
    else:
        over_time = model if model.ndim == 3 else model[None]
        times = demos.times if model.ndim == 3 else np.zeros_like(demos.times)
        with np.errstate(divide="ignore"):
            choices = np.log(over_time[times, demos.tabular_states, demos.actions])
    weights = np.repeat(demos.weights, demos.lengths)
    # A choice of weight 0 may be −inf, though 0 · −inf is NaN.
    return float(weights @ np.where(weights > 0, choices, 0.0))
