r"""Random walks that are observed through quadratic losses: the smoother, in the form of information.

$$\min_z \; \sum_t \tfrac12 z_t^\top \Lambda_t z_t - b_t^\top z_t
  + \tfrac12 z_0^\top P z_0 + \tfrac12 \sum_t (z_{t+1} - z_t)^\top Q^{-1} (z_{t+1} - z_t), \qquad Q = R R^\top$$

Its Hessian is block-tridiagonal, so it is solved in O(B·r³) for B periods: by filters forward and backward in time,
each of which carries a precision and a precision-weighted mean (the two-filter form of Rauch, Tung and Striebel's
smoother; Fraser and Potter 1969). Only R is used, never Q⁻¹: parameters that do not drift (rows of R that are 0) and
periods without observations (Λ = 0) need no special case.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax.scipy.linalg import cho_solve, solve_triangular

from irlax.typing import Array, Float


class Walk(NamedTuple):
    """The minimum, the precision of each state given all periods, and what the Laplace approximation needs."""

    mean: Float[Array, "B r"]
    precision: Float[Array, "B r r"]
    #: Q⁻¹(z_{t+1} − z_t), which exists if Q is singular, too; 0 after the last period.
    pull: Float[Array, "B r"]
    #: (B−1)·log|Q| + log|Hessian|; NaN unless the Hessian is positive definite.
    log_det: Float[Array, ""]


def smooth(
    curvature: Float[Array, "B r r"],
    information: Float[Array, "B r"],
    prior: Float[Array, "r r"],
    root: Float[Array, "r q"],
) -> Walk:
    """The minimum over all states; `root` is R, `prior` the precision P of the first state."""
    with_prior = jnp.asarray(curvature).at[0].add(prior)
    forward, log_dets = _filter((with_prior, information), root)
    backward, _ = _filter((curvature[::-1], information[::-1]), root)
    # What later periods say of the state now, without its own observation.
    after = tuple(array[::-1] for array in backward.predicted)
    precision = forward.precision + after[0]
    mean = jnp.linalg.solve(precision, (forward.information + after[1])[..., None])[..., 0]
    slope = information - jnp.einsum("tij,tj->ti", curvature, mean)
    pull = jnp.cumsum(slope[::-1], axis=0)[::-1] - slope
    last = jnp.linalg.cholesky(forward.precision[-1])
    return Walk(mean, precision, pull, log_dets[:-1].sum() + 2 * jnp.log(jnp.diag(last)).sum())


class _Filtered(NamedTuple):
    """Precision and precision-weighted mean given the periods so far, and given the periods before alone."""

    precision: Float[Array, "B r r"]
    information: Float[Array, "B r"]
    predicted: tuple[Float[Array, "B r r"], Float[Array, "B r"]]


def _filter(
    observed: tuple[Float[Array, "B r r"], Float[Array, "B r"]], root: Float[Array, "r q"]
) -> tuple[_Filtered, Float[Array, " B"]]:
    """The filter, and log|I + QF| of each period: its last entry belongs to a period that is not there."""

    def step(predicted, now):
        precision, information = predicted[0] + now[0], predicted[1] + now[1]
        following, log_det = _predict(precision, information, root)
        return following, (_Filtered(precision, information, predicted), log_det)

    nothing = (jnp.zeros_like(observed[0][0]), jnp.zeros_like(observed[1][0]))
    return jax.lax.scan(step, nothing, observed)[1]


def _predict(precision: Float[Array, "r r"], information: Float[Array, " r"], root: Float[Array, "r q"]):
    r"""$(F^{-1} + Q)^{-1} = F - FR(I + R^\top F R)^{-1}R^\top F$, also for singular F and Q; and log|I + QF|."""
    moved = precision @ root
    factor = jnp.linalg.cholesky(jnp.eye(root.shape[1]) + root.T @ moved)
    half = solve_triangular(factor, moved.T, lower=True)
    spread = precision - half.T @ half
    shift = moved @ cho_solve((factor, True), root.T @ information)
    return ((spread + spread.T) / 2, information - shift), 2 * jnp.log(jnp.diag(factor)).sum()


def sensitivity(
    curvature: Float[Array, "B r r"],
    prior: Float[Array, "r r"],
    root: Float[Array, "r q"],
    pull: Float[Array, "B r"],
    grown: Float[Array, " q"],
) -> Float[Array, "B r"]:
    r"""How the minimum moves with the logarithm of the drift's size: ∂z/∂u for R → R·diag(e^{u·grown}).

    With δQ = 2R·diag(grown)·Rᵀ the minimum is that of a walk with the inputs δQ·pull and no observations but Λ.
    """
    inputs = 2 * ((pull @ root) * grown) @ root.T
    # The input of a period moves all later states.
    path = jnp.cumsum(inputs, axis=0) - inputs
    follow = smooth(curvature, -jnp.einsum("tij,tj->ti", curvature, path), prior, root)
    return path + follow.mean
