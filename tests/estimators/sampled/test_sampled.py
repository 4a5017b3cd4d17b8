"""Dynamics-free estimators with real samples: they get to the exact answer, and refuse what would not."""

import dataclasses
import functools

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

import irlax as ix
from irlax.envs import Tabular
from irlax.envs.experience import collect_episodes
from irlax.estimators.sampled import loop
from irlax.networks import Normaliser
from irlax.rewards import ShapedObservedReward
from irlax.rl import PPO, SAC
from irlax.status import Status
from tests.estimators.sampled.exact import variation
from tests.probes import HostBandit

STATES, ACTIONS, DISCOUNT, HORIZON = 3, 2, 0.6, 10
EPISODES = 128
#: Tables: without hidden layers, and one-hot observations left as they are.
LEARNER = PPO(temperature=1.0, discount=DISCOUNT, explore=0.0, depth=0, gae=0.8, learning_rate=3e-2, minibatches=2)
TABLE = ix.RewardNet(over="sa", depth=0, normalise=False)
STATE_TABLE = dataclasses.replace(TABLE, over="s")
COMMON = {"learner": LEARNER, "penalty": 0.0, "learning_rate": 3e-2}
#: Stops at the first chance, after `patience` rounds, with the same answer to every question but "how far".
MCE = ix.SampledMCEIRL(STATE_TABLE, rounds=ix.Rounds(num=60, episodes=EPISODES, patience=50, tol=1e9), **COMMON)
AIRL = ix.AIRL(TABLE, rounds=ix.Rounds(num=40, episodes=EPISODES, tol=0.0), **COMMON)


def explored(share):
    """AIRL in which a share of episodes starts with random actions."""
    return dataclasses.replace(AIRL, rounds=dataclasses.replace(AIRL.rounds, explore=share))


class Fixed(eqx.Module):
    """A policy of given probabilities."""

    log_policy: jax.Array

    def __call__(self, observation, key):
        return jr.categorical(key, observation @ self.log_policy)


@functools.cache
def problem():
    """An MDP, its environment, and 500 demonstrations of its soft-optimal policy."""
    stay, go = np.eye(STATES), np.roll(np.eye(STATES), 1, axis=1)
    transitions = np.stack([0.9 * stay + 0.1 * go, 0.1 * stay + 0.9 * go], axis=1)
    mdp = ix.MDP.from_dense(transitions, np.full(STATES, 1 / STATES), discount=DISCOUNT)
    reward = np.array([0.0, 1.5, -1.0])
    expert = Fixed(jnp.asarray(ix.soft_plan(mdp, reward).log_policy, jnp.float32))
    env = Tabular(mdp, reward, horizon=HORIZON)
    return mdp, env, ix.envs.collect(env, expert, 500, key=jr.key(0))


def observed_occupancy():
    """Σ γᵗ of the demonstrated steps, by state and action, as if episodes went on as they began."""
    _, _, demos = problem()
    mass = np.zeros((STATES, ACTIONS))
    np.add.at(mass, (demos.observations.argmax(axis=1), demos.actions), DISCOUNT**demos.times)
    return mass / mass.sum() / (1 - DISCOUNT)


@eqx.filter_jit
def reward_at(reward, state, action=0):
    """That of an observation, compiled as one program."""
    return reward(state, jnp.asarray(action, jnp.int32), state)


@eqx.filter_jit
def log_table_of(policy):
    return jax.vmap(policy.log_probs)(jnp.eye(STATES))


def table_of(policy):
    with jax.enable_x64(False):
        return np.exp(log_table_of(policy))


@functools.cache
def mce_fit():
    lines = []
    _, env, demos = problem()
    return MCE.fit(env, demos, key=jr.key(1), callback=lines.append), lines


@functools.cache
def airl_fits():
    _, env, demos = problem()
    return AIRL.fit_many(env, demos, num=2, key=jr.key(2))


