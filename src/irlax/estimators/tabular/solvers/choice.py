"""Solvers by name, and the one to take where none is named."""

from collections.abc import Sequence
from typing import Literal

from irlax import checks
from irlax.estimators.tabular.problem import SMALL_PROBLEM
from irlax.estimators.tabular.solvers.adam import Adam
from irlax.estimators.tabular.solvers.dual_ascent import DualAscent
from irlax.estimators.tabular.solvers.lbfgs import LBFGS
from irlax.estimators.tabular.solvers.newton import Newton
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


def check_solver(solver: SolverName | AbstractSolver) -> None:
    """A ValueError for a solver that does not exist."""
    if not isinstance(solver, AbstractSolver):
        checks.one_of("solver", solver, ("auto", *SOLVERS))


def choose_solver(
    solver: SolverName | AbstractSolver, rewards: Sequence[AbstractReward], mdps: Sequence[MDP]
) -> AbstractSolver:
    """The solver as given, by its name, or the fastest that can be certified."""
    if isinstance(solver, AbstractSolver):
        return solver
    if solver != "auto":
        return SOLVERS[solver]()
    if not all(reward.is_linear for reward in rewards):
        return Adam()
    # A Newton step costs about three gradients for each parameter, and there are ten; L-BFGS takes some sixty to six
    # hundred gradients, but on small problems those of a Newton step are computed side by side.
    small = max(mdp.num_states * (mdp.horizon or 1) for mdp in mdps) <= SMALL_PROBLEM
    return Newton() if rewards[0].num_parameters <= (30 if small else 2) else LBFGS()
