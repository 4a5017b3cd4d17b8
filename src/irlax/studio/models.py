"""The causal model beside the path model: of a scene, and of RiskyPath, where they first differ."""

import functools
import warnings
from typing import Any

import numpy as np

from irlax.demos import Demonstrations
from irlax.envs import RiskyPath
from irlax.estimators.tabular.maxent import MaxEntIRL
from irlax.estimators.tabular.mce import MCEIRL
from irlax.planning import path_plan, soft_plan
from irlax.rewards import LinearReward
from irlax.studio.learning import Learned, behaviour, picture

#: The discounts of the curve; the path model turns to the risk at log 2.
DISCOUNTS = np.concatenate([np.linspace(0.05, 0.65, 7), np.linspace(0.67, 0.72, 6), np.linspace(0.75, 0.99, 7)])
#: The penalty of fits to RiskyPath, so that an estimate exists when one action was always chosen.
L2 = 0.01
#: By one method at all discounts, so that each is compiled once.
PLANS = {
    "causal": functools.partial(soft_plan, method="newton"),
    "path": functools.partial(path_plan, method="newton"),
}


def model_reply(learned: Learned) -> dict[str, Any]:
    """What one model has learned of a scene: its reward, its policy, and the visits in the true dynamics."""
    grid, plan = learned.grid, learned.fit.plan
    return {
        "reward": picture(grid, grid.table(learned.fit.reward)),
        **behaviour(grid, plan),
        "converged": learned.fit.converged,
        "message": learned.fit.status.value,
        "missing_mass": learned.fit.missing_mass,
    }


def risky_path(discount: float, hazard: float, safe: int, risky: int) -> dict[str, Any]:
    """RiskyPath under both models: how often they take the risk, and the reward of the goal that they learn.

    `chances` are those of the risky action with a reward of 1 in the goal; `learned` is inferred from `safe` and
    `risky` choices in the start (half of the latter end in the hazard), with the reward of the hazard known.
    """
    env = RiskyPath(discount=discount)
    learned = {name: _learned_goal(env, name, hazard, safe, risky) for name in PLANS} if safe + risky else None
    return {"discount": discount, "hazard": hazard, "chances": _chances(env, hazard), "learned": learned}


def risky_curve(hazard: float) -> dict[str, Any]:
    """The chance that each model takes the risk, by discount."""
    rows = [_chances(RiskyPath(discount=float(discount)), hazard) for discount in DISCOUNTS]
    return {"discounts": DISCOUNTS.tolist(), **{name: [row[name] for row in rows] for name in PLANS}}


def _chances(env: RiskyPath, hazard: float) -> dict[str, float]:
    reward = np.array([0.0, 0.0, 1.0, hazard])
    return {name: float(plan(env.mdp, reward).policy[0, env.RISKY]) for name, plan in PLANS.items()}


def _learned_goal(env: RiskyPath, name: str, hazard: float, safe: int, risky: int) -> float:
    reward = LinearReward(np.eye(4)[:, 2:3], names=["goal"], known=np.array([0.0, 0.0, 0.0, hazard]))
    episodes = [([0, 1, 2], [env.SAFE, 0]), ([0, 2], [env.RISKY]), ([0, 3], [env.RISKY])]
    counts = np.array([safe, risky / 2, risky / 2])
    kept = np.flatnonzero(counts)
    demos = Demonstrations.from_episodes([episodes[k] for k in kept], terminated=True, weights=counts[kept])
    causal = MCEIRL(objective="likelihood", l2=L2, progress=False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fit = (causal if name == "causal" else MaxEntIRL(l2=L2, progress=False)).fit(env.mdp, reward, demos)
    return float(np.asarray(fit.reward.parameters)[0])
