"""A hundred million states on one card: building them, sweeps, a gradient with T = 100, and a fit of 20 weights.

    PYTHONPATH=src python -m benchmarks.speed.hundred_million --out FOLDER

Slippery grids on uneven ground (5 actions, 5 next states each) of 10⁶, 10⁷ and 10⁸ states, in float32, whose states and
features are computed on the card a few at a time (`MDP.from_shards`, `mdp.load_table`). The features are waves of 6 to
60 cells, so that a fit is the same task at every size. Each part is written to FOLDER/hundred_million.json as soon as
it is done; one that fails is recorded there with its error, and the next goes on. `--quick` only sees that all works.
"""

import argparse
import functools
import gc
import os
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from benchmarks import record
from benchmarks.speed import bandwidth, sweeps, timing
from benchmarks.speed.problems import MOVES, SLIP
from benchmarks.speed.run import markdown

#: 10⁶ and 10⁸ exactly, and nearly 10⁷.
SIDES, HORIZON, QUICK_SIDES, QUICK_HORIZON = (1000, 3162, 10_000), 100, (100, 300), 20
FEATURES, MAX_STEPS = 20, 40
#: The largest difference of a feature's expectation at which a fit ends: visits sum to T, features reach from −1 to 1.
TOL_A_STEP = 1e-5
#: A gradient plans backward (a backup at each time), then goes forward: it computes each policy again from the values,
#: and adds up visits. In float32 and int32, both 4 bytes: entries for each state and time.
GRADIENT_FORMULA = (
    "T·(a backup + successors + predecessors + probabilities + A·S rewards + 2·S values read + S masses read + "
    "S masses written + A·S visits read + A·S visits written)"
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True, help="folder for hundred_million.json and .md")
    parser.add_argument("--sides", type=int, nargs="+", help="sides of the grids")
    parser.add_argument("--seconds", type=float, default=600.0, help="no part starts, and a fit ends, after so long")
    parser.add_argument("--quick", action="store_true", help="small grids, T = 20")
    given = parser.parse_args()
    # A card whose memory is not taken at once lends at most three quarters of it.
    os.environ.setdefault("XLA_PYTHON_CLIENT_MEM_FRACTION", "0.95")
    import jax

    end = time.perf_counter() + given.seconds
    result = record.provenance("benchmarks.speed.hundred_million", "jax", "numpy", "equinox")
    result |= {"device": jax.devices()[0].device_kind, "horizon": QUICK_HORIZON if given.quick else HORIZON}
    result["bytes_counted"] = sweeps.FORMULAE | {"gradient": GRADIENT_FORMULA}
    run = Run(result, given.out, end)
    run.part(result, "bandwidth", lambda: bandwidth.measured("float32", 2**22 if given.quick else 2**28))
    result["rows"] = []
    for side in given.sides or (QUICK_SIDES if given.quick else SIDES):
        row: dict[str, Any] = {"states": side**2}
        result["rows"].append(row)
        measure(run, row, side)
        gc.collect()
    text = f"# {result['device']}, commit {result['commit']}\n\n{markdown(table(result))}\n"
    (given.out / "hundred_million.md").write_text(text)
    print(text, flush=True)


class Run:
    """Parts, one after the other, each written down when it is done."""

    def __init__(self, result: dict[str, Any], out: Path, end: float) -> None:
        self.result, self.out, self.end = result, out, end
        self.began = time.perf_counter()

    def part(self, into: dict[str, Any], name: str, function: Callable[[], Any]) -> None:
        """Put what a function measures, or its error, into a dictionary, and write everything."""
        before = time.perf_counter()
        if before > self.end:
            into[name] = {"error": "not started: out of time"}
        else:
            try:
                into[name] = function()
            # A part that runs out of memory must not cost what the others find.
            except Exception as error:
                traceback.print_exc()
                into[name] = {"error": f"{type(error).__name__}: {error}"[:500]}
        if isinstance(into[name], dict):
            into[name]["seconds_of_part"] = time.perf_counter() - before
        peak = peak_on_card()
        if peak is not None:
            self.result["peak_bytes_on_card"] = peak
        self.write()
        print(f"{time.perf_counter() - self.began:7.1f} s  {into.get('states', '')} {name}: {into[name]}", flush=True)

    def write(self) -> None:
        """Everything that was measured so far."""
        record.write(self.out / "hundred_million.json", self.result)


