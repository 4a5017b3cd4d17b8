"""Episodes that end at a goal: maximum causal entropy at γ = 1 on a slippery grid. Against irl-maxent.

A weight for each state; the goal in the middle ends the episode. At γ = 1 what irl-maxent's `irl_causal` ascends is our
dual: undiscounted visits of whole episodes. (At γ < 1 it plans with γ but counts visits without, which is the gradient
of nothing.) Its goal keeps a choice between ending and going on, which shifts every value by the same number as long as
the goal's own weight stays where it is, and the gradient there is 0. Both learn from the same sampled episodes and
start from the same weights, low enough for a finite value. irl-maxent stops when no weight moves by more than 1e-4 in a
step; how well it then matches the visits is what ours is asked for.
"""

import statistics
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from benchmarks.speed import fresh, problems, timing, venvs

FIRST_WEIGHT, STEP, EPS, EPISODES = -3.0, 0.1, 1e-4, 2000


def measure(*, quick: bool) -> dict[str, Any]:
    side = 4 if quick else 6
    successors, probs = problems.slippery_grid(side)
    goal = side * (side // 2) + side // 2
    successors = np.where(np.arange(side**2)[:, None, None] == goal, goal, successors)
    with tempfile.TemporaryDirectory() as folder:
        path = problems.save(Path(folder) / "world.npz", successors=successors, probs=probs, goal=np.array(goal))
        fresh.call(__name__, "sampled", path=str(path))
        theirs = venvs.ask("irl-maxent", "causal", path=str(path), first_weight=FIRST_WEIGHT, step=STEP, eps=EPS)
        theirs |= fresh.call(__name__, "scored", path=str(path))
        mine = fresh.call(__name__, "ours", path=str(path), tol=theirs["largest_error"])
    return {
        "states": side**2,
        "irlax": mine,
        "irl-maxent": theirs,
        "ratio_cold": theirs["seconds"] / mine["cold_seconds"],
        "ratio_warm": theirs["seconds"] / mine["warm_seconds"],
    }


def _world(path: str) -> tuple[Any, Any, int]:
    import irlax as ix

    given = np.load(path)
    goal, size = int(given["goal"]), len(given["probs"])
    starts = np.arange(size) != goal
    available = starts[:, None] | (np.arange(5) == 0)
    mdp = ix.MDP.from_successors(
        given["successors"], given["probs"], starts / starts.sum(), discount=1.0, available=available
    )
    return given, mdp, goal


def _features(size: int, goal: int) -> np.ndarray:
    """One for each state but the goal, where nothing is earned."""
    return np.delete(np.eye(size), goal, axis=1)


def sampled(path: str) -> None:
    """Add episodes of a known reward to the problem."""
    import jax.random as jr

    import irlax as ix

    given, mdp, goal = _world(path)
    truth = np.where(np.arange(mdp.num_states) == goal, 0.0, -2.5 + 0.3 * problems.true_reward(mdp.num_states, 0))
    demos = ix.rollout(mdp, ix.soft_plan(mdp, truth), num=EPISODES, length=1000, key=jr.key(0))
    if not demos.terminated.all():
        raise RuntimeError("An episode did not reach the goal.")
    rows = {"states": demos.states, "actions": demos.actions, "after": demos.next_states, "offsets": demos.offsets}
    np.savez(path, **{name: given[name] for name in given.files}, **rows)


def _demos(given: Any) -> Any:
    from irlax.demos.demonstrations import from_rows

    rows = (given["states"], given["actions"], np.diff(given["offsets"]))
    return from_rows(*rows, next_states=given["after"], terminated=True)


def ours(path: str, tol: float) -> dict[str, Any]:
    """The first fit, and fits to five other samples of the episodes."""
    import irlax as ix

    given, mdp, goal = _world(path)
    demos, features = _demos(given), _features(mdp.num_states, goal)
    first = ix.LinearReward(features, np.full(features.shape[1], FIRST_WEIGHT))
    estimator = ix.MCEIRL(tol=tol, progress=False)
    cold, fit = timing.once(lambda: estimator.fit(mdp, first, demos))
    rng = np.random.default_rng(0)
    warm = []
    for _ in range(5):
        sample = demos.select(rng.integers(EPISODES, size=EPISODES))
        warm.append(timing.once(lambda sample=sample: estimator.fit(mdp, first, sample)))
    return {
        "cold_seconds": cold,
        "warm_seconds": statistics.median(seconds for seconds, _ in warm),
        "steps": fit.iterations,
        "largest_error": float(np.abs(fit.feature_gap).max()),
        "converged": all(fit.converged for fit in (fit, *(fit for _, fit in warm))),
    }


def scored(path: str) -> dict[str, float]:
    """How far the visits under irl-maxent's reward are from those of the episodes, at most, by our planner."""
    import irlax as ix

    given, mdp, goal = _world(path)
    demos = _demos(given)
    mdp = mdp.replace(initial=np.bincount(demos.start_states, minlength=mdp.num_states) / EPISODES)
    learned = np.load(f"{path}.irl_maxent.npy")
    learned[goal] = 0.0
    model = ix.visits(mdp, ix.soft_plan(mdp, learned)).sum(axis=1)
    seen = np.bincount(demos.states, minlength=mdp.num_states) / EPISODES
    return {"largest_error": float(np.abs(np.delete(model - seen, goal)).max())}


def table(figures: dict[str, Any]) -> list[list[str]]:
    mine, theirs = figures["irlax"], figures["irl-maxent"]
    return [
        ["", "steps", "seconds", "seconds, compilation included", "largest error of visits"],
        ["irl-maxent", str(theirs["steps"]), f"{theirs['seconds']:.2f}", "", f"{theirs['largest_error']:.1e}"],
        [
            "irlax",
            str(mine["steps"]),
            f"{mine['warm_seconds']:.3f}",
            f"{mine['cold_seconds']:.2f}",
            f"{mine['largest_error']:.1e}",
        ],
        ["ratio", "", f"{figures['ratio_warm']:.0f}×", f"{figures['ratio_cold']:.0f}×", ""],
    ]
