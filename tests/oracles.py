"""Brute force, in NumPy and SciPy: what every planner is checked against.

Nothing here imports irlax or JAX, and nothing here is clever: paths are enumerated, recursions are loops,
entropies are −Σ p log p of the law of paths. A policy is π[T, S, A]; a reward is [S], [S, A] or [S, A, S'].

A path is (s_0, a_0, s_1, a_1, ..., s_{T-1}, a_{T-1}, s_T).
"""

import itertools
import math
from collections import defaultdict
from typing import NamedTuple

import numpy as np
import scipy.optimize
import scipy.sparse as sp
import scipy.sparse.linalg


class Problem(NamedTuple):
    """An MDP as plain arrays."""

    transitions: np.ndarray  # P[s, a, s']
    initial: np.ndarray
    discount: float
    horizon: int | None
    available: np.ndarray  # [S, A]

    @property
    def num_states(self):
        return len(self.initial)

    @property
    def num_actions(self):
        return self.available.shape[1]

    def starting_in(self, state):
        return self._replace(initial=np.eye(self.num_states)[state])


def full_reward(problem, reward):
    """The reward of every transition, [S, A, S']."""
    reward = np.asarray(reward, float)
    reward = reward.reshape(reward.shape + (1,) * (3 - reward.ndim))
    return np.broadcast_to(reward, problem.transitions.shape)


# Enumeration of paths.


def paths(problem, policy):
    """All paths that can happen under a policy, each with its probability."""
    transitions, initial = problem.transitions.tolist(), problem.initial.tolist()
    weights, horizon = policy.tolist(), len(policy)
    actions, states = range(problem.num_actions), range(problem.num_states)

    def extended(path, probability, t):
        if t == horizon:
            yield path, probability
            return
        here = path[-1]
        for action in actions:
            for after in states:
                chance = weights[t][here][action] * transitions[here][action][after]
                if chance > 0:
                    yield from extended((*path, action, after), probability * chance, t + 1)

    for start in states:
        if initial[start] > 0:
            yield from extended((start,), initial[start], 0)


