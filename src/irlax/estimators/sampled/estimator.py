"""What all dynamics-free estimators share: `init`, `step`, and the settings that both read.

``state = estimator.init(size, actions, expert, key=key)`` begins, and ``state, info = estimator.step(state, expert,
rollout, key=key)`` takes whole episodes that `state.policy` acted in, improves the reward on them, then the policy for
the reward. Both are pure; who collects the episodes, inside `jit` or on the host, is the loop's affair.
"""

import abc
import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import optax

from irlax import checks
from irlax.demos import Demonstrations
from irlax.envs.environment import Box, Discrete
from irlax.estimators.sampled.rewards import Over, ShapedObservedReward, split
from irlax.estimators.sampled.steps import Recent, Steps, draw, mean, of_rollout
from irlax.rl.learner import AbstractLearner
from irlax.rl.networks import AbstractPolicy, Normaliser
from irlax.rl.rollout import Transition
from irlax.typing import Array, Float, Int, PRNGKeyArray

if TYPE_CHECKING:
    from irlax.estimators.sampled.sampled_fit import SampledFit

#: Numbers to watch, by name.
Info = dict[str, Float[Array, "..."]]
#: About how many environment steps a round takes unless it is said.
STEPS_A_ROUND = 8000
#: Rows that the numbers to watch are taken from.
WATCHED = 2048


class State(eqx.Module):
    """A reward, the agent that learns for it, and what both were learned from."""

    agent: Any
    reward: Any
    #: The optimiser's memory of the reward's past gradients.
    memory: Any
    recent: Recent
    #: What an estimator made of the demonstrations before it began.
    prepared: Any
    rounds: Int[Array, ""]

    @property
    def policy(self) -> AbstractPolicy:
        """The current policy."""
        return self.agent.policy