def test_mce_from_samples_gets_to_the_mce_policy_of_the_demonstrations():
    """Rewards over states, so that it is not the demonstrated frequencies that are learned.

    A round has 1,280 steps, about 430 in each state: the frequency of an action there has a standard error of .023,
    and 0.07 is three of them.
    """
    mdp, _, _ = problem()
    exact = ix.MCEIRL().fit(mdp, ix.TabularReward("s"), occupancy=observed_occupancy())
    fit, _ = mce_fit()
    assert variation(table_of(fit.policy), exact.policy).max() < 0.07
    reward = np.array([reward_at(fit.reward, state) for state in np.eye(STATES)])
    assert variation(ix.soft_plan(mdp, reward).policy, exact.policy).max() < 0.07


def test_airl_gets_to_the_demonstrated_frequencies():
    """Which are the MCE policy for rewards over states and actions; and f is its log."""
    frequencies = observed_occupancy() / observed_occupancy().sum(axis=1, keepdims=True)
    for fit in airl_fits():
        assert variation(table_of(fit.policy), frequencies).max() < 0.07
        f = [[reward_at(fit.reward, state, np.int32(a)) for a in range(ACTIONS)] for state in np.eye(STATES)]
        np.testing.assert_allclose(f, np.log(frequencies), atol=0.15)


def test_a_fit_stops_once_the_gap_has_closed_and_each_round_was_announced():
    fit, lines = mce_fit()
    assert fit.converged and fit.iterations == MCE.rounds.patience == len(lines)
    np.testing.assert_array_equal([line.numbers["gap"] for line in lines], fit.history["gap"])
    assert fit.history["steps"][-1] == MCE.rounds.patience * EPISODES * HORIZON


def test_fits_side_by_side_that_were_killed_end_as_those_that_were_not(tmp_path):
    _, env, demos = problem()

    def kill(iterate):
        if iterate.step >= 3 * EPISODES * HORIZON:
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        run = ix.RunFolder(tmp_path, checkpoint_every=0)
        AIRL.fit_many(env, demos, num=2, key=jr.key(2), run=run, callback=kill)
    resumed = AIRL.fit_many(env, demos, num=2, key=jr.key(2), run=ix.RunFolder(tmp_path, resume=True))
    for one, other in zip(airl_fits(), resumed, strict=True):
        assert eqx.tree_equal(one.policy, other.policy) and eqx.tree_equal(one.learned, other.learned)
        np.testing.assert_array_equal(one.history["gap"], other.history["gap"])


def test_a_fit_that_is_stopped_says_so_where_it_was_asked_for():
    _, env, demos = problem()
    with pytest.warns(ix.UnfinishedWarning) as said:
        assert MCE.fit(env, demos, key=jr.key(1), callback=lambda _: True).status is Status.INTERRUPTED
    assert [warning.filename for warning in said] == [__file__]


def test_fits_side_by_side_differ_and_say_when_they_went_on_to_the_end():
    one, other = airl_fits()
    assert one.status is Status.TRAINED and one.iterations == other.iterations == AIRL.rounds.num
    assert one.history["gap"].shape == other.history["gap"].shape == (AIRL.rounds.num,)
    assert (one.history["gap"] != other.history["gap"]).any()
    assert table_of(one.policy).shape == (STATES, ACTIONS)
    assert (table_of(one.policy) != table_of(other.policy)).any()


def test_a_fit_comes_back_from_disk_bit_for_bit(tmp_path):
    fit, _ = mce_fit()
    back = ix.load(fit.save(tmp_path / "fit"))
    for part in ("policy", "learned", "history", "feature_gap", "returns"):
        one, other = (jax.tree.leaves(getattr(which, part)) for which in (fit, back))
        assert len(one) == len(other)
        for left, right in zip(one, other, strict=True):
            np.testing.assert_array_equal(left, right)
    assert (back.status, back.settings, str(back.summary())) == (fit.status, fit.settings, str(fit.summary()))


def test_a_bowl_and_its_rich_potential_are_saved(tmp_path):
    _, env, demos = problem()
    reward = dataclasses.replace(STATE_TABLE, quadratic=True, width=4)
    potential, rounds = ix.RewardNet(over="s", width=8, depth=1), ix.Rounds(num=1, episodes=EPISODES)
    estimator = dataclasses.replace(AIRL, reward=reward, potential=potential, rounds=rounds)
    fit = estimator.fit(env, demos, key=jr.key(0))
    back = ix.load(fit.save(tmp_path / "fit"))
    for here, there in [(0, 1), (1, 2), (2, 2)]:
        step = jnp.eye(STATES)[here], jnp.int32(0), jnp.eye(STATES)[there]
        assert back.learned(*step) == fit.learned(*step) and back.reward(*step) == fit.reward(*step) <= 0


