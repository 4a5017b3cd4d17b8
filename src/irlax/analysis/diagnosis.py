"""What demonstrations in an MDP can reveal of a reward, before there are any: linked states and identifiability."""

import contextlib
from typing import Any

import numpy as np

from irlax.analysis import cao_state_only, identify, kim_aperiodic, linked, linked_components
from irlax.analysis.identifiability import Identification
from irlax.analysis.rank_tests import RankTest
from irlax.mdp import MDP
from irlax.mdp.grid import Grid, state_names
from irlax.planning import soft_plan
from irlax.records import plain
from irlax.report import graphs, plots
from irlax.report.html import Page
from irlax.rewards import AbstractReward
from irlax.tables import AbstractTabulated, Summary, Table, format_value, pairs
from irlax.typing import Int

#: A link graph is drawn for at most this many states.
MAX_NODES = 60
#: The width of a drawing, in inches.
WIDTH = 7.0
#: Identifiability is computed for at most this many parameters.
MAX_PARAMETERS = 2500


class Diagnosis(AbstractTabulated):
    """Facts about an MDP, its linked states, and which directions of a reward a policy identifies."""

    mdp: MDP
    #: The linked component of each state.
    component: Int[np.ndarray, " S"]
    deterministic: bool
    #: Published conditions for identifiability that apply to this problem.
    conditions: tuple[RankTest, ...]
    #: None if there are more than `MAX_PARAMETERS` parameters.
    identification: Identification | None

    @property
    def facts(self) -> dict[str, Any]:
        """Sizes and simple properties of the MDP, by name."""
        mdp, count = self.mdp, int(self.component.max()) + 1
        return {
            "states": mdp.num_states,
            "actions": mdp.num_actions,
            "discount": float(mdp.discount),
            "horizon": mdp.horizon or "infinite",
            **({} if mdp.labels.time_unit is None else {"time unit": mdp.labels.time_unit}),
            "deterministic": self.deterministic,
            "absorbing states": int(mdp.absorbing.sum()),
            "linked components": count,
            "decomposable": count == 1,
        }

    def summary(self) -> Summary:
        """The facts as tables."""
        tables = [pairs("The MDP", list(self.facts.items()))]
        if self.conditions:
            rows = [(test.name, test.rank, test.needed, test.passes) for test in self.conditions]
            tables.append(Table(("published condition", "rank", "needed", "holds"), rows))
        found = self.identification
        return Summary(tables if found is None else (*tables, *found.summary().tables))

    def _shown(self) -> Summary:
        return self.summary()

    def record(self) -> dict[str, Any]:
        """The facts as plain values, for JSON."""
        found = self.identification
        hidden = [] if found is None else list(zip(found.kinds, found.null_basis, strict=True))
        return {
            **{name.replace(" ", "_"): plain(value) for name, value in self.facts.items()},
            "conditions": [
                {"name": test.name, "rank": test.rank, "needed": test.needed, "holds": bool(test.passes)}
                for test in self.conditions
            ],
            "parameters": None if found is None else list(found.names),
            "rank": None if found is None else found.rank,
            "hidden": [{"kind": kind, "direction": plain(direction)} for kind, direction in hidden],
        }


def diagnose(mdp: MDP, reward: AbstractReward) -> Diagnosis:
    """The diagnosis of an MDP, for a reward to be learned in it."""
    deterministic = all(np.all(matrix.data > 1 - 1e-12) for matrix in mdp.dynamics.to_scipy())
    conditions = []
    if mdp.mask is None and mdp.num_states <= 500:
        conditions = [cao_state_only(mdp)]
        with contextlib.suppress(ValueError):
            # This condition is for deterministic, strongly connected problems only.
            conditions.append(kim_aperiodic(mdp))
    bound, found = reward.bind(mdp), None
    if bound.num_parameters <= MAX_PARAMETERS:
        found = identify(mdp, bound, soft_plan(mdp, np.zeros(mdp.num_states)))
    return Diagnosis(mdp, linked_components(mdp), deterministic, tuple(conditions), found)


def diagnosis_page(diagnosis: Diagnosis) -> Page:
    """The diagnosis as one page, with the linked components drawn."""
    mdp, component = diagnosis.mdp, diagnosis.component
    count = int(component.max()) + 1
    page = Page(
        "What can be learned here",
        "Before there are any demonstrations: which rewards this MDP lets a policy reveal, and which it hides.",
    )
    for table in diagnosis.summary().tables:
        page = page.table(table)
    page = page.heading("Linked states").text(
        "Two states are linked if both can follow the same state, or if a chain of such pairs connects them. If all "
        "states are linked and transitions are deterministic, a policy reveals a state-only reward up to a constant; "
        "else one constant for each component is not identified."
    )
    grid = Grid.of(mdp)
    if grid is not None:
        figure, axes = plots.blank(1, width=WIDTH, height=WIDTH * grid.shape[0] / grid.shape[1] + 0.4)
        shown = component.astype(float)
        plots.grid_heatmap(figure, axes[0, 0], grid.picture(shown), title="linked component", marks=grid.board)
        return page.figure(figure, f"Cells of the same colour are linked: {format_value(count)} in all.")
    if mdp.num_states > MAX_NODES:
        return page
    figure, axes = plots.blank(1, width=6.0, height=5.0)
    graphs.link_graph(axes[0, 0], linked(mdp, 1), component, state_names(mdp))
    return page.figure(figure, "A line joins states that are 1-step linked; colours are components.")


def hidden_part(found: Identification, parameters: np.ndarray) -> np.ndarray:
    """The component of the parameters in the directions that no policy identifies."""
    part = found.null_basis.T @ (found.null_basis @ parameters)
    # Rounding errors are set to zero, because a plot would scale them up.
    return np.where(np.abs(part) > 1e-9 * np.abs(parameters).max(initial=0.0), part, 0.0)
