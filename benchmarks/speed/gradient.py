"""One gradient of MCE IRL: a backward pass for the policy, a forward pass for its occupancy. Against imitation.

Slippery grids, 5 actions, T = 50, γ = 1, float64, a reward for each state. Ours is what a step of a fit calls:
`Problem.evaluate`, arrays in and out on the host. imitation's is `mce_partition_fh` and
`mce_occupancy_measures` on its dense S×A×S table. It keeps one row of occupancy more than there are decisions; that row
is left out where the two are compared, and its cost, one push of fifty, is left in.
"""

import statistics
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from benchmarks.speed import fresh, problems, timing, venvs

HORIZON = 50
#: Side of the grid → rounds, and repeats of the peer in a round; 100×100 needs 4 GB and 20 s there, 160×160 more than
#: 24 GB, so there ours stands alone.
SIDES = {32: (3, 5), 64: (2, 2), 100: (1, 1), 160: (1, 0)}


def measure(*, quick: bool) -> dict[str, Any]:
    sides = {32: (1, 2)} if quick else SIDES
    return {f"{side}×{side}": compared(side, *times) for side, times in sides.items()}


def compared(side: int, rounds: int, repeats: int) -> dict[str, Any]:
    """Peer and ours in turn, `rounds` times, each in a fresh process."""
    with tempfile.TemporaryDirectory() as folder:
        successors, probs = problems.slippery_grid(side)
        size = side**2
        reward, initial = problems.true_reward(size, seed=0), problems.uniform(size)
        path = problems.save(
            Path(folder) / "grid.npz", successors=successors, probs=probs, initial=initial, reward=reward
        )
        theirs, mine = [], []
        for _ in range(rounds):
            if repeats:
                theirs.append(venvs.ask("imitation", "gradient", path=str(path), horizon=HORIZON, repeats=repeats))
            mine.append(fresh.call(__name__, "ours", path=str(path)))
        row = {
            "irlax_seconds": statistics.median(one["seconds"] for one in mine),
            "irlax_compile_seconds": statistics.median(one["first"] - one["seconds"] for one in mine),
        }
        if theirs:
            visits = np.load(f"{path}.irlax.npy")
            row["imitation_seconds"] = statistics.median(one["seconds"] for one in theirs)
            row["ratio"] = row["imitation_seconds"] / row["irlax_seconds"]
            # A busy machine slows one side more than the other; the best of each tells whether it did.
            row["ratio_of_best"] = min(one["best"] for one in theirs) / min(one["best"] for one in mine)
            row["largest_difference_of_occupancy"] = float(np.abs(visits - np.load(f"{path}.imitation.npy")).max())
        return row


def ours(path: str) -> dict[str, float]:
    """Seconds of `Problem.evaluate`, first and later; the occupancy is saved beside the problem."""
    import irlax as ix
    from irlax.estimators.tabular.fit_by_minimising import make_problem
    from irlax.estimators.tabular.pairing import pair_up
    from irlax.precision import scope

    grid = np.load(path)
    mdp = ix.MDP.from_successors(grid["successors"], grid["probs"], grid["initial"], discount=1.0, horizon=HORIZON)
    np.save(f"{path}.irlax.npy", ix.visits(mdp, ix.soft_plan(mdp, grid["reward"])).sum(axis=1))
    nobody = np.full((mdp.num_states, mdp.num_actions), 1 / mdp.num_actions)
    with scope():
        rewards, experts = pair_up(mdp, ix.TabularReward("s"), nobody, None, "auto")
        problem, _ = make_problem(ix.MCEIRL().objectives(rewards, experts)[0], rewards, experts, l2=0.0)
        # As within a fit: what an evaluation remembers is handed to the next.
        remembered = problem.initial_warm_starts()
        return timing.compiled(lambda: problem.evaluate(grid["reward"], remembered))


def table(figures: dict[str, Any]) -> list[list[str]]:
    body = [["grid", "imitation, s", "irlax, ms", "ratio", "of the best", "compilation, s", "occupancies differ by"]]
    for name, row in figures.items():
        mine = [f"{1e3 * row['irlax_seconds']:.2f}", f"{row['irlax_compile_seconds']:.2f}"]
        theirs, ratio, best, differ = "not run", "", "", ""
        if "ratio" in row:
            theirs, ratio = f"{row['imitation_seconds']:.2f}", f"{row['ratio']:.0f}×"
            best = f"{row['ratio_of_best']:.0f}×"
            differ = f"{row['largest_difference_of_occupancy']:.1e}"
        body.append([name, theirs, mine[0], ratio, best, mine[1], differ])
    return body
