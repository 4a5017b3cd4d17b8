"""Mixtures and switching motives on panels: estimated transitions are part of their standard errors."""

import dataclasses
from typing import Any

import jax
import numpy as np
import pandas as pd
import pytest

import irlax as ix
from tests.panels.panels import DISCOUNT, ROLES, as_frame, choice_probabilities, transitions, walk

LEVELS = 3
TYPES = np.array([[-0.3, -2.5], [-1.5, -1.0]])


def rewards(theta):
    return np.stack([theta[0] * np.arange(LEVELS), np.full(LEVELS, theta[1])])


@pytest.fixture(scope="module")
def frame():
    """Individuals of two types, too few choices each to tell them apart for certain."""
    P = transitions(LEVELS)
    parts = []
    for g, theta in enumerate(TYPES):
        policy = choice_probabilities(rewards(theta), P, DISCOUNT)
        states, actions = walk(P, policy, individuals=60, periods=8, seed=g, start=1)
        parts.append(as_frame(states, actions).assign(id=lambda rows, g=g: rows.id + 100 * g))
    return pd.concat(parts, ignore_index=True)


def counts_of(frame):
    """How often each next state followed, [A, S, S']."""
    states = frame.mileage.to_numpy().reshape(frame.id.nunique(), -1)
    actions = (frame.choice == "replace").to_numpy().astype(int).reshape(frame.id.nunique(), -1)
    counts = np.zeros((2, LEVELS, LEVELS))
    np.add.at(counts, (actions[:, :-1], states[:, :-1], states[:, 1:]), 1)
    return states, actions, counts


def log_policies(x, P):
    """log π [A, S] of both groups, by Newton's method on the values."""
    for theta in x[:4].reshape(2, 2):
        reward, value = rewards(theta), np.zeros(LEVELS)
        for _ in range(30):
            q = reward + DISCOUNT * P @ value
            new = np.logaddexp.reduce(q, axis=0)
            if np.abs(new - value).max() < 1e-13:
                break
            chain = np.einsum("as,ast->st", np.exp(q - new), P)
            value = value + np.linalg.solve(np.eye(LEVELS) - DISCOUNT * chain, new - value)
        yield q - new


def mixture(x, P, states, actions):
    """Σ log Σ_g s_g Π π_g, in (θ of both types, log-odds of the second)."""
    logs = np.stack([log[actions, states].sum(axis=1) for log in log_policies(x, P)])
    return np.logaddexp(logs[0], logs[1] + x[4]).sum() - len(states) * np.logaddexp(0, x[4])


def chain(x, P, states, actions):
    """The forward recursion over motives, in (θ of both motives, log-odds at the start, log-odds of both switches)."""
    logs = np.stack([log[actions, states] for log in log_policies(x, P)], axis=-1)
    first = np.exp([0.0, x[4]]) / (1 + np.exp(x[4]))
    leave = 1 / (1 + np.exp(-x[5:]))
    switch = np.array([[1 - leave[0], leave[0]], [leave[1], 1 - leave[1]]])
    now, total = np.tile(first, (len(states), 1)), 0.0
    for t in range(states.shape[1]):
        joint = now * np.exp(logs[:, t])
        total += np.log(joint.sum(axis=1)).sum()
        now = joint / joint.sum(axis=1, keepdims=True) @ switch
    return total


def differences(function, x, step=2e-4):
    return np.array([(function(x + e) - function(x - e)) / (2 * step) for e in step * np.eye(len(x))])


@pytest.mark.parametrize("kind", ["mixture", "switching"])
def test_corrections_are_how_the_estimate_moves_when_a_transition_is_counted_once_more(frame, kind):
    estimator: Any = ix.MixtureIRL(num_starts=2, tol=1e-9)
    log_likelihood = mixture
    if kind == "switching":
        # Two individuals of different types, in either order, are one whose motive switches.
        estimator, log_likelihood = ix.SwitchingIRL(num_starts=2, tol=1e-9), chain
        frame = frame.assign(t=frame.t + 8 * ((frame.id >= 100) ^ (frame.id % 2 == 1)), id=frame.id % 100)
        frame = frame.sort_values(["id", "t"])
    panel = ix.Panel.from_frame(frame, **ROLES)
    fit = panel.fit("mileage:keep + replace", discount=DISCOUNT, estimator=estimator, key=jax.random.key(0))
    states, actions, counts = counts_of(frame)
    hidden = np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(fit.hidden_parameters())])
    sign = np.ones(4 + len(hidden))
    if kind == "switching" and fit.chain.reference == 1:
        sign[4] = -1  # Ours are against the first motive.
    x = sign * np.concatenate([fit.estimates, hidden])

    def gradient(x, counts):
        P = counts / counts.sum(axis=-1, keepdims=True)
        return differences(lambda x: log_likelihood(x, P, states, actions), x)

    curvature = differences(lambda x: gradient(x, counts), x)

    def refitted(counts):
        found = x
        for _ in range(4):
            found = found - np.linalg.solve(curvature, gradient(found, counts))
        return found

    assert np.allclose(refitted(counts), x, atol=1e-5)
    information = fit.information
    by_row = sign * (information.corrections @ np.linalg.inv(information.hessian))
    rows = panel.demos.followed
    moves = np.stack([panel.demos.actions[rows], panel.demos.states[rows], panel.demos.states[rows + 1]], axis=1)
    for move in ((0, 1, 2), (1, 2, 0)):
        row = rows[np.flatnonzero((moves == move).all(axis=1))[0]]
        more = np.zeros_like(counts)
        more[move] = 0.1
        slope = (refitted(counts + more) - refitted(counts - more)) / 0.2
        assert np.abs(slope).max() > 1e-4 and np.allclose(by_row[row], slope, rtol=1e-3, atol=1e-6)


def test_the_table_says_what_the_errors_include(frame, tmp_path):
    panel = ix.Panel.from_frame(frame, **ROLES)
    estimator = ix.MixtureIRL(num_starts=2, tol=1e-9)
    fit = panel.fit("mileage:keep + replace", discount=DISCOUNT, estimator=estimator, key=jax.random.key(0))
    assert "inverse Hessian, with the sampling error of the estimated transitions" in str(fit.summary())
    given = dataclasses.replace(fit, panel=None)
    assert "Standard errors" not in str(given.summary())
    information = fit.information
    inverse = np.linalg.inv(information.hessian)
    by_person = np.zeros_like(information.scores)
    np.add.at(by_person, panel.demos.episode, information.corrections)
    wanted = {
        "hessian": inverse + inverse @ information.corrections.T @ information.corrections @ inverse,
        "sandwich": inverse @ (information.scores + by_person).T @ (information.scores + by_person) @ inverse,
    }
    for kind, covariance in wanted.items():
        errors = np.sqrt(np.diag(covariance))[:4].reshape(2, 2)
        assert np.allclose(fit.standard_errors(kind), errors, rtol=1e-8)
        assert (errors > given.standard_errors(kind)).all()
    assert np.array_equal(fit.standard_errors(), fit.standard_errors("hessian"))
    fit.save(tmp_path / "fit")
    assert np.allclose(ix.load(tmp_path / "fit").standard_errors(), fit.standard_errors())
