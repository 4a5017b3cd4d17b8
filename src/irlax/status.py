"""How a fit ended, and the warnings that go with it."""

import enum

from irlax.registry import stored
from irlax.user_warnings import warn_user


@stored("status")
class Status(enum.Enum):
    """How a fit ended. The value completes the sentence "The fit …" in messages."""

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


#: The statuses that are not a success.
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


def warn_unless_success(status: Status, detail: str = "") -> None:
    """Warn unless the status is a success; `detail` says what to do."""
    if not status.success:
        warn_user(f"The fit {status.value}. {detail}".strip(), UnfinishedWarning)
