"""Rewards with one free parameter for each state, state–action or transition."""

from typing import Any, Literal

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from irlax import checks
from irlax.mdp import MDP
from irlax.registry import stored
from irlax.rewards.linear import PlainUnfolded
from irlax.rewards.reward import AbstractFolded, AbstractReward, AbstractUnfolded
from irlax.typing import Array, Float

Over = Literal["s", "sa", "sas"]


@stored("tabular-reward")
class TabularReward(AbstractReward):
    """A reward of its own for every s ("s"), (s, a) ("sa") or (s, a, s') ("sas"), in C order.

    `values` is the table, zero unless given; without it, `bind` gives the reward the shape of its MDP.
    """

    over: Over = eqx.field(static=True)
    values: Float[Array, "S *rest"] | None

    def __init__(self, over: Over, values: Any = None) -> None:
        self.over = checks.one_of("over", over, ("s", "sa", "sas"))
        if values is not None:
            values = checks.as_floats("values", values)
            if jnp.ndim(values) != len(over):
                raise ValueError(
                    f"`values` over {over!r} must have {len(over)} axes, but has shape {jnp.shape(values)}."
                )
            checks.finite("values", values)
        self.values = values

    @property
    def parameters(self) -> Float[Array, "S *rest"]:
        if self.values is None:
            raise ValueError("This tabular reward has no values yet: `bind` it to an MDP first.")
        return self.values

    def with_parameters(self, parameters: Float[Array, "S *rest"]) -> "TabularReward":
        return type(self)(self.over, parameters)

    def bind(self, mdp: MDP) -> "TabularReward":
        full = (mdp.num_states, mdp.num_actions, mdp.num_states)
        shape = mdp.table_shape if self.over == "sa" else full[: len(self.over)]
        if self.values is None:
            return type(self)(self.over, np.zeros(shape))
        checks.has_shape("values", self.values, shape, f"the table over {self.over!r} of this MDP")
        return self

    def fold(self, mdp: MDP) -> "FoldedTable":
        return FoldedTable(mdp, self.over)

    def unfold(self, mdp: MDP) -> "UnfoldedTable | PlainUnfolded":
        return UnfoldedTable(mdp) if self.over == "sas" else PlainUnfolded(self.fold(mdp))

    @property
    def is_linear(self) -> bool:
        return True

    def parameter_names(self) -> list[str]:
        return [f"r({', '.join(map(str, index))})" for index in np.ndindex(jnp.shape(self.parameters))]

    def scales(self, mdp: MDP) -> Float[np.ndarray, " K"]:
        return np.ones(self.bind(mdp).num_parameters)


class FoldedTable(AbstractFolded):
    """The table, averaged over next states where it depends on them."""

    mdp: MDP
    over: Over = eqx.field(static=True)

    @property
    def by_state(self) -> bool:
        return self.over == "s"

    @property
    def on_host(self) -> bool:
        return self.over != "sas" and self.mdp.rows.one_per_state

    def __call__(self, parameters: Float[Array, "S *rest"]) -> Float[Array, "A R"]:
        if self.over == "sas":
            return self.mdp.dynamics.mean(self.mdp.align(parameters))
        reward = self.mdp.rows.repeat(parameters) if self.over == "s" else parameters.T
        spread = np.broadcast_to if isinstance(parameters, np.ndarray) else jnp.broadcast_to
        return spread(reward, self.mdp.table_shape[::-1])

    def pull_back(
        self, parameters: Float[Array, "S *rest"], visits: Float[np.ndarray, "A R"]
    ) -> Float[Array, "S *rest"]:
        if not self.on_host:
            return super().pull_back(parameters, visits)
        return visits.sum(axis=0) if self.over == "s" else visits.T


class UnfoldedTable(AbstractUnfolded):
    """The table over (s, a, s'), aligned."""

    mdp: MDP

    def __call__(self, parameters: Float[Array, "S A S"]) -> tuple[Float[Array, "A R"], Float[Array, "..."]]:
        nothing = jnp.zeros(self.mdp.table_shape[::-1])
        return nothing, self.mdp.align(parameters)
