"""How an MDP shows itself: a line of text, a table, and HTML for notebooks. Cheap, whatever the number of states."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from irlax.mdp.grid import Grid, action_names
from irlax.mdp.mdp import MDP
from irlax.notebook_html import MAX_SIDE, board_svg, framed
from irlax.precision import is_traced, to_host
from irlax.tables import Summary, counted, format_value, pairs
from irlax.typing import Float

#: At most so many names are listed.
_NAMES = 8


def text(mdp: MDP) -> str:
    """The sizes, the discount, the horizon and the drawing in a line; also inside `jit`."""
    parts = [counted(mdp.num_states, "state"), counted(mdp.num_actions, "action"), f"discount {scalar(mdp.discount)}"]
    parts.append("no horizon" if mdp.horizon is None else f"horizon {mdp.horizon:,}")
    parts += [drawn_size(mdp)] if mdp.labels.layout else []
    parts += ["episodes end at goals"] if mdp.ends_at_goal else []
    return f"MDP({', '.join(parts)})"


def summary(mdp: MDP) -> Summary:
    """What `MDP.summary` returns."""
    labels = mdp.labels
    facts: list[tuple[str, Any]] = [("states", mdp.num_states), ("actions", _with_names(mdp))]
    if mdp.mask is not None and not is_traced(mdp.mask):
        facts.append(("pairs of state and action", int(np.count_nonzero(np.asarray(mdp.mask)))))
    facts.append(("discount", scalar(mdp.discount)))
    facts.append(("horizon", "infinite" if mdp.horizon is None else mdp.horizon))
    if not is_traced(mdp.initial) and np.ndim(mdp.initial) == 1:
        facts.append(("states to start in", int((to_host(mdp.initial) != 0).sum())))
    facts.append(("dynamics", type(mdp.dynamics).__name__))
    facts += [("episodes end at", "goals of their own")] if mdp.ends_at_goal else []
    facts += [("drawing", drawn_size(mdp))] if labels.layout else []
    facts += [("places on a map", True)] if labels.places is not None else []
    for name, unit in (("states", labels.state_unit), ("actions", labels.action_unit), ("a step", labels.time_unit)):
        facts += [(f"unit of {name}", unit)] if unit else []
    return Summary([pairs("MDP", facts)])


def as_html(mdp: MDP) -> str:
    """The summary and, if it is not large, the drawing."""
    return framed(summary(mdp).to_html(), board(mdp, what="the grid"))


def board(
    mdp: MDP,
    values: Float[np.ndarray, " S"] | None = None,
    arrows: Float[np.ndarray, "S 2"] | None = None,
    *,
    what: str,
) -> str:
    """The gridworld as SVG, with values of its states; nothing if there is none, or it is large."""
    layout = mdp.labels.layout
    if layout is None or max(len(layout), len(layout[0])) > MAX_SIDE:
        return ""
    grid = Grid.of(mdp)
    assert grid is not None
    return board_svg(layout, grid.cells, values, arrows, what=what)


def scalar(value: Any) -> str:
    """A number as text; of what has several values, or none (inside `jit`), the type and shape."""
    if is_traced(value) or np.ndim(value):
        return f"{value.dtype}{list(np.shape(value))}"
    return format_value(float(value))


def drawn_size(mdp: MDP) -> str:
    """The size of the drawing, such as "grid 4 × 12"."""
    layout = mdp.labels.layout or ("",)
    return f"grid {len(layout):,} × {len(layout[0]):,}"


def listed(names: Sequence[str]) -> str:
    """The first names."""
    return ", ".join(names[:_NAMES]) + (", …" if len(names) > _NAMES else "")


def _with_names(mdp: MDP) -> Any:
    if mdp.labels.actions is None:
        return mdp.num_actions
    return f"{format_value(mdp.num_actions)}: {listed(action_names(mdp)[: _NAMES + 1])}"
