"""Rust's bus engines: Tables IX and X."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from irlax.datasets import rust_bus
from irlax.datasets.bus import GROUPS
from irlax.envs import BusEngine
from irlax.envs.bus_engine import BusPanel
from irlax.estimators.tabular import MCEIRL
from irlax.estimators.tabular.tabular_fit import TabularFit
from irlax.reproduce.result import Line, Result
from irlax.rewards.reward import flat


class Column(NamedTuple):
    """One column of a table, as printed."""

    table: str
    groups: tuple[int, ...]
    parameters: tuple[str, str]
    log_likelihood: str
    errors: tuple[str, ...] = ()
    bins: int = 90
    discount: float = 0.9999


COLUMNS = (
    Column("IX", (1, 2, 3), ("11.7270", "4.8259"), "-2708.366", ("2.602", "1.792")),
    Column("IX", (4,), ("10.0750", "2.2930"), "-3304.155", ("1.582", "0.639")),
    Column("IX", (1, 2, 3, 4), ("9.7558", "2.6275"), "-6055.250", ("1.227", "0.618")),
    Column("IX", (4,), ("7.6358", "71.5133"), "-3306.028", discount=0.0),
    Column("IX", (1, 2, 3, 4), ("7.3055", "70.2769"), "-6061.641", discount=0.0),
    Column("X", (1, 2, 3), ("11.7257", "2.4569"), "-3993.991", bins=175),
    Column("X", (4,), ("10.0896", "1.1732"), "-4495.135", bins=175),
    Column("X", (1, 2, 3, 4), ("9.7687", "1.3428"), "-8607.889", bins=175),
)


def _lines(data: Path | None) -> Iterator[Line]:
    folder = None if data is None else _below(data)
    for column in COLUMNS:
        panel = rust_bus(folder, groups=column.groups, bins=column.bins)
        engine = BusEngine.from_panel(panel, discount=column.discount)
        # Starting at zero would take three times as many steps.
        start = engine.reward.with_parameters(np.array([8.0, 2.0]))
        fit = MCEIRL(objective="likelihood", progress=False).fit(engine.mdp, start, panel.demos)
        assert isinstance(fit, TabularFit)
        where = f"Table {column.table}, groups {', '.join(map(str, column.groups))}, β = {column.discount:g}"
        for name, published, ours in zip(("RC", "θ11"), column.parameters, flat(fit.reward.parameters), strict=True):
            yield Line.printed(f"{where}: {name}", published, float(ours))
        yield Line.printed(f"{where}: log likelihood", column.log_likelihood, _total(panel, fit))
        if column.errors:
            errors = fit.full_likelihood(engine.nature(panel)).standard_errors("opg")
            for name, published, ours in zip(("RC", "θ11"), column.errors, errors, strict=False):
                yield Line.printed(f"{where}: s.e. of {name}", published, float(ours), units=0.5)


def _total(panel: BusPanel, fit: Any) -> float:
    """The log likelihood of choices and mileage together, as in the tables."""
    counts = panel.increment_counts
    return float(fit.log_likelihood + counts @ np.log(panel.increment_shares))


def _below(data: Path) -> Path:
    """The folder of the original files, which may be anywhere inside `data`."""
    first = GROUPS[1].file
    found = next(data.rglob(first), None)
    # The loader of the data says which file is missing, and where to get it.
    return data if found is None else found.parent


RESULT = Result(
    name="rust-1987",
    title="Optimal replacement of bus engines, Tables IX and X",
    source="J. Rust (1987), Optimal Replacement of GMC Bus Engines: An Empirical Model of Harold Zurcher, "
    "Econometrica 55(5), 999-1033, Tables IX and X.",
    takes="1 min",
    lines=_lines,
    data="fetched once with irlax[data], or --data",
    notes=("Standard errors are of the full likelihood, by the outer product of scores, as in the paper.",),
)
