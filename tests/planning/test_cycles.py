"""Optimal policies at γ = 1 with no horizon, where there may be cycles: against enumeration of all policies."""

import itertools
import re

import jax
import numpy as np
import pytest
from scipy.sparse.csgraph import connected_components

import irlax as ix

#: All problems have these shapes: states 0, 1, 2 and an end; action 0 leads to the end from everywhere.
S, A, END = 4, 3, 3

#: Random problems with a cycle that does not lose, with a free cycle that is better than any end, and without.
NO_LIMIT = [("deterministic", 5), ("deterministic", 6), ("stochastic", 1), ("stochastic", 5)]
STAYING = [("deterministic", 12), ("deterministic", 14), ("deterministic", 16), ("stochastic", 3), ("stochastic", 30)]
ENDING = [("deterministic", 4), ("stochastic", 7), ("stochastic", 28)]


def random_cycles(seed, nature):
    """Transitions, rewards and what is available, with many zeros among the rewards."""
    rng = np.random.default_rng((seed, nature == "deterministic"))
    transitions, reward = np.zeros((S, A, S)), np.zeros((S, A))
    for state, action in itertools.product(range(END), range(1, A)):
        first, second = rng.integers(S, size=2)
        share = 1.0 if nature == "deterministic" else rng.choice([0.25, 0.5, 1 / 3])
        transitions[state, action, first] += share
        transitions[state, action, second] += 1 - share
        reward[state, action] = rng.choice([0, 0, 0, -0.3, -1, 0.3])
    reward[:END, 0] = rng.choice([-2, -1, -0.5, -0.3, 0.4], size=END)
    transitions[:, 0] = transitions[END] = np.eye(S)[END]
    available = np.ones((S, A), bool)
    available[END, 1:] = False
    return transitions, reward, available


def as_mdp(transitions, available, discount=1.0):
    return ix.MDP.from_dense(transitions, np.eye(S)[0], discount=discount, available=available)


def closed_classes(chain):
    num, label = connected_components(chain > 0, directed=True, connection="strong")
    return [np.flatnonzero(label == k) for k in range(num) if not chain[np.ix_(label == k, label != k)].any()]


def total_reward(chain, reward):
    """The total of a policy that ends or goes round for nothing; −inf if it loses for ever, None if it does not."""
    ends = np.arange(S) == END
    for states in closed_classes(chain):
        if not reward[states].any():
            ends[states] = True
            continue
        size = len(states)
        balance = np.vstack([chain[np.ix_(states, states)].T - np.eye(size), np.ones(size)])
        shares = np.linalg.lstsq(balance, np.append(np.zeros(size), 1), rcond=None)[0]
        return None if shares @ reward[states] > -1e-12 else np.full(S, -np.inf)
    value, going = np.zeros(S), ~ends
    value[going] = np.linalg.solve(np.eye(going.sum()) - chain[np.ix_(going, going)], reward[going])
    return value


def best_total_reward(transitions, reward, available):
    """The best total of all deterministic policies, or None if a cycle does not lose."""
    each = np.arange(S)
    choices = itertools.product(*(np.flatnonzero(row) for row in available))
    totals = [total_reward(transitions[each, choice], reward[each, choice]) for choice in map(list, choices)]
    return None if any(total is None for total in totals) else np.max(totals, axis=0)


def value_near_one(transitions, reward, available, discount=1 - 1e-6):
    """Policy iteration with a discount near 1, in NumPy."""
    each, choice = np.arange(S), np.zeros(S, int)
    while True:
        value = np.linalg.solve(np.eye(S) - discount * transitions[each, choice], reward[each, choice])
        q = np.where(available, reward + discount * transitions @ value, -np.inf)
        better = q.max(axis=1) > q[each, choice] + 1e-9
        if not better.any():
            return value
        choice = np.where(better, q.argmax(axis=1), choice)


@pytest.mark.parametrize(("nature", "seed"), [*NO_LIMIT, *STAYING, *ENDING])
def test_value_is_the_best_total_reward_of_all_policies(nature, seed):
    problem = random_cycles(seed, nature)
    transitions, reward, available = problem
    expected, mdp = best_total_reward(*problem), as_mdp(transitions, available)
    assert (expected is None) == ((nature, seed) in NO_LIMIT)
    if expected is None:
        with pytest.raises(ValueError, match=r"There is no best policy: .* through states \d"):
            ix.hard_plan(mdp, reward)
        return
    plan = ix.hard_plan(mdp, reward)
    assert np.abs(plan.value - expected).max() <= plan.error_bound + 1e-14
    np.testing.assert_allclose(plan.value, value_near_one(*problem), atol=1e-4)
    chain, gain = np.einsum("sa,sat->st", plan.policy, transitions), (plan.policy * reward).sum(axis=1)
    np.testing.assert_allclose(total_reward(chain, gain), expected, atol=1e-12)
    np.testing.assert_allclose(ix.expected_return(mdp, plan, reward), expected[0], atol=1e-12)


