r"""Averages of a fit's choice probabilities, with their sampling error by the delta method.

$$m_q(\theta, P) = \sum_{t,s,a} W_q(t,s,a)\,\pi_{\theta,P,t}(a|s)$$

Choice shares, marginal effects and elasticities are such averages, or their derivatives in θ. Where transitions were
estimated, m depends on them through θ̂ and directly.
"""

from typing import TYPE_CHECKING, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from irlax.estimators.tabular.choices import Choices, group_choices
from irlax.estimators.tabular.full_likelihood import LogPolicy
from irlax.estimators.tabular.inference import Cluster
from irlax.estimators.tabular.known_dynamics import KnownDynamics
from irlax.estimators.tabular.observed_likelihood import likelihood_of
from irlax.precision import StaysOnDevice, scope
from irlax.rewards.reward import flat
from irlax.typing import Array, Float, Int

if TYPE_CHECKING:
    from irlax.analysis.standard_errors import Kind
    from irlax.estimators.tabular.tabular_fit import TabularFit


class Cells(NamedTuple):
    """Times, states and actions, and the weight of each in Q averages, for one demonstrator of a fit."""

    times: Int[np.ndarray, " c"]
    states: Int[np.ndarray, " c"]
    actions: Int[np.ndarray, " c"]
    weights: Float[np.ndarray, "Q c"]


class Averages(StaysOnDevice):
    """(θ, p) as one vector ↦ averages of choice probabilities, [Q], or their derivatives in θ, [Q·K]."""

    log_policies: tuple[LogPolicy, ...]
    weights: tuple[Float[Array, "Q T M"], ...]
    num_parameters: int = eqx.field(static=True)
    derivative: bool = eqx.field(static=True)

    def mean(self, both: Float[Array, " D"]) -> Float[Array, " Q"]:
        """The averages."""
        parts = zip(self.log_policies, self.weights, strict=True)
        return sum(
            (jnp.tensordot(weights, jnp.exp(log_policy(both)), 2) for log_policy, weights in parts), start=jnp.zeros(())
        )

    def __call__(self, both: Float[Array, " D"]) -> Float[Array, " R"]:
        if not self.derivative:
            return self.mean(both)
        theta, shares = both[: self.num_parameters], both[self.num_parameters :]
        return jax.jacfwd(lambda theta: self.mean(jnp.concatenate([theta, shares])))(theta).ravel()


class Estimates(NamedTuple):
    """Functions of the estimates: values, derivatives in θ, and what each choice adds to them by the transitions."""

    values: Float[np.ndarray, " R"]
    slopes: Float[np.ndarray, "R K"]
    first_step: Float[np.ndarray, "n R"] | None

    def covariance(self, fit: "TabularFit", kind: "Kind", cluster: Cluster) -> Float[np.ndarray, "R R"]:
        """Their covariance."""
        return fit.information.covariance_of(self.slopes, self.first_step, kind, cluster)


def estimates_of(fit: "TabularFit", cells: list[Cells], *, derivative: bool = False) -> Estimates:
    """Averages over cells of each demonstrator, at the estimates."""
    transitions = None if fit.panel is None else fit.panel.transitions
    shares = np.zeros(0) if transitions is None else transitions.shares
    with scope():
        policies, weights = [], []
        for reward, expert, part in zip(fit.rewards, fit.experts, cells, strict=True):
            dynamics = KnownDynamics(expert.mdp.dynamics) if transitions is None else transitions.dynamics
            time = part.times if expert.mdp.horizon is not None else np.zeros_like(part.times)
            grid = group_choices(expert.mdp, time, part.states, part.actions, np.ones(len(time)))
            policies.append(LogPolicy(likelihood_of(expert.mdp, reward.fold(expert.mdp), grid), reward, dynamics))
            weights.append(jnp.asarray(_on_grid(grid, part.weights)))
        averages = Averages(tuple(policies), tuple(weights), fit.reward.num_parameters, derivative)
        both = jnp.asarray(np.concatenate([flat(fit.reward.parameters), shares]))
        values, slopes = (np.asarray(array) for array in _expand(averages, both))
    of_theta, of_shares = slopes[:, : fit.reward.num_parameters], slopes[:, fit.reward.num_parameters :]
    first = None if transitions is None else np.concatenate(transitions.influence(np.ascontiguousarray(of_shares.T)))
    return Estimates(values, of_theta, first)


def _on_grid(grid: Choices, weights: Float[np.ndarray, "Q c"]) -> Float[np.ndarray, "Q T M"]:
    """Weights of cells at the places of the cells in a grid."""
    assert grid.places is not None
    found = np.zeros((len(weights), *grid.weights.shape))
    for q, row in enumerate(weights):
        np.add.at(found[q], grid.places, row)
    return found


@eqx.filter_jit
def _expand(averages: Averages, both: Float[Array, " D"]) -> tuple[Float[Array, " R"], Float[Array, "R D"]]:
    # Backward where probabilities of transitions are many, of which each average is one function.
    return averages(both), jax.jacrev(averages)(both)
