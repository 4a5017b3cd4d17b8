"""`irlax sweep`: many fits from one description, on an engine of choice."""

from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from irlax.cli.options import RESULT, AsJson, emit, option

ENGINE = "The engine"
Engine = Literal["here", "processes", "ray"]


def sweep(
    spec: Annotated[Path, typer.Argument(metavar="SPEC", help="The description of the sweep: .toml or .json.")],
    *,
    out: Annotated[Path, option("--out", text="The folder of the sweep; all workers share it.", panel=RESULT)],
    engine: Annotated[Engine, option("--engine", text="Where tasks are computed.", panel=ENGINE)] = "processes",
    workers: Annotated[
        int | None, option("--workers", text="How many; by default, one for each core.", panel=ENGINE)
    ] = None,
    address: Annotated[
        str | None, option("--address", text="Of a Ray cluster; auto is the one of this machine.", panel=ENGINE)
    ] = None,
    shard: Annotated[
        str | None, option("--shard", text="I/N: only part I of N, from 0 on, in this process.", panel=ENGINE)
    ] = None,
    retries: Annotated[int, option("--retries", text="How many workers may die of a task.", panel=ENGINE)] = 5,
    as_json: AsJson = False,
) -> None:
    """Compute the cases of a sweep, and write one table, table.parquet in --out.

    \b
    irlax sweep sweep.toml --out sweep --engine processes --workers 4
    irlax sweep sweep.toml --out /shared/sweep --shard $SLURM_ARRAY_TASK_ID/20

    A sweep that was killed goes on with the same command; of one that was changed, only what is new is computed. Tasks
    that fail do not stop the others.

    \b
    SPEC (.toml, or the same in .json):
      function      "module:name"; by default a fit from files, as by irlax fit
      together      how many cases one task computes, by one vmap where it can
      [fixed]       arguments of all cases: mdp, demos, reward or features,
                    method, objective, l2, tol, settings.NAME, …
      [grid]        lists of values: every combination is a case; "0:100"
                    stands for 0 to 99. resample = "1:101" is a bootstrap
      [[cases]]     single cases, each combined with the grid

    The exit code is 1 if a task failed.
    """
    from irlax.engine import map_fits
    from irlax.engine.spec import read_spec
    from irlax.records import plain_map

    described = read_spec(spec)
    chosen = _engine(engine, workers, address, shard)
    found = map_fits(
        described.function,
        described.cases,
        engine=chosen,
        out=out,
        together=described.together,
        files=described.files,
        retries=retries,
    )
    record: dict[str, Any] = {"cases": len(described.cases), "finished": len(found.table), "missing": found.missing}
    record["errors"] = [{"task": error["task"], "error": error["error"]} for error in found.errors]
    if as_json:
        record["table"] = [plain_map(row) for row in found.table.to_dict("records")]
    emit(_text(record, out), record, as_json=as_json)
    raise typer.Exit(int(bool(found.errors)))


def _engine(engine: str, workers: int | None, address: str | None, shard: str | None) -> Any:
    from irlax.engine import Here, OnRay, Processes, Shard

    if address is not None and engine != "ray":
        raise ValueError("--address is that of a Ray cluster: it needs --engine ray.")
    if shard is not None:
        part, _, of = shard.partition("/")
        if not (part.isdigit() and of.isdigit()):
            raise ValueError(f"--shard must be I/N, such as 0/20, but is {shard!r}.")
        return Shard(int(part), int(of))
    return {"here": Here, "processes": lambda: Processes(workers), "ray": lambda: OnRay(address, workers)}[engine]()


def _text(record: dict[str, Any], out: Path) -> str:
    lines = [f"{record['finished']} of {record['cases']} cases finished"]
    lines += [f"failed: {error['task']}: {error['error']}" for error in record["errors"]]
    if record["missing"]:
        lines.append(f"{record['missing']} cases are not computed yet: by other shards, or by the same command again")
    elif record["finished"]:
        lines.append(f"table: {out / 'table.parquet'}")
    return "\n".join(lines)
