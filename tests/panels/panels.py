"""Simulated panels with a known truth, made without irlax: choices of an agent that plans in NumPy."""

import numpy as np
import pandas as pd

#: A machine wears by 0 or 1 of these levels a month while it is kept; a new one starts at 0.
LEVELS, WEAR, DISCOUNT = 6, 0.6, 0.9
TRUE = {"mileage:keep": -0.5, "replace": -2.0}


def transitions(levels=LEVELS, wear=WEAR):
    """P[a, s, s'] of keep and replace."""
    keep, replace = np.zeros((2, levels, levels))
    for s in range(levels):
        keep[s, s] += 1 - wear
        keep[s, min(s + 1, levels - 1)] += wear
        replace[s, 0] += 1 - wear
        replace[s, 1] += wear
    return np.stack([keep, replace])


def choice_probabilities(reward, P, discount):
    """π(a|s) [A, S] of soft value iteration, for a reward [A, S]."""
    value = np.zeros(P.shape[1])
    for _ in range(5000):
        q = reward + discount * P @ value
        new = np.log(np.exp(q - q.max(0)).sum(0)) + q.max(0)
        if np.abs(new - value).max() < 1e-13:
            break
        value = new
    return np.exp(q - new)


def walk(P, policy, *, individuals, periods, seed, start=0):
    """States and actions [individuals, periods]."""
    rng = np.random.default_rng(seed)
    states, actions = np.zeros((2, individuals, periods), int)
    now = np.full(individuals, start)
    for t in range(periods):
        states[:, t] = now
        actions[:, t] = (rng.random((individuals, 1)) > policy[:, now].T.cumsum(1)).sum(1)
        now = (rng.random((individuals, 1)) > P[actions[:, t], now].cumsum(1)).sum(1)
    return states, actions


def as_frame(states, actions, **more):
    """A row for each individual and period."""
    individuals, periods = states.shape
    columns = {"id": np.repeat(np.arange(individuals), periods), "t": np.tile(np.arange(periods), individuals)}
    return pd.DataFrame(
        columns | {"mileage": states.ravel(), "choice": np.array(["keep", "replace"])[actions.ravel()]} | more
    )


def machines(individuals=80, periods=40, seed=0):
    """The panel of machines, with the truth `TRUE`."""
    P = transitions()
    reward = np.stack([TRUE["mileage:keep"] * np.arange(LEVELS), np.full(LEVELS, TRUE["replace"])])
    policy = choice_probabilities(reward, P, DISCOUNT)
    return as_frame(*walk(P, policy, individuals=individuals, periods=periods, seed=seed))


ROLES = {"individual": "id", "period": "t", "state": ["mileage"], "action": "choice"}


def excluded(individuals=120, periods=30, seed=0):
    """Two panels that look alike, of machines that wear faster under a load that comes and goes by itself.

    The load moves the next state, but is no part of the reward: an exclusion restriction. Returned are states, actions
    and the columns of both: the frame has `mileage` (3 levels), `load` (2) and `choice`.
    """
    levels, wear, change = 3, (0.2, 0.9), 0.4
    P = np.zeros((2, 2 * levels, 2 * levels))
    for m in range(levels):
        for load in range(2):
            for other, chance in ((load, 1 - change), (1 - load, change)):
                for a, base in enumerate((m, 0)):
                    P[a, 2 * m + load, 2 * base + other] += chance * (1 - wear[load])
                    P[a, 2 * m + load, 2 * min(base + 1, levels - 1) + other] += chance * wear[load]
    mileage = np.repeat(np.arange(levels), 2)
    policy = choice_probabilities(np.stack([-1.0 * mileage, np.full(2 * levels, -1.5)]), P, 0.8)
    states, actions = walk(P, policy, individuals=individuals, periods=periods, seed=seed)
    frame = as_frame(states // 2, actions)
    return frame.assign(load=states.ravel() % 2)
