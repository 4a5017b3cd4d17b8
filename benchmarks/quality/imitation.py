"""Imitation from few demonstrations: every dynamics-free estimator, as it comes, on the five control problems.

The problems, the scores and the seeds are those of `irlax reproduce imitation`; here are more estimators, and 1, 5 or
20 demonstrations. Over seeds the table has the interquartile mean with a 95% bootstrap interval. A run adds its rows to
those in the file.
"""

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Any

import jax
import numpy as np
import scipy.stats
from benchmarks import figures, record

import irlax as ix
from irlax.reproduce.imitation import ENV_OPTIONS, HELD_OUT_KEY, PROBLEMS, ReferenceReturns, fitted, interquartile_mean

METHODS = ("AIRL", "SampledMCEIRL", "GCL", "GANGCL", "GAIL", "BehaviouralCloning")
DEMOS = (1, 5, 20)
MODULE = "benchmarks.quality.imitation"


def scored(
    method: str, problem: str, *, counts: list[int], seeds: int, rounds: int | None, after_end: str
) -> list[dict[str, Any]]:
    """One estimator on one problem, from each number of demonstrations."""
    shown = {"after_end": after_end}
    env, everything = ix.envs.make(problem, **shown), ix.expert_demos(problem, **shown)
    own = rounds is None or method == "BehaviouralCloning"
    settings = {} if own else {"rounds": ix.Rounds(num=rounds)}
    estimator = getattr(ix, method)(**settings)
    references = ReferenceReturns.of(env, float(everything.returns.mean()))
    rows = []
    for count in counts:
        # The first few over and over: as many rows whatever their number, so that nothing is compiled anew.
        demos = everything.select(np.arange(everything.num_episodes) % count)
        began = time.perf_counter()
        fits = fitted(estimator, env, demos, seeds)
        seconds = time.perf_counter() - began
        scores = np.array([references.score(fit.returns.mean()) for fit in fits])
        rows.append(
            {
                "method": method,
                "problem": problem,
                "demonstrations": count,
                "expert": round(references.expert, 1),
                "random": round(references.random, 1),
                "scores_by_seed": np.round(scores, 3).tolist(),
                "score": round(interquartile_mean(scores), 3),
                "interval": bootstrapped(scores),
                "environment_steps": int(fits[0].history["steps"][-1]),
                "seconds": round(seconds, 1),
                "converged": [fit.status.name for fit in fits],
                "curve": curve(fits, references),
                "device": jax.devices()[0].device_kind,
                "commit": record.commit(),
            }
        )
        told = {name: rows[-1][name] for name in ("method", "problem", "demonstrations", "score", "scores_by_seed")}
        print(told | {"seconds": rows[-1]["seconds"]}, file=sys.stderr, flush=True)
    return rows


def bootstrapped(scores: np.ndarray) -> list[float]:
    rng = np.random.default_rng(0)
    drawn = rng.choice(scores, size=(2000, len(scores)))
    return np.round(np.quantile(scipy.stats.trim_mean(drawn, 0.25, axis=1), [0.025, 0.975]), 3).tolist()


def curve(fits: list[Any], references: ReferenceReturns) -> dict[str, list[float]]:
    """The scores of the policies on the way, at thirty times: mean, lowest and highest over seeds."""
    if "return" not in fits[0].history:
        return {}
    scores = references.score(np.stack([fit.history["return"] for fit in fits]))
    parts = np.array_split(np.arange(scores.shape[1]), min(30, scores.shape[1]))
    points = np.stack([scores[:, part].mean(axis=1) for part in parts])
    columns = {"mean": points.mean(axis=1), "low": points.min(axis=1), "high": points.max(axis=1)}
    steps = [int(fits[0].history["steps"][part[-1]]) for part in parts]
    return {"steps": steps} | {name: np.round(column, 3).tolist() for name, column in columns.items()}


def table(rows: list[dict[str, Any]]) -> str:
    """Markdown: a line for each method and number of demonstrations."""
    lines = ["| method | demonstrations | " + " | ".join(PROBLEMS) + " |", "| --- | ---: |" + " ---: |" * len(PROBLEMS)]
    found = {(row["method"], row["demonstrations"], row["problem"]): row for row in rows}
    for method in METHODS:
        for count in DEMOS:
            cells = [found.get((method, count, problem)) for problem in PROBLEMS]
            if any(cells):
                shown = [_cell(row) for row in cells]
                lines.append(f"| {method} | {count} | " + " | ".join(shown) + " |")
    return "\n".join(lines)


def drawn(rows: list[dict[str, Any]], count: int) -> Any:
    """Scores on the way, from so many demonstrations."""
    panels = {problem: {} for problem in PROBLEMS}
    for row in sorted(rows, key=lambda row: METHODS.index(row["method"])):
        if row["demonstrations"] == count and row["curve"]:
            panels[row["problem"]][row["method"]] = row["curve"]
    return figures.curves(panels, dict.fromkeys(PROBLEMS, 1.0), ylabel="score")


def _cell(row: dict[str, Any] | None) -> str:
    return "" if row is None else f"{row['score']:.2f} [{row['interval'][0]:.2f}, {row['interval'][1]:.2f}]"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=record.RESULTS / "imitation.json")
    parser.add_argument("--figure", type=Path, default=record.ROOT / "out" / "imitation.png", help="from 20 of them")
    parser.add_argument("--methods", nargs="*", choices=METHODS, default=list(METHODS))
    parser.add_argument("--problems", nargs="*", choices=PROBLEMS, default=list(PROBLEMS))
    parser.add_argument("--demos", nargs="*", type=int, choices=DEMOS, default=list(DEMOS))
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--rounds", type=int, help="by default, each estimator's own")
    parser.add_argument("--after-end", choices=("absorbing", "fixed-horizon"), default=ENV_OPTIONS["after_end"])
    parser.add_argument("--workers", type=int, default=1, help="processes, for machines that have room for them")
    parser.add_argument("--sweep", type=Path, help="folder of the sweep, with which a run that was killed goes on")
    options = parser.parse_args()
    source = record.provenance(MODULE, "irlax", "jax")
    given = {"counts": options.demos, "seeds": options.seeds, "rounds": options.rounds, "after_end": options.after_end}
    pairs = [{"method": method, "problem": problem} for problem in options.problems for method in options.methods]
    before = json.loads(options.out.read_text())["figures"] if options.out.exists() else []
    found = {_place(row): row for row in before}
    for rows in record.swept(scored, [pair | given for pair in pairs], options.workers, options.sweep):
        found |= {_place(row): row for row in rows}
    record.write(options.out, {**source, "key": HELD_OUT_KEY, "figures": [found[k] for k in sorted(found)]})
    figures.save(drawn(list(found.values()), max(DEMOS)), options.figure)
    print(table(list(found.values())))


def _place(row: dict[str, Any]) -> tuple[str, str, int]:
    return row["method"], row["problem"], row["demonstrations"]


if __name__ == "__main__":
    main()
