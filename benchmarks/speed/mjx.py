"""MuJoCo inside JAX: steps a second of 1 to 8,192 copies of each task, random actions, everything in one `jit`.

A step is one of the environment: a new action, observation and reward, `frame_skip` steps of MuJoCo, and a new episode
where one ended. Compilation is apart. Every figure is written as soon as it is known, and work that does not fit into
`--limit` seconds is left out and listed as such, the largest numbers of copies of all tasks being measured first. On an
accelerator, `XLA_FLAGS=--xla_gpu_triton_gemm_any=True` is worth a try. `--quick` only sees that everything works.
"""

import argparse
import sys
import time
from pathlib import Path
from typing import Any

from benchmarks import record

TASKS = ("hopper", "walker2d", "halfcheetah", "swimmer", "ant", "humanoid")
COPIES = (1, 64, 1024, 4096, 8192)
REPETITIONS = 3


def measured(task: str, copies: int, length: int, options: dict[str, Any]) -> dict[str, Any]:
    """Seconds of compilation, and the steps a second of the fastest of a few repetitions."""
    import equinox as eqx
    import jax
    import jax.random as jr

    import irlax as ix
    from irlax.envs.experience import collect_steps, init_runner

    env = ix.envs.make(f"mjx:{task}", **options)

    @eqx.filter_jit
    def init(env: Any, keys: Any) -> Any:
        return jax.vmap(lambda key: init_runner(env, 0.0, key=key))(keys)

    @eqx.filter_jit
    def collect(env: Any, runners: Any, key: Any) -> Any:
        runners, batch, _ = collect_steps(env, None, runners, length=length, key=key)
        return runners, batch.reward.mean()

    runners = init(env, jr.split(jr.key(0), copies))
    began = time.perf_counter()
    compiled = collect.lower(env, runners, jr.key(1)).compile()
    compilation = time.perf_counter() - began
    runners, reward = jax.block_until_ready(compiled(env, runners, jr.key(1)))
    seconds = []
    for repetition in range(REPETITIONS):
        began = time.perf_counter()
        runners, reward = jax.block_until_ready(compiled(env, runners, jr.key(2 + repetition)))
        seconds.append(time.perf_counter() - began)
    rate = copies * length / min(seconds)
    return {
        "steps_per_second": float(f"{rate:.3g}"),
        "compilation_seconds": round(compilation, 1),
        "seconds": [round(second, 4) for second in seconds],
        "mean_reward": round(float(reward), 3),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=record.RESULTS / "mjx_speed.json")
    parser.add_argument("--tasks", nargs="*", choices=TASKS, default=list(TASKS))
    parser.add_argument("--copies", nargs="*", type=int, default=list(COPIES))
    parser.add_argument("--length", type=int, default=50, help="steps of each copy in one call")
    parser.add_argument("--iterations", type=int, help="limit of the constraint solver's steps")
    parser.add_argument("--ls-iterations", type=int, help="limit of those of its line search")
    parser.add_argument("--limit", type=float, default=540.0, help="seconds after which nothing new is started")
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args()
    if options.quick:
        options.tasks, options.copies, options.length = ["swimmer"], [1, 8], 2
    import jax

    source = record.provenance("benchmarks.speed.mjx", "irlax", "jax", "mujoco", "mujoco-mjx")
    source["device"] = jax.devices()[0].device_kind
    limits = {"iterations": options.iterations, "ls_iterations": options.ls_iterations}
    chosen = {name: limit for name, limit in limits.items() if limit is not None}
    rows: list[dict[str, Any]] = []
    began = time.monotonic()
    for copies in sorted(options.copies, reverse=True):
        for task in options.tasks:
            row: dict[str, Any] = {"task": task, "copies": copies, "length": options.length, **chosen}
            if time.monotonic() - began > options.limit:
                row["left_out"] = f"not within {options.limit:.0f} s"
            else:
                try:
                    row |= measured(task, copies, options.length, chosen)
                except Exception as error:  # such as a lack of memory; the other figures are wanted all the same
                    row["error"] = f"{type(error).__name__}: {str(error)[:200]}"
            rows.append(row)
            print(row, file=sys.stderr, flush=True)
            record.write(options.out, {**source, "figures": rows})


if __name__ == "__main__":
    main()