class AbstractSampledIRL(eqx.Module):
    """A reward from demonstrations in an environment that can only be acted in.

    A round collects `episodes` whole episodes, takes `updates` gradient steps on the reward, and lets the learner
    learn once for the new reward. The discount is the learner's and there is no other.
    """

    learner: eqx.AbstractVar[AbstractLearner]
    #: What the reward may depend on.
    over: eqx.AbstractVar[Over]
    width: eqx.AbstractVar[int]
    depth: eqx.AbstractVar[int]
    normalise: eqx.AbstractVar[bool]
    #: Rounds at most, and whole episodes in each; by default, as many as make 8,000 steps.
    rounds: eqx.AbstractVar[int]
    episodes: eqx.AbstractVar[int | None]
    #: Gradient steps on the reward in each round, and their size.
    updates: eqx.AbstractVar[int]
    learning_rate: eqx.AbstractVar[float]
    #: How many rounds' episodes the reward learns from.
    recent: eqx.AbstractVar[int]
    #: The share of episodes that begin with random actions. The reward takes them for the policy's, so that it falls
    #: where the expert does not go; the policy comes to differ from the expert by about as much.
    explore: eqx.AbstractVar[float]
    #: Stop when expert and policy have earned the same learned reward, within so many standard deviations of a
    #: step's, on average over the last `patience` rounds, and within ten times as many in each of them.
    tol: eqx.AbstractVar[float]
    patience: eqx.AbstractVar[int]
    #: Whether what is learned is a reward, or only tells expert and policy apart.
    learns_reward: ClassVar[bool]
    #: Whether demonstrations must be whole episodes, [N, T], or may be any steps, [n].
    whole_episodes: ClassVar[bool]

    @abc.abstractmethod
    def begin_reward(self, normaliser: Normaliser, actions: Discrete | Box, *, key: PRNGKeyArray) -> Any:
        """A reward that has learned nothing: what the learner is paid, but for its entropy."""

    @abc.abstractmethod
    def prepare(self, policy: AbstractPolicy, expert: Steps, *, key: PRNGKeyArray) -> Any:
        """What is made of the demonstrations [n] or [N, T] before the first round, if anything."""

    @abc.abstractmethod
    def look(self, policy: AbstractPolicy, expert: Steps, recent: Recent, prepared: Any) -> Any:
        """What the losses of a round have in common."""

    @abc.abstractmethod
    def loss(self, reward: Any, seen: Any, *, rate: Any, key: PRNGKeyArray) -> tuple[Float[Array, ""], Info]:
        """What the reward descends on, given what was looked at; `rate` falls from 1 to 0 along the way."""

    @property
    def discount(self) -> float:
        """γ, the learner's."""
        return self.learner.discount

    def episodes_for(self, horizon: int) -> int:
        """Whole episodes in each round."""
        return 8 * math.ceil(STEPS_A_ROUND / horizon / 8) if self.episodes is None else self.episodes

    def init(
        self,
        observation_size: int,
        actions: Discrete | Box,
        horizon: int,
        expert: Steps,
        *,
        reward: Any = None,
        key: PRNGKeyArray,
    ) -> State:
        """Before the first round; `reward`, if it is given, is where learning begins."""
        agent_key, reward_key, prepare_key = jr.split(key, 3)
        agent = self.learner.begin(observation_size, actions, key=agent_key)
        normaliser = Normaliser.of(observation_size)
        if self.normalise:
            normaliser = normaliser.update(expert.rows.observation, expert.rows.weight)
        if reward is None:
            reward = self.begin_reward(normaliser, actions, key=reward_key)
        room = jax.tree.map(
            lambda array: jnp.zeros(
                (self.episodes_for(horizon), horizon, *array.shape[expert.weight.ndim :]), array.dtype
            ),
            expert,
        )
        return State(
            agent,
            reward,
            self._optimiser().init(split(reward)[0]),
            Recent.empty(self.recent, room, agent.policy),
            self.prepare(agent.policy, expert, key=prepare_key),
            jnp.zeros((), jnp.int32),
        )

    def step(
        self, state: State, expert: Steps, rollout: Transition, *, rate: Any = 1.0, key: PRNGKeyArray
    ) -> tuple[State, Info]:
        """One round, given whole episodes [T, episodes] of the current policy; `rate` multiplies learning rates."""
        watch_key, reward_key, policy_key = jr.split(key, 3)
        steps = of_rollout(rollout, self.discount)
        # Episodes that begin at random show the reward where nobody goes, but are not what is asked how it fares.
        own = jnp.logical_not(rollout.explored.any(axis=0))
        recent = state.recent.add(steps, state.policy)
        info = self._watch(state, expert, steps._replace(weight=steps.weight * own[:, None]), key=watch_key)
        reward, memory, learned = self._improve(state, expert, recent, rate=rate, key=reward_key)
        # The reward first: a policy is never paid by a reward that has not seen its episodes.
        agent, metrics = self.learner.learn(state.agent, rollout, reward, rate=rate, key=policy_key)
        info = {"return": (own * rollout.reward.sum(axis=0)).sum() / own.sum(), **info, **learned, **metrics}
        return State(agent, reward, memory, recent, state.prepared, state.rounds + 1), info

    def fit(
        self,
        env: Any,
        demos: Demonstrations,
        *,
        key: PRNGKeyArray,
        reward: Any = None,
        callback: Callable[[dict[str, Any]], Any] | None = None,
        shown: bool | None = None,
    ) -> "SampledFit":
        """Learn from demonstrations by acting in an environment, in JAX or of Gymnasium.

        `reward` is where to begin, by default a network: any `eqx.Module` that is called as reward(observation,
        action, next_observation). `callback` gets the numbers of each round, and may return True to stop there, with
        `Status.INTERRUPTED`; `shown` turns the progress line on or off. The true reward is reported, and never
        learned from.
        """
        from irlax.estimators.sampled import loop

        return loop.fit(self, env, demos, reward, loop.Options(callback, shown), num=None, key=key)[0]

    def fit_many(
        self,
        env: Any,
        demos: Demonstrations,
        *,
        num: int,
        key: PRNGKeyArray,
        reward: Any = None,
        callback: Callable[[dict[str, Any]], Any] | None = None,
        shown: bool | None = None,
    ) -> list["SampledFit"]:
        """`num` fits side by side, as one `vmap`, that differ in their randomness only; all stop together."""
        from irlax.estimators.sampled import loop

        return loop.fit(self, env, demos, reward, loop.Options(callback, shown), num=num, key=key)

    def _improve(
        self, state: State, expert: Steps, recent: Recent, *, rate: Any, key: PRNGKeyArray
    ) -> tuple[Any, Any, Info]:
        weights, rest = split(state.reward)
        seen = self.look(state.policy, expert, recent, state.prepared)

        def descend(carry: Any, key: PRNGKeyArray) -> tuple[Any, Info]:
            weights, memory = carry

            def loss(weights: Any) -> tuple[Float[Array, ""], Info]:
                return self.loss(eqx.combine(weights, rest), seen, rate=rate, key=key)

            (worth, info), gradient = jax.value_and_grad(loss, has_aux=True)(weights)
            change, memory = self._optimiser().update(gradient, memory, weights)
            weights = jax.tree.map(lambda weight, step: weight + rate * step, weights, change)
            return (weights, memory), {"reward_loss": worth, **info}

        (weights, memory), info = jax.lax.scan(descend, (weights, state.memory), jr.split(key, self.updates))
        return eqx.combine(weights, rest), memory, jax.tree.map(jnp.mean, info)

    def _watch(self, state: State, expert: Steps, newest: Steps, *, key: PRNGKeyArray) -> Info:
        """How far apart expert and policy are, by what the present reward pays them; and the expert's likelihood."""
        expert_key, policy_key = jr.split(key)
        theirs = draw(expert.rows.discounted, (WATCHED,), key=expert_key)
        ours = draw(newest.rows.discounted, (WATCHED,), key=policy_key)
        paid = [jax.vmap(state.reward)(*steps[:3]) for steps in (theirs, ours)]
        spread = jnp.sqrt(jnp.concatenate(paid).var() + 1e-12)
        log_policy = jax.vmap(state.policy.log_prob)(theirs.observation, theirs.action)
        return {"gap": (paid[0].mean() - paid[1].mean()) / spread, "log_likelihood": log_policy.mean()}

    def _optimiser(self) -> optax.GradientTransformation:
        return optax.adam(self.learning_rate, b1=0.5)


