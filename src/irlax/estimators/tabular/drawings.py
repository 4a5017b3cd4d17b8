"""Figures of one MDP of a fit (reward, policy, visits), and of the convergence of the solver."""

import warnings
from typing import Any

import numpy as np
from scipy.special import entr

from irlax.estimators.tabular.scene import Scene
from irlax.iteration import History
from irlax.mdp.drawing import grid_panels
from irlax.mdp.grid import Grid
from irlax.planning.drawing import has_arrows
from irlax.report import plots
from irlax.report.html import Page
from irlax.rewards.drawing import by_action_on_grid
from irlax.tables import format_value
from irlax.typing import Float, Int


def add_figure(page: Page, figure: Any, caption: str) -> Page:
    """The page with a figure added."""
    with warnings.catch_warnings():
        # Names may have characters that the font does not have, which are drawn as boxes.
        warnings.filterwarnings("ignore", "Glyph .* missing from font")
        return page.figure(figure, caption)


def _state_axes(scene: Scene, columns: int = 1) -> tuple[Any, np.ndarray, Int[np.ndarray, " n"], str]:
    """A figure and axes for a list of states, these states, and a note on those that are left out."""
    states = scene.shown
    figure, axes = plots.blank(columns, height=1.2 + 0.27 * len(states))
    left_out = scene.mdp.num_states - len(states)
    note = (
        f" Shown are the {len(states)} states that are visited most; {format_value(left_out)} are not."
        if left_out
        else ""
    )
    return figure, axes[0], states, note


def draw_reward(page: Page, scene: Scene) -> Page:
    """The page with figures of the learned reward."""
    by_state = np.nanmax(scene.reward, axis=1)
    scale = plots.limits(scene.reward)
    if scene.grid is not None and scene.over_states:
        figure, axes = grid_panels(scene.grid, 2)
        time = "" if scene.mdp.horizon is None else " at t = 0"
        value_scale = plots.limits(scene.value, from_zero=False)
        pictures = {"reward r(s)": (by_state, scale), f"value V(s){time}": (scene.value, value_scale)}
        for ax, (title, (values, span)) in zip(axes, pictures.items(), strict=True):
            picture = scene.grid.picture(values)
            plots.grid_heatmap(figure, ax, picture, title=title, scale=span, bar="", marks=scene.grid.board)
        return add_figure(page, figure, "The learned reward and the value of each cell.")
    if scene.grid is not None:
        figure = by_action_on_grid(scene.mdp, scene.reward)
        return add_figure(page, figure, "The learned expected reward of each action in each cell.")
    figure, (ax, *_), states, note = _state_axes(scene)
    names = scene.names(states)
    if scene.over_states:
        plots.bars(ax, {"reward": by_state[states]}, names, xlabel="reward r(s)")
        return add_figure(page, figure, f"The learned reward of each state.{note}")
    plots.heat_table(
        figure, ax, scene.reward[states], rows=names, columns=scene.action_names, title="E[r(s, a, S')]", bar="reward"
    )
    return add_figure(page, figure, f"The learned expected reward of each action in each state.{note}")


def draw_policy(page: Page, scene: Scene) -> Page:
    """The page with figures of the policy."""
    stationary = scene.mdp.horizon is None
    policies = {"at all times" if stationary else "at t = 0": scene.first_policy}
    if not stationary:
        policies["over all times, by visits"] = scene.mean_policy
    meaning = (
        "" if stationary else " It depends on time: left at the first decision, right averaged over the model's visits."
    )
    if scene.grid is None:
        figure, axes, states, note = _state_axes(scene, len(policies))
        for ax, (title, policy) in zip(axes, policies.items(), strict=True):
            options = {"rows": scene.names(states), "columns": scene.action_names}
            plots.heat_table(
                figure, ax, policy[states], **options, title=title, bar="probability", scale=(0, 1, plots.AMOUNTS)
            )
        return add_figure(page, figure, f"How likely each action is in each state.{meaning}{note}")
    return _draw_policies_on_grid(page, scene, scene.grid, policies, meaning)


