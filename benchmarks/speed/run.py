"""Speed against the peers, side by side in one run: `make bench`, or a part of it.

    python -m benchmarks.speed.run --only gradient,fit --quick

The peers are installed under .bench/ when first asked. Every measurement is a fresh process, and this one does no work
itself. Each part is kept in benchmarks/results/speed.json with its own commit and command, so that parts can be run one
by one; the table of all of them goes to benchmarks/results/speed.md and to the screen. Quick figures, which only show
that things work, go to out/ instead.
"""

import argparse
import json
import time
from pathlib import Path
from types import ModuleType
from typing import Any

from benchmarks import record
from benchmarks.speed import causal, engine, fit, gradient, million, scale, startup, venvs

#: Part → what measures it, and the peer that it is measured against.
PARTS: dict[str, tuple[ModuleType, str | None]] = {
    "gradient": (gradient, "imitation"),
    "fit": (fit, "imitation"),
    "causal": (causal, "irl-maxent"),
    "engine": (engine, "econirl"),
    "scale": (scale, None),
    "startup": (startup, None),
    "million": (million, None),
}
#: Only when asked for, by name or with `--long`.
LONG = {"million"}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", help=f"parts, separated by commas: {', '.join(PARTS)}")
    parser.add_argument("--quick", action="store_true", help="small problems, to see that everything works")
    parser.add_argument("--long", action="store_true", help="all parts, those that take long too")
    given = parser.parse_args()
    names = given.only.split(",") if given.only else [name for name in PARTS if given.long or name not in LONG]
    unknown = sorted(set(names) - set(PARTS))
    if unknown:
        parser.error(f"--only may name {', '.join(PARTS)}, but names {', '.join(unknown)}.")
    folder = record.ROOT / "out" if given.quick else record.RESULTS
    for name in names:
        part, peer = PARTS[name]
        # Before the work: the commit may move under a long run.
        result = record.provenance("benchmarks.speed.run", "jax", "numpy", "equinox")
        began = time.perf_counter()
        if peer is not None:
            result["peer"] = venvs.versions(peer)
        result["figures"] = part.measure(quick=given.quick)
        # Kept beside the figures: those of an older commit may lack what the table shows by now.
        result["table"] = part.table(result["figures"])
        result["seconds"] = round(time.perf_counter() - began, 1)
        print(section(name, result), flush=True)
        keep(folder, name, result)


def keep(folder: Path, name: str, result: dict[str, Any]) -> None:
    """Put one part in its place among the others, and write the table of all anew."""
    path = folder / "speed.json"
    parts = json.loads(path.read_text()) if path.exists() else {}
    parts[name] = result
    record.write(path, parts)
    sections = [section(name, parts[name]) for name in PARTS if name in parts]
    (folder / "speed.md").write_text("\n".join(["# Speed, as measured last\n", *sections]))


def section(name: str, result: dict[str, Any]) -> str:
    """One part as Markdown: what it is, the table, and where it was measured."""
    part, peer = PARTS[name]
    summary = (part.__doc__ or "").splitlines()[0]
    place = result["machine"]
    against = "" if peer is None else " Against " + ", ".join(f"{k} {v}" for k, v in result["peer"].items()) + "."
    where = (
        f"Commit {result['commit']}, {place['cores']} cores of {place['processor']}, {result['seconds']:.0f} s "
        f"in all.{against}"
    )
    return f"## {name}\n{summary}\n\n{markdown(result['table'])}\n\n{where}\n"


def markdown(rows: list[list[str]]) -> str:
    """A table, its first row the head, with columns as wide as they need to be."""
    widths = [max(len(cell) for cell in column) for column in zip(*rows, strict=True)]

    def line(cells: list[str]) -> str:
        return "| " + " | ".join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True)) + " |"

    rule = "| " + " | ".join("-" * max(width, 3) for width in widths) + " |"
    return "\n".join([line(rows[0]), rule, *map(line, rows[1:])])


if __name__ == "__main__":
    main()
