"""Curvature and scores of the likelihood in the reward's parameters and the discount together."""

import dataclasses
from typing import TYPE_CHECKING, Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from irlax.estimators.tabular.full_likelihood import LogPolicy
from irlax.estimators.tabular.inference import Information, all_demos, episodes_of, refuse_unless_likelihood
from irlax.estimators.tabular.known_dynamics import KnownDynamics
from irlax.estimators.tabular.observed_likelihood import ObservedLikelihood
from irlax.precision import StaysOnDevice, scope
from irlax.rewards.reward import flat
from irlax.typing import Array, Float

if TYPE_CHECKING:
    from irlax.estimators.tabular.tabular_fit import TabularFit


class DiscountedLogPolicy(StaysOnDevice):
    """(θ, γ, p) as one vector ↦ log π of each distinct observed choice."""

    log_policy: LogPolicy

    def __call__(self, both: Float[Array, " D"]) -> Float[Array, "T M"]:
        num = self.log_policy.reward.num_parameters
        likelihood = self.log_policy.likelihood
        mdp = eqx.tree_at(lambda mdp: mdp.discount, likelihood.mdp, both[num])
        moved = dataclasses.replace(self.log_policy, likelihood=dataclasses.replace(likelihood, mdp=mdp))
        return moved(jnp.concatenate([both[:num], both[num + 1 :]]))


def joint_information(fit: "TabularFit") -> Information:
    """Curvature and scores in (θ, γ), with the corrections for estimated transitions."""
    refuse_unless_likelihood(fit)
    num = fit.reward.num_parameters + 1
    transitions = None if fit.panel is None else fit.panel.transitions
    shares = np.zeros(0) if transitions is None else transitions.shares
    total, cross, scores = np.zeros((num, num)), np.zeros((len(shares), num)), []
    with scope():
        at = jnp.asarray(np.concatenate([flat(fit.reward.parameters), [float(fit.mdp.discount)], shares]))
        for reward, expert in zip(fit.rewards, fit.experts, strict=True):
            likelihood = ObservedLikelihood.of(expert, reward)
            dynamics = KnownDynamics(expert.mdp.dynamics) if transitions is None else transitions.dynamics
            policy = DiscountedLogPolicy(LogPolicy(likelihood.objective, reward, dynamics))
            slopes, curvature = _expand(policy, likelihood.objective.weights, at, num)
            scores.append(likelihood.by_row(slopes))
            total -= expert.weight * np.asarray(curvature)[:num]
            cross += expert.weight * np.asarray(curvature)[num:]
    corrections = None if transitions is None else np.concatenate(transitions.influence(cross))
    episodes = episodes_of(all_demos(fit.experts))
    return Information((total + total.T) / 2, np.concatenate(scores), *episodes, corrections=corrections)


def without_discount(joint: Information) -> Information:
    """The same in θ alone, with γ estimated: its part is projected out of the scores, so that its error is included."""
    hessian = joint.hessian
    back = hessian[:-1, -1] / hessian[-1, -1]

    def projected(rows: Any) -> Any:
        return None if rows is None else rows[:, :-1] - rows[:, -1:] * back

    inner = hessian[:-1, :-1] - np.outer(back, hessian[-1, :-1])
    return joint._replace(hessian=inner, scores=projected(joint.scores), corrections=projected(joint.corrections))


@eqx.filter_jit
def _expand(
    policy: DiscountedLogPolicy, weights: Float[Array, "T M"], at: Float[Array, " D"], num: int
) -> tuple[Float[Array, "T M k"], Float[Array, "D k"]]:
    """∂log π/∂(θ, γ) of each choice, and ∂²ℓ/∂(θ, γ, p)∂(θ, γ)."""

    def slope(front: Float[Array, " k"]) -> Float[Array, " D"]:
        both = jnp.concatenate([front, at[num:]])
        return jax.grad(lambda both: (weights * policy(both)).sum())(both)

    by_choice = jax.jacfwd(lambda front: policy(jnp.concatenate([front, at[num:]])))(at[:num])
    return by_choice, jax.jacfwd(slope)(at[:num])
