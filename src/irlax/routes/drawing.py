"""Networks as maps."""

from typing import Any

import numpy as np

from irlax import checks
from irlax.report import maps
from irlax.report.plots import label, on_axes
from irlax.routes.network import Network
from irlax.typing import Float


def network_figure(net: Network, values: Any, *, by: Any, name: str, title: str, ax: Any) -> Any:
    """A figure with a map; `Network.plot` says what the arguments are."""
    places = net.places
    if places is None:
        raise ValueError("A map needs coordinates: give `nodes=` when you read or build the network.")
    by = checks.one_of("by", by or ("arc" if net.base is None else "state"), ("arc", "state"))
    segments = _segments(net, places)
    if isinstance(values, str):
        name, values, by = name or values, (net.base or net).attribute(values), "arc"
    elif values is not None and by == "arc" and net.base is not None:
        raise ValueError("Arcs of a network of links are turns, which a map does not show: give a number for a state.")
    elif values is not None:
        values = _checked(net, values, by)

    def draw(figure: Any, axes: Any) -> None:
        if values is None:
            maps.network_map(figure, axes, segments, title=title)
            return
        bar = label(name, 40)
        if by == "state" and net.base is None:
            maps.point_map(figure, axes, places[:, :2], values, segments=segments, title=title, bar=bar)
        else:
            maps.network_map(figure, axes, segments, values[: len(segments)], title=title, bar=bar)

    return on_axes(ax, draw, lambda: maps.panels(segments, 1))


def _segments(net: Network, places: Float[np.ndarray, "S 4"]) -> Float[np.ndarray, "n 4"]:
    """The arcs of a network of nodes, or the links of a network of links, which are its first states."""
    if net.base is not None:
        return places[: net.base.num_arcs]
    return np.concatenate([places[net.tail, :2], places[net.head, :2]], axis=1)


def _checked(net: Network, values: Any, by: str) -> Float[np.ndarray, " n"]:
    num, meaning = (net.num_arcs, "(E,), one for each arc") if by == "arc" else (net.num_states, "(S,), one a state")
    found = checks.as_floats("values", values)
    checks.has_shape("values", found, (num,), meaning)
    return found
