"""What reports on several hidden groups have in common: how they open, their tables and the convergence."""

import numpy as np

from irlax.estimators.goals.goal_map import observed_uses, reward_map
from irlax.estimators.goals.goal_page import reward_note
from irlax.estimators.mixed.mixed_fit import AbstractMixedFit
from irlax.estimators.mixed.towards_goals import TowardsGoals
from irlax.estimators.tabular.drawings import add_figure, draw_convergence, draw_policy, draw_reward, draw_visits
from irlax.estimators.tabular.expert import Expert
from irlax.estimators.tabular.scene import Scene
from irlax.planning.goals.options import Options
from irlax.report import maps
from irlax.report.html import Page
from irlax.tables import format_value


def opening(fit: AbstractMixedFit, title: str, units: str) -> Page:
    """A page that says what was learned from, and whether the fit is a success; `units` as "40 individuals"."""
    observed = f"{units}, {format_value(fit.num_choices)} choices"
    size = f"{format_value(fit.mdp.num_states)} states and {format_value(fit.mdp.num_actions)} actions"
    page = Page(title, f"Learned from {observed}, in an MDP of {size}.")
    if fit.converged:
        return page
    page = page.text(f"This fit {fit.status.value}. {fit.reason}", alert=True)
    return page.text("Below is its last iterate: these are no estimates.")


def summary_section(page: Page, fit: AbstractMixedFit) -> Page:
    """The estimates, and how good the fit is."""
    for table in fit.summary().tables:
        page = page.table(table)
    return page


def convergence_section(page: Page, fit: AbstractMixedFit) -> Page:
    """How the solver got there."""
    return draw_convergence(page, fit.history)


def draw_group(page: Page, fit: AbstractMixedFit, group: int, expert: Expert, note: str) -> Page:
    """The reward of one group, and how it acts; `note` says how the demonstrator's choices were weighted for it."""
    plan, reward = fit.plans[group], fit.rewards[group]
    if isinstance(plan, TowardsGoals):
        return _draw_on_map(page, plan, expert, note)
    scene = Scene.between(expert, plan, reward)
    page = draw_policy(draw_reward(page, scene), scene)
    return draw_visits(page, scene, note)


def _draw_on_map(page: Page, plan: TowardsGoals, expert: Expert, note: str) -> Page:
    """The reward and the observed uses on a map, if states have places."""
    mdp, demos = plan.mdp, expert.demos
    assert demos is not None
    options = Options.of(mdp)
    rewards = np.asarray(plan.reward.table(mdp))[options.row, options.column]
    found = reward_map(mdp, rewards, (observed_uses(mdp, demos),))
    if found is None:
        return page
    figure, axes = maps.panels(found.segments, 2)
    maps.network_map(figure, axes[0], found.segments, found.reward, title=f"reward of each {found.kind}", bar="reward")
    maps.network_map(figure, axes[1], found.segments, found.uses[0], title="observed uses", bar="episodes")
    text = f"The learned reward of each {found.kind}, and how often it was used.{reward_note(found.kind)}{note}"
    return add_figure(page, figure, text)
