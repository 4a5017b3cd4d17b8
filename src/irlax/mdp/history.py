"""States that remember where the episode has been, so that rewards and choices may depend on it."""

import dataclasses
from typing import TYPE_CHECKING, Any, Literal

import equinox as eqx
import numpy as np

from irlax import checks
from irlax.mdp.build import successors_from_scipy
from irlax.mdp.mdp import MDP
from irlax.mdp.memory import MOST_CODES, NO_MEMORY, Codes, Memory
from irlax.mdp.recorded import coded_rows, with_rows
from irlax.typing import Bool, Float, Int, Shaped

if TYPE_CHECKING:
    import pandas as pd

#: How the first states of an episode are named where nothing was visited before.
START = "start"


def with_history(
    mdp: MDP,
    demos: Any = None,
    *,
    last: int = 1,
    memory: Memory | None = None,
    start: Literal["none", "stay"] = "none",
    unknown: Literal["error", "drop", "start"] = "error",
    max_states: int = 10_000_000,
) -> "HistoryStates":
    r"""The MDP whose states are (history, present state): a reward over them may depend on what was visited before.

    $$x_t = (s_{t-k}, \dots, s_{t-1}, m_t, s_t), \qquad
      P(x' \mid x, a) = P(s' \mid s, a) \text{ if } x' \text{ continues } x \text{ by } s', \text{ else } 0$$

    k is `last`, and m a summary of your own (`Memory`): time since a visit, places visited already. Choices that depend
    on the last states are a Markov decision process in x (as in n-th order Markov models of behaviour; SWIRL, Ke et al.
    2025, uses k = 1), so everything in this library works in it. Only extended states that can occur are listed: those
    that can be reached from where the MDP or the demonstrations start, and those that were observed.

        places = ix.with_history(mdp, demos, last=1)
        fit = ix.MCEIRL(objective="likelihood", l2=0.01).fit(places.mdp, ix.TabularReward("s"), places.demos)
        places.pairs(fit.reward.parameters)            # r(previous, present), a table
        places.average(fit.reward.parameters)          # of each present state, weighted by observed visits

    At t = 0 nothing was visited before. With `start="none"` that is a history of its own ("start"), with rewards of its
    own; with `start="stay"` the first state counts as visited before, in all of the last steps.

    After a gap and at a late entry (first time above 0) the history is not known. `unknown` says what to do with such
    rows: refuse ("error"); leave them out until the history is known again ("drop"), which keeps the likelihood of the
    other choices right, because each is given its history; or take them as new starts ("start"), an approximation.

    An absorbing state has one extended state, whatever was before it, so that episodes end there as they did: a reward
    for entering it from somewhere belongs to the state and action before.
    """
    last = checks.count("last", last, 0)
    if memory is not None and not isinstance(memory, Memory):
        raise TypeError(f"`memory` must be an ix.Memory, but is a {type(memory).__name__}.")
    if not last and memory is None:
        raise ValueError("`last=0` remembers no states: give `memory=`, or `last` of at least 1.")
    checks.one_of("start", start, ("none", "stay"))
    checks.one_of("unknown", unknown, ("error", "drop", "start"))
    mdp.require_one_row("`with_history`")
    if mdp.ends_at_goal:
        raise ValueError(
            "`with_history` needs an MDP whose episodes have no goals of their own. For rewards of turns in a network, "
            "use `ix.routes.Network` of links, whose states know where they come from."
        )
    if mdp.num_states * (mdp.num_states + 1) ** last >= MOST_CODES:
        raise ValueError(
            f"`last={last}` has more sequences of {mdp.num_states} states than 62 bits can number. Remember fewer."
        )
    codes = Codes(mdp.num_states, last, memory or NO_MEMORY, mdp.absorbing, start == "stay")
    rows = None if demos is None else coded_rows(codes, mdp, demos, unknown)
    seeds = [codes.start(np.flatnonzero(np.asarray(mdp.initial) > 0))]
    if rows is not None:
        seeds += [rows.codes[rows.known], *([] if rows.next_codes is None else [rows.next_codes[rows.known]])]
    table = _Transitions.of(mdp, codes)
    found = _reachable(table, np.concatenate(seeds), checks.count("max_states", max_states))
    extended = _extended(mdp, table, found)
    states = HistoryStates(extended, mdp, None, codes, found, unknown)
    return states if demos is None else dataclasses.replace(states, demos=states.translate(demos))


