"""Demonstrations as the sampled estimators see them: an episode of weight k is k episodes, in everything."""

import equinox as eqx
import hypothesis
import hypothesis.strategies as st
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

import irlax as ix
from irlax.demos.demonstrations import from_rows
from irlax.envs.experience import Transition
from irlax.estimators.sampled.cloning import clone
from irlax.estimators.sampled.steps import Recent, step_pools, steps_of_demos, steps_of_rollout
from irlax.rl.policies import init_policy
from irlax.spaces import Discrete

ACTIONS = Discrete(2)
TOLERANCE = {"rtol": 2e-6, "atol": 1e-7}
few = hypothesis.settings(derandomize=True, max_examples=12, deadline=None, database=None)


def episodes(lengths, starts, weights, stride=1):
    """Demonstrations whose first coordinate numbers the rows; `starts` are the times at which they begin."""
    lengths, total = np.asarray(lengths), int(np.sum(lengths))
    clock = np.arange(total) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    rng = np.random.default_rng(0)
    seen = np.stack([np.arange(total), rng.normal(size=total)], axis=1).astype(np.float32)
    return from_rows(
        None,
        rng.integers(2, size=total),
        lengths,
        times=np.repeat(starts, lengths) + stride * clock,
        weights=np.asarray(weights, float),
        observations=seen,
        next_observations=seen + 1,
        rewards=rng.normal(size=total),
    )


def copied(demos):
    """Each episode as many times as its weight says, with weight 1."""
    repeated = demos.select(np.repeat(np.arange(demos.num_episodes), demos.weights.astype(int)))
    return eqx.tree_at(lambda demos: demos.weights, repeated, np.ones(repeated.num_episodes))


def shares(demos, discount, *, discounted):
    """The share of each row in what the losses draw from, by its number."""
    # In NumPy, since every other number of rows would be compiled for.
    steps = jax.tree.map(np.asarray, steps_of_demos(demos, ACTIONS, discount))
    return shares_of(step_pools(steps, only(steps), discounted=discounted)[0])


def shares_of(rows):
    weight = np.bincount(np.asarray(rows.observation[:, 0], int), np.asarray(rows.weight, float), minlength=25)
    return weight / weight.sum()


def only(steps):
    """Recent episodes that are one, and these very steps."""
    return Recent(jax.tree.map(lambda array: array[None, None], steps), None)


@st.composite
def some_episodes(draw):
    """The arguments of `episodes` for some that begin late, with gaps and with weights, not all of which are zero.

    They are built in the test: the checks of shapes draw random numbers, which a strategy must not.
    """
    num = draw(st.integers(1, 4))
    lengths = draw(st.lists(st.integers(1, 5), min_size=num, max_size=num))
    starts = draw(st.lists(st.integers(0, 3), min_size=num, max_size=num))
    weights = draw(st.lists(st.integers(0, 4), min_size=num, max_size=num).filter(any))
    return lengths, starts, weights, draw(st.integers(1, 2))


@few
@hypothesis.given(some_episodes(), st.sampled_from([0.3, 0.9, 1.0]), st.booleans())
def test_rows_are_drawn_as_often_as_a_loop_counts_them(given, discount, discounted):
    demos = episodes(*given)
    expected = np.zeros(25)
    for k in range(demos.num_episodes):
        for row in range(demos.offsets[k], demos.offsets[k + 1]):
            expected[row] = demos.weights[k] * (discount ** int(demos.times[row]) if discounted else 1.0)
    np.testing.assert_allclose(shares(demos, discount, discounted=discounted), expected / expected.sum(), **TOLERANCE)


@few
@hypothesis.given(some_episodes(), st.sampled_from([0.3, 0.9, 1.0]), st.booleans())
def test_weight_k_is_k_copies(given, discount, discounted):
    demos = episodes(*given)
    once, often = (shares(these, discount, discounted=discounted) for these in (demos, copied(demos)))
    np.testing.assert_allclose(once, often, **TOLERANCE)


