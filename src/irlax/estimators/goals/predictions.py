"""Numbers that follow from estimated parameters, with standard errors by the delta method."""

from collections.abc import Hashable
from typing import Any, NamedTuple

import equinox as eqx
import numpy as np

from irlax import checks
from irlax.analysis.standard_errors import confidence_interval
from irlax.tables import AbstractTabulated, Table
from irlax.typing import Bool, Float

#: A prediction depends on an unidentified direction if it changes along it by more than this share of its slope.
NEGLIGIBLE = 1e-7


class Uncertainty(eqx.Module):
    """What the delta method needs of a fit: the estimates, their covariance, and what the data do not identify."""

    names: tuple[str, ...] = eqx.field(static=True)
    estimates: Float[np.ndarray, " K"]
    covariance: Float[np.ndarray, "K K"]
    #: Directions of the parameters without a standard error, of length 1.
    unidentified: Float[np.ndarray, "u K"]

    def standard_errors(self, slopes: Float[np.ndarray, "n K"]) -> Float[np.ndarray, " n"]:
        r"""$\sqrt{g^\top \Sigma g}$ for each slope g; NaN along directions that are not identified."""
        variance = np.einsum("nk,kl,nl->n", slopes, self.covariance, slopes)
        sizes = np.linalg.norm(slopes, axis=1, keepdims=True)
        lost = (np.abs(slopes @ self.unidentified.T) > NEGLIGIBLE * sizes).any(axis=1)
        return np.where(lost, np.nan, np.sqrt(np.maximum(variance, 0.0)))


