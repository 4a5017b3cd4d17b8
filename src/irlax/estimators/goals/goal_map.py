"""A fit with goals on a map: rewards and uses of the arcs or links of a network whose states have places."""

from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from irlax.estimators.goals.goal_fit import GoalFit
from irlax.mdp import MDP
from irlax.planning.goals.options import Options
from irlax.report.plots import clip_for_plot
from irlax.rewards.reward import flat
from irlax.typing import Float, Int


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
    objective, trips = fit.objective, fit.objective.trips
    shape = (fit.mdp.num_states, len(trips.goals))
    starts = sp.csc_array(sp.coo_array((trips.start_weight, (trips.start, trips.start_goal)), shape))
    uses = np.zeros(len(objective.planner.options.state))
    for members, block in objective.blocks(flat(fit.reward.parameters)):
        uses += block.flow(starts[:, members].toarray())
    return uses


def observed_uses(fit: GoalFit) -> Float[np.ndarray, " J"]:
    """How often the demonstrations use each option, by weight; uses at time t count γᵗ."""
    trips, options = fit.objective.trips, fit.objective.planner.options
    return np.bincount(
        trips.option, weights=trips.weight * options.discount**trips.time, minlength=len(options.state)
    ).astype(np.float64)


def fit_map(fit: GoalFit) -> FitMap | None:
    """The map of a fit whose MDP has places; else None."""
    places = fit.mdp.labels.places
    if places is None:
        return None
    options = fit.objective.planner.options
    rewards, _ = fit.objective.reward(flat(fit.reward.parameters))
    rewards, predicted, observed = (
        clip_for_plot(values) for values in (rewards, predicted_uses(fit), observed_uses(fit))
    )
    links = np.flatnonzero((places[:, :2] != places[:, 2:]).any(axis=1))
    if len(links):
        amounts = (np.bincount(options.state, values, fit.mdp.num_states)[links] for values in (predicted, observed))
        return FitMap(places[links], _of_entering(options, rewards)[links], *amounts, kind="link")
    option, head, share = _moves(fit.mdp, options)
    segments = np.concatenate([places[options.state[option], :2], places[head, :2]], axis=1)
    if not len(segments):
        return None
    return FitMap(segments, rewards[option], share * predicted[option], share * observed[option], kind="arc")


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
