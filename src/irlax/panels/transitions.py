"""From the rows of a panel to its states and their estimated transitions."""

import dataclasses
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from irlax.estimators.tabular.estimated_transitions import EstimatedTransitions
from irlax.panels.factors import (
    Factor,
    chain_factor,
    described,
    follows_factor,
    increment_factor,
    leaving_factor,
    smoothed,
)
from irlax.panels.history import Follows
from irlax.panels.models import Chain, Counts, Model
from irlax.panels.multinomials import Multinomials, certain
from irlax.panels.rows import Choices, Rows
from irlax.panels.states import Space, closure, refuse_too_many
from irlax.panels.unseen import refuse_taken, refuse_unseen, refuse_unseen_variable
from irlax.panels.variables import Variable
from irlax.typing import Bool, Float, Int


class StateTransitions(NamedTuple):
    """The states of a panel, the last of which is the exit if lives end, with their transitions."""

    codes: Int[np.ndarray, "S V"]
    available: Bool[np.ndarray, "S A"]
    successors: Int[np.ndarray, "S A B"]
    probs: Float[np.ndarray, "S A B"]
    #: None where the probabilities were given.
    estimated: EstimatedTransitions | None


def count_states(
    space: Space, rows: Rows, choices: Choices, model: Counts, followers: Sequence[Follows] = ()
) -> StateTransitions:
    """States as observed, with the frequencies of what followed each state and action.

    The state as a whole is one variable, which moves as a chain; whether an individual leaves depends on all of it. So
    a gap, after which an individual is seen again, counts as not having left. Its history, the last variables, is no
    part of that: what happens next depends on the present state and action alone.
    """
    own = len(space.variables) - len(followers)
    present = Space(space.variables[:own])
    keys, state = np.unique(present.keys(rows.levels[:, :own]), return_inverse=True)
    refuse_too_many(len(keys))
    state, codes = state.ravel(), present.codes(keys)

    def full(levels: Int[np.ndarray, "m W"]) -> Int[np.ndarray, "m V"]:
        """The levels of all variables, given the number of the present state and those of its history."""
        return np.concatenate([codes[levels[:, 0]], levels[:, 1:]], axis=1)

    inner = np.column_stack([state, rows.levels[:, own:]])
    # With a history the same present state may have several choice sets.
    listed = np.unique(inner, axis=0)
    exists = np.zeros((len(keys), len(choices.labels)), bool)
    np.logical_or.at(exists, listed[:, 0], choices.available(full(listed)))
    seen = _next_known(rows, state, exists.shape)
    if model.unseen == "unavailable":
        refuse_taken(present, codes, choices, exists & ~seen, (state, rows.actions))
    filled = model.unseen in ("any-action", "stay") or model.smoothing > 0
    missing = (
        exists
        & ~seen
        & (model.unseen != "unavailable")
        & ~(filled & (model.unseen == "stay" or seen.any(axis=1, keepdims=True)))
    )
    if missing.any():
        refuse_unseen(present, codes, choices, missing)
    whole = Variable("state", tuple(map(str, range(len(keys)))), None, "")
    chain = Chain(smoothing=model.smoothing, unseen="error" if model.unseen == "unavailable" else model.unseen)
    left_out = model.unseen == "unavailable"
    within = Choices(
        choices.labels,
        lambda levels: choices.available(full(levels)) & (seen[levels[:, 0]] if left_out else True),
    )
    moved = [_of_whole(follows, codes) for follows in followers]
    made = variable_by_variable(
        Space((whole, *space.variables[own:])), rows._replace(levels=inner), within, [chain, *moved], [0]
    )
    assert made.estimated is not None
    text = f"relative frequencies of next states given state and action{smoothed(model)}"
    text += ", of exits likewise" if rows.exits.any() else ""
    alive = made.codes[:, 0] >= 0
    found = np.full((len(made.codes), len(space.variables)), -1)
    found[alive] = full(made.codes[alive])
    return made._replace(codes=found, estimated=dataclasses.replace(made.estimated, description=text))


def _of_whole(follows: Follows, codes: Int[np.ndarray, "S W"]) -> Follows:
    """A model of history where the present state is one variable, the first, instead of several."""
    own = codes.shape[1]
    if follows.source is None:
        return follows
    return Follows(0, codes[:, follows.source]) if follows.source < own else Follows(follows.source - own + 1)


