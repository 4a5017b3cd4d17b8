"""Files of the TNTP format, in which public road networks for traffic assignment are kept.

Metadata stand in angle brackets, up to <END OF METADATA>; a line that starts with ~ is a heading or a comment; rows end
in a semicolon. See https://github.com/bstabler/TransportationNetworks.
"""

import gzip
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from irlax import storage
from irlax.routes.network import Network
from irlax.user_warnings import warn_user

if TYPE_CHECKING:
    import pandas as pd

SUFFIXES = (".tntp", ".gz")
_COLUMNS = ["init_node", "term_node", "capacity", "length", "free_flow_time"]
_COLUMNS += ["b", "power", "speed", "toll", "link_type"]
_COUNTS = ("NUMBER OF NODES", "NUMBER OF LINKS", "FIRST THRU NODE")
_END = "END OF METADATA"
_PAIR = re.compile(r"\s*(\d+)\s*:\s*([^\s;:]+)\s*;")
_ORIGIN = re.compile(r"^\s*Origin\b\s*(.*)$", re.IGNORECASE | re.MULTILINE)
#: The flows of a published file differ from the total that it states by no more than rounding.
_ROUNDING = 1e-3


def read_tntp(path: str | os.PathLike[str], nodes: Any = None) -> Network:
    """Read a road network from a TNTP file (`.tntp`, or `.tntp.gz`).

    Attributes are the columns of the file: capacity, length, free_flow_time, b, power, speed, toll, link_type. Nodes
    below <FIRST THRU NODE> are zones: trips start and end there, and do not pass through. `nodes` gives coordinates: a
    file (TNTP with the columns node, X and Y; or GeoJSON points with a property `id`), or what `Network.from_arcs`
    takes.
    """
    path = storage.existing_file(path, SUFFIXES)
    text = _text(path)
    try:
        metadata, body = _metadata(text)
        counts = {name: _count(metadata, name) for name in _COUNTS}
        frame = _arcs(body, text.count("\n", 0, len(text) - len(body)) + 1)
        if len(frame) != counts["NUMBER OF LINKS"]:
            raise ValueError(
                f"<NUMBER OF LINKS> says {counts['NUMBER OF LINKS']}, but there are {len(frame)} rows of links. Is the "
                f"file complete?"
            )
        labels = np.unique(frame[["init_node", "term_node"]].to_numpy())
        if labels[0] < 1 or labels[-1] > counts["NUMBER OF NODES"]:
            wrong = labels[0] if labels[0] < 1 else labels[-1]
            raise ValueError(
                f"Nodes must lie in 1..{counts['NUMBER OF NODES']} (<NUMBER OF NODES>), but one is {wrong}."
            )
        zones = labels[labels < counts["FIRST THRU NODE"]].tolist()
        places = _places(nodes) if isinstance(nodes, (str, os.PathLike)) else nodes
        return Network.from_arcs(frame, "init_node", "term_node", nodes=places, zones=zones)
    except (TypeError, ValueError) as error:
        raise storage.in_file(path, error) from None


def read_tntp_trips(path: str | os.PathLike[str]) -> "pd.DataFrame":
    """Read a table of trips between zones from a TNTP file: a frame with the columns origin, destination and flow."""
    path = storage.existing_file(path, SUFFIXES)
    text = _text(path)
    try:
        metadata, body = _metadata(text)
        frame = _flows(body)
        zones = _count(metadata, "NUMBER OF ZONES")
    except ValueError as error:
        raise storage.in_file(path, error) from None
    outside = frame[["origin", "destination"]].to_numpy()
    if (outside < 1).any() or (outside > zones).any():
        raise ValueError(f"{path}: zones must lie in 1..{zones} (<NUMBER OF ZONES>), but one is {outside.max()}.")
    total, stated = float(frame["flow"].to_numpy().sum()), metadata.get("TOTAL OD FLOW")
    if stated is not None and not abs(_float(stated, "<TOTAL OD FLOW>") - total) <= _ROUNDING * max(total, 1):
        warn_user(f"{path} states a total flow of {stated}, but its trips sum to {total:.6g}. Is the file complete?")
    return frame


def read_node_file(path: Path) -> "pd.DataFrame":
    """Coordinates from a TNTP file of nodes: a frame with x and y, indexed by node."""
    import pandas as pd

    lines = [line.split("~")[0].strip().rstrip(";").split() for line in _text(path).splitlines()]
    lines = [cells for cells in lines if cells]
    if lines and not _is_number(lines[0][0]):
        lines = lines[1:]
    if not lines or {len(cells) for cells in lines} != {3}:
        raise ValueError(f"{path} must have rows of node, X and Y; one or more have another number of cells.")
    table = _numbers([(i, cells) for i, cells in enumerate(lines)], "row")
    return pd.DataFrame(table[:, 1:], index=_whole(table[:, 0], "nodes"), columns=["x", "y"])


def _places(path: str | os.PathLike[str]) -> "pd.DataFrame":
    path = storage.existing_file(path, (*SUFFIXES, ".geojson", ".json"))
    if path.suffix.lower() in SUFFIXES:
        return read_node_file(path)
    from irlax.routes.geojson import read_points

    return read_points(path)


