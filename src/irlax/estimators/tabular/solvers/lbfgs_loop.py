"""Limited-memory BFGS (Nocedal 1980) as one compiled loop, so that small problems are not slowed by the host.

A stretch of iterations runs on the device and comes back with its history. Written as a pure function of the problem,
it can be mapped over a batch of problems.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from irlax.typing import Array, Bool, Float, Int, Scalar

#: Evaluations in one line search; each halves or doubles the step.
MAX_TRIALS = 40
#: Sufficient decrease and sufficient flattening of the slope (the weak Wolfe conditions).
DECREASE, FLATTENING = 1e-4, 0.9

#: (x, warm_start) ↦ ((loss, warm_start), gradient), where the warm_start of one evaluation speeds up the next.
Loss = Callable[[Float[Array, " K"], Any], tuple[tuple[Float[Array, ""], Any], Float[Array, " K"]]]


class State(eqx.Module):
    """Where the search is, and the last pairs of steps and changes of the gradient, the newest in row −1."""

    x: Float[Array, " K"]
    loss: Float[Array, ""]
    gradient: Float[Array, " K"]
    #: −H⁻¹∇, with the curvature that was met on the way: where to look next.
    quasi_newton_step: Float[Array, " K"]
    steps: Float[Array, "pairs K"]
    changes: Float[Array, "pairs K"]
    #: How many points were settled on, the start included.
    count: Int[Array, ""]
    #: Whether the last line search found nothing better.
    stuck: Bool[Array, ""]
    #: What the last evaluation of the loss left for the next.
    warm_start: Any

    @classmethod
    def at(cls, x: Float[Array, " K"], pairs: int, warm_start: Any) -> "State":
        """A search that starts at x. The first step will be to evaluate there: one place to compile the loss in."""
        # By NumPy, since the first use of each operation on a device compiles it; and strongly typed, as the loop
        # returns them: else the loop would be compiled once more for its own result.
        nothing, here = np.zeros((pairs, len(x)), x.dtype), np.zeros(len(x), x.dtype)
        unknown, none = np.asarray(np.inf, x.dtype), np.zeros((), int)
        return cls(x, unknown, here, here, nothing, nothing, none, np.asarray(False), warm_start)


class Stretch(NamedTuple):
    """The state after some iterations, and what each of them saw."""

    state: State
    parameters: Float[Array, "length K"]
    losses: Float[Array, " length"]
    gradients: Float[Array, "length K"]


def advance(
    value_and_gradient: Loss,
    size: Callable[[Float[Array, " K"]], Float[Array, ""]],
    state: State,
    *,
    limit: Int[Array, ""] | int,
    tol: Scalar,
    length: int,
) -> Stretch:
    """At most `limit` iterations (of `length` that are recorded), until the gradient's `size` is within `tol`."""
    began = state.count

    def unfinished(stretch):
        state = stretch.state
        arrived = (state.count > 0) & (size(state.gradient) <= tol)
        return (state.count - began < limit) & ~state.stuck & ~arrived

    def iterate(stretch):
        state = _stepped(value_and_gradient, stretch.state)
        place = jnp.where(state.stuck, length, state.count - 1 - began)

        def noted(record, entry):
            return record.at[place].set(entry, mode="drop")

        return Stretch(
            state,
            noted(stretch.parameters, state.x),
            noted(stretch.losses, state.loss),
            noted(stretch.gradients, state.gradient),
        )

    empty = jnp.zeros((length, len(state.x)), state.x.dtype)
    return jax.lax.while_loop(unfinished, iterate, Stretch(state, empty, jnp.zeros(length, state.x.dtype), empty))