def ways(edges, num_states=S):
    """An MDP of certain moves (s, s', r), and its rewards; the last state is the end."""
    successors, reward = np.zeros((num_states, A, 1), int), np.zeros((num_states, A))
    available = np.zeros((num_states, A), bool)
    for state, after, paid in [*edges, (num_states - 1, num_states - 1, 0.0)]:
        action = available[state].sum()
        successors[state, action], reward[state, action], available[state, action] = after, paid, True
    probs = np.ones(successors.shape)
    return ix.MDP.from_successors(successors, probs, np.eye(num_states)[0], discount=1, available=available), reward


ON = [(1, 2, -1.0), (2, END, -1.0)]


def test_staying_for_nothing_is_better_than_a_costly_end():
    mdp, reward = ways([(0, 0, 0.0), (0, 1, -1.0), *ON])
    plan = ix.hard_plan(mdp, reward)
    assert np.array_equal(plan.value, [0, -2, -1, 0])
    assert np.array_equal(plan.policy[0], [1, 0, 0])


def test_an_end_that_pays_is_better_than_staying_for_nothing():
    mdp, reward = ways([(0, 1, 0.0), (1, 0, 0.0), (1, 2, 0.0), (2, 1, 0.0), (2, END, 5.0)])
    plan = ix.hard_plan(mdp, reward)
    assert np.array_equal(plan.value, [5, 5, 5, 0])
    assert np.isfinite(ix.occupancy(mdp, plan)).all()


def test_a_free_cycle_may_be_left_for_a_better_one():
    mdp, reward = ways([(0, 0, 0.0), (0, 1, 0.5), (1, 1, 0.0), (1, 2, -1.5), (2, END, 0.0)])
    assert np.array_equal(ix.hard_plan(mdp, reward).value, [0.5, 0, 0, 0])


def test_equally_good_ways_of_different_length_are_certified():
    edges = [(0, 5, -4.0), (0, 1, -0.5), (1, 2, -1.0), (2, 3, -1.0), (3, 4, -1.0), (4, 5, -0.5)]
    mdp, reward = ways(edges, num_states=6)
    plan = ix.hard_plan(mdp, reward)
    assert np.array_equal(plan.value, [-4, -3.5, -2.5, -1.5, -0.5, 0])
    assert np.array_equal(plan.policy[0], [0.5, 0.5, 0])
    assert plan.error_bound < 1e-12


@pytest.mark.parametrize("back", [-1.0, -0.5])
def test_cycles_that_earn_what_they_cost_or_more_are_named(back):
    mdp, reward = ways([(0, 1, -1.0), (1, 2, 1.0), (2, 1, back), (1, END, -1.0)])
    message = "a cycle through states 1, 2 earns what it costs, or more"
    with pytest.raises(ValueError, match=re.escape(message)):
        ix.hard_plan(mdp, reward)


def test_a_policy_that_never_ends_has_no_visits_but_may_have_a_return():
    mdp, reward = ways([(0, 0, 0.0), (0, 1, -1.0), *ON])
    stays = np.zeros((S, A))
    stays[:, 0] = 1
    message = "a policy must reach the end, but from states 0 it never does, and its visits are infinite."
    for policy, measure in itertools.product((stays, ix.hard_plan(mdp, reward)), (ix.occupancy, ix.causal_entropy)):
        with pytest.raises(ValueError, match=re.escape(message)):
            measure(mdp, policy)
    assert ix.expected_return(mdp, stays, reward) == 0
    with pytest.raises(ValueError, match=re.escape("but from states 0 it earns rewards for ever")):
        ix.expected_return(mdp, stays, reward + (np.arange(S) < END)[:, None])


def test_inside_jit_the_value_is_that_of_policies_that_end():
    mdp, reward = ways([(0, 0, 0.0), (0, 1, -1.0), *ON])
    with jax.enable_x64(True):
        value = jax.jit(lambda reward: ix.hard_plan(mdp, reward).value)(reward)
    np.testing.assert_allclose(value, [-3, -2, -1, 0])


def test_states_with_many_actions_go_round_too():
    """A hub from which 40 ways lead out and back for nothing, in several rows of a table."""
    hub, spokes, end = 0, np.arange(1, 41), 41
    states = np.concatenate([np.full(41, hub), spokes, [end]])
    successors = np.concatenate([spokes, [end], np.full(40, hub), [end]])
    mdp = ix.MDP.from_actions(states, successors, np.eye(42)[0], discount=1)
    assert mdp.table_shape[0] > 42
    reward = np.zeros(mdp.table_shape)
    reward[mdp.cells([hub], [40])] = -1
    assert np.array_equal(ix.hard_plan(mdp, reward).value, np.zeros(42))
    reward[mdp.cells([hub], [40])] = 1
    assert np.array_equal(ix.hard_plan(mdp, reward).value, np.append(np.ones(41), 0))


def test_single_precision_stays_single():
    mdp, reward = ways([(0, 0, 0.0), (0, 1, -1.0), *ON])
    plan = ix.hard_plan(mdp.single_precision(), reward, tol=1e-4)
    assert plan.value.dtype == np.float32
    assert np.array_equal(plan.value, [0, -2, -1, 0])
