"""Estimators with a replay: what they learn from, where it leads, and that a killed fit ends as if it had not been."""

import dataclasses
import itertools
from types import SimpleNamespace

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

import irlax as ix
from irlax.envs import Tabular
from irlax.envs.experience import Transition
from irlax.estimators.sampled import loop
from irlax.estimators.sampled.control import half_square_slope
from irlax.estimators.sampled.gail import DiscriminatorReward
from irlax.estimators.sampled.steps import Steps, Window, draw, steps_of_demos, with_ends
from irlax.networks import Normaliser
from irlax.rl import PPO, SAC
from irlax.rl.replay import Buffer
from irlax.spaces import Box
from tests.estimators.sampled.exact import variation
from tests.estimators.sampled.test_sampled import DISCOUNT, STATE_TABLE, STATES, problem, reward_at, table_of
from tests.estimators.sampled.test_termination import ALIVE, LEAVE, STAY
from tests.probes import NormalBandit

TABULAR_SAC = SAC(
    temperature=1.0,
    discount=DISCOUNT,
    num_envs=16,
    length=8,
    updates=24,
    batch_size=256,
    capacity=8192,
    warmup=1,
    depth=0,
    learning_rate=1e-2,
    tau=0.05,
    explore=0.0,
)
REPLAYED = ix.SampledMCEIRL(
    STATE_TABLE,
    learner=TABULAR_SAC,
    rounds=ix.Rounds(num=250, steps=128, tol=0.0),
    discounted=False,
    penalty=0.0,
    updates=4,
    batch_size=512,
    learning_rate=1e-2,
    recent=16,
)
#: A few rounds of the settings for control, small. An entropy is asked for that a policy can hardly have.
SMALL = {
    "reward": ix.RewardNet(width=8, depth=1),
    "learner": dataclasses.replace(
        ix.SampledMCEIRL.for_control().learner,
        width=8,
        depth=1,
        batch_size=16,
        capacity=256,
        num_envs=2,
        updates=1,
        target_entropy=5.0,
        learning_rate=0.05,
    ),
    "rounds": ix.Rounds(num=8, steps=32, tol=0.0),
    "updates": 2,
    "batch_size": 16,
}


class KilledError(Exception):
    pass


def transitions(first, num, *, terminated=()):
    """Rows that are numbered from `first` on."""
    number = np.arange(first, first + num, dtype=np.float32)
    ended, flags = np.isin(number, terminated), np.zeros(num, bool)
    return Transition(number[:, None], number.astype(np.int32), number, number[:, None], ended, flags, flags, number)


def test_a_window_holds_the_newest_rows_of_the_ring():
    buffer, add = Buffer.init(12, 1, np.zeros((), np.int32)), jax.jit(Buffer.add)
    for first in range(0, 20, 4):
        buffer = add(buffer, transitions(first, 4, terminated=[3, 13, 18]))
    window = Window.of(buffer, 7, 10.0)
    drawn = eqx.filter_jit(window.draw)(2000, key=jr.key(0))
    assert set(np.asarray(drawn.action[:-1]).tolist()) == set(range(13, 20))
    # Two of seven rows ended an episode; each end counts as ten steps.
    assert window.ends == 2 and drawn.over[-1] and not drawn.over[:-1].any()
    assert drawn.weight[-1] / drawn.weight.sum() == pytest.approx(20 / 27)
    assert Window.of(buffer, 100, 0.0).size == 12 and Window.of(buffer, 7, 0.0).draw(5, key=jr.key(0)).over is None


def test_ends_of_demonstrations_count_as_the_steps_after_them():
    demos = ix.Demonstrations.from_observations([np.zeros((4, 2)), np.ones((6, 2))], terminated=[True, False])
    steps = with_ends(steps_of_demos(demos, ix.envs.Discrete(2), 0.9), demos, 10.0)
    drawn = draw(steps, 20_000, key=jr.key(0))
    assert np.asarray(drawn.over).mean() == pytest.approx(10 / 18, abs=0.02)


