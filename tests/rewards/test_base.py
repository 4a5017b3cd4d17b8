"""What every reward promises, for each class and each way to store dynamics, against loops over (s, a, s')."""

import functools
import itertools
import math
import warnings

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

from irlax import LinearReward, NeuralReward, ShapedReward, TabularReward
from irlax.mdp import Dense, Deterministic
from irlax.rewards.reward import flat
from tests import oracles
from tests.problems import A, S, as_mdp, assert_equal, random_policy, random_problem

DISCOUNT = 0.9
SHAPES = {"s": (S,), "sa": (S, A), "sas": (S, A, S)}
#: (nature, store): which class of dynamics each makes is checked below.
STORES = {
    "dense": ("stochastic", "dense"),
    "successors": ("stochastic", "successors"),
    "deterministic": ("deterministic", "scipy"),
}


def normal(*shape):
    return np.random.default_rng(shape).normal(size=shape)


def linear(over):
    return LinearReward(normal(*SHAPES[over], 2), normal(2))


def tabular(over):
    return TabularReward(over, normal(*SHAPES[over]))


def neural(over, activation="tanh"):
    options = {"num_actions": A, "width": 3, "depth": 2, "activation": activation, "key": jr.key(1)}
    return NeuralReward(normal(S, 2), over=over, **options)


def pictures(over):
    return NeuralReward(normal(S, 3, 2, 2), over=over, num_actions=A, width=3, depth=1, channels=2, key=jr.key(2))


def shaped(base):
    return ShapedReward(base, normal(S), DISCOUNT)


REWARDS = {
    **{f"linear over {over}": functools.partial(linear, over) for over in SHAPES},
    **{f"tabular over {over}": functools.partial(tabular, over) for over in SHAPES},
    **{f"neural over {over}": functools.partial(neural, over) for over in SHAPES},
    **{f"pictures over {over}": functools.partial(pictures, over) for over in SHAPES},
    "shaped linear over s": lambda: shaped(linear("s")),
    "shaped tabular over sas": lambda: shaped(tabular("sas")),
    "shaped neural over sa": lambda: shaped(neural("sa", "relu")),
    "shaped twice": lambda: shaped(shaped(linear("sas"))),
}

on_every_reward = pytest.mark.parametrize("build", REWARDS.values(), ids=REWARDS)
on_every_store = pytest.mark.parametrize("store", STORES)
#: Every reward, and every store with some of them.
on_stores_by_turns = pytest.mark.parametrize(
    ("build", "store"),
    [pytest.param(build, tuple(STORES)[i % 3], id=name) for i, (name, build) in enumerate(REWARDS.items())],
)


def problem_and_mdp(store, *, masked=False, horizon=2):
    nature, layout = STORES[store]
    problem = random_problem(3, nature, discount=DISCOUNT, horizon=horizon, masked=masked)
    return problem, as_mdp(problem, layout)


# The same rewards, one transition at a time and in plain Python.

ACTIVATIONS = {
    "tanh": math.tanh,
    "relu": lambda x: max(x, 0.0),
    "gelu": lambda x: 0.5 * x * (1 + math.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))),
}


def perceptron(layers, activation, inputs):
    for k, layer in enumerate(layers):
        weight, bias = np.asarray(layer.weight).tolist(), np.asarray(layer.bias).tolist()
        inputs = [
            math.fsum([b, *map(math.prod, zip(row, inputs, strict=True))]) for row, b in zip(weight, bias, strict=True)
        ]
        if k < len(layers) - 1:
            inputs = [activation(x) for x in inputs]
    return inputs


def convolved(layer, picture):
    """Cross-correlation with a 3×3 kernel, zeros beyond the edge, then max(·, 0): [height, width, channels]."""
    kernel, bias = np.asarray(layer.weight), np.asarray(layer.bias).ravel()
    height, width, _ = picture.shape
    out = np.zeros((height, width, len(bias)))
    for row, column, channel in np.ndindex(out.shape):
        total = bias[channel]
        for down, right in itertools.product((-1, 0, 1), repeat=2):
            if 0 <= row + down < height and 0 <= column + right < width:
                total += kernel[channel, :, down + 1, right + 1] @ picture[row + down, column + right]
        out[row, column, channel] = max(total, 0.0)
    return out


def seen(network, observation):
    """An observation as a list: a picture after its convolutions, channel by channel."""
    if not network.convolutions:
        return observation.tolist()
    for layer in network.convolutions:
        observation = convolved(layer, observation)
    return np.moveaxis(observation, -1, 0).ravel().tolist()


