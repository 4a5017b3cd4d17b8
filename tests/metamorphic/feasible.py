"""Whether an estimate exists, by linear programmes: SciPy and nothing of irlax.

Feature matching with a linear reward minimises a convex function whose slope far away along d is the best return of
any policy under the reward Φd, less d·f_D. So it has a minimum exactly if f_D lies in the relative interior of the
feature expectations of all policies: if some flow of visits has these features and leaves out nothing that the uniform
policy visits. The path model is the same with nature's moves at choice.
"""

import numpy as np
from scipy.optimize import linprog

#: An optimum exists if the flow can hold this share of the uniform policy's visits.
LEAST_SHARE = 1e-7
EXACT = {"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10}


def feature_expectations(world):
    """Σγᵗφ of a mean episode.

    A terminated episode stays in its absorbing state, which has one action. What is cut off from an endless discounted
    one is taken to look like the rest.
    """
    demos, visits = world.demos, np.zeros(world.available.shape)
    rows = np.asarray(demos.offsets)
    for k in range(demos.num_episodes):
        states, actions = demos.states[rows[k] : rows[k + 1]], demos.actions[rows[k] : rows[k + 1]]
        np.add.at(visits, (states, actions), demos.weights[k] * world.discount ** np.arange(len(states)))
        if demos.terminated[k]:
            last = demos.next_states[rows[k + 1] - 1]
            (only,) = np.flatnonzero(world.available[last])
            visits[last, only] += demos.weights[k] * _after(world, len(states))
    visits /= demos.weights.sum()
    if world.horizon is None and world.discount < 1:
        visits *= 1 / (1 - world.discount) / visits.sum()
    return np.einsum("sa,sak->k", visits, world.features)


def _after(world, length):
    """Σγᵗ from `length` on; nothing where an undiscounted problem has ended."""
    if world.horizon is not None:
        return sum(world.discount**t for t in range(length, world.horizon))
    return 0.0 if world.discount == 1 else world.discount**length / (1 - world.discount)


def starts(world):
    first = world.demos.states[np.asarray(world.demos.offsets)[:-1]]
    mass = np.bincount(first, weights=world.demos.weights, minlength=len(world.initial))
    return mass / mass.sum()


def largest_share(world, *, free_nature=False):
    """The largest ε for which a flow with the demonstrator's features holds ε of the uniform flow; −1 if none has them.

    `free_nature` lets the flow choose next states too, among those that are possible.
    """
    source, onward, features, share = _columns(world, free_nature)
    num, nodes = len(source), onward.shape[1]
    begin = np.zeros(nodes)
    numbers = _nodes(world)
    for s, mass in enumerate(starts(world)):
        if (0, s) in numbers:
            begin[numbers[0, s]] = mass
    out = np.zeros((nodes, num))
    out[source, np.arange(num)] = 1.0
    visits = np.linalg.solve(np.eye(nodes) - ((out * share) @ onward).T, begin)
    return _programme(out - onward.T, begin, features.T, feature_expectations(world), share * visits[source])


def _programme(flow, begin, features, wanted, uniform):
    num = flow.shape[1]
    equalities = np.vstack([flow, features])
    found = linprog(
        np.append(np.zeros(num), -1.0),
        A_eq=np.column_stack([equalities, np.zeros(len(equalities))]),
        b_eq=np.concatenate([begin, wanted]),
        A_ub=np.column_stack([-np.eye(num), uniform]),
        b_ub=np.zeros(num),
        bounds=[(0, None)] * num + [(0, 1)],
        method="highs",
        options=EXACT,
    )
    if found.status == 2:
        return -1.0
    assert found.status == 0, found.message
    return float(found.x[-1])


def _nodes(world):
    """A number for each (t, s) in which something is decided; on an endless horizon all times are one."""
    times = range(1 if world.horizon is None else world.horizon)
    over = world.end if world.horizon is None and world.discount == 1 else np.zeros(len(world.initial), bool)
    places = [(t, s) for t in times for s in range(len(world.initial)) if not over[s]]
    return {place: number for number, place in enumerate(places)}


def _columns(world, free_nature):
    """Of each variable of the flow: where it starts, where it leads, its features, its share of the uniform flow."""
    numbers = _nodes(world)
    source, onward, features, share = [], [], [], []
    for (t, s), node in numbers.items():
        after = t if world.horizon is None else t + 1
        moves = []
        for a in np.flatnonzero(world.available[s]):
            chances = world.transitions[s, a]
            each = np.eye(len(chances))[chances > 0] if free_nature else chances[None]
            moves += [(a, row) for row in each]
        for a, row in moves:
            ahead = np.zeros(len(numbers))
            for s_next, chance in enumerate(row):
                if (after, s_next) in numbers:
                    ahead[numbers[after, s_next]] = world.discount * chance
            source.append(node)
            onward.append(ahead)
            features.append(world.features[s, a])
            share.append(1 / len(moves))
    return np.array(source), np.array(onward), np.array(features), np.array(share)


def has_optimum(world, objective):
    """Whether the objective has a finite optimum; the likelihoods of logits (γ = 0) only."""
    if objective == "likelihood":
        return not separated(world)
    return largest_share(world, free_nature=objective == "paths") > LEAST_SHARE


def separated(world):
    """Whether some direction makes every observed choice the best of its state, and one strictly so.

    Of choices that look at their own state only: γ = 0, or one decision.
    """
    assert world.discount == 0 or world.horizon == 1
    states, actions = world.demos.states, world.demos.actions
    kept = np.repeat(world.demos.weights, world.demos.lengths) > 0
    pairs = np.unique(np.stack([states, actions], axis=1)[kept], axis=0)
    margins = [
        world.features[s, a] - world.features[s, other]
        for s, a in pairs
        for other in np.flatnonzero(world.available[s])
        if other != a
    ]
    if not margins:
        return False
    margins = np.array(margins)
    num, size = margins.shape
    # Strict margins can be made as large as one likes, so each counts up to 1.
    found = linprog(
        np.append(np.zeros(size), -np.ones(num)),
        A_ub=np.column_stack([-margins, np.eye(num)]),
        b_ub=np.zeros(num),
        bounds=[(None, None)] * size + [(0, 1)] * num,
        method="highs",
        options=EXACT,
    )
    assert found.status == 0, found.message
    return -found.fun > 0.5
