"""What a user waits for before the arithmetic: imports, help, first fits with an empty and a full cache of programs.

Seconds of processor time, medians over fresh processes, in turn, so that a busy machine is the same for all of them.
"""

import os
import resource
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

#: The grid of the help of `irlax mdp grid`.
GRID = "S..\n.#X\n..G\n"
IRLAX = [sys.executable, "-c", "from irlax.cli import main; main()"]
#: The example of the README, from the import of JAX on, which is measured apart.
FIRST_FIT = """
import time, jax, numpy as np
began = time.process_time()
import irlax as ix
ix.use_compilation_cache()
imported = time.process_time()
env = ix.envs.Gridworld(["S..#G", ".X...", "....."], slip=0.1, stay=True, discount=0.95, horizon=40)
demos = ix.rollout(env.mdp, ix.soft_plan(env.mdp, env.reward), num=200, key=jax.random.key(0))
moving = np.broadcast_to(np.arange(5) < 4, (env.mdp.num_states, 5))
goal, hazard = (np.broadcast_to((env.marks == mark)[:, None], moving.shape) for mark in "GX")
reward = ix.LinearReward(np.stack([goal, hazard, moving], axis=-1), names=["goal", "hazard", "moving"])
ready = time.process_time()
fit = ix.MCEIRL(objective="likelihood").fit(env.mdp, reward, demos)
fitted = time.process_time()
str(fit.summary())
print(fitted - ready, time.process_time() - fitted)
"""


def measure(*, quick: bool) -> dict[str, Any]:
    taken: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        (place / "maze.txt").write_text(GRID)
        walks = ["--demos", "walks.csv", "--horizon", "15"]
        processor([*IRLAX, "mdp", "grid", "maze.txt", "--out", "maze.npz", *walks], place, "first")
        for turn in range(2 if quick else 7):
            # A cache of its own for each turn: empty for the first process in it, full for the second.
            fit = [*IRLAX, "fit", "maze.npz", "walks.csv", "--reward", "s", "--l2", "0.01", "--out", f"run{turn}"]
            commands = {
                "import jax": [sys.executable, "-c", "import jax"],
                "import irlax": [sys.executable, "-c", "import irlax"],
                "irlax --version": [*IRLAX, "--version"],
                "irlax --help": [*IRLAX, "--help"],
                "a mistake in the arguments": [*IRLAX, "fit", "--methd", "mce"],
                "irlax fit, cold": fit,
                "irlax fit, warm": [*fit[:-1], f"again{turn}"],
            }
            for name, command in commands.items():
                taken.setdefault(name, []).append(processor(command, place, f"cache{turn}")[0])
            for state in ("cold", "warm"):
                said = processor([sys.executable, "-c", FIRST_FIT], place, f"readme{turn}")[1].split()
                for name, seconds in zip(("the README's fit", "its summary"), said, strict=True):
                    taken.setdefault(f"{name}, {state}", []).append(float(seconds))
    medians = {name: round(statistics.median(seconds), 3) for name, seconds in taken.items()}
    return {"seconds": medians, "imports_of_jax": {k: round(v / medians["import jax"], 2) for k, v in medians.items()}}


def processor(command: list[str], folder: Path, cache: str) -> tuple[float, str]:
    """Processor seconds of a process and its children, and what it printed."""
    own = {name: value for name, value in os.environ.items() if not name.startswith("JAX_")}
    environment = own | {"IRLAX_COMPILATION_CACHE": str(folder / cache), "JAX_PLATFORMS": "cpu"}
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    # 2: the mistake in the arguments.
    if done.returncode not in (0, 2):
        raise RuntimeError(f"{command} failed ({done.returncode}):\n{done.stderr[-2000:]}")
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, done.stdout


def table(figures: dict[str, Any]) -> list[list[str]]:
    ratios = figures["imports_of_jax"]
    rows = [[name, f"{seconds:.2f}", f"{ratios[name]:.2f}"] for name, seconds in figures["seconds"].items()]
    return [["", "seconds of processor time", "times that of import jax"], *rows]
