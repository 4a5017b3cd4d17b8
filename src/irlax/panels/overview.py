"""What a panel holds, as tables: coverage, gaps, levels, cells never seen, transitions seen once."""

from typing import TYPE_CHECKING, Any

import numpy as np

from irlax.tables import Summary, Table, pairs

if TYPE_CHECKING:
    from irlax.panels.panel import Panel

#: Levels of a variable that are listed one by one.
SHOWN = 12


def overview(panel: "Panel") -> Summary:
    """The facts, the actions, and the state variables."""
    return Summary([_facts(panel), _actions(panel), *_variables(panel)])


def _facts(panel: "Panel") -> Table:
    demos = panel.demos
    first, last = demos.times[demos.offsets[:-1]], demos.times[demos.offsets[1:] - 1]
    gaps = (np.diff(demos.times) > 1) & (np.diff(demos.episode) == 0)
    alive = panel.num_states - panel.has_exit
    combinations = int(np.prod([float(variable.num) for variable in panel.variables]))
    taken = np.zeros(panel.available.shape, bool)
    taken[demos.tabular_states, demos.actions] = True
    exists = int(panel.available[:alive].sum())
    facts: list[tuple[str, Any]] = [
        ("individuals", demos.num_episodes),
        ("choices", demos.num_steps),
        ("periods", f"{panel.first_period} to {panel.first_period + int(demos.times.max())} ({panel.period})"),
        ("choices an individual, least and most", f"{demos.lengths.min()} and {demos.lengths.max()}"),
        ("individuals that enter late", int((first > first.min()).sum())),
        ("individuals that leave early", int((last < last.max()).sum())),
        ("of these, for good (exit)", int(demos.terminated.sum())),
        ("periods that are missing between others", int((np.diff(demos.times)[gaps] - 1).sum())),
        ("states that can occur", f"{alive:,} of {combinations:,} combinations of levels"),
        ("states that were observed", len(np.unique(demos.tabular_states))),
        ("state and action: never chosen", f"{exists - int(taken[:alive].sum()):,} of {exists:,}"),
    ]
    if (demos.weights != 1).any():
        facts.append(("sum of weights", float(demos.weights.sum())))
    if panel.without_history:
        facts.append(("choices left out, because their history is not known", panel.without_history))
    estimated = panel.transitions
    if estimated is None:
        facts.append(("transitions", "given"))
    else:
        # What is certain, such as that nobody comes back from the exit, is a multinomial of one outcome.
        random = np.bincount(estimated.multinomial)[estimated.multinomial] > 1
        facts += [
            ("next periods that were observed", len(demos.followed)),
            ("transition probabilities that were estimated", estimated.num_free),
            ("of their outcomes, seen once", int((estimated.counts == 1).sum())),
            ("of their outcomes, assumed and never seen", int(((estimated.counts == 0) & random).sum())),
        ]
    notes = () if estimated is None else (f"Transitions: {estimated.description}.",)
    return pairs("Panel", facts, notes)


def _actions(panel: "Panel") -> Table:
    demos = panel.demos
    counts = np.bincount(demos.actions, minlength=len(panel.actions))
    exists = panel.available[: panel.num_states - panel.has_exit].sum(axis=0)
    rows = [
        (label, int(count), float(count / demos.num_steps), int(number))
        for label, count, number in zip(panel.actions, counts, exists, strict=True)
    ]
    return Table(("action", "chosen", "share", "available in states"), rows, title="Actions")


def _variables(panel: "Panel") -> list[Table]:
    demos = panel.demos
    tables = []
    for j, variable in enumerate(panel.variables):
        counts = np.bincount(panel.codes[demos.tabular_states, j], minlength=variable.num)
        values = [None] * variable.num if variable.values is None else variable.values.tolist()
        rows = [(label, value, int(count)) for label, value, count in zip(variable.labels, values, counts, strict=True)]
        notes = [] if len(rows) <= SHOWN else [f"The first {SHOWN} of {len(rows)} levels."]
        title = f"State variable {variable.name}: {variable.how}"
        tables.append(Table(("level", "value in formulae", "rows"), rows[:SHOWN], title, notes))
    return tables
