"""Stable-Baselines3's PPO and SAC. Runs in an environment of its own, in which there is also what irlax needs."""

import sys
import tempfile
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import torch
from benchmarks.record import ROOT
from benchmarks.speed import timing
from stable_baselines3 import PPO, SAC
from stable_baselines3.common.callbacks import EvalCallback
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.vec_env import DummyVecEnv


def cartpole(settings: dict[str, Any], num_envs: int, steps: int) -> dict[str, Any]:
    """Seconds of `learn` on CartPole-v1, and the mean return of the last hundred episodes.

    Its networks are two of 64 and 64 with tanh, as it comes. All copies step in this process: CartPole is so light that
    a process for each would be slower.
    """
    torch.set_num_threads(1)
    model = PPO("MlpPolicy", DummyVecEnv([_watched] * num_envs), device="cpu", seed=0, **settings)
    seconds, _ = timing.once(lambda: model.learn(steps) and None)
    assert model.ep_info_buffer
    returns = [episode["r"] for episode in model.ep_info_buffer]
    return {"steps_a_second": round(steps / seconds), "final_return": float(np.mean(returns))}


def learned_reward(steps: int, seed: int) -> dict[str, Any]:
    """Train on `RewardWrapper` and watch the reward that it does not see: returns of CartPole, before and after."""
    # irlax itself is not installed here.
    sys.path.insert(0, str(ROOT / "src"))
    from benchmarks.quality.reward_wrapper_sb3 import upright

    import irlax as ix

    torch.set_num_threads(1)
    env = gym.wrappers.RecordEpisodeStatistics(ix.envs.RewardWrapper(gym.make("CartPole-v1"), upright))
    model = PPO("MlpPolicy", env, device="cpu", seed=seed)
    before = _returns(model)
    seconds, _ = timing.once(lambda: model.learn(steps) and None)
    paid = [episode["r"] for episode in model.ep_info_buffer or []]
    return {
        "seed": seed,
        "true_returns_before": before,
        "true_returns_after": _returns(model),
        "learned_return_of_the_last_episodes": float(np.mean(paid)),
        "seconds": round(seconds, 1),
    }


def hopper(fit: str | None, scale: float, steps: int, every: int, seed: int) -> dict[str, Any]:
    """A fresh SAC in Hopper-v5, on the reward of a fit times `scale`, with true returns unseen; or on the true one.

    It takes a gradient step after `every` environment steps. Every 10,000 steps the mode is played in ten episodes, and
    the weights whose return was highest are kept, by the reward that it is trained on (SB3's own `EvalCallback`).
    """
    sys.path.insert(0, str(ROOT / "src"))
    import irlax as ix

    torch.set_num_threads(1)
    reward = None if fit is None else ix.load(fit).reward

    def made() -> gym.Env:
        env = gym.make("Hopper-v5")
        return Monitor(env if reward is None else ix.envs.RewardWrapper(env, reward, scale=scale))

    curve: list[tuple[int, float, float]] = []

    class Curve(EvalCallback):
        """Beside what it was chosen by, what its mode truly earns, which nothing is chosen by."""

        def _on_step(self) -> bool:
            going = super()._on_step()
            if self.n_calls % self.eval_freq == 0:
                true = float(np.mean(_returns(model, "Hopper-v5", 3, deterministic=True)))
                curve.append((model.num_timesteps, round(float(self.last_mean_reward), 1), round(true, 1)))
                print(curve[-1], file=sys.stderr, flush=True)
            return going

    model = SAC("MlpPolicy", made(), train_freq=every, device="cpu", seed=seed)
    with tempfile.TemporaryDirectory() as folder:
        watch = Curve(made(), n_eval_episodes=10, eval_freq=10_000, best_model_save_path=folder, verbose=0)
        seconds, _ = timing.once(lambda: model.learn(steps, callback=watch) and None)
        best = SAC.load(Path(folder) / "best_model", device="cpu")
    return {
        "seed": seed,
        "curve of the mode: steps, return by its reward, true return": curve,
        "returns of the best mode": _returns(best, "Hopper-v5", 16, deterministic=True),
        "returns of the best": _returns(best, "Hopper-v5", 16),
        "returns of the last mode": _returns(model, "Hopper-v5", 16, deterministic=True),
        "seconds": round(seconds, 1),
    }


def _watched() -> gym.Env:
    return gym.wrappers.RecordEpisodeStatistics(gym.make("CartPole-v1"))


def _returns(model: Any, name: str = "CartPole-v1", num: int = 20, *, deterministic: bool = False) -> list[float]:
    """What the environment itself pays the policy, or its mode, on a copy without the wrapper."""
    env, returns = gym.make(name), []
    for seed in range(num):
        seen, _ = env.reset(seed=seed)
        total, over = 0.0, False
        while not over:
            action, _ = model.predict(seen, deterministic=deterministic)
            seen, reward, terminated, truncated, _ = env.step(action)
            total, over = total + float(reward), terminated or truncated
        returns.append(total)
    return returns
