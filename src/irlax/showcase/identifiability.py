"""What the walks cannot reveal: a constant, a potential, and the reward of cells with few visits."""

import jax.random as jr
import numpy as np

from irlax.analysis import identify, same_soft_policy, shape
from irlax.estimators.tabular import MCEIRL
from irlax.estimators.tabular.drawings import add_figure
from irlax.estimators.tabular.page import draw_unidentified
from irlax.estimators.tabular.tabular_fit import TabularFit
from irlax.mdp.grid import Grid
from irlax.planning import soft_plan
from irlax.report import Page, plots
from irlax.rewards import TabularReward
from irlax.showcase import walks
from irlax.showcase.section import Section
from irlax.tables import Summary, Table


def section() -> Section:
    """Count the directions that no policy reveals, and show two rewards with the same policy."""
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
        title="What no number of walks can reveal",
    )
    record = {
        "rows": [dict(zip(("reward", "parameters", "revealed", "hidden"), row[:4], strict=True)) for row in rows],
        "shaped_reward_has_the_same_policy": same_soft_policy(mdp, walks.reward(), shaped),
    }
    return Section("What cannot be identified", Summary([table]), record, lambda page: _draw(page, table, potential))


def _draw(page: Page, table: Table, potential: np.ndarray) -> Page:
    fit = MCEIRL(objective="likelihood", l2=0.01, progress=False).fit(
        walks.world().mdp, TabularReward("s"), walks.demonstrations()
    )
    grid = Grid.of(walks.world().mdp)
    assert grid is not None and isinstance(fit, TabularFit)
    page = page.text(
        "The three weights are all identified. What if each cell has its own reward? Then adding 1 to the reward of "
        "every cell changes no action: no number of walks can reveal that constant. If each move in each cell has its "
        "own reward, one number for every cell is hidden: a potential, which is added when a cell is entered and "
        "subtracted when it is left. irlax computes for every fit what is hidden, and reports it."
    ).table(table)
    page = page.heading("Two rewards, one behaviour", level=3)
    page = _two_rewards(page, grid, potential)
    page = page.heading("A reward for every cell", level=3).text(
        "Learned from the same walks, with a small penalty. The hidden part is shown separately; the standard errors "
        "of the other part are largest in cells with few visits."
    )
    return draw_unidentified(page, fit, fit.identification(), grid)


def _two_rewards(page: Page, grid: Grid, potential: np.ndarray) -> Page:
    world = walks.world()
    plain = walks.reward()
    shaped = np.asarray(shape(world.mdp, plain, potential))
    # The expected reward of a step to the right, so that both can be drawn as one number per cell.
    right = world.action_names.index("right")
    mean = np.einsum("sx,sx->s", world.mdp.dynamics.to_dense()[:, right], shaped[:, right])
    figure, axes = plots.blank(2, height=2.9)
    for ax, values, title in zip(axes[0], (plain, mean), ("a reward", "the same, and a potential"), strict=True):
        plots.grid_heatmap(figure, ax, grid.picture(values), title=title, bar="", marks=grid.board)
    difference = np.abs(soft_plan(world.mdp, plain).policy - soft_plan(world.mdp, shaped).policy).max()
    return add_figure(
        page,
        figure,
        f"Two rewards for a step to the right. Their policies differ by {difference:.0e} at most: no demonstrations "
        f"can distinguish them.",
    )
