"""Tabular MDPs as environments, and episodes in them, against exact planning."""

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

import irlax as ix
from irlax.envs import RandomMDP, RiskyPath, Tabular, collect, complete, evaluate
from irlax.envs.timed import AbstractTimedEnvironment
from tests.envs.policies import Always, Uniform

NUM = 4000


@pytest.fixture(scope="module")
def problem():
    return RandomMDP(num_states=5, num_actions=3, branching=2, unavailable=0.3, discount=1.0, horizon=7, seed=2)


@pytest.fixture(scope="module")
def demos(problem):
    return collect(Tabular(problem.mdp, problem.reward), Uniform(ix.envs.Discrete(3)), NUM, key=jr.key(0))


def test_the_mean_return_is_the_expected_return_of_the_mdp_with_copies(problem, demos):
    mdp, reward = complete(problem.mdp, problem.reward)
    exact = ix.expected_return(mdp, np.full((5, 3), 1 / 3), reward)
    error = demos.returns.std() / np.sqrt(NUM)
    assert abs(demos.returns.mean() - exact) < 4 * error < 0.2


def test_missing_actions_do_what_the_first_that_exists_does(problem):
    mdp, reward = complete(problem.mdp, problem.reward)
    before, after = problem.mdp.dynamics.to_dense(), mdp.dynamics.to_dense()
    missing = 0
    for s in range(5):
        first = np.flatnonzero(problem.mdp.available[s])[0]
        for a in range(3):
            real = a if problem.mdp.available[s, a] else first
            missing += real != a
            np.testing.assert_allclose(after[s, a], before[s, real])
            assert reward[s, a] == problem.reward[s, real]
    assert missing and mdp.mask is None


def test_transitions_have_the_frequencies_of_the_mdp(problem, demos):
    mdp, _ = complete(problem.mdp, problem.reward)
    before, after = demos.observations.argmax(1), demos.next_observations.argmax(1)
    assert (demos.observations.sum(1) == 1).all()
    counts = np.zeros((5, 3, 5))
    np.add.at(counts, (before, demos.actions, after), 1)
    visits = counts.sum(-1, keepdims=True)
    probs = mdp.dynamics.to_dense()
    spread = np.sqrt(probs * (1 - probs) / visits)
    assert (np.abs(counts / visits - probs) < 5 * spread + 1e-12).all()
    starts = np.bincount(before[demos.offsets[:-1]], minlength=5) / NUM
    assert np.abs(starts - problem.mdp.initial).max() < 5 * 0.5 / np.sqrt(NUM)


def test_evaluate_gives_the_returns_of_the_same_episodes(problem, demos):
    env, policy = Tabular(problem.mdp, problem.reward), Uniform(ix.envs.Discrete(3))
    found = evaluate(env, policy, num=NUM, key=jr.key(0))
    assert found.shape == (NUM,) and found.dtype == np.float64
    np.testing.assert_allclose(found, demos.returns, rtol=1e-6, atol=1e-6)


def test_absorbing_states_end_an_episode_or_go_on():
    path = RiskyPath()
    goes_on = Tabular(path.mdp, path.reward, horizon=5)
    ends = Tabular(path.mdp, path.reward, horizon=5, terminates=True)
    safe = Always(jnp.array(RiskyPath.SAFE))
    assert goes_on.fixed_horizon and not ends.fixed_horizon
    whole, short = collect(goes_on, safe, 2, key=jr.key(0)), collect(ends, safe, 2, key=jr.key(0))
    assert whole.lengths.tolist() == [5, 5] and not whole.terminated.any()
    assert short.lengths.tolist() == [2, 2] and short.terminated.all()
    assert whole.returns.tolist() == [3, 3] and short.returns.tolist() == [0, 0]
    assert short.next_observations.argmax(1).tolist() == [1, 2, 1, 2]


