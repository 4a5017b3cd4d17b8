"""GeoJSON (RFC 7946): lines as arcs, points as nodes."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from irlax import storage
from irlax.routes.network import Network

if TYPE_CHECKING:
    import pandas as pd

_KIND = "GeoJSON"


def read_lines(path: Path, tail: str, head: str, *, nodes: Any, link: str | None, zones: Any) -> Network:
    """A network from a file of lines, each one arc in the direction in which it is drawn."""
    return from_features(_features(path), tail, head, nodes=nodes, link=link, zones=zones)


def from_features(features: list[Any], tail: str, head: str, *, nodes: Any, link: str | None, zones: Any) -> Network:
    """A network from GeoJSON features.

    The properties called `tail` and `head` are the labels of the nodes; where no feature has them, the end points of
    the lines are, as (x, y). Coordinates are those of the end points, unless `nodes` gives others.
    """
    import pandas as pd

    lines = [_line(i, feature) for i, feature in enumerate(features)]
    properties = [_properties(i, feature) for i, feature in enumerate(features)]
    frame = pd.DataFrame(properties, index=range(len(lines)))
    first, last = [line[0] for line in lines], [line[-1] for line in lines]
    if tail not in frame.columns and head not in frame.columns:
        frame[tail], frame[head] = pd.Series(first, dtype=object), pd.Series(last, dtype=object)
    if nodes is None and {tail, head} <= set(frame.columns):
        labels = [*frame[tail].tolist(), *frame[head].tolist()]
        # The first point of a label counts: later ones may differ by rounding.
        keys = zip(reversed(labels), reversed(first + last), strict=True)
        nodes = {label: point for label, point in keys if _is_label(label)}
    return Network.from_arcs(frame, tail, head, nodes=nodes, link=link, zones=zones)


def read_points(path: Path) -> "pd.DataFrame":
    """Coordinates from a file of points with a property `id`: a frame with x and y, indexed by it."""
    import pandas as pd

    features = _features(path)
    places, names = [], []
    for i, feature in enumerate(features):
        properties = _properties(i, feature)
        if "id" not in properties:
            raise ValueError(f"{path}: every point must have a property `id`, but feature {i} has none.")
        geometry = feature.get("geometry")
        if not isinstance(geometry, dict) or geometry.get("type") != "Point":
            raise ValueError(f"{path}: nodes must be points, but feature {i} is not.")
        places.append(_point(i, geometry.get("coordinates")))
        names.append(properties["id"])
    if not all(map(_is_label, names)):
        raise ValueError(f"{path}: the property `id` must be a number or text in every feature.")
    return pd.DataFrame(np.array(places), index=pd.Index(names, tupleize_cols=False), columns=["x", "y"])


def _features(path: Path) -> list[Any]:
    with storage.unreadable(path, _KIND):
        content = json.loads(path.read_text(encoding="utf-8"))
    features = content.get("features") if isinstance(content, dict) else None
    if not isinstance(features, list) or not features:
        raise ValueError(f"{path} must be a FeatureCollection with at least one feature.")
    return features


def _properties(i: int, feature: Any) -> dict[str, Any]:
    properties = feature.get("properties") if isinstance(feature, dict) else None
    if properties is None and isinstance(feature, dict):
        return {}
    if not isinstance(properties, dict):
        raise ValueError(f"Feature {i} must have properties, by name, but has a {type(properties).__name__}.")
    return properties


def _line(i: int, feature: Any) -> list[tuple[float, float]]:
    """The points of a line, which may be a MultiLineString of one part."""
    geometry = feature.get("geometry") if isinstance(feature, dict) else None
    kind = geometry.get("type") if isinstance(geometry, dict) else None
    points = geometry.get("coordinates") if isinstance(geometry, dict) else None
    if kind == "MultiLineString" and isinstance(points, list) and len(points) == 1:
        kind, points = "LineString", points[0]
    if kind != "LineString" or not isinstance(points, list) or len(points) < 2:
        raise ValueError(
            f"Every feature must be a LineString of two points or more, but feature {i} is a {kind}. Split lines of "
            f"several parts first."
        )
    return [_point(i, points[0]), _point(i, points[-1])]


def _point(i: int, point: Any) -> tuple[float, float]:
    if (
        not isinstance(point, list)
        or len(point) < 2
        or any(isinstance(x, bool) or not isinstance(x, (int, float)) for x in point[:2])
    ):
        raise ValueError(f"The points of feature {i} must be pairs of numbers, but one is {point!r:.60}.")
    if not np.isfinite(point[:2]).all():
        raise ValueError(f"The points of feature {i} must be finite, but one is {point!r:.60}.")
    return float(point[0]), float(point[1])


def _is_label(label: Any) -> bool:
    return isinstance(label, (str, int, float, tuple)) and not isinstance(label, bool)
