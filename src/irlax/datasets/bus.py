"""Panels of bus engines: Rust's (1987), and simulated ones."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from irlax import checks
from irlax.datasets.download import PublicFiles
from irlax.demos import rollout
from irlax.demos.demonstrations import from_rows
from irlax.envs.bus_engine import UNOBSERVED, BusEngine, BusPanel
from irlax.planning import soft_plan
from irlax.typing import Float, Int, PRNGKeyArray

#: The bins of all of Rust's tables together reach this far.
MILES = 450_000
#: In each bus's column: its number, the odometer at its replacements (0: none), the first of the months.
NUMBER, REPLACEMENTS, MONTHS = 0, [5, 8], 11

FILES = PublicFiles(
    "rust_bus",
    "https://github.com/OpenSourceEconomics/zurcher-data/raw/d39eb4d6da1cbdcadf7e5594672bb8495e3394b0/"
    "data/original_data/",
    (
        ("g870.asc", "28c565af50b316670ebf3bc21e45b779c743fc93ff5adab375a2296a5a9ca042"),
        ("rt50.asc", "18281cf711d9ea17cbcae0b17371f3749c46d40f46f2b44bde8bee6360b0f43a"),
        ("t8h203.asc", "edf9548b8e343991a9d5da514fde260d70b9002d84accfbbbd9c4abc78675684"),
        ("a530875.asc", "d67a6b7ea23b1b1fa772a22e86930ce79ed2afb9b1f01f546c119349ee7badab"),
    ),
)


class Group(NamedTuple):
    """How the file of a group is laid out: one number a line, one bus after the other."""

    file: str
    rows: int
    buses: int


GROUPS = {
    1: Group("g870.asc", 36, 15),
    2: Group("rt50.asc", 60, 4),
    3: Group("t8h203.asc", 81, 48),
    4: Group("a530875.asc", 128, 37),
}


def rust_bus(path: str | Path | None = None, *, groups: Sequence[int] = (1, 2, 3, 4), bins: int = 90) -> BusPanel:
    """The buses of Madison, Wisconsin, month by month: the data of Rust (1987), Tables IX and X.

    `path` is a folder with the original files; without one they are fetched once, checked and kept (which needs
    `pip install irlax[data]`; the variable IRLAX_DATA names another place to keep them). `bins` equal bins divide
    450,000 miles: 90 for Rust's Table IX, 175 for X.

    As in the paper, mileage since the last replacement is rounded up to whole bins, of which 0 and 1 are both
    state 0; an increment is the growth of that number, from 0 after a replacement. The month of a replacement is
    the last whose odometer is below the odometer at replacement. Each bus's first month is left out.
    """
    chosen = _checked_groups(groups)
    checks.count("bins", bins, 2)
    files = FILES.paths([GROUPS[group].file for group in chosen], path)
    histories = [
        (group, column) for group, file in zip(chosen, files, strict=True) for column in _columns(file, GROUPS[group])
    ]
    buses = [_binned(column, MILES / bins) for _, column in histories]
    states, replaced, increments = (np.concatenate([bus[k] for bus in buses]) for k in range(3))
    lengths = np.array([len(bus[0]) for bus in buses])
    demos = from_rows(
        states,
        replaced,
        lengths,
        times=np.concatenate([np.arange(1, length + 1) for length in lengths]),
        labels=np.array([column[NUMBER] for _, column in histories]),
    )
    return BusPanel(demos, increments, bins, np.array([group for group, _ in histories]))


def simulated_bus(engine: BusEngine, *, buses: int = 50, months: int = 120, key: PRNGKeyArray) -> BusPanel:
    """A panel with known parameters: new buses, operated by an agent that plans with `engine.parameters`.

    `months` choices of each bus are kept, after a first month that is left out, as in Rust's data. Increments from
    bins so high that the last bin could cut them off count as not observed, whatever they were.
    """
    checks.count("buses", buses)
    checks.count("months", months)
    plan = soft_plan(engine.mdp, engine.reward.table(engine.mdp))
    walked = rollout(engine.mdp, plan, num=buses, length=months + 1, key=key)
    states, actions = (array.reshape(buses, -1) for array in (walked.tabular_states, walked.actions))
    base = np.where(actions[:, :-1] == engine.REPLACE, 0, states[:, :-1])
    known = base + len(engine.increments) - 1 < engine.bins
    increments = np.where(known, states[:, 1:] - base, UNOBSERVED)
    demos = from_rows(
        states[:, 1:].ravel(),
        actions[:, 1:].ravel(),
        np.full(buses, months),
        times=np.tile(np.arange(1, months + 1), buses),
    )
    return BusPanel(demos, increments.ravel(), engine.bins)


def _checked_groups(groups: Sequence[int]) -> list[int]:
    if isinstance(groups, (str, int)) or not len(groups):
        raise TypeError(f"`groups` must be a list of some of the groups {list(GROUPS)}, but is {groups!r}.")
    unknown = [group for group in groups if group not in GROUPS]
    if unknown or len(set(groups)) != len(groups):
        raise ValueError(f"`groups` must name some of the groups {list(GROUPS)}, each once, but is {list(groups)}.")
    return sorted(int(group) for group in groups)


def _columns(file: Path, group: Group) -> Int[np.ndarray, "buses rows"]:
    try:
        numbers = np.array([int(line) for line in file.read_text().split()])
    except ValueError as error:
        raise ValueError(f"{file} must hold one whole number a line, but {error}.") from None
    wanted = group.rows * group.buses
    if len(numbers) != wanted:
        raise ValueError(
            f"{file} must hold {wanted} numbers, {group.rows} for each of {group.buses} buses, but holds "
            f"{len(numbers)}."
        )
    return numbers.reshape(group.buses, group.rows)


def _binned(
    column: Int[np.ndarray, " rows"], width: float
) -> tuple[Int[np.ndarray, " months"], Int[np.ndarray, " months"], Int[np.ndarray, " months"]]:
    """State, choice and increment of each month but the first."""
    odometer = column[MONTHS:]
    miles: Float[np.ndarray, " months"] = odometer.astype(float)
    replaced = np.zeros(len(odometer), int)
    for at in column[REPLACEMENTS][column[REPLACEMENTS] > 0]:
        replaced[np.flatnonzero(odometer < at)[-1]] = 1
        miles = np.where(odometer >= at, odometer - at, miles)
    rounded = np.ceil(miles / width).astype(int)
    before = np.where(replaced[:-1] == 1, 0, rounded[:-1])
    return np.maximum(rounded, 1)[1:] - 1, replaced[1:], rounded[1:] - before
