"""Demonstrations on matplotlib axes: visits to states, or paths between them."""

from typing import Any

import numpy as np

from irlax import checks
from irlax.demos.demonstrations import Demonstrations
from irlax.mdp import MDP
from irlax.mdp.drawing import coordinates, state_bars
from irlax.report import plots
from irlax.tables import format_value
from irlax.typing import Int

#: At most this many episodes are drawn as lines, each so far aside, in parts of a typical step.
_PATHS, _ASIDE = 100, 0.22
_VISITS = "observed choices"


def demos_picture(demos: Demonstrations, mdp: MDP | None, *, by: str, title: str, ax: Any) -> Any:
    """What `Demonstrations.plot` returns."""
    checks.one_of("by", by, ("visits", "paths"))
    states = demos.tabular_states
    if mdp is not None:
        demos.check(mdp)
    if by == "paths":
        return _paths(demos, mdp, title=title, ax=ax)
    num = int(states.max()) + 1 if mdp is None else mdp.num_states
    counts = np.bincount(states, weights=demos.choice_weights, minlength=num)
    if mdp is None:
        return state_bars(counts, lambda states: [f"s{state}" for state in states], name=_VISITS, title=title, ax=ax)
    return mdp.plot(counts, name=_VISITS, title=title, ax=ax)


def _paths(demos: Demonstrations, mdp: MDP | None, *, title: str, ax: Any) -> Any:
    points = None if mdp is None else coordinates(mdp)
    if mdp is None or points is None:
        raise ValueError(
            "Paths are drawn on a grid or on a map: pass the `mdp`, with a layout or places (`mdp.labelled`), or plot "
            "`by='visits'`."
        )
    few = demos.select(np.arange(min(demos.num_episodes, _PATHS)))
    routes = [points[_visited(few, k)] for k in range(few.num_episodes)]
    steps = np.concatenate([np.hypot(*np.diff(route, axis=0).T) for route in routes])
    aside = _ASIDE * float(np.median(steps[steps > 0])) if (steps > 0).any() else 0.0
    if not title and few.num_episodes < demos.num_episodes:
        title = f"the first {few.num_episodes} of {format_value(demos.num_episodes)} episodes"

    def draw(axes: Any) -> None:
        axes.autoscale(False)
        opaque = float(np.clip(6 / len(routes), 0.15, 0.8))
        for k, route in enumerate(routes):
            # Points of a spiral, which fill a disc evenly (Vogel 1979).
            radius, angle = aside * np.sqrt((k + 0.5) / len(routes)), k * np.pi * (3 - np.sqrt(5))
            x, y = (route + radius * np.array([np.cos(angle), np.sin(angle)])).T
            axes.plot(x, y, color=plots.COLOURS[0], linewidth=1.5, alpha=opaque, zorder=3)
            axes.plot(x[:1], y[:1], "o", color=plots.COLOURS[1], markersize=3, alpha=max(opaque, 0.4), zorder=4)

    drawn = mdp.plot(title=title, ax=ax)
    draw(drawn.axes[0] if ax is None else ax)
    return drawn


def _visited(demos: Demonstrations, k: int) -> Int[np.ndarray, " n"]:
    """The states of an episode, with the last next state if it is known."""
    rows = slice(demos.offsets[k], demos.offsets[k + 1])
    states = demos.tabular_states[rows]
    return states if demos.next_states is None else np.append(states, demos.next_states[rows][-1])
