"""`irlax mdp grid`: a gridworld, drawn as text, as an MDP file."""

from pathlib import Path
from typing import Annotated

import typer

from irlax.cli.options import AsJson, Key, emit


def grid(
    layout: Annotated[
        Path, typer.Argument(help="A text file that draws the cells: . free, # wall, S start, G goal, X hazard.")
    ],
    *,
    out: Annotated[Path, typer.Option(help="The MDP file (.npz) to write.")],
    slip: Annotated[float, typer.Option(help="The probability that a move is replaced by a random one.")] = 0.0,
    stay: Annotated[bool, typer.Option("--stay", help="Add the action of staying.")] = False,
    ends: Annotated[bool, typer.Option("--ends", help="Goals and hazards end an episode.")] = False,
    discount: Annotated[float, typer.Option(help="γ.")] = 0.9,
    horizon: Annotated[int | None, typer.Option(help="Decisions; infinitely many if left out.")] = None,
    demos: Annotated[
        Path | None,
        typer.Option(help="Also write walks (.csv, .parquet, .npz) with a reward for G and a penalty for X."),
    ] = None,
    num: Annotated[int, typer.Option(help="The number of walks.")] = 200,
    key: Key = 0,
    as_json: AsJson = False,
) -> None:
    """Make an MDP file from a drawing of a gridworld, and walks in it to learn from.

    \b
    printf 'S..\\n.#X\\n..G\\n' > maze.txt
    irlax mdp grid maze.txt --out maze.npz --demos walks.csv --horizon 15
    irlax fit maze.npz walks.csv --reward s --l2 0.01 --out run
    irlax report run
    """
    import math

    import jax

    from irlax import checks, storage
    from irlax.demos import rollout, write_demos
    from irlax.demos.read_write import SUFFIXES
    from irlax.envs import Gridworld
    from irlax.mdp.npz import save_mdp
    from irlax.planning import soft_plan

    # Both names are checked before either file is written.
    storage.known_suffix(out, (".npz",))
    storage.known_suffix(demos or "none.csv", SUFFIXES)
    with storage.unreadable(layout, "a drawing of cells"):
        rows = layout.read_text(encoding="utf-8").split()
    world = Gridworld(rows, slip=slip, stay=stay, ends=ends, discount=discount, horizon=horizon)
    mdp = world.mdp
    if demos is not None:
        plan = soft_plan(mdp, 3 * world.reward)
        # So long that on an infinite horizon only a thousandth of the discounted mass of a walk is unobserved.
        length = horizon or min(1000, math.ceil(math.log(1e-3) / math.log(min(max(discount, 1e-3), 0.999))))
        checks.count("num", num)
        walks = rollout(mdp, plan, num=num, key=jax.random.key(key), **({} if horizon else {"length": length}))
        write_demos(demos, walks)
    save_mdp(out, mdp)
    record = {"mdp": str(out), "demos": None if demos is None else str(demos)}
    record |= {"num_states": mdp.num_states, "num_actions": mdp.num_actions, "episodes": num if demos else 0}
    emit(out, record, as_json=as_json)
