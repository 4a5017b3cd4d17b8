"""The file that describes a sweep: TOML or JSON, with fixed arguments, a grid, and single cases."""

import itertools
import json
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from irlax import storage

#: The function of a sweep that names none: a fit from files, as `irlax fit` makes it.
FIT = "irlax.cli.sweeping:fit"
#: Arguments of that function that are files.
FIT_FILES = ("mdp", "demos", "features", "held_out")
_KNOWN = ("function", "together", "files", "fixed", "grid", "cases")


class Spec(NamedTuple):
    """What a sweep computes."""

    function: str
    cases: list[dict[str, Any]]
    together: int
    files: tuple[str, ...]


def read_spec(path: Path) -> Spec:
    """Read a description; a ValueError says what is wrong with it.

    `[grid]` lists values of arguments: every combination is a case, the last argument changing fastest. A text such as
    "0:100" stands for the whole numbers 0 to 99. `[[cases]]` are cases of their own; with a grid, each is combined with
    all of it. `[fixed]` holds arguments of all cases. A dotted name, "settings.tol", is an entry of an argument that is
    a table.
    """
    path = storage.existing_file(path, (".toml", ".json"))
    with storage.unreadable(path, "the description of a sweep"):
        text = path.read_text(encoding="utf-8")
        found = tomllib.loads(text) if path.suffix.lower() == ".toml" else json.loads(text)
    try:
        return _spec(found)
    except (TypeError, ValueError) as error:
        raise storage.in_file(path, error) from None


def _spec(found: Any) -> Spec:
    unknown = sorted(set(found) - set(_KNOWN)) if isinstance(found, dict) else [str(found)]
    if unknown:
        raise ValueError(f"It may hold {', '.join(_KNOWN)}, but holds {unknown[0]!r:.60}.")
    fixed, grid, cases = found.get("fixed", {}), found.get("grid", {}), found.get("cases", [{}])
    if not isinstance(fixed, dict) or not isinstance(grid, dict) or not isinstance(cases, list):
        raise TypeError("`fixed` and `grid` must be tables, and `cases` a list of tables.")
    values = [_values(name, listed) for name, listed in grid.items()]
    combined = [dict(zip(grid, chosen, strict=True)) for chosen in itertools.product(*values)]
    all_cases = [_nested({**fixed, **case, **chosen}) for case in cases for chosen in combined]
    function = found.get("function", FIT)
    files = tuple(found.get("files", FIT_FILES if function == FIT else ()))
    return Spec(function, all_cases, found.get("together", 1), files)


def _values(name: str, listed: Any) -> list[Any]:
    if isinstance(listed, str) and listed.count(":") == 1:
        first, last = listed.split(":")
        return list(range(int(first), int(last)))
    if not isinstance(listed, list) or not listed:
        raise ValueError(
            f'`grid` must list the values of {name}, or give a range such as "0:100", but has {listed!r:.60}.'
        )
    return listed


def _nested(case: Mapping[str, Any]) -> dict[str, Any]:
    """The case with dotted names as entries of tables."""
    nested: dict[str, Any] = {}
    for name, value in case.items():
        table, _, entry = name.partition(".")
        if entry:
            nested[table] = {**nested.get(table, {}), entry: value}
        else:
            nested[name] = {**value, **nested.get(name, {})} if isinstance(value, dict) else value
    return nested
