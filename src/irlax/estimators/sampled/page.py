"""The report on a dynamics-free fit: how it learned, what it learned, and what its policy earns."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np

from irlax.demos import Demonstrations
from irlax.estimators.sampled.curves import learning_figure
from irlax.estimators.sampled.sampled_fit import AbstractSampledFit, SampledFit
from irlax.estimators.tabular.drawings import drawn
from irlax.report import plots
from irlax.report.html import Page
from irlax.tables import pairs, show
from irlax.typing import Float

#: Cells on a side of the map of a reward, and actions that are drawn in each to average over.
CELLS, ACTIONS = 60, 32
#: At most this many demonstrations are drawn.
SHOWN = 5


def sampled_page(fit: AbstractSampledFit) -> Page:
    """The report on a dynamics-free fit as one page."""
    lead = f"Learned from {show(fit.num_episodes)} demonstrations, {show(fit.num_choices)} choices, "
    lead += f"by acting in {fit.environment}, whose dynamics were not known."
    page = Page(f"{fit.method}: {'a reward' if isinstance(fit, SampledFit) else 'a policy'} from demonstrations", lead)
    if not fit.converged:
        page = page.text(f"This fit {fit.status.value}. What is shown below is its last iterate.", alert=True)
    for section in SECTIONS:
        page = section(page, fit)
    return page


def summary_section(page: Page, fit: AbstractSampledFit) -> Page:
    """The facts of the summary, without the settings: a long list would keep the pictures from the reader."""
    facts, settings = fit.summary().tables[0], set(fit.settings)
    return page.table(pairs("", [row for row in facts.rows if row not in settings]))


def learning_section(page: Page, fit: AbstractSampledFit) -> Page:
    """How the fit went, round by round."""
    return _curves(page.heading("How it learned"), fit).table(fit.summary().tables[1])


def returns_section(page: Page, fit: AbstractSampledFit) -> Page:
    """What the policy earns, by the environment's own reward."""
    return draw_returns(page.heading("What the policy earns"), fit)


def reward_section(page: Page, fit: AbstractSampledFit) -> Page:
    """The learned reward, if there is one."""
    return draw_learned(page.heading("What was learned to be good"), fit) if isinstance(fit, SampledFit) else page


def settings_section(page: Page, fit: AbstractSampledFit) -> Page:
    """The estimator's settings."""
    return page.heading("Settings").table(pairs("", fit.settings))


#: The page from top to bottom. A section is a function of the page so far and the fit.
SECTIONS: tuple[Callable[[Page, AbstractSampledFit], Page], ...] = (
    summary_section,
    learning_section,
    returns_section,
    reward_section,
    settings_section,
)


def _curves(page: Page, fit: AbstractSampledFit) -> Page:
    text = "Round by round, over steps taken in the environment."
    if "return" in fit.history:
        text += " The true return is for display: nothing was learned from it. Dotted: what the demonstrations earned."
    if "gap" in fit.history:
        text += " Where expert and policy earn the same learned reward, the gap is 0."
    if not np.ptp(fit.history["steps"]):
        text = "Over gradient steps; none were taken in the environment."
    return drawn(page, learning_figure(fit.history, fit.demonstrated_return), text)


def draw_returns(page: Page, fit: AbstractSampledFit) -> Page:
    """The true returns of the final policy beside the demonstrations'."""
    returns = {"policy": (fit.returns, np.ones(len(fit.returns)))}
    if fit.demos.rewards is not None:
        returns["demonstrations"] = fit.demos.returns, fit.demos.weights
    figure, axes = plots.blank(height=2.6)
    ax = axes[0, 0]
    low, high = (float(end) for end in _span(np.concatenate([values for values, _ in returns.values()])))
    bins = np.linspace(low, high, 31)
    for colour, (name, (values, weights)) in zip(plots.COLOURS, returns.items(), strict=False):
        share = weights / weights.sum()
        ax.hist(np.clip(values, low, high), bins=bins.tolist(), weights=share, color=colour, alpha=0.6, label=name)
        ax.axvline(share @ values, color=colour, linestyle=":", linewidth=2)
    ax.set_xlabel("true return of an episode")
    ax.set_ylabel("share of episodes")
    ax.legend(frameon=False, fontsize=9)
    text = f"Returns of {show(len(fit.returns))} episodes in which the final policy acted once more"
    text += ", beside the demonstrations'" if len(returns) > 1 else ""
    return drawn(page, figure, f"{text}. Dotted lines are means.")


