"""What every estimator returns."""

import abc
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import equinox as eqx

from irlax.demos import Demonstrations
from irlax.iteration import History
from irlax.notebook_html import framed
from irlax.report.html import Page
from irlax.status import Status
from irlax.tables import Summary


class Fit(eqx.Module):
    """The result of an estimator: what made it, how it ended, and what it found; all of one iterate."""

    #: The estimator as it was called.
    estimator: eqx.AbstractVar[Any]
    status: eqx.AbstractVar[Status]
    history: eqx.AbstractVar[History]
    seconds: eqx.AbstractVar[float]

    @property
    def method(self) -> str:
        """The name of the estimator."""
        return type(self.estimator).__name__

    @property
    def converged(self) -> bool:
        """Whether the fit ended in success; `status` says how."""
        return self.status.success

    @property
    @abc.abstractmethod
    def iterations(self) -> int:
        """Steps that were taken: of a solver, or rounds of acting and learning."""

    @abc.abstractmethod
    def summary(self) -> Summary:
        """The tables that a paper would print."""

    @abc.abstractmethod
    def describe(self) -> dict[str, Any]:
        """What the summary says, as plain values under fixed names, for machines."""

    @abc.abstractmethod
    def score(self, demos: Demonstrations) -> float:
        """The log likelihood of other demonstrations, mean over their choices."""

    @abc.abstractmethod
    def plot(self) -> Any:
        """What was found, as a matplotlib figure."""

    @abc.abstractmethod
    def page(self) -> Page:
        """The report on the fit, as one HTML page."""

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the fit as a folder that `irlax.load` reads; nothing in it can run code."""
        from irlax.estimators.store import save

        return save(self, path)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.method}: {self.status.value})"

    def _repr_html_(self) -> str:
        """The summary, as notebooks show it."""
        return framed(self.summary().to_html(), title=self.method, text=self.status.value)


class RewardFit(Fit):
    """A fit whose result is one reward, with the policy that goes with it."""

    # To a type checker an abstract variable is an argument of the constructor, also where a property stands for it.
    if not TYPE_CHECKING:
        #: The learned reward: an `AbstractReward` where the dynamics are known, else an `AbstractObservedReward`.
        reward: eqx.AbstractVar[Any]
        #: The policy under the learned reward.
        policy: eqx.AbstractVar[Any]


def ending(fit: Fit) -> dict[str, Any]:
    """How a fit ended, for `describe`: the same for all."""
    return {
        "method": fit.method,
        "status": fit.status.name.lower(),
        "converged": fit.converged,
        "message": fit.status.value,
    }
