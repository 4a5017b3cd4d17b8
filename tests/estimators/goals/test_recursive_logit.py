"""The nested recursive logit and attributes by pair, against plain iteration, dense solves and finite differences."""

import functools

import jax.random as jr
import numpy as np
import pytest

import irlax as ix
from irlax.demos.demonstrations import from_rows
from irlax.estimators.goals.goal_fit import simulated_demos
from irlax.planning.goals import goal_plan
from tests.estimators.goals import oracles
from tests.estimators.goals.problems import NAMES, demand, network, rewards_of, trips
from tests.estimators.goals.problems import fit as plain_fit
from tests.networks import FOLDER, needs_networks

BETA = np.array([-1.1, -0.5, 0.4])


def scale_features(seed):
    return np.random.default_rng(seed + 50).uniform(-1, 1, network(seed).num_states)


@functools.cache
def nested_fit(seed=0):
    net = network(seed)
    return ix.RecursiveLogit().fit(
        net.mdp, net.linear(NAMES), trips(seed), scale_features=scale_features(seed), scale_names="spread"
    )


@functools.cache
def pairs_of(seed=0):
    demos = trips(seed)
    net = network(seed)
    starts, goals = np.unique(np.stack([demos.start_states, demos.goals], axis=1), axis=0).T
    tables = np.zeros((len(starts), *net.mdp.table_shape))
    values = np.random.default_rng(seed + 60).uniform(0, 1, (len(starts), net.num_arcs))
    tables[:, net.tail, net.action] = values
    known = {pair: values[k] for k, pair in enumerate(zip(starts.tolist(), goals.tolist(), strict=True))}
    return ix.PairFeatures.of(net.mdp, starts, goals, tables, "crossings"), known


@functools.cache
def pair_fit(seed=0):
    net = network(seed)
    return ix.RecursiveLogit().fit(net.mdp, net.linear(NAMES), trips(seed), pair_features=pairs_of(seed)[0])


def choices(net, demos):
    """Rows of (arc, state, goal, start)."""
    place = {(int(tail), int(action)): e for e, (tail, action) in enumerate(zip(net.tail, net.action, strict=True))}
    arcs = [place[int(s), int(a)] for s, a in zip(demos.states, demos.actions, strict=True)]
    return np.array(arcs), demos.goals[demos.episode], demos.start_states[demos.episode]


def nested_logs(net, demos, features, beta):
    """log π of each observed choice."""
    scale = np.exp(beta[2] * features)
    arcs, goals, _ = choices(net, demos)
    found = {g: np.log(oracles.nested_chances(net, rewards_of(net, beta), g, scale) + 1e-300) for g in np.unique(goals)}
    return np.array([found[g][arc] for arc, g in zip(arcs, goals, strict=True)])


def pair_logs(net, demos, known, beta):
    arcs, goals, starts = choices(net, demos)
    logs = {}
    for start, goal in set(zip(starts.tolist(), goals.tolist(), strict=True)):
        rewards = rewards_of(net, beta) + beta[2] * known[start, goal]
        logs[start, goal] = np.log(oracles.chances(net, rewards, goal) + 1e-300)
    return np.array([logs[s, g][arc] for arc, s, g in zip(arcs, starts.tolist(), goals.tolist(), strict=True)])


