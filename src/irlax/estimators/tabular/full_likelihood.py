r"""The joint likelihood of choices and transitions, in the parameters of the reward (θ) and of the dynamics (ψ).

$$\ell(\theta, \psi) = \sum_i \log \pi_{\theta,\psi}(a_i|s_i) + \log P_\psi(\text{transition of row } i)$$

The policy depends on ψ through the values, so choices are informative about ψ, and the uncertainty about ψ adds to that
about θ: standard errors of θ at a given ψ leave that out. Rust (1987) reports the outer product of these scores.
"""

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from irlax import checks
from irlax.analysis.regression import decimals, regression_table
from irlax.analysis.standard_errors import Kind, confidence_interval, rank
from irlax.demos import Demonstrations
from irlax.estimators.tabular.aggregated import refuse_statistics
from irlax.estimators.tabular.inference import (
    Cluster,
    Information,
    Weights,
    all_demos,
    episodes_of,
    refuse_unless_likelihood,
)
from irlax.estimators.tabular.objectives import AbstractObjective, Likelihood, WarmStart
from irlax.estimators.tabular.observed_likelihood import ObservedLikelihood
from irlax.estimators.tabular.problem import Flattening, Problem
from irlax.estimators.tabular.regression import choice_facts, error_method, observations
from irlax.estimators.tabular.solvers import Newton, minimise
from irlax.estimators.tabular.tabular_fit import TabularFit
from irlax.mdp import MDP, AbstractDynamics, Nature
from irlax.precision import StaysOnDevice, scope
from irlax.rewards import AbstractReward
from irlax.rewards.reward import flat
from irlax.status import warn_unless_success
from irlax.tables import Summary
from irlax.typing import Array, Float, Int


class FullLikelihood(eqx.Module):
    """Estimates (θ, ψ) with the curvature and the scores of their joint likelihood."""

    fit: TabularFit
    names: tuple[str, ...]
    #: The reward's parameters, then nature's.
    estimates: Float[np.ndarray, " D"]
    #: Σ log π of the choices, and Σ log P of the transitions.
    choices_log_likelihood: float
    nature_log_likelihood: float
    #: Second derivatives of minus the log likelihood.
    hessian: Float[np.ndarray, "D D"]
    #: Derivatives of the log likelihood of each observed choice with its transition, not multiplied by its weight.
    scores: Float[np.ndarray, "n D"]

    @property
    def log_likelihood(self) -> float:
        """The joint log likelihood of choices and transitions."""
        return self.choices_log_likelihood + self.nature_log_likelihood

    def covariance(
        self, kind: Kind = "hessian", *, cluster: Cluster = None, weights: Weights = "frequency"
    ) -> Float[np.ndarray, "D D"]:
        """The covariance of all estimates; the arguments are those of `TabularFit.standard_errors`."""
        information = Information(self.hessian, self.scores, *episodes_of(all_demos(self.fit.experts)))
        return information.covariance(kind, cluster, weights)

    def standard_errors(
        self, kind: Kind = "hessian", *, cluster: Cluster = None, weights: Weights = "frequency"
    ) -> Float[np.ndarray, " D"]:
        """Square roots of the covariance's diagonal; the reward's parameters come first."""
        return np.sqrt(np.diag(self.covariance(kind, cluster=cluster, weights=weights)))

    def confidence_intervals(
        self, level: float = 0.95, kind: Kind = "hessian", *, cluster: Cluster = None, weights: Weights = "frequency"
    ) -> Float[np.ndarray, "D 2"]:
        """Estimate ± z·standard error, for each parameter."""
        return confidence_interval(self.estimates, self.standard_errors(kind, cluster=cluster, weights=weights), level)

    def regression_table(
        self, kind: Kind = "hessian", *, cluster: Cluster = None, weights: Weights = "frequency", level: float = 0.95
    ) -> Summary:
        """Estimate, standard error, z, p and interval of each parameter, and the statistics of the fit."""
        choices = self.choices_log_likelihood
        parts = [
            ("log likelihood of choices", decimals(choices)),
            ("log likelihood of nature", decimals(self.nature_log_likelihood)),
        ]
        return regression_table(
            self.names,
            self.estimates,
            self.standard_errors(kind, cluster=cluster, weights=weights),
            level=level,
            title=f"{self.fit.method}: full likelihood",
            how=f"{error_method(kind, cluster, weights)}, of the full likelihood",
            log_likelihood=self.log_likelihood,
            rank=rank(self.hessian),
            observations=observations(self.fit),
            facts=parts + choice_facts(self.fit, choices),
        )


