"""What all dynamics-free estimators share: `init`, `step`, and the settings that both read.

``state = estimator.init(observation_size, actions, horizon, expert, key=key)`` is the state before the first round.
``state, info = estimator.step(state, expert, rollout, key=key)`` takes whole episodes of `state.policy`, improves the
reward on them, then the policy for the reward. Both are pure functions; the training loop collects the episodes.
"""

import abc
from typing import TYPE_CHECKING, Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import optax

from irlax import checks
from irlax.demos import Demonstrations
from irlax.envs.experience import Transition
from irlax.estimators.sampled.rounds import Rounds
from irlax.estimators.sampled.steps import Recent, Steps, draw, rewards_of, steps_of_rollout
from irlax.iteration import Callback, Watch
from irlax.networks import Normaliser
from irlax.rewards import AbstractObservedReward, RewardNet, ShapedObservedReward
from irlax.rewards.observed import split
from irlax.rl.learner import AbstractLearner
from irlax.rl.policies import AbstractPolicy
from irlax.run_folder import RunLike, as_run_folder
from irlax.spaces import Box, Discrete
from irlax.typing import Array, Float, Int, PRNGKeyArray

if TYPE_CHECKING:
    from irlax.estimators.sampled.sampled_fit import ImitationFit, SampledFit

#: Numbers to report, by name.
Info = dict[str, Float[Array, "..."]]
#: Rows of expert and policy from which the gap is estimated.
GAP_ROWS = 2048


class State(eqx.Module):
    """A reward, the agent that learns for it, and what both are learned from."""

    agent: Any
    reward: AbstractObservedReward
    #: The state of the reward's optimiser.
    optimiser_state: Any
    recent: Recent
    #: What `prepare` made of the demonstrations.
    prepared: Any
    #: Rounds so far.
    rounds: Int[Array, ""]

    @property
    def policy(self) -> AbstractPolicy:
        """The current policy."""
        return self.agent.policy