def test_rewards_over_actions_are_not_transferred():
    with pytest.raises(ValueError, match="over='s'"):
        _ = airl_fits()[0].transferable_reward
    assert mce_fit()[0].transferable_reward.over == "s"


@pytest.mark.parametrize("make", [ix.AIRL, ix.SampledMCEIRL, ix.GCL, ix.GANGCL])
@pytest.mark.parametrize("learner", [PPO(temperature=0.5), SAC(temperature="auto")])
def test_entropy_is_counted_once(make, learner):
    with pytest.raises(ValueError, match=r"temperature=1\.0"):
        make(learner=learner)


def test_a_potential_has_the_learners_discount():
    _, env, demos = problem()
    part = AIRL.make_reward(Normaliser.init(STATES), env.actions, key=jr.key(0))
    with pytest.raises(ValueError, match=r"the learner by 0\.6"):
        AIRL.fit(env, demos, init_reward=ShapedObservedReward(part, part, 0.9), key=jr.key(0))


def test_episodes_of_their_own_length_are_refused():
    _, _, demos = problem()
    ends = np.zeros((STATES, ACTIONS, STATES))
    ends[:, :, 0] = 1
    absorbing = ix.MDP.from_dense(ends, np.eye(STATES)[1], discount=DISCOUNT)
    env = Tabular(absorbing, np.zeros(STATES), horizon=HORIZON, terminates=True)
    assert not env.fixed_horizon
    with pytest.raises(ValueError, match="Absorbing"):
        AIRL.fit(env, demos, key=jr.key(0))


def test_paths_that_stop_short_are_refused():
    mdp, _, demos = problem()
    longer = Tabular(mdp, np.zeros(STATES), horizon=HORIZON + 1)
    for make in (ix.GCL, ix.GANGCL):
        with pytest.raises(ValueError, match="whole episodes, of 11 steps"):
            make(learner=LEARNER).fit(longer, demos, key=jr.key(0))


def test_what_is_no_environment_is_refused(as_a_user):
    mdp, env, demos = problem()
    with pytest.raises(TypeError, match="must be an environment, but is a MDP"):
        AIRL.fit(mdp, demos, key=jr.key(0))
    with pytest.raises(TypeError, match="must be an environment, but is a HostBandit"):
        AIRL.fit(HostBandit(EPISODES), demos, key=jr.key(0))
    with pytest.raises(TypeError, match="must be Demonstrations"):
        AIRL.fit(env, demos.actions, key=jr.key(0))


def test_an_environment_of_the_host_steps_as_many_as_a_round_takes():
    host = ix.envs.make("gymnasium:CartPole-v1", num_envs=2, horizon=5, after_end="fixed-horizon")
    demos = ix.envs.collect(host, lambda observation, key: 0, 3, key=jr.key(0))
    with pytest.raises(ValueError, match="episodes=2"):
        dataclasses.replace(AIRL, rounds=ix.Rounds(episodes=16)).fit(host, demos, key=jr.key(0))
    host.close()


def test_exploring_shows_the_reward_where_nobody_goes():
    """On a long line an expert strolls about the middle, as the policy does from the start.

    Random actions that are held lead further out, and only with them is anything heard of the ends.
    """
    size, middle = 21, 10
    moves = np.stack([np.eye(size)[np.clip(np.arange(size) + step, 0, size - 1)] for step in (-1, 1)], axis=1)
    mdp = ix.MDP.from_dense(moves, np.eye(size)[middle], discount=DISCOUNT)
    env = Tabular(mdp, np.zeros(size), horizon=HORIZON)
    demos = ix.envs.collect(env, Fixed(jnp.zeros((size, 2))), 500, key=jr.key(0))
    out = {}
    for explore in (0.0, 0.5):
        fit = dataclasses.replace(explored(explore), reward=STATE_TABLE).fit(env, demos, key=jr.key(1))
        values = np.array([reward_at(fit.reward, state) for state in np.eye(size)])
        out[explore] = values[[2, 3, 17, 18]].mean() - values[middle]
    assert out[0.5] < -0.5 < -0.2 < out[0.0]


