"""Networks and trips from files."""

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from irlax import storage
from irlax.demos import Demonstrations
from irlax.routes.geojson import from_features, read_lines
from irlax.routes.labels import column_labels
from irlax.routes.network import Network
from irlax.routes.tables import TABLES, read_nodes, read_table
from irlax.routes.tntp import SUFFIXES as TNTP
from irlax.routes.tntp import read_tntp
from irlax.routes.trips import Stops, from_node_stops, from_stops

if TYPE_CHECKING:
    import pandas as pd

_JSON = (".geojson", ".json")
#: Read by GeoPandas.
_GEO = (".shp", ".gpkg", ".fgb")


def read_network(
    path: str | os.PathLike[str],
    *,
    tail: str = "from",
    head: str = "to",
    nodes: Any = None,
    link: str | None = None,
    zones: Any = (),
) -> Network:
    """Read a network from a file, by its suffix.

    | suffix | content |
    | --- | --- |
    | `.tntp`, `.tntp.gz` | a TNTP file, as `read_tntp` reads it; it says itself which nodes are zones |
    | `.csv`, `.parquet` | a row for each arc, as `Network.from_arcs` takes it |
    | `.geojson`, `.json` | a LineString for each arc, in the direction drawn, with properties as attributes |
    | `.shp`, `.gpkg`, `.fgb` | the same, by GeoPandas (`pip install irlax[geo]`) |
    | `.npz` | what `Network.save` wrote |

    `tail`, `head` and `link` name columns or properties; lines without them have their end points, (x, y), as nodes.
    `nodes` and `zones` are as in `Network.from_arcs`; `nodes` may also be a file, as `read_nodes` reads it. In CSV,
    labels that all look like whole numbers are taken as such, but 007 stays text.
    """
    path = storage.existing_file(path, (*TNTP, *TABLES, *_JSON, *_GEO, ".npz"))
    suffix = path.suffix.lower()
    if suffix == ".npz":
        return Network.load(path)
    nodes = read_nodes(nodes) if isinstance(nodes, (str, os.PathLike)) else nodes
    if suffix in TNTP:
        return read_tntp(path, nodes)
    named: dict[str, Any] = {"nodes": nodes, "link": link, "zones": zones}
    try:
        if suffix in _JSON:
            return read_lines(path, tail, head, **named)
        if suffix in _GEO:
            return from_features(_by_geopandas(path), tail, head, **named)
        frame = read_table(path, [name for name in (tail, head, link) if name is not None])
        return Network.from_arcs(frame, tail, head, **named)
    except (TypeError, ValueError) as error:
        raise storage.in_file(path, error) from None


def read_trips(
    path: str | os.PathLike[str],
    net: Network,
    *,
    trip: str = "trip",
    position: str | None = None,
    label: str | None = None,
    weight: str | None = None,
) -> Demonstrations:
    """Read trips from a .csv or .parquet file with a row for each state that a trip passes.

    Column `trip` names the trip of a row. `position` orders the rows of a trip (default: `position` if there is such a
    column, else the order of rows). `label` holds the states (default: `state`, `node` or `link`, whichever there is);
    from `node`, in a network of links, trips are read as `Network.node_trips` takes them. `weight` (default: `weight`,
    if there is one) is the same on all rows of a trip.

        trip,node
        ann,1
        ann,3
        ann,2
    """
    path = storage.existing_file(path, TABLES)
    if not isinstance(net, Network):
        raise TypeError(f"`net` must be a Network, but is a {type(net).__name__}.")
    usual = ("state", "node", "link")
    try:
        frame = read_table(path, [name for name in (trip, label or "") if name] + ([] if label else list(usual)))
        present = list(frame.columns)
        label = label or _one_of(usual, present)
        position, weight = (
            name or _if_there(there, present) for name, there in ((position, "position"), (weight, "weight"))
        )
        for name in (trip, label, position, weight):
            if name is not None and present.count(name) != 1:
                raise ValueError(f"There must be one column `{name}`. The table has {', '.join(present) or 'none'}.")
        if not len(frame):
            raise ValueError("The table has no rows. Give it one for each state that a trip passes.")
        nodes = label == "node" and net.base is not None
        stops, weights = _stops(frame, net, trip=trip, position=position, label=label, weight=weight, nodes=nodes)
        return from_node_stops(net, stops, weights) if nodes else from_stops(net, stops, weights)
    except (TypeError, ValueError) as error:
        raise storage.in_file(path, error) from None


