"""Optional parts of a fit with goals: scales that differ by state, and attributes that differ by start and goal."""

from typing import Any

import equinox as eqx
import numpy as np

from irlax import checks
from irlax.mdp import MDP
from irlax.registry import stored
from irlax.typing import Float, Int


@stored("state-scales")
class StateScales(eqx.Module):
    r"""Scales of the choice in each state, $\mu_s = e^{\omega \cdot x_s}$ (Mai, Fosgerau and Frejinger 2015)."""

    features: Float[np.ndarray, "S M"]
    #: ω; 0 is the plain model.
    weights: Float[np.ndarray, " M"]
    names: tuple[str, ...]

    @classmethod
    def of(cls, mdp: MDP, features: Any, names: Any = None) -> "StateScales":
        """Validated features of states, with weights of 0."""
        features = checks.as_floats("scale_features", features)
        features = features[:, None] if features.ndim == 1 else features
        checks.has_shape("scale_features", features, (mdp.num_states, None), "(S, M), features of states")
        checks.finite("scale_features", features)
        num = features.shape[1]
        return cls(np.array(features), np.zeros(num), _checked_names("scale_names", names, num, "scale"))

    @property
    def scale(self) -> Float[np.ndarray, " S"]:
        """μ of each state."""
        return np.exp(self.features @ self.weights)


@stored("pair-features")
class PairFeatures(eqx.Module):
    """Attributes of options that differ by start and goal, such as the link size: P pairs, [R, A, L] for each."""

    starts: Int[np.ndarray, " P"]
    goals: Int[np.ndarray, " P"]
    features: Float[np.ndarray, "P R A L"]
    weights: Float[np.ndarray, " L"]
    names: tuple[str, ...]

    @classmethod
    def of(cls, mdp: MDP, starts: Any, goals: Any, features: Any, names: Any = None) -> "PairFeatures":
        """Validated features, [P, R, A] or [P, R, A, L] in the layout of the MDP's tables, with weights of 0."""
        starts, goals = (np.atleast_1d(checks.as_integers(n, v)) for n, v in (("starts", starts), ("goals", goals)))
        features = checks.as_floats("features", features)
        features = features[..., None] if features.ndim == 3 else features
        meaning = "(P, R, A, L): for each pair, a table over states and actions of each attribute"
        checks.has_shape("features", features, (len(starts), *mdp.table_shape, None), meaning)
        checks.has_shape("goals", goals, starts.shape, "(P,), one for each start")
        for name, array in (("starts", starts), ("goals", goals)):
            checks.in_range(name, array, mdp.num_states, "states")
        checks.finite("features", features)
        if len(np.unique(starts * mdp.num_states + goals)) < len(starts):
            raise ValueError("`starts` and `goals` must list each pair once, but a pair is listed several times.")
        num = features.shape[-1]
        return cls(
            starts.astype(np.int64),
            goals.astype(np.int64),
            np.array(features),
            np.zeros(num),
            _checked_names("names", names, num, "pair attribute"),
        )

    def index_of(self, starts: Int[np.ndarray, " n"], goals: Int[np.ndarray, " n"]) -> Int[np.ndarray, " n"]:
        """The number of each pair; a ValueError for pairs whose attributes are not known."""
        size = max(int(self.goals.max(initial=0)), int(goals.max(initial=0))) + 1
        keys, wanted = self.starts * size + self.goals, starts * size + goals
        order = np.argsort(keys)
        place = np.minimum(np.searchsorted(keys[order], wanted), len(keys) - 1)
        index = order[place]
        unknown = keys[index] != wanted
        if unknown.any():
            first = int(np.argmax(unknown))
            raise ValueError(
                f"The attributes of {int(unknown.sum())} pairs are not known, such as those from state {starts[first]} "
                f"to goal {goals[first]}. Give `PairFeatures` of all starts and goals."
            )
        return index


def _checked_names(name: str, given: Any, num: int, default: str) -> tuple[str, ...]:
    if given is None:
        return (default,) if num == 1 else tuple(f"{default} {k}" for k in range(num))
    names = (given,) if isinstance(given, str) else tuple(map(str, given))
    if len(names) != num or len(set(names)) < num:
        raise ValueError(f"`{name}` must be {num} different names, but is {names}.")
    return names
