r"""Elasticities: the percentage change of each flow per one per cent of an attribute.

$$e_j = \frac{1}{F_j}\,\frac{\partial F_j}{\partial\log c}, \quad r_i(c) = r_i + \theta_k\,(c - 1)\,\phi_{ik}
  \text{ on the chosen arcs } i$$

the derivative of the flow along the rewards' direction $\theta_k\phi_k$.
"""

from typing import Any

import numpy as np

from irlax import checks
from irlax.estimators.goals.by_option import ByOption, option_keys, option_labels, option_of_arc
from irlax.estimators.goals.choice_model import ChoiceModel
from irlax.estimators.goals.demand import Demand
from irlax.estimators.goals.fitted_model import FittedModel
from irlax.estimators.goals.flows import uses_and_slopes
from irlax.estimators.goals.predictions import Predictions, Uncertainty
from irlax.routes import Network
from irlax.typing import Bool, Float

#: Steps of the differences that give slopes of elasticities, in standard errors of the parameters.
STEP = 1e-3


def flow_elasticities(
    model: FittedModel,
    demand: Demand,
    *,
    attribute: int,
    weight: float,
    name: str,
    chosen: Bool[np.ndarray, " J"],
    uncertainty: Uncertainty | None,
    level: float,
) -> ByOption:
    """The elasticity of each flow in an attribute of a given weight; NaN for options that are not used.

    Standard errors are by the delta method, with slopes by central differences of the exact elasticities.
    """
    if model.features is None:
        raise ValueError("Elasticities need a reward that is linear in its parameters, with at most 200 of them.")
    choices, demand = model.at_estimates(), demand.added_up()
    estimate = _elasticities(choices, model.features[:, attribute] * weight * chosen, demand)
    slopes = None
    if uncertainty is not None:
        slopes = np.empty((len(estimate), len(uncertainty.estimates)))
        errors = np.sqrt(np.maximum(np.diag(uncertainty.covariance), 0))
        for k, beta in enumerate(uncertainty.estimates):
            step = max(STEP * float(errors[k]), 1e-6 * max(1.0, abs(float(beta))))
            sides = []
            for sign in (1, -1):
                moved = uncertainty.estimates.copy()
                moved[k] += sign * step
                direction = model.features[:, attribute] * moved[attribute] * chosen
                sides.append(_elasticities(model.at(moved), direction, demand))
            slopes[:, k] = (sides[0] - sides[1]) / (2 * step)
    options = choices.options
    what = f"elasticity of uses in {name}"
    numbers = Predictions(
        what, option_keys(options), option_labels(model.mdp, options), estimate, slopes, uncertainty, level
    )
    return ByOption(model.mdp, options.row, options.column, numbers)


def _elasticities(choices: ChoiceModel, direction: Float[np.ndarray, " J"], demand: Demand) -> Float[np.ndarray, " J"]:
    uses, change = uses_and_slopes(choices, demand, with_slopes=False, direction=direction)
    change = np.zeros_like(uses) if change is None else change[:, 0]
    return np.divide(change, uses, out=np.full_like(uses, np.nan), where=uses > 0)


def chosen_options(model: FittedModel, net: Network | None, arcs: Any) -> Bool[np.ndarray, " J"]:
    """The options whose attribute changes: all, or those of some arcs of a network."""
    chosen = np.ones(len(model.options.state), bool)
    if arcs is None:
        return chosen
    if net is None:
        raise TypeError("With `arcs` also pass the network `net` that they are of.")
    place = option_of_arc(model.mdp, model.options.row, model.options.column, net)
    given = np.asarray(arcs)
    if given.dtype == bool:
        checks.has_shape("arcs", given, (net.num_arcs,), "(E,), one for each arc")
        given = np.flatnonzero(given)
    given = checks.as_integers("arcs", given).ravel()
    checks.in_range("arcs", given, net.num_arcs, "arcs")
    chosen[:] = False
    places = place[given]
    chosen[places[places >= 0]] = True
    return chosen
