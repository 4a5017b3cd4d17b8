"""The same walks, but unknown dynamics: a reward learned by acting in the environment."""

import dataclasses
from typing import Any

import jax.random as jr
import numpy as np

from irlax.demos import Demonstrations
from irlax.envs import Tabular
from irlax.estimators.sampled import Rounds, SampledFit, SampledMCEIRL
from irlax.estimators.sampled.curves import learning_figure
from irlax.estimators.sampled.page import mean_reward
from irlax.estimators.tabular.drawings import add_figure
from irlax.mdp.grid import Grid
from irlax.report import Page, plots
from irlax.rewards import RewardNet
from irlax.rl import PPO
from irlax.showcase import walks
from irlax.showcase.section import Section
from irlax.tables import Summary, Table
from irlax.typing import Float

#: Rounds of learning, and episodes of the policy in each.
ROUNDS, EPISODES = 60, 16


def section() -> Section:
    """Learn a reward of cells from the walks, by acting in the environment."""
    fit, truth = learned(), walks.reward()
    found = by_cell(fit)
    correlation = float(np.corrcoef(found, truth)[0, 1])
    final, demonstrated = float(fit.returns.mean()), float(fit.demos.returns.mean())
    table = Table(
        ("", "demonstrations", "learned policy"),
        [
            ("walks", fit.num_episodes, ROUNDS * EPISODES),
            ("true return of a walk", f"{demonstrated:.1f}", f"{final:.1f}"),
        ],
        title="A reward by acting, without known dynamics",
        notes=(f"The correlation of the learned reward with the true one, over cells, is {correlation:.2f}.",),
    )
    record = {
        "status": fit.status.name.lower(),
        "return_mean": final,
        "demonstrated_return_mean": demonstrated,
        "correlation": correlation,
    }
    return Section(
        "The same without a map", Summary([table]), record, lambda page: _draw(page, table, fit, found, truth)
    )


def learned() -> SampledFit:
    """A fit with one reward for each cell: a network without hidden layers."""
    env = Tabular(walks.world().mdp, walks.reward(), horizon=walks.STEPS)
    learner = PPO(temperature=1.0, explore=0.0, discount=float(walks.world().mdp.discount))
    estimator = SampledMCEIRL(
        reward=RewardNet(over="s", depth=0, normalise=False),
        learner=learner,
        rounds=Rounds(num=ROUNDS, episodes=EPISODES, tol=0.0),
        penalty=0.3,
        batch_size=1024,
        learning_rate=0.05,
    )
    fit = estimator.fit(env, with_observations(walks.demonstrations()), key=jr.key(0))
    assert isinstance(fit, SampledFit)
    return fit


def with_observations(walked: Demonstrations) -> Demonstrations:
    """The walks with observations in place of states: an indicator of the cell."""
    one_hot = np.eye(walks.world().mdp.num_states, dtype=np.float32)
    assert walked.states is not None and walked.next_states is not None
    return dataclasses.replace(
        walked,
        states=None,
        next_states=None,
        observations=one_hot[walked.states],
        next_observations=one_hot[walked.next_states],
        rewards=walks.reward()[walked.states],
    )


def by_cell(fit: SampledFit) -> Float[np.ndarray, " S"]:
    """The learned reward of each cell; its constant, which is not identified, is set to that of the truth."""
    found = mean_reward(fit, np.eye(len(walks.reward()), dtype=np.float32))
    return found - found.mean() + walks.reward().mean()


def _draw(page: Page, table: Table, fit: SampledFit, found: Any, truth: Any) -> Page:
    grid = Grid.of(walks.world().mdp)
    assert grid is not None
    page = page.text(
        "So far the dynamics were known: where every move may lead. A robot often does not know them, but it can act. "
        "Dynamics-free estimators repeat three steps: collect some episodes of the policy; raise the reward of what "
        "the demonstrator does more often than the policy, and lower that of what the policy does more often; improve "
        "the policy for that reward. When the two no longer differ, the policy acts as the demonstrator does."
    ).text(
        "This is the same gridworld with the same walks, but irlax can only act in it. The estimator is the same, "
        "maximum causal entropy, with samples in place of planning. AIRL, GAIL and guided cost learning repeat the "
        "same steps, with other ways to update the reward."
    )
    page = add_figure(
        page.table(table),
        learning_figure(fit.history, float(fit.demos.returns.mean())),
        "Learning curves: the true return of the policy rises to that of the demonstrations (dotted), though the true "
        "reward was not given, and the gap in reward closes.",
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
