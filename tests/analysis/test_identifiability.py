"""The null space that is predicted is the one that is found."""

import jax
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree

import irlax as ix

KINDS = {
    "dense": {"num_states": 5, "num_actions": 3},
    "sparse": {"num_states": 6, "num_actions": 3, "branching": 2},
    "deterministic": {"num_states": 6, "num_actions": 2, "branching": 1},
    "unavailable": {"num_states": 6, "num_actions": 3, "branching": 2, "unavailable": 0.3},
}


def moved(mdp, reward, theta, direction, size):
    """How far the policy moves when the parameters do."""
    shape = reward.parameters.shape
    here, there = (reward.with_parameters((theta + step * direction).reshape(shape)) for step in (0.0, size))
    return np.abs(ix.soft_plan(mdp, there.table(mdp)).policy - ix.soft_plan(mdp, here.table(mdp)).policy).max()


OVER = ("s", "sa", "sas", "linear")
#: Every kind of dynamics with every reward, endless and finite in turn: with either, every kind and every reward.
PROBLEMS = [(kind, over, (None, 3)[(i + j) % 2]) for i, kind in enumerate(KINDS) for j, over in enumerate(OVER)]


@pytest.mark.parametrize(("kind", "over", "horizon"), PROBLEMS)
def test_the_policy_stays_along_the_null_space_and_moves_along_the_rest(kind, over, horizon):
    env = ix.envs.RandomMDP(**KINDS[kind], horizon=horizon, seed=3)
    mdp, rng = env.mdp, np.random.default_rng(0)
    if over == "linear":
        features = rng.normal(size=(mdp.num_states, mdp.num_actions, 4))
        features[..., 3] = features[..., 0] - 2 * features[..., 1]
        reward = ix.LinearReward(features)
    else:
        reward = ix.TabularReward(over).bind(mdp)
    theta = rng.normal(size=reward.num_parameters)
    reward = reward.with_parameters(theta.reshape(reward.parameters.shape))
    found = ix.identify(mdp, reward, ix.soft_plan(mdp, reward.table(mdp)))
    assert found.rank + found.null_dim == reward.num_parameters
    np.testing.assert_allclose(found.null_basis @ found.null_basis.T, np.eye(found.null_dim), atol=1e-9)
    for _ in range(4 if found.null_dim else 0):
        hidden = rng.normal(size=found.null_dim) @ found.null_basis
        # Exact for linear rewards: not only for small steps.
        assert moved(mdp, reward, theta, hidden, 2.0) < 1e-9
    for direction in found.contrasts[:6]:
        assert moved(mdp, reward, theta, direction, 1e-2) > 1e-7
    for _ in range(3):
        mixed = rng.normal(size=found.rank) @ found.contrasts
        assert moved(mdp, reward, theta, mixed, 0.5) > 1e-5
    if over == "linear":
        assert "no effect" in found.kinds
    assert str(found.summary())


@pytest.mark.parametrize("horizon", [None, 3])
def test_large_problems_are_answered_as_small_ones(horizon, monkeypatch):
    mdp = ix.envs.RandomMDP(**KINDS["unavailable"], horizon=horizon, seed=3).mdp
    reward, plan = ix.TabularReward("sa").bind(mdp), ix.soft_plan(mdp, np.random.default_rng(0).normal(size=(6, 3)))
    demos = ix.rollout(mdp, plan, num=2, length=None if horizon else 3, key=jax.random.key(0))
    here = ix.identify(mdp, reward, plan, demos=demos)
    monkeypatch.setattr("irlax.analysis.responses.small_features", lambda *_: None)
    compiled = ix.identify(mdp, reward, plan, demos=demos)
    assert here.kinds == compiled.kinds and here.null_dim == compiled.null_dim
    np.testing.assert_allclose(here.singular_values, compiled.singular_values, atol=1e-10)
    for one, other in ((here.null_basis, compiled.null_basis), (here.unseen_basis, compiled.unseen_basis)):
        np.testing.assert_allclose(one.T @ one, other.T @ other, atol=1e-8)


def test_a_fits_summary_names_few_hidden_directions_and_counts_many():
    env = ix.envs.Gridworld.open(3, 3, bump="unavailable")
    checkerboard = np.where(np.indices((3, 3)).sum(axis=0).ravel() % 2, -1.0, 1.0)
    # Every move changes the colour, so c(s) = (f(s) − γf(s'))/(1 + γ) for f = c: a potential.
    features = np.stack([checkerboard, np.arange(9.0) ** 2, 1 + 0 * checkerboard], axis=1)
    reward = ix.LinearReward(features, names=["colour", "size", "all"])
    plan = ix.soft_plan(env.mdp, np.zeros(9))
    line = ix.identify(env.mdp, reward, plan).line()
    assert line == "1 of 3 dimensions; not identified: all (constant), colour (potential)"
    bumping = ix.envs.Gridworld.open(3, 3).mdp
    many = ix.identify(bumping, ix.TabularReward("sa"), ix.soft_plan(bumping, np.zeros(9)))
    # A potential for each of 9 states.
    assert many.line() == "27 of 36 dimensions; not identified: 1 constant, 8 potential"


def test_a_summary_says_what_is_identified_or_how_to_learn_it_however_large_the_problem(monkeypatch):
    ring = np.arange(600)
    successors = np.stack([ring, (ring + 1) % 600], axis=1)[..., None]
    mdp = ix.MDP.from_successors(successors, np.ones(successors.shape), np.ones(600) / 600, discount=0.9, horizon=2)
    features = np.stack([np.cos(ring), np.ones(600)], axis=1)
    fit = ix.MCEIRL().fit(mdp, ix.LinearReward(features, names=["wave", "all"]), ix.soft_plan(mdp, np.cos(ring)))
    assert dict(fit.summary().tables[-1].rows)["identified"] == "1 of 2 dimensions; not identified: all (constant)"
    monkeypatch.setattr("irlax.estimators.tabular.tabular_summary.AFFORDABLE", 0)
    said = dict(fit.summary().tables[-1].rows)["identified"]
    assert "not computed" in said and "fit.identification()" in said


