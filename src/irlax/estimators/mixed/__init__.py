"""Several rewards at once: unobserved types, motives that switch, rewards that drift."""

from irlax.estimators.mixed.drifting import DriftingIRL
from irlax.estimators.mixed.drifting_fit import DriftingFit
from irlax.estimators.mixed.mixture import MixtureIRL
from irlax.estimators.mixed.mixture_fit import MixtureFit
from irlax.estimators.mixed.number_curve import NumberCurve, compare_numbers
from irlax.estimators.mixed.switching import SwitchingIRL
from irlax.estimators.mixed.switching_fit import SwitchingFit

__all__ = [
    "DriftingFit",
    "DriftingIRL",
    "MixtureFit",
    "MixtureIRL",
    "NumberCurve",
    "SwitchingFit",
    "SwitchingIRL",
    "compare_numbers",
]
