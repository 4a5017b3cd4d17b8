"""What a network has, as tables."""

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components

from irlax.routes.network import Network
from irlax.tables import Summary, Table, pairs


def summary(net: Network) -> Summary:
    """Counts, connected parts, and the range of each attribute."""
    graph = sp.coo_array((np.ones(net.num_arcs), (net.tail, net.head)), shape=(net.num_states, net.num_states))
    parts, part = connected_components(graph.tocsr(), connection="strong")
    entered = np.bincount(net.head, minlength=net.num_states) > 0
    _, count = net.arcs_between(net.tail, net.head)
    items = [
        ("states" if net.base is None else "states (links, and ends)", net.num_states),
        ("arcs" if net.base is None else "arcs (turns, and arrivals at ends)", net.num_arcs),
        ("arcs that share both states with another", int((count > 1).sum())),
        ("arcs from a state to itself", int((net.tail == net.head).sum())),
        ("ends", int(net.is_end.sum())),
        ("dead ends: other states that no arc leaves", int((net.dead_ends & ~net.is_end).sum())),
        ("states that no arc leads to", int((~entered).sum())),
        ("strongly connected components", int(parts)),
        ("states in the largest of them", int(np.bincount(part).max())),
        ("coordinates", net.coordinates is not None),
    ]
    notes = (
        [f"Columns that are no attributes, as they hold no numbers: {', '.join(net.ignored)}."] if net.ignored else []
    )
    rows = [_row(name, values) for name, values in net.attributes.items()]
    attributes = Table(("attribute", "least", "mean", "largest", "missing"), rows, "Attributes of arcs")
    return Summary([pairs("Network", items, notes), *([attributes] if rows else [])])


def _row(name: str, values: np.ndarray) -> tuple[str, float | None, float | None, float | None, int]:
    known = values[~np.isnan(values)]
    missing = len(values) - len(known)
    if not len(known):
        return name, None, None, None, missing
    return name, float(known.min()), float(known.mean()), float(known.max()), missing
