"""A reward object may stand wherever an array of rewards may."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import irlax as ix
from irlax.analysis import canonical, rescaling, starc_distance
from tests.problems import A, S, as_mdp, random_policy, random_problem, random_reward

FEATURES = np.random.default_rng(3).normal(size=(S, A, S, 2))
WEIGHTS = np.array([0.7, -1.2])
#: Objects, and the arrays that they stand for.
REWARDS = {
    "s": (ix.TabularReward("s", random_reward(1, "s")), random_reward(1, "s")),
    "sa": (ix.TabularReward("sa", random_reward(1, "sa")), random_reward(1, "sa")),
    "sas": (ix.TabularReward("sas", random_reward(1, "sas")), random_reward(1, "sas")),
    "linear": (ix.LinearReward(FEATURES, WEIGHTS), FEATURES @ WEIGHTS),
}
OTHER = random_reward(2, "sa")
FUNCTIONS = {
    "soft_plan": lambda mdp, reward, policy: ix.soft_plan(mdp, reward).value,
    "hard_plan": lambda mdp, reward, policy: ix.hard_plan(mdp, reward).value,
    "path_plan": lambda mdp, reward, policy: ix.path_plan(mdp, reward).value,
    "expected_return": lambda mdp, reward, policy: ix.expected_return(mdp, policy, reward),
    "regret": lambda mdp, reward, policy: ix.regret(mdp, reward, OTHER),
    "regret, true": lambda mdp, reward, policy: ix.regret(mdp, OTHER, reward),
    "epic_distance": lambda mdp, reward, policy: ix.epic_distance(mdp, reward, OTHER),
    "starc_distance": lambda mdp, reward, policy: starc_distance(mdp.replace(horizon=None), OTHER, reward),
    "shape": lambda mdp, reward, policy: ix.shape(mdp, reward, np.arange(S)),
    "canonical": lambda mdp, reward, policy: canonical(mdp, reward),
    "rescaling": lambda mdp, reward, policy: [row[1:] for row in rescaling(mdp, reward).rows],
    "complete": lambda mdp, reward, policy: ix.envs.complete(mdp, reward)[1].sum(),
}


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("kind", REWARDS)
def test_an_object_gives_what_its_array_gives(kind, name):
    problem = random_problem(0)
    mdp, policy = as_mdp(problem), random_policy(problem, 0)
    if name == "complete" and kind == "s":
        pytest.skip("an object over states is written out over states and actions")
    given, array = REWARDS[kind]
    actual, expected = (FUNCTIONS[name](mdp, reward, policy) for reward in (given, array))
    np.testing.assert_allclose(actual, expected, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("same", [ix.same_soft_policy, ix.same_hard_policy])
@pytest.mark.parametrize("under", ["given", "all"])
def test_objects_are_compared_as_their_arrays_are(same, under):
    mdp = as_mdp(random_problem(0, horizon=None))
    reward, array = REWARDS["sas"]
    assert same(mdp, reward, ix.shape(mdp, array, np.arange(S)), under=under)
    assert not same(mdp, reward, ix.TabularReward("sas", -array), under=under)


def test_the_policy_of_a_fit_is_the_plan_of_its_reward():
    mdp = as_mdp(random_problem(0))
    fit = ix.MCEIRL(l2=0.1, progress=False).fit(mdp, ix.TabularReward("sas"), ix.soft_plan(mdp, OTHER))
    np.testing.assert_allclose(ix.soft_plan(mdp, fit.reward).policy, fit.policy, rtol=1e-12)


def test_inside_jit_an_object_is_differentiated():
    mdp = as_mdp(random_problem(0))
    with jax.enable_x64(True):
        start = jax.jit(lambda reward: mdp.initial @ ix.soft_plan(mdp, reward).value[0])
        gradient = jax.grad(start)(ix.TabularReward("sa", jnp.asarray(OTHER))).values
        visits = ix.visits(mdp, ix.soft_plan(mdp, OTHER))
    np.testing.assert_allclose(gradient, visits, rtol=1e-10)


def test_the_checks_of_arrays_hold_for_objects():
    mdp = as_mdp(random_problem(0))
    with pytest.raises(ValueError, match="must be finite"):
        ix.soft_plan(mdp, ix.TabularReward("s", np.array([0.0, np.inf, 0.0])))
    with pytest.raises(TypeError, match="must be an array of numbers"):
        ix.soft_plan(mdp, "a reward")
