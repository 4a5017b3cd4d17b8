"""The interface of rewards: parameters, and two functions of them.

A reward is defined without an MDP. In one, it becomes a function from parameters to arrays: `fold` gives
E[r(s,a,S')], which is all that the causal model uses; `unfold` keeps the part that depends on s', which the path model
exponentiates transition by transition.
"""

import abc
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from irlax.mdp import MDP, Dense
from irlax.precision import StaysOnDevice, exact, is_placed, is_traced
from irlax.typing import Array, Float

#: A tree of arrays: one vector for linear and tabular rewards, the weights of a network for neural ones.
Parameters = Any


class AbstractFolded(StaysOnDevice):
    """Parameters ↦ E[r(s,a,S') | s,a], action-major, in one MDP."""

    @abc.abstractmethod
    def __call__(self, parameters: Parameters) -> Float[Array, "A R"]:
        """The expected reward of each action."""

    @property
    def by_state(self) -> bool:
        """Whether it is the same for all actions of a state: then visits to states determine its expectation."""
        return False

    @property
    def on_host(self) -> bool:
        """Whether NumPy parameters give a NumPy table, for which nothing is compiled."""
        return False

    def pull_back(self, parameters: Parameters, visits: Float[np.ndarray, "A R"]) -> Parameters:
        """Σ visits · ∂r/∂θ."""
        return _pulled_back(self, parameters, visits)


@eqx.filter_jit
def _pulled_back(folded: AbstractFolded, parameters: Parameters, visits: Float[Array, "A R"]) -> Parameters:
    reward, pull_back = jax.vjp(folded, parameters)
    # In single precision the reward is, and visits of data are not.
    return pull_back(visits.astype(reward.dtype))[0]


class AbstractUnfolded(StaysOnDevice):
    """Parameters ↦ (the part of the reward that does not depend on s', and the aligned part that does)."""

    @abc.abstractmethod
    def __call__(self, parameters: Parameters) -> tuple[Float[Array, "A R"], Float[Array, "..."] | None]:
        """The reward in two parts."""


class AbstractReward(eqx.Module):
    """A reward over s, (s, a) or (s, a, s') with parameters to learn."""

    @property
    @abc.abstractmethod
    def parameters(self) -> Parameters:
        """What is learned."""

    @abc.abstractmethod
    def with_parameters(self, parameters: Parameters) -> "AbstractReward":
        """The same reward at other parameters."""

    @abc.abstractmethod
    def bind(self, mdp: MDP) -> "AbstractReward":
        """The reward with parameters that fit `mdp`, or an error that says why it cannot have them."""

    @abc.abstractmethod
    def fold(self, mdp: MDP) -> AbstractFolded:
        """Expected rewards in `mdp` as a function of the parameters."""

    @abc.abstractmethod
    def unfold(self, mdp: MDP) -> AbstractUnfolded:
        """Rewards by transition in `mdp` as a function of the parameters."""

    @property
    def is_linear(self) -> bool:
        """Whether the reward is linear in its parameters."""
        return False

    @property
    def num_parameters(self) -> int:
        """K."""
        return int(sum(np.size(leaf) for leaf in jax.tree.leaves(self.parameters)))

    @exact
    def table(self, mdp: MDP) -> Float[Array, "R A"]:
        """The expected reward E[r(s,a,S')] at the current parameters."""
        return self.expected(mdp)

    def expected(self, mdp: MDP) -> Float[Array, "R A"]:
        """`table`, for planners: on the devices that the MDP is spread over, if it is."""
        bound = self.bind(mdp)
        table = reward_at(bound.fold(mdp), bound.parameters)
        return table.T if is_traced(table) or is_placed(table) else np.asarray(table).T

    @exact
    def by_transition(self, mdp: MDP) -> Float[Array, "S A S"]:
        """r(s,a,s') at the current parameters, for small problems."""
        mdp.require_one_row("A table over (s, a, s')")
        bound = self.bind(mdp)
        # With every transition stored, the aligned layout is the table itself.
        everywhere = Dense(jnp.ones((mdp.num_actions, mdp.num_states, mdp.num_states)))
        dense = eqx.tree_at(lambda mdp: mdp.dynamics, mdp, everywhere)
        plain, ahead = bound.unfold(dense)(bound.parameters)
        whole = plain[..., None] if ahead is None else plain[..., None] + ahead
        shape = (mdp.num_actions, mdp.num_states, mdp.num_states)
        return jnp.swapaxes(jnp.broadcast_to(whole, shape), 0, 1)

    @exact
    def as_array(self, mdp: MDP) -> Float[Array, "..."]:
        """The reward as planners take it: [S,A], or [S,A,S'] if it depends on s'."""
        bound = self.bind(mdp)
        depends = jax.eval_shape(bound.unfold(mdp), bound.parameters)[1] is not None
        return bound.by_transition(mdp) if depends else bound.table(mdp)

    def plot(self, mdp: MDP, *, title: str = "", ax: Any = None) -> Any:
        """The expected reward in `mdp` at the current parameters, as a matplotlib figure: on the grid or map, if any.

        A reward that differs between the actions of a state has one picture for each action on a grid, and else a table
        of colours. With `ax` one picture is drawn on these axes, which are returned.
        """
        from irlax.rewards.drawing import reward_picture

        return reward_picture(self, mdp, title=title, ax=ax)

    @abc.abstractmethod
    def parameter_names(self) -> list[str]:
        """A name for each of the K parameters."""

    @abc.abstractmethod
    def scales(self, mdp: MDP) -> Float[np.ndarray, " K"]:
        """The size of each parameter's effect on the reward: solvers divide by it, so that units do not matter."""


def reward_at(folded: AbstractFolded, parameters: Parameters) -> Float[Array, "A R"]:
    """The expected rewards at these parameters, as one program, or by NumPy where that is possible."""
    if folded.on_host and isinstance(parameters, np.ndarray):
        return folded(parameters)
    return _reward_at(folded, parameters)


@eqx.filter_jit
def _reward_at(folded: AbstractFolded, parameters: Parameters) -> Float[Array, "A R"]:
    return folded(parameters)


def flat(parameters: Parameters) -> Float[np.ndarray, " K"]:
    """All parameters as one vector, in C order."""
    leaves = [np.asarray(leaf, np.float64).ravel() for leaf in jax.tree.leaves(parameters)]
    return np.concatenate(leaves) if leaves else np.zeros(0)
