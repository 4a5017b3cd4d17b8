import numpy as np
import pytest

from irlax import LinearReward, ShapedReward, TabularReward, expected_return, soft_plan
from tests.problems import STORES, S, as_mdp, assert_equal, random_policy, random_problem, random_reward

POTENTIAL = np.array([1.5, -2.0, 0.25])


@pytest.mark.parametrize("over", ["s", "sa", "sas"])
@pytest.mark.parametrize("store", STORES)
def test_shaping_changes_no_soft_optimal_policy(store, over):
    mdp = as_mdp(random_problem(0, discount=0.9, horizon=None), store)
    base = TabularReward(over, random_reward(0, over))
    shaped = ShapedReward(base, POTENTIAL, 0.9)
    plain, moved = soft_plan(mdp, base.table(mdp)), soft_plan(mdp, shaped.table(mdp))
    np.testing.assert_allclose(moved.policy, plain.policy, rtol=1e-8)
    np.testing.assert_allclose(moved.value, plain.value - POTENTIAL, rtol=1e-8)


@pytest.mark.parametrize("store", STORES)
def test_shaping_takes_the_potential_of_the_start_from_every_return(store):
    problem = random_problem(1, discount=0.7, horizon=None)
    mdp, policy = as_mdp(problem, store), random_policy(problem, 1, stationary=True)
    base = TabularReward("sa", random_reward(1))
    shaped = ShapedReward(base, POTENTIAL, 0.7)
    lost = expected_return(mdp, policy, base.table(mdp)) - expected_return(mdp, policy, shaped.table(mdp))
    np.testing.assert_allclose(lost, problem.initial @ POTENTIAL, rtol=1e-9)


def test_names_are_those_of_the_base_and_of_the_potential():
    reward = ShapedReward(LinearReward(np.eye(S), names=["a", "b", "c"]), POTENTIAL, 0.9)
    assert reward.parameter_names() == ["a", "b", "c", "Φ(0)", "Φ(1)", "Φ(2)"]


def test_scales_are_those_of_the_base_and_one_for_the_potential():
    mdp = as_mdp(random_problem(0, discount=0.9))
    reward = ShapedReward(LinearReward(5 * np.eye(S)), POTENTIAL, 0.9)
    assert_equal(reward.scales(mdp), [5, 5, 5, 1, 1, 1])


def test_a_base_that_waits_for_its_mdp_is_bound_with_the_shaping():
    mdp = as_mdp(random_problem(0, discount=0.9))
    reward = ShapedReward(TabularReward("sa"), POTENTIAL, 0.9)
    with pytest.raises(ValueError, match="`bind` it to an MDP first"):
        reward.parameters
    values, potential = reward.bind(mdp).parameters
    assert values.shape == (S, 2)
    assert np.array_equal(potential, POTENTIAL)


@pytest.mark.parametrize("method", ["bind", "table", "by_transition"])
def test_a_discount_other_than_the_mdps_is_refused(method):
    mdp = as_mdp(random_problem(0, discount=0.9))
    reward = ShapedReward(TabularReward("s", np.zeros(S)), POTENTIAL, 0.5)
    with pytest.raises(ValueError, match=r"has discount 0\.5, but the MDP 0\.9.*ShapedReward\(base, potential, 0\.9\)"):
        getattr(reward, method)(mdp)


def test_a_potential_over_other_states_is_refused():
    reward = ShapedReward(TabularReward("s"), np.zeros(S + 1), 0.9)
    with pytest.raises(ValueError, match=r"`potential` must have shape \(3\) = \(S,\), but has \(4,\)"):
        reward.table(as_mdp(random_problem(0, discount=0.9)))


@pytest.mark.parametrize(
    ("potential", "discount", "message"),
    [
        (np.zeros((S, 1)), 0.9, r"`potential` must have shape \(S,\), but has \(3, 1\)"),
        ([0.0, np.nan, 0.0], 0.9, "`potential` must be finite, but has NaN or infinite entries at 1"),
        (POTENTIAL, 1.1, "`discount` must lie between 0 and 1"),
        (POTENTIAL, -0.1, "`discount` must lie between 0 and 1"),
    ],
)
def test_bad_potentials_and_discounts_are_refused(potential, discount, message):
    with pytest.raises(ValueError, match=message):
        ShapedReward(TabularReward("s"), potential, discount)


def test_wrong_types_are_type_errors(as_a_user):
    with pytest.raises(TypeError, match="`base` must be a reward, but is a ndarray"):
        ShapedReward(np.zeros(S), POTENTIAL, 0.9)
    with pytest.raises(TypeError, match="`potential` must be an array of numbers"):
        ShapedReward(TabularReward("s"), ["a", "b", "c"], 0.9)
    with pytest.raises(TypeError, match="`discount` must be a number"):
        ShapedReward(TabularReward("s"), POTENTIAL, "0.9")
