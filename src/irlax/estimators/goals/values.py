"""Expected values of trips, and with them changes in consumer surplus."""

import numpy as np

from irlax.estimators.goals.by_option import state_labels
from irlax.estimators.goals.demand import Demand
from irlax.estimators.goals.fitted_model import FittedModel
from irlax.estimators.goals.predictions import Predictions, Uncertainty


def expected_values(model: FittedModel, demand: Demand, uncertainty: Uncertainty | None, level: float) -> Predictions:
    r"""$V_g(s)$ of each pair, the log-sum: the expected maximum of utility over all ways, up to a constant.

    The change of it is the change in consumer surplus, in units of utility (Small and Rosen 1981).
    """
    choices = model.at_estimates()
    with_slopes = uncertainty is not None and model.features is not None
    once = demand.distinct()
    values, slopes = np.zeros(len(once.starts)), None
    moving = np.flatnonzero(once.starts != once.goals)
    pairs_ahead = Demand(once.starts[moving], once.goals[moving], once.amounts[moving])
    for solved in pairs_ahead.solutions(choices):
        at = pairs_ahead.starts[solved.rows], solved.columns
        values[moving[solved.rows]] = solved.block.value_at(*at)
        if with_slopes:
            assert solved.features is not None
            tangents = solved.block.tangents(solved.features)
            slopes = np.zeros((len(values), len(tangents))) if slopes is None else slopes
            slopes[moving[solved.rows]] = tangents[:, at[0], at[1]].T
    names = state_labels(model.mdp)
    keys = tuple(zip(once.starts.tolist(), once.goals.tolist(), strict=True))
    labels = tuple(f"{names[start]} to {names[goal]}" for start, goal in keys)
    return Predictions("expected value", keys, labels, values, slopes, uncertainty, level)
