"""`irlax reproduce`: published results compared with those of irlax."""

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from irlax.cli.options import AsJson, emit

_ALL = "all"


def reproduce(
    names: Annotated[list[str] | None, typer.Argument(help="Which results, by name; or `all`.")] = None,
    *,
    list_: Annotated[bool, typer.Option("--list", help="List the results, and the time that each takes.")] = False,
    data: Annotated[
        Path | None, typer.Option(help="A folder that contains the data, for results that need some.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Reproduce published results, and print them beside ours, with the source and a verdict on every line.

    \b
    irlax reproduce --list
    irlax reproduce risky-path

    The exit code is 1 if a line fails, and 2 if the data of a result are missing (with `all`, such results are
    left out).
    """
    from irlax.reproduce import catalogue
    from irlax.tables import Table

    known = catalogue()
    if list_:
        fields = ("name", "takes", "data", "title")
        rows = [tuple(getattr(result, field) for field in fields) for result in known.values()]
        record = {"results": [dict(zip(fields, row, strict=True)) for row in rows]}
        return emit(Table(("name", "time on 2 cores", "data", "result"), rows), record, as_json=as_json)
    selected = list(known) if names == [_ALL] else _checked(names or [], known)
    if data is not None and not data.is_dir():
        raise ValueError(f"--data must be a folder, but {data} is not one.")
    outcomes, skipped = [], {}
    for name in selected:
        try:
            outcome = _run(known[name], data)
        except (OSError, ImportError) as error:
            skipped[name] = str(error)
            print(f"irlax: {name} is skipped: {error}", file=sys.stderr)
            continue
        outcomes.append(outcome)
        if not as_json:
            print(outcome.table(), end="\n\n" if name != selected[-1] else "\n")
    holds = all(outcome.holds for outcome in outcomes)
    if as_json:
        results = [outcome.record() for outcome in outcomes]
        emit("", {"holds": holds, "results": results, "skipped": skipped}, as_json=True)
    raise typer.Exit(1 if not holds else 2 if skipped and names != [_ALL] else 0)


def _checked(names: list[str], known: dict[str, Any]) -> list[str]:
    unknown = [name for name in names if name not in known]
    if unknown or not names:
        what = f"There is no result {unknown[0]!r}." if unknown else "Name the results to reproduce."
        raise ValueError(f"{what} There are {', '.join(known)}; or {_ALL}. See `irlax reproduce --list`.")
    return names


def _run(result: Any, data: Path | None) -> Any:
    from irlax.progress import progress_bar

    with progress_bar(result.name) as bar:
        found = []

        def report(line: Any) -> None:
            found.append(line)
            bar.update(len(found), line.what)

        return result.run(data, report)
