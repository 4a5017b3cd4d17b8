import numpy as np
import pytest

from irlax import LinearReward
from tests.problems import A, S, as_mdp, assert_equal, random_problem

SHAPES = [(S, 2), (S, A, 2), (S, A, S, 2)]


def features(*shape):
    return np.random.default_rng(shape).normal(size=shape)


def test_weights_are_zero_to_begin_with():
    reward = LinearReward(features(S, 2))
    assert np.array_equal(reward.weights, [0, 0])
    assert not reward.table(as_mdp(random_problem(0))).any()


def test_lists_of_whole_numbers_are_features_too():
    reward = LinearReward([[1, 0], [0, 1], [2, 2]], [3, -1], names=["a", "b"])
    assert reward.features.dtype == reward.weights.dtype == np.float64
    assert_equal(reward.table(as_mdp(random_problem(0))), [[3, 3], [-1, -1], [4, 4]])


def test_names_label_the_weights():
    assert LinearReward(features(S, 3)).parameter_names() == ["θ0", "θ1", "θ2"]
    assert LinearReward(features(S, 2), names=("near", "far")).parameter_names() == ["near", "far"]


@pytest.mark.parametrize("shape", SHAPES)
def test_scales_are_the_largest_size_of_each_feature(shape):
    columns = features(*shape) * np.array([1e-3, 1e6])
    largest = [max(abs(x) for x in columns[..., k].ravel().tolist()) for k in range(2)]
    assert_equal(LinearReward(columns).scales(as_mdp(random_problem(0))), largest)


def test_a_feature_that_is_zero_everywhere_has_scale_one():
    columns = features(S, 2) * np.array([0.0, -3.0])
    scales = LinearReward(columns).scales(as_mdp(random_problem(0)))
    assert scales[0] == 1
    assert scales[1] == np.abs(columns[:, 1]).max()


@pytest.mark.parametrize("shape", SHAPES)
def test_units_do_not_matter(shape):
    mdp, units = as_mdp(random_problem(1), "successors"), np.array([1e-6, 1e6])
    columns, weights = features(*shape), np.array([2.0, -1.0])
    assert_equal(LinearReward(columns * units, weights / units).table(mdp), LinearReward(columns, weights).table(mdp))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((features(S),), r"must have shape \(S, K\), \(S, A, K\) or \(S, A, S', K\), but has \(3,\)"),
        ((features(S, A, S, 2, 1),), r"but has \(3, 2, 3, 2, 1\)"),
        ((np.zeros((S, 0)),), "at least one column"),
        (
            ([[1.0], [np.nan], [np.inf]],),
            r"`features` must be finite, but has NaN or infinite entries at \(1, 0\), \(2, 0\)",
        ),
        ((features(S, 2), [1.0]), r"`weights` must have shape \(2\) = \(K,\), one for each feature, but has \(1,\)"),
        ((features(S, 2), 1.0), r"`weights` must have shape \(2\)"),
        ((features(S, 2), [1.0, np.inf]), "`weights` must be finite"),
    ],
)
def test_bad_features_and_weights_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        LinearReward(*arguments)


def test_names_must_be_as_many_as_features():
    with pytest.raises(ValueError, match="`names` must name each of the 2 features, but there are 1"):
        LinearReward(features(S, 2), names=["only one"])


@pytest.mark.parametrize("arguments", [("words",), ([["a"], ["b"]],), (features(S, 2), "ab")])
def test_what_is_not_a_number_is_a_type_error(arguments):
    with pytest.raises(TypeError, match="must be an array of numbers"):
        LinearReward(*arguments)


@pytest.mark.parametrize(
    ("shape", "message"),
    [
        ((S + 1, 2), r"\(S, K\) = \(3, 2\) in this MDP, but has \(4, 2\)"),
        ((S, A + 1, 2), r"\(S, A, K\) = \(3, 2, 2\) in this MDP, but has \(3, 3, 2\)"),
        ((S, A, S + 1, 2), r"\(S, A, S', K\) = \(3, 2, 3, 2\) in this MDP, but has \(3, 2, 4, 2\)"),
    ],
)
@pytest.mark.parametrize("method", ["bind", "table", "by_transition"])
def test_features_of_another_mdp_are_refused(shape, message, method):
    with pytest.raises(ValueError, match=message):
        getattr(LinearReward(features(*shape)), method)(as_mdp(random_problem(0)))
