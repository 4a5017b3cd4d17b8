"""Route choice on a public road network with hundreds of goals, beside a plain factorisation by SciPy, in one run.

    .venv/bin/python -m benchmarks.speed.routes NETWORKS

NETWORKS is a folder with ChicagoSketch_net.tntp and ChicagoSketch_node.tntp of bstabler/TransportationNetworks, which
may be used for research and is not shipped. Trips are simulated from a known truth, with links as states. Both sides
fit the same five weights to the same trips with standard errors, in turns, `--repeats` times; then irlax alone for
fewer goals.
Writes benchmarks/results/routes_speed.json.
"""

import argparse
import resource
import time
from pathlib import Path

import jax
import numpy as np
import scipy.sparse as sp
from benchmarks import record
from scipy.optimize import minimize
from scipy.sparse.linalg import splu

import irlax as ix
from irlax.estimators.goals.goal_fit import simulated_demos

FEATURES = ("free_flow_time", "turns", "left", "right", "uturn")
#: The network's zones are its first nodes. Its file lets routes pass through them.
ZONES = range(1, 388)
TRUTH = np.array([-0.8, -0.4, -0.6, -0.3, -3.0])


def city(folder):
    """The network of links, and where trips may start and end."""
    nodes = ix.routes.read_tntp(folder / "ChicagoSketch_net.tntp", folder / "ChicagoSketch_node.tntp")
    net = nodes.links_as_states(ends=list(ZONES))
    goals = np.array([net.goal_of(label) for label in ZONES])
    origins = np.array([nodes.state_of(label) for label in ZONES])
    starts = np.flatnonzero(np.isin(nodes.tail, origins))
    return nodes, net, starts, goals


def simulated(net, starts, goals, num, seed=0):
    """Trips between random zones, at the truth."""
    rng = np.random.default_rng(seed)
    plan = ix.goal_plan(net.mdp, net.linear(list(FEATURES), TRUTH), goals)
    start, goal = rng.choice(starts, 2 * num), rng.choice(len(goals), 2 * num)
    usable = np.flatnonzero(np.isfinite(plan.value[goal, start]) & (plan.value[goal, start] < 0))[:num]
    return simulated_demos(plan, start[usable], goals[goal[usable]], key=jax.random.key(seed))


def with_irlax(net, trips):
    fit = ix.MCEIRL(objective="likelihood", progress=False).fit(net.mdp, net.linear(list(FEATURES)), trips)
    assert fit.converged
    return fit.reward.weights, fit.standard_errors("hessian"), fit.log_likelihood


class PlainSciPy:
    """What a modeller would write: z = (I − M)⁻¹e by SuperLU, BFGS, and curvature by differences of gradients."""

    def __init__(self, net, trips):
        self.tail, self.head = net.tail, net.head
        self.size = net.num_states
        self.features = np.stack([net.attribute(name) for name in FEATURES], axis=1)
        self.goals, goal = np.unique(trips.goals, return_inverse=True)
        arcs, _ = net.arcs_between(trips.states, trips.next_states)
        self.used = self.features[arcs].sum(axis=0)
        self.starts = np.zeros((self.size, len(self.goals)))
        np.add.at(self.starts, (trips.start_states, goal), 1.0)
        self.num = trips.num_episodes

    def solved(self, factors, rhs, way="N"):
        # By eight: with more, SuperLU's small products are spread over threads, and take ten times as long.
        parts = [factors.solve(np.asfortranarray(rhs[:, k : k + 8]), way) for k in range(0, rhs.shape[1], 8)]
        return np.concatenate(parts, axis=1)

    def loss(self, theta):
        weights = np.exp(self.features @ theta)
        matrix = sp.csr_array((weights, (self.tail, self.head)), (self.size, self.size))
        factors = splu(sp.csc_array(sp.eye_array(self.size) - matrix), permc_spec="MMD_AT_PLUS_A")
        unit = np.zeros(self.starts.shape)
        columns = np.arange(len(self.goals))
        unit[self.goals, columns] = 1.0
        z = self.solved(factors, unit)
        at_starts = self.starts > 0
        if (z[at_starts] <= 0).any():
            return np.inf, np.zeros(len(theta))
        value = (self.starts[at_starts] * np.log(z[at_starts])).sum()
        # Goals are dead ends here: nothing leaves them, and no correction is needed.
        flow = self.solved(factors, np.divide(self.starts, z, out=np.zeros_like(z), where=at_starts), "T")
        uses = weights * np.einsum("eg,eg->e", flow[self.tail], z[self.head])
        return (value - self.used @ theta) / self.num, (self.features.T @ uses - self.used) / self.num

    def fit(self):
        start = -np.ones(len(FEATURES))
        found = minimize(self.loss, start, jac=True, method="BFGS", options={"gtol": 1e-6})
        steps = 1e-4 * np.eye(len(FEATURES))
        curvature = [(self.loss(found.x + d)[1] - self.loss(found.x - d)[1]) / 2e-4 for d in steps]
        errors = np.sqrt(np.diag(np.linalg.inv(self.num * np.array(curvature))))
        return found.x, errors, -self.num * found.fun


