"""Behavioural cloning: the policy under which the demonstrated actions are most likely."""

import time
from typing import Any

import equinox as eqx
import jax
import jax.random as jr
import numpy as np
import optax

from irlax import checks
from irlax.demos import Demonstrations
from irlax.envs.checking import check_demos
from irlax.estimators.sampled.sampled_fit import SampledFit, finished
from irlax.estimators.sampled.steps import Steps, draw, of_demos
from irlax.rl.networks import AbstractPolicy, Activation, policy_for, with_network, with_normaliser
from irlax.status import Status
from irlax.typing import Array, Float, PRNGKeyArray


class BehaviouralCloning(eqx.Module):
    r"""Behavioural cloning (Pomerleau 1991), a baseline: it learns no reward, and never acts.

    $$\max_\pi \mathbb{E}_{\mathcal D}[\log\pi(a|s)]$$

    by `steps` of Adam on batches of steps, the learning rate falling to zero, with decaying weights.
    """

    steps: int = 10_000
    batch_size: int = 256
    learning_rate: float = 3e-3
    decay: float = 1e-4
    width: int = 64
    depth: int = 2
    activation: Activation = "tanh"

    def __check_init__(self) -> None:
        for name in ("steps", "batch_size", "width"):
            checks.count(name, getattr(self, name))
        checks.count("depth", self.depth, 0)
        checks.positive("learning_rate", self.learning_rate)
        checks.positive("decay", self.decay, zero=True)
        checks.one_of("activation", self.activation, ("tanh", "relu"))

    def fit(self, env: Any, demos: Demonstrations, *, key: PRNGKeyArray) -> SampledFit:
        """Clone what was demonstrated; the environment says what actions there are, and judges the policy."""
        check_demos(env, demos)
        began = time.monotonic()
        begin_key, clone_key, last_key = jr.split(key, 3)
        with jax.enable_x64(False):
            shape: Any = {"width": self.width, "depth": self.depth, "activation": self.activation}
            policy = policy_for(env.actions, env.observation_size, **shape, key=begin_key)
            policy, loss = eqx.filter_jit(clone)(policy, of_demos(demos, env.actions, 1.0), self, key=clone_key)
            loss = np.asarray(loss, np.float64)
            # Environment steps: none were taken.
            history = {"steps": np.zeros(len(loss)), "loss": loss, "log_likelihood": -loss}
            return finished(
                self,
                env,
                demos,
                policy=policy,
                learned=None,
                status=Status.TRAINED,
                history=history,
                seconds=time.monotonic() - began,
                key=last_key,
            )


def clone(
    policy: AbstractPolicy, rows: Steps, how: BehaviouralCloning, *, key: PRNGKeyArray
) -> tuple[AbstractPolicy, Float[Array, " steps"]]:
    r"""$\max_\pi \mathbb{E}_{\mathcal D}[\log\pi(a|s)]$ from where `policy` stands, and the loss at each step.

    Observations are normalised by their statistics in the demonstrations, and rows are drawn by γᵗ of their weights.
    """
    policy = with_normaliser(policy, policy.normaliser.update(rows.observation, rows.weight))
    optimiser = optax.adamw(optax.cosine_decay_schedule(how.learning_rate, how.steps), weight_decay=how.decay)

    def descend(carry: Any, key: PRNGKeyArray) -> tuple[Any, Array]:
        network, memory = carry

        def loss(network: Any) -> Float[Array, ""]:
            batch = draw(rows.discounted, (how.batch_size,), key=key)
            return -jax.vmap(with_network(policy, network).log_prob)(batch.observation, batch.action).mean()

        worth, gradient = jax.value_and_grad(loss)(network)
        change, memory = optimiser.update(gradient, memory, network)
        return (eqx.apply_updates(network, change), memory), worth

    network: Any = policy.network
    start = network, optimiser.init(network)
    (network, _), worth = jax.lax.scan(descend, start, jr.split(key, how.steps))
    return with_network(policy, network), worth
