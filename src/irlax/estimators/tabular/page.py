"""The report on a fit: reward, policy, occupancies of expert and model, convergence, summary."""

import warnings
from typing import Any

import numpy as np
from scipy.special import entr

from irlax.analysis.identifiability import Identification
from irlax.estimators.tabular.inference import identified_errors
from irlax.estimators.tabular.scene import MOVES, Grid, Scene
from irlax.estimators.tabular.storage import Run
from irlax.estimators.tabular.tabular_fit import SHOWN_PARAMETERS, History, TabularFit
from irlax.report import plots
from irlax.report.diagnosis import MOST_PARAMETERS, hidden_part
from irlax.report.html import Page
from irlax.rewards import TabularReward
from irlax.rewards.reward import flat
from irlax.tables import pairs, show
from irlax.typing import Float, Int

#: Up to this many parameters are listed at the top.
SHORT_LIST = 12
#: At most this many of several MDPs are shown.
SHOWN_MDPS = 4
#: Grids with more cells than this on a side have colours for actions instead of arrows.
MOST_ARROWS = 60


def fit_page(run: Run) -> Page:
    """The report on a fit as one page."""
    fit = run.fit
    page = Page(f"{fit.method}: a reward from demonstrations", _lead(fit))
    if not fit.converged:
        page = page.text(f"This fit {fit.status.value}. What is shown below is its best iterate.", alert=True)
    *parameters, facts = fit.summary().tables
    # A long list would keep the pictures from whoever opens the page.
    first = [*parameters, facts] if fit.reward.num_parameters <= SHORT_LIST else [facts]
    for table in first:
        page = page.table(table)
    if fit.samples is not None and fit.reward.num_parameters <= SHOWN_PARAMETERS:
        page = _posterior(page, fit, fit.samples)
    for i in range(min(len(fit.experts), SHOWN_MDPS)):
        scene = Scene.of(fit, i)
        suffix = f", MDP {i + 1} of {len(fit.experts)}" if len(fit.experts) > 1 else ""
        page = _pictures(page, scene, fit, suffix)
    page = _convergence(_untold(page, fit, Grid.of(fit.mdp)), fit)
    if parameters and len(first) == 1:
        page = page.heading("Parameters").table(parameters[0])
    return page.heading("How it was made").table(pairs("", run.versions))


def _pictures(page: Page, scene: Scene, fit: TabularFit, suffix: str) -> Page:
    page = draw_reward(page.heading(f"Reward{suffix}"), scene)
    page = draw_policy(page.heading(f"Policy{suffix}"), scene)
    page = page.heading(f"Where expert and model go{suffix}")
    more = ""
    if fit.method == "MaxEntIRL":
        more = " These are visits in the real world; the Maximum Entropy model believes in others."
    return draw_visits(page, scene, more)


def _lead(fit: TabularFit) -> str:
    horizon = "an infinite horizon" if fit.mdp.horizon is None else f"horizon {fit.mdp.horizon}"
    seen = f"{show(fit.num_episodes)} episodes, {show(fit.num_choices)} choices" if fit.num_episodes else "a policy"
    size = f"{show(fit.mdp.num_states)} states and {show(fit.mdp.num_actions)} actions"
    return f"Learned from {seen}, in an MDP of {size} with discount {float(fit.mdp.discount):g} and {horizon}."


def drawn(page: Page, figure: Any, caption: str) -> Page:
    """The page with a figure."""
    with warnings.catch_warnings():
        # Names may use letters that the font does not have: they are shown as boxes.
        warnings.filterwarnings("ignore", "Glyph .* missing from font")
        return page.figure(figure, caption)


