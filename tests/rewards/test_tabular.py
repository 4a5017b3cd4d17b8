import jax
import numpy as np
import pytest

from irlax import TabularReward
from tests.problems import REWARDS, A, S, as_mdp, random_problem, random_reward

SHAPES = {"s": (S,), "sa": (S, A), "sas": (S, A, S)}


@pytest.mark.parametrize("over", REWARDS)
def test_a_table_meets_an_mdp_with_zeros(over):
    mdp, reward = as_mdp(random_problem(0)), TabularReward(over)
    assert reward.values is None
    bound = reward.bind(mdp)
    assert bound.values.shape == SHAPES[over]
    assert not bound.values.any()
    assert not reward.table(mdp).any()
    assert not reward.by_transition(mdp).any()
    # Binding gives a new reward; the old one fits any MDP still.
    assert reward.values is None


@pytest.mark.parametrize("over", REWARDS)
def test_a_table_keeps_its_values_when_bound(over):
    values = random_reward(1, over)
    assert np.array_equal(TabularReward(over, values).bind(as_mdp(random_problem(0))).parameters, values)


def test_names_give_the_indices_in_c_order():
    assert TabularReward("s", np.zeros(2)).parameter_names() == ["r(0)", "r(1)"]
    assert TabularReward("sa", np.zeros((2, 2))).parameter_names() == ["r(0, 0)", "r(0, 1)", "r(1, 0)", "r(1, 1)"]
    names = TabularReward("sas", np.zeros((S, A, S))).parameter_names()
    assert [names[k] for k in (0, 1, S, A * S)] == ["r(0, 0, 0)", "r(0, 0, 1)", "r(0, 1, 0)", "r(1, 0, 0)"]
    assert len(set(names)) == S * A * S


@pytest.mark.parametrize("over", REWARDS)
def test_every_entry_has_scale_one_bound_or_not(over):
    mdp = as_mdp(random_problem(0))
    for reward in (TabularReward(over), TabularReward(over, random_reward(2, over))):
        assert np.array_equal(reward.scales(mdp), np.ones(np.prod(SHAPES[over])))


def test_an_unknown_domain_is_refused(as_a_user):
    with pytest.raises(ValueError, match="`over` must be one of 's', 'sa', 'sas', but is 'ss'"):
        TabularReward("ss")


@pytest.mark.parametrize(("over", "values"), [("s", np.zeros((S, A))), ("sa", np.zeros(S)), ("sas", 0.0)])
def test_values_need_one_axis_for_each_letter(as_a_user, over, values):
    with pytest.raises(ValueError, match=f"`values` over '{over}' must have {len(over)} axes"):
        TabularReward(over, values)


def test_values_that_are_not_finite_numbers_are_refused():
    with pytest.raises(ValueError, match="`values` must be finite, but has NaN or infinite entries at 1"):
        TabularReward("s", [0.0, np.nan])
    with pytest.raises(TypeError, match="`values` must be an array of numbers"):
        TabularReward("s", ["a"])


def test_parameters_before_an_mdp_is_met_are_an_error_that_says_so():
    with pytest.raises(ValueError, match="`bind` it to an MDP first"):
        TabularReward("s").parameters
    with pytest.raises(ValueError, match="`bind` it to an MDP first"):
        TabularReward("s").parameter_names()


@pytest.mark.parametrize("over", REWARDS)
@pytest.mark.parametrize("method", ["bind", "table", "by_transition", "scales"])
def test_a_table_of_another_mdp_is_refused(over, method):
    reward = TabularReward(over, random_reward(0, over, num_states=S + 1))
    with pytest.raises(ValueError, match=f"the table over '{over}' of this MDP, but has"):
        getattr(reward, method)(as_mdp(random_problem(0)))


@pytest.mark.parametrize("over", ["s", "sa"])
def test_a_table_on_the_host_is_laid_out_without_a_program(over, monkeypatch):
    mdp, values = as_mdp(random_problem(0)), random_reward(3, over)
    expected = np.broadcast_to(values[:, None] if over == "s" else values, (S, A))
    compiled = jax.jit(lambda mdp: TabularReward(over, values).table(mdp))(mdp)
    assert np.allclose(compiled, expected, rtol=1e-6)
    monkeypatch.setattr("irlax.rewards.reward._reward_at", None)
    assert np.array_equal(TabularReward(over, values).table(mdp), expected)
