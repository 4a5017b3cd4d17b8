"""Sampling from the posterior of parameters by NUTS (Hoffman and Gelman 2014), with the package blackjax."""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np

from irlax.estimators.tabular.objectives import AbstractObjective
from irlax.estimators.tabular.priors import AbstractPrior
from irlax.estimators.tabular.problem import Flattening
from irlax.iteration import AbstractIteration, History, Iterate
from irlax.status import Status
from irlax.typing import Array, Bool, Float, PRNGKeyArray, Shaped

#: Sampling is cut into this many chunks; after each, progress is reported and the callback is called.
CHUNKS = 10
#: The standard deviation of the chains' starts around the mode, relative to a normal approximation of the posterior:
#: wider than the posterior, so that r-hat can detect chains that do not mix.
DISPERSION = 2.0


class LogPosterior(eqx.Module):
    """The log posterior density as a function of z, where θ = mode + spread·z."""

    objectives: tuple[AbstractObjective, ...]
    weights: Float[Array, " M"]
    flattening: Flattening
    prior: AbstractPrior
    mode: Float[Array, " K"]
    #: A matrix, or the diagonal of one.
    spread: Float[Array, "K K"] | Float[Array, " K"]

    def log_density(self, z: Float[Array, " K"]) -> Float[Array, ""]:
        """log p(θ) + log p(D|θ), up to a constant; −inf where the model does not exist."""
        theta = self.mode + (self.spread @ z if self.spread.ndim == 2 else self.spread * z)
        tree = self.flattening.unflatten(theta)
        losses = [weight * loss(tree)[0] for weight, loss in zip(self.weights, self.objectives, strict=True)]
        value = self.prior.log_density(theta) - sum(losses)
        return jnp.where(jnp.isfinite(value), value, -jnp.inf)

    def parameters(self, z: Float[Array, "chains draws K"]) -> Float[np.ndarray, "chains draws K"]:
        """θ of each draw."""
        z, spread = np.asarray(z), np.asarray(self.spread)
        return np.asarray(self.mode) + (z @ spread.T if spread.ndim == 2 else z * spread)


class Draws(NamedTuple):
    """For each draw: z, its log density, the length of the gradient there, and whether it diverged."""

    position: Float[Array, "chains draws K"]
    log_density: Float[Array, "chains draws"]
    slope: Float[Array, "chains draws"]
    divergent: Bool[Array, "chains draws"]

    def history(self) -> History:
        """Minus the log density and the length of its gradient, means over chains."""
        return History({"loss": -np.mean(self.log_density, axis=0), "gradient": np.mean(self.slope, axis=0)})


class SamplingState(NamedTuple):
    """The states of the chains, their adapted step sizes and mass matrices, and the keys and draws of all chunks."""

    chains: Any
    tuned: dict[str, Any]
    keys: Shaped[Array, "chunks ..."]
    chunks: list[Draws]

    def draws(self, num: int) -> Draws:
        """All draws so far, at most `num` of each chain."""
        joined = jax.tree.map(lambda *parts: np.concatenate(parts, axis=1), *self.chunks)
        return jax.tree.map(lambda draws: draws[:, :num], joined)


class Sampling(AbstractIteration[SamplingState]):
    """Sampling by NUTS: a warm-up, then draws in chunks."""

    posterior: LogPosterior
    num_chains: int
    num_warmup: int
    num_samples: int
    key: PRNGKeyArray

    @property
    def chunk_length(self) -> int:
        """Draws of a chain in each chunk: the same in all, to compile once; surplus draws of the last are dropped."""
        return -(-self.num_samples // CHUNKS)

    @property
    def num_chunks(self) -> int:
        """The number of chunks that give all samples."""
        return -(-self.num_samples // self.chunk_length)

    def init(self) -> SamplingState:
        start_key, warmup_key, sample_key = jr.split(self.key, 3)
        first = DISPERSION * jr.normal(start_key, (self.num_chains, self.posterior.mode.size))
        warmup_keys = jr.split(warmup_key, self.num_chains)
        chains, tuned = _warm_up(self.posterior, self.num_warmup, warmup_keys, first)
        return SamplingState(chains, tuned, jr.split(sample_key, self.num_chunks), [])

    def step(self, state: SamplingState) -> SamplingState:
        keys = jr.split(state.keys[len(state.chunks)], self.num_chains)
        chains, chunk = _sample(self.posterior, self.chunk_length, keys, state.chains, state.tuned)
        return state._replace(chains=chains, chunks=[*state.chunks, jax.tree.map(np.asarray, chunk)])

    def status(self, state: SamplingState) -> Status | None:
        return Status.SAMPLED if len(state.chunks) == self.num_chunks else None

    def iterates(self, state: SamplingState) -> list[Iterate]:
        if not state.chunks:
            return []
        mean = self.posterior.parameters(state.draws(self.num_samples).position).mean(axis=(0, 1))
        chunk = state.chunks[-1]
        numbers = {"loss": -float(chunk.log_density.mean()), "gradient": float(chunk.slope.mean())}
        done = min(len(state.chunks) * self.chunk_length, self.num_samples)
        return [Iterate(done, numbers, mean)]


@eqx.filter_jit
def _warm_up(
    posterior: LogPosterior, num_steps: int, keys: Shaped[Array, "chains ..."], first: Float[Array, "chains K"]
) -> tuple[Any, dict[str, Any]]:
    """Each chain's state after adaptation, and the step size and mass matrix that it found."""
    import blackjax

    adaptation: Any = blackjax.window_adaptation(
        blackjax.nuts, posterior.log_density, adaptation_info_fn=lambda *_: None
    )

    def chain(key, z):
        # From a point without a finite density a chain cannot move, so it starts at the mode instead.
        z = jnp.where(jnp.isfinite(posterior.log_density(z)), z, 0.0)
        (state, tuned), _ = adaptation.run(key, z, num_steps)
        return state, tuned

    return jax.vmap(chain)(keys, first)


@eqx.filter_jit
def _sample(
    posterior: LogPosterior, num_steps: int, keys: Shaped[Array, "chains ..."], states: Any, tuned: dict[str, Any]
) -> tuple[Any, Draws]:
    import blackjax

    kernel = blackjax.nuts.build_kernel()

    def chain(key, state, tuned):
        def step(state, key):
            state, info = kernel(key, state, posterior.log_density, **tuned)
            slope = jnp.linalg.norm(state.logdensity_grad)
            return state, Draws(state.position, state.logdensity, slope, info.is_divergent)

        return jax.lax.scan(step, state, jr.split(key, num_steps))

    return jax.vmap(chain)(keys, states, tuned)
