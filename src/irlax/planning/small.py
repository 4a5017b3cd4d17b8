r"""Soft planning in small MDPs on the host: in NumPy, so that nothing is compiled.

A program for a problem of a dozen states takes a second to compile and a millisecond to run; here an evaluation takes
a millisecond at once. The arithmetic is that of `backup`, `fixed_point` and `occupancy`, over one dense array, with
the same certificate:

$$\partial V = (I - \gamma P_\pi)^{-1} \textstyle\sum_a \pi_a\,\phi_a, \qquad
  \partial^2 V = (I - \gamma P_\pi)^{-1}\,\mathrm{Cov}_\pi(\phi + \gamma P\,\partial V)$$

for a reward that is linear in its parameters, with features φ. On a finite horizon the inverse is a recursion.
"""

from typing import NamedTuple

import jax
import numpy as np

from irlax.mdp import MDP, AbstractDynamics
from irlax.planning.backup import AbstractBackup, SoftBackup
from irlax.precision import is_traced, staged
from irlax.typing import Bool, Float

#: A problem is small if its dense transitions have at most this many numbers (2 MB), and one pass over all periods
#: multiplies at most that many.
MAX_TRANSITIONS, MAX_PASS = 250_000, 20_000_000
#: Newton takes about ten steps, near criticality at γ = 1 up to fifty, and about as many on grids of 10⁵ states at
#: γ = .9999, where it is policy iteration over long distances.
MAX_NEWTON_STEPS = 300
#: A backup's rounding error, in units of machine epsilon times the largest value.
ROUNDING = 8.0


class SmallMDP(NamedTuple):
    """An MDP as NumPy arrays. Tables over states and actions are action-major, as in `mdp.dynamics`."""

    #: P(s' | s, a).
    transitions: Float[np.ndarray, "A S S"]
    initial: Float[np.ndarray, " S"]
    discount: float
    #: None if every action exists everywhere.
    available: Bool[np.ndarray, "A S"] | None
    horizon: int | None

    @classmethod
    def of(cls, mdp: MDP) -> "SmallMDP | None":
        """The MDP in this form; None if it is large, undiscounted and endless, narrow, or spread over devices."""
        if mdp.terminal is not None or mdp.ends_at_goal or not mdp.rows.one_per_state or is_traced(mdp):
            return None
        size = mdp.num_actions * mdp.num_states**2
        if size > MAX_TRANSITIONS or size * (mdp.horizon or 1) > MAX_PASS or mdp.initial.dtype != np.float64:
            return None
        if any(isinstance(leaf, jax.Array) and len(leaf.devices()) > 1 for leaf in jax.tree.leaves(mdp)):
            return None
        available = None if mdp.mask is None else np.asarray(mdp.mask)
        transitions = dense_transitions(mdp.dynamics)
        return cls(transitions, np.asarray(mdp.initial), float(mdp.discount), available, mdp.horizon)

    @property
    def periods(self) -> int:
        """The number of rows of policies and visits over time: T, or 1 where the policy is the same at all times."""
        return 1 if self.horizon is None else self.horizon

    def plan(
        self, reward: Float[np.ndarray, "A1 S"], guess: Float[np.ndarray, " S"] | None = None, tol: float = 1e-10
    ) -> "SmallPlan":
        """The soft plan, from a guess of the values on an endless horizon; infinite values where rewards overflow."""
        with np.errstate(all="ignore"):
            if self.horizon is None:
                value, bound, steps = _fixed_point(self, reward, np.zeros(1) if guess is None else guess, tol)
                return SmallPlan(self, value[None], self.log_policy(reward, value)[None], bound, steps)
            values, log_policies = np.zeros((self.horizon + 1, len(self.initial))), []
            for t in reversed(range(self.horizon)):
                q = self.q(reward, values[t + 1])
                values[t] = log_sum_exp(q)
                log_policies.append(q - values[t])
            return SmallPlan(self, values, np.array(log_policies[::-1]), 0.0, self.horizon)

    def q(self, reward: Float[np.ndarray, "A1 S"], next_value: Float[np.ndarray, " S"]) -> Float[np.ndarray, "A S"]:
        """r + γ E[V(S')]; −∞ where an action does not exist."""
        q = reward + self.discount * (self.transitions @ next_value)
        return q if self.available is None else np.where(self.available, q, -np.inf)

    def log_policy(
        self, reward: Float[np.ndarray, "A1 S"], next_value: Float[np.ndarray, " S"]
    ) -> Float[np.ndarray, "A S"]:
        """log π(a|s), given the values of the states that follow."""
        q = self.q(reward, next_value)
        return q - log_sum_exp(q)

    def carried(
        self, policies: Float[np.ndarray, "T A S"], sources: Float[np.ndarray, "T S"]
    ) -> Float[np.ndarray, "T S"]:
        """The mass in each state and period, of what entered by then: m_t = c_t + γ P_πᵀ m_{t−1}."""
        if self.horizon is None:
            return np.linalg.solve(_system(self, policies[0]).T, sources[0])[None]
        mass = np.array(sources)
        for t in range(1, len(mass)):
            mass[t] += self.discount * np.tensordot(policies[t - 1] * mass[t - 1], self.transitions, 2)
        return mass

    def occupancy(self, policies: Float[np.ndarray, "T A S"]) -> Float[np.ndarray, "T A S"]:
        """γᵗ P(S_t = s, A_t = a), or its sum over time on an endless horizon."""
        starts = np.zeros((self.periods, len(self.initial)))
        starts[0] = self.initial
        return self.carried(policies, starts)[:, None] * policies


