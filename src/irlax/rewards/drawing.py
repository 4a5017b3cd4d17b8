"""Rewards of an MDP on matplotlib axes."""

from typing import Any

import numpy as np

from irlax.mdp import MDP
from irlax.mdp.drawing import SHOWN_STATES, grid_panels
from irlax.mdp.grid import Grid, action_names, state_names
from irlax.report import plots
from irlax.rewards.reward import AbstractReward
from irlax.tables import format_value
from irlax.typing import Float


def reward_picture(reward: AbstractReward, mdp: MDP, *, title: str, ax: Any) -> Any:
    """What `AbstractReward.plot` returns."""
    mdp.require_one_row("`plot` of a reward")
    table = plots.clip_for_plot(np.where(mdp.available, reward.table(mdp), np.nan))
    if over_states(table):
        return mdp.plot(np.nanmax(table, axis=1), name="reward", title=title, ax=ax)
    if mdp.labels.layout is None:
        return _table(mdp, table, title, ax)
    if ax is not None:
        raise ValueError(
            "This reward differs between the actions of a state, and so has a picture for each: leave `ax` out, or "
            "plot that of one action: `mdp.plot(reward.table(mdp)[:, action], ax=ax)`."
        )
    figure = by_action_on_grid(mdp, table)
    figure.suptitle(title, fontsize=10)
    return figure


def over_states(table: Float[np.ndarray, "S A"]) -> bool:
    """Whether a reward over states and actions is the same for all actions of a state; NaN where there is no action."""
    spread = np.nanmax(table, axis=1) - np.nanmin(table, axis=1)
    return bool(spread.max() <= 1e-9 * max(1.0, float(np.nanmax(np.abs(table)))))


def by_action_on_grid(mdp: MDP, table: Float[np.ndarray, "S A"]) -> Any:
    """A figure with the grid once for each action."""
    grid = Grid.of(mdp)
    assert grid is not None
    figure, axes = grid_panels(grid, mdp.num_actions)
    scale = plots.limits(table)
    for name, values, ax in zip(action_names(mdp), table.T, axes, strict=True):
        picture = grid.picture(values)
        plots.grid_heatmap(figure, ax, picture, title=plots.label(name), scale=scale, bar="reward", marks=grid.board)
    return figure


def _table(mdp: MDP, table: Float[np.ndarray, "S A"], title: str, ax: Any) -> Any:
    largest = np.nanmax(np.abs(table), axis=1)
    shown = np.sort(np.argsort(-largest, kind="stable")[:SHOWN_STATES])
    if not title and len(shown) < mdp.num_states:
        title = f"the {len(shown)} largest of {format_value(mdp.num_states)} states"

    def draw(figure: Any, axes: Any) -> None:
        rows = state_names(mdp, shown.tolist())
        options: dict[str, Any] = {"columns": action_names(mdp), "title": title, "bar": "expected reward"}
        plots.heat_table(figure, axes, table[shown], rows=rows, **options)

    return plots.on_axes(ax, draw, lambda: plots.blank(width=6.0, height=1.2 + 0.27 * len(shown)))