def measure(run: Run, row: dict[str, Any], side: int) -> None:
    """All parts at one size."""
    horizon, copy = run.result["horizon"], run.result["bandwidth"].get("copy", float("nan"))
    made: list[Any] = []
    run.part(row, "building", lambda: building(side, horizon, made))
    if not made:
        return
    mdp = made.pop()
    run.part(row, "sweeps", lambda: swept(mdp, copy))
    for name, low_memory in (("gradient", False), ("gradient_low_memory", True)):
        run.part(row, name, functools.partial(gradient, mdp, low_memory, copy))
    run.part(row, "fit", lambda: fitted(mdp, side, run, row))


def building(side: int, horizon: int, made: list[Any]) -> dict[str, Any]:
    """Seconds to build the MDP on the device, the second time and with compilation; the MDP is put into `made`."""
    import jax

    import irlax as ix

    mesh = jax.make_mesh((1,), ("states",), devices=jax.devices()[:1])

    def build() -> Any:
        source = functools.partial(states, side=side)
        given: dict[str, Any] = {"num_states": side**2, "discount": 1.0, "horizon": horizon}
        mdp = ix.MDP.from_shards(source, mesh, **given, single_precision=True)
        return mdp, jax.block_until_ready(jax.tree.leaves(mdp))

    first, built = timing.once(build)
    # There is no room for two.
    del built
    seconds, (mdp, leaves) = timing.once(build)
    made.append(mdp)
    size = sum(leaf.nbytes for leaf in leaves if hasattr(leaf, "nbytes"))
    return {"first": first, "seconds": seconds, "states_a_second": side**2 / seconds, "bytes": size}


def states(first: int, last: int, *, side: int) -> tuple[Any, Any, Any]:
    """Some states of the grid, as `MDP.from_shards` takes them, computed where they will be."""
    return _states(first, last - first, side)


def waves(first: int, last: int, *, side: int) -> Any:
    """Their features."""
    return _waves(first, last - first, side)


@functools.cache
def _compiled() -> tuple[Any, Any]:
    import jax
    import jax.numpy as jnp

    def states(first: Any, count: int, side: int) -> Any:
        state = first + jnp.arange(count, dtype=jnp.int32)
        row, column = jnp.divmod(state, side)
        after = [
            jnp.clip(row + down, 0, side - 1) * side + jnp.clip(column + right, 0, side - 1)
            for down, right in MOVES.tolist()
        ]
        # A number between 0 and 1 for each state, without a pattern that one could see (Knuth's multiplicative hash).
        scattered = (state.astype(jnp.uint32) * jnp.uint32(2654435761)).astype(jnp.float32) / 2**32
        slip = SLIP * (0.5 + scattered)[:, None, None]
        probs = slip / 5 + (1 - slip) * jnp.eye(5, dtype=jnp.float32)
        initial = jnp.full(count, 1 / side**2, jnp.float32)
        return jnp.stack(after, axis=-1)[:, None].astype(jnp.int32), probs, initial

    def waves(first: Any, count: int, side: int) -> Any:
        row, column = jnp.divmod(first + jnp.arange(count, dtype=jnp.int32), side)
        rng = np.random.default_rng(1)
        columns = []
        for _ in range(FEATURES):
            (down, right), length = rng.normal(size=2), np.exp(rng.uniform(np.log(6), np.log(60)))
            down, right = 2 * np.pi / length * np.array([down, right]) / np.hypot(down, right)
            phase = rng.uniform(0, 2 * np.pi)
            angle = jnp.float32(down) * row.astype(jnp.float32) + jnp.float32(right) * column.astype(jnp.float32)
            columns.append(jnp.sin(angle + jnp.float32(phase)))
        return jnp.stack(columns, axis=-1)

    return tuple(jax.jit(function, static_argnums=(1, 2)) for function in (states, waves))


def _states(first: int, count: int, side: int) -> Any:
    return _compiled()[0](np.int32(first), count, side)


def _waves(first: int, count: int, side: int) -> Any:
    return _compiled()[1](np.int32(first), count, side)


def swept(mdp: Any, copy: float) -> dict[str, Any]:
    """A backup and a push, as shares of the bandwidth of a copy."""
    done = sweeps.sweeps(mdp, "float32", budget=0.5)
    return {name: each | {"fraction_of_copy": each["bytes_a_second"] / copy} for name, each in done.items()}