def _text(path: Path) -> str:
    with storage.unreadable(path, "a TNTP file"):
        if path.suffix.lower() == ".gz":
            with gzip.open(path, "rt", encoding="utf-8") as file:
                return file.read()
        return path.read_text(encoding="utf-8")


def _metadata(text: str) -> tuple[dict[str, str], str]:
    """What stands in angle brackets, and the text after it."""
    end = re.search(rf"<\s*{_END}\s*>", text)
    if end is None:
        raise ValueError(f"There is no <{_END}>. Is it a TNTP file?")
    pairs = re.findall(r"^\s*<([^>]*)>(.*)$", text[: end.start()], re.MULTILINE)
    return {name.strip().upper(): value.strip() for name, value in pairs}, text[end.end() :]


def _count(metadata: dict[str, str], name: str) -> int:
    if name not in metadata:
        raise ValueError(f"The metadata have no <{name}>.")
    if not re.fullmatch(r"\d{1,15}", metadata[name]):
        raise ValueError(f"<{name}> must be a whole number, but is {metadata[name]!r:.60}.")
    return int(metadata[name])


def _arcs(body: str, first_line: int) -> "pd.DataFrame":
    import pandas as pd

    names, rows = None, []
    for number, line in enumerate(body.splitlines(), first_line):
        cells = line.strip().rstrip(";").split()
        if line.lstrip().startswith("~"):
            names = [name.lower() for name in line.strip().strip("~;").split()] if names is None else names
        elif cells:
            rows.append((number, cells))
    names = names or _COLUMNS
    if not {"init_node", "term_node"} <= set(names):
        names = _COLUMNS
    if len(set(names)) < len(names):
        raise ValueError(f"The heading must name each column once, but is {' '.join(names)}.")
    if not rows:
        raise ValueError("The file has no rows of links.")
    for number, cells in rows:
        if len(cells) != len(names):
            raise ValueError(f"Line {number} must have {len(names)} cells ({', '.join(names)}), but has {len(cells)}.")
    frame = pd.DataFrame(_numbers(rows, "line"), columns=names)
    for name in ("init_node", "term_node"):
        frame[name] = _whole(frame[name].to_numpy(), name)
    return frame


def _numbers(rows: list[tuple[int, list[str]]], unit: str) -> np.ndarray:
    try:
        table = np.array([cells for _, cells in rows], dtype=np.float64)
    except ValueError:
        number, cell = next((number, cell) for number, cells in rows for cell in cells if not _is_number(cell))
        raise ValueError(f"All cells must be numbers, but {unit} {number} has {cell!r:.60}.") from None
    strange = ~np.isfinite(table).all(axis=1)
    if strange.any():
        raise ValueError(
            f"All cells must be finite numbers, but not all in {unit} {rows[int(np.argmax(strange))][0]} are."
        )
    return table


def _whole(values: np.ndarray, name: str) -> np.ndarray:
    wrong = (values != np.round(values)) | (np.abs(values) > 2**53)
    if wrong.any():
        raise ValueError(f"`{name}` must be whole numbers, but one is {values[int(np.argmax(wrong))]}.")
    return values.astype(np.int64)


def _flows(body: str) -> "pd.DataFrame":
    import pandas as pd

    body = re.sub(r"~.*", "", body)
    pieces = _ORIGIN.split(body)
    if pieces[0].strip() or len(pieces) < 3:
        raise ValueError(f"Trips must start with `Origin` and a zone, but start with {pieces[0].strip()[:40]!r}.")
    origins, destinations, flows = [], [], []
    for name, block in zip(pieces[1::2], pieces[2::2], strict=True):
        if not re.fullmatch(r"\d{1,15}", name.strip()):
            raise ValueError(f"`Origin` must be followed by the number of a zone, but is by {name.strip()!r:.60}.")
        rest = _PAIR.sub("", block).strip()
        if rest:
            raise ValueError(f"Origin {name.strip()} must have pairs `zone : flow;`, but has {rest[:40]!r}.")
        found = _PAIR.findall(block)
        origins += [int(name)] * len(found)
        destinations += [int(zone) for zone, _ in found]
        flows += [_float(flow, f"The flow from {name.strip()} to {zone}") for zone, flow in found]
    frame = pd.DataFrame({"origin": origins, "destination": destinations, "flow": flows})
    if not len(frame):
        raise ValueError("The file has no trips.")
    repeated = frame.duplicated(["origin", "destination"]).to_numpy()
    if repeated.any():
        row = frame.iloc[int(np.argmax(repeated))]
        raise ValueError(
            f"Each pair of zones may have one flow, but {row.origin:g} to {row.destination:g} has several."
        )
    return frame


def _float(text: str, what: str) -> float:
    if not _is_number(text) or not 0 <= float(text) < np.inf:
        raise ValueError(f"{what} must be a number from 0 on, but is {text!r:.60}.")
    return float(text)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
