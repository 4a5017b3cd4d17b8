"""Attributes of turns from one link to the next."""

from typing import TYPE_CHECKING

import numpy as np

from irlax.typing import Bool, Float, Int

if TYPE_CHECKING:
    from irlax.routes.network import Network

#: Below this a turn is straight on, and above the second it is a U-turn: Fosgerau, Frejinger and Karlström (2013).
STRAIGHT = np.deg2rad(40.0)
BACK = np.deg2rad(177.0)


def turn_attributes(
    net: "Network",
    before: Int[np.ndarray, " M"],
    after: Int[np.ndarray, " M"],
    back: Bool[np.ndarray, " M"],
    *,
    lonlat: bool,
) -> dict[str, Float[np.ndarray, " M"]]:
    """`turns` and `uturn` of each pair of links; with coordinates also `angle`, `left`, `right` and `straight`.

    `back` says which turns lead to the node that one came from.
    """
    ones = np.ones(len(before))
    if net.coordinates is None:
        return {"turns": ones, "uturn": back.astype(float)}
    direction = _directions(net, net.coordinates, lonlat=lonlat)
    # Back along the same line the sign is a matter of rounding.
    angle = np.where(back, np.pi, turn_angles(direction[before], direction[after]))
    uturn = back | (np.abs(angle) > BACK)
    left, right = ~uturn & (angle >= STRAIGHT), ~uturn & (angle <= -STRAIGHT)
    straight = ~(uturn | left | right)
    kinds = {"uturn": uturn, "left": left, "right": right, "straight": straight}
    return {"turns": ones, "angle": angle} | {name: kind.astype(float) for name, kind in kinds.items()}


def turn_angles(before: Float[np.ndarray, "M 2"], after: Float[np.ndarray, "M 2"]) -> Float[np.ndarray, " M"]:
    """The angle from one direction to the other, in (−π, π], positive to the left: atan2(u × v, u · v).

    0 where one of them has no length.
    """
    across = before[:, 0] * after[:, 1] - before[:, 1] * after[:, 0]
    return np.arctan2(across, (before * after).sum(axis=1))


def _directions(net: "Network", places: Float[np.ndarray, "S 2"], *, lonlat: bool) -> Float[np.ndarray, "E 2"]:
    """Where each link leads, in units that are the same in x and in y, scaled to at most length 1."""
    step = places[net.head] - places[net.tail]
    if lonlat:
        latitude = np.deg2rad((places[net.head, 1] + places[net.tail, 1]) / 2)
        step = step * np.stack([np.cos(latitude), np.ones(len(step))], axis=1)
    length = np.linalg.norm(step, axis=1, keepdims=True)
    return np.divide(step, length, where=length > 0, out=np.zeros_like(step))
