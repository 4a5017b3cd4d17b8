"""Rewards computed by a network from an observation of each state (Maximum Entropy Deep IRL)."""

from typing import Any, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np

from irlax import checks
from irlax.mdp import MDP
from irlax.precision import scope
from irlax.registry import stored
from irlax.rewards.linear import PlainUnfolded
from irlax.rewards.reward import AbstractFolded, AbstractReward, AbstractUnfolded
from irlax.rewards.tabular import Over
from irlax.typing import Array, Float, PRNGKeyArray


@stored("neural-reward")
class NeuralReward(AbstractReward):
    """A network of an observation of each state.

    `observations` are [S, D], for a multilayer perceptron, or [S, height, width, channels], pictures, for a
    convolution followed by one. Over "s" the network has one output; over "sa" one for each action
    (`num_actions`); over "sas" it reads the observations of s and s' and has one output for each action.
    Wulfmeier, Ondruska and Posner (2015).
    """

    network: "Network"
    observations: Float[Array, "S ..."]
    over: Over = eqx.field(static=True)
    num_actions: int = eqx.field(static=True)
    #: width, depth, channels and activation: all that is needed to build the network again.
    architecture: tuple[int, int, int, str] = eqx.field(static=True)

    def __init__(
        self,
        observations: Any,
        *,
        over: Over = "s",
        num_actions: int = 1,
        width: int = 64,
        depth: int = 2,
        channels: int = 16,
        activation: Literal["tanh", "relu", "gelu"] = "tanh",
        key: PRNGKeyArray,
    ) -> None:
        observations = checks.as_floats("observations", observations)
        if jnp.ndim(observations) not in (2, 4):
            raise ValueError(
                f"`observations` must have shape (S, D) or (S, height, width, channels), but has "
                f"{jnp.shape(observations)}."
            )
        checks.finite("observations", observations)
        self.over = checks.one_of("over", over, ("s", "sa", "sas"))
        self.num_actions = checks.count("num_actions", num_actions)
        if over != "s" and num_actions == 1:
            raise ValueError(f"A reward over {over!r} needs `num_actions=`, the number of actions of the MDP.")
        self.architecture = (
            checks.count("width", width),
            checks.count("depth", depth, 0),
            checks.count("channels", channels),
            checks.one_of("activation", activation, ("tanh", "relu", "gelu")),
        )
        with scope():
            self.observations = jnp.asarray(observations)
            outputs = 1 if over == "s" else num_actions
            self.network = Network(
                observations.shape[1:],
                outputs,
                inputs=2 if over == "sas" else 1,
                width=width,
                depth=depth,
                channels=channels,
                activation=activation,
                key=key,
            )

    def stored_fields(self) -> dict[str, Any]:
        """What builds a network of the same shape, and its weights."""
        width, depth, channels, activation = self.architecture
        sizes = {"width": width, "depth": depth, "channels": channels, "num_actions": self.num_actions}
        leaves = tuple(np.asarray(leaf) for leaf in jax.tree.leaves(self.parameters))
        observations = np.asarray(self.observations)
        return {"observations": observations, "over": self.over, "activation": activation, **sizes, "leaves": leaves}

    @classmethod
    def from_stored_fields(cls, fields: dict[str, Any]) -> "NeuralReward":
        """The network, checked before anything of the claimed size is built."""
        leaves, depth = fields.pop("leaves", None), fields.get("depth")
        observations = fields.get("observations")
        if not isinstance(leaves, tuple) or not isinstance(depth, int) or not isinstance(observations, np.ndarray):
            raise TypeError("A network is kept as `observations`, the sizes of its layers, and `leaves`.")
        # Two arrays for each layer, and four for the two convolutions.
        if len(leaves) != 2 * (depth + 1) + 4 * (observations.ndim == 4):
            raise ValueError(f"A network of depth {depth} does not consist of {len(leaves)} arrays.")

        def build(key: Any) -> "NeuralReward":
            return cls(**fields, key=key)

        with scope():
            key = jr.key(0)
            wanted = jax.tree.leaves(eqx.filter_eval_shape(lambda key: build(key).parameters, key))
            for k, (leaf, like) in enumerate(zip(leaves, wanted, strict=True)):
                checks.has_shape(f"leaves[{k}]", leaf, like.shape, "as the architecture says")
                checks.finite(f"leaves[{k}]", checks.as_floats(f"leaves[{k}]", leaf))
            fresh = build(key)
            exact = [checks.as_floats("leaves", leaf) for leaf in leaves]
            return fresh.with_parameters(jax.tree.unflatten(jax.tree.structure(fresh.parameters), exact))

    @property
    def parameters(self) -> Any:
        return eqx.filter(self.network, eqx.is_inexact_array)

    def with_parameters(self, parameters: Any) -> "NeuralReward":
        network = eqx.combine(parameters, eqx.filter(self.network, eqx.is_inexact_array, inverse=True))
        return eqx.tree_at(lambda reward: reward.network, self, network)

    def bind(self, mdp: MDP) -> "NeuralReward":
        if len(self.observations) != mdp.num_states:
            raise ValueError(
                f"`observations` must have one entry for each of the {mdp.num_states} states, but has "
                f"{len(self.observations)}."
            )
        if self.over != "s":
            mdp.require_one_row("A network with an output for each action")
        if self.over != "s" and self.num_actions != mdp.num_actions:
            raise ValueError(f"`num_actions` must be {mdp.num_actions} in this MDP, but is {self.num_actions}.")
        return self

    def fold(self, mdp: MDP) -> "FoldedNeural":
        static = eqx.filter(self.network, eqx.is_inexact_array, inverse=True)
        return FoldedNeural(static, self.observations, mdp, self.over)

    def unfold(self, mdp: MDP) -> "UnfoldedNeural | PlainUnfolded":
        if self.over != "sas":
            return PlainUnfolded(self.fold(mdp))
        static = eqx.filter(self.network, eqx.is_inexact_array, inverse=True)
        return UnfoldedNeural(static, self.observations, mdp)

    def parameter_names(self) -> list[str]:
        return [f"w{k}" for k in range(self.num_parameters)]

    def scales(self, mdp: MDP) -> Float[np.ndarray, " K"]:
        return np.ones(self.num_parameters)


