"""Endless problems at γ near 1, and at γ = 1 with one goal: sparse factorisation against BiCGSTAB, in one run.

A grid of 316×316 cells, where a move goes astray one time in five, at γ = .9999 and at γ = 1 with a goal in the middle;
and the roads of Chicago (TNTP "Chicago Sketch", of which links are states), if its file is there. A step
costs from 2 to 5 on uneven ground, and half as much again at γ = 1, where values exist only if steps cost enough.
Measured are the plan, an occupancy, and the gradient of what feature matching minimises, E[value] − ⟨visits, reward⟩,
in three weights. On the grid each is run once, compilation (about 2 s) included; on the small network once more, and
the second run counts. Every case is a process of its own, with a limit of processor seconds; what it did not reach
within them is missing.
"""

import argparse
import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from benchmarks import record

CHICAGO = record.ROOT.parent / "shared" / "data" / "networks" / "ChicagoSketch_net.tntp"
SOLVERS = ("direct", "krylov")


def grid(side: int, discount: float) -> tuple[Any, np.ndarray]:
    """A grid with slips and its features; at γ = 1 a goal in the middle ends it."""
    import irlax as ix

    cells = np.arange(side * side).reshape(side, side)
    padded = np.pad(cells, 1, mode="edge")
    around = (padded[:-2, 1:-1], padded[2:, 1:-1], padded[1:-1, :-2], padded[1:-1, 2:])
    successors = np.stack([cell.ravel() for cell in around], axis=-1)
    shape = (side * side, 4, 4)
    successors = np.broadcast_to(successors[:, None], shape).copy()
    probs = np.broadcast_to(np.full((4, 4), 0.05) + 0.8 * np.eye(4), shape)
    ground = np.random.default_rng(0).uniform(size=(side * side, 3))
    features = -(np.array([1.0, 0.5, 0.5]) + ground)
    available = np.ones(shape[:2], bool)
    if discount == 1:
        goal = side * side // 2 + side // 2
        successors[goal] = goal
        features = 1.5 * features
        features[goal] = 0
        available[goal, 1:] = False
    start = np.full(side * side, 1 / side**2)
    return ix.MDP.from_successors(successors, probs, start, discount=discount, available=available), features


def roads(_: int, discount: float) -> tuple[Any, np.ndarray]:
    """Links as states, the links that begin where they end as actions; a link into the last node leads to the end."""
    import irlax as ix

    text = CHICAGO.read_text().split("<END OF METADATA>")[1]
    rows = [line.split()[:5] for line in text.splitlines() if line.strip() and not line.strip().startswith("~")]
    table = np.array(rows, float)
    tail, head, length, minutes = table[:, 0].astype(int), table[:, 1].astype(int), table[:, 3], table[:, 4]
    goal, size = head.max(), len(tail)
    pairs = [(k, j) for k in range(size) if head[k] != goal for j in np.flatnonzero(tail == head[k])]
    pairs += [(k, size) for k in np.flatnonzero(head == goal)] + [(size, size)]
    states, successors = np.array(pairs).T
    features = np.zeros((size + 1, 3))
    features[:size] = -np.stack([np.full(size, 2.0), length, minutes / 5], axis=-1)
    start = np.append(np.full(size, 1 / size), 0.0)
    return ix.MDP.from_actions(states, successors, start, discount=discount), features


def case(problem: str, side: int, discount: float, solver: str) -> None:
    """One case, printed as JSON, a line for each thing measured: what is not finished in time is missing."""
    import jax
    import jax.numpy as jnp

    import irlax as ix
    from irlax.planning import direct

    if solver == "krylov":
        direct.MAX_WIDTH = -1
    mdp, features = {"grid": grid, "roads": roads}[problem](side, discount)
    weights = np.ones(3)

    def report(name: str, compute: Any, facts: Any = lambda result: {}) -> Any:
        if problem == "roads":
            compute()
        before, wall, cpu = direct.FACTORS.count, time.perf_counter(), time.process_time()
        result = compute()
        done = {"wall_seconds": time.perf_counter() - wall, "cpu_seconds": time.process_time() - cpu}
        done |= {"factorisations": direct.FACTORS.count - before} | facts(result)
        print(json.dumps({name: done}), flush=True)
        return result

    def facts(plan: Any) -> dict[str, Any]:
        largest = float(np.abs(plan.value).max())
        return {"steps": int(plan.steps), "error_bound": float(plan.error_bound), "largest_value": largest}

    plan = report("plan", lambda: ix.soft_plan(mdp, features @ weights, method="newton"), facts)

    def balance(visits: np.ndarray) -> dict[str, Any]:
        by_state = np.asarray(mdp.rows.sum(visits.sum(axis=1)))
        kept = by_state > 0
        off = np.abs(by_state - mdp.initial - discount * np.asarray(mdp.dynamics.push(visits)))[kept].max()
        return {"imbalance": float(off / by_state.max())}

    visits = report("occupancy", lambda: ix.visits(mdp, plan), balance)
    with jax.enable_x64(True):
        table, seen = jnp.asarray(features), jnp.asarray(np.asarray(mdp.rows.sum(visits.sum(axis=1))))

        @jax.jit
        def gradient(weights: Any) -> Any:
            def loss(weights: Any) -> Any:
                value = ix.soft_plan(mdp, table @ weights, method="newton").value
                return jnp.asarray(mdp.initial) @ value - seen @ (table @ weights)

            return jax.grad(loss)(weights)

        def size(gradient: Any) -> dict[str, Any]:
            # At the weights whose visits are matched it is zero, as far as both are accurate.
            return {"largest_of_visits": float(jnp.abs(gradient).max() / seen.sum())}

        report("gradient", lambda: jax.block_until_ready(gradient(jnp.asarray(weights))), size)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--side", type=int, default=316)
    parser.add_argument("--limit", type=float, default=300.0, help="processor seconds for each case")
    parser.add_argument("--out", type=Path, default=record.RESULTS / "direct.json")
    parser.add_argument("--case", nargs=3, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.case:
        case(asked.case[0], asked.side, float(asked.case[1]), asked.case[2])
        return
    figures = record.provenance("benchmarks.speed.direct", "jax", "scipy", "numpy") | {"limit_cpu_seconds": asked.limit}
    cases = [("grid", 0.9999), ("grid", 1.0)] + [("roads", 1.0)] * CHICAGO.exists()
    rows = []
    for problem, discount in cases:
        for solver in SOLVERS:
            command = [sys.executable, "-m", "benchmarks.speed.direct", "--side", str(asked.side)]
            command += ["--case", problem, str(discount), solver]
            limit = ["prlimit", f"--cpu={asked.limit:.0f}"]
            said = subprocess.run([*limit, *command], stdout=subprocess.PIPE, check=False)
            finished = said.returncode == 0
            row: dict[str, Any] = {"problem": problem, "discount": discount, "solver": solver, "finished": finished}
            for line in said.stdout.decode().splitlines():
                row |= json.loads(line)
            rows.append(row)
            print(json.dumps(row), flush=True)
            record.write(asked.out, figures | {"rows": rows})


if __name__ == "__main__":
    main()
