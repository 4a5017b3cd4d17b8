"""Deep against linear rewards on Objectworld, from 8 to 128 demonstrations.

The setting, the rewards and the fits are those of `irlax reproduce wulfmeier-2015`; here are more of them, with
intervals.
"""

import argparse
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.random as jr
import matplotlib as mpl
import numpy as np
import scipy.stats
from benchmarks import record

import irlax as ix
from irlax.reproduce.wulfmeier_2015 import LENGTH, METHODS, SHARPNESS, SOLVER, TOLERANCE, Method, World

COUNTS = (8, 16, 32, 64, 128)
NUM_NEW_WORLDS = 4


class Trial(NamedTuple):
    """One fit."""

    seed: int
    num: int
    method: str
    here: float
    elsewhere: float
    seconds: float
    status: str


def trials(seeds: range, tell: Callable[[Trial], None]) -> tuple[list[Trial], dict[str, Any]]:
    """All fits, and what there is to compare them with."""
    done, boards, bounds = [], {}, []
    for seed in seeds:
        world = World.of(seed)
        new_worlds = [World.of(1000 + NUM_NEW_WORLDS * seed + k) for k in range(NUM_NEW_WORLDS)]
        bounds.append(yardsticks(world))
        demos_key, network_key = jr.split(jr.key(seed))
        everything = world.walks(max(COUNTS), demos_key)
        for num in COUNTS:
            demos = everything.select(range(num))
            for name, method in METHODS.items():
                trial, fit = tried(world, new_worlds, demos, method, name=name, seed=seed, key=network_key)
                done.append(trial)
                tell(trial)
                if seed == seeds[0] and num == max(COUNTS):
                    boards[name] = world.env.to_board(fit.reward.table(world.env.mdp)[:, 0])
        if seed == seeds[0]:
            boards["truth"] = world.env.to_board(world.env.reward)
    references = {name: summarised([bound[name] for bound in bounds]) for name in bounds[0]}
    return done, {"references": references, "boards": boards}


def yardsticks(world: World) -> dict[str, float]:
    """The return of the best policy, and how far the demonstrator and a random walk fall short of it."""
    mdp, reward = world.env.mdp, world.env.reward
    anyhow = np.full((mdp.num_states, mdp.num_actions), 1 / mdp.num_actions)
    return {
        "best return": world.best,
        "demonstrator": world.best - float(ix.expected_return(mdp, world.expert(), reward)),
        "random walk": world.best - float(ix.expected_return(mdp, anyhow, reward)),
    }


def tried(
    world: World,
    new_worlds: list[World],
    demos: ix.Demonstrations,
    method: Method,
    *,
    name: str,
    seed: int,
    key: jax.Array,
) -> tuple[Trial, Any]:
    """Fit one reward to one set of demonstrations, and see what it is worth."""
    began = time.perf_counter()
    fit = world.fit(method, demos, key)
    seconds = time.perf_counter() - began
    here = fit.expected_value_difference(world.env.reward)
    moved = [method.build(new.env, key).with_parameters(fit.reward.parameters) for new in new_worlds]
    elsewhere = np.mean([new.value_difference(reward) for new, reward in zip(new_worlds, moved, strict=True)])
    return Trial(seed, demos.num_episodes, name, here, float(elsewhere), seconds, fit.status.name.lower()), fit


def summarised(values: list[float]) -> dict[str, float]:
    """The mean, and its 95% interval over seeds (Student's t)."""
    mean, error = float(np.mean(values)), scipy.stats.sem(values)
    half = float(scipy.stats.t.ppf(0.975, len(values) - 1) * error)
    return {"mean": round(mean, 4), "low": round(mean - half, 4), "high": round(mean + half, 4)}


def rows(done: list[Trial]) -> list[dict[str, Any]]:
    """One row for each method and number of demonstrations."""
    table = []
    for name in METHODS:
        for num in COUNTS:
            group = [trial for trial in done if trial.method == name and trial.num == num]
            statuses = [trial.status for trial in group]
            table.append(
                {
                    "method": name,
                    "demonstrations": num,
                    "same_world": summarised([trial.here for trial in group]),
                    "new_worlds": summarised([trial.elsewhere for trial in group]),
                    "same_world_by_seed": [round(trial.here, 4) for trial in group],
                    "new_worlds_by_seed": [round(trial.elsewhere, 4) for trial in group],
                    "seconds": round(float(np.mean([trial.seconds for trial in group])), 2),
                    "status": {status: statuses.count(status) for status in sorted(set(statuses))},
                }
            )
    return table