def full_likelihood(fit: TabularFit, nature: Nature, *, maximise: bool) -> FullLikelihood:
    """See `TabularFit.full_likelihood`."""
    refuse_unless_likelihood(fit)
    if not isinstance(nature, Nature):
        raise TypeError(f"`nature` must be a Nature, but is a {type(nature).__name__}.")
    if len(fit.experts) > 1 or fit.l2:
        raise ValueError("The full likelihood is for fits to one MDP without a penalty, l2 = 0.")
    expert = next(iter(fit.experts))
    expert.mdp.require_one_row("`full_likelihood`")
    refuse_statistics(expert.statistics, "The likelihood of transitions")
    demos = expert.demos
    assert demos is not None
    weight = demos.choice_weights
    with scope():
        _refuse_other_dynamics(expert.mdp, nature)
        likelihood = ObservedLikelihood.of(expert, fit.reward)
        density = _transition_density(nature, demos) if nature.log_density is None else nature.log_density
        _refuse_bad_density(density, nature, demos)
        objective = Joint(
            Part(LogPolicy(likelihood.objective, fit.reward, nature.dynamics), likelihood.objective.weights),
            Part(LogDensity(density, fit.reward.num_parameters), jnp.asarray(weight / demos.weights.sum())),
        )
        both = np.concatenate([flat(fit.reward.parameters), nature.parameters])
        if maximise:
            both = _maximise(objective, both, fit.reward.scales(expert.mdp))
        at = jnp.asarray(both)
        # Separately, because the part of the choices is costly to compile, and its shape does not depend on the panel.
        choices, moves = _expand(objective.choices, at), _expand(objective.moves, at)
    slopes = likelihood.by_row(choices.slopes) + np.asarray(moves.slopes)
    curvature = -np.asarray(choices.curvature) - np.asarray(moves.curvature)
    episodes = float(demos.weights.sum())
    return FullLikelihood(
        fit,
        (*fit.reward.parameter_names(), *nature.names),
        both,
        episodes * float(choices.total),
        episodes * float(moves.total),
        episodes * (curvature + curvature.T) / 2,
        slopes,
    )


class Part(StaysOnDevice):
    """The log likelihood of each observation as a function of the vector (θ, ψ), and the weights of observations."""

    log_likelihood: Callable[[Any], Any]
    weights: Float[Array, "..."]

    def total(self, both: Float[Array, " D"]) -> Float[Array, ""]:
        """Σ w log L, per episode."""
        return (self.weights * self.log_likelihood(both)).sum()


class LogPolicy(StaysOnDevice):
    """(θ, ψ) ↦ log π of each distinct observed choice."""

    #: At the dynamics that were estimated first.
    likelihood: Likelihood
    reward: AbstractReward
    dynamics: Callable[[Any], AbstractDynamics]

    def __call__(self, both: Float[Array, " D"]) -> Float[Array, "T M"]:
        theta, psi = both[: self.reward.num_parameters], both[self.reward.num_parameters :]
        mdp = eqx.tree_at(lambda mdp: mdp.dynamics, self.likelihood.mdp, self.dynamics(psi))
        likelihood = dataclasses.replace(self.likelihood, mdp=mdp, folded=self.reward.fold(mdp))
        return likelihood.log_policy(Flattening.of(self.reward.parameters).unflatten(theta))[0]


class LogDensity(StaysOnDevice):
    """(θ, ψ) ↦ log P of the transition of each observed choice."""

    density: Callable[[Any], Any]
    num_parameters: int = eqx.field(static=True)

    def __call__(self, both: Float[Array, " D"]) -> Float[Array, " n"]:
        return self.density(both[self.num_parameters :])


