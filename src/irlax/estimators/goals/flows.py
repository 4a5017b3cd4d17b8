r"""Expected flows: how often each option is used by trips between given starts and goals.

With $\rho_g = (I - \gamma P_g^\top)^{-1} d_g$ the expected visits of the trips to g that start as $d_g$, the flow on
option j in state s is $\sum_g \rho_g(s)\,\pi_g(j)$ (Fosgerau, Frejinger and Karlström 2013, "A link based network route
choice model with unrestricted choice set"). Its derivatives in the parameters give standard errors by the delta method.
"""

from typing import Any

import equinox as eqx
import numpy as np

from irlax.estimators.goals.by_option import ByOption, option_keys, option_labels, state_labels
from irlax.estimators.goals.choice_model import ChoiceModel
from irlax.estimators.goals.demand import Demand
from irlax.estimators.goals.fitted_model import FittedModel
from irlax.estimators.goals.goal_problem import BlockFlows, flow_tangents
from irlax.estimators.goals.predictions import Predictions, Uncertainty
from irlax.routes import Network
from irlax.tables import AbstractTabulated, Summary, Table, pairs
from irlax.typing import Float


class Flows(AbstractTabulated):
    """Expected uses of options and visits of states, with standard errors and intervals."""

    uses: ByOption
    #: Expected visits of each state, starts and ends included.
    visits: Predictions
    #: The amount of trips.
    amount: float
    #: The uses that were observed, if the demand is that of demonstrations.
    observed: Float[np.ndarray, " J"] | None = eqx.field(default=None, repr=False)

    @property
    def estimate(self) -> Float[np.ndarray, "R A"]:
        """Expected uses as a table over states and actions."""
        return self.uses.estimate

    @property
    def standard_error(self) -> Float[np.ndarray, "R A"]:
        """Standard errors of the uses, by the delta method."""
        return self.uses.standard_error

    @property
    def interval(self) -> Float[np.ndarray, "R A 2"]:
        """Intervals of the uses."""
        return self.uses.interval

    def by_arc(self, net: Network) -> Predictions:
        """The expected uses of the arcs of a network, in its order."""
        return self.uses.by_arc(net)

    def by_state(self) -> Predictions:
        """The expected visits of states; in a network of links, the flows on links."""
        return self.visits

    def minus(self, other: "Flows") -> "Flows":
        """The differences from other flows of the same fit in the same MDP; see `by_arc` for another network."""
        amount = self.amount - other.amount
        return Flows(self.uses.minus(other.uses), self.visits.minus(other.visits), amount)

    @property
    def observed_minus_predicted(self) -> ByOption:
        """Observed uses minus expected ones, with the standard errors of the latter."""
        if self.observed is None:
            raise ValueError("These flows are of no demonstrations: use `fit.flows_of(demos)`.")
        numbers = self.uses.numbers
        difference = Predictions(
            "observed minus predicted",
            numbers.keys,
            numbers.labels,
            self.observed - numbers.estimate,
            None if numbers.slopes is None else -numbers.slopes,
            numbers.uncertainty,
            numbers.level,
            True,
        )
        return ByOption(self.uses.mdp, self.uses.row, self.uses.column, difference)

    def table(self, num: int | None = 20) -> Table:
        """The `num` largest uses, largest first."""
        return self.uses.table(num)

    def summary(self) -> Summary:
        """The amount of trips, the largest uses and the most visited states."""
        facts: list[tuple[str, Any]] = [("trips", self.amount)]
        facts.append(("uses of options", float(self.uses.numbers.estimate.sum())))
        return Summary([pairs("Flows", facts), self.uses.table(10), self.visits.table(10)])

    def _shown(self) -> Summary:
        return self.summary()


def expected_flows(
    model: FittedModel, demand: Demand, uncertainty: Uncertainty | None, level: float, observed: Any = None
) -> Flows:
    """The flows of a demand, at the estimates; slopes only if there is an uncertainty to use them with."""
    choices, mdp = model.at_estimates(), model.mdp
    with_slopes = uncertainty is not None and model.features is not None
    uses, slopes = uses_and_slopes(choices, demand.added_up(), with_slopes=with_slopes)
    options = choices.options
    arriving = options.discount * options.transitions.T
    start = np.bincount(demand.starts, weights=demand.amounts, minlength=options.num_states)
    visits = start + arriving @ uses
    labels = state_labels(mdp)
    numbers = Predictions(
        "expected uses", option_keys(options), option_labels(mdp, options), uses, slopes, uncertainty, level, True
    )
    visited = Predictions(
        "expected visits",
        tuple(range(options.num_states)),
        labels,
        visits,
        None if slopes is None else arriving @ slopes,
        uncertainty,
        level,
        True,
    )
    by_option = ByOption(mdp, options.row, options.column, numbers)
    return Flows(by_option, visited, float(demand.amounts.sum()), observed)


def uses_and_slopes(
    choices: ChoiceModel, demand: Demand, *, with_slopes: bool, direction: Float[np.ndarray, " J"] | None = None
) -> tuple[Float[np.ndarray, " J"], Float[np.ndarray, "J K"] | None]:
    """Expected uses of each option, and their derivatives in the parameters or along one direction of the rewards."""
    options = choices.options
    uses, slopes = np.zeros(len(options.state)), None
    for solved in demand.solutions(choices):
        start = solved.starts(demand.starts, demand.amounts, options.num_states)
        uses += solved.block.flow(start)
        if with_slopes or direction is not None:
            features = solved.features if direction is None else direction[:, None]
            assert features is not None
            change = flow_tangents(choices.planner, BlockFlows.of(solved.block, start), features)
            slopes = change if slopes is None else slopes + change
    if slopes is None and with_slopes:
        num = 0 if choices.features is None else choices.features.shape[1]
        num += 0 if choices.pairs is None else len(choices.pairs.weights)
        slopes = np.zeros((len(uses), num + (0 if choices.scales is None else len(choices.scales.weights))))
    return uses, slopes
