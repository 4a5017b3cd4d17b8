"""Sweeps and gradients on an accelerator, against the card's own bandwidth: up to ten million states.

    PYTHONPATH=src python -m benchmarks.speed.device --out FOLDER

needs what irlax needs and no peer. Slippery grids of 10⁶, 4·10⁶ and 10⁷ states (5 actions, 5 next states each), float32
and float64: a soft backup and a push as fractions of the bandwidth of a copy measured beforehand (by the formulae that
stand in the results), and a whole gradient with T = 100. Prints the table and writes device.json and device.md.
"""

import argparse
import time
from pathlib import Path
from typing import Any

from benchmarks import record
from benchmarks.speed import bandwidth, sweeps
from benchmarks.speed.run import markdown

SIDES, HORIZON = (1000, 2000, 3162), 100


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True, help="folder for device.json and device.md")
    parser.add_argument("--sides", type=int, nargs="+", default=SIDES, help="sides of the grids")
    given = parser.parse_args()
    import jax

    result = record.provenance("benchmarks.speed.device", "jax", "numpy", "equinox")
    result["device"] = jax.devices()[0].device_kind
    result["bytes_counted"] = sweeps.FORMULAE
    rates = result["bandwidth"] = {dtype: bandwidth.measured(dtype) for dtype in ("float32", "float64")}
    result["rows"] = []
    for side in given.sides:
        began = time.perf_counter()
        mdp = sweeps.grid(side, HORIZON)
        built = time.perf_counter() - began
        for dtype, rate in rates.items():
            result["rows"].append({"building_seconds": built, **measured(mdp, dtype, rate["copy"])})
            # What was measured is kept, whatever becomes of the larger sizes.
            record.write(given.out / "device.json", result)
            print(" | ".join(table(result)[-2]), flush=True)
    text = f"# {result['device']}, commit {result['commit']}\n\n{markdown(table(result))}\n"
    (given.out / "device.md").write_text(text)
    print(text)


def measured(mdp: Any, dtype: str, copy: float) -> dict[str, Any]:
    """Sweeps and a gradient at one size and precision."""
    row: dict[str, Any] = {"states": mdp.num_states, "dtype": dtype}
    for name, done in sweeps.sweeps(mdp, dtype, budget=0.5).items():
        row[name] = done | {"fraction_of_copy": done["bytes_a_second"] / copy}
    return row | {"gradient": sweeps.gradient(mdp, dtype)}


def table(result: dict[str, Any]) -> list[list[str]]:
    body = [["states", "precision", "backup, ms", "of copy", "push, ms", "of copy", f"gradient, T = {HORIZON}, ms"]]
    for row in result["rows"]:
        cells = []
        for name in ("backup", "push"):
            cells += [f"{1e3 * row[name]['seconds']:.3g}", f"{row[name]['fraction_of_copy']:.0%}"]
        body.append([f"{row['states']:,}", row["dtype"], *cells, f"{1e3 * row['gradient']['seconds']:.1f}"])
    rates = (f"{dtype} {rate['copy'] / 1e9:.0f}" for dtype, rate in result["bandwidth"].items())
    return [*body, ["copy, GB/s", ", ".join(rates), "", "", "", "", ""]]


if __name__ == "__main__":
    main()