@few
@hypothesis.given(some_episodes(), st.sampled_from([1e-300, 1e-5, 3.0, 1e300]), st.booleans())
def test_the_unit_of_weights_does_not_matter(given, unit, discounted):
    demos = episodes(*given)
    scaled = eqx.tree_at(lambda demos: demos.weights, demos, demos.weights * unit)
    once, other = (shares(these, 0.9, discounted=discounted) for these in (demos, scaled))
    np.testing.assert_allclose(once, other, **TOLERANCE)


@few
@hypothesis.given(some_episodes(), st.randoms(use_true_random=False), st.booleans())
def test_the_order_of_episodes_does_not_matter(given, random, discounted):
    demos = episodes(*given)
    order = random.sample(range(demos.num_episodes), demos.num_episodes)
    shuffled = demos.select(order)
    once, other = (shares(these, 0.9, discounted=discounted) for these in (demos, shuffled))
    np.testing.assert_allclose(once, other, **TOLERANCE)
    # Rows move with their episodes, and nothing in them changes.
    steps, moved = steps_of_demos(demos, ACTIONS, 0.9), steps_of_demos(shuffled, ACTIONS, 0.9)
    rows = np.concatenate([np.arange(demos.offsets[k], demos.offsets[k + 1]) for k in order])
    jax.tree.map(lambda one, two: np.testing.assert_array_equal(np.asarray(one)[rows], two), steps, moved)


def test_undiscounted_steps_count_as_their_episode_however_late():
    """γ⁶⁰⁰ = 10⁻⁴² is zero in single precision, and no reason to forget a step."""
    demos = episodes([600, 600], [0, 0], [9.0, 1.0])
    steps = steps_of_demos(demos, ACTIONS, 0.85)
    weight = np.asarray(step_pools(steps, only(steps), discounted=False)[0].weight)
    assert (weight > 0).all()
    np.testing.assert_allclose(weight[:600].sum() / weight.sum(), 0.9, rtol=1e-6)
    np.testing.assert_allclose(weight[:600], weight[0])


def test_demonstrations_that_all_begin_late_are_discounted_from_there():
    demos = episodes([3, 2], [1000, 1001], [1.0, 4.0])
    weight = np.array([1, 0.5, 0.25, 4 * 0.5, 4 * 0.25])
    np.testing.assert_allclose(shares(demos, 0.5, discounted=True)[:5], weight / weight.sum(), rtol=1e-6)


@pytest.mark.parametrize("discounted", [True, False])
def test_rounds_that_are_yet_to_come_weigh_nothing(discounted):
    steps = steps_of_rollout(rollout(4, 600), 0.85)
    recent = Recent.init(3, steps, jnp.zeros(())).add(steps, jnp.ones(()))
    weight = np.asarray(step_pools(steps, recent, discounted=discounted)[1].weight).reshape(3, 4, 600)
    assert (weight[1:] == 0).all()
    expected = 0.85 ** np.arange(600.0) if discounted else np.ones(600)
    np.testing.assert_allclose(weight[0], np.broadcast_to(expected, (4, 600)), rtol=1e-4, atol=1e-37)


# Each estimator, on demonstrations in which an episode of no weight comes first.

HORIZON = 4


def rollout(num, horizon):
    rng = np.random.default_rng(1)
    seen = jnp.asarray(rng.normal(size=(horizon, num, 2)), jnp.float32)
    nothing = jnp.zeros((horizon, num))
    action = jnp.asarray(rng.integers(2, size=(horizon, num)), jnp.int32)
    return Transition(seen, action, nothing, seen + 1, *[nothing > 0] * 3, nothing)


def weighted_and_copied():
    """The same demonstrations twice, six whole episodes each, so that what is compiled serves for both."""
    demos = episodes([HORIZON] * 6, [0] * 6, [0, 3, 1, 2, 0, 0])
    return demos, copied(demos)


def policy(seed=0):
    return init_policy(ACTIONS, 2, width=4, depth=1, activation="tanh", key=jr.key(seed))


ESTIMATORS = {
    "airl": ix.AIRL(),
    "undiscounted airl": ix.AIRL(discounted=False),
    "gail": ix.GAIL(),
    "undiscounted gail": ix.GAIL(discounted=False),
    "mce": ix.SampledMCEIRL(),
    "gcl": ix.GCL(constant_rate=1.0, monotonic=1.0, cloning=ix.BehaviouralCloning(steps=1)),
    "gan-gcl": ix.GANGCL(),
}


