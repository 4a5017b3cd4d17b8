"""MaxEnt IRL: equal to MCE IRL where the world is certain, and wrong where it is not."""

import jax
import numpy as np
import pytest

import irlax as ix
from tests import oracles
from tests.problems import as_mdp, random_problem

RISKY = np.array([[0.95, 0.05], [1.0, 0.0], [1.0, 0.0], [1.0, 0.0]])


@pytest.mark.parametrize(("discount", "horizon"), [(1.0, 4), (0.9, 4), (0.9, None)])
def test_with_deterministic_dynamics_maxent_and_mce_coincide(discount, horizon):
    mdp = ix.envs.RandomMDP(5, 3, branching=1, discount=discount, horizon=horizon, seed=1).mdp
    features = np.random.default_rng(0).normal(size=(5, 3, 2))
    length = {} if horizon else {"length": 120}
    demos = ix.rollout(mdp, ix.soft_plan(mdp, features @ np.ones(2)), num=40, key=jax.random.key(0), **length)
    fits = [estimator.fit(mdp, ix.LinearReward(features), demos) for estimator in (ix.MCEIRL(), ix.MaxEntIRL())]
    np.testing.assert_allclose(fits[0].reward.weights, fits[1].reward.weights, rtol=1e-6)
    np.testing.assert_allclose(fits[0].policy, fits[1].policy, atol=1e-7)


def test_risky_path_maxent_likes_goal_and_hazard_alike_and_mce_tells_them_apart():
    env = ix.envs.RiskyPath(discount=1.0, horizon=5)
    reward = ix.LinearReward(np.eye(4)[:, 2:], names=["goal", "hazard"])
    path = ix.MaxEntIRL().fit(env.mdp, reward, RISKY)
    causal = ix.MCEIRL().fit(env.mdp, reward, RISKY)
    # By hand: the gamble saves one step of either outcome, so exp(r) = .05/.95 for both.
    np.testing.assert_allclose(path.reward.weights, np.log(0.05 / 0.95), rtol=1e-6)
    goal, hazard = causal.reward.weights
    assert goal > 0 > hazard
    # By hand: 2(goal + hazard) − 3 goal = log(.05/.95); of all such weights the shortest vector.
    np.testing.assert_allclose([goal, hazard], np.log(0.05 / 0.95) * np.array([-0.2, 0.4]), rtol=1e-6)
    assert "hazard" in str(path.summary())


@pytest.mark.parametrize("over", ["sa", "sas"])
def test_matched_features_are_those_of_the_enumerated_path_law(over):
    problem = random_problem(2, discount=1.0, horizon=3)
    mdp = as_mdp(problem, "successors")
    features = np.random.default_rng(3).normal(size=(*(3, 2, 3)[: len(over)], 2))
    demos = ix.rollout(mdp, np.full((3, 2), 0.5), num=60, key=jax.random.key(0))
    fit = ix.MaxEntIRL().fit(mdp, ix.LinearReward(features), demos)
    assert fit.converged
    full = features if over == "sas" else np.broadcast_to(features[:, :, None], (3, 2, 3, 2))
    seen = full[demos.states, demos.actions, demos.next_states].sum(axis=0) / 60
    started = oracles.Problem(problem.transitions, fit.mdp.initial, 1.0, 3, problem.available)
    law = oracles.path_law(started, full @ fit.reward.weights, tilt_start=False)
    believed = np.zeros(2)
    for path, probability in law.items():
        states, actions = path[0::2], path[1::2]
        for t in range(3):
            believed += probability * full[states[t], actions[t], states[t + 1]]
    np.testing.assert_allclose(believed, seen, atol=1e-7)


@pytest.mark.parametrize("kind", ["s", "sa", "sas"])
@pytest.mark.parametrize("horizon", [3, None])
def test_every_kind_of_tabular_reward_can_be_learned(kind, horizon):
    mdp = ix.envs.RandomMDP(3, 2, discount=0.9, horizon=horizon, seed=4).mdp
    values = np.random.default_rng(0).normal(size=(3, 2, 3)[: len(kind)])
    plan = ix.path_plan(mdp, values)
    occupancy = ix.believed_occupancy(mdp, plan)
    if kind == "sas":
        # What the model believes about s' is not what happens, so only rewards over (s, a) can be matched exactly.
        assert ix.MaxEntIRL(l2=0.01).fit(mdp, ix.TabularReward(kind), plan.policy).converged
        return
    fit = ix.MaxEntIRL().fit(mdp, ix.TabularReward(kind), occupancy=occupancy)
    np.testing.assert_allclose(fit.policy, plan.policy, atol=1e-6)
