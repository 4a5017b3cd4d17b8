"""Estimators of rewards where the dynamics are known."""

from irlax.estimators.tabular.apprenticeship import ApprenticeshipIRL
from irlax.estimators.tabular.bayesian import BayesianIRL
from irlax.estimators.tabular.counterfactual import Counterfactual
from irlax.estimators.tabular.cross_validation import cross_validate
from irlax.estimators.tabular.demand_curve import DemandCurve
from irlax.estimators.tabular.full_likelihood import FullLikelihood
from irlax.estimators.tabular.maxent import MaxEntIRL
from irlax.estimators.tabular.mce import MCEIRL
from irlax.estimators.tabular.mixture import MixtureIRL
from irlax.estimators.tabular.mixture_fit import MixtureFit
from irlax.estimators.tabular.priors import Laplace, Normal
from irlax.estimators.tabular.solvers import LBFGS, Adam, DualAscent, Newton
from irlax.estimators.tabular.tabular_fit import TabularFit
from irlax.estimators.tabular.two_step import TwoStepIRL

__all__ = [
    "LBFGS",
    "MCEIRL",
    "Adam",
    "ApprenticeshipIRL",
    "BayesianIRL",
    "Counterfactual",
    "DemandCurve",
    "DualAscent",
    "FullLikelihood",
    "Laplace",
    "MaxEntIRL",
    "MixtureFit",
    "MixtureIRL",
    "Newton",
    "Normal",
    "TabularFit",
    "TwoStepIRL",
    "cross_validate",
]
