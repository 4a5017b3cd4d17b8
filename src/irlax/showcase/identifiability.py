"""What the walks cannot tell: a constant, a potential, and cells that were hardly visited."""

import jax.random as jr
import numpy as np

from irlax.analysis import identify, same_soft_policy, shape
from irlax.estimators.tabular import MCEIRL
from irlax.estimators.tabular.drawings import add_figure
from irlax.estimators.tabular.page import draw_unidentified
from irlax.planning import soft_plan
from irlax.report import Page, plots
from irlax.report.grid import Grid
from irlax.rewards import TabularReward
from irlax.showcase import walks
from irlax.showcase.section import Section
from irlax.tables import Summary, Table


def section() -> Section:
    """Count the directions that no policy reveals, and show two rewards that act alike."""
    mdp = walks.world().mdp
    plan = soft_plan(mdp, walks.reward())
    found = {over: identify(mdp, TabularReward(over), plan) for over in ("s", "sa")}
    potential = np.array(jr.normal(jr.key(1), (mdp.num_states,)))
    shaped = shape(mdp, walks.reward(), potential)
    rows = [
        (f"reward over {meaning}", len(found[over].names), found[over].rank, found[over].null_dim, hidden)
        for over, meaning, hidden in (("s", "cells", "a constant"), ("sa", "cells and moves", "a potential"))
    ]
    table = Table(
        ("learned", "parameters", "revealed", "hidden", "what is hidden"),
        rows,
        title="What no number of walks can tell",
    )
    record = {
        "rows": [dict(zip(("reward", "parameters", "revealed", "hidden"), row[:4], strict=True)) for row in rows],
        "shaped_reward_has_the_same_policy": same_soft_policy(mdp, walks.reward(), shaped),
    }
    return Section("What cannot be told", Summary([table]), record, lambda page: _drawn(page, table, potential))


def _drawn(page: Page, table: Table, potential: np.ndarray) -> Page:
    fit = MCEIRL(objective="likelihood", l2=0.01, progress=False).fit(
        walks.world().mdp, TabularReward("s"), walks.walked()
    )
    grid = Grid.of(walks.world().mdp)
    assert grid is not None
    page = page.text(
        "With three weights all was revealed. What if each cell had a reward of its own? Then paying one more in every "
        "cell would change nothing that anybody does: that constant is hidden, from any number of walks. If each move "
        "in each cell had its own, one number for every cell would be: a potential, paid out when a cell is entered "
        "and taken back when it is left. irlax works this out for every fit, and says it."
    ).table(table)
    page = page.heading("Two rewards, one behaviour", level=3)
    page = _two_rewards(page, grid, potential)
    page = page.heading("A reward for every cell", level=3).text(
        "Learned from the same walks, with a small penalty. What is hidden is set apart; of the rest the standard "
        "error says how well these walks reveal it: worst where the walker seldom is."
    )
    return draw_unidentified(page, fit, fit.identification(), grid)


def _two_rewards(page: Page, grid: Grid, potential: np.ndarray) -> Page:
    world = walks.world()
    plain = walks.reward()
    shaped = np.asarray(shape(world.mdp, plain, potential))
    # What stepping to the right pays, so that both can be drawn as one number a cell.
    right = world.action_names.index("right")
    mean = np.einsum("sx,sx->s", world.mdp.dynamics.to_dense()[:, right], shaped[:, right])
    figure, axes = plots.blank(2, height=2.9)
    for ax, values, title in zip(axes[0], (plain, mean), ("a reward", "the same, and a potential"), strict=True):
        plots.grid_heatmap(figure, ax, grid.picture(values), title=title, bar="", marks=grid.board)
    apart = np.abs(soft_plan(world.mdp, plain).policy - soft_plan(world.mdp, shaped).policy).max()
    return add_figure(
        page,
        figure,
        f"Two rewards for a step to the right. Their policies differ by {apart:.0e} at most: no observer can tell "
        f"which of them somebody has.",
    )
