"""Different rewards with the same policies: potential shaping and rescaling."""

from typing import Any, Literal

import jax.numpy as jnp
import numpy as np

from irlax import checks
from irlax.mdp import MDP
from irlax.planning import causal_entropy, hard_plan, soft_plan
from irlax.planning.plan import checked_reward
from irlax.precision import exact
from irlax.tables import Table
from irlax.typing import Array, Float

Scope = Literal["given", "all"]


@exact
def shape(mdp: MDP, reward: Any, potential: Any) -> Float[Array, "S A S"]:
    r"""$r(s,a,s') + \gamma\Phi(s') - \Phi(s)$, for a potential [S].

    Infinite horizon: the soft and the hard policy stay the same. Finite horizon: they do so only if the
    potential after the last step counts as zero, which no stationary reward can express (at the last step
    the shaping term would have to be −Φ(s) alone), so `shape` changes the policy near the end. Primer, 4.4.3.
    """
    potential = checks.as_floats("potential", potential)
    checks.has_shape("potential", potential, (mdp.num_states,), "(S,)")
    checks.finite("potential", potential)
    ahead = mdp.discount * jnp.asarray(potential)
    return by_transition(mdp, reward) + ahead[None, None, :] - jnp.asarray(potential)[:, None, None]


def by_transition(mdp: MDP, reward: Any) -> Float[Array, "S A S"]:
    """A reward over s, (s,a) or (s,a,s') as an array over all transitions."""
    mdp.require_one_row("A table over (s, a, s')")
    reward = checked_reward(mdp, reward)
    full = (mdp.num_states, mdp.num_actions, mdp.num_states)
    return jnp.broadcast_to(reward.reshape(reward.shape + (1,) * (3 - reward.ndim)), full)


def same_soft_policy(mdp: MDP, first: Any, second: Any, *, under: Scope = "given", tol: float = 1e-8) -> bool:
    """Whether two rewards induce the same soft-optimal policy: equal soft advantages in every state.

    `under` "given" asks about the dynamics of `mdp`; "all" about any dynamics over its states and actions,
    which holds if and only if the rewards differ by potential shaping on every transition. Primer, Def. 4.2.
    """
    checks.one_of("under", under, ("given", "all"))
    if under == "all":
        return bool(_shaping_residual(mdp, first, second, rescale=False) <= tol)
    apart = soft_plan(mdp, first).policy - soft_plan(mdp, second).policy
    return bool(np.abs(apart).max() <= tol)


def same_hard_policy(mdp: MDP, first: Any, second: Any, *, under: Scope = "given", tol: float = 1e-8) -> bool:
    """Whether two rewards have the same optimal actions in every state: equal arg max sets.

    `under` "all" holds if the rewards differ by potential shaping and a positive factor. Primer, Def. 4.1.
    """
    checks.one_of("under", under, ("given", "all"))
    if under == "all":
        return bool(_shaping_residual(mdp, first, second, rescale=True) <= tol)
    return bool(np.array_equal(_optimal_actions(mdp, first, tol), _optimal_actions(mdp, second, tol)))


def _optimal_actions(mdp: MDP, reward: Any, tol: float) -> np.ndarray:
    """What the best policy does, and what loses no more than `tol` of the most that any action loses."""
    plan = hard_plan(mdp, reward)
    lost = np.asarray(mdp.rows.repeat(plan.value.T)).T[..., None] - plan.q
    return (plan.policy > 0) | (lost <= tol * lost[np.isfinite(lost)].max())


@exact
def canonical(mdp: MDP, reward: Any, states: Any = None, actions: Any = None) -> Float[Array, "S A S"]:
    r"""The representative that all shapings of a reward share.

    $$C(r)(s,a,s') = r(s,a,s') + \mathbb{E}[\gamma r(s',A,S') - r(s,A,S') - \gamma r(S,A,S')]$$

    with S, S' ~ `states` [S] and A ~ `actions` [A], uniform unless given. Gleave et al. (2020), Def. 4.1.
    """
    over_states, over_actions = coverage(mdp, states, actions)
    table = by_transition(mdp, reward)
    mean = jnp.einsum("sax,a,x->s", table, over_actions, over_states)
    return table + mdp.discount * mean[None, None, :] - mean[:, None, None] - mdp.discount * (over_states @ mean)


def coverage(mdp: MDP, states: Any, actions: Any) -> tuple[Float[Array, " S"], Float[Array, " A"]]:
    """Distributions over states and actions, uniform unless given."""
    parts = []
    for name, given, size in (("states", states, mdp.num_states), ("actions", actions, mdp.num_actions)):
        probs = np.full(size, 1 / size) if given is None else checks.as_floats(name, given)
        checks.has_shape(name, probs, (size,), "one probability each")
        checks.distribution(name, probs)
        parts.append(jnp.asarray(probs))
    return parts[0], parts[1]


@exact
def _shaping_residual(mdp: MDP, first: Any, second: Any, rescale: bool) -> Float[Array, ""]:
    """How far the canonical rewards are apart, relative to their size (after the best positive factor)."""
    one, two = canonical(mdp, first), canonical(mdp, second)
    one, two = jnp.asarray(one), jnp.asarray(two)
    size = jnp.maximum(jnp.abs(one).max(), jnp.abs(two).max())
    factor = jnp.maximum((one * two).sum(), 0) / jnp.maximum((one * one).sum(), 1e-300) if rescale else 1.0
    # With a factor of zero, any reward would count as a copy of the zero reward.
    apart = jnp.where(jnp.asarray(factor) > 0, jnp.abs(factor * one - two).max(), jnp.maximum(size, jnp.abs(two).max()))
    return jnp.where(size > 0, apart / jnp.maximum(size, 1e-300), 0.0)


def rescaling(mdp: MDP, reward: Any, factors: Any = (0.25, 0.5, 1.0, 2.0, 4.0)) -> Table:
    """The soft policies of multiples of a reward: their causal entropy, and their distance from that of the reward.

    A soft policy has a temperature: unlike the optimal one it is not invariant to scale. Primer, Remark 4.1.
    """
    reward = checked_reward(mdp, reward)
    reference = soft_plan(mdp, reward).policy
    rows = []
    for factor in factors:
        plan = soft_plan(mdp, factor * reward)
        distance = 0.5 * np.abs(plan.policy - reference).sum(axis=-1).max()
        rows.append((f"{factor:g}", float(causal_entropy(mdp, plan)), float(distance)))
    return Table(("factor", "causal entropy", "largest total variation from factor 1"), rows, title="Rescaled reward")
