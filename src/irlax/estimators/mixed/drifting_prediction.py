"""Predictions under an estimated path of rewards: the likelihood of other demonstrations, and simulated episodes."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np

from irlax import checks
from irlax.demos import Demonstrations, rollout
from irlax.demos.demonstrations import from_rows
from irlax.estimators.mixed.drifting_fit import DriftingFit
from irlax.estimators.mixed.drifting_model import Drift
from irlax.estimators.mixed.drifting_periods import Periods, group_periods
from irlax.estimators.tabular.problem import Flattening
from irlax.mdp import MDP
from irlax.precision import scope
from irlax.rewards import AbstractReward
from irlax.typing import Array, Float, Int, PRNGKeyArray


def mean_log_likelihood(fit: DriftingFit, demos: Demonstrations, individual: Any, period: Any) -> float:
    """See `DriftingFit.score`."""
    if not isinstance(demos, Demonstrations):
        raise TypeError(f"`demos` must be Demonstrations, but is a {type(demos).__name__}.")
    demos.check(fit.mdp)
    path = _path_of_episodes(fit, demos, individual)
    periods = _period_of_rows(fit, demos, period)
    with scope():
        grouped = group_periods(fit.mdp, demos, path[demos.episode], periods, fit.clock)
        shown = np.minimum(np.arange(grouped.num_periods), fit.num_periods - 1)
        total = total_likelihood(fit.mdp, fit.reward, grouped, fit.paths[: grouped.num_paths][:, shown])
    return total / float(demos.choice_weights.sum())


def _path_of_episodes(fit: DriftingFit, demos: Demonstrations, individual: Any) -> Int[np.ndarray, " N"]:
    if fit.clock.shared:
        return np.zeros(demos.num_episodes, int)
    if len(fit.individuals) > 1 and individual is None and (fit.clock.over == "episodes" or demos.labels is None):
        raise ValueError(
            f"Each of {len(fit.individuals)} individuals has a path of its own: give `individual=`, the label of the "
            f"individual of each episode."
        )
    labels, person = fit.clock.individuals(demos, individual)
    known = {label: place for place, label in enumerate(fit.individuals.tolist())}
    unknown = [label for label in np.asarray(labels).tolist() if label not in known]
    if unknown:
        raise ValueError(
            f"Individuals {checks.some(unknown)} have no path in this fit, where each has its own. Score episodes of "
            f"the fitted individuals (`individual=`), or fit with `shared=True`."
        )
    return np.array([known[label] for label in np.asarray(labels).tolist()])[person]


def _period_of_rows(fit: DriftingFit, demos: Demonstrations, period: Any) -> Int[np.ndarray, " n"]:
    if fit.clock.over == "steps":
        if period is not None:
            raise ValueError("`period` is for fits over episodes; over steps it follows from the time of a choice.")
        return demos.times // fit.clock.every
    if period is None:
        return np.full(demos.num_steps, fit.num_periods - 1)
    period = checks.as_integers("period", period)
    checks.has_shape("period", period, (demos.num_episodes,), "a period for each episode")
    if (period < 0).any():
        raise ValueError(f"`period` must not be negative, but is {period.min()}.")
    return np.repeat(np.minimum(period, fit.num_periods - 1), demos.lengths)


def total_likelihood(mdp: MDP, reward: AbstractReward, periods: Periods, paths: Float[np.ndarray, "U B K"]) -> float:
    """Σ w log π of grouped choices under given parameters of each path and period."""
    size = paths.shape[-1]
    parts = (np.zeros(size), np.eye(size), np.ones(size), np.zeros((size, size)))
    drift = Drift(mdp, reward.fold(mdp), periods, Flattening.of(reward.parameters), *map(jnp.asarray, parts))
    return -float(_total_loss(drift, jnp.asarray(paths)))


@eqx.filter_jit
def _total_loss(drift: Drift, z: Float[Array, "U B K"]) -> Float[Array, ""]:
    periods = drift.periods
    first = jnp.broadcast_to(periods.first, z.shape[:2])
    cells = jax.tree.map(
        lambda array: array.reshape(-1, *array.shape[2:]), (z, periods.states, periods.actions, periods.weights, first)
    )
    return jax.lax.map(lambda cell: drift.loss(cell[0], cell[1:], None)[0], cells, batch_size=32).sum()


def simulate(fit: DriftingFit, num: int, *, key: PRNGKeyArray, path: int, length: int | None) -> Demonstrations:
    """See `DriftingFit.simulate`."""
    checks.count("num", num)
    if not 0 <= path < len(fit.paths):
        raise ValueError(f"`path` must lie in 0..{len(fit.paths) - 1}, but is {path}.")
    if fit.clock.over == "steps":
        if fit.mdp.terminal is not None:
            raise ValueError(
                "Episodes over steps are simulated for finite horizons and for discounts below 1, but this MDP has "
                "neither: fit with a horizon."
            )
        policy = _policy_over_steps(fit, path, length)
        # On an infinite horizon the policy changes with time all the same, so that the episode is made finite.
        mdp = fit.mdp if fit.mdp.horizon is not None else fit.mdp.replace(horizon=len(policy))
        return rollout(mdp, policy, num=num, key=key)
    parts = [
        rollout(fit.mdp, fit.plan_at(period, path), num=num, key=own_key, length=length)
        for period, own_key in enumerate(jr.split(key, fit.num_periods))
    ]
    return from_rows(
        np.concatenate([part.tabular_states for part in parts]),
        np.concatenate([part.actions for part in parts]),
        np.concatenate([part.lengths for part in parts]),
        next_states=np.concatenate([part.next_states for part in parts if part.next_states is not None]),
        terminated=np.concatenate([part.terminated for part in parts]),
    )


def _policy_over_steps(fit: DriftingFit, path: int, length: int | None) -> Float[np.ndarray, "L R A"]:
    """The policy at each step: that of its period."""
    every, horizon = fit.clock.every, fit.mdp.horizon
    if horizon is not None and length not in (None, horizon):
        raise ValueError(f"`length` is for infinite horizons; this MDP has a horizon of {horizon} steps.")
    steps = horizon if horizon is not None else length or fit.num_periods * every
    rows = []
    for first in range(0, checks.count("length", steps), every):
        policy = np.asarray(fit.plan_at(first // every, path).policy)
        here = min(every, steps - first)
        rows.append(np.repeat(policy[None], here, axis=0) if horizon is None else policy[first : first + here])
    return np.concatenate(rows)
