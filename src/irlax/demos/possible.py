"""Whether demonstrations are possible in an MDP."""

import contextlib

import jax
import numpy as np

from irlax.demos.demonstrations import Demonstrations
from irlax.demos.sizes import padded
from irlax.demos.statistics import DemoStatistics
from irlax.mdp import MDP
from irlax.planning.small import MAX_TRANSITIONS, dense_transitions
from irlax.precision import is_traced, scope, staged
from irlax.typing import Float, Int


def check(demos: Demonstrations, mdp: MDP) -> None:
    """Raise a ValueError that names the first row which cannot be."""
    if is_traced(mdp):
        return
    states, actions, after = demos.tabular_states, demos.actions, demos.next_states
    refuse_rows(demos, states >= mdp.num_states, states, f"state must lie in 0..{mdp.num_states - 1}")
    refuse_rows(demos, actions >= mdp.num_actions, actions, f"action must lie in 0..{mdp.num_actions - 1}")
    refuse_rows(demos, ~mdp.exist(states, actions), actions, "action must be available in its state")
    if mdp.horizon is not None:
        late = demos.times >= mdp.horizon
        refuse_rows(demos, late, demos.times, f"time must lie below the horizon {mdp.horizon}")
    if after is not None:
        refuse_rows(demos, after >= mdp.num_states, after, f"next state must lie in 0..{mdp.num_states - 1}")
    if demos.goals is not None:
        _refuse_passed_goals(demos, demos.goals, mdp.num_states)
    _refuse_impossible_moves(demos, mdp)


def _refuse_passed_goals(demos: Demonstrations, goals: Int[np.ndarray, " N"], num_states: int) -> None:
    """A ValueError unless every episode ends where it first reaches its goal."""
    states, after, goal = demos.tabular_states, demos.next_states, goals[demos.episode]
    refuse_rows(demos, (goal < 0) | (goal >= num_states), goal, f"goal must lie in 0..{num_states - 1}")
    rule = "goal of an episode must not be reached before its end, where nothing more is chosen"
    refuse_rows(demos, states == goal, states, rule)
    if after is None:
        return
    last = demos.offsets[1:] - 1
    inner = np.ones(len(states), bool)
    inner[last] = False
    refuse_rows(demos, inner & (after == goal), after, rule)
    elsewhere = np.zeros(len(states), bool)
    elsewhere[last] = demos.terminated & (after[last] != goals)
    refuse_rows(demos, elsewhere, after, "last next state of a terminated episode must be its goal")


def check_statistics(statistics: DemoStatistics, mdp: MDP) -> None:
    """Raise a ValueError that names the first choice or move among the counted ones which cannot be."""
    if is_traced(mdp):
        return
    size, own = (statistics.num_states, statistics.num_actions), (mdp.num_states, mdp.num_actions)
    if size != own:
        raise ValueError(f"The statistics are of {size[0]} states and {size[1]} actions, but the MDP has {own}.")
    states, actions = np.nonzero(statistics.choices)
    absent = ~mdp.exist(states, actions)
    if absent.any():
        first = int(np.argmax(absent))
        raise ValueError(
            f"In the statistics action {actions[first]} was chosen in state {states[first]}, where it is not available."
        )
    if mdp.horizon is not None and statistics.max_time >= mdp.horizon:
        raise ValueError(
            f"In the statistics times go up to {statistics.max_time}, but must lie below the horizon {mdp.horizon}."
        )
    for action, counted in enumerate(statistics.transitions):
        before, after = counted.nonzero()
        likely = _probability(mdp, before, np.full(len(before), action), after)
        if (likely <= 0).any():
            worst = int(np.argmax(likely <= 0))
            raise ValueError(
                f"In the statistics action {action} led from state {before[worst]} to state {after[worst]}, which has "
                f"probability 0 in the MDP."
            )


def refuse_rows(demos: Demonstrations, bad: np.ndarray, values: np.ndarray, rule: str) -> None:
    """Raise a ValueError that names the first bad row and says which rule it breaks."""
    if bad.any():
        row = int(np.argmax(bad))
        raise ValueError(
            f"In the demonstrations the {rule}, but row {row} ({demos.where(row)}) has {values[row]}"
            + (f", and so have {int(bad.sum()) - 1} more rows." if bad.sum() > 1 else ".")
        )


def _refuse_impossible_moves(demos: Demonstrations, mdp: MDP) -> None:
    rows, after = demos.moves()
    before = demos.tabular_states[rows]
    likely = _probability(mdp, before, demos.actions[rows], after)
    if (likely <= 0).any():
        worst = int(np.argmax(likely <= 0))
        row = int(rows[worst])
        raise ValueError(
            f"In the demonstrations row {row} ({demos.where(row)}) moves from state {before[worst]} by action "
            f"{demos.actions[row]} to state {after[worst]}, which has probability 0 in the MDP"
            + (f"; {int((likely <= 0).sum()) - 1} more rows do the same." if (likely <= 0).sum() > 1 else ".")
        )


def _probability(
    mdp: MDP, states: Int[np.ndarray, " n"], actions: Int[np.ndarray, " n"], after: Int[np.ndarray, " n"]
) -> Float[np.ndarray, " n"]:
    """P(s' | s, a) of moves."""
    if not len(states):
        return np.zeros(0)
    if mdp.rows.one_per_state and mdp.num_actions * mdp.num_states**2 <= MAX_TRANSITIONS:
        return dense_transitions(mdp.dynamics)[actions, states, after]
    moves = padded(*mdp.rows.cells(states, actions), after)
    # Inside a user's `jit` these are constants: their values are known. Elsewhere it is one compiled program.
    with jax.ensure_compile_time_eval() if staged() else contextlib.nullcontext(), scope():
        return np.asarray(mdp.dynamics.probability(*moves))[: len(states)]
