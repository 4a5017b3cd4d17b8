"""Dynamics with parameters of their own, which are estimated together with those of the reward."""

from collections.abc import Callable, Sequence
from typing import Any

import equinox as eqx

from irlax import checks
from irlax.mdp.dynamics import AbstractDynamics
from irlax.typing import Array, Float


class Nature(eqx.Module):
    """Transition probabilities P_ψ(s'|s,a) at an estimate of ψ, [J], and the likelihood of observed transitions.

    `dynamics` maps ψ to dynamics and `log_density` maps it to the log probability of the random outcome that followed
    each observed choice, [n]; both are differentiated. Without `log_density` the outcomes are the observed next states.
    ψ must be free: of probabilities that sum to 1, leave one out. Functions that are `eqx.Module`s with
    a `__call__` are compiled once for all of their arrays; others once each.

    `names` label ψ in tables.
    """

    parameters: Float[Array, " J"]
    dynamics: Callable[[Any], AbstractDynamics]
    log_density: Callable[[Any], Any] | None
    names: tuple[str, ...] = eqx.field(static=True)

    def __init__(
        self,
        parameters: Any,
        dynamics: Callable[[Any], AbstractDynamics],
        log_density: Callable[[Any], Any] | None = None,
        *,
        names: Sequence[str] | None = None,
    ) -> None:
        parameters = checks.as_floats("parameters", parameters)
        checks.has_shape("parameters", parameters, (None,), "(J,)")
        checks.finite("parameters", parameters)
        for name, function in (("dynamics", dynamics), ("log_density", log_density)):
            if not callable(function) and function is not None:
                raise TypeError(f"`{name}` must be a function of the parameters, but is a {type(function).__name__}.")
        if names is not None and len(names) != len(parameters):
            raise ValueError(f"`names` must name each of the {len(parameters)} parameters, but there are {len(names)}.")
        self.parameters = parameters
        self.dynamics = dynamics
        self.log_density = log_density
        self.names = tuple(f"ψ{j}" for j in range(len(parameters))) if names is None else tuple(map(str, names))
