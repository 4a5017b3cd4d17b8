"""Tabular MDPs as environments, whose dynamics are not shown to the agent."""

import dataclasses
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np

from irlax import checks
from irlax.envs.timed import AbstractTimedEnvironment
from irlax.mdp import MDP
from irlax.mdp.dynamics import AbstractDynamics
from irlax.mdp.sampling import inverse_cdf
from irlax.planning.plan import reward_array
from irlax.spaces import Discrete
from irlax.typing import Array, Bool, Float, Int, PRNGKeyArray


class Tabular(AbstractTimedEnvironment):
    """The states of an MDP, observed as one-hot vectors; the reward is a table [S], [S,A] or [S,A,S'].

    Episodes are truncated after `horizon` steps, by default the MDP's. With `terminates` they end on entering an
    absorbing state, whose reward is then never received; without, they continue in it, and the horizon is fixed.

    An agent may choose any action anywhere; one that does not exist in a state does there what the first that
    exists does. Plan in `complete(mdp, reward)` to know what is best for such an agent.
    """

    dynamics: AbstractDynamics
    initial: Float[Array, " S"]
    reward: Float[Array, "..."]
    absorbing: Bool[np.ndarray, " S"]
    horizon: int = eqx.field(static=True)
    fixed_horizon: bool = eqx.field(static=True)
    #: How to draw it, if it is a gridworld.
    layout: tuple[str, ...] | None = eqx.field(static=True)

    def __init__(
        self,
        mdp: MDP,
        reward: Any,
        *,
        horizon: int | None = None,
        terminates: bool = False,
    ):
        whole, table = complete(mdp, reward)
        limit = mdp.horizon if horizon is None else horizon
        if limit is None:
            raise ValueError("This MDP has no horizon; say after how many steps to truncate: `horizon=`.")
        # In single precision, as everything that is sampled.
        self.dynamics = jax.tree.map(_single, whole.dynamics)
        self.initial, self.reward = _single(whole.initial), _single(table)
        self.absorbing = whole.absorbing
        self.horizon, self.layout = limit, mdp.labels.layout
        self.fixed_horizon = not (terminates and self.absorbing.any())

    @property
    def observation_size(self) -> int:
        return self.dynamics.num_states

    @property
    def actions(self) -> Discrete:
        return Discrete(self.dynamics.num_actions)

    def start(self, *, key: PRNGKeyArray) -> Int[Array, ""]:
        cumulative = jnp.cumsum(jnp.asarray(self.initial))[None]
        return inverse_cdf(cumulative, (jnp.zeros(1, jnp.int32),), jr.uniform(key, (1,)))[0]

    def move(self, inner: Int[Array, ""], action: Int[Array, ""], *, key: PRNGKeyArray) -> Int[Array, ""]:
        dynamics = jax.tree.map(jnp.asarray, self.dynamics)
        choice = jnp.asarray(action, jnp.int32)
        return dynamics.sample(inner[None], choice[None], jr.uniform(key, (1,)))[0]

    def observe(self, inner: Int[Array, ""]) -> Float[Array, " S"]:
        return jax.nn.one_hot(inner, self.observation_size)

    def reward_of(self, inner: Int[Array, ""], action: Int[Array, ""], after: Int[Array, ""]) -> Float[Array, ""]:
        table = jnp.asarray(self.reward)
        return table[(inner, action, after)[: table.ndim]]

    def ended(self, inner: Int[Array, ""]) -> Bool[Array, ""]:
        return jnp.asarray(self.absorbing)[inner] & (not self.fixed_horizon)


def complete(mdp: MDP, reward: Any) -> tuple[MDP, Float[np.ndarray, "..."]]:
    """The problem in which any action may be chosen in any state.

    An action that does not exist in a state does there what the first that exists does, with the same reward.
    """
    if not isinstance(mdp, MDP):
        raise TypeError(f"`mdp` must be an MDP, but is a {type(mdp).__name__}.")
    mdp.require_one_row("An environment in which any action may be chosen anywhere")
    table = checks.as_floats("reward", reward_array(mdp, reward))
    sizes = (mdp.num_states, mdp.num_actions, mdp.num_states)
    if table.ndim not in (1, 2, 3) or table.shape != sizes[: table.ndim]:
        raise ValueError(f"`reward` must have the shape (S,), (S, A) or (S, A, S) of {sizes}, but has {table.shape}.")
    if mdp.mask is not None:
        available = np.asarray(mdp.available)
        stand_in = np.where(available, np.arange(mdp.num_actions), available.argmax(axis=1)[:, None])
        if table.ndim > 1:
            table = table[np.arange(mdp.num_states)[:, None], stand_in]
        matrices = [matrix.tolil() for matrix in mdp.dynamics.to_scipy()]
        for state, action in np.argwhere(~available):
            matrices[action][state] = matrices[stand_in[state, action]][state]
        rows = [matrix.tocsr() for matrix in matrices]
        whole = MDP.from_scipy(rows, mdp.initial, discount=mdp.discount, horizon=mdp.horizon)
        mdp = dataclasses.replace(whole, labels=mdp.labels)
    # Only now: the reward of an action that does not exist may be anything.
    checks.finite("reward", table)
    return mdp, table


def _single(array: Any) -> np.ndarray:
    array = np.asarray(array)
    return array.astype(np.float32 if array.dtype.kind == "f" else np.int32)
