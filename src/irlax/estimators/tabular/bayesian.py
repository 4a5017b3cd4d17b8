"""Bayesian inverse reinforcement learning: a posterior over rewards, where other estimators give one."""

import abc
import time
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np

from irlax import checks
from irlax.demos import Demonstrations
from irlax.estimators.tabular import components
from irlax.estimators.tabular.chains import Diagnosis
from irlax.estimators.tabular.estimator import AbstractTabularIRL
from irlax.estimators.tabular.expert import Expert, Start
from irlax.estimators.tabular.fit_by_minimising import pose
from irlax.estimators.tabular.log_likelihood import total_log_likelihood
from irlax.estimators.tabular.mce import MCEIRL, feature_gap, knows_features
from irlax.estimators.tabular.objectives import AbstractObjective
from irlax.estimators.tabular.pairing import pair_up
from irlax.estimators.tabular.problem import Flattening
from irlax.estimators.tabular.solvers import DENSE_HESSIAN, choose_solver, minimise
from irlax.estimators.tabular.tabular_fit import TabularFit
from irlax.iteration import AbstractIteration, Callback, History, Iterate, Session, Watch
from irlax.mdp import MDP
from irlax.planning import soft_plan
from irlax.precision import scope
from irlax.registry import stored
from irlax.rewards import AbstractReward
from irlax.rewards.reward import AbstractFolded
from irlax.status import Status, warn_unless_success
from irlax.typing import Array, Bool, Float, PRNGKeyArray, Shaped

ObjectiveName = Literal["likelihood", "discounted-likelihood"]
#: Sampling is cut into this many pieces, after each of which progress is shown and the callback is told.
PIECES = 10
#: Chains start this many standard deviations of a normal approximation around the mode: wider than the posterior.
DISPERSION = 2.0


class AbstractPrior(eqx.Module):
    """A proper density over each parameter, independent of the others."""

    scale: eqx.AbstractVar[float]

    @abc.abstractmethod
    def log_density(self, theta: Float[Array, " K"]) -> Float[Array, ""]:
        """Up to a constant."""

    @property
    @abc.abstractmethod
    def variance(self) -> float:
        """Of one parameter."""


@stored("normal-prior")
class Normal(AbstractPrior):
    r"""$\theta_k \sim N(0, \text{scale}^2)$."""

    scale: float = 1.0

    def __check_init__(self) -> None:
        checks.positive("scale", self.scale)

    def log_density(self, theta: Float[Array, " K"]) -> Float[Array, ""]:
        return -0.5 * (theta @ theta) / self.scale**2

    @property
    def variance(self) -> float:
        return self.scale**2


@stored("laplace-prior")
class Laplace(AbstractPrior):
    r"""$p(\theta_k) \propto \exp(-|\theta_k| / \text{scale})$: most weights small, a few large."""

    scale: float = 1.0

    def __check_init__(self) -> None:
        checks.positive("scale", self.scale)

    def log_density(self, theta: Float[Array, " K"]) -> Float[Array, ""]:
        return -jnp.abs(theta).sum() / self.scale

    @property
    def variance(self) -> float:
        return 2 * self.scale**2


