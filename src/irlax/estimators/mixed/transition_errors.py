r"""What the estimation of a panel's transitions adds to the scores of hidden groups.

$$c_i = \frac{\partial^2 \ell}{\partial x\,\partial p}\,\frac{e_{d_i} - p}{n}, \qquad x = (\theta_1, \dots,
\theta_G, \text{parameters of the hidden model})$$

where ℓ is the log likelihood with groups summed out, so that its cross derivative has those of each group's choices,
weighted by the probabilities of groups, and the change of these probabilities with x and with p. See
`tabular/estimated_transitions.py`, which has the same for one group.
"""

from typing import TYPE_CHECKING, Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from irlax.estimators.mixed.hidden import AbstractHidden
from irlax.estimators.tabular.full_likelihood import LogPolicy
from irlax.estimators.tabular.observed_likelihood import ObservedLikelihood
from irlax.estimators.tabular.problem import Flattening
from irlax.precision import StaysOnDevice, scope
from irlax.typing import Array, Float

if TYPE_CHECKING:
    from irlax.estimators.mixed.mixed_fit import AbstractMixedFit


class OfTransitions(StaysOnDevice):
    """Parameters x and the probabilities of estimated transitions ↦ the log likelihood with groups summed out."""

    #: By MDP: (θ, p) of one group ↦ log π of the distinct observed choices.
    log_policies: tuple[LogPolicy, ...]
    hidden: AbstractHidden
    #: Of units; not normalised.
    weights: Float[Array, " N"]
    flattening: Flattening
    num_groups: int = eqx.field(static=True)

    def __call__(self, x: Float[Array, " P"], shares: Float[Array, " J"]) -> Float[Array, ""]:
        theta, rest = self.flattening.unflatten(x)

        def of_group(row: Float[Array, " K"]) -> Float[Array, " C"]:
            both = jnp.concatenate([row, shares])
            return jnp.concatenate([log_policy(both).ravel() for log_policy in self.log_policies])

        choices = jax.vmap(of_group)(theta.reshape(self.num_groups, -1))
        return self.weights @ self.hidden.log_likelihoods(choices, rest)


def transition_corrections(fit: "AbstractMixedFit") -> Float[np.ndarray, "n P"] | None:
    """What the estimation of the transitions adds to the score of each choice; None where they were given."""
    if fit.panel is None or fit.panel.transitions is None:
        return None
    transitions, groups = fit.panel.transitions, fit.hidden_problem()
    with scope():
        dynamics, policies = transitions.dynamics, []
        for rewards, expert in zip(fit.all_rewards, fit.experts, strict=True):
            likelihood = ObservedLikelihood.of(expert, rewards[0]).objective
            policies.append(LogPolicy(likelihood, rewards[0], dynamics))
        likelihood = OfTransitions(
            tuple(policies),
            groups.hidden,
            groups.loss.weights * groups.total,
            Flattening.of((fit.estimates, fit.hidden_parameters())),
            len(fit.rewards),
        )
        x = jnp.asarray(groups.vector([fit.estimates], fit.hidden_parameters()))
        slopes = np.asarray(_cross_slopes(likelihood, x, jnp.asarray(transitions.shares)))
    return np.concatenate(transitions.influence(slopes))


@eqx.filter_jit
def _cross_slopes(likelihood: OfTransitions, x: Float[Array, " P"], shares: Float[Array, " J"]) -> Any:
    """∂²ℓ/∂p∂x, [J, P]."""
    return jax.jacfwd(lambda x: jax.grad(likelihood, argnums=1)(x, shares))(x)
