"""Pictures of an MDP on matplotlib axes: a grid, a map, a graph of states, or bars."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from irlax import checks
from irlax.mdp.grid import Grid, state_names
from irlax.mdp.mdp import MDP
from irlax.report import graphs, maps, plots
from irlax.tables import format_value
from irlax.typing import Float, Int

#: Without a grid to draw, at most this many states are shown.
SHOWN_STATES = 30
#: The graph of moves is drawn for at most this many states.
MAX_NODES = 60


def mdp_picture(mdp: MDP, values: Any, *, name: str, title: str, ax: Any) -> Any:
    """What `MDP.plot` returns."""
    if values is not None:
        values = checks.as_floats("values", values)
        checks.has_shape("values", values, (mdp.num_states,), "(S,), one for each state")
        # What is infinite, such as the value from where a goal cannot be reached, has no colour.
        values = plots.clip_for_plot(np.where(np.isfinite(values), values, np.nan))
    grid = Grid.of(mdp)
    if grid is not None:
        return plots.on_axes(
            ax,
            lambda figure, axes: grid_picture(figure, axes, grid, values, name=name, title=title),
            lambda: grid_panels(grid, 1),
        )
    if mdp.labels.places is not None:
        return _map(mdp, values, name=name, title=title, ax=ax)
    if values is None:
        return _graph(mdp, title=title, ax=ax)
    return state_bars(values, lambda states: state_names(mdp, states), name=name, title=title, ax=ax)


def grid_panels(grid: Grid, count: int) -> tuple[Any, np.ndarray]:
    """A figure with `count` axes for pictures of a grid, at most three in a row, in the proportions of the grid."""
    columns = min(count, 3)
    width = 5.0 if count == 1 else 9.0
    tall = width / max(columns, 1 if count == 1 else 2) * grid.shape[0] / grid.shape[1]
    height = float(np.clip(tall, 1.6, 5.5))
    figure, axes = plots.blank(columns, rows=-(-count // columns), width=width, height=height)
    for ax in axes.ravel()[count:]:
        ax.set_visible(False)
    return figure, axes.ravel()[:count]


def grid_picture(
    figure: Any, ax: Any, grid: Grid, values: Float[np.ndarray, " S"] | None, *, name: str = "", title: str = ""
) -> None:
    """Draw a grid with its marks, plain or with values of its states by colour."""
    if values is None:
        empty, scale = grid.picture(np.zeros(len(grid.cells))), (0.0, 1.0, "Greys")
        plots.grid_heatmap(figure, ax, empty, title=title, scale=scale, marks=grid.board)
    else:
        plots.grid_heatmap(figure, ax, grid.picture(values), title=title, bar=plots.label(name, 40), marks=grid.board)


def coordinates(mdp: MDP) -> Float[np.ndarray, "S 2"] | None:
    """Where each state lies on its picture, (x, y): the cell's column and row, or the middle of its place."""
    grid, places = Grid.of(mdp), mdp.labels.places
    if grid is not None:
        return grid.cells[:, ::-1].astype(float)
    return None if places is None else (places[:, :2] + places[:, 2:]) / 2


def _map(mdp: MDP, values: Float[np.ndarray, " S"] | None, *, name: str, title: str, ax: Any) -> Any:
    places = mdp.labels.places
    assert places is not None
    links = np.flatnonzero((places[:, :2] != places[:, 2:]).any(axis=1))
    segments = places[links] if len(links) else _moves(mdp, places)
    if not len(segments):
        raise ValueError("A map needs states in different places, but in this MDP no move leads to another place.")

    def draw(figure: Any, axes: Any) -> None:
        bar = plots.label(name, 40)
        if values is None or len(links):
            of_links = None if values is None else values[links]
            maps.network_map(figure, axes, segments, of_links, title=title, bar=bar)
        else:
            maps.point_map(figure, axes, places[:, :2], values, segments=segments, title=title, bar=bar)

    return plots.on_axes(ax, draw, lambda: maps.panels(segments, 1))


def _moves(mdp: MDP, places: Float[np.ndarray, "S 4"]) -> Float[np.ndarray, "n 4"]:
    """A segment for each possible move to another place."""
    ends = _arcs(mdp)
    segments = np.concatenate([places[ends[:, 0], :2], places[ends[:, 1], :2]], axis=1)
    return segments[(segments[:, :2] != segments[:, 2:]).any(axis=1)]


def _arcs(mdp: MDP) -> Int[np.ndarray, "n 2"]:
    """The pairs of states of which the first can lead to the second."""
    graph = mdp.successor_graph().tocoo()
    return np.stack([graph.row, graph.col], axis=1)[graph.data > 0].astype(np.int64)


def _graph(mdp: MDP, *, title: str, ax: Any) -> Any:
    if mdp.num_states > MAX_NODES:
        raise ValueError(
            f"The graph of moves is drawn for at most {MAX_NODES} states, but this MDP has {mdp.num_states:,}. Give "
            f"`values` to plot, or draw the states: `mdp.labelled(layout=...)` for a gridworld, `places=` for a map."
        )

    def draw(_: Any, axes: Any) -> None:
        graphs.arrow_graph(axes, _arcs(mdp), state_names(mdp), squares=mdp.absorbing)
        axes.set_title(title, fontsize=10)

    return plots.on_axes(ax, draw, lambda: plots.blank(width=5.0, height=4.6))


def state_bars(
    values: Float[np.ndarray, " S"],
    names: Callable[[Sequence[int]], list[str]],
    *,
    name: str,
    title: str,
    ax: Any,
) -> Any:
    """Values of states as bars: of all of them, or of those where they are largest."""
    shown = np.sort(np.argsort(-np.abs(np.nan_to_num(values)), kind="stable")[:SHOWN_STATES])
    if not title and len(shown) < len(values):
        title = f"the {len(shown)} largest of {format_value(len(values))} states"

    def draw(_: Any, axes: Any) -> None:
        plots.bars(axes, {name: values[shown]}, names(shown.tolist()), xlabel=plots.label(name, 40))
        axes.set_title(title, fontsize=10)

    return plots.on_axes(ax, draw, lambda: plots.blank(width=6.0, height=1.2 + 0.27 * len(shown)))