def _stepped(value_and_gradient: Loss, state: State) -> State:
    # A direction that does not descend comes from bad curvature: start again from the gradient.
    descends = state.quasi_newton_step @ state.gradient < 0
    direction = jnp.where(descends, state.quasi_newton_step, -state.gradient)
    first = jnp.where(state.count <= 1, 1 / jnp.maximum(1, jnp.linalg.norm(state.gradient)), 1.0)
    end = _line_search(value_and_gradient, state, direction, first)
    found = end.found
    x, loss, gradient = (
        jnp.where(found, new, old)
        for new, old in ((end.x, state.x), (end.loss, state.loss), (end.gradient, state.gradient))
    )
    step, change = x - state.x, gradient - state.gradient
    curved = found & (state.count > 0) & (step @ change > 1e-10 * jnp.linalg.norm(step) * jnp.linalg.norm(change))

    def remembered(rows, row):
        return jnp.where(curved, jnp.concatenate([rows[1:], row[None]]), rows)

    steps, changes = remembered(state.steps, step), remembered(state.changes, change)
    ahead = -_inverse_hessian_times(steps, changes, gradient)
    return State(x, loss, gradient, ahead, steps, changes, state.count + found, ~found, end.warm_start)


def _inverse_hessian_times(
    steps: Float[Array, "pairs K"], changes: Float[Array, "pairs K"], vector: Float[Array, " K"]
) -> Float[Array, " K"]:
    """The two-loop recursion; rows not yet filled are zero and drop out."""
    products = (steps * changes).sum(axis=1)
    inverse = jnp.where(products > 0, 1 / jnp.where(products > 0, products, 1), 0)
    pairs = len(inverse)

    def newest_first(i, carry):
        vector, weights = carry
        row = pairs - 1 - i
        weight = inverse[row] * (steps[row] @ vector)
        return vector - weight * changes[row], weights.at[row].set(weight)

    vector, weights = jax.lax.fori_loop(0, pairs, newest_first, (vector, jnp.zeros_like(inverse)))
    latest = (changes[-1] ** 2).sum()
    vector = vector * jnp.where(latest > 0, products[-1] / jnp.where(latest > 0, latest, 1), 1)

    def oldest_first(row, vector):
        return vector + steps[row] * (weights[row] - inverse[row] * (changes[row] @ vector))

    return jax.lax.fori_loop(0, pairs, oldest_first, vector)


class _Trial(NamedTuple):
    """A point on the line, and the interval that a good one lies in."""

    length: Float[Array, ""]
    low: Float[Array, ""]
    high: Float[Array, ""]
    x: Float[Array, " K"]
    loss: Float[Array, ""]
    gradient: Float[Array, " K"]
    warm_start: Any
    attempts: Int[Array, ""]
    found: Bool[Array, ""]


def _line_search(
    value_and_gradient: Loss, state: State, direction: Float[Array, " K"], first: Float[Array, ""]
) -> _Trial:
    """A step that satisfies the weak Wolfe conditions, by bisection and doubling (Lewis and Overton 2013).

    Below the resolution of the loss its decrease cannot be seen; there the slope decides (Hager and Zhang 2005).
    """
    slope = state.gradient @ direction
    starting = state.count == 0
    blur = 1e-13 * jnp.maximum(1, jnp.abs(state.loss))

    def unfinished(trial):
        return ~trial.found & (trial.attempts < MAX_TRIALS)

    def attempt(trial):
        x = state.x + trial.length * direction
        (loss, warm_start), gradient = value_and_gradient(x, trial.warm_start)
        new_slope = gradient @ direction
        falls = loss <= state.loss + DECREASE * trial.length * slope
        blind = (loss <= state.loss + blur) & (new_slope <= (2 * DECREASE - 1) * slope)
        # At the start there is nothing to compare with, and the direction is zero.
        low_enough = (falls | blind | starting) & jnp.isfinite(loss) & jnp.isfinite(gradient).all()
        flat_enough = (new_slope >= FLATTENING * slope) | starting
        low = jnp.where(low_enough, trial.length, trial.low)
        high = jnp.where(low_enough, trial.high, trial.length)
        length = jnp.where(jnp.isfinite(high), (low + high) / 2, 2 * low)
        return _Trial(length, low, high, x, loss, gradient, warm_start, trial.attempts + 1, low_enough & flat_enough)

    nowhere, everywhere = jnp.zeros_like(first), jnp.full_like(first, jnp.inf)
    start = _Trial(
        first,
        nowhere,
        everywhere,
        state.x,
        state.loss,
        state.gradient,
        state.warm_start,
        jnp.zeros((), int),
        jnp.asarray(False),
    )
    return jax.lax.while_loop(unfinished, attempt, start)
