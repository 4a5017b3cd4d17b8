"""Do the tabular estimators know when there is no estimate? Random problems, against linear programmes in SciPy.

    .venv/bin/python -m benchmarks.quality.no_finite_optimum

draws small random problems, about half of which have a finite optimum and half not, fits each with every solver by
feature matching, by maximum entropy over paths and, where it is concave, by the likelihood, and counts what they say
that is not so. Whether an optimum exists is decided by tests/metamorphic/feasible.py, which shares no code with irlax.
Writes benchmarks/results/no_finite_optimum.json.
"""

import argparse
import itertools
import time
import warnings
from collections import Counter

from benchmarks import record
from tests.metamorphic import random_problems as problems

import irlax as ix
from irlax.estimators.tabular import Adam, DualAscent

SOLVERS = {
    "newton": "newton",
    "lbfgs": "lbfgs",
    "dual-ascent": DualAscent(max_steps=500),
    "adam": Adam(learning_rate=0.05, max_steps=200),
}
#: How many problems of a kind are looked at for one verdict, at most.
TRIES = 150


def drawn(num):
    """`num` different problems: kinds, rewards and verdicts in turn, as far as there are such problems."""
    asked = [
        (kind, reward, problems.of_verdict(kind, reward, objective, finite, tries=TRIES))
        for kind, reward in itertools.product(problems.KINDS, problems.REWARDS)
        for objective in problems.objectives_of(kind)
        for finite in (True, False)
    ]
    seen = set()
    while len(seen) < num and asked:
        for source in list(asked):
            kind, reward, worlds = source
            world = next((world for world in worlds if world.name not in seen), None)
            if world is None:
                asked.remove(source)
            elif len(seen) < num:
                seen.add(world.name)
                yield kind, reward, world


def status_of(world, reward, objective, solver):
    if objective == "paths":
        estimator = ix.MaxEntIRL(solver=SOLVERS[solver])
    else:
        estimator = ix.MCEIRL(objective=objective, solver=SOLVERS[solver])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return estimator.fit(world.mdp, problems.learnable(world, reward), world.demos).status


def judged(status, finite):
    """What a status says beside the truth."""
    unbounded = status is ix.Status.UNBOUNDED
    if finite:
        return "said to have none" if unbounded else "right"
    if unbounded:
        return "right"
    return "presented as an estimate" if status.success else "not noticed, nor presented"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--problems", type=int, default=500)
    parser.add_argument("--out", default=str(record.RESULTS / "no_finite_optimum.json"))
    given = parser.parse_args()
    source = record.provenance("benchmarks.quality.no_finite_optimum", "jax", "scipy")
    counts, truth, wrong, began = {}, {}, [], time.perf_counter()
    for number, (kind, reward, world) in enumerate(drawn(given.problems)):
        for objective in problems.objectives_of(kind):
            finite = problems.feasible_optimum(world, kind, objective)
            truth.setdefault(objective, Counter())["finite" if finite else "none"] += 1
            for solver in SOLVERS:
                said = judged(status_of(world, reward, objective, solver), finite)
                counts.setdefault(objective, {}).setdefault(solver, Counter())[said] += 1
                if said != "right":
                    wrong.append(f"{world.name}: {objective}, {solver}: {said}")
        if number % 25 == 24:
            print(number + 1, f"{time.perf_counter() - began:.0f} s", len(wrong), "disagreements", flush=True)
    result = {
        **source,
        "problems": given.problems,
        "optimum": {objective: dict(found) for objective, found in truth.items()},
        "verdicts": {objective: {k: dict(v) for k, v in by.items()} for objective, by in counts.items()},
        "disagreements": len(wrong),
        "seconds": round(time.perf_counter() - began, 1),
        "first_disagreements": wrong[:40],
    }
    record.write(record.Path(given.out), result)
    print(result["optimum"], result["verdicts"], result["disagreements"], sep="\n")


if __name__ == "__main__":
    main()
