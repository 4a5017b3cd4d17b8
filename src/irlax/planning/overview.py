"""How plans show themselves: a line of text, a table, and HTML for notebooks. Cheap, whatever the number of states."""

from typing import Any

import numpy as np

from irlax.mdp.grid import action_names, moves_on_grid, state_names
from irlax.mdp.overview import board, scalar
from irlax.mdp.overview import text as mdp_text
from irlax.notebook_html import framed
from irlax.planning.goals.plan import GoalPlan
from irlax.planning.plan import Plan
from irlax.precision import scope, to_host
from irlax.tables import Summary, Table, counted, format_value, pairs

#: The table shows the first states, so many; the policy is computed for at most so many pairs of state and action.
_ROWS, _MAX_PAIRS = 8, 200_000


def plan_text(plan: Plan) -> str:
    """The kind of plan, its MDP and its accuracy in a line; also inside `jit`."""
    return f"Plan({_kind(plan)}, error bound {scalar(plan.error_bound)}, in {mdp_text(plan.mdp)})"


def plan_summary(plan: Plan) -> Summary:
    """What `Plan.summary` returns."""
    mdp = plan.mdp
    facts: list[tuple[str, Any]] = [("model", _kind(plan)), ("states", mdp.num_states), ("actions", mdp.num_actions)]
    facts.append(("discount", scalar(mdp.discount)))
    facts.append(("horizon", "infinite" if mdp.horizon is None else mdp.horizon))
    if np.ndim(plan.error_bound):
        # Several plans at once, as `vmap` returns them.
        return Summary([pairs("Plan", [*facts, ("shape of the values", str(np.shape(plan.kept)))])])
    at = "" if mdp.horizon is None else " at t = 0"
    with scope():
        value = to_host(plan.first_value)
        facts.append(("value of the start, mean", float(to_host(mdp.initial) @ value)))
        facts.append((f"values{at}", f"{format_value(float(value.min()))} to {format_value(float(value.max()))}"))
    facts.append(("error bound of the values", scalar(plan.error_bound)))
    facts.append(("steps of the planner", int(plan.steps)))
    return Summary([pairs("Plan", facts)])


def plan_html(plan: Plan) -> str:
    """The summary with the values and the likeliest actions: on the grid, or in a table of the first states."""
    mdp, about = plan.mdp, plan_summary(plan)
    if np.ndim(plan.error_bound) or not mdp.rows.one_per_state:
        return framed(about.to_html())
    value = np.asarray(plan.first_value)
    policy = np.asarray(plan.policy_at(0)) if np.prod(mdp.table_shape) <= _MAX_PAIRS else None
    moves, arrows = moves_on_grid(mdp), None
    if policy is not None and moves is not None:
        arrows = moves[policy.argmax(axis=1)].astype(float)
    drawn = board(mdp, value, arrows, what="values of the states, darker where higher, and the likeliest moves")
    return framed(about.to_html(), drawn or _first_states(plan, policy).to_html())


def _first_states(plan: Plan, policy: np.ndarray | None) -> Table:
    mdp = plan.mdp
    few = range(min(mdp.num_states, _ROWS))
    rows: list[tuple[Any, ...]] = list(zip(state_names(mdp, few), plan.first_value[: len(few)].tolist(), strict=True))
    title = f"The first {len(few)} of {mdp.num_states:,} states" if len(few) < mdp.num_states else "States"
    if policy is None:
        return Table(("state", "value"), rows, title)
    names, likeliest = action_names(mdp), policy[: len(few)].argmax(axis=1)
    rows = [(*row, names[a], float(policy[s, a])) for s, (row, a) in enumerate(zip(rows, likeliest, strict=True))]
    return Table(("state", "value", "likeliest action", "its probability"), rows, title)


def goal_plan_text(plan: GoalPlan) -> str:
    """The number of goals and the MDP in a line; also inside `jit`."""
    return f"GoalPlan({counted(len(plan.goals), 'goal')}, in {mdp_text(plan.mdp)})"


def goal_plan_html(plan: GoalPlan) -> str:
    """The goals, from how many states each can be reached, and how accurate the values are."""
    few = plan.goals[:_ROWS]
    rows = [
        (name, int(np.isfinite(value).sum()), float(np.max(value, initial=0.0, where=np.isfinite(value))), float(bound))
        for name, value, bound in zip(
            state_names(plan.mdp, few.tolist()), plan.value[:_ROWS], plan.error_bound[:_ROWS], strict=True
        )
    ]
    title = f"The first {len(few)} of {len(plan.goals):,} goals" if len(few) < len(plan.goals) else "Goals"
    columns = ("goal", "states that reach it", "highest value", "error bound")
    return framed(Table(columns, rows, title).to_html(), text=goal_plan_text(plan))


def _kind(plan: Plan) -> str:
    return type(plan.backup).__name__.removesuffix("Backup").lower()
