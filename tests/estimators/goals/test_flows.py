"""Flows, values and elasticities against dense solves, enumeration of ways, and finite differences."""

import warnings

import equinox as eqx
import numpy as np
import pytest

import irlax as ix
from irlax.routes import Network
from tests.estimators.goals import oracles
from tests.estimators.goals.problems import NAMES, demand, fit, network, rewards_of, trips

SEEDS = range(3)


def theta_of(found):
    return np.asarray(found.estimates)


@pytest.mark.parametrize("seed", SEEDS)
def test_flows_are_those_of_a_dense_solve(seed):
    net, found = network(seed), fit(seed)
    starts, goals, amounts = demand(seed)
    expected = oracles.flows(net, rewards_of(net, theta_of(found)), starts, goals, amounts)
    flows = found.flows(starts, goals, amounts)
    assert np.allclose(flows.by_arc(net).estimate, expected, rtol=1e-10, atol=1e-10)
    assert np.allclose(flows.estimate.sum(), expected.sum(), rtol=1e-10)
    arriving = np.bincount(net.head, weights=expected, minlength=net.num_states)
    visits = arriving + np.bincount(starts, weights=amounts, minlength=net.num_states)
    assert np.allclose(flows.by_state().estimate, visits, rtol=1e-10)


def test_flows_are_sums_over_enumerated_ways():
    net, found = network(0, 4, 7), fit(0)
    theta = theta_of(found) - 2
    reward = rewards_of(net, theta)
    learned = ix.MCEIRL(objective="likelihood", l2=0.1).fit(net.mdp, net.linear(NAMES), net.trips([[0, 1, 2], [3, 0]]))
    learned = eqx.tree_at(lambda one: one.reward, learned, net.linear(NAMES, theta))
    ways = oracles.ways(net, 0, 2, 14)
    weight = np.exp([sum(reward[list(way)]) for way in ways])
    expected = np.zeros(net.num_arcs)
    for way, share in zip(ways, weight / weight.sum(), strict=True):
        np.add.at(expected, list(way), share)
    assert np.allclose(learned.flows(0, 2).by_arc(net).estimate, expected, atol=1e-7)