@dataclasses.dataclass(frozen=True, eq=False)
class HistoryStates:
    """An MDP over extended states, the demonstrations in it, and the way back to the original states."""

    mdp: MDP
    #: The MDP that was extended.
    base: MDP
    demos: Any
    _codes: Codes = dataclasses.field(repr=False)
    _found: Int[np.ndarray, " E"] = dataclasses.field(repr=False)
    _unknown: str = "error"

    @property
    def present(self) -> Int[np.ndarray, " E"]:
        """The original state that each extended state is in."""
        return self._codes.split(self._found)[0]

    @property
    def previous(self) -> Int[np.ndarray, "E last"]:
        """The states visited before it: column 0 one step ago, column 1 two steps ago; −1 before the start."""
        return self._codes.last_states(self._found)

    @property
    def memory(self) -> Int[np.ndarray, " E"]:
        """Your own summary of the history, m; 0 where there is none."""
        return self._codes.split(self._found)[1]

    def translate(self, demos: Any) -> Any:
        """Demonstrations in the extended states, such as held-out ones; rows of unknown history as `unknown` says."""
        rows = coded_rows(self._codes, self.base, demos, self._unknown)
        wanted = [rows.codes[rows.known], *([] if rows.next_codes is None else [rows.next_codes[rows.known]])]
        missing = ~np.isin(np.concatenate(wanted), self._found)
        if missing.any():
            raise ValueError(
                f"{int(missing.sum())} of the given rows have a history that cannot occur from where the MDP or the "
                f"first demonstrations start. Call `with_history` with all demonstrations, and `select` episodes after."
            )
        number = lambda codes: np.searchsorted(self._found, codes)  # noqa: E731
        return with_rows(
            demos, rows.known, number(rows.codes), None if rows.next_codes is None else number(rows.next_codes)
        )

    def lift(self, values: Any) -> Any:
        """An array [S, ...] over original states, or a `LinearReward` of them, in the extended states."""
        if hasattr(values, "features") and hasattr(values, "with_parameters"):
            if np.ndim(values.features) == 4:
                raise ValueError(
                    "Features over (s, a, s') are not lifted: they would fill a table over pairs of extended states. "
                    "Give their expectations, [S, A, K]: np.einsum('sat,satk->sak', mdp.dynamics.to_dense(), features)."
                )
            return eqx.tree_at(lambda reward: reward.features, values, self.lift(values.features))
        values = np.asarray(values)
        checks.has_shape("values", values[..., None], (self.base.num_states, *[None] * values.ndim), "(S, ...)")
        return values[self.present]

    def total(self, values: Any) -> Float[np.ndarray, "S *rest"]:
        """The sum over the histories of each original state, for visits [E] or [E, A]."""
        values = self._checked("values", values)
        out = np.zeros((self.base.num_states, *values.shape[1:]))
        # Extended states are in the order of their present states.
        present = self.present
        first = np.flatnonzero(np.diff(present, prepend=-1))
        out[present[first]] = np.add.reduceat(values, first, axis=0)
        return out

    def average(self, values: Any, visits: Any = None) -> Float[np.ndarray, "S *rest"]:
        """The mean over the histories of each original state of rewards, values or a policy: [E] or [E, A].

        Weighted by `visits`, [E] or [E, A]: those of a plan (`ix.visits(history.mdp, plan)`), or by default those
        that were observed. NaN in states without visits.
        """
        values = self._checked("values", values)
        weight = self._observed() if visits is None else self._checked("visits", visits)
        weight = weight.reshape(len(weight), -1).sum(axis=1)
        total = self.total(weight)
        summed = self.total(values * weight.reshape(-1, *[1] * (values.ndim - 1)))
        with np.errstate(invalid="ignore"):
            mean = summed / np.where(total > 0, total, np.nan).reshape(-1, *[1] * (values.ndim - 1))
        return mean

    def pairs(self, values: Any, visits: Any = None) -> "pd.DataFrame":
        """Values [E] as a table: a row for each previous state ("start" for none), a column for each present one.

        NaN where the pair cannot occur. With `last` above 1 or a memory of your own, a cell is the mean over the longer
        histories, weighted as in `average`.
        """
        import pandas as pd

        values = self._checked("values", values)
        if not self._codes.last or values.ndim != 1:
            raise ValueError("`pairs` needs one value for each extended state, [E], and `last` of at least 1.")
        size = self.base.num_states
        cell = (self.previous[:, 0] + 1) * size + self.present
        alone = np.bincount(cell, minlength=(size + 1) * size) == 1
        weight = np.ones(len(values))
        if not alone[cell].all():
            weight = self._observed() if visits is None else self._checked("visits", visits)
            weight = np.where(alone[cell], 1.0, weight.reshape(len(weight), -1).sum(axis=1))
        with np.errstate(invalid="ignore"):
            sums = [np.bincount(cell, given, minlength=(size + 1) * size) for given in (values * weight, weight)]
            table = (sums[0] / np.where(sums[1] > 0, sums[1], np.nan)).reshape(size + 1, size)
        names = list(_names(self.base))
        frame = pd.DataFrame(table, index=[START, *names], columns=names)
        return frame.rename_axis(index="previous", columns="present")

    def _observed(self) -> Float[np.ndarray, " E"]:
        if self.demos is None:
            raise ValueError(
                "Without demonstrations no visits were observed: give `visits=`, such as ix.visits(history.mdp, plan)."
            )
        weight = self.demos.choice_weights
        return np.bincount(self.demos.states, weight, minlength=self.mdp.num_states)

    def _checked(self, name: str, values: Any) -> Float[np.ndarray, "E *rest"]:
        values = checks.as_floats(name, values)
        if not values.ndim or len(values) != self.mdp.num_states:
            raise ValueError(
                f"`{name}` must have one row for each of the {self.mdp.num_states} extended states, but has shape "
                f"{values.shape}."
            )
        return values