def _stops(
    frame: "pd.DataFrame", net: Network, *, trip: str, position: str | None, label: str, weight: str | None, nodes: bool
) -> tuple[Stops, np.ndarray | None]:
    """The labels in the order of trips, which are ordered as they first appear."""
    import pandas as pd

    codes, names = pd.factorize(column_labels(trip, frame[trip]))
    order = np.argsort(codes, kind="stable") if position is None else _by_position(frame, codes, position)
    values = column_labels(label, frame[label])[order].tolist()
    lengths = np.bincount(codes)
    owner = net.base if nodes and net.base is not None else net
    known = {name: name for name in owner.state_labels}
    by_text = {str(name): name for name in owner.state_labels}
    labels = [known.get(value, by_text.get(str(value), value)) for value in values]
    stops = Stops(labels, lengths, np.asarray(names).tolist(), order)
    if (lengths < 2).any():
        k = int(np.argmax(lengths < 2))
        row = int(order[np.cumsum(lengths)[k] - 1])
        raise ValueError(f"A trip must have a start and a goal, but trip {stops.names[k]!r} has only row {row}.")  # pyright: ignore[reportOptionalSubscript]
    return stops, None if weight is None else _weights(frame[weight], codes, order, lengths, weight)


def _by_position(frame: "pd.DataFrame", codes: np.ndarray, name: str) -> np.ndarray:
    place = _numbers(frame[name], name)
    order = np.lexsort((place, codes))
    repeated = (np.diff(codes[order]) == 0) & (np.diff(place[order]) == 0)
    if repeated.any():
        i = int(np.argmax(repeated))
        raise ValueError(
            f"Each position of a trip may have one row, but row {order[i + 1]} repeats that of {order[i]}."
        )
    return order


def _weights(column: Any, codes: np.ndarray, order: np.ndarray, lengths: np.ndarray, name: str) -> np.ndarray:
    weights = _numbers(column, name)[order]
    varies = (np.diff(codes[order]) == 0) & (np.diff(weights) != 0)
    if varies.any():
        row = order[int(np.argmax(varies)) + 1]
        raise ValueError(f"Column `{name}` must be the same in all rows of a trip, but row {row} differs.")
    return weights[np.cumsum(lengths) - 1]


def _numbers(column: Any, name: str) -> np.ndarray:
    import pandas as pd

    if not pd.api.types.is_numeric_dtype(column.dtype):
        raise TypeError(f"Column `{name}` must hold numbers, but has dtype {column.dtype}.")
    values = column.to_numpy(np.float64, na_value=np.nan)
    if not np.isfinite(values).all():
        raise ValueError(f"Column `{name}` must hold numbers, but row {int(np.argmax(~np.isfinite(values)))} has none.")
    return values


def _if_there(name: str, present: list[str]) -> str | None:
    return name if name in present else None


def _one_of(names: tuple[str, ...], present: list[str]) -> str:
    found = [name for name in names if name in present]
    if len(found) != 1:
        raise ValueError(
            f"One column must hold the states: {', '.join(names)}. The table has "
            f"{', '.join(map(str, present)) or 'none'}; say `label=`."
        )
    return found[0]


def _by_geopandas(path: Path) -> list[Any]:
    try:
        import geopandas  # pyright: ignore[reportMissingImports]
    except ImportError as error:
        raise ImportError(
            f"Reading {path.name} needs GeoPandas: `pip install irlax[geo]`. Or convert it to GeoJSON."
        ) from error
    with storage.unreadable(path, "a file of lines"):
        return json.loads(geopandas.read_file(path).to_json())["features"]