@stored("bayesian-irl")
class BayesianIRL(AbstractTabularIRL):
    r"""Draw rewards from their posterior given demonstrations. Ramachandran and Amir (2007), with the causal model.

    $$p(\theta | D) \propto p(\theta) \prod \pi_{\theta,t}(a_t|s_t)$$

    The likelihood is that of `MCEIRL(objective="likelihood")`, in which every observed choice counts once. With
    "discounted-likelihood" a choice at time t counts γᵗ: the Primer's objective, and a posterior in name only.
    `prior` is `Normal(scale)` or `Laplace(scale)`, in the units of θ.

    Sampling is by NUTS (Hoffman and Gelman 2014), from the package blackjax: `num_chains` chains start dispersed
    around the mode, adapt for `num_warmup` steps and then give `num_samples` draws each. The fit's `samples`
    are all draws [draws, K], one chain after the other; `reward` is their mean, and `plan` and `policy` belong to
    that one reward (for the average over all of them see `predictive_policy`). Its status is a success if the
    worst rank-normalised split r-hat is below 1.01, the least bulk effective sample size above 100 for each chain,
    and at most 1% of draws are divergent (Vehtari et al. 2021).
    """

    prior: AbstractPrior = Normal()
    objective: ObjectiveName = "likelihood"
    num_chains: int = 4
    num_warmup: int = 500
    num_samples: int = 1000
    start: Start = "auto"
    progress: bool | None = None

    def __check_init__(self) -> None:
        if not isinstance(self.prior, AbstractPrior):
            raise TypeError(f"`prior` must be Normal(scale) or Laplace(scale), but is a {type(self.prior).__name__}.")
        checks.one_of("objective", self.objective, ("likelihood", "discounted-likelihood"))
        checks.count("num_chains", self.num_chains)
        checks.count("num_warmup", self.num_warmup, 20)
        checks.count("num_samples", self.num_samples, 4)
        checks.one_of("start", self.start, ("auto", "demos", "mdp"))

    @property
    def maximises_likelihood(self) -> bool:
        return False

    def settings(self) -> list[tuple[str, Any]]:
        prior = f"{type(self.prior).__name__}(scale={self.prior.scale:g})"
        counts = [(name, getattr(self, name)) for name in ("num_chains", "num_warmup", "num_samples")]
        return [("prior", prior), ("objective", self.objective), *counts]

    def fit(
        self,
        mdp: MDP | Sequence[MDP],
        reward: AbstractReward | Sequence[AbstractReward],
        demos: Any = None,
        *,
        key: PRNGKeyArray,
        occupancy: Any = None,
        held_out: Demonstrations | None = None,
        callback: Callback | None = None,
    ) -> TabularFit:
        """Sample the parameters of `reward`, which must be linear in them; see `MCEIRL.fit`.

        The same `key` gives the same draws. A demonstrator must be `Demonstrations`: a policy is no data.
        `callback` receives the mean so far, ten times; in its `Iterate` and in the history, `loss` is minus the
        log posterior density (up to a constant), mean over chains, and `gradient` the length of its gradient in
        units of the posterior's own spread.
        """
        started = time.perf_counter()
        if not isinstance(key, jax.Array):
            raise TypeError(f"`key` must be a random key, such as jax.random.key(0), but is a {type(key).__name__}.")
        _require_blackjax()
        with scope():
            rewards, experts = pair_up(mdp, reward, demos, occupancy, self.start)
            unseen = _checked(rewards, experts, held_out)
            posterior = self._standardised(self._posterior(rewards, experts), rewards, experts)
            sampling = Sampling(posterior, self.num_chains, self.num_warmup, self.num_samples, key)
            watch = Watch(self.progress, callback)
            with Session(type(self).__name__, total=self.num_samples, watch=watch) as session:
                state, status = session.run(sampling)
            if not state.pieces:
                raise KeyboardInterrupt("Sampling was interrupted before the first draws.")
            drawn = state.draws(self.num_samples)
            samples = posterior.parameters(drawn.position)
            mean = posterior.flattening.unflatten(jnp.asarray(samples.mean(axis=(0, 1))))
            learned = tuple(reward.with_parameters(jax.tree.map(np.asarray, mean)) for reward in rewards)
            plans = tuple(
                soft_plan(expert.mdp, reward.table(expert.mdp)) for expert, reward in zip(experts, learned, strict=True)
            )
            diagnosis = Diagnosis.of(samples, drawn.divergent)
            status = status if status is Status.INTERRUPTED else diagnosis.status
            fit = TabularFit(
                estimator=self,
                rewards=learned,
                plans=plans,
                experts=experts,
                status=status,
                feature_gap=feature_gap(mean, rewards, experts) if knows_features(rewards, experts) else None,
                log_likelihood=sum(map(total_log_likelihood, plans, experts)),
                held_out_log_likelihood=None if unseen is None else total_log_likelihood(plans[0], unseen),
                history=History(
                    {"loss": -np.mean(drawn.log_density, axis=0), "gradient": np.mean(drawn.slope, axis=0)}
                ),
                seconds=time.perf_counter() - started,
                posterior=components.Posterior(
                    samples.reshape(-1, samples.shape[-1]),
                    diagnosis.r_hat,
                    diagnosis.ess,
                    diagnosis.divergent,
                    np.asarray(jr.key_data(key)),
                ),
            )
        warn_unless_success(status, diagnosis.advice)
        return fit

    def _posterior(self, rewards: tuple[AbstractReward, ...], experts: tuple[Expert, ...]) -> "Posterior":
        """The posterior in the parameters themselves."""
        objectives, _ = MCEIRL(objective=self.objective).objectives(rewards, experts)
        num = rewards[0].num_parameters
        return Posterior(
            tuple(objectives),
            jnp.array([expert.weight for expert in experts]),
            Flattening.of(rewards[0].parameters),
            self.prior,
            jnp.zeros(num),
            jnp.ones(num),
        )

    def _standardised(
        self, posterior: "Posterior", rewards: tuple[AbstractReward, ...], experts: tuple[Expert, ...]
    ) -> "Posterior":
        """The posterior in coordinates in which it looks like a standard normal around its mode."""
        # A normal prior is a penalty; another one is replaced, here only, by the normal of the same variance.
        weight, precision = float(posterior.weights.sum()), 1 / self.prior.variance
        problem, first = pose(posterior.objectives, rewards, experts, precision / weight)
        solver = choose_solver("auto", rewards, [expert.mdp for expert in experts])
        at = minimise(solver, problem, first, 1e-6).at
        scale = np.asarray(problem.scale)
        spread = np.full(len(first), self.prior.variance**0.5)
        if len(first) <= DENSE_HESSIAN:
            curvature, axes = np.linalg.eigh(weight * problem.hessian(at) * np.outer(scale, scale))
            spread = axes / np.sqrt(np.maximum(curvature, 0.1 * precision))
        moved = (jnp.asarray(at.x / scale), jnp.asarray(spread))
        return eqx.tree_at(lambda posterior: (posterior.mode, posterior.spread), posterior, moved)


