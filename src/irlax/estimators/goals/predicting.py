"""What a fit with goals predicts: flows, values, elasticities and routes."""

from typing import TYPE_CHECKING, Any

import numpy as np

from irlax.demos import Demonstrations
from irlax.estimators.fit import Fit
from irlax.mdp import MDP
from irlax.rewards import AbstractReward

if TYPE_CHECKING:
    from irlax.estimators.goals.elasticities import Elasticities
    from irlax.estimators.goals.flows import Flows
    from irlax.estimators.goals.predicted_routes import Routes
    from irlax.estimators.goals.predictions import Predictions
    from irlax.estimators.goals.route_scores import RouteScores
    from irlax.routes import Network


class AbstractGoalFit(Fit):
    """Predictions of a fit with goals. Standard errors are by the delta method, NaN where the fit has none.

    States are numbers: `net.state_of(label)` is the start of trips and `net.goal_of(label)` their goal. For another
    network pass its MDP and its reward, which must have the parameters of the fit:

        closed = net.without(net.arc_of(3, 4))
        before = fit.flows(starts, goals, amounts)
        after = fit.flows(starts, goals, amounts, mdp=closed.mdp, reward=closed.linear(["minutes"]))
        change = after.by_arc(closed).minus(before.by_arc(net))
    """

    def flows(
        self: Any,
        starts: Any,
        goals: Any,
        amounts: Any = None,
        *,
        mdp: MDP | None = None,
        reward: AbstractReward | None = None,
        level: float = 0.95,
        kind: str = "hessian",
        cluster: Any = None,
    ) -> "Flows":
        """The expected uses of every option by trips between starts and goals; pairs that are repeated are added up.

        `amounts` are trips for each pair, by default 1. `kind` and `cluster` are those of `standard_errors`.
        """
        from irlax.estimators.goals.demand import Demand
        from irlax.estimators.goals.fitted_model import fitted_model, uncertainty_of
        from irlax.estimators.goals.flows import expected_flows

        model = fitted_model(self, mdp, reward)
        demand = Demand.of(model.mdp, starts, goals, amounts)
        return expected_flows(model, demand, uncertainty_of(self, kind, cluster), level)

    def flows_of(
        self: Any, demos: Demonstrations, *, level: float = 0.95, kind: str = "hessian", cluster: Any = None
    ) -> "Flows":
        """The flows of as many trips as were observed, between the same starts and goals.

        Its `observed_minus_predicted` compares them with the trips themselves, which must end at their goals.
        """
        from irlax.estimators.goals.demand import Demand
        from irlax.estimators.goals.fitted_model import fitted_model, uncertainty_of
        from irlax.estimators.goals.flows import expected_flows

        model, demand = fitted_model(self, None, None), Demand.of_demos(self.mdp, demos)
        if not demos.terminated.all():
            raise ValueError(
                f"Flows are of whole trips, but trip {int(np.argmin(demos.terminated))} does not reach its goal "
                f"(`terminated` is false). Leave such trips out."
            )
        option = model.options.of_cells(self.mdp, demos.tabular_states, np.asarray(demos.actions))
        # Expected uses are discounted, so observed ones must be.
        weights = demos.choice_weights * model.options.discount**demos.times
        observed = np.bincount(option, weights=weights, minlength=len(model.options.state))
        return expected_flows(model, demand, uncertainty_of(self, kind, cluster), level, observed)

    def values(
        self: Any,
        starts: Any,
        goals: Any,
        *,
        mdp: MDP | None = None,
        reward: AbstractReward | None = None,
        level: float = 0.95,
        kind: str = "hessian",
        cluster: Any = None,
    ) -> "Predictions":
        """The expected value of each distinct pair of a start and a goal, the log-sum over all ways.

        The change in consumer surplus is `fit.values(…, mdp=…, reward=…).minus(fit.values(…))`, in utility;
        `.in_units_of("minutes")` divides by the weight of an attribute.
        """
        from irlax.estimators.goals.demand import Demand
        from irlax.estimators.goals.fitted_model import fitted_model, uncertainty_of
        from irlax.estimators.goals.values import expected_values

        model = fitted_model(self, mdp, reward)
        demand = Demand.of(model.mdp, starts, goals)
        return expected_values(model, demand, uncertainty_of(self, kind, cluster), level)

    def elasticities(
        self: Any,
        attribute: str | int,
        starts: Any,
        goals: Any,
        amounts: Any = None,
        *,
        net: "Network | None" = None,
        arcs: Any = None,
        level: float = 0.95,
        kind: str = "hessian",
        cluster: Any = None,
        standard_errors: bool = True,
    ) -> "Elasticities":
        """The percentage change of each flow per one per cent of an attribute, on all arcs or on some.

        `arcs` are numbers or a mask of arcs of the network `net`. Standard errors take two more solutions for each
        parameter; `standard_errors=False` leaves them out.
        """
        from irlax.estimators.goals.demand import Demand
        from irlax.estimators.goals.elasticities import chosen_options, flow_elasticities
        from irlax.estimators.goals.fitted_model import fitted_model, uncertainty_of
        from irlax.estimators.tabular.counterfactual import parameter_index

        model, index = fitted_model(self, None, None), parameter_index(self.reward, attribute)
        demand = Demand.of(model.mdp, starts, goals, amounts)
        uncertainty = uncertainty_of(self, kind, cluster) if standard_errors else None
        name, weight = self.reward.parameter_names()[index], float(self.estimates[index])
        return flow_elasticities(
            model,
            demand,
            attribute=index,
            weight=weight,
            name=name,
            chosen=chosen_options(model, net, arcs),
            uncertainty=uncertainty,
            level=level,
        )

    def routes(self: Any, start: Any, goal: Any, num: int = 5) -> "Routes":
        """The `num` most probable ways from a start to a goal, with their probabilities; ways may have loops."""
        from irlax.estimators.goals.fitted_model import fitted_model
        from irlax.estimators.goals.predicted_routes import most_probable_routes

        return most_probable_routes(fitted_model(self, None, None), start, goal, num)

    def route_scores(self: Any, demos: Demonstrations, *, lengths: Any = None) -> "RouteScores":
        """How well the most probable way of each trip agrees with the observed one; for trips held out, say.

        `lengths` is an attribute of options, a table over states and actions, by which arcs are weighed as well:
        `net.linear(["length"]).features[..., 0]`.
        """
        from irlax.estimators.goals.fitted_model import fitted_model
        from irlax.estimators.goals.route_scores import route_scores

        return route_scores(fitted_model(self, None, None), demos, lengths)
