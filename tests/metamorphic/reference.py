"""The objectives in NumPy: soft value iteration as loops, and slopes by central differences."""

import numpy as np

from tests.metamorphic import feasible


def values_and_policies(world, theta, *, paths=False):
    """V at the start and log π, [S] and [T, S, A] (T = 1 for an endless world)."""
    reward = np.where(world.available, world.features @ theta, -np.inf)
    ended = world.end & (world.horizon is None and world.discount == 1)

    def backed_up(value):
        if paths:
            top = world.discount * value.max()
            ahead = top + np.log(world.transitions @ np.exp(world.discount * value - top))
        else:
            ahead = world.discount * world.transitions @ value
        q = reward + ahead
        return q, np.where(ended, 0.0, np.logaddexp.reduce(q, axis=1))

    value, policies = np.zeros(len(world.initial)), []
    if world.horizon is None:
        for _ in range(5000):
            q, new = backed_up(value)
            moved, value = np.abs(new - value).max(), new
            if moved < 1e-15 * max(1.0, np.abs(value).max()):
                break
        return value, (backed_up(value)[0] - value[:, None])[None]
    for _ in range(world.horizon):
        q, value = backed_up(value)
        policies.append(q - value[:, None])
    return value, np.array(policies[::-1])


def loss(world, objective, theta):
    """What an estimator minimises, per episode."""
    value, log_policy = values_and_policies(world, theta, paths=objective == "paths")
    if objective in ("feature-matching", "paths"):
        return feasible.starts(world) @ value - theta @ feasible.feature_expectations(world)
    demos = world.demos
    weight = np.repeat(demos.weights, demos.lengths) / demos.weights.sum()
    if objective == "discounted-likelihood":
        weight = weight * world.discount**demos.times
    period = demos.times if world.horizon is not None else np.zeros(demos.num_steps, int)
    return -weight @ log_policy[period, demos.states, demos.actions]


def slope(world, objective, theta, step=1e-4):
    """The gradient by central differences of fourth order: right to about 1e-11."""
    found = []
    for axis in np.eye(len(theta)):
        near, far = (
            loss(world, objective, theta + h * axis) - loss(world, objective, theta - h * axis)
            for h in (step, 2 * step)
        )
        found.append((8 * near - far) / (12 * step))
    return np.array(found)
