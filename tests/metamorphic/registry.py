"""Every tabular estimator, with each of its solvers and objectives, as a case that the relations run over.

A new estimator joins by one line in `CASES`.
"""

import dataclasses
import functools
import warnings
from typing import Any, NamedTuple

import jax
import numpy as np

import irlax as ix
from irlax.estimators.tabular import Adam, DualAscent

OBJECTIVES = ("feature-matching", "discounted-likelihood", "likelihood")
#: Settings under which each solver but Adam gets to its tolerance on these problems, in less than a tenth of a second.
SOLVERS = {
    "newton": "newton",
    "lbfgs": "lbfgs",
    "dual-ascent": DualAscent(max_steps=2000),
    "adam": Adam(learning_rate=0.2, max_steps=60),
}
TOLERANCES = {"newton": 1e-8, "lbfgs": 1e-8, "dual-ascent": 1e-6, "adam": 1e-2}
#: Adam goes the same way in the same problem, so its estimates agree better than they are known.
EQUAL = {"newton": 1e-6, "lbfgs": 1e-6, "dual-ascent": 1e-4, "adam": 1e-4}


@dataclasses.dataclass(frozen=True)
class Case:
    """An estimator and what it promises."""

    name: str
    estimator: Any
    #: One of OBJECTIVES, or "paths".
    objective: str
    #: What "equal" means for two of its estimates, in units of the features.
    equal: float = 1e-6
    linear_only: bool = False
    #: Whether it reports standard errors, and so tests of nested rewards, regression tables and a bootstrap.
    errors: bool = False
    fits_many: bool = False
    #: Whether the demonstrator may be a policy or an occupancy.
    takes_policies: bool = True
    #: Whether its parameters are an estimate; else only the behaviour that they were found with is.
    estimates: bool = True
    #: Whether nothing but the shares of the weights matters: no prior, no smoothing of counts.
    scale_free: bool = True
    #: Whether it gets to its optimum; else it only goes the same way in the same problem.
    finishes: bool = True
    random: bool = False

    def fit(self, mdp, reward, demonstrator=None, **options):
        """The fit, with the one key that this case always uses."""
        if self.random:
            options["key"] = jax.random.key(0)
        return self.estimator.fit(mdp, reward, demonstrator, **options)


def _mce(objective, solver):
    tol = TOLERANCES[solver]
    return Case(
        f"MCEIRL {objective} {solver}",
        ix.MCEIRL(objective=objective, solver=SOLVERS[solver], tol=tol),
        objective,
        equal=EQUAL[solver],
        errors=objective == "likelihood",
        fits_many=solver == "lbfgs",
        finishes=solver != "adam",
    )


def _maxent(solver):
    tol = TOLERANCES[solver]
    estimator = ix.MaxEntIRL(solver=SOLVERS[solver], tol=tol)
    return Case(f"MaxEntIRL {solver}", estimator, "paths", equal=EQUAL[solver], finishes=solver != "adam")


CASES = (
    *(_mce(objective, solver) for objective in OBJECTIVES for solver in SOLVERS),
    *(_maxent(solver) for solver in SOLVERS),
    Case("TwoStepIRL", ix.TwoStepIRL(iterations=None), "likelihood", 1e-5, True, True, takes_policies=False,
         scale_free=False),
    Case("TwoStepIRL one step", ix.TwoStepIRL(iterations=1), "likelihood", 1e-5, True, True, takes_policies=False,
         scale_free=False),
    Case("ApprenticeshipIRL", ix.ApprenticeshipIRL(), "feature-matching", 1e-4, True, estimates=False),
    Case("BayesianIRL", ix.BayesianIRL(num_chains=2, num_warmup=20, num_samples=8), "likelihood", 1e-5, True,
         takes_policies=False, scale_free=False, random=True),
)  # fmt: skip
BY_NAME = {case.name: case for case in CASES}
#: One case for each estimator and objective, by the solver that it takes itself.
PLAIN = tuple(case for case in CASES if not case.name.endswith(("lbfgs", "dual-ascent", "adam")) and not case.random)
LIKELIHOOD = BY_NAME["MCEIRL likelihood newton"]


class Outcome(NamedTuple):
    """A fit, and what was said about it."""

    fit: Any
    warnings: list[str]

    @property
    def warned(self):
        return any(text.startswith("The fit ") for text in self.warnings)


def fitted(case, mdp, reward, demonstrator=None, **options):
    """The outcome of a fit: warnings are kept, not raised."""
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        fit = case.fit(mdp, reward, demonstrator, **options)
    return Outcome(fit, [str(one.message) for one in said])


@functools.cache
def outcome(case, world):
    """The outcome of a world's own fit, made once."""
    return fitted(case, world.mdp, world.reward, world.demos)


def fit_of(case, world):
    return outcome(case, world).fit


def theta(fit):
    return np.asarray(fit.reward.parameters).ravel()


def assert_same_behaviour(case, one, other, *, states=slice(None), actions=slice(None)):
    """Equal policies where both are defined, or, from one who matches features only, equal features.

    `states` and `actions` say where in the second fit's tables those of the first stand.
    """
    if not case.estimates:
        np.testing.assert_allclose(one.feature_gap, other.feature_gap[: len(one.feature_gap)], atol=case.equal)
        return
    there = np.asarray(other.policy)[..., states, :][..., actions]
    np.testing.assert_allclose(np.asarray(one.policy), there, atol=case.equal)


def assert_same_estimates(case, one, other):
    assert one.status.success is other.status.success
    if case.estimates:
        np.testing.assert_allclose(theta(one), theta(other), atol=case.equal, rtol=case.equal)
    assert_same_behaviour(case, one, other)