def discounted_return(path, reward, discount):
    """Σ_t γᵗ r(s_t, a_t, s_{t+1}) of one path, for a reward over transitions."""
    steps = range(len(path) // 2)
    return math.fsum(discount**t * reward[path[2 * t]][path[2 * t + 1]][path[2 * t + 2]] for t in steps)


def expected_return(problem, policy, reward):
    reward = full_reward(problem, reward).tolist()
    return math.fsum(
        probability * discounted_return(path, reward, problem.discount) for path, probability in paths(problem, policy)
    )


def occupancy(problem, policy):
    """d_t(s, a) = γᵗ P(S_t = s, A_t = a)."""
    return _marginals(dict(paths(problem, policy)), policy.shape, problem.discount)


def _marginals(law, shape, discount):
    mass = np.zeros(shape)
    for path, probability in law.items():
        for t in range(shape[0]):
            mass[t, path[2 * t], path[2 * t + 1]] += discount**t * probability
    return mass


def feature_expectations(problem, policy, features):
    """E Σ_t γᵗ φ, one feature after the other, for features [..., K]."""
    return np.array([expected_return(problem, policy, features[..., k]) for k in range(features.shape[-1])])


# Entropies, from the law of (S_0, A_0, ..., S_{T-1}, A_{T-1}) and nothing else.


def decision_law(problem, policy):
    """The probability of each (s_0, a_0, ..., s_{T-1}, a_{T-1}): S_T, which no decision follows, summed out."""
    law = defaultdict(float)
    for path, probability in paths(problem, policy):
        law[path[:-1]] += probability
    return law


def shannon(law, coordinates):
    """−Σ p log p of the marginal law of some coordinates."""
    marginal = defaultdict(float)
    for path, probability in law.items():
        marginal[tuple(path[i] for i in coordinates)] += probability
    return -math.fsum(p * math.log(p) for p in marginal.values() if p > 0)


def given(law, target, condition):
    """H(target | condition) by the chain rule."""
    return shannon(law, [*condition, *target]) - shannon(law, condition)


def _horizon_of(law):
    return len(next(iter(law))) // 2


def causal_entropy(law, discount):
    """Σ γᵗ H(A_t | S_{0:t}, A_{0:t-1}): all of the past is conditioned on, Markov or not."""
    return sum(discount**t * given(law, [2 * t + 1], range(2 * t + 1)) for t in range(_horizon_of(law)))


def transition_entropy(law, discount):
    """Σ γᵗ H(S_t | S_{0:t-1}, A_{0:t-1})."""
    return sum(discount**t * given(law, [2 * t], range(2 * t)) for t in range(_horizon_of(law)))


def trajectory_entropy(law, discount):
    """Σ γᵗ H(S_t, A_t | S_{0:t-1}, A_{0:t-1}): at γ = 1 the plain entropy of the law."""
    horizon = _horizon_of(law)
    if discount == 1:
        return shannon(law, range(2 * horizon))
    return sum(discount**t * given(law, [2 * t, 2 * t + 1], range(2 * t)) for t in range(horizon))


def conditional_entropy(law, discount):
    """Σ γᵗ H(A_t | A_{0:t-1}, S_{0:T-1}): at γ = 1 it is H(S, A) − H(S), the plain H(A | S)."""
    horizon = _horizon_of(law)
    states = range(0, 2 * horizon, 2)
    if discount == 1:
        return shannon(law, range(2 * horizon)) - shannon(law, states)
    return sum(discount**t * given(law, [2 * t + 1], [*states, *range(1, 2 * t, 2)]) for t in range(horizon))


# Values, by recursion with loops.


def log_sum_exp(exponents):
    exponents = list(exponents)
    top = max(exponents)
    return top + math.log(math.fsum(math.exp(x - top) for x in exponents))


def _mean(row, outcomes):
    return math.fsum(p * x for p, x in zip(row, outcomes, strict=True) if p > 0)


def _log_mean_exp(row, outcomes):
    return log_sum_exp(math.log(p) + x for p, x in zip(row, outcomes, strict=True) if p > 0)


#: How each model weighs what may follow, and how it sums up what it may choose.
MODELS = {"soft": (_mean, log_sum_exp), "path": (_log_mean_exp, log_sum_exp), "hard": (_mean, max)}


def backup(model, problem, reward, next_value):
    """One step of the recursion: (q [S, A], value [S])."""
    over_next, over_actions = MODELS[model]
    reward = full_reward(problem, reward)
    q = np.full(problem.available.shape, -np.inf)
    for s, a in np.argwhere(problem.available):
        q[s, a] = over_next(problem.transitions[s, a], reward[s, a] + problem.discount * next_value)
    value = [over_actions(q[s][problem.available[s]]) for s in range(problem.num_states)]
    return q, np.array(value)


def plan(model, problem, reward):
    """(q [T, S, A], value [T, S]) of the "soft", "path" or "hard" model, from V_T = 0 backwards."""
    qs, values, next_value = [], [], np.zeros(problem.num_states)
    for _ in range(problem.horizon):
        q, next_value = backup(model, problem, reward, next_value)
        qs.append(q)
        values.append(next_value)
    return np.array(qs[::-1]), np.array(values[::-1])


def path_weights(problem, reward):
    """I(s_0)·Π P(s_{t+1}|s_t, a_t)·exp(discounted return) of each path that is possible."""
    reward = full_reward(problem, reward).tolist()
    each_action_once = np.broadcast_to(problem.available, (problem.horizon, *problem.available.shape))
    return {
        path: chance * math.exp(discounted_return(path, reward, problem.discount))
        for path, chance in paths(problem, each_action_once.astype(float))
    }


def log_sum_of_path_weights(problem, reward):
    """log Σ exp(return)·P over the paths from each state, [S]."""
    return np.array(
        [math.log(math.fsum(path_weights(problem.starting_in(s), reward).values())) for s in range(problem.num_states)]
    )


def path_law(problem, reward, *, tilt_start):
    """The law of paths ∝ probability · exp(return): normalised for each start, or over all starts at once."""
    weights = path_weights(problem, reward)
    if tilt_start:
        total = math.fsum(weights.values())
        return {path: weight / total for path, weight in weights.items()}
    norms = defaultdict(float)
    for path, weight in weights.items():
        norms[path[0]] += weight
    return {path: problem.initial[path[0]] * weight / norms[path[0]] for path, weight in weights.items()}


def state_action_marginals(law, shape):
    """P(S_t = s, A_t = a), [T, S, A], of a law of paths."""
    return _marginals(law, shape, 1.0)


# Hard planning by trying every policy.


def best_return_of_any_policy(problem, reward):
    """max over all deterministic policies, also those that change with time, of the return from each state."""
    shape = (problem.horizon, problem.num_states)
    choices = [np.flatnonzero(row) for _ in range(problem.horizon) for row in problem.available]
    best = np.full(problem.num_states, -np.inf)
    for chosen in itertools.product(*choices):
        policy = np.eye(problem.num_actions)[np.reshape(chosen, shape)]
        for start in range(problem.num_states):
            best[start] = max(best[start], expected_return(problem.starting_in(start), policy, reward))
    return best


def best_stationary_value(problem, reward):
    """max over all deterministic stationary policies of their value without a horizon, by linear solves."""
    states = np.arange(problem.num_states)
    mean = np.einsum("sat,sat->sa", problem.transitions, full_reward(problem, reward))
    best = np.full(problem.num_states, -np.inf)
    for chosen in itertools.product(*[np.flatnonzero(row) for row in problem.available]):
        rows = (states, np.array(chosen))
        system = np.eye(problem.num_states) - problem.discount * problem.transitions[rows]
        best = np.maximum(best, np.linalg.solve(system, mean[rows]))
    return best


# No horizon.


def fixed_point(model, problem, reward):
    """V = TV by SciPy's hybrid root finder, which knows nothing of monotone or contracting maps."""

    def residual(value):
        return backup(model, problem, reward, value)[1] - value

    return scipy.optimize.root(residual, np.zeros(problem.num_states), tol=1e-13).x


def iterated(model, problem, reward, num_sweeps):
    """T applied so many times to V = 0."""
    value = np.zeros(problem.num_states)
    for _ in range(num_sweeps):
        value = backup(model, problem, reward, value)[1]
    return value


def soft_fixed_point_in_long_double(problem, reward):
    """V* of a soft problem at γ < 1 over rewards [S, A], beyond float64, and a bound on its own error.

    Newton with residuals in extended precision: the linear solves are in float64, but the point at which
    they find nothing left to correct is set by the residual alone.
    """
    probs, reward = problem.transitions.astype(np.longdouble), np.asarray(reward, np.longdouble)
    discount = np.longdouble(problem.discount)
    value = np.zeros(problem.num_states, np.longdouble)
    for _ in range(40):
        q = reward + discount * (probs @ value)
        top = q.max(axis=1)
        after = top + np.log(np.exp(q - top[:, None]).sum(axis=1))
        chain = np.einsum("sa,sat->st", np.exp(q - after[:, None]), probs)
        system = np.eye(problem.num_states) - (discount * chain).astype(float)
        residual = after - value
        value = value + np.linalg.solve(system, residual.astype(float))
    return value, float(np.abs(residual).max() / (1 - discount))


def stationary_occupancy(problem, policy, num_steps):
    """Σ_t γᵗ P(S_t = s, A_t = a), for π[S, A], by adding up so many steps."""
    mass, total = problem.initial, np.zeros(policy.shape)
    for _ in range(num_steps):
        joint = mass[:, None] * policy
        total += joint
        mass = problem.discount * np.einsum("sa,sat->t", joint, problem.transitions)
    return total


def edge_matrix(edges, pay, num_states):
    """M(s, s') = Σ exp(pay) over the edges s → s', sparse."""
    entries = (np.exp(pay), (edges[:, 0], edges[:, 1]))
    return sp.csc_array(sp.coo_array(entries, shape=(num_states, num_states)))


def recursive_logit(matrix, end):
    """V = log z of the recursive logit, z = Mz + b with b = 1 at the end, which M does not leave.

    Fosgerau, Frejinger and Karlström (2013).
    """
    size = matrix.shape[0]
    system = sp.csc_array(sp.eye_array(size) - matrix)
    return np.log(scipy.sparse.linalg.spsolve(system, np.eye(size)[end]))


def spectral_radius(matrix):
    """ρ(M): where all states are connected, z exists exactly when this is below 1."""
    return np.abs(np.linalg.eigvals(matrix.toarray())).max()


# Likelihood.


def log_likelihood_of_choices(policy, states, actions, times, discount):
    """Σ γᵗ log π_t(a_t | s_t) over the observed choices of one episode, for π[T, S, A]."""
    return math.fsum(discount**t * math.log(policy[t, s, a]) for s, a, t in zip(states, actions, times, strict=True))


def log_probability_of_moves(problem, states, actions):
    """log I(s_0) + Σ log P(s_{t+1} | s_t, a_t), for one more state than actions."""
    moves = zip(states[:-1], actions, states[1:], strict=True)
    return math.log(problem.initial[states[0]]) + math.fsum(
        math.log(problem.transitions[s, a, after]) for s, a, after in moves
    )
