"""Rust's (1987) bus engines: when to replace an engine whose cost grows with mileage."""

import functools
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from irlax import checks
from irlax.demos import Demonstrations
from irlax.mdp import MDP, Nature, Successors
from irlax.mdp.links import Links
from irlax.precision import scope
from irlax.rewards import LinearReward
from irlax.typing import Array, Float, Int

#: Stands for an increment that was not observed.
UNOBSERVED = -1


class BusPanel(eqx.Module):
    """Buses observed month by month: the bin of their mileage, whether the engine was replaced, and the increments.

    Row i of `increments` is by how many bins the mileage grew since the month before row i of `demos`, counted from 0
    after a replacement, or −1 where that was not observed. An episode of `demos` is a bus; its first month, of which
    no increment is known, is left out.
    """

    demos: Demonstrations
    increments: Int[np.ndarray, " n"]
    bins: int
    #: The group of each bus, where there are groups.
    groups: Int[np.ndarray, " N"] | None = None

    def __check_init__(self) -> None:
        checks.count("bins", self.bins, 2)
        checks.has_shape("increments", self.increments, (self.demos.num_steps,), "one for each observed choice")
        checks.in_range("states", self.demos.tabular_states, self.bins, "bins")
        checks.in_range("actions", self.demos.actions, 2, "keep and replace")
        if (self.increments < UNOBSERVED).any():
            raise ValueError("`increments` must not be negative, but for −1 where one was not observed.")

    @property
    def increment_counts(self) -> Float[np.ndarray, " J"]:
        """How often each increment, from 0 to the largest, was observed; buses count as often as their weight."""
        observed = self.increments >= 0
        if not observed.any():
            raise ValueError("No increment was observed, so their probabilities cannot be estimated.")
        weights = self.demos.choice_weights
        return np.bincount(self.increments[observed], weights=weights[observed])

    @property
    def increment_shares(self) -> Float[np.ndarray, " J"]:
        """The maximum likelihood estimate of the increments' probabilities: their relative frequencies."""
        counts = self.increment_counts
        return counts / counts.sum()


