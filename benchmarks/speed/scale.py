"""A million states: a soft backup and a push as fractions of the machine's bandwidth, and the memory of a gradient.

A slippery grid of 1000×1000 cells on uneven ground, 5 actions, 5 next states each; and on even ground, where it is
stored as five moves. The bytes that a sweep cannot do without are counted by the formulae that stand in the results;
the bandwidth is that of the triad, which takes turns with the sweeps: a shared machine has more to give in one second
than in the next. The median of the fractions of all rounds is given. At 10⁴ states, for comparison, everything fits in
a cache, and fractions above 1 mean just that. The gradient has T = 100.
"""

from typing import Any

import numpy as np
from benchmarks.speed import bandwidth, fresh, sweeps, timing

HORIZON = 100


def measure(*, quick: bool) -> dict[str, Any]:
    side = 300 if quick else 1000
    return {
        "bytes_counted": sweeps.FORMULAE,
        "sweeps": fresh.call(__name__, "swept", sides=[100, side]),
        "gradient": fresh.call(__name__, "gradient", side=side),
    }


def swept(sides: list[int]) -> dict[str, Any]:
    """Sweeps at each size and precision, against the bandwidth of this very process."""
    import jax

    measured = {dtype: bandwidth.measured(dtype) for dtype in ("float64", "float32")}
    with jax.enable_x64(True):
        triads = {dtype: bandwidth.fastest_triad(dtype) for dtype in measured}
    rows = []
    for side, uneven in [*((side, True) for side in sides), (sides[-1], False)]:
        mdp = sweeps.grid(side, HORIZON, uneven=uneven)
        for dtype, triad in triads.items():
            stored = type(mdp.dynamics).__name__
            row: dict[str, Any] = {"states": side**2, "stored": stored, "dtype": dtype}
            for name, done in sweeps.sweeps(mdp, dtype, triad=triad).items():
                row[name] = done | {"ns_a_state": 1e9 * done["seconds"] / side**2}
            rows.append(row)
    small, large = (next(row for row in rows if row["states"] == side**2) for side in sides)
    growth = {name: large[name]["ns_a_state"] / small[name]["ns_a_state"] for name in ("backup", "push")}
    return {"bandwidth": measured, "rows": rows, "time_a_state_large_to_small": growth}


def gradient(side: int) -> dict[str, Any]:
    """One whole gradient as a fit calls it, and the peak memory: after the MDP is built, and after the gradient."""
    import irlax as ix
    from irlax.estimators.tabular.fit_by_minimising import make_problem
    from irlax.estimators.tabular.pairing import pair_up
    from irlax.precision import scope

    building, mdp = timing.once(lambda: sweeps.grid(side, HORIZON))
    built = fresh.peak_bytes()
    # Somebody who stays where he is: whom the gradient is compared with changes nothing about what it costs.
    idle = ix.Demonstrations.from_arrays(np.zeros((1, HORIZON), int), np.full((1, HORIZON), 4))
    with scope():
        rewards, experts = pair_up(mdp, ix.TabularReward("s"), idle, None, "mdp")
        problem, first = make_problem(ix.MCEIRL().objectives(rewards, experts)[0], rewards, experts, l2=0.0)
        taken = timing.compiled(lambda: problem.evaluate(first), least=2)
    return {
        "seconds": taken["seconds"],
        "compile_seconds": taken["first"] - taken["seconds"],
        "building_seconds": building,
        "peak_bytes_after_building": built,
        "peak_bytes": fresh.peak_bytes(),
    }


def table(figures: dict[str, Any]) -> list[list[str]]:
    body = [["states", "stored as", "precision", "backup, ms", "of triad", "push, ms", "of triad"]]
    for row in figures["sweeps"]["rows"]:
        cells = []
        for name in ("backup", "push"):
            cells += [f"{1e3 * row[name]['seconds']:.3g}", f"{row[name]['fraction_of_triad']:.0%}"]
        body.append([f"{row['states']:,}", row["stored"], row["dtype"], *cells])
    growth = figures["sweeps"]["time_a_state_large_to_small"]
    rates = {dtype: rate["triad"] / 1e9 for dtype, rate in figures["sweeps"]["bandwidth"].items()}
    shown = [f"{growth['backup']:.2f}×", "", f"{growth['push']:.2f}×", ""]
    body.append(["time a state, large to small", "Successors", "float64", *shown])
    body.append(["triad, GB/s", "", ", ".join(f"{dtype} {rate:.1f}" for dtype, rate in rates.items()), "", "", "", ""])
    done = figures["gradient"]
    peak = f"{done['peak_bytes'] / 2**30:.2f} GiB"
    taken = f"{done['seconds']:.2f} s"
    body.append([f"gradient, T = {HORIZON}", "Successors", "float64", taken, f"peak {peak}", "", ""])
    return body
