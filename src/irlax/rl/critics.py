"""The action values of soft actor-critic, and the soft value that they give a policy."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr

from irlax.networks import Perceptron
from irlax.rl.policies import AbstractPolicy, CategoricalPolicy
from irlax.rl.values import Units
from irlax.spaces import Discrete, to_unit
from irlax.typing import Array, Float, PRNGKeyArray

#: Draws of an action from which the soft value is estimated where it is not a sum.
DRAWS = 64


class Critics(eqx.Module):
    """Two action values, of which the smaller one is used (Fujimoto et al. 2018), and slow copies of both."""

    networks: tuple[Perceptron, Perceptron]
    targets: tuple[Perceptron, Perceptron]
    units: Units

    def in_units(self, units: Units) -> "Critics":
        """The same values in other units."""
        convert = self.units.convert
        networks = (convert(self.networks[0], units), convert(self.networks[1], units))
        return Critics(networks, (convert(self.targets[0], units), convert(self.targets[1], units)), units)


class SoftValue(eqx.Module):
    """V(s) = E[min Q(s,a) − α log π(a|s)] − λH̄: a sum over discrete actions, an estimate for others."""

    policy: AbstractPolicy
    networks: tuple[Perceptron, Perceptron]
    units: Units
    temperature: Float[Array, ""]
    #: λH̄, where entropy is kept.
    price: Float[Array, ""]

    def __call__(self, observation: Float[Array, " obs"]) -> Float[Array, ""]:
        keys = jr.split(jr.key(0), 1 if isinstance(self.policy, CategoricalPolicy) else DRAWS)
        return jax.vmap(lambda key: self.draw(observation, key))(keys).mean()

    def draw(self, observation: Float[Array, " obs"], key: PRNGKeyArray) -> Float[Array, ""]:
        """The value itself, or one draw of it where actions are continuous."""
        q, entropy = soft_parts(self.policy, self.networks, self.units, observation, key)
        return q + self.temperature * entropy - self.price


def action_value(
    policy: AbstractPolicy, network: Perceptron, observation: Float[Array, " obs"], action: Any
) -> Float[Array, ""]:
    """The value of an action by one critic, in the critics' units."""
    normalised = policy.normaliser(observation)
    if isinstance(policy.actions, Discrete):
        return network(normalised)[action]
    return network(jnp.concatenate([normalised, to_unit(policy.actions, action)]))[0]


def soft_parts(
    policy: AbstractPolicy,
    networks: tuple[Perceptron, Perceptron],
    units: Units,
    observation: Float[Array, " obs"],
    key: PRNGKeyArray,
) -> tuple[Float[Array, ""], Float[Array, ""]]:
    """E[min Q(s,a)] and E[−log π(a|s)] under the policy: exactly, or by one draw where actions are continuous."""
    if isinstance(policy, CategoricalPolicy):
        log_probs = policy.log_probs(observation)
        normalised, probs = policy.normaliser(observation), jnp.exp(log_probs)
        least = jnp.minimum(*(network(normalised) for network in networks))
        return probs @ (units.mean + units.scale * least), -probs @ log_probs
    action, log_prob = policy.sample_and_log_prob(observation, key=key)
    least = jnp.minimum(*(action_value(policy, network, observation, action) for network in networks))
    return units.mean + units.scale * least, -log_prob
