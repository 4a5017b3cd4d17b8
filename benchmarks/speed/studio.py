"""From the release of the pointer to a new reward map, in the studio, in a real Chromium.

    .venv/bin/python -m benchmarks.speed.studio

Walks are drawn one after the other with the mouse, on at most three; a fit starts from the last one. The first
walks pay for compilation and are left out. The page measures from the browser's event to the frame with the first
reward map, which is that of an unfinished fit if the fit takes long, and to the frame with all of the fit. Results go
to benchmarks/results/studio.json, with the time that the fits took inside.
"""

import argparse
import os
import tempfile
from pathlib import Path

import numpy as np
from benchmarks.record import RESULTS, provenance, write
from tests.studio.driving import studio, studio_page

from irlax.studio.scene import Scene
from irlax.studio.storing import Folder

WARM = 3
GRIDS = {
    "10×10": Scene(("." * 10,) * 9 + ("." * 9 + "G",), slip=0.1, discount=0.9),
    "30×30, horizon 60": Scene(("." * 30,) * 29 + ("." * 29 + "G",), slip=0.1, discount=0.95, horizon=60),
}


def stairs(rng, side):
    """A walk from the middle of the top rows to the goal in the corner, down and right in random order."""
    start = rng.integers(side // 2, size=2)
    moves = rng.permutation([0] * (side - 1 - start[0]) + [1] * (side - 1 - start[1]))
    steps = np.eye(2, dtype=int)[moves]
    return [tuple(map(int, cell)) for cell in np.concatenate([start[None], start + np.cumsum(steps, axis=0)])]


def measure(scene, repetitions):
    """Milliseconds from pointer-up to the first map and to all of the fit, and of the fits alone."""
    rng = np.random.default_rng(0)
    with tempfile.TemporaryDirectory() as folder:
        path = Folder(folder).write_scene("grid", scene)
        with studio(path) as address, studio_page(address, Path(folder) / "profile", width=1280) as page:
            page.wait("document.querySelector('.status').textContent.includes('Draw a walk')")
            times = []
            for number in range(WARM + repetitions):
                shown = page.draw_walk(stairs(rng, scene.shape[0]))
                times.append(
                    {
                        "pointer_up_to_map": shown["reward map"],
                        "pointer_up_to_fit": shown["fit"],
                        "fit": 1000 * page.answers("fit")[-1]["seconds"],
                    }
                )
                if number % 3 == 2:
                    for _ in range(2):
                        page.tool("undo")
                        page.rest()
            return times[WARM:]


def quantiles(times):
    median, high = np.percentile(times, [50, 95])
    return {"median_ms": round(float(median), 1), "p95_ms": round(float(high), 1), "n": len(times)}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repetitions", type=int, default=30)
    parser.add_argument("--out", type=Path, default=RESULTS / "studio.json")
    asked = parser.parse_args()
    record = {"provenance": provenance("benchmarks.speed.studio", "jax", "irlax", "starlette", "uvicorn"), "grids": {}}
    for name, scene in GRIDS.items():
        # Other work on the machine, in processes that run, before this measurement adds its own.
        load = os.getloadavg()[0]
        times = measure(scene, asked.repetitions)
        record["grids"][name] = {"load": round(load, 1)} | {
            what: quantiles([each[what] for each in times]) for what in times[0]
        }
        print(name, record["grids"][name])
        write(asked.out, record)


if __name__ == "__main__":
    main()
