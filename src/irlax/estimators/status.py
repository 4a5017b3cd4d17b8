"""What every estimator's result promises."""

import enum
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from irlax.rewards import AbstractReward
from irlax.tables import Summary
from irlax.user_warnings import warn_user


class Status(enum.Enum):
    """How a fit ended. The value is what a reader is told."""

    CONVERGED = "converged"
    ROUNDING_FLOOR = "converged to the rounding floor: float64 shows nothing left to gain"
    PLATEAU = "stopped on a plateau: no step along the gradient lowers the loss"
    SAMPLED = "sampled to the end"
    STEPS_TAKEN = "took the steps that were asked for, and ended near the maximum of the likelihood"
    FAR_BELOW = "took the steps that were asked for, but ended far below the maximum of the likelihood"
    TRAINED = "took the gradient steps that were asked for; no certificate"
    MAX_STEPS = "stopped at the limit of steps before converging"
    STALLED = "stalled before converging"
    UNCERTAIN = "stopped where the gradient is within the tolerance, but whether a finite optimum exists is not known"
    UNBOUNDED = "has no finite optimum: the demonstrations lie on the boundary of what policies can do"
    INTERRUPTED = "was interrupted: unfinished"

    @property
    def success(self) -> bool:
        """Whether the result may be used as an optimum."""
        return self not in UNFINISHED


#: Ends that are no success.
UNFINISHED = (
    Status.FAR_BELOW,
    Status.MAX_STEPS,
    Status.STALLED,
    Status.UNCERTAIN,
    Status.UNBOUNDED,
    Status.INTERRUPTED,
)


class UnfinishedWarning(UserWarning):
    """A fit did not end in success."""


class NotIdentifiedWarning(UserWarning):
    """An answer depends on what the data do not identify."""


@runtime_checkable
class Fit(Protocol):
    """A learned reward, the policy that goes with it, and what is known about both; all of one iterate."""

    @property
    def reward(self) -> AbstractReward:
        """The learned reward."""
        ...

    @property
    def policy(self) -> Any:
        """The policy under the learned reward."""
        ...

    @property
    def status(self) -> Status:
        """How the fit ended."""
        ...

    @property
    def converged(self) -> bool:
        """Whether it ended in success."""
        ...

    def summary(self) -> Summary:
        """What a paper would print."""
        ...

    def save(self, path: str | Path) -> Path:
        """Write the fit where `irlax.load` finds it."""
        ...


def complain(status: Status, detail: str = "") -> None:
    """A warning for every end that is not a success: never silent."""
    if not status.success:
        warn_user(f"The fit {status.value}. {detail}".strip(), UnfinishedWarning)
