"""Route choice in a small city: what a minute and turns cost travellers, and what a closed bridge changes.

A grid of streets with a river that three bridges cross. Trips are simulated from known weights, in place of GPS data.
"""

import jax
import numpy as np
import pandas as pd

import irlax as ix

rng = np.random.default_rng(0)
nodes = pd.DataFrame([(f"{x},{y}", x, y) for y in range(8) for x in range(10)], columns=["node", "x", "y"])
here = dict(zip(nodes["node"], zip(nodes["x"], nodes["y"], strict=True), strict=True))
BRIDGES, RIVER = (1, 4, 8), 3.5  # the columns of the bridges, and the row that the river flows in
roads = []
for a, (x, y) in here.items():
    for b in (f"{x + 1},{y}", f"{x - 1},{y}", f"{x},{y + 1}", f"{x},{y - 1}"):
        if b in here and (x in BRIDGES or (y - RIVER) * (here[b][1] - RIVER) > 0):
            main = y == here[b][1] and y in (2, 5)  # two avenues from west to east
            roads.append((a, b, rng.uniform(0.6, 0.9) if main else rng.uniform(1.2, 2.0), main))
roads = pd.DataFrame(roads, columns=["from", "to", "minutes", "avenue"])

net = ix.routes.Network.from_arcs(roads, nodes=nodes.set_index("node")).links_as_states()
print(net)

# 400 travellers with two trips each, and the weights that the fit is to find.
truth = {"minutes": -1.5, "left": -0.8, "uturn": -4.0, "turns": -0.4}
homes, works = rng.choice(nodes["node"][:40], 400), rng.choice(nodes["node"][40:], 400)
trips = net.simulate(truth, [*homes, *works], [*works, *homes], key=jax.random.key(0))
traveller = np.tile(np.arange(400), 2)

fit = ix.MCEIRL(objective="likelihood").fit(net.mdp, net.linear(list(truth)), trips)
print(fit.regression_table("sandwich", cluster=traveller))

# How many minutes a turn to the left is worth, and who crosses the river where once the middle bridge is closed.
weights = dict(zip(truth, fit.reward.weights, strict=True))
print(f"\nA turn to the left costs as much as {weights['left'] / weights['minutes']:.2f} minutes.")
closed = [net.base.arc_of(*ends) for ends in (("4,3", "4,4"), ("4,4", "4,3"))]
after = net.base.without(closed).links_as_states()
again = after.simulate(weights, [*homes, *works], [*works, *homes], key=jax.random.key(1))


def crossings(city, demos, x):
    """How many trips cross a bridge, in either direction."""
    labels = [city.state_labels[state] for state in demos.tabular_states]
    return labels.count((f"{x},3", f"{x},4")) + labels.count((f"{x},4", f"{x},3"))


for x in BRIDGES:
    print(f"Bridge {x}: {crossings(net, trips, x)} trips, then {crossings(after, again, x)}")
