"""Tables of nodes, of origins and destinations, and of trips, from files."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from irlax import storage
from irlax.demos.read_write import MISSING, exact_floats, open_parquet, written_as_integers
from irlax.routes.geojson import read_points
from irlax.routes.labels import column_labels
from irlax.routes.tntp import SUFFIXES as TNTP
from irlax.routes.tntp import read_node_file, read_tntp_trips

if TYPE_CHECKING:
    import pandas as pd

TABLES = (".csv", ".parquet")


def read_nodes(path: str | os.PathLike[str]) -> "pd.DataFrame":
    """Read where nodes are: a frame with x and y, indexed by their labels, as `Network.from_arcs` takes it.

    A .csv or .parquet file has the columns `node` (or `id`), `x` and `y`; a TNTP file has node, X and Y; GeoJSON has
    points with a property `id`.
    """
    path = storage.existing_file(path, (*TABLES, *TNTP, ".geojson", ".json"))
    suffix = path.suffix.lower()
    if suffix in TNTP:
        return read_node_file(path)
    if suffix not in TABLES:
        return read_points(path)
    frame = read_table(path, ["node", "id"])
    name = "node" if "node" in frame.columns else "id"
    missing = [column for column in (name, "x", "y") if column not in frame.columns]
    if missing:
        raise ValueError(f"{path} must have the columns node (or id), x and y, but has no {' and no '.join(missing)}.")
    return frame.set_index(name).loc[:, ["x", "y"]]


def read_pairs(path: str | os.PathLike[str]) -> "pd.DataFrame":
    """Read how many trips go from where to where: a frame with the columns origin, destination and flow.

    A TNTP file of trips, or a .csv or .parquet file with these columns; without `flow`, every pair counts 1. Pairs
    without flow, and those that end where they start, are left out.
    """
    import pandas as pd

    path = storage.existing_file(path, (*TABLES, *TNTP))
    if path.suffix.lower() in TNTP:
        frame = read_tntp_trips(path)
    else:
        frame = read_table(path, ["origin", "destination"])
        missing = [name for name in ("origin", "destination") if name not in frame.columns]
        if missing:
            raise ValueError(f"{path} must have the columns origin and destination, but has no {missing[0]}.")
        frame = frame.assign(flow=frame["flow"] if "flow" in frame.columns else 1.0)
    flow = _flows(path, frame["flow"])
    origin, destination = (column_labels(name, frame[name]) for name in ("origin", "destination"))
    kept = np.flatnonzero((flow > 0) & np.asarray(origin != destination))
    if not len(kept):
        raise ValueError(f"{path} has no trips from one node to another.")
    return pd.DataFrame({"origin": origin[kept], "destination": destination[kept], "flow": flow[kept]})


def _flows(path: Path, column: Any) -> np.ndarray:
    try:
        flow = column.to_numpy(np.float64, na_value=np.nan)
    except (TypeError, ValueError):
        flow = np.array([np.nan])
    if not (np.isfinite(flow) & (flow >= 0)).all():
        raise ValueError(f"{path}: column `flow` must hold numbers from 0 on.")
    return flow


def read_trip_column(path: str | os.PathLike[str], column: str, *, trip: str = "trip") -> np.ndarray:
    """Read a column that says something of each trip, such as its traveller: one label for each trip.

    Trips are in the order in which they first appear, as `read_trips` reads them.
    """
    path = storage.existing_file(path, TABLES)
    frame = read_table(path, [trip, column])
    for name in (trip, column):
        if name not in frame.columns:
            raise ValueError(f"{path} has no column `{name}`. It has {', '.join(map(str, frame.columns))}.")
    import pandas as pd

    codes, names = pd.factorize(column_labels(trip, frame[trip]))
    labels, distinct = pd.factorize(column_labels(column, frame[column]))
    first = np.unique(codes, return_index=True)[1]
    varies = labels != labels[first][codes]
    if varies.any():
        row = int(np.argmax(varies))
        raise ValueError(
            f"{path}: column `{column}` must be the same in all rows of a trip, but row {row} of trip "
            f"{names[codes[row]]!r} has {distinct[labels[row]]!r}."
        )
    return labels[first]


def read_table(path: Path, labels: list[str]) -> "pd.DataFrame":
    """A table, with the columns of labels as they are written."""
    import pandas as pd

    if path.suffix.lower() == ".parquet":
        file = open_parquet(path)
        with storage.unreadable(path, "a Parquet file"):
            return file.read().to_pandas()
    with storage.unreadable(path, "a CSV file"):
        heading = pd.read_csv(path, header=None, nrows=1, dtype=str, na_filter=False, encoding="utf-8").iloc[0].tolist()
        missing = {name: [""] if name in labels else MISSING for name in heading}
        frame = pd.read_csv(
            path,
            index_col=False,
            dtype=dict.fromkeys(labels, str),
            keep_default_na=False,
            na_values=missing,
            low_memory=False,
            encoding="utf-8",
            **exact_floats(),
        )
    for name in dict.fromkeys(labels):
        if name in frame.columns:
            frame[name] = written_as_integers(frame[name])
    return frame
