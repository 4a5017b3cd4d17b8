"""Random problems, as plain arrays for the oracles and as MDPs for the planners."""

import functools

import numpy as np
import pytest
import scipy.sparse as sp

from irlax import MDP
from tests.oracles import Problem

S, A, T, K = 3, 2, 4, 2

NATURES = ("stochastic", "deterministic")
STORES = ("dense", "successors", "scipy")
DISCOUNTS = (0.0, 0.9, 1.0)
REWARDS = ("s", "sa", "sas")


#: Every store with and without a mask, which are programs of their own, and with each discount; natures take turns, so
#: that each is met with every discount, mask and store.
EVERY_PROBLEM = [
    (NATURES[(i + j + masked) % 2], discount, masked, store)
    for i, store in enumerate(STORES)
    for masked in (False, True)
    for j, discount in enumerate(DISCOUNTS)
]
on_every_problem = pytest.mark.parametrize(("nature", "discount", "masked", "store"), EVERY_PROBLEM)


def assert_equal(actual, expected):
    """Equal to 1e-10 relative: what "equal" means for exact quantities of order 1."""
    np.testing.assert_allclose(actual, expected, rtol=1e-10, atol=1e-13)


@functools.cache
def random_problem(seed, nature="stochastic", *, discount=0.9, horizon=T, masked=False, num_states=S):
    """Dense or sparse rows as chance has it; one state keeps one action only if `masked`."""
    rng = np.random.default_rng((seed, NATURES.index(nature), int(masked)))
    shape = (num_states, A)
    if nature == "deterministic":
        transitions = np.eye(num_states)[rng.integers(num_states, size=shape)]
    else:
        transitions = rng.dirichlet(np.ones(num_states), size=shape)
        # A transition that cannot happen: log 0 and 0·log 0 must come to nothing.
        transitions[0, 0] = [0.25, 0.75] + [0.0] * (num_states - 2)
    available = np.ones(shape, bool)
    if masked:
        available[rng.integers(num_states), rng.integers(A)] = False
    problem = Problem(transitions, rng.dirichlet(np.ones(num_states)), discount, horizon, available)
    for array in (problem.transitions, problem.initial, problem.available):
        array.setflags(write=False)
    return problem


def random_reward(seed, over="sa", num_states=S):
    shape = (num_states, A, num_states)[: len(over)]
    return np.random.default_rng((seed, len(over))).normal(size=shape)


def random_policy(problem, seed, *, stationary=False):
    lead = () if stationary else (problem.horizon,)
    weight = np.random.default_rng((seed, 7)).exponential(size=(*lead, *problem.available.shape))
    weight = weight * problem.available
    return weight / weight.sum(axis=-1, keepdims=True)


def as_mdp(problem, store="dense"):
    """The MDP, with nonsense in the transition rows of actions that do not exist."""
    options = {"discount": problem.discount, "horizon": problem.horizon, "available": problem.available}
    nonsense = np.where(problem.available[..., None], problem.transitions, np.nan)
    if store == "dense":
        return MDP.from_dense(nonsense, problem.initial, **options)
    if store == "scipy":
        matrices = [sp.csr_array(nonsense[:, a]) for a in range(problem.num_actions)]
        return MDP.from_scipy(matrices, problem.initial, **options)
    return MDP.from_successors(*successor_lists(problem), problem.initial, **options)


def successor_lists(problem):
    """Every state listed twice, with a third and two thirds of its probability, in an order of no meaning."""
    num_states = problem.num_states
    order = np.random.default_rng(0).permuted(
        np.broadcast_to(np.tile(np.arange(num_states), 2), (num_states, problem.num_actions, 2 * num_states)),
        axis=-1,
    )
    seen_before = np.array([[[s in row[:i] for i, s in enumerate(row)] for row in rows] for rows in order.tolist()])
    share = np.where(seen_before, 2 / 3, 1 / 3)
    probs = np.take_along_axis(problem.transitions, order, axis=-1) * share
    absent = ~problem.available[..., None]
    return np.where(absent, num_states + 5, order), np.where(absent, -1.0, probs)


def bus_like(discount=0.95, *, num_bins=20, store="successors"):
    """A machine that wears by 0, 1 or 2 bins a period, and is kept (0) or replaced (1), as in Rust (1987)."""
    bins = np.arange(num_bins)
    kept = np.minimum(bins[:, None] + np.arange(3), num_bins - 1)
    successors = np.stack([kept, np.broadcast_to(np.arange(3), kept.shape)], axis=1)
    probs = np.broadcast_to([0.35, 0.5, 0.15], successors.shape)
    initial = np.eye(num_bins)[0]
    if store == "dense":
        dense = np.zeros((num_bins, 2, num_bins))
        np.add.at(dense, (bins[:, None, None], np.arange(2)[:, None], successors), probs)
        return MDP.from_dense(dense, initial, discount=discount)
    return MDP.from_successors(successors, probs, initial, discount=discount)


def wear_and_replacement(num_bins=20):
    """Features [S, 2, 2] of `bus_like`: minus the wear of a machine that is kept, minus one for each replacement."""
    wear, replaced = np.zeros((2, num_bins, 2))
    wear[:, 0], replaced[:, 1] = -np.arange(num_bins) / num_bins, -1.0
    return np.stack([wear, replaced], axis=-1)


def three_choices():
    """An MDP in which nothing follows from a choice, and features such that log π = (0, θ₁, θ₂) − log Σ exp."""
    transitions, features = np.zeros((2, 3, 2)), np.zeros((2, 3, 2))
    transitions[:, :, 0] = features[:, 1, 0] = features[:, 2, 1] = 1
    return MDP.from_dense(transitions, [1.0, 0.0], discount=0.5), features


def choosers(counts):
    """An episode for each individual, who takes the three actions so many times."""
    actions = np.stack([np.repeat([0, 1, 2], count) for count in counts])
    return np.zeros_like(actions), actions
