"""Bayesian inverse reinforcement learning: a posterior over rewards."""

import time
from collections.abc import Sequence
from typing import Any, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np

from irlax import checks
from irlax.demos import Demonstrations
from irlax.estimators.tabular.chains import Diagnosis
from irlax.estimators.tabular.components import Posterior
from irlax.estimators.tabular.estimator import AbstractTabularIRL
from irlax.estimators.tabular.expert import Expert, Start
from irlax.estimators.tabular.fit_by_minimising import make_problem
from irlax.estimators.tabular.log_likelihood import total_log_likelihood
from irlax.estimators.tabular.mce import MCEIRL, feature_gap, knows_features
from irlax.estimators.tabular.nuts import Draws, LogPosterior, Sampling
from irlax.estimators.tabular.pairing import pair_up
from irlax.estimators.tabular.priors import AbstractPrior, Normal
from irlax.estimators.tabular.problem import Flattening
from irlax.estimators.tabular.solvers import DENSE_HESSIAN, choose_solver, minimise
from irlax.estimators.tabular.tabular_fit import TabularFit
from irlax.iteration import Callback, Session, Watch
from irlax.mdp import MDP
from irlax.planning import soft_plan
from irlax.precision import scope
from irlax.registry import stored
from irlax.rewards import AbstractReward
from irlax.rewards.reward import AbstractFolded
from irlax.status import Status, warn_unless_success
from irlax.typing import Array, Float, PRNGKeyArray

ObjectiveName = Literal["likelihood", "discounted-likelihood"]


@stored("bayesian-irl")
class BayesianIRL(AbstractTabularIRL):
    r"""Draw rewards from their posterior given demonstrations. Ramachandran and Amir (2007), with the causal model.

    $$p(\theta | D) \propto p(\theta) \prod \pi_{\theta,t}(a_t|s_t)$$

    The likelihood is that of `MCEIRL(objective="likelihood")`, in which every observed choice counts once. With
    "discounted-likelihood" a choice at time t counts γᵗ: the Primer's objective, which is not a likelihood, so that the
    result is not strictly a posterior.
    `prior` is `Normal(scale)` or `Laplace(scale)`, in the units of θ.

    Sampling is by NUTS (Hoffman and Gelman 2014), from the package blackjax: `num_chains` chains start dispersed
    around the mode, adapt for `num_warmup` steps and then give `num_samples` draws each. The fit's `samples`
    are all draws [draws, K], one chain after the other; `reward` is their mean, and `plan` and `policy` belong to
    that mean (for the average policy over all draws see `predictive_policy`). Its status is a success if the
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

        The same `key` gives the same draws. The demonstrator must be `Demonstrations`, or their statistics.
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
            scored = _checked_held_out(rewards, experts, held_out)
            posterior = self._standardised(self._posterior(rewards, experts), rewards, experts)
            draws, status = self._sample(posterior, key, Watch(self.progress, callback))
            samples = posterior.parameters(draws.position)
            mean = posterior.flattening.unflatten(jnp.asarray(samples.mean(axis=(0, 1))))
            learned = tuple(reward.with_parameters(jax.tree.map(np.asarray, mean)) for reward in rewards)
            plans = tuple(
                soft_plan(expert.mdp, reward.table(expert.mdp)) for expert, reward in zip(experts, learned, strict=True)
            )
            diagnosis = Diagnosis.of(samples, draws.divergent)
            fit = TabularFit(
                estimator=self,
                rewards=learned,
                plans=plans,
                experts=experts,
                status=status if status is Status.INTERRUPTED else diagnosis.status,
                feature_gap=feature_gap(mean, rewards, experts) if knows_features(rewards, experts) else None,
                log_likelihood=sum(map(total_log_likelihood, plans, experts)),
                held_out_log_likelihood=None if scored is None else total_log_likelihood(plans[0], scored),
                history=draws.history(),
                seconds=time.perf_counter() - started,
                posterior=Posterior(
                    samples.reshape(-1, samples.shape[-1]),
                    diagnosis.r_hat,
                    diagnosis.ess,
                    diagnosis.divergent,
                    np.asarray(jr.key_data(key)),
                ),
            )
        warn_unless_success(fit.status, diagnosis.advice)
        return fit

    def _sample(self, posterior: LogPosterior, key: PRNGKeyArray, watch: Watch) -> tuple[Draws, Status]:
        """The draws of all chains, and how sampling ended."""
        sampling = Sampling(posterior, self.num_chains, self.num_warmup, self.num_samples, key)
        with Session(type(self).__name__, total=self.num_samples, watch=watch) as session:
            state, status = session.run(sampling)
        if not state.chunks:
            raise KeyboardInterrupt("Sampling was interrupted before the first draws.")
        return state.draws(self.num_samples), status

    def _posterior(self, rewards: tuple[AbstractReward, ...], experts: tuple[Expert, ...]) -> LogPosterior:
        """The posterior in the parameters themselves."""
        objectives, _ = MCEIRL(objective=self.objective).objectives(rewards, experts)
        num = rewards[0].num_parameters
        return LogPosterior(
            tuple(objectives),
            jnp.array([expert.weight for expert in experts]),
            Flattening.of(rewards[0].parameters),
            self.prior,
            jnp.zeros(num),
            jnp.ones(num),
        )

    def _standardised(
        self, posterior: LogPosterior, rewards: tuple[AbstractReward, ...], experts: tuple[Expert, ...]
    ) -> LogPosterior:
        """The posterior in coordinates in which it is close to a standard normal around its mode."""
        # A normal prior is an l2 penalty; another prior is replaced, only here, by a normal one of the same variance.
        weight, precision = float(posterior.weights.sum()), 1 / self.prior.variance
        problem, first = make_problem(posterior.objectives, rewards, experts, precision / weight)
        solver = choose_solver("auto", rewards, [expert.mdp for expert in experts])
        at = minimise(solver, problem, first, 1e-6).at
        scale = np.asarray(problem.scale)
        spread = np.full(len(first), self.prior.variance**0.5)
        if len(first) <= DENSE_HESSIAN:
            curvature, axes = np.linalg.eigh(weight * problem.hessian(at) * np.outer(scale, scale))
            spread = axes / np.sqrt(np.maximum(curvature, 0.1 * precision))
        normal = (jnp.asarray(at.x / scale), jnp.asarray(spread))
        return eqx.tree_at(lambda posterior: (posterior.mode, posterior.spread), posterior, normal)


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

    zeros = jnp.zeros_like(policy(draws[0]))
    return jax.lax.scan(add, zeros, draws)[0] / len(draws)


def _checked_held_out(
    rewards: tuple[AbstractReward, ...], experts: tuple[Expert, ...], held_out: Demonstrations | None
) -> Expert | None:
    """The held-out demonstrations, after a check that data and rewards have a posterior."""
    if any(expert.given_occupancy is not None for expert in experts):
        raise ValueError(
            "A posterior needs observed choices; a policy or an occupancy does not say how many there were. Pass "
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