class Network(eqx.Module):
    """An optional convolution, then a multilayer perceptron."""

    convolutions: tuple[eqx.nn.Conv2d, ...]
    perceptron: eqx.nn.MLP

    def __init__(
        self,
        shape: tuple[int, ...],
        outputs: int,
        *,
        inputs: int,
        width: int,
        depth: int,
        channels: int,
        activation: str,
        key: PRNGKeyArray,
    ) -> None:
        first_key, second_key, perceptron_key = jr.split(key, 3)
        convolutions, size = (), int(np.prod(shape))
        if len(shape) == 3:
            convolutions = (
                eqx.nn.Conv2d(shape[2], channels, 3, padding="SAME", key=first_key),
                eqx.nn.Conv2d(channels, channels, 3, padding="SAME", key=second_key),
            )
            size = channels * shape[0] * shape[1]
        self.convolutions = convolutions
        act = {"tanh": jnp.tanh, "relu": jax.nn.relu, "gelu": jax.nn.gelu}[activation]
        self.perceptron = eqx.nn.MLP(inputs * size, outputs, width, depth, activation=act, key=perceptron_key)

    def __call__(self, *observations: Float[Array, "..."]) -> Float[Array, " outputs"]:
        return self.perceptron(jnp.concatenate([self.encode(observation) for observation in observations]))

    def encode(self, observation: Float[Array, "..."]) -> Float[Array, " D"]:
        """One observation as a vector."""
        encoded = jnp.asarray(observation)
        if self.convolutions:
            encoded = jnp.moveaxis(encoded, -1, 0)
        for convolution in self.convolutions:
            encoded = jax.nn.relu(convolution(encoded))
        return encoded.ravel()


class FoldedNeural(AbstractFolded):
    """The network at each state, averaged over next states where it depends on them."""

    static: Network
    observations: Float[Array, "S ..."]
    mdp: MDP
    over: Over = eqx.field(static=True)

    @property
    def by_state(self) -> bool:
        return self.over == "s"

    def __call__(self, parameters: Any) -> Float[Array, "A R"]:
        if self.over == "sas":
            _, aligned = UnfoldedNeural(self.static, self.observations, self.mdp)(parameters)
            return self.mdp.dynamics.mean(aligned)
        network = eqx.combine(parameters, self.static)
        reward = jax.vmap(network)(self.observations).T
        if self.over == "s":
            reward = self.mdp.rows.repeat(reward[0])
        return jnp.broadcast_to(reward, self.mdp.table_shape[::-1])


class UnfoldedNeural(AbstractUnfolded):
    """The network at each transition, aligned."""

    static: Network
    observations: Float[Array, "S ..."]
    mdp: MDP

    def __call__(self, parameters: Any) -> tuple[Float[Array, "A R"], Float[Array, "..."]]:
        network = eqx.combine(parameters, self.static)
        pairs = jax.vmap(lambda now: jax.vmap(lambda after: network(now, after))(self.observations))
        by_pair = pairs(self.observations)
        nothing = jnp.zeros(self.mdp.table_shape[::-1])
        return nothing, self.mdp.align(jnp.swapaxes(by_pair, 1, 2))
