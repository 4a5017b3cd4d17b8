"""Many problems of one shape, minimised by one `vmap`."""

import operator
from collections.abc import Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from irlax.estimators.tabular.problem import Evaluation, Problem, largest
from irlax.estimators.tabular.solvers import LBFGS, Newton, Solution, lbfgs_loop, minimise
from irlax.iteration import Iterate
from irlax.mdp.links import Predecessors
from irlax.status import Status
from irlax.typing import Array, Float


def minimise_many(
    solver: LBFGS, problems: Sequence[tuple[Problem, Float[np.ndarray, " K"]]], tol: float
) -> list[Solution]:
    """The solution of each problem, from its start, by one `vmap` of L-BFGS.

    Problems for which L-BFGS does not converge are finished by Newton's method, one by one.
    """
    stack = ProblemStack.of([problem for problem, _ in problems])
    starts = jnp.asarray(np.stack([start for _, start in problems]))
    ends = _minimise(stack, starts, solver.pairs(starts.shape[1]), solver.max_steps, tol)
    return [_finish(solver, problem, state, tol) for (problem, _), state in zip(problems, _unstack(ends), strict=True)]


class ProblemStack(eqx.Module):
    """Problems of one shape: the leaves that they share, and the others stacked along a leading axis."""

    shared: list[Any]
    stacked: list[Any]
    structure: Any = eqx.field(static=True)
    is_shared: tuple[bool, ...] = eqx.field(static=True)

    @classmethod
    def of(cls, problems: Sequence[Problem]) -> "ProblemStack":
        """The stack of problems, or a ValueError if their shapes differ."""
        leaves, structures = zip(*(jax.tree.flatten(problem) for problem in _pad_predecessors(problems)), strict=True)
        if len(set(structures)) > 1 or len({tuple(np.shape(leaf) for leaf in each) for each in leaves}) > 1:
            raise ValueError(
                "Problems that are fitted at once must have the same shape: as many states, actions and next states, "
                "the same horizon, the same parameters, and demonstrations that fill tables of one size. Fit these one "
                "by one."
            )
        by_leaf = list(zip(*leaves, strict=True))
        is_shared = tuple(all(_same(leaf, versions[0]) for leaf in versions) for versions in by_leaf)
        shared = [versions[0] for versions, same in zip(by_leaf, is_shared, strict=True) if same]
        stacked = [
            jnp.stack([jnp.asarray(leaf) for leaf in versions])
            for versions, same in zip(by_leaf, is_shared, strict=True)
            if not same
        ]
        return cls(shared, stacked, structures[0], is_shared)

    def one(self, own: list[Any]) -> Problem:
        """The problem whose leaves that are not shared are these."""
        shared, others = iter(self.shared), iter(own)
        return jax.tree.unflatten(self.structure, [next(shared if same else others) for same in self.is_shared])


def _same(leaf: Any, other: Any) -> bool:
    return leaf is other or np.array_equal(leaf, other)


@eqx.filter_jit
def _minimise(
    stack: ProblemStack, starts: Float[Array, "N K"], pairs: int, max_steps: int, tol: float
) -> lbfgs_loop.State:
    def minimise_one(own, x):
        problem = stack.one(own)
        evaluate = jax.value_and_grad(problem.loss, has_aux=True)
        state = lbfgs_loop.State.at(x, pairs, problem.initial_warm_starts())
        # Only the last iterate is recorded: histories of all problems would take much memory.
        given = {"limit": max_steps + 1, "tol": tol, "length": 1, "rounding": problem.rounding}
        return lbfgs_loop.advance(evaluate, problem.size, state, **given).state

    return jax.vmap(minimise_one)(stack.stacked, starts)


def _unstack(ends: lbfgs_loop.State) -> list[lbfgs_loop.State]:
    """The state of each problem, on the host."""
    host = jax.tree.map(np.asarray, ends)
    return [jax.tree.map(operator.itemgetter(i), host) for i in range(len(host.count))]


def _finish(solver: LBFGS, problem: Problem, state: lbfgs_loop.State, tol: float) -> Solution:
    """The solution at the end of L-BFGS, or by Newton's method from there if it did not converge."""
    at = Evaluation(np.asarray(state.x), float(state.loss), np.asarray(state.gradient), state.warm_start)
    scale = np.asarray(problem.scale)
    size = float(largest(at.gradient, scale))
    last = Iterate(int(state.count) - 1, {"loss": at.loss, "gradient": size}, at.x / scale)
    if size <= tol:
        return Solution(at, Status.CONVERGED, [last], np.asarray(state.quasi_newton_step))
    if int(state.count) > solver.max_steps:
        return Solution(at, Status.MAX_STEPS, [last], np.asarray(state.quasi_newton_step))
    return minimise(Newton(), problem, at, tol)


def _pad_predecessors(problems: Sequence[Problem]) -> list[Problem]:
    """The problems with their lists of predecessors padded to the same sizes."""

    def is_list(node):
        return isinstance(node, Predecessors)

    def lists(problem):
        return [node for node in jax.tree.leaves(problem, is_leaf=is_list) if is_list(node)]

    found = [lists(problem) for problem in problems]
    if not found[0] or len({len(each) for each in found}) > 1:
        return list(problems)
    sizes = [
        (max(p.entries.shape[0] for p in same), max(len(p.owners) for p in same)) for same in zip(*found, strict=True)
    ]
    return [
        eqx.tree_at(lists, problem, [p.padded(*size) for p, size in zip(each, sizes, strict=True)])
        for problem, each in zip(problems, found, strict=True)
    ]
