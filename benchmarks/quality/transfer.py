"""Transfer of rewards: the point maze with its wall moved, after Fu, Luo and Levine (2018), Table 1.

The mazes, the rows and the scores are those of `irlax reproduce fu-2018-transfer`; here are all rows, with intervals.
"""

import argparse
import dataclasses
import sys
from pathlib import Path
from typing import Any

import jax
import numpy as np
from benchmarks import record
from benchmarks.quality.imitation import bootstrapped

from irlax.reproduce.fu_2018_transfer import PUBLISHED, ROWS, TRUTH, Mazes, transfer
from irlax.reproduce.imitation import interquartile_mean


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=record.RESULTS / "transfer.json")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--rounds", type=int, help="by default, each estimator's own")
    parser.add_argument("--steps", type=int, help="of training in the new maze; by default, PPO's own")
    parser.add_argument("--only", nargs="*", choices=list(ROWS), default=list(ROWS))
    parser.add_argument("--workers", type=int, default=1, help="processes, for machines that have room for them")
    options = parser.parse_args()
    source = record.provenance("benchmarks.quality.transfer", "irlax", "jax")
    source["machine"]["device"] = jax.devices()[0].device_kind
    mazes = Mazes.of(options.seeds, options.steps)
    figures = [{"reward": TRUTH, "returns": np.round(mazes.true_returns, 2).tolist(), "published": PUBLISHED[TRUTH]}]
    given = {
        "true_returns": mazes.true_returns,
        "seeds": options.seeds,
        "rounds": options.rounds,
        "steps": options.steps,
    }
    figures += record.swept(carried, [{"name": name, **given} for name in options.only], options.workers)
    record.write(options.out, {**source, "random": round(mazes.references.random, 2), "figures": figures})
    print(table(figures))


def carried(name: str, true_returns: list[float], seeds: int, rounds: int | None, steps: int | None) -> dict[str, Any]:
    """One reward, to the other maze, of which is known what the true reward earns there."""
    estimator = ROWS[name]
    if rounds is not None:
        estimator = dataclasses.replace(estimator, rounds=dataclasses.replace(estimator.rounds, num=rounds))
    found = transfer(estimator, Mazes.with_returns(true_returns), seeds=seeds, steps=steps)
    row = {
        "reward": name,
        "returns": np.round(found.new_returns, 2).tolist(),
        "scores": np.round(found.scores, 3).tolist(),
        "score": round(interquartile_mean(found.scores), 3),
        "interval": bootstrapped(found.scores),
        "returns_where_learned": np.round(found.old_returns, 2).tolist(),
        "published": PUBLISHED.get(name),
    }
    print(row, file=sys.stderr, flush=True)
    return row


def table(figures: list[dict[str, Any]]) -> str:
    """Markdown, ours beside the published."""
    lines = [
        "| reward | score | return, moved wall | return, as learned | published return |",
        "| --- |" + " ---: |" * 4,
    ]
    for row in figures:
        score = "1 by definition" if "score" not in row else f"{row['score']:.2f} {row['interval']}"
        own = "" if "returns_where_learned" not in row else f"{np.median(row['returns_where_learned']):.1f}"
        lines.append(
            f"| {row['reward']} | {score} | {np.median(row['returns']):.1f} | {own} | {row['published'] or ''} |"
        )
    return "\n".join(lines)


if __name__ == "__main__":
    main()
