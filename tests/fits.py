"""Fits made by hand: every field is filled, nothing is optimised, so that they cost no compilation of solvers."""

import jax
import numpy as np

from irlax import MCEIRL, MDP, LinearReward, MaxEntIRL, NeuralReward, ShapedReward, Status, TabularReward, rollout
from irlax.estimators.tabular.components import Certificate, CrossValidation
from irlax.estimators.tabular.expert import Expert
from irlax.estimators.tabular.plan_of_reward import plan_of
from irlax.estimators.tabular.tabular_fit import TabularFit
from irlax.iteration import History

S, A, T, K, GAMMA = 4, 2, 3, 2, 0.9


def random_mdp(seed=0, *, horizon=T, masked=False, sparse=False):
    rng = np.random.default_rng(seed)
    available = np.ones((S, A), bool)
    available[1, 1] = not masked
    options = {"discount": GAMMA, "horizon": horizon, "available": available}
    initial = rng.dirichlet(np.ones(S))
    if sparse:
        successors = np.stack([rng.permutation(S)[:2] for _ in range(S * A)]).reshape(S, A, 2)
        return MDP.from_successors(successors, rng.dirichlet(np.ones(2), (S, A)), initial, **options)
    return MDP.from_dense(rng.dirichlet(np.ones(S), (S, A)), initial, **options)


def _numbers(*shape):
    return np.random.default_rng(len(shape)).normal(size=shape)


REWARDS = {
    "linear s": lambda: LinearReward(_numbers(S, K), [1 / 3, -2.0], names=["péage", "<b>& \ud800"]),
    "linear sa": lambda: LinearReward(_numbers(S, A, K), [0.1, 1e-300]),
    "linear sas": lambda: LinearReward(_numbers(S, A, S, K), [0.1, -0.7]),
    "tabular s": lambda: TabularReward("s", _numbers(S)),
    "tabular sa": lambda: TabularReward("sa", _numbers(S, A)),
    "tabular sas": lambda: TabularReward("sas", _numbers(S, A, S)),
    "shaped": lambda: ShapedReward(TabularReward("s", _numbers(S)), _numbers(S), GAMMA),
    "shaped twice": lambda: ShapedReward(
        ShapedReward(LinearReward(_numbers(S, K), [1.0, 2.0]), _numbers(S), GAMMA), _numbers(S) / 3, GAMMA
    ),
    "neural s": lambda: NeuralReward(_numbers(S, 3), width=4, depth=1, key=jax.random.key(0)),
    "neural sa": lambda: NeuralReward(
        _numbers(S, 3), over="sa", num_actions=A, width=3, depth=0, activation="gelu", key=jax.random.key(1)
    ),
    "neural sas": lambda: NeuralReward(
        _numbers(S, 2), over="sas", num_actions=A, width=3, depth=2, activation="relu", key=jax.random.key(2)
    ),
    "convolution": lambda: NeuralReward(_numbers(S, 3, 3, 1), width=4, depth=1, channels=2, key=jax.random.key(3)),
}


def made(reward, *, mdp=None, model="soft", status=Status.CONVERGED, demonstrator="demos", **changes):
    """A fit with everything in it."""
    mdp = random_mdp() if mdp is None else mdp
    reward = reward.bind(mdp)
    reward = reward.with_parameters(jax.tree.map(np.asarray, reward.parameters))
    plan = plan_of(model, mdp, reward)
    if demonstrator == "demos":
        length = {} if mdp.horizon else {"length": 7}
        demos = rollout(mdp, plan.policy, num=6, key=jax.random.key(0), **length)
        expert = Expert.of(mdp, demos, None, "auto")
    else:
        expert = Expert.of(mdp, plan, None, "auto")
    size = reward.num_parameters
    fields = {
        "estimator": MaxEntIRL(l2=0.1) if model == "path" else MCEIRL(l2=0.1),
        "rewards": (reward,),
        "plans": (plan_of(model, expert.mdp, reward),),
        "experts": (expert,),
        "status": status,
        "feature_gap": np.linspace(-1, 1, size) / 3,
        "certificate": Certificate(1e-9, None, np.pi),
        "log_likelihood": -100 / 3,
        "held_out_log_likelihood": None,
        "history": History({"loss": np.array([3.0, 2.0, np.inf]), "gradient": np.array([1.0, 1e-3, 1e-9])}),
        "seconds": 0.1 + 0.2,
        "missing_mass": 0.0,
        "cross_validation": CrossValidation(0.1, float("nan")),
    }
    return TabularFit(**(fields | changes))


def same(one, other):
    """Whether two trees hold the same arrays, bit for bit, and the same everything else."""
    leaves, others = jax.tree.leaves(one), jax.tree.leaves(other)
    alike = jax.tree.structure(one) == jax.tree.structure(other)
    return alike and all(
        np.asarray(x).tobytes() == np.asarray(y).tobytes() for x, y in zip(leaves, others, strict=True)
    )
