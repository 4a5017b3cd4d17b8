"""The methods of `irlax fit`, in one list for the command line and its help."""

import importlib
from typing import TYPE_CHECKING, Any, Literal

#: The module, below `irlax.estimators`, and the class of each method.
METHODS = {
    "mce": ("tabular.mce", "MCEIRL"),
    "maxent": ("tabular.maxent", "MaxEntIRL"),
    "apprenticeship": ("tabular.apprenticeship", "ApprenticeshipIRL"),
    "bayesian": ("tabular.bayesian", "BayesianIRL"),
    "two-step": ("tabular.two_step", "TwoStepIRL"),
    "mixture": ("mixed.mixture", "MixtureIRL"),
    "switching": ("mixed.switching", "SwitchingIRL"),
    "drifting": ("mixed.drifting", "DriftingIRL"),
    "airl": ("sampled.airl", "AIRL"),
    "sampled-mce": ("sampled.mce_sampled", "SampledMCEIRL"),
    "gcl": ("sampled.gcl", "GCL"),
    "gan-gcl": ("sampled.gan_gcl", "GANGCL"),
    "gail": ("sampled.gail", "GAIL"),
    "cloning": ("sampled.cloning", "BehaviouralCloning"),
}
#: The methods that need an environment to act in, instead of known dynamics.
ACTING = tuple(name for name, (module, _) in METHODS.items() if module.startswith("sampled."))

if TYPE_CHECKING:
    Method = str
else:
    Method = Literal[tuple(METHODS)]


def estimator_class(method: str) -> Any:
    """The class of a method's estimator, imported when it is needed."""
    module, name = METHODS[method]
    return getattr(importlib.import_module(f"irlax.estimators.{module}"), name)
