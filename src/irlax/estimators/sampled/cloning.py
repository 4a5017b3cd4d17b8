"""Behavioural cloning: the policy under which the demonstrated actions are most likely."""

import time
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import optax

from irlax import checks
from irlax.demos import Demonstrations
from irlax.envs.checking import check_demos
from irlax.estimators.sampled.sampled_fit import ImitationFit, finished
from irlax.estimators.sampled.steps import Steps, draw, steps_of_demos
from irlax.iteration import AbstractIteration, Callback, History, Iterate, Session, Watch
from irlax.networks import Activation
from irlax.registry import stored
from irlax.rl.policies import AbstractPolicy, init_policy, with_network, with_normaliser
from irlax.status import Status, warn_unless_success
from irlax.typing import Array, Float, Key, PRNGKeyArray

#: Progress is reported after every so many gradient steps.
STEPS_PER_REPORT = 1000


@stored("behavioural-cloning")
class BehaviouralCloning(eqx.Module):
    r"""Behavioural cloning (Pomerleau 1991), a baseline: it learns no reward, and takes no environment steps.

    $$\max_\pi \mathbb{E}_{\mathcal D}[\log\pi(a|s)]$$

    by `steps` of Adam on batches of demonstrated steps, the learning rate falling to zero, with weight decay `decay`.
    """

    steps: int = 10_000
    batch_size: int = 256
    learning_rate: float = 3e-3
    decay: float = 1e-4
    #: The policy's network.
    width: int = 64
    depth: int = 2
    activation: Activation = "tanh"
    progress: bool | None = None

    def __check_init__(self) -> None:
        for name in ("steps", "batch_size", "width"):
            checks.count(name, getattr(self, name))
        checks.count("depth", self.depth, 0)
        checks.positive("learning_rate", self.learning_rate)
        checks.positive("decay", self.decay, zero=True)
        checks.one_of("activation", self.activation, ("tanh", "relu"))

    def fit(
        self, env: Any, demos: Demonstrations, *, key: PRNGKeyArray, callback: Callback | None = None
    ) -> ImitationFit:
        """Clone the demonstrator; the environment defines the actions, and evaluates the policy at the end.

        `callback` receives an `Iterate` after every thousand gradient steps, and may return True to stop.
        """
        check_demos(env, demos)
        if not demos.has_actions:
            raise ValueError("These demonstrations have no actions, and there is nothing else to clone.")
        started = time.monotonic()
        init_key, clone_key, last_key = jr.split(key, 3)
        with jax.enable_x64(False):
            shape: Any = {"width": self.width, "depth": self.depth, "activation": self.activation}
            policy = init_policy(env.actions, env.observation_size, **shape, key=init_key)
            rows = steps_of_demos(demos, env.actions, 1.0)
            policy, first = _init_clone(policy, rows, self)
            cloning = Cloning(self, policy, rows, first, jr.split(clone_key, self.steps))
            with Session(type(self).__name__, total=self.steps, watch=Watch(self.progress, callback)) as session:
                state, status = session.run(cloning)
            loss = np.concatenate(state.losses)
            fit = finished(
                self,
                env,
                demos,
                policy=with_network(policy, state.cloning.network),
                learned=None,
                status=status,
                # Environment steps: none were taken.
                history=History({"steps": np.zeros(len(loss)), "loss": loss, "log_likelihood": -loss}),
                seconds=time.monotonic() - started,
                key=last_key,
            )
        warn_unless_success(status)
        assert isinstance(fit, ImitationFit)
        return fit


class CloningState(eqx.Module):
    """The policy's network and the state of its optimiser."""

    network: Any
    optimiser_state: Any


class Cloned(NamedTuple):
    """The state after some gradient steps, and the losses of all of them."""

    cloning: CloningState
    losses: list[Float[np.ndarray, " steps"]]


class Cloning(AbstractIteration[Cloned]):
    """Gradient steps on the demonstrations, a thousand at a time."""

    settings: BehaviouralCloning
    policy: AbstractPolicy
    rows: Steps
    first: CloningState
    keys: Key[Array, " steps"]

    def init(self) -> Cloned:
        return Cloned(self.first, [])

    def step(self, state: Cloned) -> Cloned:
        done = len(state.losses) * STEPS_PER_REPORT
        keys = self.keys[done : done + STEPS_PER_REPORT]
        cloning, loss = _descend(self.policy, self.rows, self.settings, state.cloning, keys)
        return Cloned(cloning, [*state.losses, np.asarray(loss, np.float64)])

    def status(self, state: Cloned) -> Status | None:
        return Status.TRAINED if sum(map(len, state.losses)) == len(self.keys) else None

    def iterates(self, state: Cloned) -> list[Iterate]:
        done = sum(map(len, state.losses))
        return [Iterate(done, {"loss": float(state.losses[-1].mean())})] if done else []


def clone(
    policy: AbstractPolicy, rows: Steps, settings: BehaviouralCloning, *, key: PRNGKeyArray
) -> tuple[AbstractPolicy, Float[Array, " steps"]]:
    r"""$\max_\pi \mathbb{E}_{\mathcal D}[\log\pi(a|s)]$, starting from `policy`, and the loss at each step.

    Observations are normalised by their statistics in the demonstrations, and rows are drawn in proportion to their
    weights times γᵗ.
    """
    policy, state = init_clone(policy, rows, settings)
    state, loss = descend(policy, rows, settings, state, jr.split(key, settings.steps))
    return with_network(policy, state.network), loss


def init_clone(
    policy: AbstractPolicy, rows: Steps, settings: BehaviouralCloning
) -> tuple[AbstractPolicy, CloningState]:
    """The policy with the statistics of the demonstrations, and the state before the first gradient step."""
    policy = with_normaliser(policy, policy.normaliser.update(rows.observation, rows.weight))
    network: Any = policy.network
    return policy, CloningState(network, _optimiser(settings).init(network))


def descend(
    policy: AbstractPolicy, rows: Steps, settings: BehaviouralCloning, state: CloningState, keys: Key[Array, " n"]
) -> tuple[CloningState, Float[Array, " n"]]:
    """A gradient step for each key: the state after them, and the losses."""

    def step(state: CloningState, key: PRNGKeyArray) -> tuple[CloningState, Float[Array, ""]]:
        def loss_of(network: Any) -> Float[Array, ""]:
            batch = draw(rows.discounted, settings.batch_size, key=key)
            return -jax.vmap(with_network(policy, network).log_prob)(batch.observation, batch.action).mean()

        loss, gradient = jax.value_and_grad(loss_of)(state.network)
        change, optimiser_state = _optimiser(settings).update(gradient, state.optimiser_state, state.network)
        return CloningState(eqx.apply_updates(state.network, change), optimiser_state), loss

    return jax.lax.scan(step, state, jnp.asarray(keys))


_init_clone, _descend = eqx.filter_jit(init_clone), eqx.filter_jit(descend)


def _optimiser(settings: BehaviouralCloning) -> optax.GradientTransformation:
    schedule = optax.cosine_decay_schedule(settings.learning_rate, settings.steps)
    return optax.adamw(schedule, weight_decay=settings.decay)