def _next_known(rows: Rows, state: Int[np.ndarray, " n"], shape: tuple[int, int]) -> Bool[np.ndarray, "S A"]:
    """Of which states and actions a next state was observed, or that they always end in the exit."""
    found = np.zeros((3, *shape), bool)
    for k, which in enumerate((rows.followed, np.flatnonzero(rows.exits), np.flatnonzero(rows.survived))):
        found[k, state[which], rows.actions[which]] = True
    followed, left, survived = found
    return followed | (left & ~survived)


def variable_by_variable(
    space: Space, rows: Rows, choices: Choices, models: Sequence[Model | Follows], exit_given: Sequence[int]
) -> StateTransitions:
    """Combinations of levels that can occur, if each variable moves independently of the others."""
    leaving = leaving_factor(space, rows, choices, exit_given)
    factors = [_factor(space, rows, choices, v, model) for v, model in enumerate(models)]
    if leaving is not None:
        factors.append(leaving)
    radix = space.radix

    def combined(codes: Int[np.ndarray, "m V"]) -> tuple[Int[np.ndarray, "m A B"], Int[np.ndarray, "m A B F"]]:
        """The keys of all next combinations, and the outcomes that lead there; −1 where there is none."""
        shape = (len(codes), len(choices.labels), 1)
        after, outcomes = np.zeros(shape, np.int64), np.zeros((*shape, 0), np.int64)
        for f, factor in enumerate(factors):
            row = factor.row(codes)
            target, outcome = factor.targets[row][:, :, None], factor.outcomes[row][:, :, None]
            step = radix[f] if f < len(radix) else 0
            grown = after[..., None] + step * target
            with_outcome = np.concatenate(
                [
                    np.broadcast_to(outcomes[..., None, :], (*grown.shape, f)),
                    np.broadcast_to(outcome, grown.shape)[..., None],
                ],
                axis=-1,
            )
            flat = (*shape[:2], -1)
            after, outcomes = grown.reshape(flat), with_outcome.reshape(*shape[:2], grown[0, 0].size, f + 1)
        return np.where((outcomes >= 0).all(axis=-1), after, -1), outcomes

    def follow(frontier: Int[np.ndarray, " f"]) -> Int[np.ndarray, " g"]:
        codes = space.codes(frontier)
        after, _ = combined(codes)
        available = choices.available(codes)
        stuck = available & (after < 0).all(axis=-1) & ~_certain_exit(leaving, codes)
        if stuck.any():
            refuse_unseen_variable(space, codes, choices, stuck, factors)
        return np.unique(after[available[..., None] & (after >= 0)])

    keys = closure(space.keys(rows.levels), follow)
    codes = space.codes(keys)
    after, outcomes = combined(codes)
    tables = [factor.table for factor in factors]
    offsets = np.cumsum([0, *(len(table.counts) for table in tables)])
    listed = after >= 0
    outcomes = np.where(listed[..., None], outcomes + offsets[:-1], -1)
    state = np.where(listed, np.searchsorted(keys, np.where(listed, after, keys[0])), 0)
    draws = np.stack([table.draws for table in tables], axis=1)
    draws = np.where(draws >= 0, draws + offsets[:-1], -1)
    if leaving is not None:
        state, outcomes = _with_exit(leaving, codes, state, outcomes, num_outcomes=int(offsets[-1]))
        tables.append(certain())
    texts = [described(space, v, model) for v, model in enumerate(models)]
    if leaving is not None:
        texts.append("exits by " + " and ".join([*(space.variables[v].name for v in exit_given), "action"]))
    parts = {"tables": tables, "draws": draws, "description": "; ".join(texts), "has_exit": leaving is not None}
    return _assembled(codes, choices.available(codes), _compressed(state, outcomes), **parts)


def _factor(space: Space, rows: Rows, choices: Choices, v: int, model: Model | Follows) -> Factor:
    if isinstance(model, Follows):
        return follows_factor(space, rows, choices, v, model)
    make = chain_factor if isinstance(model, Chain) else increment_factor
    return make(space, rows, choices, v, model)  # type: ignore[arg-type]


