"""Do the intervals of route-choice weights cover the truth at their nominal rate? Simulated trips on a public network.

    .venv/bin/python -m benchmarks.quality.routes NETWORKS

NETWORKS is a folder with SiouxFalls_net.tntp and SiouxFalls_node.tntp of bstabler/TransportationNetworks. Links are
states, all 24 nodes are goals; 95% intervals by the inverse Hessian and by the sandwich, clustered by trip, are counted
over `--samples` samples of `--trips` trips from a known truth. Writes benchmarks/results/routes_coverage.json.
"""

import argparse
from pathlib import Path

import jax
import numpy as np
from benchmarks import record

import irlax as ix
from irlax.estimators.goals.goal_fit import simulated_demos

FEATURES = ("free_flow_time", "turns", "left", "uturn")
TRUTH = np.array([-0.5, -0.3, -0.4, -1.5])


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("networks", type=Path)
    parser.add_argument("--samples", type=int, default=200)
    parser.add_argument("--trips", type=int, default=500)
    options = parser.parse_args()
    origin = record.provenance("benchmarks.quality.routes", "irlax", "numpy", "scipy", "jax")
    origin["command"] = origin["command"].replace(str(options.networks), "NETWORKS")
    nodes = ix.routes.read_tntp(options.networks / "SiouxFalls_net.tntp", options.networks / "SiouxFalls_node.tntp")
    net = nodes.links_as_states()
    goals = np.array([net.goal_of(label) for label in nodes.state_labels])
    plan = ix.goal_plan(net.mdp, net.linear(list(FEATURES), TRUTH), goals)
    estimator, reward = ix.MCEIRL(objective="likelihood", progress=False), net.linear(list(FEATURES))
    inside = {"hessian": [], "sandwich": []}
    estimates = []
    for sample in range(options.samples):
        rng = np.random.default_rng([1, sample])
        starts, ends = rng.integers(nodes.num_arcs, size=options.trips), rng.choice(goals, options.trips)
        fit = estimator.fit(net.mdp, reward, simulated_demos(plan, starts, ends, key=jax.random.key(sample)))
        assert fit.converged
        estimates.append(fit.reward.weights)
        for kind, counted in inside.items():
            low, high = fit.confidence_intervals(0.95, kind, cluster="episode" if kind == "sandwich" else None).T
            counted.append((low <= TRUTH) & (high >= TRUTH))
    coverage = {kind: np.mean(counted, axis=0).tolist() for kind, counted in inside.items()}
    report = origin | {
        "states": net.num_states,
        "arcs": net.num_arcs,
        "goals": len(goals),
        "samples": options.samples,
        "trips": options.trips,
        "features": list(FEATURES),
        "truth": TRUTH.tolist(),
        "mean_estimate": np.mean(estimates, axis=0).tolist(),
        "coverage_of_95": coverage,
        "coverage_of_95_over_all": {kind: float(np.mean(counted)) for kind, counted in inside.items()},
    }
    record.write(record.RESULTS / "routes_coverage.json", report)
    print(report["coverage_of_95"], report["coverage_of_95_over_all"])


if __name__ == "__main__":
    main()
