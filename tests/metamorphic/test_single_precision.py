"""Single precision is what was asked for, all the way, and it finds the same estimates to single precision."""

import jax
import numpy as np
import pytest

import irlax as ix
from tests.metamorphic.registry import OBJECTIVES, Case, fitted, theta
from tests.metamorphic.worlds import WORLDS, finite

TOL = 1e-3
ESTIMATORS = {
    **{f"MCEIRL {objective}": (objective, ix.MCEIRL(objective=objective, tol=TOL)) for objective in OBJECTIVES},
    "MaxEntIRL": ("paths", ix.MaxEntIRL(tol=TOL)),
}
on_every_estimator = pytest.mark.parametrize("name", ESTIMATORS)


def _narrow(tree):
    """Whether every floating-point array of a tree with more than one entry is of 32 bits."""
    arrays = [leaf for leaf in jax.tree.leaves(tree) if np.ndim(leaf) and np.issubdtype(leaf.dtype, np.floating)]
    return bool(arrays) and all(leaf.dtype == np.float32 for leaf in arrays)


@pytest.mark.parametrize(
    ("name", "world"), [*((name, "finite") for name in ESTIMATORS), ("MCEIRL likelihood", "endless")]
)
def test_single_precision_finds_the_same_estimates(name, world):
    objective, estimator = ESTIMATORS[name]
    world = WORLDS[world]()
    case = Case(name, estimator, objective)
    wide = fitted(case, world.mdp, world.reward, world.demos).fit
    narrow = fitted(case, world.mdp.single_precision(), world.reward, world.demos).fit
    assert wide.status.success and narrow.status.success
    np.testing.assert_allclose(theta(narrow), theta(wide), atol=0.02)
    np.testing.assert_allclose(np.asarray(narrow.policy), np.asarray(wide.policy), atol=5e-3)
    assert narrow.log_likelihood == pytest.approx(wide.log_likelihood, rel=1e-3)


@pytest.mark.parametrize("change", [{"discount": 0.8}, {"horizon": 6}, {"initial": np.array([1.0, 0, 0, 0])}], ids=str)
def test_single_precision_outlives_a_replacement(change):
    assert _narrow(finite().mdp.single_precision().replace(**change))


@on_every_estimator
def test_single_precision_outlives_a_fit(name):
    objective, estimator = ESTIMATORS[name]
    world = finite()
    fit = fitted(Case(name, estimator, objective), world.mdp.single_precision(), world.reward, world.demos).fit
    assert _narrow(fit.mdp)
    assert fit.plan.value.dtype == np.float32


def test_single_precision_outlives_the_disk(tmp_path):
    ix.save_mdp(tmp_path / "mdp.npz", finite().mdp.single_precision())
    assert _narrow(ix.load_mdp(tmp_path / "mdp.npz"))