class Joint(AbstractObjective):
    """(θ, ψ) as one vector ↦ minus the log likelihood of an episode."""

    choices: Part
    moves: Part

    def __call__(
        self, parameters: Float[Array, " D"], warm_start: WarmStart = None
    ) -> tuple[Float[Array, ""], WarmStart]:
        return -self.choices.total(parameters) - self.moves.total(parameters), None


class TransitionDensity(eqx.Module):
    """ψ ↦ log P_ψ(s'|s,a) of each observed choice; 0 where the next state was not observed."""

    dynamics: Any
    states: Int[Array, " n"]
    actions: Int[Array, " n"]
    next_states: Int[Array, " n"]
    is_observed: Any

    def __call__(self, parameters: Float[Array, " J"]) -> Float[Array, " n"]:
        probability = self.dynamics(parameters).probability(self.states, self.actions, self.next_states)
        # The logarithm of an unobserved transition must not enter the derivative: 0 · inf is NaN.
        return jnp.log(jnp.where(self.is_observed, probability, 1))


def _transition_density(nature: Nature, demos: Demonstrations) -> TransitionDensity:
    rows, observed = demos.moves()
    next_states, is_observed = np.zeros(demos.num_steps, int), np.zeros(demos.num_steps, bool)
    next_states[rows], is_observed[rows] = observed, True
    states, actions, after = (
        jnp.asarray(array, jnp.int32) for array in (demos.tabular_states, demos.actions, next_states)
    )
    return TransitionDensity(nature.dynamics, states, actions, after, jnp.asarray(is_observed))


def _refuse_other_dynamics(mdp: MDP, nature: Nature) -> None:
    dynamics = eqx.filter_jit(nature.dynamics)(jnp.asarray(nature.parameters))
    if not isinstance(dynamics, AbstractDynamics):
        raise TypeError(
            f"`nature.dynamics` must return dynamics, such as irlax.mdp.Dense or the `.dynamics` of an MDP, but "
            f"returned a {type(dynamics).__name__}."
        )
    probe = jnp.asarray(np.random.default_rng(0).normal(size=mdp.num_states))
    if (dynamics.num_states, dynamics.num_actions) == (mdp.num_states, mdp.num_actions):
        exists = np.asarray(mdp.available).T
        off = np.abs(np.asarray(dynamics.backward(probe) - mdp.dynamics.backward(probe)))[exists].max()
        if off < 1e-8:
            return
    raise ValueError(
        "The fit must be in the MDP with the dynamics of `nature.parameters`, but its transitions differ. Estimate the "
        "dynamics first, then fit in the MDP with these."
    )


def _refuse_bad_density(density: Callable[[Any], Any], nature: Nature, demos: Demonstrations) -> None:
    values = np.asarray(eqx.filter_jit(density)(jnp.asarray(nature.parameters)))
    checks.has_shape("nature.log_density(ψ)", values, (demos.num_steps,), "one for each observed choice")
    impossible = ~np.isfinite(values)
    if impossible.any():
        raise ValueError(
            f"`nature` gives observed transitions probability 0: the log density of {impossible.sum()} rows is not "
            f"finite (the first at {demos.where(int(np.argmax(impossible)))})."
        )


def _maximise(
    objective: Joint, both: Float[np.ndarray, " D"], scales: Float[np.ndarray, " K"]
) -> Float[np.ndarray, " D"]:
    scale = np.concatenate([scales, np.ones(len(both) - len(scales))])
    parts: Any = {"flattening": Flattening.of(both), "scale": jnp.asarray(scale), "l2": jnp.asarray(0.0)}
    problem = Problem(objectives=(objective,), shares=jnp.ones(1), **parts)
    found = minimise(Newton(), problem, both * scale, 1e-8)
    warn_unless_success(found.status, "The joint likelihood was not maximised; use the two-step estimates.")
    return found.at.x / scale


class Expansion(NamedTuple):
    """The total log likelihood, the gradient of each observation, and the Hessian of the total, at one (θ, ψ)."""

    total: Float[Array, ""]
    slopes: Float[Array, "... D"]
    curvature: Float[Array, "D D"]


@eqx.filter_jit
def _expand(part: Part, both: Float[Array, " D"]) -> Expansion:
    return Expansion(part.total(both), jax.jacfwd(part.log_likelihood)(both), jax.hessian(part.total)(both))