@pytest.mark.parametrize("kind", ["nested", "pairs"])
@pytest.mark.parametrize("seed", range(2))
def test_likelihood_and_derivatives(seed, kind):
    net, demos = network(seed), trips(seed)
    if kind == "nested":
        objective, beta = nested_fit(seed).objective, BETA

        def logs(at):
            return nested_logs(net, demos, scale_features(seed), at)
    else:
        objective, beta = pair_fit(seed).objective, BETA * [1, 1, -1]

        def logs(at):
            return pair_logs(net, demos, pairs_of(seed)[1], at)

    size = demos.weights.sum()
    assert np.isclose(objective.log_likelihood(beta), logs(beta).sum(), rtol=1e-11)
    loss, gradient = objective.value_and_gradient(beta)
    slopes = oracles.central_differences(logs, beta)
    assert np.isclose(loss, -logs(beta).sum() / size, rtol=1e-11)
    assert np.allclose(objective.scores(beta), slopes, atol=1e-7)
    assert np.allclose(gradient, -slopes.sum(axis=0) / size, atol=1e-7)
    curvature = oracles.central_differences(lambda at: objective.value_and_gradient(at)[1], beta)
    assert np.allclose(objective.hessian(beta), curvature, atol=1e-7)


def test_without_scales_it_is_the_plain_model():
    net, demos, plain = network(0), trips(0), plain_fit(0)
    same = ix.RecursiveLogit().fit(net.mdp, net.linear(NAMES), demos)
    assert np.allclose(same.estimates, plain.estimates, atol=1e-10)
    none = ix.RecursiveLogit().fit(net.mdp, net.linear(NAMES), demos, scale_features=np.zeros(net.num_states))
    assert np.allclose(none.estimates, [*plain.estimates, 0], atol=1e-8)
    assert np.isclose(none.log_likelihood, plain.log_likelihood, rtol=0, atol=1e-8)
    beta = np.array([*plain.estimates, 0.0])
    objective = nested_fit(0).objective
    assert np.isclose(objective.log_likelihood(beta), plain.log_likelihood, rtol=0, atol=1e-8)
    assert np.allclose(objective.hessian(beta)[:2, :2], plain.objective.hessian(beta[:2]), atol=1e-8)
    assert np.allclose(objective.scores(beta)[:, :2], plain.objective.scores(beta[:2]), atol=1e-8)


@pytest.mark.parametrize("kind", ["nested", "pairs"])
def test_the_estimate_is_a_maximum_with_standard_errors(kind):
    found, plain = (nested_fit(0) if kind == "nested" else pair_fit(0)), plain_fit(0)
    assert found.converged and found.log_likelihood >= plain.log_likelihood
    assert found.parameter_names == [*NAMES, "spread" if kind == "nested" else "crossings"]
    size = trips(0).weights.sum()
    curvature = oracles.central_differences(lambda at: found.objective.value_and_gradient(at)[1], found.estimates)
    expected = np.sqrt(np.diag(np.linalg.inv(curvature * size)))
    assert np.allclose(found.standard_errors(), expected, rtol=1e-5)
    for error in ("opg", "sandwich"):
        assert np.isfinite(found.standard_errors(error, cluster="episode")).all()
    assert found.parameter_names[2] in str(found.summary()) + str(found.regression_table())
    assert len(found.describe()["parameters"]) == 3
    assert np.isclose(found.score(trips(0)), found.log_likelihood / trips(0).num_steps)


@pytest.mark.parametrize("seed", range(2))
def test_flows_of_the_nested_model(seed):
    net, found = network(seed), nested_fit(seed)
    starts, goals, amounts = demand(seed, 12)

    def flows(beta):
        scale, total = np.exp(beta[2] * scale_features(seed)), np.zeros(net.num_arcs)
        for start, goal, amount in zip(starts, goals, amounts, strict=True):
            policy = oracles.nested_chances(net, rewards_of(net, beta), goal, scale)
            total += amount * oracles.visits(net, policy, start)[net.tail] * policy
        return total

    got = found.flows(starts, goals, amounts).by_arc(net)
    assert np.allclose(got.estimate, flows(found.estimates), atol=1e-8)
    assert np.allclose(got.slopes, oracles.central_differences(flows, found.estimates), atol=1e-6)
    closed = net.without([12])
    after = found.flows(starts, goals, amounts, mdp=closed.mdp, reward=closed.linear(NAMES)).by_arc(closed)
    assert after.estimate.sum() >= 0 and np.isfinite(after.minus(got).standard_error).all()


