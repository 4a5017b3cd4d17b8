"""State variables of a panel: how values become levels, and which value a level has in a formula."""

import abc
from collections.abc import Callable, Sequence
from typing import Any

import equinox as eqx
import numpy as np

from irlax import checks
from irlax.typing import Float, Int, Shaped

#: A variable of numbers with more levels than this is taken to be continuous, and needs bins.
MOST_LEVELS = 1000
#: The same for numbers that are not whole.
MOST_FRACTIONS = 100


class AbstractLevels(eqx.Module):
    """How the values of a column become levels 0, 1, 2, …."""

    @abc.abstractmethod
    def edges(self, name: str, values: Float[np.ndarray, " n"]) -> Float[np.ndarray, " E"]:
        """Where each bin begins, and where the last one ends."""


class Quantiles(AbstractLevels):
    """`num` bins with about as many rows in each; fewer where many rows have one value."""

    num: int

    def __check_init__(self) -> None:
        checks.count("num", self.num, 2)

    def edges(self, name: str, values: Float[np.ndarray, " n"]) -> Float[np.ndarray, " E"]:
        found = np.unique(np.quantile(values, np.linspace(0, 1, self.num + 1)))
        return found if len(found) > 1 else np.array([found[0], np.nextafter(found[0], np.inf)])


class Edges(AbstractLevels):
    """Bins [e₀, e₁), [e₁, e₂), …, of which the last includes its end; −inf and inf may be the outer edges."""

    values: tuple[Any, ...] = eqx.field(converter=lambda values: tuple(np.ravel(values).tolist()))

    def __check_init__(self) -> None:
        array = checks.as_floats("edges", self.values)
        if len(array) < 2 or not (np.diff(array) > 0).all():
            raise ValueError(f"`edges` must be at least two numbers, each above the one before, but are {self.values}.")

    def edges(self, name: str, values: Float[np.ndarray, " n"]) -> Float[np.ndarray, " E"]:
        found = np.array(self.values, np.float64)
        outside = (values < found[0]) | (values > found[-1])
        if outside.any():
            row = int(np.argmax(outside))
            raise ValueError(
                f"Column `{name}` must lie between the first and the last edge, {found[0]:g} and {found[-1]:g}, but "
                f"row {row} has {values[row]:g}. Widen the edges; −inf and inf may be the outer ones."
            )
        return found


class Levels(eqx.Module):
    """The values that a variable can take, in their order, whether they were observed or not."""

    values: tuple[Any, ...] = eqx.field(converter=tuple)

    def __check_init__(self) -> None:
        if len(set(self.values)) < max(len(self.values), 1):
            raise ValueError("`Levels` must list at least one value, and each once.")


#: Levels as they are found, bins, given values, or a function from the column to the level of each row.
Discretisation = AbstractLevels | Levels | Callable[[Any], Any] | None


class Variable(eqx.Module):
    """A variable with levels, as a panel found it."""

    name: str
    labels: tuple[str, ...]
    #: The value of each level in formulae; None if it has no number, so that formulae see its label.
    values: Float[np.ndarray, " L"] | None
    #: How values became levels, for the overview of the panel.
    how: str

    #: Whether several values were made one level, by bins or by a function.
    is_coarse: bool = False

    @property
    def num(self) -> int:
        """L."""
        return len(self.labels)

    def column(self, codes: Int[np.ndarray, " m"]) -> Any:
        """What formulae see of the variable: numbers, or text with all levels as categories."""
        import pandas as pd

        return pd.Categorical.from_codes(codes, list(self.labels)) if self.values is None else self.values[codes]

    def level(self, value: Any) -> int:
        """The level of a value that a user named, or an error."""
        if str(value) in self.labels:
            return self.labels.index(str(value))
        if self.values is not None and isinstance(value, (int, float, np.number)) and value in self.values:
            return int(np.argmax(self.values == value))
        raise ValueError(f"`{self.name}` must be one of {checks.some(self.labels)}, but {value!r} was named.")


def find_levels(
    name: str,
    column: Shaped[np.ndarray, " n"],
    how: Discretisation,
    *,
    filled: bool = False,
    order: Sequence[str] | None = None,
) -> tuple[Variable, Int[np.ndarray, " n"]]:
    """The variable of a column without missing values, and the level of each row.

    With `filled`, whole numbers between the smallest and the largest are levels too. `order` is that of text.
    """
    import pandas as pd

    if isinstance(how, AbstractLevels):
        return _binned(name, column, how)
    if isinstance(how, Levels):
        return _given(name, column, how.values)
    if how is not None:
        return _by_function(name, column, how)
    if column.dtype.kind == "b":
        return Variable(name, ("False", "True"), np.array([0.0, 1.0]), "false or true"), column.astype(np.int64)
    if column.dtype.kind not in "iuf":
        codes, labels = pd.factorize(column, sort=True)
        if order is not None:
            ranks = [order.index(label) for label in labels.tolist()]
            codes, labels = np.argsort(np.argsort(ranks))[codes], labels[np.argsort(ranks)]
        return Variable(name, tuple(map(str, labels)), None, f"{len(labels)} categories"), codes
    values, codes = np.unique(column, return_inverse=True)
    whole = bool((values == np.round(values)).all())
    most = MOST_LEVELS if whole else MOST_FRACTIONS
    if len(values) > most:
        raise ValueError(
            f"Column `{name}` has {len(values):,} different values, so it is continuous, and needs bins: "
            f"state={{{name!r}: ix.panels.Quantiles(20)}}, or `Edges([...])`, or a function of the column."
        )
    if filled and whole and np.ptp(values) < MOST_LEVELS:
        levels = np.arange(values[0], values[-1] + 1)
        return _numbers(name, levels, f"{len(levels)} whole numbers"), (column - values[0]).astype(np.int64)
    return _numbers(name, values, f"{len(values)} {'whole ' if whole else ''}numbers"), codes.ravel()


