"""Estimators of rewards where the dynamics are known."""

from typing import TYPE_CHECKING

from irlax.lazy import lazy_names

if TYPE_CHECKING:
    from irlax.estimators.tabular.apprenticeship import ApprenticeshipIRL
    from irlax.estimators.tabular.bayesian import BayesianIRL
    from irlax.estimators.tabular.choice_shares import ChoiceShares
    from irlax.estimators.tabular.counterfactual import Counterfactual
    from irlax.estimators.tabular.cross_validation import cross_validate
    from irlax.estimators.tabular.demand_curve import DemandCurve
    from irlax.estimators.tabular.discount_profile import DiscountProfile
    from irlax.estimators.tabular.effects import Effects
    from irlax.estimators.tabular.full_likelihood import FullLikelihood
    from irlax.estimators.tabular.maxent import MaxEntIRL
    from irlax.estimators.tabular.mce import MCEIRL
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
    "ChoiceShares",
    "Counterfactual",
    "DemandCurve",
    "DiscountProfile",
    "DualAscent",
    "Effects",
    "FullLikelihood",
    "Laplace",
    "MaxEntIRL",
    "Newton",
    "Normal",
    "TabularFit",
    "TwoStepIRL",
    "cross_validate",
]

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "apprenticeship": "ApprenticeshipIRL",
        "bayesian": "BayesianIRL",
        "choice_shares": "ChoiceShares",
        "counterfactual": "Counterfactual",
        "cross_validation": "cross_validate",
        "demand_curve": "DemandCurve",
        "discount_profile": "DiscountProfile",
        "effects": "Effects",
        "full_likelihood": "FullLikelihood",
        "maxent": "MaxEntIRL",
        "mce": "MCEIRL",
        "priors": "Laplace Normal",
        "solvers": "Adam DualAscent LBFGS Newton",
        "tabular_fit": "TabularFit",
        "two_step": "TwoStepIRL",
    },
)
