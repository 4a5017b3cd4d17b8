"""Do intervals of the route-choice models cover the truth? Simulated trips on the network of Sioux Falls.

    .venv/bin/python -m benchmarks.quality.route_choice

simulates trips between random nodes again and again, fits them, and counts how often 95% intervals contain what is
true: of the parameters; of the flows, values and elasticities of the plain recursive logit, and of their changes when
a road is closed; and of the parameters of the nested one, whose scales differ by state. The network is public (TNTP),
and is read from ../shared/data/networks or `--networks`. Writes benchmarks/results/route_choice.json.
"""

import argparse
import functools
import time
from pathlib import Path

import equinox as eqx
import jax.random as jr
import numpy as np
from benchmarks import record

import irlax as ix
from irlax.estimators.goals.goal_fit import simulated_demos
from irlax.planning.goals import goal_plan

NAMES = ["length", "roads"]
THETA = np.array([-0.8, -0.2])
OMEGA = 0.5
#: Predictions whose sign does not depend on the parameters.
KEEP_THEIR_SIGN = ("flows", "change of values")


def network(folder):
    """The network, with the number of arcs that leave the next node as a second attribute."""
    net = ix.routes.read_tntp(Path(folder) / "SiouxFalls_net.tntp")
    return net.with_attributes(roads=np.bincount(net.tail, minlength=net.num_states)[net.head].astype(float))


def pairs(net, num, seed):
    starts, goals = np.random.default_rng(seed).integers(net.num_states, size=(2, num))
    return starts[starts != goals], goals[starts != goals]


def predictions(fit, net, closed):
    """What is predicted, by name: for one trip from each node to node 20 and to node 1."""
    starts, goals = np.repeat(np.arange(net.num_states), 2), np.tile([19, 0], net.num_states)
    other = {"mdp": closed.mdp, "reward": closed.linear(NAMES)}
    before, after = fit.flows(starts, goals).by_arc(net), fit.flows(starts, goals, **other).by_arc(closed)
    values = fit.values(starts, goals)
    found = {
        "flows": before,
        "change of flows": after.minus(before),
        "values": values,
        "change of values": fit.values(starts, goals, **other).minus(values),
        "change of values, in units of length": fit.values(starts, goals, **other).minus(values).in_units_of("length"),
        "elasticities": fit.elasticities("length", starts, goals).by_arc(net),
    }
    # Intervals of what does not vary at all have no length.
    return {name: numbers.select(numbers.standard_error > 1e-9) for name, numbers in found.items()}


def covered(interval, truth):
    return [int(((interval[:, 0] <= truth) & (truth <= interval[:, 1])).sum()), len(truth)]


@functools.cache
def truths(net, closed):
    """The same predictions at the true parameters."""
    starts, goals = pairs(net, 100, 0)
    plan = goal_plan(net.mdp, net.linear(NAMES, THETA), np.arange(net.num_states))
    demos = simulated_demos(plan, starts, goals, key=jr.key(0))
    fit = ix.MCEIRL(objective="likelihood", progress=False).fit(net.mdp, net.linear(NAMES), demos)
    return predictions(eqx.tree_at(lambda one: one.reward, fit, net.linear(NAMES, THETA)), net, closed)


def plain(net, closed, num, seed):
    starts, goals = pairs(net, num, seed)
    plan = goal_plan(net.mdp, net.linear(NAMES, THETA), np.arange(net.num_states))
    demos = simulated_demos(plan, starts, goals, key=jr.key(seed))
    fit = ix.MCEIRL(objective="likelihood", progress=False).fit(net.mdp, net.linear(NAMES), demos)
    hits = {"parameters": covered(fit.confidence_intervals(), THETA)}
    true = truths(net, closed)
    for name, numbers in predictions(fit, net, closed).items():
        place = {key: k for k, key in enumerate(true[name].keys)}
        got = numbers.select(np.array([key in place for key in numbers.keys]))
        expected = true[name].estimate[[place[key] for key in got.keys]]
        hits[name] = covered(got.interval, expected)
        if name in KEEP_THEIR_SIGN:
            hits[f"{name}, log interval"] = covered(got.log_interval, expected)
    return hits


def nested(net, num, seed):
    starts, goals = pairs(net, num, seed)
    roads = np.bincount(net.tail, minlength=net.num_states) / 4 - 0.75
    plan = goal_plan(net.mdp, net.linear(NAMES, THETA), np.arange(net.num_states), scale=np.exp(OMEGA * roads))
    demos = simulated_demos(plan, starts, goals, key=jr.key(seed))
    fit = ix.RecursiveLogit(progress=False).fit(net.mdp, net.linear(NAMES), demos, scale_features=roads)
    truth, low = np.append(THETA, OMEGA), fit.confidence_intervals()
    robust = fit.confidence_intervals(kind="sandwich", cluster="episode")
    return {"nested, Hessian": covered(low, truth), "nested, clustered sandwich": covered(robust, truth)}, fit.estimates


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--samples", type=int, default=200)
    parser.add_argument("--trips", type=int, default=1000)
    parser.add_argument("--networks", default=str(record.ROOT.parent / "shared" / "data" / "networks"))
    parser.add_argument("--out", default=str(record.RESULTS / "route_choice.json"))
    given = parser.parse_args()
    source, began = record.provenance("benchmarks.quality.route_choice", "jax", "scipy"), time.perf_counter()
    net = network(given.networks)
    closed = net.without(net.arc_of(10, 15))
    counts, estimates = {}, []
    for seed in range(given.samples):
        hits, found = nested(net, given.trips, seed)
        estimates.append(found)
        for name, (inside, of) in (plain(net, closed, given.trips, seed) | hits).items():
            total = counts.setdefault(name, [0, 0])
            total[0], total[1] = total[0] + inside, total[1] + of
        if seed % 10 == 9:
            print(seed + 1, f"{time.perf_counter() - began:.0f} s", flush=True)
    result = {
        **source,
        "samples": given.samples,
        "trips": given.trips,
        "coverage_of_95%_intervals": {name: round(inside / of, 4) for name, (inside, of) in counts.items()},
        "intervals": {name: of for name, (_, of) in counts.items()},
        "nested_truth": [*THETA.tolist(), OMEGA],
        "nested_mean": np.mean(estimates, axis=0).round(4).tolist(),
        "nested_standard_deviation": np.std(estimates, axis=0, ddof=1).round(4).tolist(),
        "seconds": round(time.perf_counter() - began, 1),
    }
    record.write(record.Path(given.out), result)
    print(result["coverage_of_95%_intervals"], result["nested_mean"], sep="\n")


if __name__ == "__main__":
    main()