def test_values_and_routes_of_pairs():
    net, found, demos = network(0), pair_fit(0), trips(0)
    start, goal = int(demos.start_states[0]), int(demos.goals[0])
    rewards = rewards_of(net, found.estimates) + found.estimates[2] * pairs_of(0)[1][start, goal]
    assert np.isclose(found.values(start, goal).estimate[0], oracles.values(net, rewards, goal)[start], rtol=1e-10)
    ways = oracles.ways(net, start, goal, 6)
    chances = np.exp([sum(rewards[list(way)]) for way in ways] - oracles.values(net, rewards, goal)[start])
    assert np.allclose(found.routes(start, goal, 4).probability, np.sort(chances)[::-1][:4], rtol=1e-9)
    logs = np.bincount(demos.episode, pair_logs(net, demos, pairs_of(0)[1], found.estimates))
    assert np.allclose(found.route_scores(demos).log_probability, logs, rtol=1e-9)


@pytest.mark.parametrize("links", [False, True])
def test_link_size_is_the_expected_flow_of_one_trip(links):
    net = network(0).links_as_states() if links else network(0)
    theta = np.array([-1.2, -0.7])
    starts, goals = (np.array([0, 3, 5]), np.array([net.num_states - 1, net.num_states - 2, net.num_states - 1]))
    found = ix.link_size(net, net.linear(NAMES, theta), starts, goals)
    for start, goal in zip(starts, goals, strict=True):
        policy = oracles.chances(net, rewards_of(net, theta), goal)
        visits = oracles.visits(net, policy, start)
        expected = np.where(net.is_end[net.head], 0, visits[net.head]) if links else visits[net.tail] * policy
        index = found.index_of(np.array([start]), np.array([goal]))[0]
        assert np.allclose(found.features[index, net.tail, net.action, 0], expected, atol=1e-10)


@pytest.mark.parametrize("kind", ["nested", "pairs"])
def test_fits_are_saved_and_loaded(kind, tmp_path):
    found = nested_fit(0) if kind == "nested" else pair_fit(0)
    again = ix.load(found.save(tmp_path / "fit"))
    assert np.array_equal(again.estimates, found.estimates) and again.parameter_names == found.parameter_names
    assert np.isclose(again.score(trips(0)), found.score(trips(0)), rtol=1e-12)
    assert np.allclose(again.standard_errors(), found.standard_errors(), rtol=1e-8)


def test_scales_are_recovered_from_simulated_trips():
    net, rng = network(1), np.random.default_rng(5)
    features, truth = scale_features(1), np.array([-1.2, -0.7, 0.5])
    starts, goals = rng.integers(net.num_states, size=(2, 2500))
    starts, goals = starts[starts != goals], goals[starts != goals]
    plan = goal_plan(net.mdp, net.linear(NAMES, truth[:2]), np.arange(8), scale=np.exp(truth[2] * features))
    demos = simulated_demos(plan, starts, goals, key=jr.key(3))
    found = ix.RecursiveLogit().fit(net.mdp, net.linear(NAMES), demos, scale_features=features)
    assert (np.abs(found.estimates - truth) < 3 * found.standard_errors("sandwich", cluster="episode")).all()
    assert found.standard_errors()[2] < 0.15
    assert np.allclose(found.plan([3]).value[0], goal_plan(
        net.mdp, found.reward, [3], scale=np.exp(features * found.estimates[2])
    ).value[0])  # fmt: skip