def timed(function, *arguments):
    wall, cpu = time.perf_counter(), time.process_time()
    result = function(*arguments)
    return result, time.perf_counter() - wall, time.process_time() - cpu


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("networks", type=Path)
    parser.add_argument("--trips", type=int, default=10_000)
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()
    origin = record.provenance("benchmarks.speed.routes", "irlax", "numpy", "scipy", "jax")
    origin["command"] = origin["command"].replace(str(options.networks), "NETWORKS")
    _, net, starts, goals = city(options.networks)
    trips = simulated(net, starts, goals, options.trips)
    first, *_ = timed(with_irlax, net, trips)
    after_first = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    runs = {"irlax": [], "scipy": []}
    for _ in range(options.repeats):
        runs["irlax"].append(timed(with_irlax, net, trips))
        runs["scipy"].append(timed(lambda: PlainSciPy(net, trips).fit()))
    growth = {}
    for num in (50, 100, 200, len(goals)):
        some = trips.select(np.isin(trips.goals, goals[:num]))
        growth[num] = min(timed(with_irlax, net, some)[2] for _ in range(3))
    (ours, errors, likelihood), (theirs, other_errors, other) = first, runs["scipy"][0][0]
    report = origin | {
        "network": {"states": net.num_states, "arcs": net.num_arcs, "goals": len(np.unique(trips.goals))},
        "trips": trips.num_episodes,
        "choices": trips.num_steps,
        "features": list(FEATURES),
        "truth": TRUTH.tolist(),
        "estimates": {"irlax": ours.tolist(), "scipy": theirs.tolist()},
        "standard_errors": {"irlax": errors.tolist(), "scipy": other_errors.tolist()},
        "log_likelihood": {"irlax": likelihood, "scipy": other},
        "distance_from_truth_in_standard_errors": ((ours - TRUTH) / errors).tolist(),
        "wall_s": {name: [round(run[1], 3) for run in each] for name, each in runs.items()},
        "cpu_s": {name: [round(run[2], 3) for run in each] for name, each in runs.items()},
        "median_ratio_of_cpu": float(np.median([a[2] / b[2] for a, b in zip(*runs.values(), strict=True)])),
        "median_ratio_of_wall": float(np.median([a[1] / b[1] for a, b in zip(*runs.values(), strict=True)])),
        "peak_memory_gib_after_first_fit": round(after_first, 2),
        "cpu_s_by_number_of_goals": {str(num): round(seconds, 3) for num, seconds in growth.items()},
    }
    record.write(record.RESULTS / "routes_speed.json", report)
    print({key: report[key] for key in list(report)[-9:]})


if __name__ == "__main__":
    main()