class BusEngine(eqx.Module):
    r"""Each month a bus is kept, at a cost that grows with its mileage, or gets a new engine.

    $$u(x, \text{keep}) = -c(x, \theta), \quad u(x, \text{replace}) = -RC - c(0, \theta), \quad
      c(x, \theta) = \theta \cdot \phi(x)$$

    Mileage is the number x of its bin, 0..bins−1, and grows by j bins with probability `increments[j]`; the last bin
    absorbs. A replacement puts the bus into bin 0, from where the same month's increment moves it on. The default
    cost is Rust's linear one, .001·θ₁₁·x; `cost` gives another: φ as an array [bins] or [bins, K], or as a
    function of x = 0..bins−1. `parameters` are (RC, θ), zero unless given; `names` label them.

    Rust (1987), "Optimal replacement of GMC bus engines".
    """

    increments: Float[np.ndarray, " J"]
    bins: int = eqx.field(static=True)
    discount: float = eqx.field(static=True)
    cost: Float[np.ndarray, "S K"]
    parameters: Float[np.ndarray, " K+1"]
    names: tuple[str, ...] = eqx.field(static=True)

    KEEP: ClassVar[int] = 0
    REPLACE: ClassVar[int] = 1
    action_names: ClassVar[tuple[str, ...]] = ("keep", "replace")

    def __init__(
        self,
        increments: Any,
        *,
        bins: int = 90,
        discount: float = 0.9999,
        cost: Any = None,
        parameters: Any = None,
        names: Sequence[str] | None = None,
    ) -> None:
        self.bins = checks.count("bins", bins, 2)
        self.increments = np.asarray(checks.probabilities("increments", increments))
        checks.has_shape("increments", self.increments, (None,), "one probability for 0, 1, 2, … bins")
        if not 1 <= len(self.increments) <= bins:
            raise ValueError(f"`increments` must be 1 to {bins} probabilities, but are {len(self.increments)}.")
        self.discount = checks.discount(discount)
        self.cost = _cost_features(cost, bins)
        num = 1 + self.cost.shape[1]
        self.parameters = np.zeros(num) if parameters is None else checks.as_floats("parameters", parameters)
        checks.has_shape("parameters", self.parameters, (num,), "RC and one for each feature of the cost")
        checks.finite("parameters", self.parameters)
        if names is not None and len(names) != num:
            raise ValueError(f"`names` must name RC and the {num - 1} parameters of the cost, but are {len(names)}.")
        numbered = ("RC", *(f"theta_1{k + 1}" for k in range(num - 1)))
        self.names = numbered if names is None else tuple(map(str, names))

    @classmethod
    def from_panel(cls, panel: BusPanel, **options: Any) -> "BusEngine":
        """The problem with the panel's bins, and increments as often as they occur in it; `options` as of the class."""
        return cls(panel.increment_shares, bins=panel.bins, **options)

    @functools.cached_property
    def mdp(self) -> MDP:
        """The MDP, without its reward; buses start new."""
        probs = np.broadcast_to(self.increments, (self.bins, 2, len(self.increments)))
        mdp = MDP.from_successors(self._after(), probs, np.eye(self.bins)[0], discount=self.discount)
        return mdp.labelled(states=[f"bin {x}" for x in range(self.bins)], actions=self.action_names, time_unit="month")

    @functools.cached_property
    def reward(self) -> LinearReward:
        """The reward to learn, at `parameters`."""
        features = np.zeros((self.bins, 2, len(self.parameters)))
        features[:, self.REPLACE, 0] = -1
        features[:, self.KEEP, 1:] = -self.cost
        features[:, self.REPLACE, 1:] = -self.cost[0]
        return LinearReward(features, self.parameters, names=self.names)

    def nature(self, panel: BusPanel) -> Nature:
        """The increments' probabilities, all but the last, as parameters estimated from `panel`."""
        if panel.bins != self.bins or len(panel.increment_counts) > len(self.increments):
            raise ValueError("The panel has other bins, or larger increments, than this problem: use `from_panel`.")
        with scope():
            after = jnp.asarray(self._after(), jnp.int32).transpose(2, 1, 0)
            moves = IncrementDensity(jnp.asarray(panel.increments, jnp.int32))
            names = [f"p{j}" for j in range(len(self.increments) - 1)]
            return Nature(self.increments[:-1], IncrementDynamics(after), moves, names=names)

    def _after(self) -> Int[np.ndarray, "S 2 J"]:
        """The bin that each increment leads to."""
        base = np.stack([np.arange(self.bins), np.zeros(self.bins, int)], axis=1)
        return np.minimum(base[..., None] + np.arange(len(self.increments)), self.bins - 1)


class IncrementDynamics(eqx.Module):
    """All but the last of the increments' probabilities ↦ dynamics."""

    after: Int[Array, "J 2 S"]

    def __call__(self, free: Float[Array, " free"]) -> Successors:
        shares = whole(free)
        return Successors(Links(self.after), jnp.broadcast_to(shares[:, None, None], self.after.shape))


class IncrementDensity(eqx.Module):
    """All but the last of the increments' probabilities ↦ the log probability of each observed one, 0 of others."""

    increments: Int[Array, " n"]

    def __call__(self, free: Float[Array, " free"]) -> Float[Array, " n"]:
        observed = self.increments >= 0
        return jnp.where(observed, jnp.log(whole(free)[jnp.where(observed, self.increments, 0)]), 0)


def whole(free: Float[Array, " free"]) -> Float[Array, " J"]:
    """Probabilities with the last one, which the others determine."""
    return jnp.concatenate([free, 1 - free.sum(keepdims=True)])


def _cost_features(cost: Any | Callable[[Any], Any] | None, bins: int) -> Float[np.ndarray, "S K"]:
    x = np.arange(bins, dtype=float)
    given = 0.001 * x if cost is None else cost(x) if callable(cost) else cost
    features = checks.as_floats("cost", given)
    features = features[:, None] if features.ndim == 1 else features
    checks.has_shape("cost", features, (bins, None), "(bins, K), or (bins,)")
    checks.finite("cost", features)
    if features.shape[1] == 0:
        raise ValueError("`cost` must have at least one column.")
    return features
