"""What a fit knows of the panel that its MDP was made from."""

from typing import TYPE_CHECKING

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from irlax import checks
from irlax.estimators.tabular.discount_estimate import DiscountEstimate
from irlax.estimators.tabular.estimated_transitions import EstimatedTransitions, cross_slopes
from irlax.estimators.tabular.observed_likelihood import ObservedLikelihood
from irlax.precision import scope
from irlax.registry import stored
from irlax.rewards.reward import flat
from irlax.typing import Float, Int

if TYPE_CHECKING:
    from irlax.estimators.tabular.tabular_fit import TabularFit


@stored("panel-model")
class PanelModel(eqx.Module):
    """The state variables of a panel, how its transitions were estimated, and the assumptions to print below tables."""

    #: None where the transitions were given.
    transitions: EstimatedTransitions | None
    #: The names of the state variables, and of the levels of each.
    variables: tuple[str, ...]
    levels: tuple[tuple[str, ...], ...]
    #: The level of each variable in each state; −1 in absorbing states that end a life.
    codes: Int[np.ndarray, "S V"]
    notes: tuple[str, ...] = ()
    #: None where the discount was given.
    discount: DiscountEstimate | None = None

    def level_of_states(self, variable: str) -> tuple[Int[np.ndarray, " S"], tuple[str, ...]]:
        """The level of a variable in each state, and the names of its levels."""
        checks.one_of("by", variable, self.variables)
        which = self.variables.index(variable)
        return self.codes[:, which], self.levels[which]

    def corrections(self, fit: "TabularFit") -> Float[np.ndarray, "n K"] | None:
        """What the estimation of the transitions adds to the score of each choice; None where they were given."""
        from irlax.estimators.tabular.full_likelihood import LogPolicy

        if self.transitions is None:
            return None
        total = 0.0
        with scope():
            at = jnp.asarray(flat(fit.reward.parameters)), jnp.asarray(self.transitions.shares)
            for reward, expert in zip(fit.rewards, fit.experts, strict=True):
                likelihood = ObservedLikelihood.of(expert, reward).objective
                log_policy = LogPolicy(likelihood, reward, self.transitions.dynamics)
                total = total + expert.weight * np.asarray(cross_slopes(log_policy, likelihood.weights, at))
        return np.concatenate(self.transitions.influence(np.asarray(total)))
