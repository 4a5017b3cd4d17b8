"""PPO and SAC on problems whose answers are known."""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

import irlax as ix
from irlax.envs import Tabular
from irlax.rl import PPO, SAC
from irlax.rl.ppo import generalised_advantage
from tests.probes import NormalBandit, Probe, seen

SMALL_PPO = PPO(
    temperature=1.0, num_envs=16, length=16, width=16, depth=1, learning_rate=3e-3, discount=0.9, explore=0.1
)
SMALL_SAC = SAC(
    temperature=1.0,
    num_envs=16,
    length=4,
    updates=8,
    batch_size=128,
    capacity=8192,
    warmup=1024,
    width=16,
    depth=1,
    learning_rate=3e-3,
    tau=0.05,
    discount=0.9,
)
LEARNERS = {"PPO": (SMALL_PPO, 30_000), "SAC": (SMALL_SAC, 12_000)}
on_both = pytest.mark.parametrize("name", list(LEARNERS))


def trained(name, env, scale=1.0, **options):
    learner, steps = LEARNERS[name]
    return learner.train(env, key=jr.key(0), steps=int(scale * steps), **options)


@eqx.filter_jit
def of(function, argument):
    """The function's value, compiled as one program instead of one for every operation."""
    return function(argument)


@pytest.mark.parametrize(("name", "endless"), [("PPO", False), ("PPO", True), ("SAC", True)])
def test_value_of_steps_that_pay_one(name, endless):
    """Terminated, it is one step's reward and entropy; truncated, that of infinitely many."""
    result = trained(name, Probe.of(always=1.0, length=1 + endless, endless=endless), scale=1 + endless)
    expected = (1 + np.log(2)) / (0.1 if endless else 1)
    assert np.allclose([of(result.value, seen(sign)) for sign in (-1.0, 1.0)], expected, rtol=0.03)


@on_both
def test_value_of_what_comes_later_is_discounted(name):
    result = trained(name, Probe.of(late=1.0, length=2))
    last, entropy = 1 + np.log(2), np.log(2)
    for number, expected in ((3.0, last), (1.0, entropy + 0.9 * last), (-1.0, entropy + 0.9 * last)):
        assert np.isclose(of(result.value, seen(number)), expected, atol=0.06)


@on_both
def test_policy_is_the_softmax_of_what_is_seen_and_paid(name):
    result = trained(name, Probe.of(both=2.0))
    for sign in (-1.0, 1.0):
        q = np.array([0.0, 2.0 * sign])
        probs = np.exp(of(result.policy.log_probs, seen(sign)))
        assert np.abs(probs - np.exp(q) / np.exp(q).sum()).max() < 0.03
        assert np.isclose(of(result.value, seen(sign)), np.log(np.exp(q).sum()), atol=0.06)


@on_both
def test_density_is_the_exponential_of_a_quadratic_reward(name):
    result = trained(name, NormalBandit(), scale=2.0)
    nothing = jnp.zeros(1)
    actions = np.asarray(of(jax.vmap(lambda key: result.policy(nothing, key=key)), jr.split(jr.key(1), 4000)))
    assert np.isclose(actions.mean(), 2.0, atol=0.08) and np.isclose(actions.std(), 0.5, atol=0.06)
    # ∫ exp(r) is the normal's constant.
    assert np.isclose(of(result.value, nothing), np.log(0.5 * np.sqrt(2 * np.pi)), atol=0.08)


@on_both
def test_optimum_is_that_of_soft_planning(name):
    problem = ix.envs.RandomMDP(4, 2, branching=2, discount=0.9, seed=1)
    plan = ix.soft_plan(problem.mdp, problem.reward)
    result = trained(name, Probe.of_mdp(problem.mdp, problem.reward), scale=4.0)
    log_policy, value = of(
        lambda states: (jax.vmap(result.policy.log_probs)(states), jax.vmap(result.value)(states)), jnp.eye(4)
    )
    assert 0.5 * np.abs(np.exp(log_policy) - plan.policy).sum(axis=1).max() < 0.05
    assert np.allclose(value, plan.value, atol=0.3)


def test_entropy_that_must_be_kept_does_not_decide_whether_to_end():
    """Staying costs a tenth each step, so that one should leave, though any policy may leave with four in five only."""
    mdp = ix.MDP.from_dense([[[1, 0], [0, 1]], [[0, 1], [0, 1]]], [1, 0], discount=0.9, horizon=20)
    env = Tabular(mdp, np.array([[-0.1, 0.0], [0.0, 0.0]]), terminates=True)
    kept = -(0.8 * np.log(0.8) + 0.2 * np.log(0.2))
    learner = dataclasses.replace(SMALL_SAC, temperature="auto", target_entropy=kept, learning_rate=1e-2)
    result = learner.train(env, key=jr.key(0), steps=12_000)
    start = jnp.asarray([1.0, 0.0])
    assert np.exp(of(result.policy.log_probs, start)) == pytest.approx([0.2, 0.8], abs=0.04)
    # With one step in five that stays, 0.2 (−0.1 + 0.9 V) = V.
    assert float(of(result.value, start)) == pytest.approx(-0.02 / (1 - 0.18), abs=0.02)


