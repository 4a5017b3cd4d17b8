r"""Goals with a system each: random moves, a discount below 1, or scales that differ by state.

$$Q(s,a) = r(s,a) + \gamma\,\mathbb{E}[V(S')], \quad
  V(s) = \mu_s \log\textstyle\sum_a e^{Q(s,a)/\mu_s}, \quad V(g) = 0$$

by Newton's method, which is soft policy iteration: $V \leftarrow (I - \gamma P_\pi)^{-1}(\bar r_\pi + \mu H_\pi)$, with
the mean reward and the entropy of the present policy; one sparse factorisation a step. From the values of the uniform
policy, which are below the solution, values rise to it; from those of a similar reward it takes a step or two. With
scales μ by state this is the nested recursive logit of Mai, Fosgerau and Frejinger (2015).
"""

from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from scipy.sparse.linalg import splu

from irlax.planning.goals.options import Options, Sparse
from irlax.typing import Bool, Float, Int

#: Newton steps after which there is no solution; about ten are usual.
MAX_STEPS = 100
#: Values that change by less than this share of the largest have converged.
TOLERANCE = 1e-13


class SeparatePattern(NamedTuple):
    """What does not depend on the reward: the options, and the matrices that sum them by state."""

    options: Options
    by_state: Sparse

    @classmethod
    def of(cls, options: Options) -> "SeparatePattern":
        """The pattern of an MDP's options."""
        return cls(options, options.by_state)


class GoalSystem(NamedTuple):
    """The solution for one goal: values, policy, and the factors of I − γP_π."""

    value: Float[np.ndarray, " S"]
    policy: Float[np.ndarray, " J"]
    #: The factors of the system over the states that reach the goal, and these states, without the goal.
    factors: Any
    states: Int[np.ndarray, " n"]

    def solve(self, rhs: Float[np.ndarray, "S *k"], *, transpose: bool = False) -> Float[np.ndarray, "S *k"]:
        """(I − γP_π)⁻¹ rhs, 0 where the goal cannot be reached."""
        result = np.zeros(rhs.shape)
        if len(self.states):
            result[self.states] = self.factors.solve(np.asfortranarray(rhs[self.states]), "T" if transpose else "N")
        return result


def goal_system(
    pattern: SeparatePattern, reward: Float[np.ndarray, " J"], goal: int, guess: Float[np.ndarray, " S"] | None = None
) -> GoalSystem | None:
    """The solution for one goal; None where values do not exist."""
    reached = _ending(pattern.options, goal)
    if guess is not None:
        found = _newton(pattern, reward, goal, reached, guess)
        if found is not None:
            return found
    return _newton(pattern, reward, goal, reached, None)


def _ending(options: Options, goal: int) -> Bool[np.ndarray, " S"]:
    """The states with a finite value: at γ < 1 all; at γ = 1 those from which some policy ends at the goal for sure."""
    ending = np.ones(options.num_states, bool)
    if options.discount < 1:
        return ending
    while True:
        safe = (options.transitions @ (~ending).astype(float)) == 0
        edges = sp.csr_array(options.by_state @ sp.diags_array(safe.astype(float)) @ options.transitions)
        edges.eliminate_zeros()
        fewer = ending & options.reaching(goal, edges)
        if (fewer == ending).all():
            return ending
        ending = fewer


def _newton(
    pattern: SeparatePattern,
    reward: Float[np.ndarray, " J"],
    goal: int,
    reached: Bool[np.ndarray, " S"],
    guess: Float[np.ndarray, " S"] | None,
) -> GoalSystem | None:
    options = pattern.options
    states = np.flatnonzero(reached & (np.arange(options.num_states) != goal))
    value = np.where(reached, 0.0, -np.inf) if guess is None else guess
    # An option that may lead to where the goal cannot be reached has the value −∞, and is not taken.
    lost = (options.transitions @ (~reached).astype(float)) > 0
    uniform = _uniform(pattern, lost) if guess is None else None
    before = np.inf
    for _ in range(MAX_STEPS):
        policy = _policy(pattern, reward, value, lost) if uniform is None else uniform
        uniform = None
        gain = pattern.by_state @ (policy * reward) + options.scale * _entropy(pattern, policy)
        factors = _factorised(pattern, policy, states)
        if factors is None:
            return None
        new = np.where(reached, 0.0, -np.inf)
        new[states] = factors.solve(gain[states])
        if not np.isfinite(new[states]).all():
            return None
        change = np.abs(new[states] - value[states]).max(initial=0.0)
        size = max(1.0, np.abs(new[states]).max(initial=0.0))
        value = new
        # Convergence is quadratic until the rounding floor, at which changes no longer fall.
        if change <= TOLERANCE * size:
            # The policy of values that differ by rounding errors is the same, and so are its factors.
            return _ending_system(value, policy, factors, states)
        if change <= 1e-9 * size and change >= before / 2:
            policy = _policy(pattern, reward, value, lost)
            return _ending_system(value, policy, _factorised(pattern, policy, states), states)
        before = change
    return None


def _ending_system(
    value: Float[np.ndarray, " S"], policy: Float[np.ndarray, " J"], factors: Any, states: Int[np.ndarray, " n"]
) -> GoalSystem | None:
    """The system at a solution, if its policy ends: every expected number of steps is then at least 1."""
    if factors is None or (len(states) and factors.solve(np.ones(len(states))).min() < 1 - 1e-6):
        return None
    return GoalSystem(value, policy, factors, states)


