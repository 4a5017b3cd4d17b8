r"""Elasticities: the percentage change of each flow per one per cent of an attribute.

$$e_j = \frac{1}{F_j}\,\frac{\partial F_j}{\partial\log c}, \quad r_i(c) = r_i + \theta_k\,(c - 1)\,\phi_{ik}
  \text{ on the chosen arcs } i$$

the derivative of the flow along the rewards' direction $\theta_k\phi_k$. In a network of links the flows on links are
the visits of states.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from irlax import checks
from irlax.estimators.goals.by_option import ByOption, option_keys, option_labels, option_of_arc, state_labels
from irlax.estimators.goals.choice_model import ChoiceModel
from irlax.estimators.goals.demand import Demand
from irlax.estimators.goals.fitted_model import FittedModel
from irlax.estimators.goals.flows import uses_and_slopes
from irlax.estimators.goals.predictions import Predictions, Uncertainty
from irlax.routes import Network
from irlax.tables import AbstractTabulated, Table
from irlax.typing import Bool, Float

#: Steps of the differences that give slopes of elasticities, in standard errors of the parameters.
STEP = 1e-3


class Elasticities(AbstractTabulated):
    """Elasticities of the expected uses of options and of the expected visits of states; NaN where there are none."""

    uses: ByOption
    visits: Predictions

    @property
    def estimate(self) -> Float[np.ndarray, "R A"]:
        """Those of uses, as a table over states and actions."""
        return self.uses.estimate

    def by_arc(self, net: Network) -> Predictions:
        """Those of the uses of a network's arcs, in its order."""
        return self.uses.by_arc(net)

    def by_state(self) -> Predictions:
        """Those of the visits of states."""
        return self.visits

    def table(self, num: int | None = 20) -> Table:
        """The `num` largest of uses, largest first."""
        return self.uses.table(num)

    def _shown(self) -> Table:
        return self.table()


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
) -> Elasticities:
    """The elasticity of each flow in an attribute of a given weight; NaN for options that are not used.

    Standard errors are by the delta method, with slopes by central differences of the exact elasticities.
    """
    if model.features is None:
        raise ValueError("Elasticities need a reward that is linear in its parameters, with at most 200 of them.")
    choices = model.at_estimates()
    estimate = _elasticities(choices, model.features[:, attribute] * weight * chosen, demand)
    slopes = None
    if uncertainty is not None:

        def moved(beta: Float[np.ndarray, " K"]) -> Float[np.ndarray, " n"]:
            assert model.features is not None
            return _elasticities(model.at(beta), model.features[:, attribute] * beta[attribute] * chosen, demand)

        slopes = _slopes(moved, uncertainty)
    options, num = choices.options, len(choices.options.state)
    uses, visits = (
        Predictions(f"elasticity in {name}", keys, labels, part, slope, uncertainty, level)
        for keys, labels, part, slope in (
            (option_keys(options), option_labels(model.mdp, options), estimate[:num], _first(slopes, num)),
            (tuple(range(options.num_states)), state_labels(model.mdp), estimate[num:], _rest(slopes, num)),
        )
    )
    return Elasticities(ByOption(model.mdp, options.row, options.column, uses), visits)


def _slopes(function: Callable[[np.ndarray], np.ndarray], uncertainty: Uncertainty) -> Float[np.ndarray, "n K"]:
    """Derivatives in the parameters, by central differences."""
    errors, columns = np.sqrt(np.maximum(np.diag(uncertainty.covariance), 0)), []
    for k, beta in enumerate(uncertainty.estimates):
        move = np.zeros(len(errors))
        move[k] = max(STEP * float(errors[k]), 1e-6 * max(1.0, abs(float(beta))))
        sides = [function(uncertainty.estimates + sign * move) for sign in (1, -1)]
        columns.append((sides[0] - sides[1]) / (2 * move[k]))
    return np.stack(columns, axis=1)


def _first(slopes: Any, num: int) -> Any:
    return None if slopes is None else slopes[:num]


def _rest(slopes: Any, num: int) -> Any:
    return None if slopes is None else slopes[num:]


def _elasticities(choices: ChoiceModel, direction: Float[np.ndarray, " J"], demand: Demand) -> Float[np.ndarray, " n"]:
    """Those of uses, then those of visits."""
    options = choices.options
    uses, change = uses_and_slopes(choices, demand.added_up(), with_slopes=False, direction=direction)
    change = np.zeros_like(uses) if change is None else change[:, 0]
    arriving = options.discount * options.transitions.T
    start = np.bincount(demand.starts, weights=demand.amounts, minlength=options.num_states)
    flow, moved = np.concatenate([uses, start + arriving @ uses]), np.concatenate([change, arriving @ change])
    return np.divide(moved, flow, out=np.full_like(flow, np.nan), where=flow > 0)


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
