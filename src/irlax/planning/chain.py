"""The Markov chain that a policy makes of an MDP, and the two linear systems that it poses."""

import jax
import jax.numpy as jnp

from irlax.mdp import AbstractDynamics
from irlax.mdp.derived import under_policy
from irlax.mdp.rows import ONE_ROW, AbstractRows
from irlax.mdp.sparse import Successors
from irlax.mdp.unrolled import unrolled_map, unrolled_sum
from irlax.planning import direct, krylov
from irlax.planning.krylov import Operator
from irlax.precision import StaysOnDevice
from irlax.typing import Array, Bool, Float, Scalar

#: Up to this many states systems are solved by dense factorisation, on any device and whatever the graph.
DENSE_LIMIT = 2000
#: A factorisation costs as much as BiCGSTAB where log(1/tol)/√(1−γ), with which its iterations grow, is about this.
EVEN = 300.0
#: Relative residual of an iterative solve, near the rounding floor.
KRYLOV_TOLERANCE = 1e-13


class Chain(StaysOnDevice):
    """P_π, discounted; a terminal state has no successor."""

    policy: Float[Array, "A R"]
    dynamics: AbstractDynamics
    discount: Scalar
    terminal: Bool[Array, " S"] | None = None
    rows: AbstractRows = ONE_ROW

    def backward(self, value: Float[Array, " S"]) -> Float[Array, " S"]:
        """γ P_π value."""
        by_row = unrolled_sum(jnp.multiply, self.policy, self.dynamics.backward(value))
        return self._zero_at_ends(self.discount * self.rows.sum(by_row))

    def forward(self, mass: Float[Array, " S"]) -> Float[Array, " S"]:
        """γ P_πᵀ mass: where mass on states lands one step later."""
        mass = self.rows.repeat(self._zero_at_ends(mass))
        return self.discount * self.dynamics.forward(unrolled_map(lambda policy: policy * mass, self.policy))

    def solve_values(self, gain: Float[Array, " S"], tol: Scalar = KRYLOV_TOLERANCE) -> Float[Array, " S"]:
        """(I − γ P_π)⁻¹ gain: the value of earning `gain` at each step."""
        if self.terminal is not None:
            return self._solve(gain, tol, transpose=False)
        # A constant gain has a constant value, which at γ near 1 would drown the rest of the residual.
        constant = gain.mean()
        return constant / (1 - self.discount) + self._solve(gain - constant, tol, transpose=False)

    def solve_visits(self, start: Float[Array, " S"]) -> Float[Array, " S"]:
        """(I − γ P_πᵀ)⁻¹ start: discounted visits to each state."""
        return self._solve(start, KRYLOV_TOLERANCE, transpose=True)

    def occupancy(self, start: Float[Array, " S"]) -> Float[Array, "A R"]:
        """Discounted visits to states and actions; terminal states, where no decision is taken, are not counted."""
        return self.policy * self.rows.repeat(self._zero_at_ends(self.solve_visits(start)))

    def long_run(self, start: Float[Array, " S"]) -> Float[Array, " S"]:
        r"""Where an undiscounted chain (γ = 1) is in the long run: μ = P_πᵀ μ, of mass 1, if it has one closed class.

        Since 1ᵀμ = 1, it solves (I − P_πᵀ + start·1ᵀ) μ = start, for any distribution `start`: a regular system,
        whose derivatives are those of μ.
        """
        if start.shape[-1] <= DENSE_LIMIT:
            matrix = self.rows.sum(self.dynamics.matrix(self.policy))
            system = jnp.eye(len(matrix), dtype=matrix.dtype) - matrix.T + start[:, None]
            return jnp.linalg.solve(system, start)

        def forward(mass):
            return mass - self.forward(mass) + start * mass.sum()

        def adjoint(value):
            return value - self.backward(value) + start @ value

        return _solved(forward, adjoint, start, KRYLOV_TOLERANCE)

    def as_system(self, averaged: Successors) -> direct.System:
        """The transitions of a chain with one action, discounted; none from a terminal state."""
        owners = self.rows.repeat(jnp.arange(self.dynamics.num_states, dtype=jnp.int32))
        weights = jax.lax.stop_gradient(self.discount * averaged.probs[:, 0])
        if self.terminal is not None:
            weights = jnp.where(self.rows.repeat(jnp.asarray(self.terminal)), 0, weights)
        return direct.System(weights, averaged.links.successors[:, 0], owners)

    def _zero_at_ends(self, values: Float[Array, " S"]) -> Float[Array, " S"]:
        return values if self.terminal is None else jnp.where(self.terminal, 0, values)

    def _solve(self, rhs: Float[Array, " S"], tol: Scalar, *, transpose: bool) -> Float[Array, " S"]:
        if rhs.shape[-1] <= DENSE_LIMIT:
            matrix = self.discount * self.rows.sum(self.dynamics.matrix(self.policy))
            if self.terminal is not None:
                matrix = jnp.where(self.terminal[:, None], 0, matrix)
            system = jnp.eye(len(matrix), dtype=matrix.dtype) - matrix
            return jnp.linalg.solve(system.T if transpose else system, rhs)
        # With the actions averaged over once, a product costs a fraction of a backup.
        averaged, one_action = under_policy(self.dynamics, self.policy), jnp.ones((1, self.policy.shape[-1]), rhs.dtype)
        chain = Chain(one_action, averaged, self.discount, self.terminal, self.rows)
        values, visits = (lambda x: x - chain.backward(x)), (lambda x: x - chain.forward(x))
        forward, adjoint = (visits, values) if transpose else (values, visits)
        if not isinstance(averaged, Successors):
            return _solved(forward, adjoint, rhs, tol)
        system, wanted = chain.as_system(averaged), prefers_factors(self.discount, tol)

        def solved(operator: Operator, rhs: Float[Array, " S"], *, transpose: bool) -> Float[Array, " S"]:
            x, done = direct.solve(system, rhs, wanted, transpose=transpose)
            # Of a right-hand side of 0 no iteration is made.
            return x + krylov.solve(operator, jnp.where(done, 0, rhs), tol)

        return jax.lax.custom_linear_solve(
            forward,
            rhs,
            solve=lambda _, rhs: solved(forward, rhs, transpose=transpose),
            transpose_solve=lambda _, rhs: solved(adjoint, rhs, transpose=not transpose),
        )


