"""What data identify of a reward: shaping, linked states, identifiability, distances, standard errors."""

from irlax.analysis.distances import epic_distance, epic_distance_of_samples, regret, starc_distance
from irlax.analysis.identifiability import Identification, identify
from irlax.analysis.linked import is_decomposable, linked, linked_components
from irlax.analysis.rank_tests import cao_state_only, cao_two_environments, kim_aperiodic, rolland_experts
from irlax.analysis.shaping import canonical, rescaling, same_hard_policy, same_soft_policy, shape

__all__ = [
    "Identification",
    "canonical",
    "cao_state_only",
    "cao_two_environments",
    "epic_distance",
    "epic_distance_of_samples",
    "identify",
    "is_decomposable",
    "kim_aperiodic",
    "linked",
    "linked_components",
    "regret",
    "rescaling",
    "rolland_experts",
    "same_hard_policy",
    "same_soft_policy",
    "shape",
    "starc_distance",
]
