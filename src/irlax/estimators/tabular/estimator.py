"""The base class of the tabular estimators."""

import abc
from typing import Any

import equinox as eqx

from irlax.estimators.tabular.expert import Start


class AbstractTabularIRL(eqx.Module):
    """An estimator of rewards where the dynamics are known: frozen settings, and a method `fit`."""

    #: The start distribution of the model: that of the demonstrations, if there are any ("auto", "demos"), or the
    #: MDP's.
    start: eqx.AbstractVar[Start]
    #: Whether to show a progress bar; None shows one on terminals only.
    progress: eqx.AbstractVar[bool | None]

    @property
    @abc.abstractmethod
    def maximises_likelihood(self) -> bool:
        """Whether estimates are those of maximum likelihood, every observed choice counted once.

        These have standard errors, likelihood-ratio tests and information criteria.
        """

    @abc.abstractmethod
    def settings(self) -> list[tuple[str, Any]]:
        """The settings that a summary prints, as names with values."""