class Posterior(eqx.Module):
    """The log posterior density as a function of z, where θ = mode + spread·z."""

    objectives: tuple[AbstractObjective, ...]
    weights: Float[Array, " M"]
    flattening: Flattening
    prior: AbstractPrior
    mode: Float[Array, " K"]
    #: A matrix, or a diagonal alone.
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
    """What is kept of each draw: z, its log density, the length of the gradient there, and whether it diverged."""

    position: Float[Array, "chains draws K"]
    log_density: Float[Array, "chains draws"]
    slope: Float[Array, "chains draws"]
    divergent: Bool[Array, "chains draws"]


class SamplingState(NamedTuple):
    """The chains, what they adapted to, the key of each piece, and the pieces drawn so far."""

    chains: Any
    tuned: dict[str, Any]
    keys: Shaped[Array, "pieces ..."]
    pieces: list[Draws]

    def draws(self, num: int) -> Draws:
        """All draws so far, at most `num` of each chain."""
        joined = jax.tree.map(lambda *parts: np.concatenate(parts, axis=1), *self.pieces)
        return jax.tree.map(lambda draws: draws[:, :num], joined)


class Sampling(AbstractIteration[SamplingState]):
    """Warm-up, then draws piece by piece."""

    posterior: Posterior
    num_chains: int
    num_warmup: int
    num_samples: int
    key: PRNGKeyArray

    @property
    def piece_length(self) -> int:
        """All pieces have one length, so that one compilation serves; what is too much of the last one is dropped."""
        return -(-self.num_samples // PIECES)

    @property
    def num_pieces(self) -> int:
        """How many make up all samples."""
        return -(-self.num_samples // self.piece_length)

    def init(self) -> SamplingState:
        start_key, warmup_key, sample_key = jr.split(self.key, 3)
        first = DISPERSION * jr.normal(start_key, (self.num_chains, self.posterior.mode.size))
        warmup_keys = jr.split(warmup_key, self.num_chains)
        chains, tuned = _warmed_up(self.posterior, self.num_warmup, warmup_keys, first)
        return SamplingState(chains, tuned, jr.split(sample_key, self.num_pieces), [])

    def step(self, state: SamplingState) -> SamplingState:
        keys = jr.split(state.keys[len(state.pieces)], self.num_chains)
        chains, piece = _sampled(self.posterior, self.piece_length, keys, state.chains, state.tuned)
        return state._replace(chains=chains, pieces=[*state.pieces, jax.tree.map(np.asarray, piece)])

    def status(self, state: SamplingState) -> Status | None:
        return Status.SAMPLED if len(state.pieces) == self.num_pieces else None

    def iterates(self, state: SamplingState) -> list[Iterate]:
        if not state.pieces:
            return []
        mean = self.posterior.parameters(state.draws(self.num_samples).position).mean(axis=(0, 1))
        piece = state.pieces[-1]
        numbers = {"loss": -float(piece.log_density.mean()), "gradient": float(piece.slope.mean())}
        done = min(len(state.pieces) * self.piece_length, self.num_samples)
        return [Iterate(done, numbers, mean)]


def predictive_policy(fit: TabularFit, *, max_draws: int) -> Float[np.ndarray, "*T R A"]:
    """See `TabularFit.predictive_policy`."""
    checks.count("max_draws", max_draws)
    if fit.samples is None:
        raise ValueError(f"A {fit.method} fit has no posterior draws. Use BayesianIRL.")
    rows = np.unique(np.linspace(0, len(fit.samples) - 1, max_draws).round().astype(int))
    with scope():
        flattening = Flattening.of(fit.reward.parameters)
        return np.asarray(_mean_policy(fit.mdp, fit.reward.fold(fit.mdp), flattening, jnp.asarray(fit.samples[rows])))


@eqx.filter_jit
def _mean_policy(
    mdp: MDP, folded: AbstractFolded, flattening: Flattening, draws: Float[Array, "draws K"]
) -> Float[Array, "*T R A"]:
    def policy(theta: Float[Array, " K"]) -> Float[Array, "*T R A"]:
        return soft_plan(mdp, folded(flattening.unflatten(theta)).T).policy

    def add(total, theta):
        return total + policy(theta), None

    nothing = jnp.zeros_like(policy(draws[0]))
    return jax.lax.scan(add, nothing, draws)[0] / len(draws)


@eqx.filter_jit
def _warmed_up(
    posterior: Posterior, num_steps: int, keys: Shaped[Array, "chains ..."], first: Float[Array, "chains K"]
) -> tuple[Any, dict[str, Any]]:
    """Each chain's state after adaptation, and the step size and mass matrix that it found."""
    import blackjax

    adaptation: Any = blackjax.window_adaptation(
        blackjax.nuts, posterior.log_density, adaptation_info_fn=lambda *everything: None
    )

    def chain(key, z):
        # Where the model does not exist, a chain could not move: it starts at the mode instead.
        z = jnp.where(jnp.isfinite(posterior.log_density(z)), z, 0.0)
        (state, tuned), _ = adaptation.run(key, z, num_steps)
        return state, tuned

    return jax.vmap(chain)(keys, first)


@eqx.filter_jit
def _sampled(
    posterior: Posterior, num_steps: int, keys: Shaped[Array, "chains ..."], states: Any, tuned: dict[str, Any]
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


def _checked(
    rewards: tuple[AbstractReward, ...], experts: tuple[Expert, ...], held_out: Demonstrations | None
) -> Expert | None:
    """The held-out demonstrations, if a posterior can be had at all."""
    if any(expert.given_occupancy is not None for expert in experts):
        raise ValueError(
            "A posterior needs data: a policy or an occupancy does not say how often it was observed. Pass "
            "Demonstrations, for instance those of `rollout(mdp, policy, num=..., key=...)`."
        )
    for reward in rewards:
        if not reward.is_linear:
            raise ValueError(
                f"BayesianIRL needs a reward that is linear in its parameters, but a {type(reward).__name__} is not: "
                f"the mean of a network's weights is not a network. Use LinearReward(features) or TabularReward."
            )
    if held_out is None:
        return None
    if len(experts) != 1 or not isinstance(held_out, Demonstrations):
        raise TypeError("`held_out` must be Demonstrations, for a fit to one MDP.")
    return Expert.of(experts[0].mdp, held_out, None, "mdp")


def _require_blackjax() -> None:
    try:
        import blackjax  # noqa: F401
    except ImportError:
        raise ImportError(
            "BayesianIRL samples with the package blackjax, which is not installed. Run `pip install 'irlax[bayes]'`."
        ) from None
