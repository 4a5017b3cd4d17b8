"""The results of dynamics-free estimators: a reward and its policy, or a policy alone."""

import dataclasses
import math
from typing import Any

import equinox as eqx
import jax
import numpy as np

from irlax.demos import Demonstrations
from irlax.envs.rollout import collect
from irlax.estimators.fit import Fit, RewardFit, ending
from irlax.estimators.sampled.steps import Steps, steps_of_demos
from irlax.iteration import History
from irlax.records import plain
from irlax.registry import stored
from irlax.report.html import Page
from irlax.rewards import AbstractObservedReward
from irlax.rewards.observed import unshaped
from irlax.rl.learner import AbstractLearner
from irlax.rl.policies import AbstractPolicy
from irlax.status import Status
from irlax.tables import Summary, Table, pairs
from irlax.typing import Array, Float, PRNGKeyArray

#: Episodes in which the final policy is evaluated.
EPISODES = 64
#: Settings of a learner that estimators do not use: what stands in their place are the rounds.
FOR_TRAINING_ALONE = ("num_envs", "length", "explore", "anneal", "steps")
#: The columns of the history that a summary shows, in words.
SUMMARISED = {
    "return": "true return of an episode (not learned from)",
    "gap": "learned reward a step, expert − policy, in its s.d.",
    "log_likelihood": "log likelihood of a demonstrated step",
    "entropy": "entropy of the policy",
    "temperature": "temperature that keeps the entropy",
    "accuracy": "accuracy of the discriminator",
    "effective_share": "effective share of the samples",
    "temper": "power that evens the weights",
}