def literal(reward, s, a, after):
    """r(s, a, s')."""
    if isinstance(reward, LinearReward):
        row = reward.features[(s, a, after)[: reward.features.ndim - 1]]
        return math.fsum(w * x for w, x in zip(reward.weights.tolist(), row.tolist(), strict=True))
    if isinstance(reward, TabularReward):
        return float(reward.values[(s, a, after)[: len(reward.over)]])
    if isinstance(reward, NeuralReward):
        inputs = seen(reward.network, np.asarray(reward.observations[s]))
        if reward.over == "sas":
            inputs = inputs + seen(reward.network, np.asarray(reward.observations[after]))
        activation = ACTIVATIONS[reward.architecture[-1]]
        return perceptron(reward.network.perceptron.layers, activation, inputs)[0 if reward.over == "s" else a]
    gained = reward.discount * reward.potential[after] - reward.potential[s]
    return literal(reward.base, s, a, after) + gained


def literal_transitions(reward):
    return np.array([[[literal(reward, s, a, after) for after in range(S)] for a in range(A)] for s in range(S)])


def literal_table(problem, reward):
    paid, table = literal_transitions(reward), np.zeros((S, A))
    for s, a, after in np.ndindex(paid.shape):
        table[s, a] += problem.transitions[s, a, after] * paid[s, a, after]
    return table


def literal_aligned(dynamics, paid):
    """[A, S, S'] for dense dynamics, [B, A, S] for successor lists, as `irlax.mdp.dynamics` documents them."""
    if isinstance(dynamics, Dense):
        return np.array([[[paid[s, a, after] for after in range(S)] for s in range(S)] for a in range(A)])
    lists = dynamics.successor[None] if isinstance(dynamics, Deterministic) else dynamics.successors
    return np.array(
        [
            [[paid[s, a, after] for s, after in enumerate(row)] for a, row in enumerate(rows)]
            for rows in np.asarray(lists)
        ]
    )


def vector(tree):
    """The leaves of a tree, one after the other, in C order."""
    return np.array([x for leaf in jax.tree.leaves(tree) for x in np.asarray(leaf).ravel().tolist()])


def moved(reward, direction, length):
    """The reward a little way along a direction in the space of its parameters."""
    leaves, structure = jax.tree.flatten(reward.parameters)
    sizes = np.cumsum([np.size(leaf) for leaf in leaves])[:-1]
    parts = np.split(vector(reward.parameters) + length * direction, sizes)
    new = [part.reshape(np.shape(leaf)) for part, leaf in zip(parts, leaves, strict=True)]
    return reward.with_parameters(jax.tree.unflatten(structure, new))


# The promises.


@pytest.mark.parametrize(
    ("store", "kind"), [("dense", "Dense"), ("successors", "Successors"), ("deterministic", "Deterministic")]
)
def test_the_stores_are_three_classes_of_dynamics(store, kind):
    assert type(problem_and_mdp(store)[1].dynamics).__name__ == kind


@on_every_store
@on_every_reward
def test_table_is_the_mean_over_next_states_in_float64_with_the_flag_off(build, store):
    assert not jax.config.read("jax_enable_x64")
    problem, mdp = problem_and_mdp(store)
    table = build().table(mdp)
    assert isinstance(table, np.ndarray)
    assert table.dtype == np.float64
    assert_equal(table, literal_table(problem, build()))


@on_every_store
@on_every_reward
def test_by_transition_is_the_reward_of_each_transition_possible_or_not(build, store):
    _, mdp = problem_and_mdp(store)
    paid = build().by_transition(mdp)
    assert paid.dtype == np.float64
    assert_equal(paid, literal_transitions(build()))


@on_every_store
@on_every_reward
def test_fold_is_the_table_as_a_function_of_the_parameters(build, store):
    problem, mdp = problem_and_mdp(store)
    reward = build()
    elsewhere = moved(reward, normal(reward.num_parameters), 0.5)
    with jax.enable_x64(True):
        folded = reward.fold(mdp)(jax.tree.map(jnp.asarray, elsewhere.parameters))
    assert_equal(folded.T, literal_table(problem, elsewhere))


@on_every_store
@on_every_reward
def test_unfold_keeps_every_transition_apart(build, store):
    _, mdp = problem_and_mdp(store)
    reward = build()
    elsewhere = moved(reward, normal(reward.num_parameters), 0.5)
    with jax.enable_x64(True):
        plain, ahead = reward.unfold(mdp)(jax.tree.map(jnp.asarray, elsewhere.parameters))
    expected = literal_aligned(mdp.dynamics, literal_transitions(elsewhere))
    plain = np.asarray(plain)[..., None] if isinstance(mdp.dynamics, Dense) else np.asarray(plain)[None]
    whole = np.broadcast_to(plain + (0 if ahead is None else np.asarray(ahead)), expected.shape)
    assert_equal(whole, expected)