def _panels(grid: Grid, count: int) -> tuple[Any, np.ndarray]:
    """Axes for pictures of a grid, at most three beside each other, as tall as the grid asks for."""
    columns = min(count, 3)
    tall = 9.0 / max(columns, 2) * grid.shape[0] / grid.shape[1]
    figure, axes = plots.blank(columns, rows=-(-count // columns), height=float(np.clip(tall, 1.6, 5.5)))
    for ax in axes.ravel()[count:]:
        ax.set_visible(False)
    return figure, axes.ravel()[:count]


def _listed(scene: Scene, columns: int = 1) -> tuple[Any, np.ndarray, Int[np.ndarray, " n"], str]:
    """Axes for lists of states, the states, and what to say about those that are left out."""
    states = scene.shown
    figure, axes = plots.blank(columns, height=1.2 + 0.27 * len(states))
    left_out = scene.mdp.num_states - len(states)
    note = f" Shown are the {len(states)} states that are visited most; {show(left_out)} are not." if left_out else ""
    return figure, axes[0], states, note


def draw_reward(page: Page, scene: Scene) -> Page:
    """The learned reward."""
    by_state = np.nanmax(scene.reward, axis=1)
    scale = plots.limits(scene.reward)
    if scene.grid is not None and scene.over_states:
        figure, axes = _panels(scene.grid, 2)
        time = "" if scene.mdp.horizon is None else " at t = 0"
        worth = plots.limits(scene.value, from_zero=False)
        pictures = {"reward r(s)": (by_state, scale), f"value V(s){time}": (scene.value, worth)}
        for ax, (title, (values, span)) in zip(axes, pictures.items(), strict=True):
            picture = scene.grid.picture(values)
            plots.grid_heatmap(figure, ax, picture, title=title, scale=span, bar="", marks=scene.grid.board)
        return drawn(page, figure, "The learned reward of each cell, and what it is worth to be there.")
    if scene.grid is not None:
        figure, axes = _panels(scene.grid, scene.mdp.num_actions)
        for a, ax in enumerate(axes):
            title, picture = plots.label(scene.action_names[a]), scene.grid.picture(scene.reward[:, a])
            plots.grid_heatmap(figure, ax, picture, title=title, scale=scale, bar="reward", marks=scene.grid.board)
        return drawn(page, figure, "The learned expected reward of each action in each cell.")
    figure, (ax, *_), states, note = _listed(scene)
    names = scene.names(states)
    if scene.over_states:
        plots.bars(ax, {"reward": by_state[states]}, names, xlabel="reward r(s)")
        return drawn(page, figure, f"The learned reward of each state.{note}")
    plots.heat_table(
        figure, ax, scene.reward[states], rows=names, columns=scene.action_names, title="E[r(s, a, S')]", bar="reward"
    )
    return drawn(page, figure, f"The learned expected reward of each action in each state.{note}")


def draw_policy(page: Page, scene: Scene) -> Page:
    """The policy that goes with it."""
    stationary = scene.mdp.horizon is None
    policies = {"at all times" if stationary else "at t = 0": scene.first_policy}
    if not stationary:
        policies["over all times, by visits"] = scene.mean_policy
    meaning = (
        "" if stationary else " It depends on time: left at the first decision, right averaged over the model's visits."
    )
    if scene.grid is None:
        figure, axes, states, note = _listed(scene, len(policies))
        for ax, (title, policy) in zip(axes, policies.items(), strict=True):
            options = {"rows": scene.names(states), "columns": scene.action_names}
            plots.heat_table(
                figure, ax, policy[states], **options, title=title, bar="probability", scale=(0, 1, plots.AMOUNTS)
            )
        return drawn(page, figure, f"How likely each action is in each state.{meaning}{note}")
    return _policy_on_grid(page, scene, scene.grid, policies, meaning)


def _policy_on_grid(
    page: Page, scene: Scene, grid: Grid, policies: dict[str, Float[np.ndarray, "S A"]], meaning: str
) -> Page:
    figure, axes = _panels(grid, 2)
    moves = [MOVES.get(name) for name in scene.action_names]
    arrows = max(grid.shape) <= MOST_ARROWS and None not in moves
    for ax, (title, policy) in zip(axes, policies.items(), strict=False):
        if arrows:
            plots.policy_arrows(
                figure,
                ax,
                np.nan_to_num(policy),
                cells=grid.cells,
                shape=grid.shape,
                moves=np.array(moves),
                title=title,
                shade=scene.model.sum(axis=1),
                bar="discounted visits",
            )
        else:
            known = np.isfinite(policy).any(axis=1)
            likeliest = np.where(known, np.argmax(np.nan_to_num(policy), axis=1), np.nan)
            plots.chosen_actions(ax, grid.picture(likeliest), scene.action_names, title=title)
    if len(policies) == 1:
        spread = entr(np.nan_to_num(scene.first_policy)).sum(axis=1)
        plots.grid_heatmap(figure, axes[1], grid.picture(spread), title="entropy of the choice", bar="nats")
    how = "An arrow is as long as its action is likely beside the likeliest; a dot stands for staying."
    return drawn(page, figure, f"{how if arrows else 'The likeliest action of each cell.'}{meaning}")


def draw_visits(page: Page, scene: Scene, more: str = "") -> Page:
    """How often the demonstrator and the model are where; `more` is added to the caption."""
    expert, model = scene.expert.sum(axis=1), scene.model.sum(axis=1)
    amount = "discounted visits" if scene.whole else "share of discounted visits"
    text = f"{amount[0].upper()}{amount[1:]} to each state, of the expert (from the data) and of the fitted policy."
    if not scene.whole:
        text += " Episodes are not whole, so shares are compared, and they may differ though the fit is good."
    text += more
    if scene.grid is not None:
        figure, axes = _panels(scene.grid, 3)
        scale = plots.limits(expert, model)
        pictures = {"expert": (expert, scale), "model": (model, scale), "expert − model": (expert - model, None)}
        for ax, (title, (mass, given)) in zip(axes, pictures.items(), strict=True):
            picture = scene.grid.picture(mass)
            plots.grid_heatmap(figure, ax, picture, title=title, scale=given, bar="", marks=scene.grid.board)
        return drawn(page, figure, text)
    figure, (ax, *_), states, note = _listed(scene)
    plots.bars(ax, {"expert": expert[states], "model": model[states]}, scene.names(states), xlabel=amount)
    return drawn(page, figure, text + note)


def _posterior(page: Page, fit: TabularFit, samples: Float[np.ndarray, "draws K"]) -> Page:
    names = fit.reward.parameter_names()
    figure, axes = plots.blank(height=1.2 + 0.27 * len(names))
    low, high = np.quantile(plots.tame(samples), [0.025, 0.975], axis=0)
    plots.intervals(axes[0, 0], names, plots.tame(samples).mean(axis=0), low, high, xlabel="parameter")
    page = page.heading("Posterior")
    return drawn(page, figure, "The posterior of each parameter: its mean and central 95% interval.")


def _untold(page: Page, fit: TabularFit, grid: Grid | None) -> Page:
    """What the data cannot tell: hidden directions, and on a grid the hidden part of the reward and its errors."""
    if fit.reward.num_parameters > MOST_PARAMETERS or fit.mdp.num_states > MOST_PARAMETERS:
        return page
    found = fit.identification()
    page = page.heading("What the data cannot tell")
    for table in found.summary().tables:
        page = page.table(table)
    if grid is None or not isinstance(fit.reward, TabularReward) or fit.reward.over != "s":
        return page
    return draw_untold(page, fit, found, grid)


def draw_untold(page: Page, fit: TabularFit, found: Identification, grid: Grid) -> Page:
    """The reward of each cell, split into what the policy reveals and what it hides, with its standard errors."""
    estimate = flat(fit.reward.parameters)
    hidden = hidden_part(found, estimate)
    pictures = {"identified part of the reward": estimate - hidden, "part that no policy reveals": hidden}
    caption = "The learned reward, split into what the policy reveals and what it cannot."
    if dict(fit.settings).get("objective") == "likelihood" and fit.converged and fit.log_likelihood is not None:
        pictures["standard error of the identified part"] = identified_errors(fit)
        caption += " Standard errors are those of the identified part."
    figure, axes = _panels(grid, len(pictures))
    for ax, (title, values) in zip(axes, pictures.items(), strict=True):
        plots.grid_heatmap(figure, ax, grid.picture(plots.tame(values)), title=title, bar="", marks=grid.board)
    return drawn(page, figure, caption)


def _convergence(page: Page, fit: TabularFit) -> Page:
    if fit.method == "ApprenticeshipIRL":
        curves = ("distance to the demonstrator", "how much of it may still be saved")
        text = (
            f"How far the mixture was from the demonstrator, with each of {show(len(fit.history.loss))} policies found."
        )
        return draw_convergence(page, fit.history, curves=curves, text=text, from_lowest=False)
    return draw_convergence(page, fit.history) if fit.samples is None else _trace(page, fit.history)


def draw_convergence(
    page: Page,
    history: History,
    *,
    curves: tuple[str, str] = ("objective above its lowest", "largest gradient"),
    text: str = "",
    from_lowest: bool = True,
) -> Page:
    """What was minimised, step by step, on a scale of powers of ten."""
    loss, gradient = plots.tame(history.loss), plots.tame(history.gradient)
    if len(loss) < 2 or not np.isfinite(loss).any():
        return page
    text = text or f"What was minimised, and how steep it still was, over {show(len(loss) - 1)} steps."
    figure, axes = plots.blank(2)
    for ax, name, curve in zip(
        axes[0], curves, (loss - np.nanmin(loss) if from_lowest else loss, gradient), strict=True
    ):
        _steps(ax, curve, np.isfinite(curve) & (curve > 0), name, "step")
        ax.set_yscale("log")
    return drawn(page.heading("Convergence"), figure, text)


def _trace(page: Page, history: History) -> Page:
    figure, axes = plots.blank(2)
    curves = {"minus log posterior density": history.loss, "length of its gradient": history.gradient}
    for ax, (name, curve) in zip(axes[0], curves.items(), strict=True):
        _steps(ax, plots.tame(curve), np.isfinite(curve), name, "draw", thin=True)
    text = "The trace of the chains, mean over them: it should wander about one level from the first draw on."
    return drawn(page.heading("Sampling"), figure, text)


def _steps(ax: Any, curve: np.ndarray, shown: np.ndarray, name: str, unit: str, *, thin: bool = False) -> None:
    steps = np.flatnonzero(shown)
    few = {"marker": "o"} if len(steps) < 40 else {}
    ax.plot(steps, curve[steps], color=plots.COLOURS[0], linewidth=1 if thin else 2, clip_on=False, **few)
    ax.xaxis.get_major_locator().set_params(integer=True)
    ax.set_xlabel(unit)
    ax.set_ylabel(name)
    ax.set_xlim(0, len(curve) - 1)
