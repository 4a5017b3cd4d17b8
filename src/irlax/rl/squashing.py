r"""A Gaussian squashed into a box by a tanh: its density at what was drawn, and where only the action is known.

In single precision the tanh of 9 equals that of 20, so that an action at the edge of the box does not determine what
was drawn. Its density is the mass of all that is rounded to it, the *cell*, over the width of the cell. The density at
one point of the cell could be off by any factor where the cell is wide compared with the standard deviation.
"""

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import log_ndtr

from irlax.spaces import Box
from irlax.typing import Array, Bool, Float

#: Cells narrower than so many standard deviations have the density of their middle, to a few parts in 10,000.
NARROW = 0.02
#: In standard deviations: beyond it there is no mass in single precision.
FAR = 1e3


class Gaussian(NamedTuple):
    """The distribution of u, the action before the tanh."""

    mean: Float[Array, " n"]
    log_std: Float[Array, " n"]

    def standard(self, u: Float[Array, " n"]) -> Float[Array, " n"]:
        """u in standard deviations from the mean."""
        return (u - self.mean) * jnp.exp(-self.log_std)

    def log_density(self, u: Float[Array, " n"]) -> Float[Array, " n"]:
        """log N(u) of each entry."""
        return -0.5 * self.standard(u) ** 2 - self.log_std - 0.5 * math.log(2 * math.pi)


def squash(actions: Box, u: Float[Array, " n"]) -> Float[Array, " n"]:
    """l + (h − l)(tanh u + 1)/2, from the nearer edge: tanh would lose the distance to it to rounding."""
    beyond = (actions.high - actions.low) * jax.nn.sigmoid(-2 * jnp.abs(u))
    return jnp.where(u < 0, actions.low + beyond, actions.high - beyond)


def log_slope(actions: Box, u: Float[Array, " n"]) -> Float[Array, " n"]:
    """log of d squash/du: log(1 − tanh² u) + log((h − l)/2), by |u|, so that nothing cancels."""
    size = jnp.abs(u)
    return 2 * (math.log(2.0) - size - jnp.log1p(jnp.exp(-2 * size))) + jnp.log((actions.high - actions.low) / 2)


def log_density_at(actions: Box, u: Float[Array, " n"], gaussian: Gaussian) -> Float[Array, ""]:
    """The log density of the action that u is squashed to."""
    return (gaussian.log_density(u) - log_slope(actions, u)).sum()


def log_density_of(actions: Box, action: Float[Array, " n"], gaussian: Gaussian) -> Float[Array, ""]:
    """The log density of an action: the mass of all that is rounded to it, over the width of that cell."""
    # The spacing of single floats where they are coarsest in the box.
    width = float(np.finfo(np.float32).eps) * jnp.maximum(jnp.abs(actions.low), jnp.abs(actions.high))
    action = jnp.clip(action, actions.low, actions.high)
    # Where the box is a constant, XLA would add the width to the edge first, and the width is lost to rounding there.
    below, above = jax.lax.optimization_barrier((action - actions.low, actions.high - action))
    at_low, at_high = below <= width / 2, above <= width / 2
    first = _before(jnp.maximum(below - width / 2, width / 4), above + width / 2)
    last = _before(below + width / 2, jnp.maximum(above - width / 2, width / 4))
    middle = _before(jnp.maximum(below, width / 4), jnp.maximum(above, width / 4))
    ends = gaussian.standard(first), gaussian.standard(last)
    # An edge cell extends to infinity.
    ends = jnp.where(at_low, ends[1] - FAR, ends[0]), jnp.where(at_high, ends[0] + FAR, ends[1])
    narrow = ends[1] - ends[0] < NARROW
    inside = width / 2 * (2.0 - at_low - at_high) + jnp.where(at_low, below, 0.0) + jnp.where(at_high, above, 0.0)
    by_cell = _log_mass(ends, narrow) - jnp.log(inside)
    by_point = gaussian.log_density(middle) - log_slope(actions, middle)
    return jnp.where(narrow, by_point, by_cell).sum()


def _before(below: Float[Array, " n"], above: Float[Array, " n"]) -> Float[Array, " n"]:
    """u, given the distances to both edges: atanh without losing them to rounding."""
    return 0.5 * (jnp.log(below) - jnp.log(above))


def _log_mass(ends: tuple[Float[Array, " n"], Float[Array, " n"]], narrow: Bool[Array, " n"]) -> Float[Array, " n"]:
    """log(Φ(last) − Φ(first)), in the lower tail, where Φ is not rounded to 1; any finite number for narrow cells."""
    flipped = ends[0] + ends[1] > 0
    low, high = jnp.where(flipped, -ends[1], ends[0]), jnp.where(flipped, -ends[0], ends[1])
    top = log_ndtr(high)
    drop = jnp.where(narrow, 1.0, top - log_ndtr(low))
    return top + jnp.log(-jnp.expm1(-drop))