class Predictions(AbstractTabulated):
    r"""Numbers $f_i(\hat\beta)$ of a fit, with $\text{s.e.}^2 = \nabla f_i^\top\,\Sigma\,\nabla f_i$.

    Their slopes are kept, so that differences and sums of predictions of one fit have the right standard errors:
    what they have in common cancels.
    """

    what: str = eqx.field(static=True)
    #: By keys predictions are matched with others; labels are for tables.
    keys: tuple[Hashable, ...] = eqx.field(static=True, repr=False)
    labels: tuple[str, ...] = eqx.field(static=True, repr=False)
    estimate: Float[np.ndarray, " n"]
    #: ∂f/∂β; None where the fit has no standard errors.
    slopes: Float[np.ndarray, "n K"] | None = eqx.field(repr=False)
    uncertainty: Uncertainty | None = eqx.field(repr=False)
    level: float = eqx.field(static=True, default=0.95)
    #: Whether what is missing in one of two predictions is 0 there, as the flow on a road that is closed.
    absent_is_zero: bool = eqx.field(static=True, default=False)

    def __check_init__(self) -> None:
        if not 0 < self.level < 1:
            raise ValueError(f"`level` must lie between 0 and 1, but is {self.level}.")

    def __len__(self) -> int:
        return len(self.estimate)

    @property
    def standard_error(self) -> Float[np.ndarray, " n"]:
        """By the delta method; NaN where the fit has none, or where a number depends on what is not identified."""
        if self.slopes is None or self.uncertainty is None:
            return np.full(len(self), np.nan)
        return self.uncertainty.standard_errors(self.slopes)

    @property
    def interval(self) -> Float[np.ndarray, "n 2"]:
        """Estimate ± z·standard error."""
        return confidence_interval(self.estimate, self.standard_error, self.level)

    @property
    def log_interval(self) -> Float[np.ndarray, "n 2"]:
        """Estimate · exp(±z·standard error / |estimate|): for numbers that keep their sign, however small they are.

        Flows do, and what a closed road costs; for these it covers better than `interval` where the standard error is
        not small beside the estimate.
        """
        size = np.abs(self.estimate)
        ratio = np.divide(self.standard_error, size, out=np.full_like(size, np.nan), where=size > 0)
        factors = np.exp(confidence_interval(np.zeros_like(size), ratio, self.level))
        return np.sort(self.estimate[:, None] * factors, axis=1)

    def minus(self, other: "Predictions") -> "Predictions":
        """The differences from other predictions of the same fit, matched by key, with their standard errors."""
        self._refuse_other_fit(other)
        mine, others = _places(self.keys), _places(other.keys)
        keys = (*self.keys, *(key for key in other.keys if key not in mine))
        if not self.absent_is_zero and len(keys) + len(keys) != len(self) + len(other):
            raise ValueError(
                f"Both predictions must be of the same things, but these are {len(self)} and {len(other)}."
            )
        _refuse_ambiguous(self.keys, other.keys)
        left = np.array([mine.get(key, -1) for key in keys], int)
        right = np.array([others.get(key, -1) for key in keys], int)
        labels = (*self.labels, *(other.labels[others[key]] for key in keys[len(self) :]))
        slopes = None
        if self.slopes is not None and other.slopes is not None:
            slopes = _at(self.slopes, left) - _at(other.slopes, right)
        return Predictions(
            f"{self.what}, difference",
            keys,
            labels,
            _at(self.estimate, left) - _at(other.estimate, right),
            slopes,
            self.uncertainty,
            self.level,
            self.absent_is_zero,
        )

    def total(self, weights: Any = None) -> "Predictions":
        """Their sum, by weights, as one prediction."""
        weights = np.ones(len(self)) if weights is None else checks.as_floats("weights", weights)
        checks.has_shape("weights", weights, (len(self),), "one for each prediction")
        slopes = None if self.slopes is None else (weights @ self.slopes)[None]
        sums = np.array([weights @ self.estimate])
        return self._replaced(f"{self.what}, total", ("total",), ("total",), sums, slopes)

    def select(self, mask: Bool[np.ndarray, " n"]) -> "Predictions":
        """Those where the mask is true."""
        chosen = np.flatnonzero(mask)
        slopes = None if self.slopes is None else self.slopes[chosen]
        keys, labels = (tuple(names[i] for i in chosen) for names in (self.keys, self.labels))
        return self._replaced(self.what, keys, labels, self.estimate[chosen], slopes)

    def in_units_of(self, parameter: str) -> "Predictions":
        r"""Values in units of an attribute that costs: $f / (-\beta_k)$, minutes or money, say, instead of utility."""
        if self.uncertainty is None or self.uncertainty.names.count(parameter) != 1:
            known = () if self.uncertainty is None else self.uncertainty.names
            raise ValueError(f"`parameter` must be one of {checks.some(known) or 'none'}, but is {parameter!r}.")
        k = self.uncertainty.names.index(parameter)
        price = -float(self.uncertainty.estimates[k])
        slopes = None
        if self.slopes is not None:
            slopes = self.slopes / price
            slopes[:, k] += self.estimate / price**2
        return self._replaced(
            f"{self.what}, in units of {parameter}", self.keys, self.labels, self.estimate / price, slopes
        )

    def table(self, num: int | None = 20) -> Table:
        """The `num` largest by absolute value, largest first; all for None."""
        order = np.argsort(-np.abs(self.estimate), kind="stable")[:num]
        low, high = self.interval.T
        columns = ("", self.what, "s.e.", f"{self.level:.0%} from", "to")
        rows = [
            (self.labels[i], float(self.estimate[i]), float(error), float(low[i]), float(high[i]))
            for i, error in zip(order, self.standard_error[order], strict=True)
        ]
        return Table(columns, rows, title=f"{self.what}: the largest {len(rows)} of {len(self)}")

    def _shown(self) -> Table:
        return self.table()

    def _replaced(self, what: str, keys: Any, labels: Any, estimate: Any, slopes: Any) -> "Predictions":
        return Predictions(what, keys, labels, estimate, slopes, self.uncertainty, self.level, self.absent_is_zero)

    def _refuse_other_fit(self, other: "Predictions") -> None:
        if not isinstance(other, Predictions):
            raise TypeError(f"`other` must be Predictions of the same fit, but is a {type(other).__name__}.")
        mine, others = self.uncertainty, other.uncertainty
        if mine is None or others is None:
            return
        if mine.names != others.names or not np.array_equal(mine.estimates, others.estimates):
            raise ValueError("Both predictions must be of one fit, but their estimated parameters differ.")


class ArcKey(NamedTuple):
    """An arc, by the labels of its ends, its own name, and its number among arcs of which all these are equal."""

    tail: Any
    head: Any
    name: Any
    number: int


def _refuse_ambiguous(some: tuple[Hashable, ...], others: tuple[Hashable, ...]) -> None:
    """Raise a ValueError if parallel arcs without names are more in one network than in the other."""
    left, right = ({key for key in keys if isinstance(key, ArcKey)} for keys in (some, others))
    parallel = {key[:3] for key in left | right if key.number > 0}
    for key in left ^ right:
        if key[:3] in parallel:
            raise ValueError(
                f"Several arcs lead from state {key.tail!r} to {key.head!r}, not equally many in both networks, so "
                f"that it is not known which are the same. Give them names (`link=` of `Network.from_arcs`)."
            )


def _places(keys: tuple[Hashable, ...]) -> dict[Hashable, int]:
    return {key: i for i, key in enumerate(keys)}


def _at(array: np.ndarray, places: np.ndarray) -> np.ndarray:
    """Rows of an array, 0 for a place of −1."""
    return np.concatenate([array, np.zeros((1, *array.shape[1:]))])[places]
