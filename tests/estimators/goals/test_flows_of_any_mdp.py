"""Flows where moves are random or rewards are discounted, and where goals do not fit into one block."""

import jax.random as jr
import numpy as np
import pytest

import irlax as ix
from irlax.estimators.goals import choice_model
from irlax.estimators.goals.goal_fit import simulated_demos
from irlax.planning.goals import goal_plan, planner
from tests.estimators.goals import oracles
from tests.estimators.goals.problems import demand, fit, network

STATES, ACTIONS = 6, 3


def problem(discount):
    rng = np.random.default_rng(3)
    transitions = rng.dirichlet(np.full(STATES, 0.3), size=(STATES, ACTIONS))
    initial = np.full(STATES, 1 / STATES)
    mdp = ix.MDP.from_dense(transitions, initial, discount=discount, ends_at_goal=True)
    features = rng.uniform(0.5, 2, (STATES, ACTIONS, 2))
    return mdp, transitions, features


def dense_flow(transitions, features, discount, pairs, theta):
    """By plain value iteration, and a dense solve."""
    reward, total = features @ theta, np.zeros((STATES, ACTIONS))
    for start, goal in zip(*pairs, strict=True):
        value = np.zeros(STATES)
        for _ in range(20_000):
            q = reward + discount * transitions @ value
            new = np.log(np.exp(q).sum(axis=1))
            new[goal] = 0
            done, value = np.abs(new - value).max() < 1e-14, new
            if done:
                break
        policy = np.exp(reward + discount * transitions @ value - value[:, None])
        policy[goal] = 0
        moves = np.einsum("sa,sat->st", policy, transitions)
        visits = np.linalg.solve(np.eye(STATES) - discount * moves.T, np.eye(STATES)[start])
        total += visits[:, None] * policy
    return total


@pytest.mark.parametrize("discount", [1.0, 0.9])
def test_flows_where_moves_are_random(discount):
    mdp, transitions, features = problem(discount)
    rng = np.random.default_rng(4)
    starts, goals = rng.integers(STATES, size=(2, 400))
    starts, goals = starts[starts != goals], goals[starts != goals]
    plan = goal_plan(mdp, ix.LinearReward(features, [-2.0, -1.0]), np.arange(STATES))
    demos = simulated_demos(plan, starts, goals, key=jr.key(0))
    found = ix.MCEIRL(objective="likelihood").fit(mdp, ix.LinearReward(features, [-2.0, -1.0]), demos)
    asked = np.array([0, 1, 2, 5]), np.array([3, 3, 4, 1])

    def flow(theta):
        return dense_flow(transitions, features, discount, asked, theta)

    flows = found.flows(*asked)
    assert np.allclose(flows.estimate, flow(found.estimates), atol=1e-9)
    slopes = oracles.central_differences(flow, found.estimates)
    errors = np.sqrt(np.einsum("sak,kl,sal->sa", slopes, found.covariance(), slopes))
    assert np.allclose(flows.standard_error, errors, rtol=1e-5, atol=1e-8)
    arriving = discount * np.einsum("sa,sat->t", flow(found.estimates), transitions)
    assert np.allclose(flows.by_state().estimate, np.bincount(asked[0], minlength=STATES) + arriving, atol=1e-9)
    observed = np.zeros((STATES, ACTIONS))
    np.add.at(observed, (demos.states, demos.actions), discount**demos.times)
    rest = found.flows_of(demos).observed_minus_predicted
    expected = dense_flow(transitions, features, discount, (starts[:20], goals[:20]), found.estimates)
    assert np.allclose(found.flows(starts[:20], goals[:20]).estimate, expected, atol=1e-8)
    assert np.allclose(rest.estimate + found.flows(starts, goals).estimate, observed, atol=1e-8)
    with pytest.raises(ValueError, match="moves are random"):
        found.routes(0, 3)


def test_flows_do_not_depend_on_blocks(monkeypatch):
    net, found = network(0), fit(0)
    whole = found.flows(*demand(0)).by_arc(net)
    scores = found.route_scores(found.demos)
    for module in (planner, choice_model):
        monkeypatch.setattr(module, "BLOCK_SIZE", 3 * net.num_arcs)
    parts = found.flows(*demand(0)).by_arc(net)
    assert np.allclose(parts.estimate, whole.estimate, rtol=1e-12)
    assert np.allclose(parts.slopes, whole.slopes, rtol=1e-9, atol=1e-12)
    assert np.allclose(found.route_scores(found.demos).log_probability, scores.log_probability, rtol=1e-12)


def test_rewards_with_a_parameter_for_every_arc_have_flows():
    net = network(0)
    found = ix.MCEIRL(objective="likelihood", l2=0.1).fit(
        net.mdp, ix.TabularReward("sa", np.full(net.mdp.table_shape, -3.0)), fit(0).demos
    )
    flows = found.flows(0, 3)
    assert np.isfinite(flows.estimate).all() and len(flows.by_arc(net)) == net.num_arcs