class AbstractSampledFit(Fit):
    """A policy learned by acting in an environment; all of the last iterate.

    `history` has an entry for each round: environment "steps", the true "return" of the episodes (for display only:
    nothing is learned from it), the "gap" by which fits are stopped, the mean "log_likelihood" of a demonstrated step,
    and the losses.
    """

    policy: eqx.AbstractVar[AbstractPolicy]
    #: Σ log π(a|s) over all demonstrated choices.
    log_likelihood: eqx.AbstractVar[float]
    #: Discounted means of normalised observations, expert − policy.
    feature_gap: eqx.AbstractVar[Float[np.ndarray, " obs"]]
    #: The true returns of episodes that the final policy acted in once more.
    returns: eqx.AbstractVar[Float[np.ndarray, " n"]]
    demos: eqx.AbstractVar[Demonstrations]
    environment: eqx.AbstractVar[str]

    @property
    def settings(self) -> tuple[tuple[str, Any], ...]:
        """The estimator's settings by name."""
        return settings_of(self.estimator)

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
        return len(self.history)

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
            *self._determinism(),
            ("true return of the policy", returns),
            *self._extent(),
            ("seconds", round(self.seconds, 3)),
        ]
        tenth = max(1, self.iterations // 10)
        rows = [
            (text, *(_known_mean(part) for part in (self.history[name][:tenth], self.history[name][-tenth:])))
            for name, text in SUMMARISED.items()
            if name in self.history
        ]
        columns = ["mean over a tenth of the rounds", "first", "last"]
        return Summary([pairs(f"{self.method}: fit", facts), Table(columns, rows, title=f"{self.method}: history")])

    def _determinism(self) -> list[tuple[str, str]]:
        """Whether the demonstrations are nearer to deterministic than the model's policies may be."""
        learner: Any = getattr(self.estimator, "learner", None)
        if "temperature" not in self.history or not getattr(learner, "keep_entropy", False):
            return []
        temperature = float(self.history["temperature"][-1])
        kept = "yes" if temperature > 1.001 * learner.temperature else "no"
        if not math.isclose(temperature, 1, rel_tol=1e-3):
            kept += f": the reward is that of the learner divided by {temperature:.3g}"
        return [("entropy kept from falling", kept)]

    def _extent(self) -> list[tuple[str, int]]:
        """How long the fit went on: in the environment, or, without any, by gradient steps."""
        steps = int(self.history["steps"][-1])
        if not steps:
            return [("gradient steps", self.iterations)]
        return [("rounds", self.iterations), ("environment steps", steps)]

    def describe(self) -> dict[str, Any]:
        reward = getattr(self, "reward", None)
        return {
            **ending(self),
            "settings": {name: plain(value) for name, value in self.settings},
            "reward": None if reward is None else type(reward).__name__,
            "environment": self.environment,
            "episodes": self.num_episodes,
            "choices": self.num_choices,
            "log_likelihood": plain(self.log_likelihood),
            "feature_gap": plain(self.feature_gap),
            "return_mean": plain(self.returns.mean()),
            "return_sd": plain(self.returns.std()),
            "demonstrated_return_mean": plain(self.demonstrated_return),
            "history": {name: plain(self.history[name]) for name in self.history},
            "rounds": self.iterations,
            "steps": int(self.history["steps"][-1]),
            "seconds": plain(self.seconds),
        }

    def score(self, demos: Demonstrations) -> float:
        """The log likelihood of other demonstrations under the policy, mean over their steps by weight."""
        weights = demos.weights[demos.episode]
        return log_likelihood_of(self.policy, demos) / float(weights.sum())

    def plot(self) -> Any:
        """How the fit went, as a matplotlib figure."""
        from irlax.estimators.sampled.curves import learning_figure

        return learning_figure(self.history, self.demonstrated_return)

    def page(self) -> Page:
        from irlax.estimators.sampled.page import sampled_page

        return sampled_page(self)


@stored("sampled-fit")
class SampledFit(AbstractSampledFit, RewardFit):
    """A reward learned by acting in an environment, with the policy that goes with it; all of the last iterate."""

    estimator: Any = eqx.field(static=True)
    #: The reward with its potential, if it has one.
    learned: AbstractObservedReward
    policy: AbstractPolicy
    status: Status = eqx.field(static=True)
    history: History
    log_likelihood: float
    feature_gap: Float[np.ndarray, " obs"]
    returns: Float[np.ndarray, " n"]
    demos: Demonstrations
    environment: str
    seconds: float

    @property
    def reward(self) -> AbstractObservedReward:
        """r(observation, action, next_observation), without its potential."""
        return unshaped(self.learned)

    @property
    def transferable_reward(self) -> AbstractObservedReward:
        """The reward to plan with in other dynamics; refused if it depends on actions.

        A reward of actions holds the advantages of the dynamics that it was learned in (Primer, 4.4).
        """
        if self.reward.over != "s":
            raise ValueError(
                f"A reward of states and actions does not transfer: it contains advantages of the dynamics that it was "
                f"learned in. Fit one of states alone: `{self.method}(reward=RewardNet(over='s'))`."
            )
        return self.reward


@stored("imitation-fit")
class ImitationFit(AbstractSampledFit):
    """A policy that imitates the demonstrations; no reward was learned, so there is none to transfer."""

    estimator: Any = eqx.field(static=True)
    policy: AbstractPolicy
    status: Status = eqx.field(static=True)
    history: History
    log_likelihood: float
    feature_gap: Float[np.ndarray, " obs"]
    returns: Float[np.ndarray, " n"]
    demos: Demonstrations
    environment: str
    seconds: float


def finished(
    estimator: Any,
    env: Any,
    demos: Demonstrations,
    *,
    policy: AbstractPolicy,
    learned: AbstractObservedReward | None,
    status: Status,
    history: History,
    seconds: float,
    key: PRNGKeyArray,
) -> SampledFit | ImitationFit:
    """The fit of one iterate, with new episodes of its policy, which are not learned from."""
    discount = getattr(estimator, "discount", 1.0)
    acted = collect(env, policy, EPISODES, key=key)
    expert, own = (steps_of_demos(episodes, env.actions, discount) for episodes in (demos, acted))
    found: Any = {
        "estimator": estimator,
        "policy": policy,
        "status": status,
        "history": history,
        "log_likelihood": log_likelihood_of(policy, demos),
        "feature_gap": _feature_gap(policy, expert, own),
        "returns": acted.returns,
        "demos": demos,
        "environment": type(env).__name__,
        "seconds": seconds,
    }
    return ImitationFit(**found) if learned is None else SampledFit(learned=learned, **found)


def log_likelihood_of(policy: AbstractPolicy, demos: Demonstrations) -> float:
    """Σ w log π(a|s) over all steps of demonstrations; NaN if their actions were not observed."""
    if not demos.has_actions:
        return float("nan")
    with jax.enable_x64(False):
        steps = steps_of_demos(demos, policy.actions, 1.0)
        log_policy = np.asarray(_log_policy(policy, steps), np.float64)
    return float((log_policy * demos.weights[demos.episode]).sum())


def _known_mean(numbers: Float[np.ndarray, " rounds"]) -> float:
    """The mean of the numbers that are not NaN: in some rounds no episode ends."""
    known = numbers[~np.isnan(numbers)]
    return float(known.mean()) if len(known) else float("nan")


@eqx.filter_jit
def _log_policy(policy: AbstractPolicy, steps: Steps) -> Float[Array, " n"]:
    return jax.vmap(policy.log_prob)(steps.observation, steps.action)


def _feature_gap(policy: AbstractPolicy, expert: Steps, own: Steps) -> Float[np.ndarray, " obs"]:
    demonstrated, learned = (np.asarray(_mean_observation(policy, steps), np.float64) for steps in (expert, own))
    return demonstrated - learned


@eqx.filter_jit
def _mean_observation(policy: AbstractPolicy, steps: Steps) -> Float[Array, " obs"]:
    """The discounted mean of observations as the policy normalises them."""
    weight = steps.discounted.weight
    return weight @ jax.vmap(policy.normaliser)(steps.observation) / weight.sum()


def settings_of(estimator: Any) -> tuple[tuple[str, Any], ...]:
    """The fields of an estimator by name; those of its sub-objects have dotted names."""
    found: list[tuple[str, Any]] = []
    for item in dataclasses.fields(estimator):
        value = getattr(estimator, item.name)
        if item.name in ("progress", *(FOR_TRAINING_ALONE if isinstance(estimator, AbstractLearner) else ())):
            continue
        if isinstance(value, AbstractLearner):
            found.append((item.name, type(value).__name__))
        if isinstance(value, eqx.Module):
            found += [(f"{item.name}.{name}", inner) for name, inner in settings_of(value)]
        else:
            found.append((item.name, value))
    return tuple(found)
