"""Potential shaping: it changes a reward, but not which policies are optimal."""

from typing import Any

import jax.numpy as jnp
import numpy as np

from irlax import checks
from irlax.mdp import MDP
from irlax.precision import is_traced
from irlax.registry import stored
from irlax.rewards.reward import AbstractFolded, AbstractReward, AbstractUnfolded
from irlax.typing import Array, Float, Scalar


@stored("shaped-reward")
class ShapedReward(AbstractReward):
    r"""$r(s,a,s') + \gamma\Phi(s') - \Phi(s)$: the base reward and the potential are learned together.

    `potential` is [S], and `discount` must be the MDP's own: with another γ the shaping would change what
    is optimal. Ng, Harada and Russell (1999); Primer, 4.4.3.
    """

    base: AbstractReward
    potential: Float[Array, " S"]
    discount: Scalar

    def __init__(self, base: AbstractReward, potential: Any, discount: Any) -> None:
        if not isinstance(base, AbstractReward):
            raise TypeError(f"`base` must be a reward, but is a {type(base).__name__}.")
        potential = checks.as_floats("potential", potential)
        if jnp.ndim(potential) != 1:
            raise ValueError(f"`potential` must have shape (S,), but has {jnp.shape(potential)}.")
        checks.finite("potential", potential)
        self.base = base
        self.potential = potential
        self.discount = checks.discount(discount)

    @property
    def parameters(self) -> tuple[Any, Float[Array, " S"]]:
        return self.base.parameters, self.potential

    def with_parameters(self, parameters: tuple[Any, Float[Array, " S"]]) -> "ShapedReward":
        base, potential = parameters
        return type(self)(self.base.with_parameters(base), potential, self.discount)

    def bind(self, mdp: MDP) -> "ShapedReward":
        checks.has_shape("potential", self.potential, (mdp.num_states,), "(S,)")
        if not is_traced(self.discount, mdp.discount) and self.discount != mdp.discount:
            raise ValueError(
                f"The shaped reward has discount {self.discount}, but the MDP {mdp.discount}. Shaping keeps the "
                f"optimum only at the MDP's own discount: pass `ShapedReward(base, potential, {mdp.discount})`."
            )
        return type(self)(self.base.bind(mdp), self.potential, self.discount)

    def fold(self, mdp: MDP) -> "FoldedShaped":
        return FoldedShaped(self.base.fold(mdp), mdp, self.discount)

    def unfold(self, mdp: MDP) -> "UnfoldedShaped":
        return UnfoldedShaped(self.base.unfold(mdp), mdp, self.discount)

    @property
    def is_linear(self) -> bool:
        return self.base.is_linear

    def parameter_names(self) -> list[str]:
        return [*self.base.parameter_names(), *(f"Φ({s})" for s in range(len(self.potential)))]

    def scales(self, mdp: MDP) -> Float[np.ndarray, " K"]:
        return np.concatenate([self.base.scales(mdp), np.ones(mdp.num_states)])


class FoldedShaped(AbstractFolded):
    """E[r + γΦ(S') − Φ(s)]."""

    base: AbstractFolded
    mdp: MDP
    discount: Scalar

    def __call__(self, parameters: tuple[Any, Float[Array, " S"]]) -> Float[Array, "A R"]:
        base, potential = parameters
        potential = jnp.asarray(potential)
        shaping = self.discount * self.mdp.dynamics.backward(potential) - self.mdp.rows.repeat(potential)
        return self.base(base) + shaping


class UnfoldedShaped(AbstractUnfolded):
    """r(s,a,s') + γΦ(s') − Φ(s), aligned."""

    base: AbstractUnfolded
    mdp: MDP
    discount: Scalar

    def __call__(self, parameters: tuple[Any, Float[Array, " S"]]) -> tuple[Float[Array, "A R"], Float[Array, "..."]]:
        base, potential = parameters
        potential = jnp.asarray(potential)
        plain, by_next = self.base(base)
        shaping = self.discount * self.mdp.dynamics.next_values(potential)
        return plain - self.mdp.rows.repeat(potential), shaping if by_next is None else by_next + shaping