def gradient(mdp: Any, low_memory: bool, copy: float) -> dict[str, Any]:
    """Seconds of E V₀ and its gradient in a reward for each state and action; with low memory, of more sweeps."""
    figures: dict[str, Any] = sweeps.gradient(mdp, "float32", low_memory=low_memory)
    if not low_memory:
        size, links = 4 * mdp.num_states, mdp.dynamics.links
        backup = sweeps.bytes_moved(mdp.dynamics, 4)["backup"]
        lists = 4 * (links.successors.size + links.predecessors.entries.size + mdp.dynamics.probs.size)
        moved = mdp.horizon * (backup + lists + (3 * mdp.num_actions + 4) * size)
        figures |= {"bytes": moved, "bytes_a_second": moved / figures["seconds"]}
        figures["fraction_of_copy"] = figures["bytes_a_second"] / copy
    return figures


def fitted(mdp: Any, side: int, run: Run, row: dict[str, Any]) -> dict[str, Any]:
    """A fit of 20 weights to the policy of known ones, from loading the features to the finished result.

    Its steps are put into the row, so that they are known even if it does not end.
    """
    import irlax as ix

    loading, features = timing.once(lambda: mdp.load_table(functools.partial(waves, side=side)))
    truth = 0.3 * np.random.default_rng(2).normal(size=FEATURES)
    planning, expert = timing.once(lambda: ix.soft_plan(mdp, ix.LinearReward(features, truth), low_memory=True))
    began, steps = time.perf_counter(), row.setdefault("steps_of_fit", [])

    def watch(iterate: Any) -> bool:
        steps.append({"step": iterate.step, "seconds": time.perf_counter() - began} | dict(iterate.numbers))
        print(f"  {steps[-1]}", flush=True)
        run.write()
        return time.perf_counter() > run.end

    # Values of all times would take 40 GB twice: for the fit, and for the plan that it returns.
    solver, tol = ix.LBFGS(max_steps=MAX_STEPS), TOL_A_STEP * mdp.horizon
    estimator = ix.MCEIRL(solver=solver, tol=tol, low_memory=True, progress=False)
    seconds, fit = timing.once(lambda: estimator.fit(mdp, ix.LinearReward(features), expert, callback=watch))
    return {
        "seconds": seconds,
        "steps": fit.iterations,
        "status": fit.status.name,
        "seconds_to_load_features": loading,
        "bytes_of_features": features.nbytes,
        "seconds_to_plan_of_the_demonstrator": planning,
        "largest_gap_a_step": float(np.abs(fit.feature_gap).max()) / mdp.horizon,
        "largest_error_of_a_weight": float(np.abs(fit.reward.weights - truth).max()),
    }


def peak_on_card() -> int | None:
    """The most memory of the card that was ever taken; None where it is not counted, as on CPUs."""
    import jax

    return (jax.devices()[0].memory_stats() or {}).get("peak_bytes_in_use")


def table(result: dict[str, Any]) -> list[list[str]]:
    horizon = result["horizon"]
    head = ["states", "building, s", "bytes", "backup, ms", "of copy", "push, ms", "of copy"]
    body = [[*head, f"gradient, T = {horizon}, s", "of copy", "with low memory, s", "fit, s", "steps"]]
    for row in result["rows"]:
        swept, taken, low, fit = (row.get(name, {}) for name in ("sweeps", "gradient", "gradient_low_memory", "fit"))
        cells = [f"{row['states']:,}", shown(row["building"], "seconds"), shown(row["building"], "bytes", "{:.3g}")]
        for name in ("backup", "push"):
            of = swept.get(name, {})
            cells += [shown({"ms": 1e3 * of["seconds"]} if of else {}, "ms"), shown(of, "fraction_of_copy", "{:.0%}")]
        cells += [shown(taken, "seconds"), shown(taken, "fraction_of_copy", "{:.0%}"), shown(low, "seconds")]
        body.append([*cells, shown(fit, "seconds"), shown(fit, "steps", "{}")])
    return body


def shown(figures: dict[str, Any], name: str, form: str = "{:.3g}") -> str:
    """A figure for the table; a dash if it was not measured."""
    return form.format(figures[name]) if name in figures else "–"


if __name__ == "__main__":
    main()
