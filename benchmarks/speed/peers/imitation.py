"""imitation's tabular MCE IRL, and its AIRL in CartPole and Hopper. Runs in imitation's own environment."""

import contextlib
import statistics
import time
from types import SimpleNamespace
from typing import Any

import gymnasium as gym
import numpy as np
import torch
from benchmarks.speed import timing
from benchmarks.speed.problems import dense
from imitation.algorithms.adversarial.airl import AIRL
from imitation.algorithms.mce_irl import MCEIRL, mce_occupancy_measures, mce_partition_fh
from imitation.data.types import TrajectoryWithRew
from imitation.data.wrappers import RolloutInfoWrapper
from imitation.policies.base import NormalizeFeaturesExtractor
from imitation.rewards.reward_nets import BasicShapedRewardNet, NormalizedRewardNet, RewardNet
from imitation.util.networks import RunningNorm
from seals.base_envs import TabularModelPOMDP
from stable_baselines3 import PPO
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.vec_env import DummyVecEnv


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


class StandsStill(gym.Wrapper):
    """After a fall nothing moves and nothing is paid, up to the horizon, as in irlax's CartPole of a fixed horizon."""

    def __init__(self, env: gym.Env, horizon: int) -> None:
        super().__init__(env)
        self._horizon, self._time, self._last = horizon, 0, None

    def reset(self, **options: Any) -> tuple[Any, dict[str, Any]]:
        self._time, self._last = 0, None
        return self.env.reset(**options)

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self._time += 1
        over = self._time >= self._horizon
        if self._last is not None:
            return self._last, 0.0, False, over, {}
        seen, reward, terminated, _, about = self.env.step(action)
        self._last = seen if terminated else None
        return seen, float(reward), False, over, about


def airl(path: str, seed: int, target: float, limit: float) -> dict[str, Any]:
    """Seconds of `train` until ten episodes return the target on average, twice in a row; playing them is not timed."""
    torch.set_num_threads(1)
    demos = np.load(path)
    episodes = [
        TrajectoryWithRew(
            obs=np.concatenate([before, after[-1:]]), acts=actions, infos=None, terminal=True, rews=rewards
        )
        for before, after, actions, rewards in zip(
            demos["before"], demos["after"], demos["actions"], demos["rewards"], strict=True
        )
    ]
    copies = DummyVecEnv([lambda: RolloutInfoWrapper(StandsStill(gym.make("CartPole-v1").unwrapped, 500))] * 8)
    copies.seed(seed)
    learner = PPO(
        "MlpPolicy",
        copies,
        batch_size=64,
        ent_coef=0.0,
        learning_rate=5e-4,
        gamma=0.95,
        clip_range=0.1,
        vf_coef=0.1,
        n_epochs=5,
        seed=seed,
        device="cpu",
    )
    net = BasicShapedRewardNet(copies.observation_space, copies.action_space, normalize_input_layer=RunningNorm)
    trainer = AIRL(
        demonstrations=episodes,
        demo_batch_size=2048,
        gen_replay_buffer_capacity=512,
        n_disc_updates_per_round=16,
        venv=copies,
        gen_algo=learner,
        reward_net=net,
        allow_variable_horizon=False,
    )
    watched = _Watched(learner, target, limit)
    with contextlib.suppress(_EnoughError):
        trainer.train(10_000_000, callback=watched)
    return {
        "seed": seed,
        "reached": watched.reached,
        "seconds": round(watched.taken, 1),
        "steps": learner.num_timesteps,
        "last_return": round(watched.last, 1),
    }


def hopper(path: str, seed: int, limit: float) -> dict[str, Any]:
    """AIRL in Hopper with the settings of its own benchmark, for so many seconds: the true returns on the way.

    Its benchmark has an environment that goes on after a fall, since episodes of unequal length give the end away; so
    it is learned in Gymnasium's with `terminate_when_unhealthy=False`, and played in Gymnasium's own.
    """
    torch.set_num_threads(1)
    demos = np.load(path)
    seen = np.concatenate([demos["before"], demos["after"][-1:]])
    episode = TrajectoryWithRew(obs=seen, acts=demos["actions"], infos=None, terminal=True, rews=demos["rewards"])

    def goes_on() -> gym.Env:
        return RolloutInfoWrapper(gym.make("Hopper-v4", terminate_when_unhealthy=False))

    copies = DummyVecEnv([goes_on] * 8)
    copies.seed(seed)
    networks = {
        "activation_fn": torch.nn.ReLU,
        "features_extractor_class": NormalizeFeaturesExtractor,
        "features_extractor_kwargs": {"normalize_class": RunningNorm},
        "net_arch": {"pi": [64, 64], "vf": [64, 64]},
    }
    learner = PPO(
        "MlpPolicy",
        copies,
        n_steps=8192 // 8,
        batch_size=512,
        clip_range=0.1,
        ent_coef=0.009709494745755033,
        gae_lambda=0.98,
        gamma=0.995,
        learning_rate=0.0005807211840258373,
        max_grad_norm=0.9,
        n_epochs=20,
        vf_coef=0.20315938606555833,
        policy_kwargs=networks,
        seed=seed,
        device="cpu",
    )
    net = BasicShapedRewardNet(copies.observation_space, copies.action_space, normalize_input_layer=RunningNorm)
    trainer = AIRL(
        demonstrations=[episode],
        demo_batch_size=min(2048, len(demos["actions"])),
        gen_replay_buffer_capacity=8192,
        n_disc_updates_per_round=16,
        venv=copies,
        gen_algo=learner,
        reward_net=NormalizedRewardNet(net, RunningNorm),
    )
    curve: list[tuple[int, float, float]] = []
    began, paused = time.perf_counter(), 0.0

    def watch(number: int) -> None:
        nonlocal paused
        taken = time.perf_counter() - began - paused
        if number % 10 == 0 or taken > limit:
            stopped = time.perf_counter()
            returns = evaluate_policy(learner, gym.make("Hopper-v4"), 10, deterministic=True)[0]
            curve.append((learner.num_timesteps, round(taken, 1), round(float(returns), 1)))
            paused += time.perf_counter() - stopped
        if taken > limit:
            raise _EnoughError

    with contextlib.suppress(_EnoughError):
        trainer.train(10_000_000, callback=watch)
    returns, _ = evaluate_policy(learner, gym.make("Hopper-v4"), 64, deterministic=False)
    return {"seed": seed, "steps": learner.num_timesteps, "policy": float(returns), "curve of the mode": curve}


class _EnoughError(Exception):
    """The target is reached, or the time is up."""


class _Watched:
    """Stops a trainer; the clock stands still while it looks."""

    def __init__(self, learner: PPO, target: float, limit: float) -> None:
        self._learner, self._target, self._limit = learner, target, limit
        self._began, self.taken, self.last, self.reached = time.perf_counter(), 0.0, 0.0, False

    def __call__(self, number: int) -> None:
        self.taken += time.perf_counter() - self._began
        before, self.last = self.last, float(np.mean([self._played(k) for k in range(10)]))
        self.reached = min(before, self.last) >= self._target
        if self.reached or self.taken > self._limit:
            raise _EnoughError
        self._began = time.perf_counter()

    def _played(self, k: int) -> float:
        env = StandsStill(gym.make("CartPole-v1").unwrapped, 500)
        seen, total, over = env.reset(seed=k)[0], 0.0, False
        while not over:
            seen, reward, _, over, _ = env.step(int(self._learner.predict(seen, deterministic=False)[0]))
            total += reward
            # Nothing more is paid after a fall.
            over = over or reward == 0.0
        return total
