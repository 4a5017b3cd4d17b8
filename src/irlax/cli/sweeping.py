"""The fit of `irlax sweep`: from files, as `irlax fit` makes it, perhaps to a resample of the episodes."""

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np

from irlax.cli import fitting, inputs
from irlax.demos import Demonstrations
from irlax.estimators.tabular import MCEIRL
from irlax.estimators.tabular.tabular_fit import TabularFit
from irlax.rewards.reward import flat

COLUMNS = {"episode": "episode", "time": "t", "state": "state", "action": "action"}
#: Arguments that differ between cases which one `fit_many` computes.
_OWN = ("resample", "seed")


def fit(cases: list[dict[str, Any]], folder: Path) -> list[dict[str, Any]]:
    """Fit each case, and return its estimates, how it ended and its likelihoods; a single fit is saved to `folder`.

    A case has the arguments of `_problem` below. Cases that differ in `resample` and `seed` only, and are computed
    `together`, are fitted by one `vmap` if the estimator is MCEIRL.
    """
    problems = [_problem(**case) for case in cases]
    alike = {str(sorted((name, value) for name, value in case.items() if name not in _OWN)) for case in cases}
    estimator, problem, _ = problems[0]
    if len(cases) > 1 and len(alike) == 1 and isinstance(estimator, MCEIRL) and problem.demos.goals is None:
        fits = estimator.fit_many(problem.mdp, problem.reward, [each.demos for _, each, _ in problems])
    else:
        fits = [fitting.run(estimator, each, key=seed, previous=None) for estimator, each, seed in problems]
        for number, found in enumerate(fits):
            found.save(folder / (f"fit-{number}" if len(fits) > 1 else "fit"))
    return [_row(found) for found in fits]


def _problem(
    *,
    mdp: str,
    demos: str,
    features: str | None = None,
    feature_names: str | None = None,
    reward: str | None = None,
    method: str = "mce",
    objective: str | None = None,
    solver: str | None = None,
    l2: float | str | None = None,
    tol: float | None = None,
    start: str | None = None,
    settings: dict[str, Any] | None = None,
    held_out: str | None = None,
    columns: dict[str, str] | None = None,
    resample: int = 0,
    seed: int = 0,
) -> tuple[Any, inputs.Problem, int]:
    """The estimator, the problem and the seed of a case, whose arguments are the options of `irlax fit`.

    `resample` 0 is the data as they are; 1, 2, … are as many episodes drawn with replacement, by this and `seed`.
    """
    options = {"objective": objective, "solver": solver, "l2": l2, "tol": tol, "start": start}
    given = {name: str(value) if name == "l2" else value for name, value in options.items() if value is not None}
    estimator = fitting.estimator_of(method, given, {name: str(value) for name, value in (settings or {}).items()})
    problem = inputs.read(
        mdp,
        Path(demos),
        None if held_out is None else Path(held_out),
        names=COLUMNS | (columns or {}),
        features=None if features is None else Path(features),
        feature_names=feature_names,
        over=reward,
    )
    return estimator, problem._replace(demos=_resampled(problem.demos, resample, seed)), seed


def _resampled(demos: Demonstrations, resample: int, seed: int) -> Demonstrations:
    """As many episodes, drawn with replacement: as weights, so that shapes stay the same."""
    if resample == 0:
        return demos
    rng = np.random.default_rng([seed, resample])
    counts = rng.multinomial(demos.num_episodes, demos.weights / demos.weights.sum())
    return dataclasses.replace(demos, weights=counts * (demos.weights.sum() / demos.num_episodes))


def _row(found: Any) -> dict[str, Any]:
    row: dict[str, Any] = {"status": found.status.name, "converged": bool(found.converged)}
    row["log_likelihood"] = found.log_likelihood
    if isinstance(found, TabularFit):
        row["held_out_log_likelihood"] = found.held_out_log_likelihood
        row["l2"] = found.l2
        names, estimates = found.reward.parameter_names(), flat(found.reward.parameters)
        row |= {f"estimate {name}": float(value) for name, value in zip(names, estimates, strict=True)}
    return row