@pytest.mark.parametrize("normalise", [True, False])
def test_networks_read_observations_in_standard_deviations_or_as_they_are(normalise):
    learner = dataclasses.replace(SMALL_SAC, normalise=normalise, capacity=2048, updates=1)
    policy = learner.train(NormalBandit(), key=jr.key(0), steps=1088).policy
    far = jnp.asarray([1000.0])
    assert float(policy.normaliser(far)[0]) == (10.0 if normalise else 1000.0)


class Pays(eqx.Module):
    """A reward with a parameter."""

    weight: jax.Array

    def __call__(self, observation, action, next_observation):
        return self.weight * action


def test_a_reward_is_an_argument_and_its_parameters_compile_nothing():
    """Of SAC, which keeps what it saw: PPO forgets it, and so has nothing to reward anew."""
    env, traced = Probe.of(action=2.0), []

    @eqx.filter_jit
    def step(state, reward):
        traced.append(1)
        return SMALL_SAC.step(env, state, reward)

    # Random steps and one round: as other tests train, so that it compiles nothing.
    steps = SMALL_SAC.warmup_steps + SMALL_SAC.steps_per_round
    state = SMALL_SAC.train(env, key=jr.key(0), steps=steps).state
    for _ in range(120):
        state, _ = step(state, Pays(jnp.asarray(-2.0)))
    assert np.exp(state.policy.log_probs(seen(1.0)))[1] < 0.2
    # The same memory, rewarded anew: now the other action is the better one.
    for _ in range(120):
        state, metrics = step(state, Pays(jnp.asarray(2.0)))
    assert np.exp(state.policy.log_probs(seen(1.0)))[1] > 0.8
    assert len(traced) == 1
    assert {"return", "episodes", "loss", "entropy"} <= set(metrics)


def test_seeds_train_side_by_side_as_they_would_alone():
    env, steps = Probe.of(both=2.0), 2048
    together = SMALL_PPO.train(env, key=jr.key(3), steps=steps, seeds=8)
    assert together.returns.shape == (8, 8) and together.final_return.shape == (8,)
    alone = SMALL_PPO.train(env, key=jr.split(jr.key(3), 8)[5], steps=steps)
    for one, other in zip(jax.tree.leaves(together.policy), jax.tree.leaves(alone.policy), strict=True):
        np.testing.assert_allclose(one[5], other, atol=1e-4)
    assert not np.allclose(together.policy.network.weights[0][0], together.policy.network.weights[0][1])


def test_advantages_are_the_sums_written_out():
    rng = np.random.default_rng(0)
    reward, value, after = rng.normal(size=(3, 6, 2)).astype(np.float32)
    ends = rng.integers(4, size=(6, 2))
    terminated, truncated, discount, gae = ends == 0, ends == 1, 0.9, 0.8
    found = generalised_advantage(
        *map(jnp.asarray, (reward, value, after, terminated, truncated)), discount=discount, gae=gae
    )
    for n in range(2):
        for t in range(6):
            total, weight = 0.0, 1.0
            for k in range(t, 6):
                ahead = 0.0 if terminated[k, n] else discount * after[k, n]
                total += weight * (reward[k, n] + ahead - value[k, n])
                weight *= discount * gae
                if terminated[k, n] or truncated[k, n]:
                    break
            assert np.isclose(found[t, n], total, atol=1e-5)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: PPO(discount=1.5), "`discount`"),
        (lambda: PPO(minibatches=7), "must divide"),
        (lambda: PPO(temperature=-1.0), "`temperature`"),
        (lambda: PPO(explore=2.0), "`explore`"),
        (lambda: PPO(activation="sine"), "'tanh', 'relu'"),
        (lambda: SAC(temperature=0.0), "`temperature`"),
        (lambda: SAC(capacity=10), "`capacity`"),
        (lambda: SAC(tau=2.0), "`tau`"),
        (lambda: PPO().train(Probe.of(), key=jr.key(0), steps=0), "`steps`"),
        (lambda: ix.RunFolder("run", checkpoint_every=-1.0), "`checkpoint_every`"),
        (lambda: PPO().train("cartpole", key=jr.key(0)), "irlax.envs.make"),
    ],
)
def test_bad_input_is_refused_at_the_door(make, message, as_a_user):
    with pytest.raises((ValueError, TypeError), match=message):
        make()
