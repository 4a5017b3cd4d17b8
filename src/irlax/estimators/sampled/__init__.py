"""Estimators that know the dynamics only by acting in them."""

from irlax.estimators.sampled.airl import AIRL
from irlax.estimators.sampled.cloning import BehaviouralCloning
from irlax.estimators.sampled.gail import GAIL
from irlax.estimators.sampled.gan_gcl import GANGCL
from irlax.estimators.sampled.gcl import GCL
from irlax.estimators.sampled.mce_sampled import SampledMCEIRL
from irlax.estimators.sampled.rounds import Rounds
from irlax.estimators.sampled.sampled_fit import ImitationFit, SampledFit

__all__ = [
    "AIRL",
    "GAIL",
    "GANGCL",
    "GCL",
    "BehaviouralCloning",
    "ImitationFit",
    "Rounds",
    "SampledFit",
    "SampledMCEIRL",
]
