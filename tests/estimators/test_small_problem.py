"""Losses of small problems on the host: the same numbers as those that JAX differentiates."""

import jax
import numpy as np
import pytest

import irlax as ix
from irlax.estimators.tabular.inference import _slopes
from irlax.estimators.tabular.mce import MCEIRL
from irlax.estimators.tabular.observed_likelihood import ObservedLikelihood
from irlax.estimators.tabular.pairing import pair_up
from irlax.estimators.tabular.problem import Flattening
from irlax.estimators.tabular.small_problem import SmallObjective, SmallProblem

S, A = 4, 2
RNG = np.random.default_rng(0)
P, INITIAL = RNG.dirichlet(np.ones(S), size=(S, A)), RNG.dirichlet(np.ones(S))
REWARDS = {
    "of states": ix.LinearReward(RNG.normal(size=(S, 3))),
    "with a known part": ix.LinearReward(RNG.normal(size=(S, A, 3)), known=RNG.normal(size=(S, A))),
    "of next states": ix.LinearReward(RNG.normal(size=(S, A, S, 3))),
    "table s": ix.TabularReward("s"),
    "table sa": ix.TabularReward("sa"),
    "table sas": ix.TabularReward("sas"),
}
#: Each reward, objective and kind of horizon, without all of their combinations.
CASES = [
    ("of states", "likelihood", 3),
    ("with a known part", "feature-matching", None),
    ("of next states", "discounted-likelihood", None),
    ("table s", "feature-matching", 3),
    ("table sa", "likelihood", None),
    ("table sas", "discounted-likelihood", 3),
]


def mdp_of(horizon):
    available = np.ones((S, A), bool)
    available[2, 1] = False
    return ix.MDP.from_dense(P, INITIAL, discount=0.9, horizon=horizon, available=available)


def demos_of(mdp):
    policy = ix.soft_plan(mdp, np.zeros((S, A))).policy
    length = 5 if mdp.horizon is None else None
    return ix.rollout(mdp, policy, num=20, key=jax.random.key(1), length=length)


@pytest.mark.filterwarnings("ignore:.*unobserved")
@pytest.mark.parametrize(("reward", "objective", "horizon"), CASES)
def test_loss_gradient_and_hessian_are_those_of_jax(reward, objective, horizon):
    mdp = mdp_of(horizon)
    with jax.enable_x64(True):
        pairs = pair_up([mdp, mdp], [REWARDS[reward]] * 2, [demos_of(mdp), demos_of(mdp)], None, "auto")
        problem, first = MCEIRL(objective=objective, l2=0.3)._estimation(*pairs).to_problem()
        small = SmallProblem.of(problem)
        assert isinstance(small, SmallProblem)
        x = first + 0.1 * np.random.default_rng(2).normal(size=len(first))
        ours, theirs = small.evaluate(x), problem.evaluate(x)
        assert ours.loss == pytest.approx(theirs.loss, rel=1e-12)
        assert np.allclose(ours.gradient, theirs.gradient, rtol=1e-9, atol=1e-11)
        assert np.allclose(small.hessian(ours), problem.hessian(theirs), rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("horizon", [None, 3])
def test_scores_are_those_of_jax(horizon):
    mdp = mdp_of(horizon)
    with jax.enable_x64(True):
        (reward,), (expert,) = pair_up(mdp, REWARDS["of next states"], demos_of(mdp), None, "auto")
        likelihood, theta = ObservedLikelihood.of(expert, reward).objective, np.array([0.3, -0.2, 0.5])
        small = SmallObjective.of(likelihood, 3)
        plan, flattening = small.plan(theta), Flattening.of(reward.parameters)
        slopes = np.asarray(_slopes(likelihood, flattening, jax.numpy.asarray(theta)))
        counted = np.asarray(likelihood.weights) > 0
        ours = small.scores(plan, np.asarray(likelihood.actions), np.asarray(likelihood.states))
        assert np.allclose(ours[counted], slopes[counted], rtol=1e-9, atol=1e-11)


def test_values_that_overflow_have_an_infinite_loss():
    mdp = mdp_of(None)
    with jax.enable_x64(True):
        pairs = pair_up(mdp, REWARDS["table s"], demos_of(mdp), None, "auto")
        small = SmallProblem.of(MCEIRL(objective="likelihood")._estimation(*pairs).to_problem()[0])
        assert small.evaluate(np.full(S, 1e308)).loss == np.inf


@pytest.mark.parametrize("discount", [0.5, 0.999])
def test_a_constant_that_changes_no_choice_has_no_standard_error(discount):
    mdp = ix.MDP.from_dense(P, INITIAL, discount=discount)
    features = np.concatenate([np.asarray(REWARDS["with a known part"].features), np.full((S, A, 1), 1e-3)], axis=-1)
    fit = ix.MCEIRL(objective="likelihood").fit(mdp, ix.LinearReward(features), demos_of(mdp))
    errors = fit.standard_errors()
    assert np.isnan(errors[-1]) and np.isfinite(errors[:-1]).all()