def test_a_state_only_reward_on_a_checkerboard_hides_a_constant_and_a_potential():
    env = ix.envs.Gridworld.open(3, 4, bump="unavailable")
    found = ix.identify(env.mdp, ix.TabularReward("s"), ix.soft_plan(env.mdp, env.reward))
    assert sorted(found.kinds) == ["constant", "potential"]
    assert found.null_dim == ix.linked_components(env.mdp).max() + 1
    assert not found.identified.any()
    np.testing.assert_allclose(np.ptp(found.null_basis[found.kinds.index("constant")]), 0, atol=1e-9)


def test_a_state_action_reward_hides_one_potential_for_each_state():
    mdp = ix.envs.RandomMDP(5, 3, seed=1).mdp
    found = ix.identify(mdp, ix.TabularReward("sa"), ix.soft_plan(mdp, np.zeros(5)))
    assert found.null_dim == 5
    # The shaping directions themselves, built by hand, lie in the null space.
    dense = mdp.dynamics.to_dense()
    for state in range(5):
        shaped = np.zeros((5, 3))
        shaped[state] -= 1
        shaped += 0.9 * dense[:, :, state]
        direction = shaped.ravel() / np.linalg.norm(shaped)
        np.testing.assert_allclose(found.null_basis.T @ (found.null_basis @ direction), direction, atol=1e-8)


def test_of_a_network_spare_weights_are_told_apart_from_hidden_rewards():
    mdp = ix.envs.RandomMDP(5, 3, seed=2).mdp
    reward = ix.NeuralReward(np.eye(5), width=4, depth=1, key=jax.random.key(0))
    found = ix.identify(mdp, reward, ix.soft_plan(mdp, reward.table(mdp)))
    # A state-only reward on five states: 29 weights, five rewards, of which the constant stays hidden.
    assert found.rank == 4
    assert found.kinds.count("constant") == 1
    assert found.kinds.count("no effect") == reward.num_parameters - 5
    assert not found.is_global
    before = ix.soft_plan(mdp, reward.table(mdp)).policy

    def change_after(step):
        with jax.enable_x64(True):
            theta, unravel = ravel_pytree(reward.parameters)
            there = reward.with_parameters(unravel(theta + step))
            return np.abs(ix.soft_plan(mdp, there.table(mdp)).policy - before).max()

    for direction in found.null_basis[:6]:
        change = [change_after(1e-3 * direction), change_after(2e-3 * direction)]
        # To second order: doubling the step quadruples the change, or there is none.
        assert change[0] < 1e-5
        assert change[1] < 5 * change[0] + 1e-9


def test_what_these_data_leave_open_is_reported_apart():
    env = ix.envs.Gridworld(["....#...."], stay=True, discount=0.9)
    mdp = env.mdp
    plan = ix.soft_plan(mdp, np.zeros(8))
    left_only = ix.Demonstrations.from_arrays([[0, 1, 2, 3, 2]], [[1, 1, 1, 3, 3]])
    found = ix.identify(mdp, ix.TabularReward("s"), plan, demos=left_only)
    full = ix.identify(mdp, ix.TabularReward("s"), plan)
    assert full.unseen_basis is None
    # Each half hides its own constant; the right half's three contrasts are open for lack of visits.
    assert found.null_dim == full.null_dim == 2
    assert len(found.unseen_basis) == 3
    assert np.abs(found.unseen_basis[:, :4]).max() < 1e-8
    assert "3 more" in found.line()


@pytest.mark.parametrize("horizon", [None, 6])
def test_many_parameters_are_searched_by_products_alone(monkeypatch, horizon):
    env = ix.envs.Gridworld.open(6, 8, bump="unavailable", horizon=horizon)
    plan = ix.soft_plan(env.mdp, np.random.default_rng(0).normal(size=48))
    dense = ix.identify(env.mdp, ix.TabularReward("s"), plan)
    monkeypatch.setattr("irlax.analysis.identifiability.LARGE", 10)
    monkeypatch.setattr("irlax.analysis.identifiability.MOST_NULL", 5)
    by_products = ix.identify(env.mdp, ix.TabularReward("s"), plan)
    assert by_products.null_dim == dense.null_dim == 2
    # The same space, in whatever basis.
    projected = by_products.null_basis @ dense.null_basis.T @ dense.null_basis
    np.testing.assert_allclose(projected, by_products.null_basis, atol=1e-5)


def test_undiscounted_proper_problems_are_covered():
    env = ix.envs.Gridworld(["S..", "..G"], ends=True, step_reward=-2.0, goal_reward=0.0, discount=1.0)
    found = ix.identify(env.mdp, ix.TabularReward("s"), ix.soft_plan(env.mdp, env.reward))
    theta = env.reward.copy()
    for direction in found.null_basis:
        step = np.where(np.arange(6) == 5, 0, direction) * 0.1
        change = ix.soft_plan(env.mdp, theta + step).policy - ix.soft_plan(env.mdp, theta).policy
        assert np.abs(change[:5]).max() < 1e-9


def test_a_path_plan_is_refused():
    env = ix.envs.RiskyPath()
    with pytest.raises(TypeError, match="soft_plan"):
        ix.identify(env.mdp, ix.TabularReward("s"), ix.path_plan(env.mdp, env.reward))
