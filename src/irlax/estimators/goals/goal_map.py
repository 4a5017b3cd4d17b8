"""A fit with goals on a map: rewards and uses of the arcs or links of a network whose states have places."""

from typing import NamedTuple

import numpy as np

from irlax.demos import Demonstrations
from irlax.estimators.goals.demand import Demand
from irlax.estimators.goals.fitted_model import fitted_model
from irlax.estimators.goals.flows import uses_and_slopes
from irlax.estimators.goals.goal_fit import GoalFit
from irlax.mdp import MDP
from irlax.planning.goals.options import Options
from irlax.report.plots import clip_for_plot
from irlax.typing import Float, Int


class RewardMap(NamedTuple):
    """Segments on a map, with the reward and the uses of each."""

    segments: Float[np.ndarray, "n 4"]
    reward: Float[np.ndarray, " n"]
    uses: tuple[Float[np.ndarray, " n"], ...]
    #: "link" where states are links, and "arc" where they are points and actions lead from one to another.
    kind: str


class FitMap(NamedTuple):
    """Segments on a map, with what was learned and what was observed of each."""

    segments: Float[np.ndarray, "n 4"]
    reward: Float[np.ndarray, " n"]
    predicted: Float[np.ndarray, " n"]
    observed: Float[np.ndarray, " n"]
    #: "link" where states are links, and "arc" where they are points and actions lead from one to another.
    kind: str


def predicted_uses(fit: GoalFit) -> Float[np.ndarray, " J"]:
    """How often the model uses each option, by expectation: episodes with the starts, goals and weights of the data.

    Uses at time t count γᵗ.
    """
    demand = Demand.of_demos(fit.mdp, fit.demos).added_up()
    return uses_and_slopes(fitted_model(fit, None, None).at_estimates(), demand, with_slopes=False)[0]


def observed_uses(mdp: MDP, demos: Demonstrations) -> Float[np.ndarray, " J"]:
    """How often demonstrations use each option, by weight; uses at time t count γᵗ."""
    options = Options.of(mdp)
    option = options.of_cells(mdp, demos.tabular_states, np.asarray(demos.actions))
    weights = demos.choice_weights * options.discount**demos.times
    return np.bincount(option, weights=weights, minlength=len(options.state)).astype(np.float64)


def fit_map(fit: GoalFit) -> FitMap | None:
    """The map of a fit whose MDP has places; else None."""
    if fit.mdp.labels.places is None:
        return None
    rewards = fitted_model(fit, None, None).rewards
    found = reward_map(fit.mdp, rewards, (predicted_uses(fit), observed_uses(fit.mdp, fit.demos)))
    return None if found is None else FitMap(found.segments, found.reward, *found.uses, kind=found.kind)


def reward_map(
    mdp: MDP, rewards: Float[np.ndarray, " J"], uses: tuple[Float[np.ndarray, " J"], ...]
) -> RewardMap | None:
    """Rewards and uses of options on the map; None where states have no places."""
    places, options = mdp.labels.places, Options.of(mdp)
    if places is None:
        return None
    rewards, clipped = clip_for_plot(rewards), [clip_for_plot(values) for values in uses]
    links = np.flatnonzero((places[:, :2] != places[:, 2:]).any(axis=1))
    if len(links):
        amounts = tuple(np.bincount(options.state, values, mdp.num_states)[links] for values in clipped)
        return RewardMap(places[links], _of_entering(options, rewards)[links], amounts, "link")
    option, head, share = _moves(mdp, options)
    segments = np.concatenate([places[options.state[option], :2], places[head, :2]], axis=1)
    if not len(segments):
        return None
    return RewardMap(segments, rewards[option], tuple(share * values[option] for values in clipped), "arc")


def _of_entering(options: Options, rewards: Float[np.ndarray, " J"]) -> Float[np.ndarray, " S"]:
    """The highest reward of the options that lead into each state; NaN where none does."""
    ahead = options.transitions.tocoo()
    best = np.full(options.num_states, -np.inf)
    np.maximum.at(best, ahead.col, rewards[ahead.row])
    return np.where(np.isfinite(best), best, np.nan)


def _moves(mdp: MDP, options: Options) -> tuple[Int[np.ndarray, " n"], Int[np.ndarray, " n"], Float[np.ndarray, " n"]]:
    """Each option with each next state that is elsewhere, and its probability."""
    ahead = options.transitions.tocoo()
    places = mdp.labels.places
    assert places is not None
    away = (places[options.state[ahead.row]] != places[ahead.col]).any(axis=1)
    return ahead.row[away].astype(np.int64), ahead.col[away].astype(np.int64), ahead.data[away]
