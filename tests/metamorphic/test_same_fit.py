"""One problem has one answer, however it is asked and whether or not it was on disk."""

import numpy as np
import pytest

import irlax as ix
from tests.metamorphic.registry import CASES, PLAIN, fit_of, fitted, theta
from tests.metamorphic.worlds import TRUTH, WORLDS, copied, endless, finite, some_weights

on_every_world = pytest.mark.parametrize("name", WORLDS)


@pytest.mark.parametrize("name", ["finite"])
@pytest.mark.parametrize("case", [case for case in CASES if case.fits_many], ids=lambda case: case.name)
def test_many_fits_at_once_are_the_fits_one_by_one(case, name):
    world = WORLDS[name]()
    worlds = (world, copied(world, some_weights(world)))
    together = case.estimator.fit_many(world.mdp, world.reward, [one.demos for one in worlds])
    for one, many in zip([fit_of(case, one) for one in worlds], together, strict=True):
        assert one.status.success is many.status.success
        np.testing.assert_allclose(theta(one), theta(many), atol=1e-6)
        np.testing.assert_allclose(np.asarray(one.policy), np.asarray(many.policy), atol=1e-6)
        assert one.log_likelihood == pytest.approx(many.log_likelihood, rel=1e-8)


@on_every_world
@pytest.mark.parametrize("case", [case for case in CASES if case in PLAIN or case.random], ids=lambda case: case.name)
def test_a_fit_comes_back_from_disk_as_it_was(case, name, tmp_path):
    if case.random and name != "finite":
        pytest.skip("Sampled once: it takes seconds to compile.")
    fit = fit_of(case, WORLDS[name]())
    again = ix.load(fit.save(tmp_path / "fit"))
    assert again.status is fit.status and again.log_likelihood == fit.log_likelihood
    np.testing.assert_array_equal(theta(fit), theta(again))
    np.testing.assert_allclose(np.asarray(fit.policy), np.asarray(again.policy), atol=1e-12)
    if case.errors:
        np.testing.assert_allclose(fit.standard_errors("sandwich"), again.standard_errors("sandwich"), rtol=1e-9)


def _demonstrators(world, case):
    """The same behaviour as a plan, a policy, an occupancy, and, for who needs no more, its sum over time."""
    plan = ix.soft_plan(world.mdp, world.features @ TRUTH)
    visits = np.asarray(ix.occupancy(world.mdp, plan))
    found = {
        "plan": {"demonstrator": plan},
        "policy": {"demonstrator": np.asarray(plan.policy)},
        "occupancy": {"occupancy": visits},
    }
    if world.horizon is not None and case.objective in ("feature-matching", "paths"):
        found["summed occupancy"] = {"occupancy": visits.sum(axis=0)}
    return found


GIVEN = [case for case in PLAIN if case.takes_policies]


@pytest.mark.parametrize("world", [finite, endless], ids=["finite", "endless"])
@pytest.mark.parametrize("case", GIVEN, ids=lambda case: case.name)
def test_a_policy_is_its_occupancy(case, world):
    world = world()
    if case.objective == "likelihood" and world.horizon is None:
        pytest.skip("An endless policy makes infinitely many choices.")
    fits = {
        name: fitted(case, world.mdp, world.reward, **given).fit for name, given in _demonstrators(world, case).items()
    }
    for fit in fits.values():
        assert fit.status.success
        if case.estimates:
            np.testing.assert_allclose(theta(fits["plan"]), theta(fit), atol=1e-6)
        if case.objective not in ("paths",) and case.estimates:
            np.testing.assert_allclose(theta(fit), TRUTH, atol=1e-6)


@pytest.mark.parametrize("given", ["plan", "policy", "occupancy", "summed occupancy"])
@pytest.mark.parametrize("case", GIVEN, ids=lambda case: case.name)
def test_a_fit_to_a_policy_comes_back_from_disk(case, given, tmp_path):
    world = finite()
    demonstrators = _demonstrators(world, case)
    if given not in demonstrators:
        pytest.skip("The likelihoods need an occupancy at each time.")
    fit = fitted(case, world.mdp, world.reward, **demonstrators[given]).fit
    again = ix.load(fit.save(tmp_path / "fit"))
    assert again.status is fit.status
    np.testing.assert_array_equal(theta(fit), theta(again))