def margins(done: list[Trial]) -> list[dict[str, Any]]:
    """What the network saves against the better of the linear rewards, seed by seed."""
    table = []
    for num in COUNTS:
        row: dict[str, Any] = {"demonstrations": num}
        for place in ("here", "elsewhere"):
            by_method = {
                name: np.array([getattr(trial, place) for trial in done if trial.method == name and trial.num == num])
                for name in METHODS
            }
            linear = min((by_method["linear"], by_method["linear, discrete"]), key=np.mean)
            saved = summarised((linear - by_method["network"]).tolist())
            ratio = round(float(linear.mean() / by_method["network"].mean()), 2)
            row["same_world" if place == "here" else "new_worlds"] = {**saved, "ratio": ratio}
        table.append(row)
    return table


def draw(table: list[dict[str, Any]], extra: dict[str, Any], path: Path) -> None:
    """The curves, and the rewards of the first world as boards."""
    mpl.use("Agg")
    import matplotlib.pyplot as plt
    from matplotlib.colors import CenteredNorm

    colours = dict(zip(METHODS, ("tab:orange", "tab:brown", "tab:blue"), strict=True))
    figure, axes = plt.subplots(2, 4, figsize=(15, 7.5), layout="constrained")
    grid = axes[0, 0].get_gridspec()
    for axis in axes[0]:
        axis.remove()
    titles = {"same_world": "the world of the demonstrations", "new_worlds": "new worlds, other objects"}
    for k, (place, title) in enumerate(titles.items()):
        axis = figure.add_subplot(grid[0, 2 * k : 2 * k + 2])
        for name, method in METHODS.items():
            cells = [row[place] for row in table if row["method"] == name]
            axis.plot(COUNTS, [cell["mean"] for cell in cells], "o-", color=colours[name], label=method.label)
            low, high = [cell["low"] for cell in cells], [cell["high"] for cell in cells]
            axis.fill_between(COUNTS, low, high, color=colours[name], alpha=0.2, linewidth=0)
        axis.axhline(extra["references"]["demonstrator"]["mean"], color="grey", linestyle=":", label="the demonstrator")
        axis.set(title=title, xlabel="demonstrations, 8 steps each", ylabel="expected value difference", ylim=(0, None))
        axis.set_xscale("log", base=2)
        axis.set_xticks(COUNTS, [str(count) for count in COUNTS])
        axis.legend(frameon=False)
    shown = {"truth": "true reward", **{name: method.label for name, method in METHODS.items()}}
    for axis, (name, title) in zip(axes[1], shown.items(), strict=True):
        board = extra["boards"][name]
        axis.imshow(board - np.median(board), cmap="coolwarm", norm=CenteredNorm())
        axis.set(title=title, xticks=[], yticks=[])
    figure.suptitle("Objectworld 32×32: expected value difference, mean and 95% interval over seeds")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/objectworld.json"))
    parser.add_argument("--figure", type=Path, default=Path("out/objectworld.png"))
    parser.add_argument("--seeds", type=int, default=8, help="how many worlds, 0, 1, ...; at least 2")
    options = parser.parse_args()
    if options.seeds < 2:
        parser.error("--seeds must be at least 2: an interval needs two worlds.")
    began, total = time.perf_counter(), options.seeds * len(COUNTS) * len(METHODS)
    count = iter(range(1, total + 1))

    def tell(trial: Trial) -> None:
        print(
            f"[{next(count)}/{total}, {time.perf_counter() - began:.0f} s] seed {trial.seed}, "
            f"{trial.num} demonstrations, {trial.method}: lost {trial.here:.2f}, in new worlds {trial.elsewhere:.2f} "
            f"({trial.status}, {trial.seconds:.1f} s)",
            file=sys.stderr,
            flush=True,
        )

    source = record.provenance("benchmarks.quality.objectworld", "jax")
    source["machine"]["device"] = jax.devices()[0].platform
    done, extra = trials(range(options.seeds), tell)
    table = rows(done)
    result = {
        **source,
        "seconds": round(time.perf_counter() - began),
        "seeds": options.seeds,
        "settings": {
            "steps_a_demonstration": LENGTH,
            "demonstrator": f"soft-optimal for {SHARPNESS:g} times the reward",
            "objective": "likelihood",
            "l2": "1 / demonstrations",
            "solver": f"L-BFGS, at most {SOLVER.max_steps} steps, tol {TOLERANCE:g}",
            "network": "32-32, relu, of the distances in units of 4 cells",
            "new_worlds_a_seed": NUM_NEW_WORLDS,
        },
        "references": extra["references"],
        "figures": {"expected_value_difference": table, "margin_over_the_better_linear_reward": margins(done)},
    }
    record.write(options.out, result)
    draw(table, extra, options.figure)
    print(f"Wrote {options.out} and {options.figure}.", file=sys.stderr)


if __name__ == "__main__":
    main()