class AbstractSampledIRL(eqx.Module):
    """A reward from demonstrations in an environment whose dynamics are known only by acting in it.

    A round collects whole episodes, takes `updates` gradient steps on the reward, and lets the learner learn once for
    the new reward. The discount is the learner's; there is no other.
    """

    reward: eqx.AbstractVar[RewardNet]
    learner: eqx.AbstractVar[AbstractLearner]
    rounds: eqx.AbstractVar[Rounds]
    #: Gradient steps on the reward in each round, and the learning rate of Adam in them.
    updates: eqx.AbstractVar[int]
    learning_rate: eqx.AbstractVar[float]
    #: The reward learns from the episodes of so many rounds, the newest included.
    recent: eqx.AbstractVar[int]
    #: The weight of ½E[r²] in the first round.
    penalty: eqx.AbstractVar[float]
    #: None shows a progress bar on terminals only.
    progress: eqx.AbstractVar[bool | None]
    #: Whether the result is a reward; GAIL's discriminator is none.
    learns_reward: ClassVar[bool]
    #: Whether demonstrations must be whole episodes, [N, T], or may be any steps, [n].
    whole_episodes: ClassVar[bool]

    def __check_init__(self) -> None:
        if not isinstance(self.learner, AbstractLearner):
            raise TypeError(f"`learner` must be a learner such as rl.PPO(), but is a {type(self.learner).__name__}.")
        # The model of the demonstrator has temperature 1; GAIL has no such model.
        if self.learns_reward:
            refuse_second_entropy(self.learner)
        if not isinstance(self.reward, RewardNet):
            raise TypeError(
                f"`reward` must be the settings of a network, RewardNet(...), but is a {type(self.reward).__name__}. A "
                f"reward to start from is an argument of `fit`: `fit(..., init_reward=...)`."
            )
        if not isinstance(self.rounds, Rounds):
            raise TypeError(
                f"`rounds` must be Rounds(...), but is a {type(self.rounds).__name__}. Say `rounds=Rounds(num=...)`."
            )
        checks.count("updates", self.updates)
        checks.count("recent", self.recent)
        checks.positive("learning_rate", self.learning_rate)
        checks.positive("penalty", self.penalty, zero=True)
        if self.whole_episodes and self.rounds.explore:
            raise ValueError(
                f"{type(self).__name__} weighs whole paths by their density under the policy, which is unknown where "
                f"actions were random: `explore` must be 0, but is {self.rounds.explore}. AIRL and SampledMCEIRL take "
                f"it."
            )

    @abc.abstractmethod
    def make_reward(
        self, statistics: Normaliser, actions: Discrete | Box, *, key: PRNGKeyArray
    ) -> AbstractObservedReward:
        """The reward before the first round: what the learner maximises, but for its entropy.

        `statistics` are those of the demonstrations' observations.
        """

    @abc.abstractmethod
    def prepare(self, policy: AbstractPolicy, expert: Steps, *, key: PRNGKeyArray) -> Any:
        """What is computed from the demonstrations [n] or [N, T] once, before the first round; None if nothing."""

    @abc.abstractmethod
    def observe(self, policy: AbstractPolicy, expert: Steps, recent: Recent, prepared: Any) -> Any:
        """The data of a round's losses: what does not change between its gradient steps."""

    @abc.abstractmethod
    def loss(self, reward: Any, observed: Any, *, rate: Any, key: PRNGKeyArray) -> tuple[Float[Array, ""], Info]:
        """The loss of the reward on the data of `observe`; `rate` falls from 1 to 0 over the rounds."""

    @property
    def discount(self) -> float:
        """γ, the learner's."""
        return self.learner.discount

    def init(
        self,
        observation_size: int,
        actions: Discrete | Box,
        horizon: int,
        expert: Steps,
        *,
        init_reward: AbstractObservedReward | None = None,
        key: PRNGKeyArray,
    ) -> State:
        """The state before the first round; `init_reward`, if it is given, is where the reward starts."""
        agent_key, reward_key, prepare_key = jr.split(key, 3)
        agent = self.learner.init_agent(observation_size, actions, key=agent_key)
        if init_reward is None:
            rows = expert.rows
            statistics = Normaliser.init(observation_size).update(rows.observation, rows.weight)
            init_reward = self.make_reward(statistics, actions, key=reward_key)
        lead = self.rounds.episodes_for(horizon), horizon
        one_round = jax.tree.map(
            lambda array: jnp.zeros((*lead, *array.shape[expert.weight.ndim :]), array.dtype), expert
        )
        return State(
            agent,
            init_reward,
            self._optimiser().init(split(init_reward)[0]),
            Recent.init(self.recent, one_round, agent.policy),
            self.prepare(agent.policy, expert, key=prepare_key),
            jnp.zeros((), jnp.int32),
        )

    def step(
        self, state: State, expert: Steps, rollout: Transition, *, rate: Any = 1.0, key: PRNGKeyArray
    ) -> tuple[State, Info]:
        """One round, given whole episodes [T, episodes] of the current policy; `rate` multiplies learning rates."""
        gap_key, reward_key, policy_key = jr.split(key, 3)
        steps = steps_of_rollout(rollout, self.discount)
        # The reward learns from episodes with random actions, too; what is reported is of the policy's own only.
        own = jnp.logical_not(rollout.explored.any(axis=0))
        recent = state.recent.add(steps, state.policy)
        info = self._gap(state, expert, steps._replace(weight=steps.weight * own[:, None]), key=gap_key)
        reward, optimiser_state, learned = self._improve(state, expert, recent, rate=rate, key=reward_key)
        # The reward first: the policy's reward has always been updated on the policy's own episodes.
        agent, metrics = self.learner.learn(state.agent, rollout, reward, rate=rate, key=policy_key)
        info = {"return": (own * rollout.reward.sum(axis=0)).sum() / own.sum(), **info, **learned, **metrics}
        return State(agent, reward, optimiser_state, recent, state.prepared, state.rounds + 1), info

    def fit(
        self,
        env: Any,
        demos: Demonstrations,
        *,
        key: PRNGKeyArray,
        init_reward: AbstractObservedReward | None = None,
        callback: Callback | None = None,
        run: RunLike = None,
    ) -> "SampledFit | ImitationFit":
        """Learn from demonstrations by acting in an environment, in JAX or of Gymnasium.

        `init_reward` is the reward to start from, by default a network as `reward` describes it. `callback` receives
        every round as an `Iterate`, and may return True to stop there, with `Status.INTERRUPTED`. In the folder `run`
        (see `irlax.RunFolder`) every round is logged, and checkpoints are written, from which a killed fit is resumed.
        The environment's own reward is reported, and never learned from. GAIL's fit has no reward.
        """
        from irlax.estimators.sampled import loop

        watch = Watch(self.progress, callback, as_run_folder(run))
        return loop.fit(self, env, demos, init_reward, watch, num=None, key=key)[0]

    def fit_many(
        self,
        env: Any,
        demos: Demonstrations,
        *,
        num: int,
        key: PRNGKeyArray,
        init_reward: AbstractObservedReward | None = None,
        callback: Callback | None = None,
    ) -> list["SampledFit | ImitationFit"]:
        """`num` fits side by side, as one `vmap`, that differ in their randomness only; all stop together."""
        from irlax.estimators.sampled import loop

        return loop.fit(self, env, demos, init_reward, Watch(self.progress, callback), num=num, key=key)

    def _improve(
        self, state: State, expert: Steps, recent: Recent, *, rate: Any, key: PRNGKeyArray
    ) -> tuple[AbstractObservedReward, Any, Info]:
        """The reward after `updates` gradient steps, the optimiser's state, and the mean of what they report."""
        parameters, rest = split(state.reward)
        observed = self.observe(state.policy, expert, recent, state.prepared)

        def descend(carry: Any, key: PRNGKeyArray) -> tuple[Any, Info]:
            parameters, optimiser_state = carry

            def loss_of(parameters: Any) -> tuple[Float[Array, ""], Info]:
                return self.loss(eqx.combine(parameters, rest), observed, rate=rate, key=key)

            (loss, info), gradient = jax.value_and_grad(loss_of, has_aux=True)(parameters)
            change, optimiser_state = self._optimiser().update(gradient, optimiser_state, parameters)
            parameters = jax.tree.map(lambda weight, step: weight + rate * step, parameters, change)
            return (parameters, optimiser_state), {"reward_loss": loss, **info}

        start = parameters, state.optimiser_state
        (parameters, optimiser_state), info = jax.lax.scan(descend, start, jr.split(key, self.updates))
        return eqx.combine(parameters, rest), optimiser_state, jax.tree.map(jnp.mean, info)

    def _gap(self, state: State, expert: Steps, newest: Steps, *, key: PRNGKeyArray) -> Info:
        """The learned reward of a step, expert − policy, in its standard deviations; and the expert's likelihood."""
        expert_key, policy_key = jr.split(key)
        expert = draw(expert.rows.discounted, GAP_ROWS, key=expert_key)
        policy = draw(newest.rows.discounted, GAP_ROWS, key=policy_key)
        rewards = rewards_of(state.reward, expert), rewards_of(state.reward, policy)
        deviation = jnp.sqrt(jnp.concatenate(rewards).var() + 1e-12)
        log_policy = jax.vmap(state.policy.log_prob)(expert.observation, expert.action)
        return {"gap": (rewards[0].mean() - rewards[1].mean()) / deviation, "log_likelihood": log_policy.mean()}

    def _optimiser(self) -> optax.GradientTransformation:
        return optax.adam(self.learning_rate, b1=0.5)


def refuse_second_entropy(learner: Any) -> None:
    """A ValueError unless the learner's temperature is 1: the demonstrator's entropy is part of the model already."""
    temperature = learner.temperature
    if temperature != 1:
        raise ValueError(
            f"The model of the demonstrator is soft-optimal at temperature 1, and the scale of the reward is learned, "
            f"so that the learner must have temperature=1.0, but it has {temperature!r}. Say "
            f"`learner={type(learner).__name__}(temperature=1.0, …)`; another entropy bonus would count entropy twice."
        )


def refuse_other_discount(reward: Any, discount: float) -> None:
    """A ValueError unless a potential has the γ of the learner: with another, shaping changes the optimal policy."""
    if isinstance(reward, ShapedObservedReward) and reward.discount != discount:
        raise ValueError(
            f"The potential of `init_reward` is discounted by {reward.discount}, but the learner by {discount}. With "
            f"two discounts shaping changes the optimal policy: use the learner's for both."
        )
