"""Makes the runs that `tests/estimators/test_kept_runs.py` loads: small ones, of each kind of fit.

They are made once for each format of the store and then kept as they are, so that what users saved can still be read:

    python -m tests.kept_runs.make FOLDER
"""

import json
import sys
import warnings
from pathlib import Path

import jax
import numpy as np

import irlax as ix
from irlax.registry import to_parts
from irlax.spaces import uniform_action

S, A = 3, 2


def problem():
    """An MDP with names, features and demonstrations in it."""
    rng = np.random.default_rng(0)
    mdp = ix.MDP.from_dense(rng.dirichlet(np.ones(S), size=(S, A)), np.full(S, 1 / S), discount=0.9, horizon=6)
    mdp = mdp.labelled(states=["low", "middle", "high"], actions=["wait", "go"], time_unit="day")
    features = rng.normal(size=(S, A, 2))
    demos = ix.rollout(mdp, ix.soft_plan(mdp, features @ [1.0, -0.5]).policy, num=30, key=jax.random.key(0))
    return mdp, ix.LinearReward(features, names=["gain", "cost"]), demos


def tabular_fits():
    """A fit of each tabular estimator, and of each reward that is stored in a way of its own."""
    mdp, reward, demos = problem()
    key = jax.random.key(1)
    network = ix.NeuralReward(np.eye(S), width=3, depth=1, key=key)
    shaped = ix.ShapedReward(ix.TabularReward("sa"), np.zeros(S), 0.9)
    statistics = ix.DemoStatistics.from_demos(demos, num_states=S, num_actions=A, discount=0.9, horizon=6)
    return {
        "mce": ix.MCEIRL(objective="likelihood").fit(mdp, reward, demos),
        "mce_cross_validated": ix.MCEIRL(objective="likelihood", l2="cv").fit(mdp, reward, demos),
        "mce_policy": ix.MCEIRL(solver=ix.LBFGS(max_steps=50)).fit(mdp, reward, ix.soft_plan(mdp, np.eye(S)[0])),
        "mce_shaped": ix.MCEIRL(l2=0.1).fit(mdp, shaped, demos),
        "mce_network": ix.MCEIRL(l2=0.1, solver=ix.Adam(max_steps=5)).fit(mdp, network, demos),
        "mce_statistics": ix.MCEIRL(l2=0.1).fit(mdp, reward, statistics),
        "maxent": ix.MaxEntIRL(l2=0.1).fit(mdp, reward, demos),
        "apprenticeship": ix.ApprenticeshipIRL(tol=0.05).fit(mdp, reward, demos),
        "two_step": ix.TwoStepIRL(iterations=None).fit(mdp, reward, demos),
        "bayesian": ix.BayesianIRL(num_chains=2, num_warmup=20, num_samples=10).fit(mdp, reward, demos, key=key),
        "mixture": ix.MixtureIRL(l2=0.5).fit(mdp, reward, demos, key=key),
    }


def motive_fits():
    """Fits of motives that switch, one chain for all states and one for each, and of a reward that drifts."""
    mdp, reward, demos = problem()
    key = jax.random.key(1)
    return {
        "switching": ix.SwitchingIRL(l2=0.5, num_starts=1).fit(mdp, reward, demos, key=key),
        "switching_by_state": ix.SwitchingIRL(l2=0.5, num_starts=1, by_state=True).fit(mdp, reward, demos, key=key),
        "drifting": ix.DriftingIRL().fit(mdp, reward, demos),
    }


def goal_fits():
    """Fits to trips that end at goals of their own: of MCEIRL, and with scales that differ by state."""
    arcs = {"from": [0, 0, 1, 1, 2, 2, 3], "to": [1, 2, 3, 0, 3, 0, 2], "minutes": [1.0, 2.0, 1.0, 1.5, 1.0, 2.0, 1.0]}
    net = ix.routes.Network.from_arcs(arcs, nodes={0: (0, 0), 1: (1, 0), 2: (0, 1), 3: (1, 1)})
    trips = net.trips([[0, 1, 3], [0, 2, 3], [1, 0, 2], [1, 3, 2], [0, 1, 3], [0, 1, 3, 2]])
    reward, busy = net.linear(["minutes"]), np.array([[0.0], [1.0], [1.0], [0.0]])
    return {
        "goals": ix.MCEIRL(objective="likelihood", l2=0.01).fit(net.mdp, reward, trips),
        "recursive_logit": ix.RecursiveLogit(l2=0.1).fit(
            net.mdp, reward, trips, scale_features=busy, scale_names=["busy"]
        ),
    }


def hidden_goal_fits():
    """Fits of types and of motives to trips that end at goals of their own: of 30 in a hurry, and of 30 who are not."""
    arcs = {"from": [0, 0, 1, 1, 2, 2, 3], "to": [1, 2, 3, 0, 3, 0, 2], "minutes": [1.0, 2.0, 1.0, 1.5, 1.0, 2.0, 1.0]}
    net, key = ix.routes.Network.from_arcs(arcs), jax.random.key(1)
    starts, goals = (np.tile(nodes, 30).tolist() for nodes in ([0, 1, 3, 2, 0, 1], [3, 2, 0, 1, 2, 3]))
    frames = [net.trip_frame(net.simulate({"minutes": w}, starts, goals, key=key)) for w in (-2.5, -0.8)]
    trips = net.trips([list(way) for frame in frames for _, way in frame.groupby("trip")["node"]])
    reward, who = net.linear(["minutes"]), np.repeat(np.arange(60), 6)
    mixture, switching = ix.MixtureIRL(l2=0.01, num_starts=1), ix.SwitchingIRL(l2=0.01, num_starts=1)
    return {
        "mixture_goals": mixture.fit(net.mdp, reward, trips, key=key, individual=who),
        "switching_goals": switching.fit(net.mdp, reward, trips, key=key),
    }


def sampled_fits():
    """A fit with a reward and a potential, and one without a reward."""
    env = ix.envs.make("point-maze", horizon=5)
    demos = ix.envs.collect(
        env, lambda observation, key: uniform_action(env.actions, key=key), 2, key=jax.random.key(0)
    )
    net, learner = ix.RewardNet(over="s", width=3, depth=1), ix.rl.PPO(temperature=1.0, explore=0.0, width=3, depth=1)
    airl = ix.AIRL(reward=net, potential=net, rounds=ix.Rounds(num=2, episodes=8), learner=learner)
    cloning = ix.BehaviouralCloning(steps=3, width=3, depth=1)
    return {name: each.fit(env, demos, key=jax.random.key(1)) for name, each in (("airl", airl), ("cloning", cloning))}


def expected(fit):
    """What must still be true of a run when it is loaded."""
    if hasattr(fit, "estimates"):
        learned = fit.estimates
    else:
        learned = [reward.parameters for reward in fit.rewards] if hasattr(fit, "rewards") else fit.policy
    leaves = jax.tree.leaves(learned)
    return {
        "class": type(fit).__name__,
        "estimator": to_parts(fit.estimator).record,
        "status": fit.status.name,
        "log_likelihood": fit.log_likelihood,
        "parameters": np.concatenate([np.ravel(leaf) for leaf in leaves]).astype(float).tolist(),
    }


def main(folder: Path) -> None:
    """Save all fits, with what is expected of each."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fits = tabular_fits() | motive_fits() | goal_fits() | hidden_goal_fits() | sampled_fits()
        for name, fit in fits.items():
            fit.save(folder / name)
            (folder / f"{name}.json").write_text(json.dumps(expected(fit), indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
