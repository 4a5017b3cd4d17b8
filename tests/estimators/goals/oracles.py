"""The recursive logit by dense matrices and plain loops, sharing no code with irlax."""

import itertools

import numpy as np


def values(net, rewards, goal):
    """V of each state, from z = Mz with z = 1 at the goal."""
    weights = np.zeros((net.num_states, net.num_states))
    for tail, head, reward in zip(net.tail, net.head, rewards, strict=True):
        if tail != goal:
            weights[tail, head] += np.exp(reward)
    rhs = np.zeros(net.num_states)
    rhs[goal] = 1
    with np.errstate(divide="ignore"):
        return np.log(np.maximum(np.linalg.solve(np.eye(net.num_states) - weights, rhs), 0))


def chances(net, rewards, goal):
    """π of each arc; 0 at the goal and where it cannot be reached."""
    value = values(net, rewards, goal)
    with np.errstate(invalid="ignore"):
        found = np.exp(rewards + value[net.head] - value[net.tail])
    return np.where((net.tail == goal) | ~np.isfinite(value[net.tail]), 0.0, found)


def flows(net, rewards, starts, goals, amounts):
    """Expected uses of each arc."""
    total = np.zeros(net.num_arcs)
    for goal in np.unique(goals):
        policy = chances(net, rewards, goal)
        moves = np.zeros((net.num_states, net.num_states))
        np.add.at(moves, (net.tail, net.head), policy)
        mass = np.zeros(net.num_states)
        np.add.at(mass, starts[goals == goal], amounts[goals == goal])
        total += np.linalg.solve(np.eye(net.num_states) - moves.T, mass)[net.tail] * policy
    return total


def ways(net, start, goal, longest):
    """All ways of at most so many arcs that end where they first reach the goal, as tuples of arcs."""
    out = [np.flatnonzero(net.tail == s).tolist() for s in range(net.num_states)]
    found, fronts = [], [((), start)]
    for _ in range(longest):
        fronts = [((*way, arc), int(net.head[arc])) for way, state in fronts for arc in out[state]]
        found += [way for way, state in fronts if state == goal]
        fronts = [(way, state) for way, state in fronts if state != goal]
    return found


def edit_distance(one, other):
    """Levenshtein's distance by the plain recursion over a table."""
    table = np.zeros((len(one) + 1, len(other) + 1))
    table[:, 0], table[0] = np.arange(len(one) + 1), np.arange(len(other) + 1)
    for i, j in itertools.product(range(1, len(one) + 1), range(1, len(other) + 1)):
        table[i, j] = min(table[i - 1, j] + 1, table[i, j - 1] + 1, table[i - 1, j - 1] + (one[i - 1] != other[j - 1]))
    return table[-1, -1]


def central_differences(function, x, step=1e-5):
    """∂function/∂x, the last axis that of x."""
    columns = []
    for k in range(len(x)):
        move = np.zeros(len(x))
        move[k] = step
        columns.append((np.asarray(function(x + move)) - np.asarray(function(x - move))) / (2 * step))
    return np.stack(columns, axis=-1)


def nested_values(net, rewards, goal, scale):
    """V of the nested recursive logit by plain iteration of its equation."""
    value = np.zeros(net.num_states)
    for _ in range(5000):
        new = np.full(net.num_states, -np.inf)
        np.logaddexp.at(new, net.tail, (rewards + value[net.head]) / scale[net.tail])
        new *= scale
        new[goal] = 0
        if np.abs(new - value).max() < 1e-14:
            return new
        value = new
    raise AssertionError("The iteration did not converge.")


def nested_chances(net, rewards, goal, scale):
    """π of each arc in the nested recursive logit; 0 at the goal."""
    value = nested_values(net, rewards, goal, scale)
    return np.where(net.tail == goal, 0.0, np.exp((rewards + value[net.head] - value[net.tail]) / scale[net.tail]))


def visits(net, policy, start):
    """Expected visits of one trip under a policy."""
    moves = np.zeros((net.num_states, net.num_states))
    np.add.at(moves, (net.tail, net.head), policy)
    return np.linalg.solve(np.eye(net.num_states) - moves.T, np.eye(net.num_states)[start])