def _q(pattern: SeparatePattern, reward: Float[np.ndarray, " J"], value: Float[np.ndarray, " S"]) -> np.ndarray:
    options = pattern.options
    return reward + options.discount * (options.transitions @ np.where(np.isfinite(value), value, 0.0))


def _policy(
    pattern: SeparatePattern,
    reward: Float[np.ndarray, " J"],
    value: Float[np.ndarray, " S"],
    lost: Bool[np.ndarray, " J"],
) -> Float[np.ndarray, " J"]:
    """softmax(Q/μ) in each state, over options that are not lost."""
    options = pattern.options
    logits = np.where(lost, -np.inf, _q(pattern, reward, value) / options.scale[options.state])
    totals = options.log_sum_exp(logits)
    return np.exp(logits - np.where(np.isfinite(totals), totals, 0.0)[options.state])


def _uniform(pattern: SeparatePattern, lost: Bool[np.ndarray, " J"]) -> Float[np.ndarray, " J"]:
    state = pattern.options.state
    counts = np.bincount(state, weights=~lost, minlength=pattern.options.num_states)
    return ~lost / np.maximum(counts, 1)[state]


def _entropy(pattern: SeparatePattern, policy: Float[np.ndarray, " J"]) -> Float[np.ndarray, " S"]:
    logs = np.log(np.where(policy > 0, policy, 1.0))
    return -(pattern.by_state @ (policy * logs))


def _factorised(pattern: SeparatePattern, policy: Float[np.ndarray, " J"], states: Int[np.ndarray, " n"]) -> Any:
    """The factors of I − γP_π over some states; None if it is singular."""
    options = pattern.options
    chosen = sp.csr_array(pattern.by_state @ sp.diags_array(options.discount * policy) @ options.transitions)
    inside = sp.csr_array(chosen[states][:, states])
    system = sp.csc_array(sp.eye_array(len(states), format="csr") - inside)
    if not len(states):
        return system
    try:
        return splu(system, permc_spec="MMD_AT_PLUS_A", diag_pivot_thresh=0.0, options={"SymmetricMode": True})
    except RuntimeError:
        return None


class SeparateBlock(NamedTuple):
    """Goals with a system each, with the interface of `SharedBlock`."""

    pattern: SeparatePattern
    reward: Float[np.ndarray, " J"]
    goals: Int[np.ndarray, " G"]
    systems: tuple[GoalSystem, ...]

    @property
    def value(self) -> Float[np.ndarray, "S G"]:
        """V of each state for each goal, −∞ where the goal cannot be reached."""
        return np.stack([system.value for system in self.systems], axis=1)

    def value_at(self, states: Int[np.ndarray, " n"], columns: Int[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
        """V of some states, each for the goal of a column."""
        return self.value[states, columns]

    def policy(self) -> Float[np.ndarray, "J G"]:
        """π of each option for each goal; 0 at the goal."""
        policy = np.stack([system.policy for system in self.systems], axis=1)
        policy[self.pattern.options.state[:, None] == self.goals] = 0.0
        return policy

    def mass(self, start: Float[np.ndarray, "S G"]) -> Float[np.ndarray, "S G"]:
        """(I − γP_π)⁻ᵀ start for each goal: expected discounted visits; none at the goal."""
        solved = [system.solve(start[:, k], transpose=True) for k, system in enumerate(self.systems)]
        return np.stack(solved, axis=1)

    def flow(self, start: Float[np.ndarray, "S G"]) -> Float[np.ndarray, " J"]:
        """Expected uses of each option, summed over goals."""
        mass, state = self.mass(start), self.pattern.options.state
        return sum((mass[state, k] * system.policy for k, system in enumerate(self.systems)), np.zeros(len(state)))

    def tangents(self, features: Float[np.ndarray, "J K"]) -> Float[np.ndarray, "K S G"]:
        """∂V/∂θ for rewards θ·features."""
        gains = (self.pattern.by_state @ (system.policy[:, None] * features) for system in self.systems)
        solved = [system.solve(gain) for system, gain in zip(self.systems, gains, strict=True)]
        return np.stack(solved, axis=-1).transpose(1, 0, 2)

    def curvature(
        self, start: Float[np.ndarray, "S G"], features: Float[np.ndarray, "J K"]
    ) -> tuple[Float[np.ndarray, "K K"], Float[np.ndarray, "K S G"]]:
        r"""Second derivatives of Σ start·V in θ, and the first derivatives of V.

        $\partial^2 V = (I - \gamma P_\pi)^{-1}\,\mathrm{Cov}_\pi(\phi + \gamma\,\partial V')/\mu$.
        """
        options, slopes, mass = self.pattern.options, self.tangents(features), self.mass(start)
        mass = mass / options.scale[:, None]
        total = np.zeros((features.shape[1], features.shape[1]))
        for k, system in enumerate(self.systems):
            slope = slopes[:, :, k].T
            ahead = features + options.discount * (options.transitions @ slope)
            used = mass[options.state, k] * system.policy
            total += ahead.T @ (used[:, None] * ahead) - slope.T @ (mass[:, k : k + 1] * slope)
        return total, slopes
