"""A policy as a picture: arrows or colours on a grid, else a table of colours."""

from typing import Any

import numpy as np

from irlax.mdp import MDP
from irlax.mdp.drawing import SHOWN_STATES, grid_panels, mdp_picture
from irlax.mdp.grid import Grid, action_names, moves_on_grid, state_names
from irlax.planning.occupancy import visits
from irlax.planning.plan import Plan
from irlax.report import plots
from irlax.tables import format_value
from irlax.typing import Float

#: Grids with more cells than this on a side show actions as colours instead of arrows.
MAX_ARROW_GRID = 60


def plan_picture(plan: Plan, *, time: int, title: str, ax: Any) -> Any:
    """What `Plan.plot` returns."""
    mdp, grid = plan.mdp, Grid.of(plan.mdp)
    mdp.require_one_row("`Plan.plot`")
    at = "" if mdp.horizon is None else f" at t = {time}"
    value = plots.clip_for_plot(np.asarray(plan.value_at(time)))
    if grid is not None:
        policy = np.where(mdp.available, plan.policy_at(time), np.nan)

        def draw(figure: Any, axes: Any) -> None:
            low = float(np.nanmin(value))
            policy_on_grid(figure, axes, mdp, policy, title=title, shade=value, bar=f"value V(s){at}", low=low)

        return plots.on_axes(ax, draw, lambda: grid_panels(grid, 1))
    if mdp.labels.places is not None:
        return mdp_picture(mdp, value, name=f"value V(s){at}", title=title, ax=ax)
    return _policy_table(plan, time, title or f"policy{at}", ax)


def policy_on_grid(
    figure: Any,
    ax: Any,
    mdp: MDP,
    policy: Float[np.ndarray, "S A"],
    *,
    title: str,
    shade: Float[np.ndarray, " S"],
    bar: str,
    low: float = 0.0,
) -> None:
    """Draw a policy as arrows on shaded cells, or as colours if cells are too small or actions are not moves.

    `low` is the value of the palest shade.
    """
    grid = Grid.of(mdp)
    assert grid is not None
    if not has_arrows(mdp):
        defined = np.isfinite(policy).any(axis=1)
        likeliest = np.where(defined, np.argmax(np.nan_to_num(policy), axis=1), np.nan)
        plots.chosen_actions(ax, grid.picture(likeliest), action_names(mdp), title=title)
        return
    moves = moves_on_grid(mdp)
    assert moves is not None
    plots.policy_arrows(
        figure,
        ax,
        np.nan_to_num(policy),
        cells=grid.cells,
        shape=grid.shape,
        moves=moves,
        title=title,
        shade=shade,
        bar=bar,
        low=low,
    )


def has_arrows(mdp: MDP) -> bool:
    """Whether a policy in this gridworld is drawn as arrows."""
    grid = Grid.of(mdp)
    return grid is not None and max(grid.shape) <= MAX_ARROW_GRID and moves_on_grid(mdp) is not None


def _policy_table(plan: Plan, time: int, title: str, ax: Any) -> Any:
    mdp = plan.mdp
    shown = np.arange(mdp.num_states)
    if len(shown) > SHOWN_STATES:
        visited = np.asarray(visits(mdp, plan)).sum(axis=1)
        shown = np.sort(np.argsort(-visited, kind="stable")[:SHOWN_STATES])
        title = f"{title}: the {SHOWN_STATES} most visited of {format_value(mdp.num_states)} states"
    policy = np.where(mdp.available, plan.policy_at(time), np.nan)[shown]

    def draw(figure: Any, axes: Any) -> None:
        names = {"rows": state_names(mdp, shown.tolist()), "columns": action_names(mdp)}
        plots.heat_table(figure, axes, policy, **names, title=title, bar="probability", scale=(0, 1, plots.AMOUNTS))

    return plots.on_axes(ax, draw, lambda: plots.blank(width=6.0, height=1.2 + 0.27 * len(shown)))
