"""Distances between rewards that do not change with shaping and scale, and the regret of acting by one of them."""

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np

from irlax import checks
from irlax.analysis.shaping import by_transition, canonical
from irlax.mdp import MDP
from irlax.planning import expected_return, hard_plan, soft_plan
from irlax.planning.chain import Chain
from irlax.precision import exact
from irlax.typing import Array, Float


@exact
def epic_distance(
    mdp: MDP, first: Any, second: Any, *, transitions: Any = None, states: Any = None, actions: Any = None
) -> Float[Array, ""]:
    r"""EPIC: the Pearson distance $\sqrt{(1 - \rho)/2}$ between canonically shaped rewards, in [0, 1].

    Zero between shaped and positively rescaled copies. Rewards may be over s, (s,a) or (s,a,s') and are
    never averaged over next states. `transitions` [S,A,S'] is the coverage over which the correlation is
    taken, uniform unless given; `states` [S] and `actions` [A] are the distributions of the canonical
    shaping. The dynamics play no part. Gleave et al. (2020), Definitions 4.1 and 4.2.
    """
    weight = _coverage(mdp, transitions)
    one, two = (jnp.asarray(canonical(mdp, reward, states, actions)) for reward in (first, second))
    return pearson_distance(one, two, weight)


@exact
def pearson_distance(
    first: Float[Array, "*shape"], second: Float[Array, "*shape"], weight: Float[Array, "*shape"]
) -> Float[Array, ""]:
    r"""$\sqrt{(1 - \rho)/2}$ under a distribution; a constant is at distance 1/√2 from all but a constant."""
    weight = weight / weight.sum()
    one, two = first - (weight * first).sum(), second - (weight * second).sum()
    spread_one, spread_two = (weight * one**2).sum(), (weight * two**2).sum()
    # Rounding leaves a constant with a spread near 1e-32 of its square; that is no spread.
    flat_one = spread_one <= 1e-24 * jnp.maximum((weight * first**2).sum(), 1e-300)
    flat_two = spread_two <= 1e-24 * jnp.maximum((weight * second**2).sum(), 1e-300)
    # ½(1 − ρ) as a squared difference of unit vectors: exact where 1 − ρ would cancel.
    unit_one = one / jnp.sqrt(jnp.where(flat_one, 1.0, spread_one))
    unit_two = two / jnp.sqrt(jnp.where(flat_two, 1.0, spread_two))
    apart = 0.5 * jnp.sqrt((weight * (unit_one - unit_two) ** 2).sum())
    both, either = flat_one & flat_two, flat_one | flat_two
    return jnp.where(both, 0.0, jnp.where(either, jnp.sqrt(0.5), jnp.minimum(apart, 1.0)))


@exact
def starc_distance(mdp: MDP, first: Any, second: Any) -> Float[Array, ""]:
    r"""STARC: half the L2 distance between rewards made canonical for these dynamics and normalised.

    Canonical is $r(s,a,s') - V^\pi(s) + \gamma V^\pi(s')$ with V the value of the uniform policy (value-adjusted
    levelling), taken in expectation over s'. Unlike EPIC it depends on the dynamics. Skalse et al. (2024).
    """
    one, two = (_levelled(mdp, reward) for reward in (first, second))
    norms = [jnp.linalg.norm(levelled) for levelled in (one, two)]
    units = [levelled / jnp.where(norm > 1e-12, norm, 1.0) for levelled, norm in zip((one, two), norms, strict=True)]
    return 0.5 * jnp.linalg.norm(units[0] - units[1])


def _levelled(mdp: MDP, reward: Any) -> Float[Array, "A S"]:
    if mdp.horizon is not None or mdp.terminal is not None:
        raise ValueError(
            "STARC is defined for discounted problems with an infinite horizon: `mdp.replace(horizon=None)`."
        )
    expected = mdp.dynamics.mean(mdp.align(by_transition(mdp, reward)))
    available = jnp.asarray(mdp.available).T
    uniform = available / available.sum(axis=0)
    value = Chain(uniform, mdp.dynamics, mdp.discount).solve_values((uniform * expected).sum(axis=0))
    return jnp.where(available, expected + mdp.discount * mdp.dynamics.backward(value) - value, 0)


def regret(mdp: MDP, reward: Any, true_reward: Any, *, soft: bool = False) -> float:
    """What is lost in true expected return by following `reward`'s policy instead of the best one.

    `mdp` may be another one than the reward was learned in: that tests transfer. With `soft` the
    reward's soft-optimal policy acts, else its optimal one.
    """
    acting = soft_plan(mdp, reward) if soft else hard_plan(mdp, reward)
    best = expected_return(mdp, hard_plan(mdp, true_reward), true_reward)
    return float(best - expected_return(mdp, acting, true_reward))


def epic_distance_of_samples(
    first: Callable[..., Any],
    second: Callable[..., Any],
    *,
    transitions: tuple[np.ndarray, np.ndarray, np.ndarray],
    states: np.ndarray,
    actions: np.ndarray,
    discount: float,
) -> float:
    r"""EPIC from samples, for rewards that are functions of batches (s, a, s') ↦ [n].

    The correlation is taken over `transitions`, a batch from the coverage distribution; the expectations of
    the canonical shaping over all pairs of the sampled `states` and `actions`. Gleave et al. (2020), A.1.
    """
    checks.discount(discount)
    weight = np.ones(len(transitions[1]))
    one, two = (_canonical_of_samples(reward, transitions, states, actions, discount) for reward in (first, second))
    return float(pearson_distance(one, two, weight))


def _canonical_of_samples(
    reward: Callable[..., Any],
    transitions: tuple[np.ndarray, np.ndarray, np.ndarray],
    states: np.ndarray,
    actions: np.ndarray,
    discount: float,
) -> Float[np.ndarray, " n"]:
    num = min(len(states), len(actions))

    def mean_from(origin: np.ndarray) -> np.ndarray:
        """E[r(origin, A, S')] for each origin, over pairs of drawn actions and states."""
        repeated = np.repeat(origin, num, axis=0)
        drawn = np.concatenate([actions[:num]] * len(origin))
        reached = np.concatenate([states[:num]] * len(origin))
        return np.asarray(reward(repeated, drawn, reached), float).reshape(len(origin), num).mean(axis=1)

    before, taken, after = transitions
    plain = np.asarray(reward(before, taken, after), float)
    return plain + discount * mean_from(after) - mean_from(before) - discount * mean_from(states).mean()


def _coverage(mdp: MDP, transitions: Any) -> Float[Array, "S A S"]:
    full = (mdp.num_states, mdp.num_actions, mdp.num_states)
    if transitions is None:
        return jnp.full(full, 1 / np.prod(full))
    weight = checks.as_floats("transitions", transitions)
    checks.has_shape("transitions", weight, full, "(S, A, S')")
    checks.distribution("transitions", weight.ravel(), advice="Divide it by the sum of all its entries first.")
    return jnp.asarray(weight)
