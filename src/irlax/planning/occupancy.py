"""Where a policy goes, and what follows from it linearly: return and feature expectations."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from irlax import checks
from irlax.mdp import MDP
from irlax.mdp.unrolled import joined, split, unrolled_map
from irlax.planning.chain import Chain
from irlax.planning.improper import improper_as_terminal
from irlax.planning.plan import (
    Plan,
    action_major_policy,
    checked_reward,
    folded,
    small_log_policies,
    values_in_segment,
)
from irlax.planning.small import SmallMDP
from irlax.precision import exact, is_traced, staged
from irlax.typing import Array, Float

_OVER_ACTIONS = "Divide it by its sum over the actions of each state first."


@exact
def occupancy(mdp: MDP, policy: Any) -> Float[Array, "*T R A"]:
    r"""Discounted state–action occupancy: d_t(s,a) = γᵗ P(S_t = s, A_t = a), or Σ_t d_t if T is infinite.

    `policy` is π[T,S,A], π[S,A] (the same at all times) or a plan. That may have been made for other transitions,
    another start or another discount; it is followed in this `mdp`, if it takes no action that does not exist here.
    In an undiscounted problem without a horizon visits to terminal states are not counted.
    """
    mdp, policy = prepared(mdp, policy)
    by_time = _small_occupancy(mdp, policy)
    if by_time is None:
        return _by_state(mdp, policy)
    return np.swapaxes(by_time[0] if mdp.horizon is None else by_time, -1, -2)


def _small_occupancy(mdp: MDP, policy: Any) -> Float[np.ndarray, "T A S"] | None:
    """The occupancy in a small MDP, computed on the host; its sum over time, with T = 1, on an endless horizon."""
    small = None if is_traced(mdp, policy) or staged() else SmallMDP.of(mdp)
    if small is None:
        return None
    if isinstance(policy, Plan):
        log_policies = small_log_policies(policy)
        return None if log_policies is None else small.occupancy(np.exp(log_policies))
    policies = np.asarray(policy)
    return small.occupancy(policies[None] if mdp.horizon is None else policies)


@jax.jit
def _by_state(mdp: MDP, policy: Any) -> Float[Array, "*T R A"]:
    # Transposed in here: by itself, on its first use, a transposition takes as long to compile as all the rest.
    return occupancy_of(mdp, policy).swapaxes(-1, -2)


def occupancy_of(mdp: MDP, policy: Any) -> Float[Array, "*T A R"]:
    """`occupancy`, action-major, of a plan or of a policy [T,A,S] or [A,S] that was checked."""
    return _stationary_occupancy(mdp, policy) if mdp.horizon is None else _occupancy(mdp, policy)


@exact
def visits(mdp: MDP, policy: Any) -> Float[Array, "R A"]:
    r"""The occupancy summed over time, Σ_t γᵗ P(S_t = s, A_t = a), without an array over T·S·A."""
    return visits_of(*prepared(mdp, policy)).T


def visits_of(mdp: MDP, policy: Any) -> Float[Array, "A R"]:
    """`visits`, action-major, of a plan or of a policy [T,A,S] or [A,S] that was checked."""
    by_time = _small_occupancy(mdp, policy)
    if by_time is not None:
        return by_time.sum(axis=0)
    return _stationary_occupancy(mdp, policy) if mdp.horizon is None else _visits(mdp, policy)


def row_visits_of(mdp: MDP, policy: Any) -> Float[Array, " R"]:
    """`visits_of`, summed over the actions in a row."""
    # A plan's policies are computed in the same loop. If their visits were not added up one by one, XLA would not store
    # them, but compute each anew for every next state.
    if mdp.horizon is None or isinstance(policy, Plan) or not mdp.rows.one_per_state:
        return visits_of(mdp, policy).sum(axis=0)
    return _state_visits(mdp, policy)


@exact
def expected_return(mdp: MDP, policy: Any, reward: Any) -> Float[Array, ""]:
    r"""$G(\pi) = \mathbb{E}_\pi[\sum_t \gamma^t r(S_t, A_t, S_{t+1})]$, for a policy or a plan."""
    reward = folded(mdp, reward)
    return (visits_of(*prepared(mdp, policy, reward)) * reward).sum()


@exact
def feature_expectations(mdp: MDP, policy: Any, features: Any) -> Float[Array, " K"]:
    r"""$\mathbb{E}_\pi[\sum_t \gamma^t \phi]$, for features [S,K], [S,A,K] or [S,A,S',K]."""
    features = checks.as_floats("features", features)
    if not 2 <= jnp.ndim(features) <= 4:
        raise ValueError(
            f"`features` must have shape (S, K), (S, A, K) or (S, A, S', K), but has {jnp.shape(features)}."
        )
    checked_reward(mdp, features[..., 0])
    mass = visits_of(*prepared(mdp, policy))
    by_feature = jnp.moveaxis(jnp.asarray(features), -1, 0)
    return jax.vmap(lambda feature: (mass * folded(mdp, feature)).sum())(by_feature)


@jax.jit
def _occupancy(mdp: MDP, policy: Any) -> Float[Array, "T A R"]:
    def step(mass, now):
        joint = _joint(mdp, mass, now)
        return mdp.discount * mdp.dynamics.forward(joint), joint

    return _forward_in_time(policy, step, jnp.asarray(mdp.initial))[1]


@jax.jit
def _visits(mdp: MDP, policy: Any) -> Float[Array, "A R"]:
    def step(carry, now):
        mass, total = carry
        joint = _joint(mdp, mass, now)
        return (mdp.discount * mdp.dynamics.forward(joint), tuple(map(jnp.add, total, split(joint)))), None

    initial = jnp.asarray(mdp.initial)
    nothing = split(jnp.zeros(mdp.table_shape[::-1], initial.dtype))
    return joined(_forward_in_time(policy, step, (initial, nothing))[0][1])


@jax.jit
def _state_visits(mdp: MDP, policy: Float[Array, "T A R"]) -> Float[Array, " S"]:
    def step(carry, now):
        mass, total = carry
        joint = _joint(mdp, mass, now)
        return (mdp.discount * mdp.dynamics.forward(joint), total + mass), None

    initial = jnp.asarray(mdp.initial)
    return jax.lax.scan(step, (initial, jnp.zeros_like(initial)), policy)[0][1]


@jax.jit
def _stationary_occupancy(mdp: MDP, policy: Any) -> Float[Array, "A R"]:
    now = action_major_policy(policy.backup, policy.value) if isinstance(policy, Plan) else policy
    chain = Chain(now, mdp.dynamics, mdp.discount, mdp.terminal, mdp.rows)
    return chain.occupancy(jnp.asarray(mdp.initial))


def _joint(mdp: MDP, mass: Float[Array, " S"], policy: Float[Array, "A R"]) -> Float[Array, "A R"]:
    mass = mdp.rows.repeat(mass)
    return unrolled_map(lambda probability: mass * probability, policy)


def _forward_in_time(policy: Any, step: Callable[[Any, Any], tuple[Any, Any]], carry: Any) -> tuple[Any, Any]:
    """`lax.scan` of a step that sees π_t [A, S] at each time."""
    if not isinstance(policy, Plan):
        return jax.lax.scan(step, carry, policy)
    backup, kept, stride = policy.backup, jnp.asarray(policy.kept), policy.stride

    def value_at(index):
        """What is kept, and zero after it: looked up by index, because a shifted copy would double the memory."""
        return jnp.where(index < len(kept), kept[jnp.minimum(index, len(kept) - 1)], 0)

    def at_time(carry, values):
        value, next_value = values
        return step(carry, backup.policy(backup.q(next_value), value))

    def each_time(carry, t):
        return at_time(carry, (kept[t], value_at(t + 1)))

    def each_segment(carry, k):
        end = value_at(k + 1)
        values = values_in_segment(backup, k * stride, stride, end)
        following = jnp.concatenate([values[1:], end[None]])
        return jax.lax.scan(at_time, carry, (values, following))

    if stride == 1:
        return jax.lax.scan(each_time, carry, jnp.arange(len(kept)))
    assert policy.mdp.horizon is not None
    whole, rest = divmod(policy.mdp.horizon, stride)
    carry, outputs = jax.lax.scan(each_segment, carry, jnp.arange(whole))
    outputs = jax.tree.map(lambda array: array.reshape(-1, *array.shape[2:]), outputs)
    if not rest:
        return carry, outputs
    # The last segment is shorter: no step may be taken after the last decision.
    values = values_in_segment(backup, jnp.asarray(whole * stride), rest, jnp.zeros_like(kept[0]))
    following = jnp.concatenate([values[1:], jnp.zeros_like(values[:1])])
    carry, last = jax.lax.scan(at_time, carry, (values, following))
    return carry, jax.tree.map(lambda *parts: jnp.concatenate(parts), outputs, last)


def prepared(mdp: MDP, policy: Any, reward: Float[Array, "A R"] | None = None) -> tuple[MDP, Any]:
    """The MDP, and a plan that fits it or a checked policy as [T, A, S] (finite) or [A, S] (infinite).

    At γ = 1 with no horizon the policy must reach the end; if only the return of `reward` is wanted, it may stay for
    ever where that is zero. In the MDP that is returned, states from which it never ends are terminal.
    """
    if isinstance(policy, Plan):
        refuse_other_problem(mdp, policy)
    else:
        policy = mdp.as_narrow(jnp.asarray(checked_policy(mdp, policy))).swapaxes(-1, -2)
    return improper_as_terminal(mdp, policy, reward), policy


def refuse_other_problem(mdp: MDP, plan: Plan) -> None:
    """A ValueError for a plan that cannot be followed in this MDP: of another shape, horizon, or set of actions."""
    made_for = plan.mdp
    if made_for.horizon != mdp.horizon:
        raise ValueError(
            f"The plan was made for horizon {made_for.horizon}, but the MDP has {mdp.horizon}. "
            f"Plan again, or pass one of its policies as an array."
        )
    if (made_for.num_states, made_for.table_shape) != (mdp.num_states, mdp.table_shape):
        raise ValueError(
            f"The plan was made for an MDP with {made_for.num_states} states and tables of shape "
            f"{made_for.table_shape}, but this one has {mdp.num_states} and {mdp.table_shape}. Plan in this MDP."
        )
    _refuse_other_rows(mdp, made_for)
    _refuse_missing_actions(mdp, plan)


def _refuse_other_rows(mdp: MDP, made_for: MDP) -> None:
    if mdp.rows.one_per_state or is_traced(mdp, made_for):
        return
    counts, made_for_counts = mdp.num_available, made_for.num_available
    differ = counts != made_for_counts
    if differ.any():
        raise ValueError(
            f"The plan was made for an MDP in which states {checks.places(differ)} have "
            f"{checks.some(made_for_counts[differ])} actions, but here they have {checks.some(counts[differ])}, and "
            f"stand elsewhere in tables. Plan in this MDP."
        )


def _refuse_missing_actions(mdp: MDP, plan: Plan) -> None:
    # Nearly always there is nothing to find, and no policy has to be computed to know it.
    if mdp.mask is None or mdp.mask is plan.mdp.mask or is_traced(mdp, plan):
        return
    missing = np.asarray(plan.mdp.available) & ~np.asarray(mdp.available)
    if not missing.any():
        return
    used = missing & (np.asarray(_ever_chosen(plan)) > 0)
    if used.any():
        raise ValueError(
            f"The plan was made for another MDP, and puts probability on actions that do not exist in this one, at "
            f"(state, action) {checks.places(used)}. Plan in this MDP, or pass a policy array without them."
        )


@jax.jit
def _ever_chosen(plan: Plan) -> Float[Array, "R A"]:
    """The largest probability that a plan ever gives to each action."""
    if plan.mdp.horizon is None:
        return action_major_policy(plan.backup, jnp.asarray(plan.value)).T

    def larger(most, now):
        return jnp.maximum(most, now), None

    nothing = jnp.zeros(plan.mdp.table_shape[::-1], plan.kept.dtype)
    return _forward_in_time(plan, larger, nothing)[0].T


def checked_policy(mdp: MDP, policy: Any) -> Float[Array, "*T R A"]:
    """π as [T,S,A] (finite) or [S,A] (infinite): probabilities, and none on actions that do not exist."""
    shape = mdp.table_shape
    lead = () if mdp.horizon is None else (mdp.horizon,)
    if jnp.shape(policy) not in (shape, (*lead, *shape)):
        also = "" if not lead else f" or (S, A) = {shape}"
        meaning = "(S, A)" if not lead else "(T, S, A)"
        raise ValueError(
            f"`policy` must have shape {meaning} = {(*lead, *shape)}{also}, but has {tuple(jnp.shape(policy))}."
        )
    policy = _checked_probabilities(mdp, policy)
    if mdp.mask is not None and not is_traced(policy, mdp):
        impossible = (policy > 0) & ~np.asarray(mdp.available)
        if impossible.any():
            raise ValueError(f"`policy` puts probability on actions that do not exist, at {checks.places(impossible)}.")
    spread = jnp.broadcast_to if is_traced(policy) else np.broadcast_to
    return spread(policy, (*lead, *shape))


def _checked_probabilities(mdp: MDP, policy: Any) -> Float[Array, "*T R A"]:
    if mdp.rows.one_per_state or is_traced(policy, mdp):
        return checks.probabilities("policy", policy, advice=_OVER_ACTIONS)
    policy = checks.as_floats("policy", policy)
    by_row = policy.sum(axis=-1).reshape(-1, mdp.table_shape[0])
    totals = np.stack([np.asarray(mdp.rows.repeat(mdp.rows.sum(row))) for row in by_row])
    # What a row lacks is what the other rows of its state hold.
    elsewhere = np.maximum(totals - by_row, 0).reshape(*policy.shape[:-1], 1)
    checks.distribution("policy", np.concatenate([policy, elsewhere], axis=-1), advice=_OVER_ACTIONS)
    return policy
