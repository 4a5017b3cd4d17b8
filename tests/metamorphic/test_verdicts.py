"""Whether there is a finite optimum is a fact about the data: every solver says the same, and a linear programme."""

import jax
import numpy as np
import pytest

import irlax as ix
from irlax.estimators.tabular import Adam, DualAscent
from tests.metamorphic import feasible, random_problems
from tests.metamorphic.random_problems import of_verdict
from tests.metamorphic.registry import Case, fitted
from tests.metamorphic.worlds import WORLDS, World

#: Tried here, with few features; benchmarks/quality/no_finite_optimum.py tries all kinds and rewards.
KINDS = ("stochastic", "deterministic", "logit", "ended")
SOLVERS = {"newton": "newton", "lbfgs": "lbfgs", "dual-ascent": DualAscent(max_steps=150), "adam": Adam(max_steps=40)}


def estimator(objective, solver, tol=1e-8):
    if objective == "paths":
        return Case(f"paths {solver}", ix.MaxEntIRL(solver=SOLVERS[solver], tol=tol), objective)
    chosen = ix.MCEIRL(objective=objective, solver=SOLVERS[solver], tol=tol)
    return Case(f"{objective} {solver}", chosen, objective)


def wrong_verdicts(world, objective, finite):
    """By solver: how it ended, where that is not what is so."""
    ends = {name: fitted(estimator(objective, name), world.mdp, world.reward, world.demos) for name in SOLVERS}
    return {
        name: one.fit.status.name
        for name, one in ends.items()
        if (one.fit.status is not ix.Status.UNBOUNDED) is not finite
    }


@pytest.mark.parametrize("finite", [True, False], ids=["finite", "no finite"])
@pytest.mark.parametrize(
    ("kind", "objective"), [(kind, objective) for kind in KINDS for objective in random_problems.objectives_of(kind)]
)
def test_every_solver_agrees_with_the_linear_programme(kind, objective, finite):
    world = next(of_verdict(kind, "linear", objective, finite), None)
    if world is None:
        pytest.skip("No problem of this kind is like that, among the first.")
    assert wrong_verdicts(world, objective, finite) == {}, world.name


@pytest.mark.parametrize("name", WORLDS)
def test_problems_with_an_optimum_have_one_by_linear_programme(name):
    world = WORLDS[name]()
    assert feasible.has_optimum(world, "feature-matching")
    assert feasible.has_optimum(world, "paths")


def _coin(heads, tails):
    """One choice between two actions, one feature: the estimate is log(heads / tails)."""
    episodes = [([0], [1])] * heads + [([0], [0])] * tails
    features = np.array([[[0.0], [1.0]]])
    demos = ix.Demonstrations.from_episodes(episodes)
    ones = np.ones((1, 2), bool)
    return World("coin", np.ones((1, 2, 1)), np.ones(1), 0.0, 1, ones, features, demos)


@pytest.mark.parametrize(("heads", "tails"), [(6, 0), (0, 6), (1, 200), (3, 3)])
def test_a_coin_has_an_estimate_if_both_sides_were_seen(heads, tails):
    world = _coin(heads, tails)
    finite = heads > 0 and tails > 0
    assert {feasible.has_optimum(world, objective) for objective in random_problems.OBJECTIVES} == {finite}
    assert wrong_verdicts(world, "likelihood", finite) == {}


def test_the_bootstrap_of_a_coin_takes_on_the_estimates_of_its_resamples():
    """Of twenty throws: log(k / (20 − k)), and no number where all fell alike, for one resample in eight."""
    world = _coin(18, 2)
    fit = ix.MCEIRL("likelihood").fit(world.mdp, world.reward, world.demos)
    draws = fit.bootstrap(num=400, key=jax.random.key(0))[:, 0]
    numbers = np.log(np.arange(1, 20) / np.arange(19, 0, -1))
    finite = draws[np.isfinite(draws)]
    np.testing.assert_allclose(np.abs(finite[:, None] - numbers).min(axis=1), 0, atol=1e-5)
    assert 0.06 < np.isnan(draws).mean() < 0.2