def test_slopes_are_those_of_finite_differences():
    """Between each step and itself, so that nothing is left to chance."""
    demos = ix.Demonstrations.from_observations([np.array([[1.0, 2.0], [3.0, -1.0], [0.5, 0.5]])])
    steps = steps_of_demos(demos, Box(-np.ones(1), np.ones(1)), 0.9)
    reward = eqx.filter_jit(ix.RewardNet(over="s", width=8, normalise=False).init)(
        Normaliser.init(2), Box(-np.ones(1), np.ones(1)), key=jr.key(0)
    )
    found = eqx.filter_jit(half_square_slope)(reward, steps, steps, key=jr.key(1))
    at = [np.asarray(row, np.float64) for row in steps.observation]
    by_hand = []
    for point in at:
        moved = [[jnp.asarray(point + sign * step, jnp.float32) for sign in (1, -1)] for step in 1e-2 * np.eye(2)]
        values = [[float(reward_at(reward, place)) for place in pair] for pair in moved]
        by_hand.append(sum(((up - down) / 2e-2) ** 2 for up, down in values))
    inputs = 2
    assert found == pytest.approx(inputs * np.mean(by_hand) / 2, rel=1e-2)


def test_slopes_of_a_reward_that_reads_everything_twice_are_the_same():
    """Half the weight on each of two copies is the same reward, and no two steps are farther apart by the mean."""
    rng = np.random.default_rng(0)
    once = rng.normal(size=(5, 3)).astype(np.float32)

    def slope(observations, share):
        size, ones = observations.shape[1], np.ones(len(observations), np.float32)
        steps = Steps(observations, np.zeros((len(ones), 1), np.float32), observations, ones, ones)
        settings = ix.RewardNet(over="s", depth=0, normalise=False)
        reward = settings.init(Normaliser.init(size), Box(-np.ones(1), np.ones(1)), key=jr.key(0))
        weights = share * np.tile([1.0, -2.0, 0.5], size // 3)[None].astype(np.float32)
        reward = eqx.tree_at(lambda reward: reward.network.weights[0], reward, weights)
        return float(half_square_slope(reward, steps, steps, key=jr.key(1)))

    assert slope(np.tile(once, 2), 0.5) == pytest.approx(slope(once, 1.0), rel=1e-5)
    assert slope(once, 1.0) == pytest.approx(3 * (1 + 4 + 0.25) / 2, rel=1e-5)


def test_sac_gets_to_the_policy_of_exact_mce_irl():
    """The demonstrator is soft-optimal for a reward over states, so that it satisfies the condition on even weights.

    The demonstrations have 5,000 steps, of which the frequencies are known to about .012 in each state. The reward is
    learned in a unit of a half, and given back in units in which the demonstrator's temperature is 1.
    """
    mdp, env, demos = problem()
    learner = dataclasses.replace(TABULAR_SAC, temperature=0.5, keep_entropy=True, target_entropy=-5.0)
    exact = ix.MCEIRL().fit(mdp, ix.TabularReward("s"), ix.soft_plan(mdp, np.array([0.0, 1.5, -1.0])).policy)
    fit = dataclasses.replace(REPLAYED, learner=learner).fit(env, demos, key=jr.key(1))
    assert fit.history["temperature"][-1] == pytest.approx(0.5)
    assert variation(table_of(fit.policy), exact.policy).max() < 0.07
    reward = np.array([reward_at(fit.reward, state) for state in np.eye(STATES)])
    assert variation(ix.soft_plan(mdp, reward).policy, exact.policy).max() < 0.07


def mostly(action):
    """Episodes of up to 20 steps in which nine of ten actions are this one.

    Steps and ends are 1,100 in all, whichever it is, so that the same programs fit both.
    """
    stays, leaves = (900, 100) if action == STAY else (58, 521)
    actions = np.random.default_rng(0).permutation(np.repeat([STAY, LEAVE], [stays, leaves]))
    episodes, taken = [], []
    for chosen in actions:
        taken.append(chosen)
        if chosen == LEAVE or len(taken) == 20:
            episodes.append(taken)
            taken = []
    episodes += [taken] if taken else []
    return ix.Demonstrations.from_trajectories(
        SimpleNamespace(
            obs=np.eye(2)[[0] * len(episode) + [int(episode[-1] == LEAVE)]],
            acts=np.array(episode),
            terminal=episode[-1] == LEAVE,
        )
        for episode in episodes
    )


@pytest.mark.parametrize("action", [STAY, LEAVE])
def test_the_end_has_a_reward_of_its_own(action):
    """The problem of `test_termination`, without an absorbing state that is observed."""
    mdp = ix.MDP.from_dense([[[1, 0], [0, 1]], [[0, 1], [0, 1]]], [1, 0], discount=0.9, horizon=20)
    env = Tabular(mdp, np.zeros(2), terminates=True)
    demos = mostly(action)
    learner = dataclasses.replace(TABULAR_SAC, discount=0.9)
    fit = dataclasses.replace(REPLAYED, learner=learner).fit(env, demos, key=jr.key(2))
    alive = jnp.asarray(ALIVE[:2])
    start = float(fit.reward(alive, 0, alive))
    assert fit.learned.after_end < start - 0.1 if action == STAY else fit.learned.after_end > start - 0.1
    assert np.exp(fit.policy.log_probs(alive))[action] == pytest.approx(0.9, abs=0.07)


@pytest.mark.parametrize("action", [STAY, LEAVE])
def test_where_entropy_is_kept_the_end_has_the_reward_of_temperature_one(action):
    """Nine of ten actions are the same, which the policy may not do: it is soft-optimal for what the fit returns."""
    mdp = ix.MDP.from_dense([[[1, 0], [0, 1]], [[0, 1], [0, 1]]], [1, 0], discount=0.9, horizon=20)
    env = Tabular(mdp, np.zeros(2), terminates=True)
    learner = dataclasses.replace(TABULAR_SAC, discount=0.9, temperature=0.5, keep_entropy=True, target_entropy=0.5)
    fit = dataclasses.replace(REPLAYED, learner=learner, penalty=0.1, keep_penalty=True).fit(
        env, mostly(action), key=jr.key(2)
    )
    alive = jnp.asarray(ALIVE[:2])
    probabilities = np.exp(fit.policy.log_probs(alive))
    # The entropy of four of five.
    assert probabilities[action] == pytest.approx(0.8, abs=0.04)
    assert fit.history["temperature"][-1] > 0.55 and fit.learned.more_after_end != 0
    endless = ix.MDP.from_dense(
        [[[1, 0], [0, 1]], [[0, 1], [0, 1]]], [1, 0], discount=0.9, available=[[True, True], [True, False]]
    )
    now, after = float(fit.reward(alive, 0, alive)), float(fit.reward.after_end)
    exact = ix.soft_plan(endless, np.array([[now, now], [after, 0.0]])).policy[0]
    assert probabilities == pytest.approx(exact, abs=0.05)


def test_the_reward_after_an_end_may_be_learned_faster():
    """Adam's first step is the learning rate, whatever the gradient."""
    env = Tabular(ix.MDP.from_dense(np.eye(2)[:, None], [1, 0], discount=0.9, horizon=4), np.zeros(2), terminates=True)
    demos = ix.Demonstrations.from_observations([np.eye(2)[[0, 0, 1]]], terminated=[True])
    expert = with_ends(steps_of_demos(demos, env.actions, DISCOUNT), demos, 10.0)
    buffer = Buffer.init(4, 2, np.zeros((), np.int32)).add(
        transitions(0, 4)._replace(observation=np.eye(2)[[0, 1, 0, 1]], next_observation=np.eye(2)[[1, 0, 1, 0]])
    )
    estimator = dataclasses.replace(REPLAYED, updates=1, batch_size=4, end_rate=10.0)

    @eqx.filter_jit
    def improved(buffer):
        state = estimator.init(2, env.actions, 4, expert, key=jr.key(0))
        window = Window.of(buffer, 4, 10.0)
        return state.reward, estimator._improve(state, expert, window, rate=1.0, key=jr.key(1))[0]

    before, reward = improved(buffer)
    moved = reward.network.weights[0] - before.network.weights[0]
    assert np.abs(moved).max() == pytest.approx(0.01, rel=1e-2)
    assert reward.after_end == pytest.approx(0.1, rel=1e-2)


def test_gails_reward_is_minus_log_one_minus_d_or_the_log_odds():
    table = ix.RewardNet(over="s", depth=0, normalise=False).init(
        Normaliser.init(3), ix.envs.Discrete(2), key=jr.key(0)
    )
    logits = dataclasses.replace(table, end=jnp.float32(-2.0))
    for state in np.eye(3, dtype=np.float32):
        odds = np.exp(float(reward_at(logits, state)))
        rewards = [float(reward_at(DiscriminatorReward("s", logits, flag), state)) for flag in (False, True)]
        assert rewards == pytest.approx([-np.log(1 - odds / (1 + odds)), np.log(odds)], rel=1e-5)
    ends = [float(DiscriminatorReward("s", logits, flag).after_end) for flag in (False, True)]
    assert ends == pytest.approx([np.log(1 + np.exp(-2)), -2])


def test_states_alone_are_enough_for_a_reward_over_states():
    """The actions are not looked at: the same reward, bit for bit."""
    _, env, demos = problem()
    short = dataclasses.replace(REPLAYED, rounds=ix.Rounds(num=2, steps=128, tol=0.0))
    bare = dataclasses.replace(demos, actions=np.zeros((demos.num_steps, 0)))
    one, other = (short.fit(env, each, key=jr.key(0)) for each in (demos, bare))
    np.testing.assert_array_equal(one.learned.network.weights[0], other.learned.network.weights[0])
    for known, fit in ((True, one), (False, other)):
        assert np.isfinite(fit.log_likelihood) == known == np.isfinite(fit.history["log_likelihood"]).all()
    for make in (ix.AIRL, ix.GCL, ix.GANGCL):
        with pytest.raises(ValueError, match="have no actions"):
            make().fit(env, bare, key=jr.key(0))
    with pytest.raises(ValueError, match="over='ss'"):
        ix.GAIL().fit(env, bare, key=jr.key(0))
    with pytest.raises(ValueError, match="nothing else to clone"):
        ix.BehaviouralCloning().fit(env, bare, key=jr.key(0))


def test_demonstrations_without_actions_are_written_and_read(tmp_path):
    demos = ix.Demonstrations.from_observations([np.arange(8.0).reshape(4, 2)], terminated=True)
    ix.write_demos(tmp_path / "demos.npz", demos)
    back = ix.read_demos(tmp_path / "demos.npz")
    assert not back.has_actions and back.terminated.all()
    np.testing.assert_array_equal(back.next_observations, demos.next_observations)
    with pytest.raises(ValueError, match="at least two observations"):
        ix.Demonstrations.from_observations([np.zeros((1, 2))])


def pendulum(num_envs=2):
    env = ix.envs.make("gymnasium:Pendulum-v1", num_envs=num_envs, horizon=20)
    return env, ix.envs.collect(env, lambda observation, key: jnp.zeros(1), 1, key=jr.key(0))


def test_a_fit_on_the_host_that_was_killed_ends_as_one_that_was_not(tmp_path):
    """Killed in the middle of an episode, between two starts of all copies, with the replay half full."""
    env, demos = pendulum()
    estimator = ix.SampledMCEIRL.for_control(**SMALL)
    whole = estimator.fit(env, demos, key=jr.key(0), run=tmp_path / "whole")

    def kill(iterate):
        if iterate.step == 5 * 32:
            raise KilledError

    with pytest.raises(KilledError):
        cut = ix.RunFolder(tmp_path / "cut", checkpoint_every=0)
        estimator.fit(env, demos, key=jr.key(0), run=cut, callback=kill)
    resumed = estimator.fit(env, demos, key=jr.key(0), run=ix.RunFolder(tmp_path / "cut", resume=True))
    for one, other in zip(
        *(jax.tree.leaves((fit.policy, fit.learned, fit.history)) for fit in (whole, resumed)), strict=True
    ):
        np.testing.assert_array_equal(one, other)


def test_minutes_end_a_fit_and_those_before_it_was_killed_count(tmp_path, monkeypatch):
    """By a clock on which every look takes a second, so that a round takes two."""
    env, demos = pendulum()
    ticks = itertools.count()
    monkeypatch.setattr(loop, "time", SimpleNamespace(monotonic=lambda: float(next(ticks))))
    rounds = dataclasses.replace(SMALL["rounds"], num=100, minutes=0.2)
    estimator = ix.SampledMCEIRL.for_control(**SMALL | {"rounds": rounds})

    def kill(iterate):
        if iterate.step == 4 * 32:
            raise KilledError

    with pytest.raises(KilledError):
        cut = ix.RunFolder(tmp_path / "cut", checkpoint_every=0)
        estimator.fit(env, demos, key=jr.key(0), run=cut, callback=kill)
    # What came after the last checkpoint is lost, its time as well.
    next(itertools.islice(ticks, 1000, None))
    resumed = estimator.fit(env, demos, key=jr.key(0), run=ix.RunFolder(tmp_path / "cut", resume=True))
    assert len(resumed.history) == 6 and resumed.status is ix.Status.TRAINED


def test_what_is_left_of_a_fit_falls_by_rounds_or_minutes():
    by_rounds, by_both = ix.Rounds(num=10), ix.Rounds(num=10, minutes=2.0)
    assert [by_rounds.done(num, 1e9) for num in (0, 4, 10)] == pytest.approx([0, 0.4, 1])
    assert [by_both.done(4, seconds) for seconds in (0, 60, 120, 300)] == pytest.approx([0.4, 0.5, 1, 1])
    with pytest.raises(ValueError, match="`minutes`"):
        ix.Rounds(minutes=0.0)


def test_training_on_the_host_that_was_killed_ends_as_one_that_was_not(tmp_path):
    env, _ = pendulum()
    learner = dataclasses.replace(SMALL["learner"], length=8, warmup=16)

    def kill(iterate):
        if iterate.step == 16 + 5 * 16:
            raise KilledError

    arguments = {"key": jr.key(0), "steps": 16 + 8 * 16}
    whole = learner.train(env, run=tmp_path / "whole", **arguments)
    with pytest.raises(KilledError):
        learner.train(env, run=ix.RunFolder(tmp_path / "cut", checkpoint_every=0), callback=kill, **arguments)
    resumed = learner.train(env, run=ix.RunFolder(tmp_path / "cut", resume=True), **arguments)
    for one, other in zip(*(jax.tree.leaves(each.policy) for each in (whole, resumed)), strict=True):
        np.testing.assert_array_equal(one, other)


def test_continuous_control_has_settings_of_its_own():
    env, _ = pendulum()
    chosen = ix.SampledMCEIRL(penalty=0.5).for_problem(env)
    assert isinstance(chosen.learner, SAC) and chosen.penalty == 0.5 and not chosen.discounted
    own = ix.SampledMCEIRL(learner=PPO(temperature=1.0))
    assert own.for_problem(env) is own
    assert isinstance(ix.AIRL().for_problem(ix.envs.make("pendulum")).learner, PPO)
    assert isinstance(ix.GAIL().for_problem(env).learner, SAC)


def test_a_reward_is_in_units_of_temperature_one(tmp_path):
    """Nearly deterministic demonstrations, and an entropy that must be kept: the temperature rises above 1."""
    env, demos = pendulum()
    fit = ix.SampledMCEIRL.for_control(**SMALL).fit(env, demos, key=jr.key(0))
    factor = fit.learned.factor
    assert factor < 0.99 and fit.history["temperature"][-1] > 1
    step = demos.observations[0], demos.actions[0], demos.next_observations[0]
    assert fit.reward(*step) == pytest.approx(factor * float(fit.learned.base(*step)))
    assert "divided by" in str(fit.summary())
    back = ix.load(fit.save(tmp_path / "fit"))
    assert back.reward(*step) == fit.reward(*step)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: ix.SampledMCEIRL(rounds=ix.Rounds(steps=64), discounted=False), "must be SAC"),
        (lambda: ix.SampledMCEIRL(rounds=ix.Rounds(steps=64), learner=TABULAR_SAC), "discounted=False"),
        (lambda: ix.GCL(rounds=ix.Rounds(steps=64)), "whole episodes"),
        (lambda: ix.Rounds(steps=64, episodes=2), "not both"),
        (lambda: ix.AIRL(smoothness=-1.0), "`smoothness`"),
        (lambda: SAC(temperature="auto", keep_entropy=True), "keep_entropy"),
    ],
)
def test_settings_that_do_not_go_together_are_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()


class Sharp(eqx.Module):
    def __call__(self, observation, action, next_observation):
        return -10.0 * (action[0] - 2.0) ** 2


def test_entropy_is_kept_whatever_the_reward():
    """A reward with a very sharp optimum, and a policy that keeps the entropy that was asked for."""
    learner = SAC(temperature=1.0, keep_entropy=True, target_entropy=0.5, num_envs=16, length=4, updates=8, warmup=1024)
    learner = dataclasses.replace(learner, batch_size=128, capacity=8192, width=16, depth=1, learning_rate=3e-3)
    result = learner.train(NormalBandit(), key=jr.key(0), steps=16_000, reward=Sharp())
    actions = jax.jit(jax.vmap(lambda key: result.policy(jnp.zeros(1), key=key)))(jr.split(jr.key(1), 4000))
    # A normal distribution of this entropy.
    assert np.asarray(actions).std() == pytest.approx(np.exp(0.5 - 0.5 * np.log(2 * np.pi * np.e)), rel=0.15)
