"""Small networks with trips and a fit to them."""

import functools

import jax.random as jr
import numpy as np

import irlax as ix
from irlax.estimators.goals.goal_fit import simulated_demos
from irlax.planning.goals import goal_plan
from irlax.routes import Network

NAMES = ("minutes", "toll")


@functools.cache
def network(seed=0, num_nodes=8, num_arcs=26):
    """A ring, so that every goal can be reached, and more arcs, some of them parallel."""
    rng = np.random.default_rng(seed)
    tail = np.concatenate([np.arange(num_nodes), rng.integers(num_nodes, size=num_arcs - num_nodes)])
    head = np.concatenate([(np.arange(num_nodes) + 1) % num_nodes, rng.integers(num_nodes, size=num_arcs - num_nodes)])
    head = np.where(head == tail, (head + 2) % num_nodes, head)
    return Network.from_arcs(
        {
            "from": tail,
            "to": head,
            "name": [f"road {e}" for e in range(num_arcs)],
            "minutes": rng.uniform(1, 3, num_arcs),
            "toll": rng.uniform(0, 1, num_arcs) * (rng.random(num_arcs) < 0.5),
        },
        link="name",
    )


@functools.cache
def trips(seed=0, num=150):
    """Trips at θ = (−1.2, −.7)."""
    net, rng = network(seed), np.random.default_rng(seed + 100)
    starts, goals = rng.integers(net.num_states, size=(2, num))
    kept = starts != goals
    plan = goal_plan(net.mdp, net.linear(NAMES, [-1.2, -0.7]), np.arange(net.num_states))
    return simulated_demos(plan, starts[kept], goals[kept], key=jr.key(seed))


@functools.cache
def fit(seed=0):
    """The plain recursive logit of the trips."""
    return ix.MCEIRL(objective="likelihood").fit(network(seed).mdp, network(seed).linear(NAMES), trips(seed))


def rewards_of(net, theta):
    """θ·attributes of each arc."""
    return theta[0] * net.attribute("minutes") + theta[1] * net.attribute("toll")


def demand(seed, num=30):
    """Starts, goals and amounts, with repeated pairs, and pairs whose start is their goal."""
    rng = np.random.default_rng(seed + 7)
    starts, goals = rng.integers(8, size=(2, num))
    return starts, goals, rng.uniform(0.5, 4, num)