def draw_learned(page: Page, fit: SampledFit) -> Page:
    """The learned reward: on a plane if observations are points of one, else along demonstrations."""
    observations = fit.demos.observations
    assert observations is not None
    plane = observations.shape[1] == 2 and fit.reward is not None and fit.reward.over in ("s", "sa")
    return _on_plane(page, fit, observations) if plane else _along(page, fit)


def _on_plane(page: Page, fit: SampledFit, observations: Float[np.ndarray, "n 2"]) -> Page:
    """A picture over both coordinates, with demonstrations drawn into it."""
    (left, right), (bottom, top) = (_span(column) for column in observations.T)
    across, up = np.meshgrid(np.linspace(left, right, CELLS), np.linspace(bottom, top, CELLS))
    points = np.stack([across.ravel(), up.ravel()], axis=1)
    values = mean_reward(fit, points).reshape(CELLS, CELLS)
    figure, axes = plots.blank(width=6.5, height=4.6)
    ax = axes[0, 0]
    plots.plane(figure, ax, plots.tame(values), extent=(left, right, bottom, top), bar="learned reward")
    for k in range(min(SHOWN, fit.num_episodes)):
        walked = fit.demos.select([k]).observations
        assert walked is not None
        ax.plot(*walked.T, color="black", linewidth=0.8)
        ax.plot(*walked[0], "o", color="black", markersize=4)
    ax.set_xlabel("first coordinate of the observation")
    ax.set_ylabel("second coordinate")
    mean = "" if fit.reward is not None and fit.reward.over == "s" else ", on average over the policy's actions"
    shown = f"The lines are {show(min(SHOWN, fit.num_episodes))} demonstrations, which begin at the dots."
    return drawn(page, figure, f"The learned reward of each place{mean}, without its potential if it has one. {shown}")


def mean_reward(fit: SampledFit, points: Float[np.ndarray, "n obs"]) -> Float[np.ndarray, " n"]:
    """E[r(s, A)] over the final policy's actions, for rewards that do not look at what follows."""
    reward, policy = fit.reward, fit.policy
    assert reward is not None

    def at(point: Any, key: Any) -> Any:
        actions = jax.vmap(lambda key: policy(point, key=key))(jr.split(key, ACTIONS))
        return jax.vmap(lambda action: reward(point, action, point))(actions).mean()

    with jax.enable_x64(False):
        seen = jnp.asarray(points, jnp.float32)
        return np.asarray(jax.vmap(at)(seen, jr.split(jr.key(0), len(points))), np.float64)


def rewards_along(reward: Any, demos: Demonstrations) -> Float[np.ndarray, " n"]:
    """What a reward of observations pays for each demonstrated step."""
    with jax.enable_x64(False):
        actions = demos.actions.astype(np.int32 if demos.actions.dtype.kind in "iu" else np.float32)
        seen = [jnp.asarray(array, jnp.float32) for array in (demos.observations, demos.next_observations)]
        return np.asarray(jax.vmap(reward)(seen[0], jnp.asarray(actions), seen[1]), np.float64)


def _along(page: Page, fit: SampledFit) -> Page:
    """The learned reward over time along a few demonstrations, and the true one where it is known."""
    demos = fit.demos.select(range(min(SHOWN, fit.num_episodes)))
    curves = {"learned reward": rewards_along(fit.reward, demos)}
    if demos.rewards is not None:
        curves["true reward"] = demos.rewards
    figure, axes = plots.blank(len(curves))
    for ax, (name, values) in zip(axes[0], curves.items(), strict=True):
        for k, (start, end) in enumerate(zip(demos.offsets[:-1], demos.offsets[1:], strict=True)):
            colour = plots.COLOURS[k % len(plots.COLOURS)]
            ax.plot(demos.times[start:end], plots.tame(values[start:end]), color=colour, linewidth=1)
        ax.set_xlabel("step of the episode")
        ax.set_ylabel(name)
    text = f"What each step pays along {show(demos.num_episodes)} demonstrations, a colour for each."
    text += " The two scales are not the same: a reward is learned up to what does not change behaviour."
    return drawn(page, figure, text if len(curves) > 1 else text.partition(" The two")[0])


def _span(values: np.ndarray) -> tuple[float, float]:
    """From the lowest to the highest, and a little beyond."""
    low, high = float(plots.tame(values).min()), float(plots.tame(values).max())
    margin = 0.05 * (high - low) or 0.5
    return low - margin, high + margin