def _certain_exit(leaving: Factor | None, codes: Int[np.ndarray, "m V"]) -> Bool[np.ndarray, "m A"] | bool:
    return False if leaving is None else leaving.outcomes[leaving.row(codes)][..., 0] < 0


def _with_exit(
    leaving: Factor,
    codes: Int[np.ndarray, "S V"],
    state: Int[np.ndarray, "S A B"],
    outcomes: Int[np.ndarray, "S A B F"],
    *,
    num_outcomes: int,
) -> tuple[np.ndarray, np.ndarray]:
    """One more next state for each action, the exit: its own probability, and a certain outcome for the variables.

    The outcomes of `leaving` are the last of those before the certain one, which is added after them.
    """
    row, table = leaving.row(codes), leaving.table
    leaves = np.where(table.targets == 1, table.outcomes, -1).max(axis=1)[row]
    first = num_outcomes - len(table.counts)
    certain_one = np.where(leaves >= 0, num_outcomes, -1)
    out = np.repeat(certain_one[..., None, None], outcomes.shape[-1], axis=-1)
    out[..., -1] = np.where(leaves >= 0, leaves + first, -1)[..., None]
    state = np.concatenate([state, np.full((*state.shape[:2], 1), len(codes))], axis=2)
    return state, np.concatenate([outcomes, out], axis=2)


def _compressed(
    state: Int[np.ndarray, "S A B"], outcomes: Int[np.ndarray, "S A B F"]
) -> tuple[Int[np.ndarray, "S A b"], Int[np.ndarray, "S A b F"]]:
    """Only as wide as the longest list of next states."""
    listed = (outcomes >= 0).all(axis=-1)
    order = np.argsort(~listed, axis=-1, kind="stable")[..., : max(int(listed.sum(axis=-1).max()), 1)]
    return np.take_along_axis(state, order, axis=-1), np.take_along_axis(outcomes, order[..., None], axis=2)


def _assembled(
    codes: Int[np.ndarray, "S V"],
    available: Bool[np.ndarray, "S A"],
    listed: tuple[Int[np.ndarray, "S A B"], Int[np.ndarray, "S A B F"]],
    *,
    tables: Sequence[Multinomials],
    draws: Int[np.ndarray, "n F"],
    description: str,
    has_exit: bool,
) -> StateTransitions:
    """All multinomials as one list; with an exit, one more state, which one action leads back to for certain."""
    (successors, outcomes), tables = listed, list(tables)
    if has_exit:
        tables.append(certain())
    first = np.cumsum([0, *(int(table.multinomial.max(initial=-1)) + 1 for table in tables)])
    multinomial = np.concatenate([table.multinomial + at for table, at in zip(tables, first, strict=False)])
    counts, prior = (np.concatenate([getattr(table, name) for table in tables]) for name in ("counts", "prior"))
    padding = (outcomes < 0).any(axis=-1) | ~available[..., None]
    successors = np.where(padding, np.arange(len(codes))[:, None, None], successors)
    outcomes = np.where(padding[..., None], -1, outcomes)
    if has_exit:
        num, (_, num_actions, width) = len(codes), successors.shape
        stay = np.full((1, num_actions, width, outcomes.shape[-1]), -1)
        stay[0, 0, 0] = len(counts) - 1
        successors = np.concatenate([successors, np.full((1, num_actions, width), num)])
        outcomes = np.concatenate([outcomes, stay])
        codes = np.vstack([codes, np.full((1, codes.shape[1]), -1)])
        available = np.vstack([available, np.arange(num_actions) == 0])
    # Multinomials of what does not exist, such as the next states of an action that is not available, are left out.
    used = np.zeros(int(multinomial.max()) + 1, bool)
    used[multinomial[np.unique(outcomes[outcomes >= 0])]] = True
    kept = used[multinomial]
    place = np.append(np.where(kept, np.cumsum(kept) - 1, -1), -1)
    multinomial = np.unique(multinomial[kept], return_inverse=True)[1].ravel()
    estimated = EstimatedTransitions(
        successors, place[outcomes], multinomial, counts[kept], prior[kept], (place[draws],), description
    )
    return StateTransitions(codes, available, successors, estimated.probs, estimated)
