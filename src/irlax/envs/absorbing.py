"""Episodes that continue after their end, in two ways, so that their length is always the horizon.

If some episodes end early, a learned reward that is positive everywhere makes an agent avoid the end, and one
that is negative everywhere makes it seek the end, whatever else was learned: the return after the end is 0, a number
that was not learned. Primer, 4.1, "termination bias"; Kostrikov et al. (2019).
"""

import abc
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np

from irlax import checks
from irlax.demos import Demonstrations
from irlax.demos.demonstrations import from_rows
from irlax.envs.checking import check_demos
from irlax.envs.environment import AbstractEnvironment, Step
from irlax.spaces import Box, Discrete
from irlax.typing import Array, Bool, Float, Int, PRNGKeyArray, Shaped


class EpisodeState(NamedTuple):
    """The state of the environment inside, the last observation of it, whether it has ended, and the time."""

    inner: Any
    observation: Float[Array, " obs"]
    ended: Bool[Array, ""]
    time: Int[Array, ""]


class AbstractContinued(AbstractEnvironment):
    """Episodes of a terminating environment that continue after its end, up to the horizon, with reward 0."""

    #: The environment inside.
    env: eqx.AbstractVar[AbstractEnvironment]

    @abc.abstractmethod
    def observe(self, observation: Float[Array, "*n inner"], ended: Bool[Array, "*n"]) -> Float[Array, "*n obs"]:
        """The observation, given the last one of the environment inside and whether that has ended."""

    @property
    def actions(self) -> Discrete | Box:
        return self.env.actions

    def reset(self, *, key: PRNGKeyArray) -> tuple[EpisodeState, Float[Array, " obs"]]:
        inner, observation = self.env.reset(key=key)
        state = EpisodeState(inner, observation, jnp.zeros((), bool), jnp.zeros((), jnp.int32))
        return state, self.observe(observation, state.ended)

    def step(self, state: EpisodeState, action: Any, *, key: PRNGKeyArray) -> Step:
        moved = self.env.step(state.inner, action, key=key)
        # The environment inside does not change after its end.
        inner, observation = jax.tree.map(
            lambda old, new: jnp.where(state.ended, old, new),
            (state.inner, state.observation),
            (moved.state, moved.observation),
        )
        ended = state.ended | moved.terminated
        after = EpisodeState(inner, observation, ended, state.time + 1)
        return Step(
            state=after,
            observation=self.observe(observation, ended),
            reward=jnp.where(state.ended, 0, moved.reward),
            terminated=jnp.zeros((), bool),
            truncated=(after.time >= self.horizon) | (moved.truncated & ~ended),
        )

    def pad(self, demos: Demonstrations, *, key: PRNGKeyArray) -> Demonstrations:
        """Demonstrations in the environment inside, as they would have continued in this one.

        A terminated episode is continued to the horizon. The actions after the end have no effect, so that a
        soft-optimal demonstrator draws them uniformly, and so are they drawn here: with constant actions they could be
        told from a learner's. Truncated episodes keep their length.
        """
        check_demos(self.env, demos)
        before, after = _observations(demos)
        wanted = np.where(demos.terminated, self.horizon, demos.lengths)
        last = demos.offsets[1:] - 1
        clock = np.arange(wanted.sum()) - np.repeat(np.cumsum(wanted) - wanted, wanted)
        lengths = np.repeat(demos.lengths, wanted)
        over = clock >= lengths
        source = np.repeat(demos.offsets[:-1], wanted) + np.minimum(clock, lengths - 1)
        # The step that ends an episode is the first to lead to what follows the end.
        ending = demos.terminated[demos.episode] & np.isin(np.arange(demos.num_steps), last)
        return from_rows(
            None,
            _uniform_where(over, demos.actions[source], self.actions, key),
            wanted,
            terminated=False,
            weights=demos.weights,
            labels=demos.labels,
            observations=np.asarray(self.observe(np.where(over[:, None], after[source], before[source]), over)),
            next_observations=np.asarray(self.observe(after[source], over | ending[source])),
            rewards=None if demos.rewards is None else np.where(over, 0, demos.rewards[source]),
        )


class FixedHorizon(AbstractContinued):
    """After the end the environment does not change: its last observation is repeated, with reward 0, to the horizon.

    Enough where an observation tells that the problem has ended, as at the goal of MountainCar; else two states have
    the same observation of which only one is the end, and `Absorbing` is right. `Absorbing` is also better to learn a
    reward from: here each demonstration repeats a last state of its own, with most of its weight, and a reward that is
    learned from a few demonstrations can memorise these states.
    """

    env: AbstractEnvironment
    horizon: int = eqx.field(static=True)
    fixed_horizon: bool = eqx.field(static=True, default=True)

    def __init__(self, env: AbstractEnvironment):
        self.env, self.horizon = _checked(env), env.horizon

    @property
    def observation_size(self) -> int:
        return self.env.observation_size

    def observe(self, observation: Float[Array, "*n inner"], ended: Bool[Array, "*n"]) -> Float[Array, "*n obs"]:
        return observation