@pytest.mark.parametrize("name", ESTIMATORS)
def test_every_estimator_begins_with_statistics_by_weight(name):
    estimator = ESTIMATORS[name]
    states = []
    for demos in weighted_and_copied():
        expert = steps_of_demos(demos, ACTIONS, estimator.discount)
        if estimator.whole_episodes:
            expert = whole(expert)
        states.append(estimator.init(2, ACTIONS, HORIZON, expert, key=jr.key(0)))
    seen = weighted_and_copied()[1].observations
    for state in states:
        statistics = reward_of(state).normaliser
        np.testing.assert_allclose(statistics.mean, seen.mean(axis=0), rtol=1e-5)
        np.testing.assert_allclose(statistics.variance, seen.var(axis=0), rtol=1e-5)


def reward_of(state):
    reward = getattr(state.reward, "logits", state.reward)
    return getattr(reward, "base", reward)


def whole(rows):
    return jax.tree.map(lambda array: array.reshape(-1, HORIZON, *array.shape[1:]), rows)


def test_cloning_sees_observations_by_weight():
    by_copies = weighted_and_copied()[1].observations
    for demos in weighted_and_copied():
        cloned, _ = clone(policy(), steps_of_demos(demos, ACTIONS, 1.0), ix.BehaviouralCloning(steps=1), key=jr.key(0))
        np.testing.assert_allclose(cloned.normaliser.mean, by_copies.mean(axis=0), rtol=1e-5)
        np.testing.assert_allclose(cloned.normaliser.variance, by_copies.var(axis=0), rtol=1e-5)


@pytest.mark.parametrize("name", [name for name in ESTIMATORS if not ESTIMATORS[name].whole_episodes])
def test_steps_are_drawn_by_weight_in_every_estimator(name):
    """What is drawn at random from is compared, and not what was drawn."""
    estimator, found = ESTIMATORS[name], []
    for demos in weighted_and_copied():
        expert = steps_of_demos(demos, ACTIONS, estimator.discount)
        *_, pool, _ = estimator.observe(policy(), expert, only(expert), None)
        found.append(shares_of(pool))
    np.testing.assert_allclose(*found, **TOLERANCE)
    by_episode = found[0][: 6 * HORIZON].reshape(6, HORIZON)
    np.testing.assert_allclose(by_episode.sum(axis=1), [0, 1 / 2, 1 / 6, 1 / 3, 0, 0], rtol=1e-5)
    flat = not getattr(estimator, "discounted", True)
    assert (np.ptp(by_episode[1]) < 1e-6) == flat


@pytest.mark.parametrize("name", ["gcl", "gan-gcl"])
def test_losses_of_whole_episodes_are_by_weight(name):
    estimator = ESTIMATORS[name]
    recent = Recent(
        jax.tree.map(lambda array: array[None], steps_of_rollout(rollout(5, HORIZON), estimator.discount)), None
    )
    acting = jax.tree.map(lambda leaf: leaf[None] if eqx.is_array(leaf) else leaf, policy(1))
    recent = eqx.tree_at(lambda recent: recent.policies, recent, acting, is_leaf=lambda leaf: leaf is None)
    reward = estimator.make_reward(policy().normaliser, ACTIONS, key=jr.key(3))
    prepared = policy(2) if name == "gcl" else None

    @eqx.filter_jit
    def slope(expert):
        observed = estimator.observe(policy(1), expert, recent, prepared)
        return eqx.filter_value_and_grad(
            lambda reward: estimator.loss(reward, observed, rate=1.0, key=jr.key(0)), has_aux=True
        )(reward)

    found = [slope(whole(steps_of_demos(demos, ACTIONS, estimator.discount))) for demos in weighted_and_copied()]
    jax.tree.map(lambda one, two: np.testing.assert_allclose(one, two, rtol=1e-4, atol=1e-5), *found)
    assert np.abs(found[0][1].network.weights[0]).max() > 1e-3