class SmallPlan(NamedTuple):
    """Values and policies of a soft plan; T is 1 on an endless horizon."""

    mdp: SmallMDP
    #: With V_T = 0 in a last row on a finite horizon.
    values: Float[np.ndarray, "T1 S"]
    log_policies: Float[np.ndarray, "T A S"]
    #: ‖V − V*‖∞ is at most this, after so many steps.
    error_bound: float
    steps: int

    @property
    def is_finite(self) -> bool:
        """Whether values exist."""
        return bool(np.isfinite(self.values).all())

    @property
    def policies(self) -> Float[np.ndarray, "T A S"]:
        """π_t(a|s)."""
        return np.exp(self.log_policies)

    def tangents(self, features: Float[np.ndarray, "A S K"]) -> Float[np.ndarray, "T A S K"]:
        """∂Q_t: the features of an action and of all that follows it."""
        mdp, policies = self.mdp, self.policies
        if mdp.horizon is None:
            gain = np.einsum("as,ask->sk", policies[0], features)
            slope = _values_of(_system(mdp, policies[0]), gain, mdp.discount)
            return (features + mdp.discount * (mdp.transitions @ slope))[None]
        result, slope = np.empty((mdp.horizon, *features.shape)), np.zeros(features.shape[1:])
        for t in reversed(range(mdp.horizon)):
            result[t] = features + mdp.discount * (mdp.transitions @ slope)
            slope = np.einsum("as,ask->sk", policies[t], result[t])
        return result


def small_backup(backup: AbstractBackup) -> tuple[SmallMDP, Float[np.ndarray, "A1 S"]] | None:
    """The MDP and the reward of a soft backup; None if it is another one, traced, or large."""
    if not isinstance(backup, SoftBackup) or is_traced(backup) or staged() or backup.reward.dtype != np.float64:
        return None
    mdp = SmallMDP.of(backup.mdp)
    return None if mdp is None else (mdp, np.asarray(backup.reward))


def dense_transitions(dynamics: AbstractDynamics) -> Float[np.ndarray, "A S S"]:
    """P(s' | s, a), action-major."""
    links, probs = dynamics.transitions()
    if links is None:
        return np.asarray(probs)
    successors, num = np.asarray(links.successors), dynamics.num_states
    shape = (len(successors), dynamics.num_actions, num)
    dense = np.zeros((dynamics.num_actions, num, num))
    _, actions, states = np.indices(shape, sparse=True)
    np.add.at(dense, (actions, states, np.broadcast_to(successors, shape)), np.broadcast_to(np.asarray(probs), shape))
    return dense


def log_sum_exp(q: Float[np.ndarray, "A S"]) -> Float[np.ndarray, " S"]:
    """log Σ_a e^q."""
    top = q.max(axis=0)
    return top + np.log(np.exp(q - top).sum(axis=0))


def _fixed_point(
    mdp: SmallMDP, reward: Float[np.ndarray, "A1 S"], guess: Float[np.ndarray, " n"], tol: float
) -> tuple[Float[np.ndarray, " S"], float, int]:
    """V = T V by Newton's method, with MacQueen's bound on its error, and the number of steps; see `fixed_point`."""
    value = np.zeros(len(mdp.initial)) + np.where(np.isfinite(guess).all(), guess, 0.0)
    before, gamma, steps = np.inf, mdp.discount, 0
    while True:
        q = mdp.q(reward, value)
        after = log_sum_exp(q)
        residual = after - value
        if not np.isfinite(residual).all():
            return np.full_like(value, np.inf), np.inf, steps
        low, high = residual.min(), residual.max()
        floor = ROUNDING * np.finfo(float).eps * np.abs(value).max() / (1 - gamma)
        bound = gamma / (1 - gamma) * (high - low) / 2 + floor
        middle = after + gamma / (1 - gamma) * (low + high) / 2
        # Convergence is quadratic: one more step gives the precision that differences of values need at γ → 1.
        close = bound <= max(tol * max(1.0, np.abs(middle).max()), 2 * floor) and bound > before / 4
        if close or steps == MAX_NEWTON_STEPS:
            return middle, float(bound), steps
        before, steps = bound, steps + 1
        value = value + _values_of(_system(mdp, np.exp(q - after)), residual, gamma)


def _system(mdp: SmallMDP, policy: Float[np.ndarray, "A S"]) -> Float[np.ndarray, "S S"]:
    """I − γ P_π."""
    return np.eye(len(mdp.initial)) - mdp.discount * np.einsum("as,ast->st", policy, mdp.transitions)


def _values_of(
    system: Float[np.ndarray, "S S"], gain: Float[np.ndarray, "S *K"], discount: float
) -> Float[np.ndarray, "S *K"]:
    """The value of earning `gain` at each step, given I − γ P_π."""
    # A constant gain has a constant value, which at γ near 1 would drown the rest.
    constant = gain.mean(axis=0)
    return constant / (1 - discount) + np.linalg.solve(system, gain - constant)
