"""The methods of `irlax fit`, in one list for the command line and its help."""

import enum
import importlib
from typing import TYPE_CHECKING, Any

#: The module, below `irlax.estimators`, and the class of each method.
METHODS = {
    "mce": ("tabular.mce", "MCEIRL"),
    "maxent": ("tabular.maxent", "MaxEntIRL"),
    "apprenticeship": ("tabular.apprenticeship", "ApprenticeshipIRL"),
    "bayesian": ("tabular.bayesian", "BayesianIRL"),
    "two-step": ("tabular.two_step", "TwoStepIRL"),
    "mixture": ("tabular.mixture", "MixtureIRL"),
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
    # Type checkers do not see the members of an enum that is made from a dict.
    Method = Any
else:
    #: The methods as an enum, from which typer makes the choices of --method.
    Method = enum.Enum("Method", {name: name for name in METHODS})


def estimator_class(method: str) -> Any:
    """The class of a method's estimator, imported when it is needed."""
    module, name = METHODS[method]
    return getattr(importlib.import_module(f"irlax.estimators.{module}"), name)