@needs_networks
def test_scales_are_recovered_on_sioux_falls():
    net = ix.routes.read_tntp(FOLDER / "SiouxFalls_net.tntp")
    rng = np.random.default_rng(0)
    roads = np.bincount(net.tail, minlength=net.num_states) / 4 - 0.75
    starts, goals = rng.integers(net.num_states, size=(2, 2500))
    starts, goals = starts[starts != goals], goals[starts != goals]
    plan = goal_plan(net.mdp, net.linear(["length"], [-0.8]), np.arange(24), scale=np.exp(0.5 * roads))
    demos = simulated_demos(plan, starts, goals, key=jr.key(0))
    found = ix.RecursiveLogit().fit(net.mdp, net.linear(["length"]), demos, scale_features=roads)
    assert (np.abs(found.estimates - [-0.8, 0.5]) < 3 * found.standard_errors()).all()


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda n: ix.RecursiveLogit(l2=-1.0), "l2"),
        (lambda n: _fitted(n, scale_features=np.ones(3)), "features of states"),
        (lambda n: _fitted(n, scale_features=np.full(8, np.nan)), "finite"),
        (lambda n: _fitted(n, scale_features=np.ones((8, 2)), scale_names=["a"]), "2 different names"),
        (lambda n: _fitted(n, scale_features=np.ones(8), scale_names="minutes"), "different names"),
        (lambda n: ix.PairFeatures.of(n.mdp, [0, 0], [1, 1], np.zeros((2, *n.mdp.table_shape))), "each pair once"),
        (lambda n: ix.PairFeatures.of(n.mdp, [0], [1], np.zeros((1, 2, 3))), "a table over states and actions"),
        (lambda n: pair_fit(0).plan(), "no one plan"),
        (lambda n: pair_fit(0).flows(np.repeat(np.arange(8), 8), np.tile(np.arange(8), 8)), "are not known"),
        (
            lambda n: pair_fit(0).flows(0, 1, mdp=n.without([9]).mdp, reward=n.without([9]).linear(NAMES)),
            "belong to its own MDP",
        ),
    ],
)
def test_mistakes_are_named(call, message):
    with pytest.raises((ValueError, TypeError), match=message):
        call(network(0))


def _fitted(net, **options):
    return ix.RecursiveLogit().fit(net.mdp, net.linear(NAMES), trips(0), **options)


def simulated_pairs(net, pairs, beta, num, seed):
    """Trips of each pair by plain loops, from the rewards of that pair, which no other has."""
    rng, taken, lengths = np.random.default_rng(seed), [], []
    for p, (start, goal) in enumerate(zip(pairs.starts, pairs.goals, strict=True)):
        rewards = rewards_of(net, beta) + beta[2] * pairs.features[p, net.tail, net.action, 0]
        policy = oracles.chances(net, rewards, goal)
        for _ in range(num):
            state, length = int(start), 0
            while state != goal:
                arcs = np.flatnonzero(net.tail == state)
                taken.append(rng.choice(arcs, p=policy[arcs] / policy[arcs].sum()))
                state, length = int(net.head[taken[-1]]), length + 1
            lengths.append(length)
    rows = np.array(taken)
    ends = {"next_states": net.head[rows], "goals": np.repeat(pairs.goals, num), "terminated": True}
    return from_rows(net.tail[rows], net.action[rows], np.array(lengths), **ends)


def test_the_weight_of_the_link_size_is_recovered():
    net, truth = network(1), np.array([-1.2, -0.7, -0.8])
    starts, goals = np.repeat(np.arange(8), 3), (np.repeat(np.arange(8), 3) + np.tile([2, 4, 5], 8)) % 8
    sizes = ix.link_size(net, net.linear(NAMES, truth[:2]), starts, goals)
    distance = 0.0
    for seed in range(3):
        demos = simulated_pairs(net, sizes, truth, 80, seed)
        found = ix.RecursiveLogit().fit(net.mdp, net.linear(NAMES), demos, pair_features=sizes)
        error = found.estimates - truth
        distance += error @ np.linalg.solve(found.covariance("sandwich", cluster="episode"), error)
        assert found.parameter_names[2] == "link size" and found.standard_errors()[2] < 0.15
    assert distance < 27.9  # the 99.9% quantile of χ² with nine degrees of freedom
