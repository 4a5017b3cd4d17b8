"""irlax infers reward functions from demonstrations.

Start with an `MDP`, plan in it with `soft_plan`, and read `README.md` for the rest.
"""

from irlax import envs
from irlax.analysis import (
    epic_distance,
    identify,
    is_decomposable,
    linked_components,
    regret,
    same_hard_policy,
    same_soft_policy,
    shape,
)
from irlax.demos import (
    Demonstrations,
    DemoStatistics,
    log_likelihood,
    read_demos,
    rollout,
    statistics_from_parquet,
    trajectory_log_likelihood,
    write_demos,
)
from irlax.estimators.base import Fit, Status, UnfinishedWarning
from irlax.estimators.tabular import (
    LBFGS,
    MCEIRL,
    Adam,
    ApprenticeshipIRL,
    BayesianIRL,
    DualAscent,
    Laplace,
    MaxEntIRL,
    Newton,
    Normal,
    compare_nested,
    predictive_policy,
)
from irlax.estimators.tabular import load_fit as load
from irlax.mdp import MDP
from irlax.mdp.files import load_mdp, save_mdp
from irlax.planning import (
    Plan,
    believed_occupancy,
    causal_entropy,
    conditional_entropy,
    expected_return,
    feature_expectations,
    hard_plan,
    occupancy,
    path_plan,
    soft_plan,
    trajectory_entropy,
    transition_entropy,
    visits,
)
from irlax.rewards import LinearReward, NeuralReward, ShapedReward, TabularReward
from irlax.version import __version__

__all__ = [
    "LBFGS",
    "MCEIRL",
    "MDP",
    "Adam",
    "ApprenticeshipIRL",
    "BayesianIRL",
    "DemoStatistics",
    "Demonstrations",
    "DualAscent",
    "Fit",
    "Laplace",
    "LinearReward",
    "MaxEntIRL",
    "NeuralReward",
    "Newton",
    "Normal",
    "Plan",
    "ShapedReward",
    "Status",
    "TabularReward",
    "UnfinishedWarning",
    "__version__",
    "believed_occupancy",
    "causal_entropy",
    "compare_nested",
    "conditional_entropy",
    "envs",
    "epic_distance",
    "expected_return",
    "feature_expectations",
    "hard_plan",
    "identify",
    "is_decomposable",
    "linked_components",
    "load",
    "load_mdp",
    "log_likelihood",
    "occupancy",
    "path_plan",
    "predictive_policy",
    "read_demos",
    "regret",
    "rollout",
    "same_hard_policy",
    "same_soft_policy",
    "save_mdp",
    "shape",
    "soft_plan",
    "statistics_from_parquet",
    "trajectory_entropy",
    "trajectory_log_likelihood",
    "transition_entropy",
    "visits",
    "write_demos",
]