@pytest.mark.parametrize(("gaps", "closed"), [([0.2, -0.2, 0.1, -0.1], True), ([0.8, -0.8, 0.7, -0.7], False)])
def test_swinging_from_side_to_side_is_not_convergence(gaps, closed):
    assert ix.Rounds(tol=0.05, patience=4).closed(np.array([1.0, *gaps])) == closed


def test_random_episodes_are_not_what_is_reported():
    _, env, demos = problem()
    estimator, expert = loop.validate(explored(0.5), env, demos, None, None)

    @eqx.filter_jit
    def first_round(expert):
        state = estimator.init(STATES, env.actions, HORIZON, expert, key=jr.key(0))
        rollout = collect_episodes(env, state.policy, EPISODES, explore=0.5, key=jr.key(1))
        return rollout, estimator.step(state, expert, rollout, key=jr.key(2))[1]

    with jax.enable_x64(False):
        rollout, info = first_round(expert)
    random = np.asarray(rollout.explored).any(axis=0)
    assert 0.3 < random.mean() < 0.7
    assert info["return"] == pytest.approx(np.asarray(rollout.reward).sum(axis=0)[~random].mean(), rel=1e-5)


@pytest.mark.parametrize("make", [ix.GCL, ix.GANGCL])
def test_random_paths_have_no_density(make):
    with pytest.raises(ValueError, match="`explore` must be 0"):
        make(rounds=ix.Rounds(explore=0.1))


@pytest.mark.parametrize("explore", [-0.1, 1.0, np.nan])
def test_some_episodes_are_the_policys(explore):
    with pytest.raises(ValueError, match="explore"):
        ix.Rounds(explore=explore)


def test_a_potential_has_a_network_of_its_own():
    estimator = ix.AIRL(reward=ix.RewardNet("s", width=4, depth=1), potential=ix.RewardNet("s", width=8, depth=2))
    reward = eqx.filter_jit(estimator.make_reward)(Normaliser.init(STATES), ix.envs.Discrete(2), key=jr.key(0))
    shapes = [[weight.shape for weight in part.network.weights] for part in (reward.base, reward.potential)]
    assert shapes == [[(4, STATES), (1, 4)], [(8, STATES), (8, 8), (1, 8)]]
    with pytest.raises(ValueError, match="function of states"):
        ix.AIRL(potential=ix.RewardNet(over="sa"))


def test_each_reward_is_normalised_as_its_own_settings_say():
    statistics = Normaliser.init(STATES).update(jnp.arange(6.0).reshape(2, STATES))
    estimator = ix.AIRL(ix.RewardNet("s"), potential=ix.RewardNet("s", normalise=False))
    reward = eqx.filter_jit(estimator.make_reward)(statistics, ix.envs.Discrete(2), key=jr.key(0))
    assert reward.base.normaliser.count == 2 and reward.potential.normaliser.count == 0


@pytest.mark.parametrize("make", [ix.AIRL, ix.SampledMCEIRL, ix.GCL, ix.GANGCL, ix.GAIL])
def test_wrong_settings_are_told_where_they_belong(as_a_user, make):
    _, env, _ = problem()
    start = ix.RewardNet().init(Normaliser.init(STATES), env.actions, key=jr.key(0))
    with pytest.raises(TypeError, match="init_reward"):
        make(reward=start)
    with pytest.raises(TypeError, match="Rounds"):
        make(rounds=300)
    with pytest.raises(TypeError, match="learner"):
        make(learner="ppo")
    with pytest.raises(ValueError, match="`learning_rate`"):
        make(learning_rate=0.0)


def test_a_reward_to_start_from_is_a_reward_of_observations(as_a_user):
    _, env, demos = problem()
    with pytest.raises(TypeError, match="AbstractObservedReward"):
        AIRL.fit(env, demos, init_reward=np.zeros(STATES), key=jr.key(0))
