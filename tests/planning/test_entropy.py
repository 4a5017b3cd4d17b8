import numpy as np
import pytest

from irlax import (
    causal_entropy,
    conditional_entropy,
    soft_plan,
    trajectory_entropy,
    transition_entropy,
)
from irlax.envs import RandomMDP
from tests import oracles
from tests.problems import (
    A,
    S,
    T,
    as_mdp,
    assert_equal,
    on_every_problem,
    random_policy,
    random_problem,
    random_reward,
)


@on_every_problem
def test_entropies_are_those_of_the_law_of_paths(nature, discount, masked, store):
    problem = random_problem(60, nature, discount=discount, masked=masked)
    mdp, policy = as_mdp(problem, store), random_policy(problem, 60)
    law = oracles.decision_law(problem, policy)
    # The oracle takes differences of joint entropies, which leave rounding of a few ulp where the rest is zero.
    close = {"rtol": 1e-10, "atol": 1e-14 * T * S * A}
    for measure, oracle in [
        (causal_entropy, oracles.causal_entropy),
        (transition_entropy, oracles.transition_entropy),
        (trajectory_entropy, oracles.trajectory_entropy),
        (conditional_entropy, oracles.conditional_entropy),
    ]:
        np.testing.assert_allclose(measure(mdp, policy), oracle(law, discount), **close)


@on_every_problem
def test_trajectory_entropy_is_transition_plus_causal_entropy(nature, discount, masked, store):
    problem = random_problem(61, nature, discount=discount, masked=masked)
    mdp, policy = as_mdp(problem, store), random_policy(problem, 61)
    together = oracles.trajectory_entropy(oracles.decision_law(problem, policy), discount)
    np.testing.assert_allclose(transition_entropy(mdp, policy) + causal_entropy(mdp, policy), together, rtol=1e-10)


@pytest.mark.parametrize("horizon", [1, 5])
def test_entropies_at_every_horizon(horizon):
    problem = random_problem(62, discount=1.0, horizon=horizon)
    mdp, policy = as_mdp(problem), random_policy(problem, 62)
    law = oracles.decision_law(problem, policy)
    assert_equal(trajectory_entropy(mdp, policy), oracles.shannon(law, range(2 * horizon)))
    assert_equal(conditional_entropy(mdp, policy), oracles.conditional_entropy(law, 1.0))


@pytest.mark.parametrize("horizon", [T, None])
@pytest.mark.parametrize("seed", range(3))
def test_who_sees_later_states_is_less_surprised_by_actions(horizon, seed):
    problem = random_problem(seed, discount=0.9, horizon=horizon)
    mdp, policy = as_mdp(problem), random_policy(problem, seed, stationary=horizon is None)
    assert conditional_entropy(mdp, policy) < causal_entropy(mdp, policy) - 1e-3


@pytest.mark.parametrize("horizon", [T, None])
def test_later_states_tell_nothing_of_actions_that_do_the_same(horizon):
    problem = random_problem(63, discount=0.9, horizon=horizon)
    problem = problem._replace(transitions=np.repeat(problem.transitions[:, :1], A, axis=1))
    mdp, policy = as_mdp(problem), random_policy(problem, 63, stationary=horizon is None)
    assert_equal(conditional_entropy(mdp, policy), causal_entropy(mdp, policy))


def test_later_states_tell_all_of_actions_that_lead_elsewhere():
    """Only the last action, which no observed state follows, stays uncertain."""
    transitions = np.zeros((S, A, S))
    transitions[np.arange(S), 0, (np.arange(S) + 1) % S] = transitions[np.arange(S), 1, np.arange(S)] = 1
    problem = random_problem(64, discount=1.0)._replace(transitions=transitions)
    mdp, policy = as_mdp(problem, "successors"), random_policy(problem, 64)
    law = oracles.decision_law(problem, policy)
    last = oracles.given(law, [2 * T - 1], [2 * T - 2])
    assert_equal(conditional_entropy(mdp, policy), last)


@pytest.mark.parametrize("store", ["dense", "successors"])
def test_nature_contributes_nothing_when_dynamics_and_start_are_deterministic(store):
    problem = random_problem(65, "deterministic", discount=0.9).starting_in(1)
    mdp, policy = as_mdp(problem, store), random_policy(problem, 65)
    assert transition_entropy(mdp, policy) == 0
    assert trajectory_entropy(mdp, policy) == causal_entropy(mdp, policy) > 0.5


@pytest.mark.parametrize("horizon", [T, None])
def test_uniform_choices_have_the_log_of_their_number_and_sure_ones_none(horizon):
    problem = random_problem(66, discount=0.9, horizon=horizon)
    mdp = as_mdp(problem)
    steps = 10 if horizon is None else sum(0.9**t for t in range(T))
    assert_equal(causal_entropy(mdp, np.full((S, A), 0.5)), np.log(2) * steps)
    sure = np.eye(A)[[0, 1, 0]]
    assert causal_entropy(mdp, sure) == conditional_entropy(mdp, sure) == 0


@pytest.mark.parametrize(("store", "masked"), [("dense", False), ("successors", True)])
@pytest.mark.parametrize("discount", [0.0, 0.5, 0.9])
def test_endless_entropies_are_those_of_a_long_horizon(store, masked, discount):
    problem = random_problem(67, discount=discount, horizon=None, masked=masked)
    mdp, policy = as_mdp(problem, store), random_policy(problem, 67, stationary=True)
    long = mdp.replace(horizon=400)
    for measure in (causal_entropy, transition_entropy, trajectory_entropy, conditional_entropy):
        np.testing.assert_allclose(measure(mdp, policy), measure(long, policy), rtol=1e-8)


def test_entropies_accept_a_plan():
    problem = random_problem(68)
    mdp = as_mdp(problem)
    plan = soft_plan(mdp, random_reward(68))
    for measure in (causal_entropy, transition_entropy, trajectory_entropy, conditional_entropy):
        assert_equal(measure(mdp, plan), measure(mdp, plan.policy))


def test_conditional_entropy_of_a_large_problem_is_refused():
    mdp = RandomMDP(num_states=6000, num_actions=2, branching=1).mdp
    with pytest.raises(ValueError, match="one array of 72000000 entries; it is meant for small problems"):
        conditional_entropy(mdp, np.full((6000, 2), 0.5))
