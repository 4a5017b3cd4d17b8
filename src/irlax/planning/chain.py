"""The Markov chain that a policy makes of an MDP, and the two linear systems that it poses."""

import functools
from collections.abc import Callable

import jax
import jax.numpy as jnp
import lineax as lx

from irlax.mdp import AbstractDynamics
from irlax.precision import StaysOnDevice
from irlax.typing import Array, Bool, Float, Scalar

#: Up to this many states a dense factorisation is faster than Krylov iterations, and more accurate.
DENSE_LIMIT = 2000
#: Relative residual of an iterative solve, near the rounding floor.
KRYLOV_TOLERANCE = 1e-13


class Chain(StaysOnDevice):
    """P_π, discounted; a terminal state has no successor."""

    policy: Float[Array, "A S"]
    dynamics: AbstractDynamics
    discount: Scalar
    terminal: Bool[Array, " S"] | None = None

    def ahead(self, value: Float[Array, " S"]) -> Float[Array, " S"]:
        """γ P_π value."""
        return self._going_on(self.discount * (self.policy * self.dynamics.backward(value)).sum(axis=0))

    def onward(self, mass: Float[Array, " S"]) -> Float[Array, " S"]:
        """γ P_πᵀ mass: where mass on states lands one step later."""
        return self.discount * self.dynamics.forward(self.policy * self._going_on(mass))

    def solve_values(self, gain: Float[Array, " S"]) -> Float[Array, " S"]:
        """(I − γ P_π)⁻¹ gain: the value of earning `gain` at each step."""
        return self._solve(gain, transpose=False)

    def solve_visits(self, start: Float[Array, " S"]) -> Float[Array, " S"]:
        """(I − γ P_πᵀ)⁻¹ start: discounted visits to each state."""
        return self._solve(start, transpose=True)

    def occupancy(self, start: Float[Array, " S"]) -> Float[Array, "A S"]:
        """Discounted visits to states and actions; an end, where nothing is decided, is not counted."""
        return self.policy * self._going_on(self.solve_visits(start))

    def long_run(self, start: Float[Array, " S"]) -> Float[Array, " S"]:
        r"""Where the undiscounted chain is in the long run: μ = P_πᵀ μ, of mass 1, if it has one closed class.

        Since 1ᵀμ = 1, it solves (I − P_πᵀ + start·1ᵀ) μ = start, for any distribution `start`: a regular system,
        whose derivatives are those of μ.
        """
        if start.shape[-1] <= DENSE_LIMIT:
            matrix = self.dynamics.matrix(self.policy)
            system = jnp.eye(len(matrix), dtype=matrix.dtype) - matrix.T + start[:, None]
            return jnp.linalg.solve(system, start)

        def forward(mass):
            return mass - self.dynamics.forward(self.policy * mass) + start * mass.sum()

        def adjoint(value):
            return value - (self.policy * self.dynamics.backward(value)).sum(axis=0) + start @ value

        return _solved(forward, adjoint, start)

    def _going_on(self, values: Float[Array, " S"]) -> Float[Array, " S"]:
        return values if self.terminal is None else jnp.where(self.terminal, 0, values)

    def _solve(self, rhs: Float[Array, " S"], *, transpose: bool) -> Float[Array, " S"]:
        if rhs.shape[-1] <= DENSE_LIMIT:
            matrix = self.discount * self.dynamics.matrix(self.policy)
            if self.terminal is not None:
                matrix = jnp.where(self.terminal[:, None], 0, matrix)
            system = jnp.eye(len(matrix), dtype=matrix.dtype) - matrix
            return jnp.linalg.solve(system.T if transpose else system, rhs)
        values, visits = (lambda x: x - self.ahead(x)), (lambda x: x - self.onward(x))
        forward, adjoint = (visits, values) if transpose else (values, visits)
        return _solved(forward, adjoint, rhs)


Operator = Callable[[Float[Array, " S"]], Float[Array, " S"]]


def _solved(forward: Operator, adjoint: Operator, rhs: Float[Array, " S"]) -> Float[Array, " S"]:
    return jax.lax.custom_linear_solve(
        forward,
        rhs,
        solve=functools.partial(_krylov, forward),
        transpose_solve=functools.partial(_krylov, adjoint),
    )


def _krylov(operator: Operator, _: object, rhs: Float[Array, " S"]) -> Float[Array, " S"]:
    structure = jax.ShapeDtypeStruct(rhs.shape, rhs.dtype)
    tolerance = max(KRYLOV_TOLERANCE, float(jnp.finfo(rhs.dtype).eps) * 10)
    solver = lx.GMRES(rtol=tolerance, atol=0.0, norm=lx.internal.two_norm, restart=40, stagnation_iters=40)
    return lx.linear_solve(lx.FunctionLinearOperator(operator, structure), rhs, solver, throw=False).value
