"""Public road networks, where they lie beside the repository, and small networks of our own."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

FOLDER = Path(__file__).resolve().parents[2] / "shared" / "data" / "networks"

needs_networks = pytest.mark.skipif(
    not FOLDER.is_dir(), reason="The public road networks are not there: ../shared/data/networks"
)

#: Of each network: its file of coordinates, and the numbers of nodes, of links and of zones that are not passed.
PUBLIC = {
    "SiouxFalls": ("SiouxFalls_node.tntp", 24, 76, 0),
    "Anaheim": ("anaheim_nodes.geojson", 416, 914, 38),
    "ChicagoSketch": ("ChicagoSketch_node.tntp", 933, 2950, 0),
}

TNTP = """<NUMBER OF ZONES> 2
<NUMBER OF NODES> 5
<FIRST THRU NODE> 3
<NUMBER OF LINKS> 8
<END OF METADATA>

~ 	init_node	term_node	capacity	length	free_flow_time	b	power	speed	toll	link_type	;
	1	3	100	1.5	1	0.15	4	0	0	1	;
	3	1	100	1.5	1	0.15	4	0	0	1	;
	3	4	200	2.5	2	0.15	4	0	0	1	;
	4	3	200	2.5	2	0.15	4	0	0	1	;
	4	5	300	3.5	3	0.15	4	0	0	2	;
	5	2	400	4.5	4	0.15	4	0	0	2	;
	2	4	500	5.5	5	0.15	4	0	1	3	;
	3	2	600	6.5	6	0.15	4	0	0	3	;
"""

TNTP_TRIPS = """<NUMBER OF ZONES> 2
<TOTAL OD FLOW> 30.5
<END OF METADATA>

~ a comment
Origin 1
    1 :    0.0;     2 :   10.5;
Origin 2
    1 :   20.0;
"""


def random_frame(seed, *, num_nodes=9, num_arcs=30, kind="int"):
    """Different arcs between nodes that are called by numbers, by text or by pairs, with attributes."""
    rng = np.random.default_rng(seed)
    pairs = [(i, j) for i in range(num_nodes) for j in range(num_nodes) if i != j]
    chosen = [pairs[k] for k in rng.choice(len(pairs), size=min(num_arcs, len(pairs)), replace=False)]
    name = {"int": lambda i: 10 * i + 3, "text": lambda i: f"n{i}", "pair": lambda i: (i, f"p{i % 2}")}[kind]
    return pd.DataFrame(
        {
            "from": pd.Series([name(i) for i, _ in chosen]),
            "to": pd.Series([name(j) for _, j in chosen]),
            "minutes": rng.random(len(chosen)),
            "paved": rng.random(len(chosen)) < 0.5,
            "lanes": rng.integers(1, 4, size=len(chosen)),
        }
    )


def random_walks(frame, seed, num=20):
    """Walks along the arcs of a frame that end where they first reach their goal."""
    rng = np.random.default_rng(seed)
    after = {}
    for row in frame.itertuples(index=False):
        after.setdefault(row[0], []).append(row[1])
    walks, starts = [], list(after)
    while len(walks) < num:
        walk = [starts[rng.integers(len(starts))]]
        while walk[-1] in after and len(walk) < rng.integers(2, 9):
            walk.append(after[walk[-1]][rng.integers(len(after[walk[-1]]))])
        while len(walk) > 1 and walk[-1] in walk[:-1]:
            walk.pop()
        if len(walk) > 1:
            walks.append(walk)
    return walks