def _draw_policies_on_grid(
    page: Page, scene: Scene, grid: Grid, policies: dict[str, Float[np.ndarray, "S A"]], meaning: str
) -> Page:
    figure, axes = grid_panels(grid, 2)
    for ax, (title, policy) in zip(axes, policies.items(), strict=False):
        scene.draw_policy(figure, ax, policy, title=title)
    if len(policies) == 1:
        spread = entr(np.nan_to_num(scene.first_policy)).sum(axis=1)
        plots.grid_heatmap(figure, axes[1], grid.picture(spread), title="entropy of the choice", bar="nats")
    how = "An arrow is as long as its action is likely beside the likeliest; a dot stands for staying."
    return add_figure(
        page, figure, f"{how if has_arrows(scene.mdp) else 'The likeliest action of each cell.'}{meaning}"
    )


def draw_visits(page: Page, scene: Scene, note: str = "") -> Page:
    """The page with the visits of the demonstrator and of the model; `note` is added to the caption."""
    expert, model = scene.expert.sum(axis=1), scene.model.sum(axis=1)
    amount = "discounted visits" if scene.whole else "share of discounted visits"
    text = f"{amount[0].upper()}{amount[1:]} to each state, of the expert (from the data) and of the fitted policy."
    if not scene.whole:
        text += " Episodes are not whole, so shares are compared, and they may differ though the fit is good."
    text += note
    if scene.grid is not None:
        figure, axes = grid_panels(scene.grid, 3)
        scale = plots.limits(expert, model)
        pictures = {"expert": (expert, scale), "model": (model, scale), "expert − model": (expert - model, None)}
        for ax, (title, (mass, given)) in zip(axes, pictures.items(), strict=True):
            picture = scene.grid.picture(mass)
            plots.grid_heatmap(figure, ax, picture, title=title, scale=given, bar="", marks=scene.grid.board)
        return add_figure(page, figure, text)
    figure, (ax, *_), states, left_out = _state_axes(scene)
    plots.bars(ax, {"expert": expert[states], "model": model[states]}, scene.names(states), xlabel=amount)
    return add_figure(page, figure, text + left_out)


def draw_convergence(
    page: Page,
    history: History,
    *,
    curves: tuple[str, str] = ("objective above its lowest", "largest gradient"),
    text: str = "",
    from_lowest: bool = True,
) -> Page:
    """The page with the loss and its gradient over the steps, on a logarithmic scale."""
    loss, gradient = plots.clip_for_plot(history.loss), plots.clip_for_plot(history.gradient)
    if len(loss) < 2 or not np.isfinite(loss).any():
        return page
    text = (
        text or f"The objective that was minimised, and its largest gradient, over {format_value(len(loss) - 1)} steps."
    )
    figure, axes = plots.blank(2)
    for ax, name, curve in zip(
        axes[0], curves, (loss - np.nanmin(loss) if from_lowest else loss, gradient), strict=True
    ):
        draw_steps(ax, curve, np.isfinite(curve) & (curve > 0), name, "step")
        plots.logarithmic(ax)
    return add_figure(page.heading("Convergence"), figure, text)


def draw_steps(ax: Any, curve: np.ndarray, shown: np.ndarray, name: str, unit: str, *, thin: bool = False) -> None:
    """Draw a curve over steps, at the steps where `shown` is true."""
    steps = np.flatnonzero(shown)
    few = {"marker": "o"} if len(steps) < 40 else {}
    ax.plot(steps, curve[steps], color=plots.COLOURS[0], linewidth=1 if thin else 2, clip_on=False, **few)
    ax.xaxis.get_major_locator().set_params(integer=True)
    ax.set_xlabel(unit)
    ax.set_ylabel(name)
    ax.set_xlim(0, len(curve) - 1)