class Absorbing(AbstractContinued):
    """After the end an explicit absorbing state follows, up to the horizon: zeros, and an indicator that is 1.

    The indicator is appended to every observation, so that the reward of the absorbing state is learned like
    any other. `pad` does the same to demonstrations. Kostrikov et al. (2019).
    """

    env: AbstractEnvironment
    horizon: int = eqx.field(static=True)
    fixed_horizon: bool = eqx.field(static=True, default=True)

    def __init__(self, env: AbstractEnvironment):
        self.env, self.horizon = _checked(env), env.horizon

    @property
    def observation_size(self) -> int:
        return self.env.observation_size + 1

    def observe(self, observation: Float[Array, "*n inner"], ended: Bool[Array, "*n"]) -> Float[Array, "*n obs"]:
        observation = jnp.asarray(observation)
        indicator = jnp.asarray(ended, observation.dtype)[..., None]
        return jnp.concatenate([observation * (1 - indicator), indicator], axis=-1)


def cut_where_still(demos: Demonstrations) -> Demonstrations:
    """Demonstrations in a `FixedHorizon`, cut where observations stop changing: terminated there.

    For `pad` of an `Absorbing` environment. Observations must be equal to the last digit until the last step; so this
    is for observations that are real numbers, of which no two are equal by chance.
    """
    before, after = _observations(demos)
    still = (before == after).all(axis=1)
    # Steps up to the last that changed something; at least one, for an episode that never changed.
    last = np.maximum.reduceat(np.where(still, -1, np.arange(demos.num_steps)), demos.offsets[:-1])
    lengths = np.maximum(last + 1 - demos.offsets[:-1], 1)
    kept = np.arange(demos.num_steps) < (demos.offsets[:-1] + lengths)[demos.episode]
    return from_rows(
        None,
        demos.actions[kept],
        lengths,
        terminated=demos.terminated | (lengths < demos.lengths),
        weights=demos.weights,
        labels=demos.labels,
        observations=before[kept],
        next_observations=after[kept],
        rewards=None if demos.rewards is None else demos.rewards[kept],
    )


def refuse_variable_length(env: Any, demos: Demonstrations) -> None:
    """Raise a ValueError unless all episodes are as long as the horizon, or parts of such."""
    why = (
        "A learned reward that is positive everywhere then makes an agent avoid the end, and a negative one makes it "
        "seek the end, whatever else was learned (termination bias). "
    )
    if not env.fixed_horizon:
        raise ValueError(
            f"Episodes of {type(env).__name__} may end before its horizon of {env.horizon} steps. {why}Wrap the "
            f"environment in `envs.Absorbing`, in which the end has a reward to be learned, or in `envs.FixedHorizon`, "
            f"which does not change after the end; both have `pad` for demonstrations."
        )
    if demos.terminated.any():
        raise ValueError(
            f"Episodes {checks.places(demos.terminated)} of the demonstrations are terminated, but those of "
            f"{type(env).__name__} always have {env.horizon} steps. {why}Use `pad` of the wrapper, `envs.Absorbing` or "
            f"`envs.FixedHorizon`, to continue the demonstrations after their end."
        )


def _checked(env: Any) -> AbstractEnvironment:
    if not isinstance(env, AbstractEnvironment):
        raise TypeError(
            f"`env` must be an environment in JAX, but is a {type(env).__name__}. For one of Gymnasium say "
            f"`make('gymnasium:ID', after_end='absorbing')` or `after_end='fixed-horizon'`."
        )
    return env


def _observations(demos: Demonstrations) -> tuple[Float[np.ndarray, "n obs"], Float[np.ndarray, "n obs"]]:
    """Observations before and after each step; the latter are needed at least where an episode ends."""
    if demos.observations is None or demos.next_observations is None:
        raise ValueError("To be continued after their end, demonstrations need `observations` and `next_observations`.")
    return demos.observations, demos.next_observations


def _uniform_where(
    over: Bool[np.ndarray, " n"], actions: Shaped[np.ndarray, "n ..."], space: Discrete | Box, key: PRNGKeyArray
) -> Shaped[np.ndarray, "n ..."]:
    """The actions, but uniform ones where `over`."""
    if isinstance(space, Discrete):
        return np.where(over, np.asarray(jr.randint(key, over.shape, 0, space.num)), actions)
    low, high = np.asarray(space.low), np.asarray(space.high)
    uniform = np.asarray(jr.uniform(key, (len(over), len(low))))
    return np.where(over[:, None], low + uniform * (high - low), actions).astype(actions.dtype)
