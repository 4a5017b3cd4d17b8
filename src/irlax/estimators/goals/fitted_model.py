"""The model of a fit as a function of its parameters, in its own MDP or in another one."""

from typing import TYPE_CHECKING, Any, NamedTuple

import equinox as eqx
import numpy as np
import scipy.sparse as sp

from irlax import checks
from irlax.analysis.standard_errors import null_directions
from irlax.estimators.goals.choice_model import ChoiceModel
from irlax.estimators.goals.components import PairFeatures, StateScales
from irlax.estimators.goals.predictions import Uncertainty
from irlax.estimators.goals.reward_of_options import RewardOfOptions
from irlax.mdp import MDP
from irlax.planning.goals.options import Options
from irlax.rewards import AbstractReward
from irlax.typing import Float

if TYPE_CHECKING:
    from irlax.estimators.goals.goal_fit import GoalFit

#: With more parameters than this, predictions have no standard errors: each parameter costs two solves.
MAX_PARAMETERS = 200


class FittedModel(NamedTuple):
    """β ↦ the choices of a fit in an MDP."""

    mdp: MDP
    options: Options
    #: The rewards at the estimates, and ∂r/∂θ if the reward is linear and has few parameters.
    rewards: Float[np.ndarray, " J"]
    features: Float[np.ndarray, "J K"] | None
    scales: StateScales | None
    pairs: PairFeatures | None

    def at_estimates(self) -> ChoiceModel:
        """The choices at the estimates."""
        return ChoiceModel.of(self.options, self.rewards, self.features, self.scales, self.pairs)

    def at(self, beta: Float[np.ndarray, " K"]) -> ChoiceModel:
        """The choices at other parameters β = (θ, η, ω)."""
        assert self.features is not None
        theta, eta, omega = parts_of(beta, self.features.shape[1], self.pairs, self.scales)
        scales = None if self.scales is None else eqx.tree_at(lambda part: part.weights, self.scales, omega)
        pairs = None if self.pairs is None else eqx.tree_at(lambda part: part.weights, self.pairs, eta)
        return ChoiceModel.of(self.options, self.features @ theta, self.features, scales, pairs)


def parts_of(
    beta: Float[np.ndarray, " n"], num: int, pairs: PairFeatures | None, scales: StateScales | None
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """β as θ, of `num` numbers, η and ω."""
    between = num + (0 if pairs is None else len(pairs.weights))
    assert len(beta) == between + (0 if scales is None else len(scales.weights))
    return beta[:num], beta[num:between], beta[between:]


def fitted_model(fit: "GoalFit", mdp: MDP | None, reward: AbstractReward | None) -> FittedModel:
    """The model of a fit, or that of its estimates in another MDP with another reward of the same parameters."""
    if mdp is None and reward is None:
        mdp, reward = fit.mdp, fit.reward
    elif reward is None:
        raise TypeError(
            "With another `mdp` also pass its `reward`, for example `other.linear([...])`: the fit's own reward "
            "belongs to the actions of its own MDP."
        )
    else:
        mdp = fit.mdp if mdp is None else mdp
        _refuse_other_components(fit, mdp)
        reward = reward.bind(mdp)
    options = Options.of(mdp)
    if not reward.is_linear:
        _matched(fit, reward)
        learned = reward.with_parameters(fit.reward.parameters)
        rewards = np.asarray(learned.table(mdp))[options.row, options.column]
        return FittedModel(mdp, options, rewards, None, fit.scales, fit.pairs)
    features: Any = RewardOfOptions(mdp, reward, options).features
    features = features[:, _matched(fit, reward)]
    rewards = features @ fit.estimates[: fit.reward.num_parameters]
    few = features.shape[1] <= MAX_PARAMETERS
    dense = (features.toarray() if sp.issparse(features) else np.asarray(features)) if few else None
    return FittedModel(mdp, options, rewards, dense, fit.scales, fit.pairs)


def _matched(fit: "GoalFit", reward: AbstractReward) -> list[int]:
    """Where each parameter of the fit is among those of the reward."""
    known, given = fit.reward.parameter_names(), reward.parameter_names()
    if known == given:
        return list(range(len(known)))
    if sorted(known) != sorted(given) or len(set(known)) < len(known) or not reward.is_linear:
        raise ValueError(
            f"`reward` must have the parameters of the fit, {checks.some(known)}, but has {checks.some(given)}."
        )
    return [given.index(name) for name in known]


def _refuse_other_components(fit: "GoalFit", mdp: MDP) -> None:
    if fit.scales is not None and len(fit.scales.features) != mdp.num_states:
        raise ValueError(
            f"The fit has scales of {len(fit.scales.features)} states, but `mdp` has {mdp.num_states}. It must have "
            f"the same states, as `Network.without` leaves them."
        )
    if fit.pairs is not None and (mdp.table_shape != fit.mdp.table_shape or mdp is not fit.mdp):
        raise ValueError(
            "The fit has attributes by start and goal, which belong to its own MDP. Use a fit without `pair_features`."
        )


def uncertainty_of(fit: "GoalFit", kind: Any, cluster: Any) -> Uncertainty | None:
    """What the delta method needs; None if the fit has no standard errors, or too many parameters."""
    if not fit.has_standard_errors or len(fit.estimates) > MAX_PARAMETERS:
        return None
    information = fit.information
    return Uncertainty(
        tuple(fit.parameter_names),
        fit.estimates,
        information.identified_covariance(kind, cluster),
        null_directions(information.hessian),
    )
