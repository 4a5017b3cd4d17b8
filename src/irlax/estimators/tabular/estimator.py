"""What the tabular estimators have in common."""

import abc
from typing import Any

import equinox as eqx

from irlax.estimators.tabular.expert import Start


class AbstractTabularIRL(eqx.Module):
    """A frozen estimator of rewards where the dynamics are known: settings, and `fit`."""

    #: Where the model starts: where the demonstrations do, when there are any ("auto", "demos"), or as the MDP does.
    start: eqx.AbstractVar[Start]
    #: None shows a progress bar on terminals only.
    progress: eqx.AbstractVar[bool | None]

    @property
    @abc.abstractmethod
    def maximises_likelihood(self) -> bool:
        """Whether estimates are those of maximum likelihood, every observed choice counted once.

        These have standard errors, likelihood-ratio tests and information criteria.
        """

    @abc.abstractmethod
    def settings(self) -> list[tuple[str, Any]]:
        """What a summary says of the estimator, by name."""
