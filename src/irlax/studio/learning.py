"""A reward from a scene, with what the page shows of it."""

import dataclasses
import time
import warnings
from collections.abc import Callable
from typing import Any

import equinox as eqx
import numpy as np

from irlax.estimators.tabular.maxent import MaxEntIRL
from irlax.estimators.tabular.mce import MCEIRL
from irlax.estimators.tabular.solvers import LBFGS, choose_solver
from irlax.estimators.tabular.tabular_fit import TabularFit
from irlax.iteration import Iterate
from irlax.planning import Plan, visits
from irlax.rewards.reward import flat
from irlax.status import Status
from irlax.studio.grid import Grid, grid_of
from irlax.studio.scene import Scene
from irlax.typing import Float

#: The largest entry of the gradient, per walk: of rewards, the first four digits are shown.
TOL = 1e-6
#: A fit that takes longer than this shows the reward of its latest step, in seconds; steps of L-BFGS are seen so often.
SHOWN_AFTER, SEEN_EVERY = 0.08, 0.05


class Learned(eqx.Module):
    """A fit to a scene."""

    grid: Grid
    fit: TabularFit

    @property
    def parameters(self) -> Float[np.ndarray, " K"]:
        """θ; 0 in walls."""
        return flat(self.fit.reward.parameters)


def estimator_of(scene: Scene, *, path: bool = False) -> Any:
    """The estimator that a scene asks for: of the causal model, or of the path model."""
    if path:
        return MaxEntIRL(l2=scene.l2, tol=TOL, progress=False)
    return MCEIRL(objective=scene.objective, l2=scene.l2, tol=TOL, progress=False)  # type: ignore[arg-type]


def learn(
    scene: Scene,
    before: Learned | None = None,
    stop: Callable[[], bool] = lambda: False,
    show: Callable[[Any], Any] = lambda reward: None,
    *,
    path: bool = False,
) -> Learned | None:
    """Fit a reward to the walks of a scene, which has some; None if `stop` said so.

    `before`, an earlier fit to a scene of the same size, is where it starts from. If it takes long, `show` is called
    once, with a picture of the reward at that time.
    """
    started = time.perf_counter()
    grid = grid_of(scene)
    reward = grid.reward()
    if before is not None and before.grid.shape == grid.shape and before.grid.scene.reward == scene.reward:
        parameters = np.array(before.fit.reward.parameters, copy=True)
        if scene.reward != "marks":
            parameters[~grid.free] = 0.0
        reward = reward.with_parameters(parameters)
    shown = False

    def follow(iterate: Iterate) -> bool:
        nonlocal shown
        if not shown and iterate.parameters is not None and time.perf_counter() - started > SHOWN_AFTER:
            shown = True
            latest = reward.with_parameters(iterate.parameters.reshape(np.shape(reward.parameters)))
            show(picture(grid, grid.table(latest)))
        return stop()

    solver = choose_solver("auto", [reward], [grid.mdp])
    solver = LBFGS(report_every=SEEN_EVERY) if isinstance(solver, LBFGS) else solver
    estimator = dataclasses.replace(estimator_of(scene, path=path), solver=solver)
    with warnings.catch_warnings():
        # What they say stands in the status, which the page shows.
        warnings.simplefilter("ignore")
        fit = estimator.fit(grid.mdp, reward, grid.demos(padded=True), callback=follow)
    return None if fit.status is Status.INTERRUPTED else Learned(grid, fit)


def log_likelihood(grid: Grid, plan: Plan) -> float:
    """Σ log π of the choices that were drawn, each counted once."""
    states, actions = grid.choices()
    horizon = grid.mdp.horizon
    if horizon is None:
        return float(np.asarray(plan.log_policy)[states, actions].sum())
    times = np.concatenate([np.arange(len(walk) - 1) for walk in grid.scene.demonstrations])
    return float(np.asarray(plan.log_policy)[times, states, actions].sum())


def behaviour(grid: Grid, plan: Plan) -> dict[str, Any]:
    """The policy at t = 0, where walks go on, and the discounted visits of a plan, as pictures."""
    policy = np.asarray(plan.policy)
    policy = policy if grid.mdp.horizon is None else policy[0]
    return {
        "policy": picture(grid, np.where(grid.ended[:, None], np.nan, policy)),
        "model": picture(grid, np.asarray(visits(grid.mdp, plan)).sum(axis=1)),
    }


def learned_reply(learned: Learned) -> dict[str, Any]:
    """What the page shows of a fit at once."""
    grid, fit = learned.grid, learned.fit
    plan = fit.plan
    num = len(grid.choices()[0])
    exists = np.asarray(grid.mdp.available).sum(axis=1)
    return {
        "reward": picture(grid, grid.table(fit.reward)),
        **behaviour(grid, plan),
        "expert": picture(grid, observed_visits(grid)),
        "parameters": {} if grid.scene.reward != "marks" else named(fit),
        "log_likelihood": log_likelihood(grid, plan),
        "chance": -float(np.log(exists[grid.choices()[0]]).sum()),
        "choices": num,
        "walks": len(grid.scene.demonstrations),
        "status": fit.status.name.lower(),
        "converged": fit.converged,
        "message": fit.status.value,
        "missing_mass": fit.missing_mass,
        "iterations": fit.iterations,
        "seconds": fit.seconds,
    }


def named(fit: TabularFit) -> dict[str, float]:
    """The parameters by name."""
    return dict(zip(fit.reward.parameter_names(), flat(fit.reward.parameters).tolist(), strict=True))


def observed_visits(grid: Grid) -> Float[np.ndarray, " S"]:
    """Mean discounted visits of a walk; where walks end they stay, so the rest of the visits is there."""
    scene, total = grid.scene, np.zeros(len(grid.free))
    gamma = scene.discount
    for walk in scene.demonstrations:
        states = [grid.state(cell) for cell in walk]
        np.add.at(total, states[:-1], gamma ** np.arange(len(walk) - 1))
        if scene.is_end(walk[-1]):
            total[states[-1]] += _rest(gamma, scene.horizon, len(walk) - 1)
    return total / max(len(scene.demonstrations), 1)


def _rest(gamma: float, horizon: int | None, start: int) -> float:
    """Σ γᵗ from a time on."""
    if horizon is not None:
        return float((gamma ** np.arange(start, horizon)).sum())
    return gamma**start / (1 - gamma)


def picture(grid: Grid, values: Any) -> Any:
    """Values over states as JSON has them: rows of numbers, null in walls."""
    return plain(grid.picture(np.asarray(values)))


def plain(values: Any) -> Any:
    """An array as lists, null for what is not a finite number."""
    array = np.asarray(values, float)
    shown = array.astype(object)
    shown[~np.isfinite(array)] = None
    return shown.tolist()
