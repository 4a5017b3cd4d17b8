"""What all dynamics-free estimators share: `init`, `step`, and the settings that both read.

``state = estimator.init(observation_size, actions, horizon, expert, key=key)`` is the state before the first round.
``state, info = estimator.step(state, expert, rollout, key=key)`` takes whole episodes of `state.policy`, or with
`rounds.steps` any steps of it, improves the reward on them, then the policy for the reward. Both are pure functions;
the training loop collects the steps.
"""

import abc
import dataclasses
from typing import TYPE_CHECKING, Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import optax

from irlax.demos import Demonstrations
from irlax.envs.experience import Transition
from irlax.estimators.sampled.control import is_control
from irlax.estimators.sampled.rounds import Rounds
from irlax.estimators.sampled.settings import check_settings
from irlax.estimators.sampled.steps import (
    Recent,
    Steps,
    Window,
    draw_both,
    length_of_end,
    log_policy_of,
    rewards_of,
    steps_of_rollout,
    weighted_mean,
)
from irlax.iteration import Callback, Watch
from irlax.networks import Normaliser
from irlax.rewards import AbstractObservedReward, RewardNet
from irlax.rewards.observed import split, with_end, with_end_scaled
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
    #: The episodes of the last rounds; None with `rounds.steps`, where the agent's replay buffer holds the steps.
    recent: Recent | None
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
    the new reward. With `rounds.steps` it collects that many steps, episodes go on from round to round, and the
    learner learns from its replay, whose rewards are computed anew. The discount is the learner's; there is no other.
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
    #: Whether the reward may be learned in any unit, because nothing is compared with it but itself.
    any_unit: ClassVar[bool] = False
    #: Whether the method itself, beside its reward, needs the demonstrated actions.
    needs_actions: ClassVar[bool] = True

    def __check_init__(self) -> None:
        check_settings(self)

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
    def observe(self, policy: AbstractPolicy, expert: Steps, recent: Any, prepared: Any) -> Any:
        """The data of a round's losses: what does not change between its gradient steps."""

    @abc.abstractmethod
    def loss(self, reward: Any, observed: Any, *, rate: Any, key: PRNGKeyArray) -> tuple[Float[Array, ""], Info]:
        """The loss of the reward on the data of `observe`; `rate` falls from 1 to 0 over the rounds."""

    def for_problem(self, env: Any) -> "AbstractSampledIRL":
        """What `fit` uses: itself or, in continuous control, `for_control()` with the settings that were changed.

        With a learner or rounds of its own, it is left as it is.
        """
        recipe = getattr(type(self), "for_control", None)
        if recipe is None or not is_control(env):
            return self
        defaults = {field.name: field.default for field in dataclasses.fields(self)}
        changed = {
            name: getattr(self, name)
            for name, default in defaults.items()
            if not eqx.tree_equal(getattr(self, name), default)
        }
        return self if {"learner", "rounds"} & set(changed) else recipe(**changed)

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
        reward: Any = init_reward
        if reward is None:
            rows = expert.rows
            weight = rows.weight if rows.over is None else rows.weight * ~rows.over
            statistics = Normaliser.init(observation_size).update(rows.observation, weight)
            reward = self.make_reward(statistics, actions, key=reward_key)
        if expert.over is not None:
            reward = with_end(reward)
        recent = None
        if self.rounds.steps is None:
            lead = self.rounds.episodes_for(horizon), horizon
            one_round = jax.tree.map(
                lambda array: jnp.zeros((*lead, *array.shape[expert.weight.ndim :]), array.dtype), expert
            )
            recent = Recent.init(self.recent, one_round, agent.policy)
        return State(
            agent,
            reward,
            self._optimiser().init(split(reward)[0]),
            recent,
            self.prepare(agent.policy, expert, key=prepare_key),
            jnp.zeros((), jnp.int32),
        )

    def step(
        self, state: State, expert: Steps, rollout: Transition, *, rate: Any = 1.0, key: PRNGKeyArray
    ) -> tuple[State, Info]:
        """One round, given whole episodes [T, episodes] of the current policy; `rate` multiplies learning rates.

        With `rounds.steps`, given the next steps [time, copies] of it.
        """
        if self.rounds.steps is not None:
            return self._step_with_replay(state, expert, rollout, rate=rate, key=key)
        gap_key, reward_key, policy_key = jr.split(key, 3)
        assert state.recent is not None
        steps = steps_of_rollout(rollout, self.discount)
        # The reward learns from episodes with random actions, too; what is reported is of the policy's own only.
        own = jnp.logical_not(rollout.explored.any(axis=0))
        recent = state.recent.add(steps, state.policy)
        newest = steps._replace(weight=steps.weight * own[:, None]).rows.discounted
        info = self._gap(state, expert.rows.discounted, newest, key=gap_key)
        reward, optimiser_state, learned = self._improve(state, expert, recent, rate=rate, key=reward_key)
        # The reward first: the policy's reward has always been updated on the policy's own episodes.
        agent, metrics = self.learner.learn(state.agent, rollout, reward, rate=rate, key=policy_key)
        info = {"return": (own * rollout.reward.sum(axis=0)).sum() / own.sum(), **info, **learned, **metrics}
        return State(agent, reward, optimiser_state, recent, state.prepared, state.rounds + 1), info

    def _step_with_replay(
        self, state: State, expert: Steps, rollout: Transition, *, rate: Any, key: PRNGKeyArray
    ) -> tuple[State, Info]:
        gap_key, reward_key, policy_key = jr.split(key, 3)
        learner: Any = self.learner
        agent = learner.add(state.agent, rollout)
        state = dataclasses.replace(state, agent=agent)
        end_length = 0.0 if expert.over is None else length_of_end(self.discount)
        num = rollout.reward.size
        info = self._gap(state, expert, Window.of(agent.buffer, num, end_length), key=gap_key)
        recent = Window.of(agent.buffer, self.recent * num, end_length)
        reward, optimiser_state, learned = self._improve(state, expert, recent, rate=rate, key=reward_key)
        agent, metrics = learner.improve(agent, reward, rate=rate, key=policy_key)
        return State(agent, reward, optimiser_state, None, state.prepared, state.rounds + 1), info | learned | metrics

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
        The environment's own reward is reported, and never learned from. GAIL's fit has no reward. In environments of
        Gymnasium, and in longer episodes, with continuous actions AIRL, SampledMCEIRL and GAIL have the defaults of
        `for_control()`, unless a learner or rounds were chosen; the fit's `estimator` is what was used.
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
        run: RunLike = None,
    ) -> list["SampledFit | ImitationFit"]:
        """`num` fits side by side, as one `vmap`, that differ in their randomness only; all stop together.

        In the folder `run` they have one log and one checkpoint.
        """
        from irlax.estimators.sampled import loop

        return loop.fit(
            self, env, demos, init_reward, Watch(self.progress, callback, as_run_folder(run)), num=num, key=key
        )

    def _improve(
        self, state: State, expert: Steps, recent: Any, *, rate: Any, key: PRNGKeyArray
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
            if expert.over is not None:
                change = with_end_scaled(change, getattr(self, "end_rate", 1.0))
            parameters = jax.tree.map(lambda weight, step: weight + rate * step, parameters, change)
            return (parameters, optimiser_state), {"reward_loss": loss, **info}

        start = parameters, state.optimiser_state
        (parameters, optimiser_state), info = jax.lax.scan(descend, start, jr.split(key, self.updates))
        return eqx.combine(parameters, rest), optimiser_state, jax.tree.map(jnp.mean, info)

    def _gap(self, state: State, expert: Steps, newest: Steps | Window, *, key: PRNGKeyArray) -> Info:
        """The learned reward of a step, expert − policy, in its standard deviations; and the expert's likelihood."""
        expert, policy = draw_both(expert, newest, GAP_ROWS, key=key)
        rewards = [rewards_of(state.reward, steps) for steps in (expert, policy)]
        weights = [steps.weight / steps.weight.sum() for steps in (expert, policy)]
        means = [weight @ reward for weight, reward in zip(weights, rewards, strict=True)]
        squares = [weight @ reward**2 for weight, reward in zip(weights, rewards, strict=True)]
        deviation = jnp.sqrt(jnp.maximum(sum(squares) / 2 - (sum(means) / 2) ** 2, 0.0) + 1e-12)
        log_policy = weighted_mean(log_policy_of(state.policy, expert), expert.weight)
        return {"gap": (means[0] - means[1]) / deviation, "log_likelihood": log_policy}

    def _optimiser(self) -> optax.GradientTransformation:
        return optax.adam(self.learning_rate, b1=0.5)