def test_what_is_not_a_policy_or_an_environment_is_refused(as_a_user, problem):
    env, key = Tabular(problem.mdp, problem.reward), jr.key(0)
    with pytest.raises(TypeError, match="callable as policy"):
        collect(env, np.ones((5, 3)), 1, key=key)
    with pytest.raises(TypeError, match=r"one of 3 integers, but gives float32 of shape \(\)"):
        collect(env, Always(jnp.array(0.5)), 1, key=key)
    with pytest.raises(TypeError, match=r"floats of shape \(1,\), but gives int32"):
        evaluate(ix.envs.Pendulum(), Always(jnp.array([1])), 1, key=key)
    with pytest.raises(TypeError, match=r"Make one with `envs\.make"):
        evaluate(problem, Always(jnp.array(1)), 1, key=key)
    with pytest.raises(ValueError, match="`num` must be at least 1"):
        collect(env, Always(jnp.array(1)), 0, key=key)


ONE = np.ones((), np.int32)


class Bound:
    """A policy as a method."""

    def act(self, observation, key):
        return ONE


@pytest.mark.parametrize(
    "policy",
    [
        lambda seen, key: ONE,
        lambda seen, *, key: ONE,
        lambda seen, **more: ONE,
        Bound().act,
        jax.jit(lambda seen, key: ONE),
    ],
)
def test_a_policy_takes_an_observation_and_a_key(policy, problem):
    demos = collect(Tabular(problem.mdp, problem.reward), policy, 1, key=jr.key(0))
    assert (demos.actions == 1).all()


@pytest.mark.parametrize(
    ("policy", "taken"),
    [
        (lambda seen: 1, r"\(seen\)"),
        (lambda seen, rng: 1, r"\(seen, rng\)"),
        (lambda key: 1, r"\(key\)"),
        (lambda seen, key, temperature: 1, r"\(seen, key, temperature\)"),
    ],
)
def test_a_policy_with_other_arguments_is_told_which_to_take(as_a_user, policy, taken, problem):
    message = rf"callable as policy\(observation, key=key\), but takes {taken}. Call its random key `key`"
    env, key = Tabular(problem.mdp, problem.reward), jr.key(0)
    with pytest.raises(TypeError, match=message):
        collect(env, policy, 1, key=key)
    with pytest.raises(TypeError, match=message):
        evaluate(env, policy, 1, key=key)


@pytest.mark.parametrize("name", ["observation", "reward"])
def test_what_is_not_finite_is_refused_where_it_is_seen(name):
    class Breaks(AbstractTimedEnvironment):
        horizon: int = 3
        fixed_horizon: bool = True

        observation_size = 1
        actions = ix.envs.Discrete(2)

        def start(self, *, key):
            return jnp.zeros(())

        def move(self, inner, action, *, key):
            return inner + 1

        def observe(self, inner):
            return jnp.where((inner >= 2) & (name == "observation"), jnp.nan, inner)[None]

        def reward_of(self, inner, action, after):
            return jnp.where((after >= 2) & (name == "reward"), jnp.inf, 0.0)

        def ended(self, inner):
            return jnp.zeros((), bool)

    with pytest.raises(ValueError, match=rf"gave a .*{name} with NaN or infinite entries in episodes and steps \(0, "):
        collect(Breaks(), Always(jnp.array(0)), 1, key=jr.key(0))


def test_tables_that_do_not_fit_are_refused(as_a_user, problem):
    with pytest.raises(TypeError, match="`mdp` must be an MDP"):
        Tabular(problem, problem.reward)
    with pytest.raises(ValueError, match=r"shape \(S,\), \(S, A\) or \(S, A, S\)"):
        Tabular(problem.mdp, np.zeros((3, 5)))
    with pytest.raises(ValueError, match="`reward` must be finite"):
        Tabular(problem.mdp, np.full(5, np.nan))
    with pytest.raises(ValueError, match="has no horizon; say"):
        Tabular(RiskyPath().mdp, RiskyPath().reward)
