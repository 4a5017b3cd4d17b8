"""Solvers by name, and the default choice of a solver."""

from collections.abc import Sequence
from typing import Literal

from irlax import checks
from irlax.estimators.tabular.problem import SMALL_PROBLEM
from irlax.estimators.tabular.solvers.adam import Adam
from irlax.estimators.tabular.solvers.dual_ascent import DualAscent
from irlax.estimators.tabular.solvers.lbfgs import LBFGS
from irlax.estimators.tabular.solvers.newton import DENSE_HESSIAN, Newton
from irlax.estimators.tabular.solvers.solver import AbstractSolver
from irlax.mdp import MDP
from irlax.rewards import AbstractReward

SolverName = Literal["auto", "newton", "lbfgs", "dual-ascent", "adam"]
SOLVERS: dict[str, type[Newton | LBFGS | DualAscent | Adam]] = {
    "newton": Newton,
    "lbfgs": LBFGS,
    "dual-ascent": DualAscent,
    "adam": Adam,
}

#: A Hessian of at most so many products, computed on the host, takes less time than L-BFGS needs to be compiled.
FAST_HESSIAN = 10_000_000


def check_solver(solver: SolverName | AbstractSolver) -> None:
    """Raise a ValueError if `solver` is neither a solver nor the name of one."""
    if not isinstance(solver, AbstractSolver):
        checks.one_of("solver", solver, ("auto", *SOLVERS))


def choose_solver(
    solver: SolverName | AbstractSolver, rewards: Sequence[AbstractReward], mdps: Sequence[MDP]
) -> AbstractSolver:
    """The solver that was given, the one of that name, or for "auto" the fastest for this kind of problem."""
    if isinstance(solver, AbstractSolver):
        return solver
    if solver != "auto":
        return SOLVERS[solver]()
    if not all(reward.is_linear for reward in rewards):
        return Adam()
    # A Newton step costs about three gradients for each parameter, and about ten steps are needed; L-BFGS needs sixty
    # to six hundred gradients. On small problems the gradients of a Newton step are computed in one batch.
    num, states = rewards[0].num_parameters, max(mdp.num_states * (mdp.horizon or 1) for mdp in mdps)
    on_host = num <= DENSE_HESSIAN and states * max(mdp.num_actions for mdp in mdps) * num**2 <= FAST_HESSIAN
    return Newton() if on_host or num <= (30 if states <= SMALL_PROBLEM else 2) else LBFGS()
