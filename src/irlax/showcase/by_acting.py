"""The same walks, without knowing the dynamics: a reward found by acting in the world."""

import dataclasses
from typing import Any

import jax.random as jr
import numpy as np

from irlax.demos import Demonstrations
from irlax.envs import Tabular
from irlax.estimators.sampled import SampledFit, SampledMCEIRL
from irlax.estimators.sampled.curves import learning_figure
from irlax.estimators.sampled.page import mean_reward
from irlax.estimators.tabular.drawings import add_figure
from irlax.report import Page, plots
from irlax.report.grid import Grid
from irlax.rl import PPO
from irlax.showcase import walks
from irlax.showcase.section import Section
from irlax.tables import Summary, Table
from irlax.typing import Float

#: Rounds of learning, and walks of our own in each.
ROUNDS, EPISODES = 60, 16


def section() -> Section:
    """Learn a reward of cells from the walks by trying to walk like that."""
    fit, truth = learned(), walks.reward()
    found = by_cell(fit)
    likeness = float(np.corrcoef(found, truth)[0, 1])
    earned, shown = float(fit.returns.mean()), float(fit.demos.returns.mean())
    table = Table(
        ("", "walks seen", "our own walks"),
        [
            ("walks", fit.num_episodes, ROUNDS * EPISODES),
            ("reward of a walk, as the walker counts it", f"{shown:.1f}", f"{earned:.1f}"),
        ],
        title="A reward by acting, without a model of the world",
        notes=(f"The correlation of the learned reward with the true one, over cells, is {likeness:.2f}.",),
    )
    record = {
        "status": fit.status.name.lower(),
        "return_mean": earned,
        "demonstrated_return_mean": shown,
        "correlation": likeness,
    }
    return Section(
        "The same without a map", Summary([table]), record, lambda page: _drawn(page, table, fit, found, truth)
    )


def learned() -> SampledFit:
    """A table of rewards, one for each cell, as small a network as there is."""
    env = Tabular(walks.world().mdp, walks.reward(), horizon=walks.STEPS)
    learner = PPO(temperature=1.0, explore=0.0, discount=float(walks.world().mdp.discount))
    estimator = SampledMCEIRL(
        learner=learner,
        over="s",
        penalty=0.3,
        depth=0,
        normalise=False,
        rounds=ROUNDS,
        episodes=EPISODES,
        batch_size=1024,
        learning_rate=0.05,
        tol=0.0,
    )
    return estimator.fit(env, observed(walks.walked()), key=jr.key(0), shown=False)


def observed(walked: Demonstrations) -> Demonstrations:
    """Walks as someone sees them who can tell cells apart and knows nothing else of them."""
    sight = np.eye(walks.world().mdp.num_states, dtype=np.float32)
    assert walked.states is not None and walked.next_states is not None
    return dataclasses.replace(
        walked,
        states=None,
        next_states=None,
        observations=sight[walked.states],
        next_observations=sight[walked.next_states],
        rewards=walks.reward()[walked.states],
    )


def by_cell(fit: SampledFit) -> Float[np.ndarray, " S"]:
    """The learned reward of each cell; its constant, which nothing reveals, is set to that of the truth."""
    found = mean_reward(fit, np.eye(len(walks.reward()), dtype=np.float32))
    return found - found.mean() + walks.reward().mean()


def _drawn(page: Page, table: Table, fit: SampledFit, found: Any, truth: Any) -> Page:
    grid = Grid.of(walks.world().mdp)
    assert grid is not None
    page = page.text(
        "So far we knew how the world works: where every move may lead. A robot often does not know that, but it can "
        "try. Dynamics-free estimators learn by acting: walk a few times; pay more for what the walker does and we do "
        "not, and less for what we do and the walker does not; learn to walk for that pay; and again. When nothing is "
        "left to pay for, our walks look like those that were seen, and the pay is the reward."
    ).text(
        "Here is the walker's world once more, with the same walks, but all that irlax may do is act in it. It is the "
        "same estimator, maximum causal entropy, with samples in place of planning. AIRL, GAIL and guided cost "
        "learning go round in the same circle, with another way to set the pay."
    )
    page = add_figure(
        page.table(table),
        learning_figure(fit.history, float(fit.demos.returns.mean())),
        "How it learned: what our walks earn by the walker's own count comes up to what the walker earns (dotted), "
        "though nobody told us the count, and the gap in pay closes.",
    )
    figure, axes = plots.blank(2, height=2.9)
    scale = plots.limits(found, truth)
    for ax, values, title in zip(axes[0], (truth, found), ("the walker's reward", "learned by acting"), strict=True):
        plots.grid_heatmap(figure, ax, grid.picture(values), title=title, scale=scale, bar="", marks=grid.board)
    return add_figure(
        page,
        figure,
        "The reward of each cell: true, and learned without knowing the dynamics. It is rougher than what planning "
        "finds from the same walks, and comes without standard errors.",
    )
