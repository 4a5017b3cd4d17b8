"""A whole fit: one weight for each state of a 10×10 slippery grid, T = 50, γ = 1. Against imitation.

The demonstrator is the soft-optimal policy of a known reward. Both start from zero and stop when the largest error of a
state's occupancy, summed over time, is at most 1e-3: that is imitation's own rule, and for one weight a state it is the
gradient that our `tol` bounds. imitation sums one row more (the state after the last decision) on both sides of the
comparison; its learned reward is scored by our definition as well. Ours is timed in a fresh process: `cold` is the
first fit, compilation included, `warm` the median of fits to other demonstrators of the same shapes.
"""

import statistics
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from benchmarks.speed import fresh, problems, timing, venvs

HORIZON, TOLERANCE, MAX_STEPS = 50, 1e-3, 20_000
SOLVERS = ("auto", "lbfgs", "newton")


def measure(*, quick: bool) -> dict[str, Any]:
    side = 4 if quick else 10
    successors, probs = problems.slippery_grid(side)
    size = side**2
    with tempfile.TemporaryDirectory() as folder:
        path = problems.save(
            Path(folder) / "grid.npz",
            successors=successors,
            probs=probs,
            initial=problems.uniform(size),
            reward=problems.true_reward(size, seed=0),
        )
        figures: dict[str, Any] = {
            f"irlax, {solver}": fresh.call(__name__, "ours", path=str(path), solver=solver)
            for solver in (SOLVERS[:1] if quick else SOLVERS)
        }
        theirs = venvs.ask("imitation", "fit", path=str(path), horizon=HORIZON, linf_eps=TOLERANCE, max_steps=MAX_STEPS)
        figures["imitation"] = theirs | fresh.call(__name__, "scored", path=str(path))
        mine = figures["irlax, auto"]
        figures["ratio_cold"] = theirs["seconds"] / mine["cold_seconds"]
        figures["ratio_warm"] = theirs["seconds"] / mine["warm_seconds"]
        return figures


def _grid(path: str) -> Any:
    import irlax as ix

    grid = np.load(path)
    mdp = ix.MDP.from_successors(grid["successors"], grid["probs"], grid["initial"], discount=1.0, horizon=HORIZON)
    return mdp, grid["reward"]


def ours(path: str, solver: Any) -> dict[str, Any]:
    """The first fit, and fits to five other demonstrators."""
    import irlax as ix

    mdp, _ = _grid(path)
    estimator = ix.MCEIRL(tol=TOLERANCE, solver=solver, progress=False)

    def fitted(seed: int) -> tuple[float, Any]:
        expert = ix.soft_plan(mdp, problems.true_reward(mdp.num_states, seed))
        return timing.once(lambda: estimator.fit(mdp, ix.TabularReward("s"), expert))

    cold, fit = fitted(0)
    warm = [fitted(seed) for seed in range(1, 6)]
    errors = [float(np.abs(fit.feature_gap).max()) for fit in (fit, *(fit for _, fit in warm))]
    return {
        "cold_seconds": cold,
        "warm_seconds": statistics.median(seconds for seconds, _ in warm),
        "warm_seconds_of_each": [seconds for seconds, _ in warm],
        "steps": fit.iterations,
        "warm_steps": [fit.iterations for _, fit in warm],
        "largest_error": max(errors),
        "converged": all(fit.converged for fit in (fit, *(fit for _, fit in warm))),
    }


def scored(path: str) -> dict[str, float]:
    """The largest error of a state's occupancy over the T decisions, of the reward that imitation found."""
    import irlax as ix

    mdp, reward = _grid(path)
    states = [ix.visits(mdp, ix.soft_plan(mdp, r)).sum(axis=1) for r in (reward, np.load(f"{path}.imitation.npy"))]
    return {"largest_error_by_our_definition": float(np.abs(states[0] - states[1]).max())}


def table(figures: dict[str, Any]) -> list[list[str]]:
    body = [["", "steps", "seconds", "seconds, compilation included", "largest occupancy error"]]
    for name, row in figures.items():
        if name == "imitation":
            body.append([name, str(row["steps"]), f"{row['seconds']:.2f}", "", f"{row['largest_error']:.1e}"])
        elif name.startswith("irlax"):
            cells = [f"{row['warm_seconds']:.3f}", f"{row['cold_seconds']:.2f}", f"{row['largest_error']:.1e}"]
            body.append([name, str(row["steps"]), *cells])
    body.append(["ratio (auto)", "", f"{figures['ratio_warm']:.0f}×", f"{figures['ratio_cold']:.0f}×", ""])
    return body
