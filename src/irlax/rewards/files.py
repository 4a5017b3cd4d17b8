"""Rewards as what a file can hold: a description in plain values, and arrays by name."""

from collections.abc import Mapping
from typing import Any

import equinox as eqx
import jax
import jax.random as jr
import numpy as np

from irlax import checks
from irlax.precision import scope
from irlax.records import field
from irlax.rewards.linear import LinearReward
from irlax.rewards.neural import NeuralReward
from irlax.rewards.reward import AbstractReward
from irlax.rewards.shaped import ShapedReward
from irlax.rewards.tabular import TabularReward

#: A reward may be shaped, and what was shaped shaped again, but hardly more often than this.
DEEPEST = 8


def to_parts(reward: AbstractReward, prefix: str = "reward") -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """The description of a reward, ready for JSON, and its arrays under names that begin with `prefix`."""
    if isinstance(reward, LinearReward):
        arrays = {f"{prefix}.features": reward.features, f"{prefix}.weights": reward.weights}
        description: dict[str, Any] = {"class": "LinearReward", "names": list(reward.names)}
    elif isinstance(reward, TabularReward):
        arrays = {f"{prefix}.values": reward.parameters}
        description = {"class": "TabularReward", "over": reward.over}
    elif isinstance(reward, ShapedReward):
        base, arrays = to_parts(reward.base, f"{prefix}.base")
        arrays = {f"{prefix}.potential": reward.potential, **arrays}
        description = {"class": "ShapedReward", "discount": float(reward.discount), "base": base}
    elif isinstance(reward, NeuralReward):
        leaves = jax.tree.leaves(reward.parameters)
        arrays = {f"{prefix}.observations": reward.observations}
        arrays |= {f"{prefix}.leaf{k}": leaf for k, leaf in enumerate(leaves)}
        width, depth, channels, activation = reward.architecture
        description = {
            "class": "NeuralReward",
            "over": reward.over,
            "num_actions": reward.num_actions,
            "width": width,
            "depth": depth,
            "channels": channels,
            "activation": activation,
            "leaves": len(leaves),
        }
    else:
        raise TypeError(
            f"No file format is known for a reward of type {type(reward).__name__}: only LinearReward, TabularReward, "
            f"ShapedReward and NeuralReward can be saved."
        )
    return description, {name: np.asarray(array) for name, array in arrays.items()}


def from_parts(description: Any, arrays: Mapping[str, np.ndarray], prefix: str = "reward") -> AbstractReward:
    """The reward that `to_parts` took apart, checked as a new one would be; raises ValueError or TypeError."""
    kind = field(description, "class", str)
    if kind == "LinearReward":
        names = field(description, "names", list)
        if not all(isinstance(name, str) for name in names):
            raise TypeError("The names of features must be text.")
        features, weights = (_numbers(arrays, f"{prefix}.{part}") for part in ("features", "weights"))
        return LinearReward(features, weights, names=names)
    if kind == "TabularReward":
        return TabularReward(field(description, "over", str), _numbers(arrays, f"{prefix}.values"))  # type: ignore[arg-type]
    if kind == "ShapedReward":
        if prefix.count(".") >= DEEPEST:
            raise ValueError(f"A reward shaped more than {DEEPEST} times over is not read.")
        base = from_parts(field(description, "base", dict), arrays, f"{prefix}.base")
        discount = field(description, "discount", float, int)
        return ShapedReward(base, _numbers(arrays, f"{prefix}.potential"), discount)
    if kind == "NeuralReward":
        return _network(description, arrays, prefix)
    raise ValueError(f"The class of a reward is {kind!r:.60}, which is not known here.")


def array_names(description: Any, prefix: str = "reward") -> list[str]:
    """The arrays that belong to a description; those of an unknown class have none."""
    kind = field(description, "class", str)
    if kind == "ShapedReward" and prefix.count(".") < DEEPEST:
        return [f"{prefix}.potential", *array_names(field(description, "base", dict), f"{prefix}.base")]
    if kind == "NeuralReward":
        # Two for each layer; more than a thousand layers are not meant.
        leaves = range(min(field(description, "leaves", int), 2048))
        return [f"{prefix}.observations", *(f"{prefix}.leaf{k}" for k in leaves)]
    plain = {"LinearReward": ("features", "weights"), "TabularReward": ("values",)}
    return [f"{prefix}.{part}" for part in plain.get(kind, ())]


def _numbers(arrays: Mapping[str, np.ndarray], name: str) -> np.ndarray:
    if name not in arrays:
        raise ValueError(f"The array {name!r} is missing.")
    if arrays[name].dtype.kind not in "iuf":
        raise TypeError(f"The array {name!r} must hold numbers, but has dtype {arrays[name].dtype}.")
    return arrays[name]


def _network(description: Any, arrays: Mapping[str, np.ndarray], prefix: str) -> NeuralReward:
    observations = _numbers(arrays, f"{prefix}.observations")
    sizes = {name: field(description, name, int) for name in ("num_actions", "width", "depth", "channels")}
    texts = {name: field(description, name, str) for name in ("over", "activation")}
    leaves = [_numbers(arrays, f"{prefix}.leaf{k}") for k in range(field(description, "leaves", int))]
    convolved = observations.ndim == 4
    # Before anything of the claimed size is built: two arrays for each layer, and four for the two convolutions.
    if len(leaves) != 2 * (sizes["depth"] + 1) + 4 * convolved:
        raise ValueError(f"A network of depth {sizes['depth']} does not consist of {len(leaves)} arrays.")

    def build(key: Any) -> NeuralReward:
        return NeuralReward(observations, **sizes, **texts, key=key)

    with scope():
        key = jr.key(0)
        wanted = jax.tree.leaves(eqx.filter_eval_shape(lambda key: build(key).parameters, key))
        for k, (leaf, like) in enumerate(zip(leaves, wanted, strict=True)):
            checks.has_shape(f"{prefix}.leaf{k}", leaf, like.shape, "as the architecture says")
            checks.finite(f"{prefix}.leaf{k}", leaf)
        fresh = build(key)
        exact = [checks.as_floats(f"{prefix}.leaf{k}", leaf) for k, leaf in enumerate(leaves)]
        return fresh.with_parameters(jax.tree.unflatten(jax.tree.structure(fresh.parameters), exact))