@pytest.mark.parametrize("store", ["dense", "successors"])
@on_every_reward
def test_actions_that_do_not_exist_change_nothing_elsewhere(build, store):
    problem, mdp = problem_and_mdp(store, masked=True)
    table = build().table(mdp)
    assert np.isfinite(table).all()
    assert_equal(table[problem.available], literal_table(problem, build())[problem.available])


@eqx.filter_jit
def pulled_back(fold, parameters, visits):
    return jax.vjp(fold, parameters)[1](visits)[0]


@on_every_store
@on_every_reward
def test_pulling_an_occupancy_back_through_fold_gives_the_gradient_of_the_expected_return(build, store):
    problem, mdp = problem_and_mdp(store)
    reward, policy = build(), random_policy(problem, 5)
    visits = oracles.occupancy(problem, policy).sum(axis=0)
    with jax.enable_x64(True):
        gradient = vector(pulled_back(reward.fold(mdp), reward.parameters, visits.T))
    direction, step = normal(reward.num_parameters), 1e-5
    ahead, behind = (
        oracles.expected_return(problem, policy, literal_transitions(moved(reward, direction, h)))
        for h in (step, -step)
    )
    np.testing.assert_allclose(gradient @ direction, (ahead - behind) / (2 * step), rtol=1e-7, atol=1e-8)


@on_every_store
@pytest.mark.parametrize("over", SHAPES)
def test_pulling_an_occupancy_back_gives_the_feature_expectations(over, store):
    problem, mdp = problem_and_mdp(store)
    reward, policy = linear(over), random_policy(problem, 6)
    visits = oracles.occupancy(problem, policy).sum(axis=0)
    with jax.enable_x64(True):
        expectations = pulled_back(reward.fold(mdp), reward.parameters, visits.T)
    assert_equal(expectations, oracles.feature_expectations(problem, policy, reward.features))


@on_every_reward
def test_parameters_round_trip(build):
    _, mdp = problem_and_mdp("dense")
    reward = build()
    before, table = vector(reward.parameters), reward.table(mdp)
    same = reward.with_parameters(reward.parameters)
    assert type(same) is type(reward)
    assert np.array_equal(vector(same.parameters), before)
    assert np.array_equal(same.table(mdp), table)
    other = moved(reward, np.ones_like(before), 1.0)
    assert_equal(vector(other.parameters), before + 1)
    assert_equal(moved(other, np.ones_like(before), -1.0).table(mdp), table)
    # The reward itself never changes.
    assert np.array_equal(vector(reward.parameters), before)


@on_every_reward
def test_parameters_names_and_scales_are_as_many(build):
    _, mdp = problem_and_mdp("dense")
    reward = build().bind(mdp)
    names, scales = reward.parameter_names(), reward.scales(mdp)
    assert reward.num_parameters == len(names) == len(scales) == len(vector(reward.parameters))
    assert (scales > 0).all()
    assert np.isfinite(scales).all()


@on_every_reward
def test_linear_is_what_adds_up(build):
    _, mdp = problem_and_mdp("successors")
    reward = build()
    here = vector(reward.parameters)
    double, zero = moved(reward, here, 1.0), moved(reward, here, -1.0)
    adds_up = np.allclose(double.table(mdp) + zero.table(mdp), 2 * reward.table(mdp), rtol=1e-12)
    assert reward.is_linear == adds_up
    if reward.is_linear:
        assert not zero.table(mdp).any()


@on_stores_by_turns
def test_inside_a_users_jit_a_table_follows_the_arrays_it_is_given(build, store):
    problem, mdp = problem_and_mdp(store)
    reward = build()
    expected = literal_table(problem, reward)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        single = jax.jit(lambda parameters: reward.with_parameters(parameters).table(mdp))(
            jax.tree.map(lambda leaf: np.asarray(leaf, np.float32), reward.parameters)
        )
    assert single.dtype == jnp.float32
    np.testing.assert_allclose(single, expected, rtol=2e-5, atol=2e-6)
    with jax.enable_x64(True):
        double = jax.jit(lambda parameters: reward.with_parameters(parameters).table(mdp))(reward.parameters)
    assert double.dtype == jnp.float64
    assert_equal(double, expected)


@on_every_reward
def test_flat_lists_the_parameters_in_float64_with_the_flag_off(build):
    parameters = build().parameters
    assert flat(parameters).dtype == np.float64
    assert np.array_equal(flat(parameters), vector(parameters))