@pytest.mark.parametrize("seed", SEEDS)
def test_standard_errors_are_by_the_delta_method(seed):
    net, found = network(seed), fit(seed)
    starts, goals, amounts = demand(seed)
    slopes = oracles.central_differences(
        lambda theta: oracles.flows(net, rewards_of(net, theta), starts, goals, amounts), theta_of(found)
    )
    covariance = found.covariance("sandwich", cluster="episode")
    expected = np.sqrt(np.einsum("ek,kl,el->e", slopes, covariance, slopes))
    flows = found.flows(starts, goals, amounts, kind="sandwich", cluster="episode", level=0.9).by_arc(net)
    assert np.allclose(flows.slopes, slopes, rtol=1e-6, atol=1e-6)
    assert np.allclose(flows.standard_error, expected, rtol=1e-5, atol=1e-8)
    assert np.allclose(flows.interval[:, 1] - flows.estimate, 1.6448536 * expected, rtol=1e-5, atol=1e-7)
    wide = np.exp(1.6448536 * expected / flows.estimate)
    assert np.allclose(flows.log_interval, flows.estimate[:, None] * np.stack([1 / wide, wide], 1), rtol=1e-5)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_closed_road_is_a_smaller_network(seed):
    net, found = network(seed), fit(seed)
    starts, goals, amounts = demand(seed)
    arcs = [12, 20]
    closed, kept = net.without(arcs), np.setdiff1d(np.arange(net.num_arcs), arcs)

    def change(theta):
        difference = -oracles.flows(net, rewards_of(net, theta), starts, goals, amounts)
        difference[kept] += oracles.flows(closed, rewards_of(closed, theta), starts, goals, amounts)
        return difference

    other = {"mdp": closed.mdp, "reward": closed.linear(NAMES[::-1])}
    after = found.flows(starts, goals, amounts, **other).by_arc(closed)
    difference = after.minus(found.flows(starts, goals, amounts).by_arc(net))
    number = [key.name for key in difference.keys]
    order = np.argsort([int(name.split()[1]) for name in number])
    slopes = oracles.central_differences(change, theta_of(found))
    errors = np.sqrt(np.einsum("ek,kl,el->e", slopes, found.covariance(), slopes))
    assert np.allclose(difference.estimate[order], change(theta_of(found)), rtol=1e-9, atol=1e-9)
    assert np.allclose(difference.standard_error[order], errors, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("seed", SEEDS)
def test_values_and_their_changes(seed):
    net, found = network(seed), fit(seed)
    starts, goals, _ = demand(seed)
    closed = net.without([12])

    def surplus(theta):
        one, other = (
            np.array([oracles.values(n, rewards_of(n, theta), g)[s] for s, g in zip(starts, goals, strict=True)])
            for n in (closed, net)
        )
        return (one - other) / -theta[0]

    after = found.values(starts, goals, mdp=closed.mdp, reward=closed.linear(NAMES))
    change = after.minus(found.values(starts, goals)).in_units_of("minutes")
    place = {key: k for k, key in enumerate(change.keys)}
    index = [place[pair] for pair in zip(starts.tolist(), goals.tolist(), strict=True)]
    slopes = oracles.central_differences(surplus, theta_of(found))
    assert np.allclose(change.estimate[index], surplus(theta_of(found)), atol=1e-10)
    assert np.allclose(change.slopes[index], slopes, atol=1e-7)
    assert (change.estimate <= 1e-12).all()


@pytest.mark.parametrize("some", [False, True])
def test_elasticities_are_derivatives_of_log_flows(some):
    net, found = network(1), fit(1)
    starts, goals, amounts = demand(1)
    chosen = np.arange(net.num_arcs) % 3 == 0 if some else np.ones(net.num_arcs, bool)

    def elasticity(theta):
        def logs(factor):
            rewards = rewards_of(net, theta) + theta[0] * net.attribute("minutes") * chosen * (factor[0] - 1)
            return np.log(oracles.flows(net, rewards, starts, goals, amounts))

        return oracles.central_differences(logs, np.ones(1))[:, 0]

    arcs = {"net": net, "arcs": chosen} if some else {}
    got = found.elasticities("minutes", starts, goals, amounts, **arcs).by_arc(net)
    assert np.allclose(got.estimate, elasticity(theta_of(found)), atol=1e-7)
    moved = oracles.flows(net, rewards_of(net, theta_of(found)), starts, goals, amounts)
    visits = np.bincount(starts, amounts, net.num_states) + np.bincount(net.head, moved, net.num_states)
    expected = np.bincount(net.head, moved * got.estimate, net.num_states) / visits
    by_state = found.elasticities("minutes", starts, goals, amounts, **arcs).by_state()
    assert np.allclose(by_state.estimate, expected, atol=1e-10) and np.isfinite(by_state.standard_error).all()
    slopes = oracles.central_differences(elasticity, theta_of(found), 1e-3)
    errors = np.sqrt(np.einsum("ek,kl,el->e", slopes, found.covariance(), slopes))
    assert np.allclose(got.standard_error, errors, rtol=1e-3, atol=1e-5)
    quick = found.elasticities("minutes", starts, goals, amounts, standard_errors=False, **arcs).by_arc(net)
    assert np.array_equal(quick.estimate, got.estimate) and np.isnan(quick.standard_error).all()


def test_the_flows_of_trips_match_their_features():
    """At the maximum of the likelihood, in a model with certain moves, expected features are the observed ones."""
    net, found = network(2), fit(2)
    rest = found.flows_of(trips(2)).observed_minus_predicted.by_arc(net)
    for name in NAMES:
        assert abs(rest.estimate @ net.attribute(name)) < 1e-4
    observed = np.zeros(net.num_arcs)
    cells = {(int(t), int(a)): e for e, (t, a) in enumerate(zip(net.tail, net.action, strict=True))}
    for state, action in zip(trips(2).states, trips(2).actions, strict=True):
        observed[cells[int(state), int(action)]] += 1
    demos = trips(2)
    model = oracles.flows(net, rewards_of(net, theta_of(found)), demos.start_states, demos.goals, demos.weights)
    assert np.allclose(rest.estimate, observed - model, atol=1e-9)


def test_flows_without_standard_errors_say_so():
    net = network(0)
    found = ix.MCEIRL().fit(net.mdp, net.linear(NAMES), trips(0))
    flows = found.flows(0, 3)
    assert np.isnan(flows.by_arc(net).standard_error).all() and np.isfinite(flows.estimate).all()


def test_what_is_not_identified_has_no_standard_error():
    net = network(0)
    doubled = net.with_attributes(again=net.attribute("minutes"))
    found = ix.MCEIRL(objective="likelihood").fit(doubled.mdp, doubled.linear([*NAMES, "again"]), trips(0))
    flows = found.flows(*demand(0)).by_arc(doubled)
    assert np.allclose(flows.standard_error, fit(0).flows(*demand(0)).by_arc(net).standard_error, rtol=1e-4)
    other = doubled.with_attributes(again=0.0)
    moved = found.flows(*demand(0), reward=other.linear([*NAMES, "again"])).by_arc(doubled)
    assert np.isnan(moved.standard_error).all()


def test_tables_name_the_largest_flows():
    net, found = network(0), fit(0)
    flows = found.flows(*demand(0))
    table = flows.by_arc(net).table(3)
    assert len(table.rows) == 3 and table.rows[0][1] >= table.rows[1][1] >= table.rows[2][1]
    assert table.rows[0][0].startswith("road ")
    assert "trips" in str(flows) and str(flows.minus(flows)) != ""


def test_parallel_arcs_without_names_are_not_confused():
    net = Network.from_arcs({"from": [0, 0, 0, 1], "to": [1, 1, 2, 2], "minutes": [1.0, 2, 3, 1], "toll": np.zeros(4)})
    with warnings.catch_warnings(action="ignore"):
        found = ix.MCEIRL(objective="likelihood", l2=0.1).fit(net.mdp, net.linear(NAMES), net.trips([[0, 2], [1, 2]]))
    closed = net.without([0])
    after = found.flows(0, 2, mdp=closed.mdp, reward=closed.linear(NAMES)).by_arc(closed)
    with pytest.raises(ValueError, match="not equally many in both networks"):
        after.minus(found.flows(0, 2).by_arc(net))


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda f, n: f.flows([0, 1, 2], [1, 2]), "one entry for each pair"),
        (lambda f, n: f.flows(0, 99), "goals. must lie in 0..7"),
        (lambda f, n: f.flows(0, 1, -1), "must not be negative"),
        (lambda f, n: f.flows(0, 1, level=2.0), "between 0 and 1"),
        (lambda f, n: f.flows(0, 1, mdp=n.without([3]).mdp), "also pass its `reward`"),
        (lambda f, n: f.flows(0, 1, reward=n.linear(["minutes"])), "must have the parameters of the fit"),
        (lambda f, n: f.flows(0, 1).by_arc(n.without([3])), "must be the network whose MDP"),
        (lambda f, n: f.elasticities("minutes", 0, 1, arcs=[1]), "also pass the network"),
        (lambda f, n: f.elasticities("colour", 0, 1), "must be one of minutes, toll"),
        (lambda f, n: f.values(0, 1).minus(f.values(0, 2)), "same things"),
        (lambda f, n: f.values(0, 1).minus(fit(1).values(0, 1)), "of one fit"),
        (lambda f, n: f.flows(0, 1).observed_minus_predicted, "flows_of"),
    ],
)
def test_mistakes_are_named(call, message):
    with pytest.raises((ValueError, TypeError), match=message):
        call(fit(0), network(0))


def test_a_goal_that_cannot_be_reached_is_named():
    net = Network.from_arcs({"from": [0, 1, 3], "to": [1, 2, 1], "minutes": [1.0, 2, 3], "toll": np.zeros(3)})
    with warnings.catch_warnings(action="ignore"):
        found = ix.MCEIRL(objective="likelihood", l2=0.1).fit(net.mdp, net.linear(NAMES), net.trips([[0, 1], [3, 1]]))
    with pytest.raises(ValueError, match="Goal 3 cannot be reached from states 0"):
        found.flows(0, 3)