def prefers_factors(discount: Scalar, tol: Scalar) -> Bool[Array, ""]:
    """Whether a large sparse system is factorised, if `direct.is_affordable`, or solved by BiCGSTAB.

    All choices of a method, with processor seconds on a grid of 316×316 with slips:

    - up to `DENSE_LIMIT` states: dense factorisation;
    - fewer than 150 sweeps (γ below about .85): value iteration, see `fixed_point`;
    - where few iterations are needed, because γ is far from 1 or little accuracy is asked for: BiCGSTAB. An occupancy
      at γ = .9, .99, .999, .9999 takes .10, .42, 1.2 and 5.5 s with it, and .41 to .44 s with factors at each γ. The
      steps of Newton's method are less accurate: at γ = .999 it takes 23 s with BiCGSTAB, and 31 s with factors;
    - else factors, on the CPU, where they stay small.
    """
    return jnp.asarray(jnp.log(1 / tol) > EVEN * jnp.sqrt(jnp.maximum(1 - discount, 0)))


def _solved(forward: Operator, adjoint: Operator, rhs: Float[Array, " S"], tol: Scalar) -> Float[Array, " S"]:
    return jax.lax.custom_linear_solve(
        forward,
        rhs,
        solve=lambda _, rhs: krylov.solve(forward, rhs, tol),
        transpose_solve=lambda _, rhs: krylov.solve(adjoint, rhs, tol),
    )
