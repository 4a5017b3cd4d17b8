"""irl-maxent's causal IRL. Runs in irl-maxent's own environment."""

from itertools import pairwise
from typing import Any

import numpy as np
from benchmarks.speed import timing
from benchmarks.speed.problems import dense
from irl_maxent import maxent, optimizer
from irl_maxent.trajectory import Trajectory


def causal(path: str, first_weight: float, step: float, eps: float) -> dict[str, Any]:
    """Seconds of `irl_causal` until no weight moves by more than `eps`; the reward is saved beside the problem."""
    problem = np.load(path)
    goal = int(problem["goal"])
    # It stores P[s, s', a].
    transitions = np.moveaxis(dense(problem["successors"], problem["probs"]), 1, 2)
    features = np.eye(len(transitions))
    moves = list(zip(problem["states"], problem["actions"], problem["after"], strict=True))
    offsets = problem["offsets"]
    trajectories = [Trajectory(moves[start:end]) for start, end in pairwise(offsets)]
    ascent = optimizer.Sga(lr=step)
    seconds, reward = timing.once(
        lambda: maxent.irl_causal(
            transitions, features, [goal], trajectories, ascent, optimizer.Constant(first_weight), 1.0, eps=eps
        )
    )
    np.save(f"{path}.irl_maxent.npy", reward)
    return {"seconds": seconds, "steps": ascent.k}
