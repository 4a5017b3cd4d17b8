"""Estimators for known dynamics."""

from irlax.estimators.tabular.fit import TabularFit
from irlax.estimators.tabular.maxent import MaxEntIRL
from irlax.estimators.tabular.mce import MCEIRL
from irlax.estimators.tabular.solvers import LBFGS, Adam, DualAscent, Newton

__all__ = ["LBFGS", "MCEIRL", "Adam", "DualAscent", "MaxEntIRL", "Newton", "TabularFit"]