def _numbers(name: str, values: np.ndarray, how: str) -> Variable:
    return Variable(name, tuple(f"{value:.10g}" for value in values), values.astype(np.float64), how)


def _refuse_text(name: str, column: np.ndarray) -> Float[np.ndarray, " n"]:
    if column.dtype.kind not in "biuf":
        raise TypeError(f"Bins are for numbers, but column `{name}` holds text, such as {str(column[0])!r:.60}.")
    return column.astype(np.float64)


def _binned(name: str, column: np.ndarray, how: AbstractLevels) -> tuple[Variable, Int[np.ndarray, " n"]]:
    values = _refuse_text(name, column)
    edges = how.edges(name, values)
    codes = np.clip(np.searchsorted(edges, values, side="right") - 1, 0, len(edges) - 2)
    num = np.bincount(codes, minlength=len(edges) - 1)
    # A bin without rows has no mean; its middle stands for it, or the end that is finite.
    ends = np.where(np.isfinite(edges), edges, np.nan)
    middle = np.nan_to_num(np.nanmean(np.stack([ends[:-1], ends[1:]]), axis=0))
    mean = np.bincount(codes, weights=values, minlength=len(num)) / np.maximum(num, 1)
    closing = [")"] * (len(num) - 1) + ["]"]
    labels = [f"[{a:.6g}, {b:.6g}{end}" for a, b, end in zip(edges[:-1], edges[1:], closing, strict=True)]
    if len(set(labels)) < len(labels):
        labels = [f"[{a:.17g}, {b:.17g}{end}" for a, b, end in zip(edges[:-1], edges[1:], closing, strict=True)]
    kind = "quantiles" if isinstance(how, Quantiles) else "given edges"
    text = f"{len(num)} bins by {kind}; in formulae a bin has the mean of its rows"
    return Variable(name, tuple(labels), np.where(num > 0, mean, middle), text, is_coarse=True), codes


def _given(name: str, column: np.ndarray, values: Sequence[Any]) -> tuple[Variable, Int[np.ndarray, " n"]]:
    import pandas as pd

    numbers = all(isinstance(value, (bool, int, float, np.number, np.bool_)) for value in values)
    if numbers != (column.dtype.kind in "biuf"):
        raise TypeError(f"`Levels` of `{name}` must be {'text' if numbers else 'numbers'}, as its column holds.")
    listed = np.array(values, np.float64) if numbers else np.array([str(value) for value in values])
    codes = pd.Index(listed).get_indexer(column.astype(np.float64) if numbers else column)
    if (codes < 0).any():
        row = int(np.argmax(codes < 0))
        raise ValueError(
            f"Column `{name}` must hold values that `Levels` lists, but row {row} has {column[row]!s:.60}. List it too."
        )
    how = f"{len(values)} given levels"
    return (_numbers(name, listed, how) if numbers else Variable(name, tuple(listed.tolist()), None, how)), codes


def _by_function(name: str, column: np.ndarray, how: Callable[[Any], Any]) -> tuple[Variable, Int[np.ndarray, " n"]]:
    if not callable(how):
        raise TypeError(
            f"The levels of `{name}` must be Quantiles(...), Edges(...), Levels(...), a function or None, but are a "
            f"{type(how).__name__}."
        )
    found = np.asarray(how(column))
    checks.has_shape(f"the function for {name!r}", found, column.shape, "a level for each row")
    if found.dtype.kind not in "biufUSO" or (found.dtype.kind == "f" and not np.isfinite(found).all()):
        raise ValueError(f"The function for `{name}` must give numbers or text without missing values.")
    levels, codes = np.unique(found.astype(str) if found.dtype.kind == "O" else found, return_inverse=True)
    codes, text = codes.ravel(), f"{len(levels)} levels by a function"
    if column.dtype.kind not in "biuf":
        return Variable(name, tuple(map(str, levels)), None, text, is_coarse=True), codes
    mean = np.bincount(codes, weights=column.astype(np.float64)) / np.bincount(codes)
    text += "; in formulae a level has the mean of its rows"
    return Variable(name, tuple(map(str, levels)), mean, text, is_coarse=True), codes
