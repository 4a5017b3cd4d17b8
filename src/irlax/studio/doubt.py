"""What the walks of a scene cannot tell about the reward, as directions to move it along."""

import math
from collections.abc import Mapping
from typing import Any

import equinox as eqx
import numpy as np

from irlax.analysis import identify
from irlax.analysis.identifiability import Identification, cost_of_identifying
from irlax.planning import soft_plan
from irlax.rewards import AbstractReward, LinearReward
from irlax.studio.grid import Grid
from irlax.studio.learning import Learned, behaviour, log_likelihood, picture, plain
from irlax.typing import Bool, Float

#: At most so many unidentified directions have a slider of their own.
MOST = 6
#: The curve of the log likelihood has so many points, over so many standard deviations to each side.
POINTS, REACH = 25, 3.0
#: What takes longer than about a second is not computed while somebody waits: multiplications of `identify`, and
#: numbers in the second derivatives.
MOST_PRODUCTS, MOST_ENTRIES = 2e9, 4e6


class Doubt(eqx.Module):
    """Directions of the parameters along which the walks of a fit say little, or nothing."""

    learned: Learned
    #: No soft policy depends on these, and the kind of each: "constant", "potential" or "no effect".
    null_basis: Float[np.ndarray, "n K"]
    kinds: tuple[str, ...]
    #: The policy depends on these, but only where nobody walked.
    open_basis: Float[np.ndarray, "m K"]
    #: The least certain direction of which walks say more than the penalty, one standard deviation long; or None.
    least: Float[np.ndarray, " K"] | None
    #: The standard error of each parameter; NaN where there is none.
    errors: Float[np.ndarray, " K"]

    def directions(self, cell: tuple[int, int] | None) -> dict[str, Float[np.ndarray, " K"]]:
        """The directions that have a slider, by name; the largest entry is 1, but for "least".

        "potential" and "open" are those of a cell: the parts of it that no policy, and that these walks, do not reveal.
        """
        found = {f"null{i}": _to_one(row) for i, row in enumerate(self._few()[0])}
        hidden = self.null_basis if len(self.null_basis) > MOST else self.null_basis[:0]
        if cell is not None:
            unit = self._unit(cell)
            for name, basis in {"potential": hidden, "open": self.open_basis}.items():
                part = basis.T @ (basis @ unit)
                if np.abs(part).max(initial=0.0) > 1e-6:
                    found[name] = _to_one(part)
        return found if self.least is None else found | {"least": self.least}

    def reply(self, cell: tuple[int, int] | None) -> dict[str, Any]:
        """What the page shows of it: standard errors, the directions, and the curve of the least certain one."""
        learned = self.learned
        directions = self.directions(cell)
        per_cell = learned.grid.scene.reward != "marks"
        return {
            "errors": _drawn(learned.grid, self.errors, largest=True) if per_cell else None,
            "error_list": [] if per_cell else plain(self.errors),
            "directions": {name: _drawn(learned.grid, row) for name, row in directions.items()},
            "kinds": list(self._few()[1]),
            "null_dim": len(self.null_basis),
            "open_dim": len(self.open_basis),
            "num_parameters": self._num_existing(),
            "span": float(max(1.0, np.abs(learned.parameters).max())),
            "reach": REACH,
            "curve": [] if self.least is None else self._curve(),
            "cell": cell,
        }

    def moved(self, sizes: Mapping[str, float], cell: tuple[int, int] | None) -> dict[str, Any]:
        """The reward moved along some directions, and what follows: policy, visits, log likelihood."""
        learned, directions = self.learned, self.directions(cell)
        unknown = sorted(set(sizes) - set(directions))
        if unknown:
            raise ValueError(f"There is no direction {unknown[0]!r:.40} here, but {', '.join(directions) or 'none'}.")
        move = sum((size * directions[name] for name, size in sizes.items()), np.zeros(self.null_basis.shape[1]))
        reward, grid = _with_parameters(learned, learned.parameters + move), learned.grid
        plan = soft_plan(grid.mdp, reward.table(grid.mdp))
        change = np.abs(np.asarray(plan.policy) - np.asarray(learned.fit.plan.policy))
        return {
            "reward": picture(grid, grid.table(reward)),
            **behaviour(grid, plan),
            "log_likelihood": log_likelihood(grid, plan),
            "policy_change": float(change.max()),
            "change_where_walked": float(change[_walked(grid)].max()),
        }

    def _few(self) -> tuple[Float[np.ndarray, "n K"], tuple[str, ...]]:
        """Null directions with a slider of their own, with their kinds; if there are many, without potentials."""
        if len(self.null_basis) <= MOST:
            return self.null_basis, self.kinds
        kept = [i for i, kind in enumerate(self.kinds) if kind != "potential"][:MOST]
        return self.null_basis[kept], tuple(self.kinds[i] for i in kept)

    def _num_existing(self) -> int:
        """How many parameters there are, without those of walls and of moves from where walks end."""
        grid, size = self.learned.grid, self.null_basis.shape[1]
        if grid.scene.reward == "marks":
            return size
        return int(grid.free.sum() if size == len(grid.free) else np.asarray(grid.mdp.available)[grid.free].sum())

    def _unit(self, cell: tuple[int, int]) -> Float[np.ndarray, " K"]:
        """1 in the parameters of a cell: one, or one for each move."""
        grid, size = self.learned.grid, self.null_basis.shape[1]
        if grid.scene.reward == "marks":
            return np.zeros(size)
        return np.repeat(np.arange(len(grid.free)) == grid.state(cell), size // len(grid.free)).astype(float)

    def _curve(self) -> list[list[float]]:
        """(standard deviations, log likelihood) along the least certain direction."""
        assert self.least is not None
        grid, points = self.learned.grid, []
        for size in np.linspace(-REACH, REACH, POINTS):
            reward = _with_parameters(self.learned, self.learned.parameters + size * self.least)
            points.append([float(size), log_likelihood(grid, soft_plan(grid.mdp, reward.table(grid.mdp)))])
        return points


def doubt_of(learned: Learned) -> Doubt:
    """What the walks of a fit leave open; what would take long is left out."""
    fit, grid, num = learned.fit, learned.grid, len(learned.parameters)
    null, kinds, unseen = np.zeros((0, num)), (), np.zeros((0, num))
    if cost_of_identifying(grid.mdp, num) <= MOST_PRODUCTS:
        found = _identified(learned)
        null, kinds = _named(grid, found.null_basis, found.kinds)
        unseen = unseen if found.unseen_basis is None else found.unseen_basis
    least, errors = None, np.full(num, np.nan)
    entries = num * len(grid.free) * (grid.mdp.horizon or 1)
    if fit.has_standard_errors and entries <= MOST_ENTRIES:
        information = fit.information
        least = _least_certain(information.hessian, information.penalty)
        errors = _errors(learned)
    return Doubt(learned, null, kinds, unseen, least, errors)


def _named(
    grid: Grid, null: Float[np.ndarray, "n K"], kinds: tuple[str, ...]
) -> tuple[Float[np.ndarray, "m K"], tuple[str, ...]]:
    """A basis of the same directions with their kinds: the constant first, if it is one; nothing of walls."""
    if grid.scene.reward == "marks":
        return null, kinds
    null = null[np.array([kind != "no effect" for kind in kinds], bool)]
    per_cell = null.shape[1] // len(grid.free)
    exists = grid.free if per_cell == 1 else np.asarray(grid.mdp.available) & grid.free[:, None]
    constant = exists.ravel() / np.linalg.norm(exists)
    if np.linalg.norm(null @ constant) < 1 - 1e-7:
        return null, ("potential",) * len(null)
    others = np.linalg.svd(null - np.outer(null @ constant, constant))[2][: len(null) - 1]
    return np.vstack([constant, others]), ("constant", *("potential",) * len(others))


def _identified(learned: Learned) -> Identification:
    """Which directions are identified: with a reward that does not exist in walls and for impossible moves."""
    grid, reward = learned.grid, learned.fit.reward
    if not isinstance(reward, LinearReward):
        exists = grid.free if grid.scene.reward == "cells" else np.asarray(grid.mdp.available) & grid.free[:, None]
        units = np.eye(exists.size) * exists.ravel()
        reward = LinearReward(units.reshape(*exists.shape, -1), learned.parameters)
    plan = soft_plan(grid.mdp, learned.fit.reward.table(grid.mdp))
    return identify(grid.mdp, reward, plan, demos=grid.demos(padded=False))


def _least_certain(hessian: Float[np.ndarray, "K K"], penalty: float) -> Float[np.ndarray, " K"] | None:
    """The eigenvector of least information that is more than the penalty's (or the largest), a deviation long."""
    sizes, axes = np.linalg.eigh(hessian)
    if sizes[-1] <= 1e-9:
        return None
    told = np.flatnonzero(sizes > max(penalty, 1e-6 * sizes[-1]))
    place = told[0] if len(told) else len(sizes) - 1
    direction = axes[:, place] / math.sqrt(sizes[place] + penalty)
    return direction * np.sign(direction[np.argmax(np.abs(direction))])


def _errors(learned: Learned) -> Float[np.ndarray, " K"]:
    """Standard errors of marks by the inverse Hessian; of cells and moves with the penalty read as a prior.

    A cell's reward is never identified by itself (a constant can be added to all), so that it has no standard error but
    this one: the square roots of the diagonal of (H + n·l2)⁻¹, with H that of n walks.
    """
    fit, grid = learned.fit, learned.grid
    if grid.scene.reward == "marks" or fit.information.penalty == 0:
        return fit.standard_errors("hessian")
    precision = fit.information.hessian + fit.information.penalty * np.eye(len(learned.parameters))
    sizes, axes = np.linalg.eigh(precision)
    # The likelihood is not concave where moves are random: at a saddle there are directions without an error.
    told = sizes > 1e-9 * sizes[-1]
    errors = np.sqrt((axes[:, told] ** 2 / sizes[told]).sum(axis=1))
    return np.where((np.abs(axes[:, ~told]) > 1e-5).any(axis=1), np.nan, errors)


def _with_parameters(learned: Learned, parameters: Float[np.ndarray, " K"]) -> AbstractReward:
    reward = learned.fit.reward
    return reward.with_parameters(parameters.reshape(np.shape(reward.parameters)))


def _walked(grid: Grid) -> Bool[np.ndarray, "*T S"]:
    """Where, and on a finite horizon when, choices were drawn."""
    states, horizon = grid.choices()[0], grid.mdp.horizon
    walked = np.zeros((horizon or 1, len(grid.free)), bool)
    times = np.concatenate([np.arange(len(walk) - 1) for walk in grid.scene.demonstrations])
    walked[0 if horizon is None else times, states] = True
    return walked[0] if horizon is None else walked


def _to_one(direction: Float[np.ndarray, " K"]) -> Float[np.ndarray, " K"]:
    """The direction with a largest entry of 1."""
    return direction / direction[np.argmax(np.abs(direction))]


def _drawn(grid: Grid, parameters: Float[np.ndarray, " K"], *, largest: bool = False) -> Any:
    """Parameters as a picture: of marks, of what they add to each cell."""
    if grid.scene.reward == "marks":
        return picture(grid, grid.reward().with_parameters(parameters).table(grid.mdp)[:, 0])
    by_state = parameters.reshape(len(grid.free), -1)
    if by_state.shape[1] == 1:
        by_state = by_state[:, 0]
    return picture(grid, by_state.max(axis=1) if largest and by_state.ndim == 2 else by_state)
