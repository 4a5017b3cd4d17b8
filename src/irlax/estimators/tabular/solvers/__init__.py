"""Solvers that minimise the tabular objectives, a file for each."""

from irlax.estimators.tabular.solvers.adam import Adam
from irlax.estimators.tabular.solvers.choice import SOLVERS, SolverName, check_solver, choose_solver
from irlax.estimators.tabular.solvers.dual_ascent import DualAscent
from irlax.estimators.tabular.solvers.lbfgs import LBFGS
from irlax.estimators.tabular.solvers.newton import DENSE_HESSIAN, Newton
from irlax.estimators.tabular.solvers.solver import AbstractSolver, Solution, minimise

__all__ = [
    "DENSE_HESSIAN",
    "LBFGS",
    "SOLVERS",
    "AbstractSolver",
    "Adam",
    "DualAscent",
    "Newton",
    "Solution",
    "SolverName",
    "check_solver",
    "choose_solver",
    "minimise",
]
