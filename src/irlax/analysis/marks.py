"""Which parameters data identify, which only weakly, and which combinations they do identify, in words."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy.linalg import null_space

from irlax.analysis.identifiability import direction_text
from irlax.analysis.standard_errors import hidden, null_directions, weak_directions
from irlax.typing import Bool, Float

#: A parameter belongs to a direction if it has at least this share of the largest part in it, in standard errors.
SHARE = 0.3
#: Of combinations and directions at most this many are written out.
MOST = 5


class Marks(NamedTuple):
    """What the curvature of a likelihood says about each parameter."""

    #: Of each parameter: "yes", "weakly" or "no".
    identified: tuple[str, ...]
    #: Identified combinations of the parameters that are not identified themselves.
    combinations: Float[np.ndarray, "c K"]
    #: Sentences for the notes of a table.
    notes: tuple[str, ...]

    @property
    def all_identified(self) -> bool:
        """Whether every parameter is identified, and none weakly."""
        return set(self.identified) <= {"yes"}


def marks_of(hessian: Float[np.ndarray, "K K"], names: Sequence[str]) -> Marks:
    """The marks of parameters, given minus the Hessian of their log likelihood."""
    unknown, null = hidden(hessian), null_directions(hessian)
    weak = weak_directions(hessian)
    part = np.abs(weak.by_parameter)
    weakly = (part >= SHARE * part.max(axis=1, keepdims=True, initial=1e-300)).any(axis=0) & ~unknown
    identified = tuple(np.select([unknown, weakly], ["no", "weakly"], "yes").tolist())
    combinations = _identified_combinations(null, unknown)
    notes = [
        f"Not identified: {direction_text(direction, names)} can be added in any amount and changes no choice."
        for direction in null[:MOST]
    ]
    if len(null) > MOST:
        notes.append(f"Not identified: {len(null) - MOST} more directions; see `fit.identification()`.")
    if len(null):
        shown = [direction_text(row, names) for row in combinations[:MOST]]
        more = f" and {len(combinations) - MOST} more" if len(combinations) > MOST else ""
        notes.append(f"Identified instead: {', '.join(shown)}{more}." if shown else "Nothing of these is identified.")
    notes += [
        f"Weakly identified: {direction_text(direction, names)}; the standard error along it is {ratio:.0f} times what "
        f"it would be if the other parameters were known."
        for direction, ratio in zip(weak.directions[:MOST], weak.inflation, strict=False)
    ]
    return Marks(identified, combinations, tuple(notes))


def _identified_combinations(
    null: Float[np.ndarray, "n K"], unknown: Bool[np.ndarray, " K"]
) -> Float[np.ndarray, "c K"]:
    """A basis of the combinations that no null direction changes, with as few parameters in each as possible."""
    if not len(null):
        return np.zeros((0, len(unknown)))
    inner = _reduced(null_space(null[:, unknown]).T)
    found = np.zeros((len(inner), len(unknown)))
    found[:, unknown] = inner
    return found


def _reduced(rows: Float[np.ndarray, "c m"]) -> Float[np.ndarray, "c m"]:
    """The reduced row echelon form of independent rows."""
    rows = np.array(rows)
    done = 0
    for column in range(rows.shape[1]):
        if done == len(rows):
            break
        pivot = done + int(np.argmax(np.abs(rows[done:, column])))
        if abs(rows[pivot, column]) < 1e-8:
            continue
        rows[[done, pivot]] = rows[[pivot, done]]
        rows[done] /= rows[done, column]
        others = np.arange(len(rows)) != done
        rows[others] -= np.outer(rows[others, column], rows[done])
        done += 1
    return np.where(np.abs(rows) < 1e-9, 0.0, rows)
