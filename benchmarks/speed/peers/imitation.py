"""imitation's tabular MCE IRL. Runs in imitation's own environment."""

import statistics
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from benchmarks.speed import timing
from benchmarks.speed.problems import dense
from imitation.algorithms.mce_irl import MCEIRL, mce_occupancy_measures, mce_partition_fh
from imitation.rewards.reward_nets import RewardNet
from seals.base_envs import TabularModelPOMDP


def gradient(path: str, horizon: int, repeats: int) -> dict[str, Any]:
    """Seconds of the backward and the forward pass, and the occupancies that they give, saved beside the problem."""
    problem = np.load(path)
    env = SimpleNamespace(
        horizon=horizon,
        state_dim=len(problem["initial"]),
        action_dim=problem["probs"].shape[1],
        transition_matrix=dense(problem["successors"], problem["probs"]),
        initial_state_dist=problem["initial"],
        reward_matrix=problem["reward"],
    )

    def backward_and_forward() -> np.ndarray:
        _, _, policy = mce_partition_fh(env)
        return mce_occupancy_measures(env, pi=policy)[0]

    first, rows = timing.once(backward_and_forward)
    seconds = [first, *(timing.once(backward_and_forward)[0] for _ in range(repeats - 1))]
    # Its last row is the state after the last decision, in which nothing is chosen or earned any more.
    np.save(f"{path}.imitation.npy", rows[:horizon].sum(axis=0))
    return {"seconds": statistics.median(seconds), "best": min(seconds), "repeats": repeats}


class OneWeightPerState(RewardNet):
    """The reward of each state is a weight: observations are one-hot."""

    def __init__(self, env: TabularModelPOMDP) -> None:
        super().__init__(env.observation_space, env.action_space)
        self.weights = torch.nn.Parameter(torch.zeros(env.state_dim, dtype=torch.float64))

    @property
    def dtype(self) -> torch.dtype:
        return torch.float64

    def forward(self, state: torch.Tensor, action: Any, next_state: Any, done: Any) -> torch.Tensor:
        return state @ self.weights


def fit(path: str, horizon: int, linf_eps: float, max_steps: int) -> dict[str, Any]:
    """Seconds of `train` as it comes (Adam, 1e-2) until it stops by itself; the reward is saved beside the problem."""
    problem = np.load(path)
    env = TabularModelPOMDP(
        transition_matrix=dense(problem["successors"], problem["probs"]),
        observation_matrix=np.eye(len(problem["initial"])),
        reward_matrix=problem["reward"],
        horizon=horizon,
        initial_state_dist=problem["initial"],
    )
    _, demonstrated = mce_occupancy_measures(env)
    net = OneWeightPerState(env)
    learner = MCEIRL(demonstrated, env, net, rng=np.random.default_rng(0), linf_eps=linf_eps, log_interval=None)
    steps = []
    learner.optimizer.register_step_post_hook(lambda *_: steps.append(1))
    seconds, reached = timing.once(lambda: learner.train(max_iter=max_steps))
    np.save(f"{path}.imitation.npy", net.weights.detach().numpy())
    return {"seconds": seconds, "steps": len(steps), "largest_error": float(np.abs(reached - demonstrated).max())}