def rewards_of(reward: Any, steps: Steps) -> Float[Array, "*n"]:
    """What a reward pays for each step."""
    rows = steps.rows
    return jax.vmap(reward)(rows.observation, rows.action, rows.next_observation).reshape(steps.weight.shape)


def log_policies(policy: AbstractPolicy, steps: Steps) -> Float[Array, "*n"]:
    """log π(a|s) of each step, as numbers that gradients do not see."""
    rows = steps.rows
    return jax.lax.stop_gradient(jax.vmap(policy.log_prob)(rows.observation, rows.action).reshape(steps.weight.shape))


def half_square(
    expert_reward: Float[Array, "*n"],
    policy_reward: Float[Array, "*m"],
    expert_weight: Float[Array, "*n"],
    policy_weight: Float[Array, "*m"],
) -> Float[Array, ""]:
    """½ E[r²], half of it on the expert's steps and half on the policy's."""
    return (mean(expert_reward**2, expert_weight) + mean(policy_reward**2, policy_weight)) / 4


def check_settings(estimator: Any) -> None:
    """What all of them require of their fields."""
    learner = estimator.learner
    if not isinstance(learner, AbstractLearner):
        raise TypeError(f"`learner` must be a learner such as rl.PPO(), but is a {type(learner).__name__}.")
    checks.one_of("over", estimator.over, ("s", "sa", "sas"))
    for name in ("width", "rounds", "updates", "recent", "patience"):
        checks.count(name, getattr(estimator, name))
    if estimator.episodes is not None:
        checks.count("episodes", estimator.episodes)
    checks.count("depth", estimator.depth, 0)
    checks.positive("learning_rate", estimator.learning_rate)
    checks.positive("tol", estimator.tol, zero=True)
    if not 0 <= checks.positive("explore", estimator.explore, zero=True) < 1:
        raise ValueError(
            f"`explore` must lie in [0, 1), but is {estimator.explore}: some episodes must be the policy's."
        )
    if estimator.whole_episodes and estimator.explore:
        raise ValueError(
            f"{type(estimator).__name__} weighs whole paths by their density under the policy, which those with random "
            f"actions lack: `explore` must be 0, but is {estimator.explore}. AIRL and SampledMCEIRL take it."
        )


def refuse_second_entropy(learner: Any) -> None:
    """The demonstrator's entropy is in the model already, at temperature 1."""
    temperature = learner.temperature
    if temperature != 1:
        raise ValueError(
            f"The model of the demonstrator is soft-optimal at temperature 1, and the scale of the reward is learned, "
            f"so that the learner must have temperature=1.0, but it has {temperature!r}. Say "
            f"`learner={type(learner).__name__}(temperature=1.0, …)`; another entropy bonus would count entropy twice."
        )


def refuse_other_discount(reward: Any, discount: float) -> None:
    """Shaping cancels out only with the γ that the policy is learned with."""
    if isinstance(reward, ShapedObservedReward) and reward.discount != discount:
        raise ValueError(
            f"The potential of `reward` is discounted by {reward.discount}, but the learner by {discount}. With two "
            f"discounts shaping changes the optimal policy: use the learner's for both."
        )
