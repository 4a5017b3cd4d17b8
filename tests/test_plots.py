"""The plots of MDPs, plans, demonstrations, rewards and results: what is drawn, and where."""

import dataclasses

import jax
import numpy as np
import pytest
from matplotlib.figure import Figure

import irlax as ix
from irlax.estimators.tabular.demand_curve import DemandCurve
from tests.networks import random_frame

LAYOUT = ("S..", ".#G")
ENV = ix.envs.Gridworld(LAYOUT, horizon=4)
MDP = ENV.mdp
PLAN = ix.soft_plan(MDP, ENV.reward)
DEMOS = ix.rollout(MDP, PLAN, num=3, key=jax.random.key(0))
RISKY = ix.envs.RiskyPath().mdp
CURVE = DemandCurve(
    "price", 0, np.arange(3.0), np.arange(3.0), np.ones(3), np.tile([0.0, 2.0], (3, 1)), level=0.95, method="delta"
)


def board_of(ax):
    """The numbers of the picture on some axes; NaN where there is none."""
    (image,) = ax.images
    return np.ma.filled(image.get_array().astype(float), np.nan)


@pytest.mark.parametrize(
    "plot",
    [
        MDP.plot,
        lambda **on: MDP.plot(np.arange(5.0), name="a", title="b", **on),
        RISKY.plot,
        lambda **on: RISKY.plot(np.arange(4.0), **on),
        PLAN.plot,
        lambda **on: ix.soft_plan(RISKY, np.zeros(4)).plot(**on),
        DEMOS.plot,
        lambda **on: DEMOS.plot(MDP, **on),
        lambda **on: DEMOS.plot(MDP, by="paths", **on),
        lambda **on: ix.TabularReward("s", ENV.reward).plot(MDP, **on),
        lambda **on: ix.TabularReward("sa", np.arange(8.0).reshape(4, 2)).plot(RISKY, **on),
        CURVE.plot,
    ],
)
def test_a_plot_is_a_new_figure_or_drawn_on_the_given_axes(plot):
    figure = plot()
    assert isinstance(figure, Figure) and figure.axes[0].has_data()
    left, right = Figure().subplots(1, 2)
    assert plot(ax=right) is right
    assert right.has_data() and not left.has_data()


def test_axes_are_axes():
    with pytest.raises(TypeError, match=r"axes\[0\]"):
        MDP.plot(ax=Figure().subplots(1, 2))


def test_values_stand_in_their_cells():
    figure = MDP.plot(np.array([0.5, 1.0, 2.0, -np.inf, 4.0]), name="number")
    np.testing.assert_array_equal(board_of(figure.axes[0]), [[0.5, 1.0, 2.0], [np.nan, np.nan, 4.0]])
    assert [text.get_text() for text in figure.axes[0].texts] == ["S", "G"]
    assert figure.axes[1].get_ylabel() == "number"
    with pytest.raises(ValueError, match=r"\(S,\), one for each state"):
        MDP.plot(np.zeros(4))


def test_a_plan_is_drawn_at_its_time():
    for time in (0, 3):
        board = board_of(PLAN.plot(time=time).axes[0])
        np.testing.assert_allclose(board[[0, 0, 0, 1, 1], [0, 1, 2, 0, 2]], PLAN.value[time])
        np.testing.assert_allclose(PLAN.policy_at(time), PLAN.policy[time], rtol=1e-12)
        np.testing.assert_array_equal(PLAN.value_at(time), PLAN.value[time])
    with pytest.raises(ValueError, match="below the horizon, 4, but is 4"):
        PLAN.plot(time=4)
    with pytest.raises(ValueError, match="all times are alike"):
        ix.soft_plan(RISKY, np.zeros(4)).policy_at(1)


def test_the_policy_at_a_time_of_a_plan_that_keeps_few_values():
    small = ix.soft_plan(MDP, ENV.reward, low_memory=True)
    np.testing.assert_allclose(small.policy_at(2), PLAN.policy[2], rtol=1e-12)


