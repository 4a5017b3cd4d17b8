"""Networks and fits as maps: what is drawn where."""

import jax
import numpy as np
import pytest

import irlax as ix
from irlax.estimators.goals.goal_map import fit_map, observed_uses, predicted_uses
from irlax.mdp import Labels
from irlax.mdp.npz import load_mdp, save_mdp
from irlax.planning.goals.options import Options
from irlax.report import maps

#: Four nodes in a square; the streets of its sides lead both ways, its diagonal one way.
PLACES = {"a": (0.0, 0.0), "b": (1.0, 0.0), "c": (1.0, 1.0), "d": (0.0, 1.0)}
STREETS = [("a", "b"), ("b", "a"), ("b", "c"), ("c", "b"), ("c", "d"), ("d", "c"), ("d", "a"), ("a", "d"), ("a", "c")]
TRIPS = [["a", "b", "c"], ["a", "c"], ["a", "b", "c", "d"], ["b", "a", "d"], ["b", "c", "d"], ["a", "b"], ["a", "d"]]


def square():
    tail, head = zip(*STREETS, strict=True)
    minutes = [2.0, 2.0, 2.0, 3.0, 2.0, 2.0, 1.5, 1.0, 4.0]
    return ix.routes.Network.from_arcs({"from": tail, "to": head, "minutes": minutes}, nodes=PLACES)


def fitted(net, trips):
    return ix.MCEIRL(objective="likelihood", l2=0.1, progress=False).fit(net.mdp, net.linear(["minutes"]), trips)


def test_places_are_kept_in_files_and_tell_labels_apart(tmp_path):
    mdp = square().mdp
    assert np.array_equal(mdp.labels.places[1], [1, 0, 1, 0])
    save_mdp(tmp_path / "mdp.npz", mdp)
    again = load_mdp(tmp_path / "mdp.npz")
    assert again.labels == mdp.labels and hash(again.labels) == hash(mdp.labels)
    assert mdp.labelled(places=np.zeros((4, 2))).labels != mdp.labels
    assert Labels() != mdp.labels


@pytest.mark.parametrize(
    ("places", "message"),
    [(np.zeros((3, 2)), "`places` must have shape"), (np.zeros((4, 3)), "2 columns"), (np.full((4, 2), np.nan), "fin")],
)
def test_wrong_places_are_refused(places, message):
    with pytest.raises(ValueError, match=message):
        square().mdp.labelled(places=places)


def test_a_link_lies_between_its_nodes():
    net = square().links_as_states()
    place = net.mdp.labels.places[net.state_of(("a", "c"))]
    assert place.tolist() == [0, 0, 1, 1]
    assert net.mdp.labels.places[net.goal_of("c")].tolist() == [1, 1, 1, 1]


def test_only_streets_both_ways_are_drawn_aside():
    net = square()
    segments = np.concatenate([net.places[net.tail, :2], net.places[net.head, :2]], axis=1)
    assert maps.two_way(segments).tolist() == [True] * 8 + [False]


def test_both_directions_are_drawn_on_their_right():
    figure, (ax,) = maps.panels(np.array([[0.0, 0, 1, 0], [1, 0, 0, 0]]), 1)
    maps.network_map(figure, ax, np.array([[0.0, 0, 1, 0], [1, 0, 0, 0]]), np.array([1.0, 2.0]), bar="trips")
    paths = ax.collections[-1].get_paths()
    assert paths[0].vertices[0, 1] < 0 < paths[1].vertices[0, 1]


def test_expected_uses_are_those_of_simulated_trips():
    net = square()
    fit = fitted(net, net.trips(TRIPS))
    starts, goals = np.repeat(fit.demos.start_states, 2000), np.repeat(fit.demos.goals, 2000)
    drawn = fit.simulate(starts, goals, key=jax.random.key(0))
    option = Options.of(fit.mdp).of_cells(fit.mdp, drawn.tabular_states, np.asarray(drawn.actions))
    frequency = np.bincount(option, minlength=net.num_arcs) / 2000
    assert np.allclose(predicted_uses(fit), frequency, atol=0.15)
    assert observed_uses(fit.mdp, fit.demos).sum() == fit.num_choices


def test_flows_of_nodes_and_of_links_are_one_map():
    by_arc = fit_map(fitted(square(), square().trips(TRIPS)))
    links = square().links_as_states()
    by_link = fit_map(fitted(links, links.node_trips(TRIPS)))
    assert (by_arc.kind, by_link.kind) == ("arc", "link")
    observed = {tuple(segment): flow for segment, flow in zip(by_arc.segments, by_arc.observed, strict=True)}
    assert all(observed[tuple(s)] == flow for s, flow in zip(by_link.segments, by_link.observed, strict=True))


def test_a_fit_is_drawn_as_maps_where_places_are_known(tmp_path):
    net = square()
    fit = fitted(net, net.trips(TRIPS))
    fit.save(tmp_path / "run")
    again = ix.load(tmp_path / "run")
    titles = [ax.get_title() for ax in again.plot().axes if ax.get_title()]
    assert titles == ["reward of each arc", "expected by the model", "observed − expected"]
    assert "Flows on the map" in again.page().render()
    plain = ix.routes.Network.from_arcs({"from": net.tail, "to": net.head, "minutes": net.attribute("minutes")})
    fit = fitted(plain, plain.trips([[0, 1, 2], [0, 2], [0, 3]]))
    assert fit_map(fit) is None and "map" not in fit.page().render()
    fit.plot()


def test_a_network_is_drawn_with_attributes_and_numbers():
    net = square()
    assert len(net.plot().axes) == 1
    assert net.plot("minutes").axes[-1].get_ylabel() == "minutes"
    assert len(net.plot(np.arange(4.0), by="state", name="visits").axes) == 2
    links = net.links_as_states()
    assert links.plot("minutes").axes[-1].get_ylabel() == "minutes"
    links.plot(np.arange(float(links.num_states)))
    with pytest.raises(ValueError, match="turns"):
        links.plot(np.zeros(links.num_arcs), by="arc")
    with pytest.raises(ValueError, match="`values` must have shape"):
        net.plot(np.zeros(3))
    with pytest.raises(ValueError, match="coordinates"):
        ix.routes.Network.from_arcs({"from": [1], "to": [2]}).plot()


@pytest.mark.parametrize(
    ("values", "ends"),
    [([0.0, 2], (0, 2)), ([-3.0, -1], (-3, 0)), ([-1.0, 2], (-2, 2)), ([], (0, 1)), ([np.nan, 4], (0, 4))],
)
def test_a_scale_starts_at_zero_or_is_symmetric(values, ends):
    assert maps.scale_of(np.array(values))[:2] == ends
    assert maps.scale_of(np.array([0.0, 2]), signed=True)[:2] == (-2, 2)
