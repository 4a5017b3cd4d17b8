"""Where figures come from, and where they go: what every benchmark writes beside its results.

Nothing here names a host or a person, and nothing imports JAX: a process that only starts others must stay small.
"""

import json
import os
import platform
import re
import subprocess
import sys
from collections.abc import Callable, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results"


def provenance(module: str, *packages: str) -> dict[str, Any]:
    """The command, the commit, the kind of machine and the versions. Ask before the work: a commit may move."""
    said = sys.argv[1:]
    # Where the results went is of no interest to who repeats them.
    if "--out" in said:
        place = said.index("--out")
        said = said[:place] + said[place + 2 :]
    return {
        "command": " ".join(["python -m", module, *said]),
        "commit": commit(),
        "machine": machine(),
        "versions": {"python": platform.python_version()} | {name: version(name) for name in packages},
    }


def commit() -> str:
    """The commit; "-dirty" if tracked files have changed. Results of an earlier part do not count as a change."""
    head = _git("rev-parse", "--short", "HEAD")
    changed = _git("status", "--porcelain", "--untracked-files=no", "--", ".", ":!benchmarks/results")
    return head + ("-dirty" if changed else "")


def machine() -> dict[str, Any]:
    """Kind of processor, cores that this process may use, memory."""
    facts: dict[str, Any] = {"platform": f"{platform.system()} {platform.machine()}", "processor": _processor()}
    facts["cores"] = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    if hasattr(os, "sysconf") and "SC_PHYS_PAGES" in os.sysconf_names:
        facts["memory_gib"] = round(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 2**30, 1)
    return facts


def swept(
    function: Callable[..., Any], cases: Sequence[dict[str, Any]], workers: int, folder: Path | None = None
) -> list[Any]:
    """What a function returns for the arguments of each case, in order, by a sweep of so many worker processes.

    It may return whatever JSON holds. With a `folder`, a sweep that was killed goes on.
    """
    # Not above: a process that only starts others imports neither JAX nor pandas.
    from irlax.engine import Processes, map_fits
    from irlax.engine.task import function_name

    tasks = [{"function": function_name(function), "given": case} for case in cases]
    # One worker has all threads for itself.
    sweep = map_fits(found, tasks, engine=Processes(workers, threads=1 if workers > 1 else None), out=folder)
    if sweep.errors:
        raise RuntimeError(sweep.errors[0]["traceback"])
    return [json.loads(text) for text in sweep.table["found"]]


def found(function: str, given: dict[str, Any]) -> dict[str, str]:
    """A row of the table of a sweep: what a function returned, as JSON, because it may have parts."""
    from irlax.engine.task import function_of

    return {"found": json.dumps(function_of(function)(**given), default=lambda value: value.tolist())}


def write(path: Path, record: dict[str, Any]) -> None:
    """The record as JSON, for people and for `git diff`: a line for each entry, and one for a list of numbers."""
    path.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps(record, indent=1, ensure_ascii=False)
    text = re.sub(
        r"\[[^][{}\"]*\]", lambda found: " ".join(found[0].split()).replace("[ ", "[").replace(" ]", "]"), text
    )
    path.write_text(text + "\n")


def _git(*arguments: str) -> str:
    """What git says; nothing where there is no repository, as on a machine that was sent the files alone."""
    try:
        said = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return ""
    return said.stdout.strip()


def _processor() -> str:
    listing = Path("/proc/cpuinfo")
    if not listing.exists():
        return platform.processor()
    names = [line.partition(":")[2].strip() for line in listing.read_text().splitlines() if "model name" in line]
    return names[0] if names else platform.processor()
