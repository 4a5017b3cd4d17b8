"""irlax infers reward functions from demonstrations.

Start with an `MDP`, plan in it with `soft_plan`, and read `README.md` for the rest.

A name is imported from its module when it is first used, so that `import irlax` takes milliseconds, and a program that
plans imports no estimators.
"""

from typing import TYPE_CHECKING

import irlax.startup  # noqa: F401 (first, to handle Ctrl-C while the rest is imported)
from irlax.lazy import lazy_names
from irlax.version import __version__

if TYPE_CHECKING:
    from irlax import datasets, envs, panels, rl, routes, widgets
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
    from irlax.compilation import use_compilation_cache
    from irlax.demos import (
        Demonstrations,
        DemoStatistics,
        by_type,
        from_minari,
        log_likelihood,
        read_demos,
        rollout,
        statistics_from_parquet,
        to_minari,
        trajectory_log_likelihood,
        write_demos,
    )
    from irlax.engine import map_fits
    from irlax.envs import evaluate, expert_demos
    from irlax.estimators.fit import Fit, RewardFit
    from irlax.estimators.goals import GoalFit, PairFeatures, RecursiveLogit, link_size
    from irlax.estimators.mixed import DriftingIRL, MixtureIRL, SwitchingIRL, compare_numbers
    from irlax.estimators.mixed.simulation import simulate_motives
    from irlax.estimators.sampled import (
        AIRL,
        GAIL,
        GANGCL,
        GCL,
        BehaviouralCloning,
        Rounds,
        SampledMCEIRL,
    )
    from irlax.estimators.store import load
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
        TwoStepIRL,
        cross_validate,
    )
    from irlax.mdp import MDP, HistoryStates, Memory, Nature, with_history
    from irlax.mdp.npz import load_mdp, save_mdp
    from irlax.panels import Panel
    from irlax.planning import (
        Plan,
        believed_occupancy,
        causal_entropy,
        conditional_entropy,
        expected_return,
        feature_expectations,
        hard_plan,
        long_run,
        occupancy,
        path_plan,
        soft_plan,
        trajectory_entropy,
        transition_entropy,
        visits,
    )
    from irlax.planning.goals import GoalPlan, goal_plan
    from irlax.registry import stored
    from irlax.rewards import (
        LinearReward,
        NeuralReward,
        ObservedReward,
        RewardNet,
        ShapedObservedReward,
        ShapedReward,
        TabularReward,
    )
    from irlax.run_folder import RunFolder
    from irlax.status import NotIdentifiedWarning, Status, UnfinishedWarning

__all__ = [
    "AIRL",
    "GAIL",
    "GANGCL",
    "GCL",
    "LBFGS",
    "MCEIRL",
    "MDP",
    "Adam",
    "ApprenticeshipIRL",
    "BayesianIRL",
    "BehaviouralCloning",
    "DemoStatistics",
    "Demonstrations",
    "DriftingIRL",
    "DualAscent",
    "Fit",
    "GoalFit",
    "GoalPlan",
    "HistoryStates",
    "Laplace",
    "LinearReward",
    "MaxEntIRL",
    "Memory",
    "MixtureIRL",
    "Nature",
    "NeuralReward",
    "Newton",
    "Normal",
    "NotIdentifiedWarning",
    "ObservedReward",
    "PairFeatures",
    "Panel",
    "Plan",
    "RecursiveLogit",
    "RewardFit",
    "RewardNet",
    "Rounds",
    "RunFolder",
    "SampledMCEIRL",
    "ShapedObservedReward",
    "ShapedReward",
    "Status",
    "SwitchingIRL",
    "TabularReward",
    "TwoStepIRL",
    "UnfinishedWarning",
    "__version__",
    "believed_occupancy",
    "by_type",
    "causal_entropy",
    "compare_numbers",
    "conditional_entropy",
    "cross_validate",
    "datasets",
    "envs",
    "epic_distance",
    "evaluate",
    "expected_return",
    "expert_demos",
    "feature_expectations",
    "from_minari",
    "goal_plan",
    "hard_plan",
    "identify",
    "is_decomposable",
    "link_size",
    "linked_components",
    "load",
    "load_mdp",
    "log_likelihood",
    "long_run",
    "map_fits",
    "occupancy",
    "panels",
    "path_plan",
    "read_demos",
    "regret",
    "rl",
    "rollout",
    "routes",
    "same_hard_policy",
    "same_soft_policy",
    "save_mdp",
    "shape",
    "simulate_motives",
    "soft_plan",
    "statistics_from_parquet",
    "stored",
    "to_minari",
    "trajectory_entropy",
    "trajectory_log_likelihood",
    "transition_entropy",
    "use_compilation_cache",
    "visits",
    "widgets",
    "with_history",
    "write_demos",
]

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "analysis": (
            "epic_distance identify is_decomposable linked_components regret same_hard_policy same_soft_policy shape"
        ),
        "compilation": "use_compilation_cache",
        "demos": (
            "DemoStatistics Demonstrations by_type from_minari log_likelihood read_demos rollout "
            "statistics_from_parquet to_minari trajectory_log_likelihood write_demos"
        ),
        "engine": "map_fits",
        "envs": "evaluate expert_demos",
        "estimators.fit": "Fit RewardFit",
        "estimators.goals": "GoalFit PairFeatures RecursiveLogit link_size",
        "estimators.mixed": "DriftingIRL MixtureIRL SwitchingIRL compare_numbers",
        "estimators.mixed.simulation": "simulate_motives",
        "estimators.sampled": "AIRL BehaviouralCloning GAIL GANGCL GCL Rounds SampledMCEIRL",
        "estimators.store": "load",
        "estimators.tabular": (
            "Adam ApprenticeshipIRL BayesianIRL DualAscent LBFGS Laplace MCEIRL MaxEntIRL Newton Normal "
            "TwoStepIRL cross_validate"
        ),
        "mdp": "HistoryStates MDP Memory Nature with_history",
        "mdp.npz": "load_mdp save_mdp",
        "panels": "Panel",
        "planning": (
            "Plan believed_occupancy causal_entropy conditional_entropy expected_return feature_expectations "
            "hard_plan long_run occupancy path_plan soft_plan trajectory_entropy transition_entropy visits"
        ),
        "planning.goals": "GoalPlan goal_plan",
        "registry": "stored",
        "rewards": "LinearReward NeuralReward ObservedReward RewardNet ShapedObservedReward ShapedReward TabularReward",
        "run_folder": "RunFolder",
        "status": "NotIdentifiedWarning Status UnfinishedWarning",
    },
)
