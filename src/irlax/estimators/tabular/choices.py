"""Observed choices, grouped by time for the likelihood objectives."""

import equinox as eqx
import numpy as np

from irlax.demos.sizes import rounded_up
from irlax.mdp import MDP
from irlax.typing import Float, Int


class Choices(eqx.Module):
    """Distinct observed choices, grouped by time: row t of [T, M] holds the choices made at t, padded with weight 0.

    On an infinite horizon there is one group, because the policy is the same at all times. States and actions are
    given as rows and columns of tables (`MDP.rows.cells`).
    """

    states: Int[np.ndarray, "T M"]
    actions: Int[np.ndarray, "T M"]
    weights: Float[np.ndarray, "T M"]
    #: The index (t, m) of each row of the demonstrations, rows of weight 0 included; None for a policy, which has none.
    places: tuple[Int[np.ndarray, " n"], Int[np.ndarray, " n"]] | None = None


def group_choices(mdp: MDP, time: np.ndarray, states: np.ndarray, actions: np.ndarray, weight: np.ndarray) -> Choices:
    """Choices, given by their rows and columns in tables, with equal ones added up and a row for each time."""
    periods = 1 if mdp.horizon is None else mdp.horizon
    num_rows, num_columns = mdp.table_shape
    code = (time * num_rows + states) * num_columns + actions
    unique, inverse = np.unique(code, return_inverse=True)
    total = np.bincount(inverse, weights=weight, minlength=len(unique))
    place, action = np.divmod(unique, num_columns)
    period, state = np.divmod(place, num_rows)
    counts = np.bincount(period, minlength=periods)
    column = np.arange(len(unique)) - np.repeat(np.cumsum(counts) - counts, counts)
    shape = (periods, min(rounded_up(int(counts.max(initial=0))), num_rows * num_columns))
    # Padding must name a choice that exists: log π of one that does not is −inf, and 0 · −inf is NaN.
    first_action = 0 if mdp.mask is None else int(np.argmax(np.asarray(mdp.mask)[:, 0]))
    places = (period[inverse], column[inverse])
    grid = Choices(np.zeros(shape, int), np.full(shape, first_action), np.zeros(shape), places)
    for target, source in ((grid.states, state), (grid.actions, action), (grid.weights, total)):
        target[period, column] = source
    return grid