def test_visits_are_counted_by_weight():
    demos = dataclasses.replace(DEMOS, weights=np.array([1.0, 2.0, 0.5]))
    expected = np.zeros(5)
    for k, weight in enumerate(demos.weights):
        for row in range(demos.offsets[k], demos.offsets[k + 1]):
            expected[demos.states[row]] += weight
    board = board_of(demos.plot(MDP).axes[0])
    np.testing.assert_allclose(board[[0, 0, 0, 1, 1], [0, 1, 2, 0, 2]], expected)
    lengths = [bar.get_width() for bar in demos.plot().axes[0].patches]
    np.testing.assert_allclose(lengths, np.trim_zeros(expected, "b"))


def test_paths_lead_through_the_cells_of_their_states():
    ax = DEMOS.plot(MDP, by="paths").axes[0]
    lines = [line for line in ax.lines if len(line.get_xdata()) > 1]
    assert len(lines) == 3
    cells = np.array([[0, 0], [0, 1], [0, 2], [1, 0], [1, 2]])
    for k, line in enumerate(lines):
        rows = slice(DEMOS.offsets[k], DEMOS.offsets[k + 1])
        states = np.append(DEMOS.states[rows], DEMOS.next_states[rows][-1])
        np.testing.assert_array_equal(np.rint(np.stack([line.get_ydata(), line.get_xdata()], axis=1)), cells[states])
    with pytest.raises(ValueError, match="pass the `mdp`"):
        DEMOS.plot(by="paths")
    with pytest.raises(ValueError, match="with a layout or places"):
        ix.rollout(
            RISKY, np.full((4, 2), 0.5) * [[1, 1], [2, 0], [2, 0], [2, 0]], num=1, length=2, key=jax.random.key(0)
        ).plot(RISKY, by="paths")


def test_a_reward_of_actions_has_a_picture_for_each():
    reward = ix.TabularReward("sa", np.arange(20.0).reshape(5, 4))
    figure = reward.plot(MDP)
    pictures = [ax for ax in figure.axes if ax.get_title()]
    assert [ax.get_title() for ax in pictures] == ["up", "right", "down", "left"]
    np.testing.assert_array_equal(board_of(pictures[1]), [[1, 5, 9], [13, np.nan, 17]])
    with pytest.raises(ValueError, match="a picture for each"):
        reward.plot(MDP, ax=Figure().subplots())


def test_the_graph_of_moves_has_an_arrow_for_each_pair_of_states():
    figure = RISKY.plot()
    (arrows,) = [each for each in figure.axes[0].collections if hasattr(each, "U")]
    graph = RISKY.successor_graph().toarray() > 0
    assert graph.sum() - np.trace(graph) == arrows.N
    large = ix.envs.RandomMDP(61, 2, seed=0).mdp
    with pytest.raises(ValueError, match="at most 60 states"):
        large.plot()
    assert figure.axes[0].texts[0].get_text() == "start s0"
    # Of many states the largest values are shown, in the order of the states.
    bars = large.plot(np.arange(61.0)).axes[0]
    assert [bar.get_width() for bar in bars.patches] == list(range(31, 61))


def test_networks_and_their_mdps_are_maps():
    frame = random_frame(0, kind="int")
    nodes = np.unique(frame[["from", "to"]].to_numpy())
    places = np.stack([np.cos(nodes), np.sin(nodes)], axis=1)
    net = ix.routes.Network.from_arcs(frame, tail="from", head="to")
    mdp = net.mdp.labelled(places=places[: net.num_states])
    assert isinstance(mdp.plot(), Figure)
    ax = Figure().subplots()
    assert mdp.plot(np.arange(net.num_states), ax=ax) is ax
    np.testing.assert_array_equal(np.sort(ax.collections[1].get_array()), np.arange(net.num_states))