@dataclasses.dataclass(frozen=True)
class _Transitions:
    """The transitions of the original MDP, and how they change the code of an extended state."""

    codes: Codes
    successors: Int[np.ndarray, "S A B"]
    probs: Float[np.ndarray, "S A B"]
    #: None if every action is available everywhere.
    available: Bool[np.ndarray, "S A"] | None

    @classmethod
    def of(cls, mdp: MDP, codes: Codes) -> "_Transitions":
        successors, probs = successors_from_scipy(mdp.dynamics.to_scipy())
        # Probabilities in single precision sum to 1 to that precision only.
        probs = probs.astype(np.asarray(mdp.initial).dtype)
        return cls(codes, successors, probs, None if mdp.mask is None else np.asarray(mdp.available))

    def next_codes(self, codes: Int[np.ndarray, " n"]) -> tuple[Int[np.ndarray, "n A B"], Bool[np.ndarray, "n A B"]]:
        """The codes that follow, and which of them can; the others are the present code itself."""
        states = self.codes.split(codes)[0]
        possible = self.probs[states] > 0
        if self.available is not None:
            possible &= self.available[states][..., None]
        row, action, _ = np.nonzero(possible)
        after = np.broadcast_to(codes[:, None, None], possible.shape).copy()
        after[possible] = self.codes.after(codes[row], action, self.successors[states][possible])
        return after, possible


def _reachable(table: _Transitions, seeds: Int[np.ndarray, " n"], most: int) -> Int[np.ndarray, " E"]:
    """All codes that can follow from the seeds, in order: breadth first, a whole level at a time."""
    # Sorted arrays, each at most half as long as the one before it: a code is merged few times, however many levels.
    known: list[np.ndarray] = []
    level = np.unique(seeds)
    while len(level):
        known.append(level)
        while len(known) > 1 and len(known[-1]) * 2 > len(known[-2]):
            known[-2:] = [np.union1d(known[-2], known[-1])]
        count = sum(map(len, known))
        if count > most:
            raise ValueError(
                f"More than {most} extended states can occur. Remember less (`last=`, a memory that is capped), or "
                f"allow more of them with `max_states=`."
            )
        after, possible = table.next_codes(level)
        level = np.unique(after[possible])
        for codes in known:
            place = np.minimum(np.searchsorted(codes, level), len(codes) - 1)
            level = level[codes[place] != level]
    return np.sort(np.concatenate(known))


def _extended(mdp: MDP, table: _Transitions, found: Int[np.ndarray, " E"]) -> MDP:
    """The MDP over the codes that were found."""
    states = table.codes.split(found)[0]
    after, _ = table.next_codes(found)
    base_initial = np.asarray(mdp.initial)
    initial, starts = np.zeros(len(found), base_initial.dtype), np.flatnonzero(base_initial > 0)
    initial[np.searchsorted(found, table.codes.start(starts))] = base_initial[starts]
    extended = MDP.from_successors(
        np.searchsorted(found, after),
        table.probs[states],
        initial,
        discount=mdp.discount,
        horizon=mdp.horizon,
        available=None if table.available is None else table.available[states],
    )
    labels, given = mdp.labels, _labels(mdp, table.codes, found)
    units = {"action_unit": labels.action_unit, "time_unit": labels.time_unit, "actions": labels.actions}
    extended = extended.labelled(states=given, **units)
    return extended.single_precision() if mdp.initial.dtype == np.float32 else extended


def _names(mdp: MDP) -> Shaped[np.ndarray, " S"]:
    """A name for each original state: its label, or its number."""
    return np.array(mdp.labels.states or [str(state) for state in range(mdp.num_states)], object)


def _labels(mdp: MDP, codes: Codes, found: Int[np.ndarray, " E"]) -> list[str]:
    """ "older → previous → present", and what is remembered besides; absorbing states keep their names."""
    names = np.append(_names(mdp), START)
    states, m, _ = codes.split(found)
    text = names[states]
    before = codes.last_states(found)
    for column in range(codes.last):
        text = names[before[:, column]] + " → " + text
    if codes.memory is not NO_MEMORY:
        values, which = np.unique(m, return_inverse=True)
        text = text + np.array([f" ({codes.memory.name(int(value))})" for value in values], object)[which]
    return list(np.where(codes.absorbing[states], names[states], text))
