import itertools

import jax
import jax.random as jr
import numpy as np
import pytest

from irlax import NeuralReward
from tests.problems import A, S, as_mdp, assert_equal, random_problem
from tests.rewards.test_base import literal

OVER = ["s", "sa", "sas"]


def look(*shape):
    return np.random.default_rng(shape).normal(size=shape)


def tables(reward):
    return reward.table(as_mdp(random_problem(0), "successors"))


@pytest.mark.parametrize("over", OVER)
@pytest.mark.parametrize("observations", [look(S, 2), look(S, 3, 3, 1)])
def test_the_key_alone_decides_where_the_network_starts(observations, over):
    def build(seed):
        return NeuralReward(observations, over=over, num_actions=A, width=3, channels=2, key=jr.key(seed))

    assert np.array_equal(tables(build(0)), tables(build(0)))
    assert not np.allclose(tables(build(0)), tables(build(1)))


@pytest.mark.parametrize("observations", [look(S, 2), look(S, 3, 3, 1), look(S, 2).astype(np.float32)])
def test_weights_and_observations_are_float64_with_the_flag_off(observations):
    assert not jax.config.read("jax_enable_x64")
    reward = NeuralReward(observations, width=3, channels=2, key=jr.key(0))
    assert {leaf.dtype for leaf in jax.tree.leaves(reward.parameters)} == {np.dtype(np.float64)}
    assert reward.observations.dtype == np.float64


@pytest.mark.parametrize("activation", ["tanh", "relu", "gelu"])
def test_activations_are_what_they_are_called(activation):
    reward = NeuralReward(look(S, 2), width=4, depth=1, activation=activation, key=jr.key(3))
    assert_equal(tables(reward)[:, 0], [literal(reward, s, 0, 0) for s in range(S)])


@pytest.mark.parametrize("over", OVER)
def test_a_network_of_depth_zero_is_affine(over):
    reward = NeuralReward(look(S, 4), over=over, num_actions=A, depth=0, key=jr.key(0))
    (layer,) = reward.network.perceptron.layers
    weight, bias = np.asarray(layer.weight), np.asarray(layer.bias)
    paid = reward.by_transition(as_mdp(random_problem(0)))
    for s, a, after in np.ndindex(paid.shape):
        seen = np.concatenate([look(S, 4)[s], look(S, 4)[after]]) if over == "sas" else look(S, 4)[s]
        output = 0 if over == "s" else a
        assert_equal(paid[s, a, after], weight[output] @ seen + bias[output])


@pytest.mark.parametrize(
    ("over", "shape", "outputs", "inputs"),
    [
        ("s", (2,), 1, 2),
        ("sa", (2,), A, 2),
        ("sas", (2,), A, 4),
        ("s", (4, 5, 3), 1, 6 * 20),
        ("sas", (4, 5, 3), A, 2 * 6 * 20),
    ],
)
def test_the_network_has_the_promised_size(over, shape, outputs, inputs):
    reward = NeuralReward(look(S, *shape), over=over, num_actions=A, width=7, depth=3, channels=6, key=jr.key(0))
    sizes = [inputs, 7, 7, 7, outputs]
    expected = sum(m * n + n for m, n in itertools.pairwise(sizes))
    if len(shape) == 3:
        expected += (9 * shape[2] * 6 + 6) + (9 * 6 * 6 + 6)
    assert reward.num_parameters == expected
    assert reward.parameter_names()[-1] == f"w{expected - 1}"
    assert np.array_equal(reward.scales(as_mdp(random_problem(0))), np.ones(expected))


def test_states_that_look_alike_earn_alike():
    observations = look(S, 2)
    observations[2] = observations[0]
    table = tables(NeuralReward(observations, over="sa", num_actions=A, width=3, key=jr.key(0)))
    assert np.array_equal(table[2], table[0])
    assert not np.allclose(table[1], table[0])


@pytest.mark.parametrize(
    ("observations", "options", "message"),
    [
        (look(S), {}, r"must have shape \(S, D\) or \(S, height, width, channels\), but has \(3,\)"),
        (look(S, 2, 2), {}, r"but has \(3, 2, 2\)"),
        ([[1.0], [np.nan]], {}, r"`observations` must be finite, but has NaN or infinite entries at \(1, 0\)"),
        (look(S, 2), {"over": "state"}, "`over` must be one of 's', 'sa', 'sas', but is 'state'"),
        (look(S, 2), {"over": "sa"}, "A reward over 'sa' needs `num_actions=`"),
        (look(S, 2), {"over": "sas"}, "A reward over 'sas' needs `num_actions=`"),
        (look(S, 2), {"num_actions": 0}, "`num_actions` must be at least 1"),
        (look(S, 2), {"width": 0}, "`width` must be at least 1"),
        (look(S, 2), {"depth": -1}, "`depth` must be at least 0"),
        (look(S, 2), {"channels": 0}, "`channels` must be at least 1"),
        (look(S, 2), {"activation": "sine"}, "`activation` must be one of 'tanh', 'relu', 'gelu', but is 'sine'"),
    ],
)
def test_networks_that_cannot_be_are_refused(as_a_user, observations, options, message):
    with pytest.raises(ValueError, match=message):
        NeuralReward(observations, key=jr.key(0), **options)


def test_wrong_types_are_type_errors(as_a_user):
    with pytest.raises(TypeError, match="`observations` must be an array of numbers"):
        NeuralReward([["red"], ["blue"]], key=jr.key(0))
    with pytest.raises(TypeError, match="`width` must be a whole number"):
        NeuralReward(look(S, 2), width=2.5, key=jr.key(0))
    with pytest.raises(TypeError, match="key"):
        NeuralReward(look(S, 2))


@pytest.mark.parametrize("method", ["bind", "table", "by_transition"])
def test_networks_of_another_mdp_are_refused(method):
    mdp = as_mdp(random_problem(0))
    with pytest.raises(ValueError, match="one entry for each of the 3 states, but has 4"):
        getattr(NeuralReward(look(S + 1, 2), key=jr.key(0)), method)(mdp)
    with pytest.raises(ValueError, match="`num_actions` must be 2 in this MDP, but is 5"):
        getattr(NeuralReward(look(S, 2), over="sa", num_actions=5, key=jr.key(0)), method)(mdp)
