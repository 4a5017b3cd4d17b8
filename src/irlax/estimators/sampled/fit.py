"""What dynamics-free estimators give back."""

import dataclasses
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import numpy as np

from irlax.demos import Demonstrations
from irlax.envs.rollout import collect
from irlax.estimators.sampled.steps import Steps, steps_of_demos
from irlax.estimators.status import Status
from irlax.rewards import AbstractObservedReward
from irlax.rewards.observed import unshaped
from irlax.rl.learner import AbstractLearner
from irlax.rl.policies import AbstractPolicy
from irlax.tables import Summary, Table, pairs
from irlax.typing import Float, PRNGKeyArray

#: Episodes in which the final policy is evaluated.
EPISODES = 64
#: The columns of the history that a summary shows, in words.
SUMMARISED = {
    "return": "true return of an episode (not learned from)",
    "gap": "learned reward a step, expert − policy, in its s.d.",
    "log_likelihood": "log likelihood of a demonstrated step",
    "entropy": "entropy of the policy",
    "accuracy": "accuracy of the discriminator",
    "effective_share": "effective share of the samples",
    "temper": "power that evens the weights",
}


class SampledFit(eqx.Module):
    """A reward and a policy learned by acting in an environment; all of the last iterate.

    `history` has an entry for each round: environment "steps", the true "return" of the episodes (for display only:
    nothing is learned from it), the "gap" by which fits are stopped, the mean "log_likelihood" of a demonstrated step,
    and the losses. `returns` are the true returns of episodes that the final policy acted in once more.
    """

    method: str
    settings: tuple[tuple[str, Any], ...]
    #: The reward with its potential, if it has one; None for methods that only imitate.
    learned: AbstractObservedReward | None
    policy: AbstractPolicy
    status: Status
    history: dict[str, Float[np.ndarray, " rounds"]]
    #: Σ log π(a|s) over all demonstrated choices.
    log_likelihood: float
    #: Discounted means of normalised observations, expert − policy.
    feature_gap: Float[np.ndarray, " obs"]
    returns: Float[np.ndarray, " n"]
    demos: Demonstrations
    environment: str
    seconds: float

    @property
    def reward(self) -> AbstractObservedReward | None:
        """r(observation, action, next_observation), without its potential; None for methods that only imitate."""
        return None if self.learned is None else unshaped(self.learned)

    @property
    def transferable_reward(self) -> AbstractObservedReward:
        """The reward to plan with in other dynamics; refused if it depends on actions.

        A reward of actions holds the advantages of the dynamics that it was learned in (Primer, 4.4).
        """
        reward = self.reward
        if reward is None:
            raise ValueError(f"{self.method} imitates and learns no reward, so there is none to transfer.")
        if reward.over != "s":
            raise ValueError(
                f"A reward of states and actions does not transfer: it contains advantages of the dynamics that it was "
                f"learned in. Fit one of states alone: `{self.method}(reward=RewardNet(over='s'))`."
            )
        return reward

    @property
    def converged(self) -> bool:
        """Whether it ended in success: the gap closed, or all rounds were taken; `status` says which."""
        return self.status.success

    @property
    def num_episodes(self) -> int:
        """Demonstrations."""
        return self.demos.num_episodes

    @property
    def num_choices(self) -> int:
        """Steps in them."""
        return self.demos.num_steps

    @property
    def demonstrated_return(self) -> float | None:
        """The mean true return of the demonstrations, by their weights; None where it is unknown."""
        demos = self.demos
        return None if demos.rewards is None else float(np.average(demos.returns, weights=demos.weights))

    @property
    def iterations(self) -> int:
        """Rounds."""
        return len(self.history["steps"])

    def summary(self) -> Summary:
        """How the fit went, and where it ended."""
        returns = f"{self.returns.mean():.4g} ± {self.returns.std():.2g}".replace("-", "−")
        facts = [
            ("status", self.status.value),
            ("environment", self.environment),
            *self.settings,
            ("demonstrations", self.num_episodes),
            ("choices", self.num_choices),
            ("log likelihood", f"{self.log_likelihood:.3f}".replace("-", "−")),
            ("largest feature gap", float(np.abs(self.feature_gap).max())),
            ("true return of the policy", returns),
            ("rounds", self.iterations),
            ("environment steps", int(self.history["steps"][-1])),
            ("seconds", round(self.seconds, 3)),
        ]
        tenth = max(1, self.iterations // 10)
        rows = [
            (text, *(float(part.mean()) for part in (self.history[name][:tenth], self.history[name][-tenth:])))
            for name, text in SUMMARISED.items()
            if name in self.history
        ]
        columns = ["mean over a tenth of the rounds", "first", "last"]
        return Summary([pairs(f"{self.method}: fit", facts), Table(columns, rows, title=f"{self.method}: history")])

    def save(self, path: str | Path) -> Path:
        """Write the fit as a folder that `irlax.load` reads; nothing in it can run code."""
        from irlax.estimators.sampled.storage import save_sampled

        return save_sampled(self, path)


def finished(
    estimator: Any,
    env: Any,
    demos: Demonstrations,
    *,
    policy: AbstractPolicy,
    learned: Any,
    status: Status,
    history: dict[str, Float[np.ndarray, " rounds"]],
    seconds: float,
    key: PRNGKeyArray,
) -> SampledFit:
    """The fit of one iterate, with new episodes of its policy, which are not learned from."""
    discount = getattr(estimator, "discount", 1.0)
    acted = collect(env, policy, EPISODES, key=key)
    expert, own = (steps_of_demos(episodes, env.actions, discount) for episodes in (demos, acted))
    log_policy = np.asarray(jax.vmap(policy.log_prob)(expert.observation, expert.action), np.float64)
    return SampledFit(
        method=type(estimator).__name__,
        settings=settings_of(estimator),
        learned=learned,
        policy=policy,
        status=status,
        history=history,
        log_likelihood=float((log_policy * demos.weights[demos.episode]).sum()),
        feature_gap=_mean_observation(policy, expert) - _mean_observation(policy, own),
        returns=acted.returns,
        demos=demos,
        environment=type(env).__name__,
        seconds=seconds,
    )


def _mean_observation(policy: AbstractPolicy, steps: Steps) -> Float[np.ndarray, " obs"]:
    """The discounted mean of observations as the policy normalises them."""
    weight = steps.discounted.weight
    mean = weight @ jax.vmap(policy.normaliser)(steps.observation) / weight.sum()
    return np.asarray(mean, np.float64)


def settings_of(estimator: Any) -> tuple[tuple[str, Any], ...]:
    """The fields of an estimator by name; those of its sub-objects have dotted names."""
    found: list[tuple[str, Any]] = []
    for item in dataclasses.fields(estimator):
        value = getattr(estimator, item.name)
        if isinstance(value, AbstractLearner):
            found.append((item.name, type(value).__name__))
        if isinstance(value, eqx.Module):
            found += [(f"{item.name}.{name}", inner) for name, inner in settings_of(value)]
        else:
            found.append((item.name, value))
    return tuple(found)
