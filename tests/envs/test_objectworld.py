import dataclasses
import math

import numpy as np
import pytest

from irlax import expected_return, hard_plan
from irlax.envs.objectworld import Objectworld
from irlax.mdp import Deterministic
from tests.problems import assert_equal

WORLDS = [
    Objectworld(size=6, num_objects=5, seed=0),
    Objectworld(size=7, num_objects=12, num_colours=3, slip=0.1, seed=1),
    Objectworld(size=5, num_objects=25, num_colours=4, slip=0.8, seed=2),
    # So few objects that some colours are missing.
    Objectworld(size=4, num_objects=2, num_colours=3, slip=0.0, seed=3),
]


def all_cells(world):
    return [(row, column) for row in range(world.size) for column in range(world.size)]


def nearest(world, cell, which, colour):
    """The distance from a cell to the nearest object whose outer (2) or inner (3) colour is `colour`."""
    best = math.sqrt(2 * world.size**2)
    for thing in world.objects.tolist():
        if thing[which] == colour:
            best = min(best, math.sqrt((cell[0] - thing[0]) ** 2 + (cell[1] - thing[1]) ** 2))
    return best


def continuous(world, cell):
    return [nearest(world, cell, which, colour) for which in (2, 3) for colour in range(world.num_colours)]


@pytest.mark.parametrize("world", WORLDS)
def test_features_are_distances_to_the_nearest_object_of_each_colour(world):
    assert_equal(world.features(), [continuous(world, cell) for cell in all_cells(world)])
    assert_equal(world.features("continuous"), world.features())


@pytest.mark.parametrize("world", WORLDS)
def test_discrete_features_say_which_distances_are_below_1_to_n(world):
    expected = [
        [float(distance < d) for distance in continuous(world, cell) for d in range(1, world.size + 1)]
        for cell in all_cells(world)
    ]
    features = world.features("discrete")
    assert features.dtype == np.float64
    assert features.shape == (world.size**2, 2 * world.num_colours * world.size)
    assert np.array_equal(features, expected)


@pytest.mark.parametrize("world", WORLDS)
def test_reward_follows_the_rule_of_levine_popovic_and_koltun(world):
    expected = []
    for cell in all_cells(world):
        if nearest(world, cell, 2, 0) < 3 and nearest(world, cell, 2, 1) < 2:
            expected.append(1.0)
        elif nearest(world, cell, 2, 0) < 3:
            expected.append(-1.0)
        else:
            expected.append(0.0)
    assert np.array_equal(world.reward, expected)


@pytest.mark.parametrize("world", WORLDS)
def test_moves_go_astray_with_the_slip_spread_over_the_other_four(world):
    moves = [(-1, 0), (0, 1), (1, 0), (0, -1), (0, 0)]
    num_states = world.size**2
    expected = np.zeros((num_states, 5, num_states))
    for state, (row, column) in enumerate(all_cells(world)):
        for action in range(5):
            for happens, (down, right) in enumerate(moves):
                there = (row + down, column + right)
                if min(there) < 0 or max(there) >= world.size:
                    there = (row, column)
                chance = 1 - world.slip if happens == action else world.slip / 4
                expected[state, action, there[0] * world.size + there[1]] += chance
    assert_equal(world.mdp.dynamics.to_dense(), expected)
    assert isinstance(world.mdp.dynamics, Deterministic) == (world.slip == 0)
    assert len(world.action_names) == 5


@pytest.mark.parametrize("horizon", [None, 7])
def test_mdp_has_the_discount_the_horizon_and_starts_anywhere(horizon):
    mdp = Objectworld(size=4, num_objects=3, discount=0.8, horizon=horizon).mdp
    assert mdp.discount == 0.8
    assert mdp.horizon == horizon
    assert_equal(mdp.initial, np.full(16, 1 / 16))


@pytest.mark.parametrize("world", WORLDS)
def test_objects_lie_in_different_cells_of_the_board(world):
    rows, columns, *colours = world.objects.T
    assert len({*zip(rows.tolist(), columns.tolist(), strict=True)}) == world.num_objects
    assert rows.min() >= 0 and columns.min() >= 0
    assert rows.max() < world.size and columns.max() < world.size
    assert np.min(colours) >= 0 and np.max(colours) < world.num_colours


def test_the_seed_alone_decides_where_things_are():
    world = Objectworld(size=8, num_objects=10, seed=5)
    again, other = dataclasses.replace(world), dataclasses.replace(world, seed=6)
    assert np.array_equal(world.objects, again.objects)
    assert not np.array_equal(world.objects, other.objects)


def test_defaults_are_those_of_the_published_benchmark():
    world = Objectworld()
    assert world.shape == (32, 32)
    assert world.features().shape == (1024, 4)
    assert world.features("discrete").shape == (1024, 128)
    assert world.mdp.num_actions == 5
    assert world.mdp.discount == 0.9
    assert world.mdp.horizon is None
    # All three rewards occur, each in more than 1% of the cells.
    assert all(np.mean(world.reward == paid) > 0.01 for paid in (-1, 0, 1))


def test_reward_is_a_function_of_the_discrete_features_but_linear_in_neither():
    world = Objectworld()
    for kind in ("continuous", "discrete"):
        design = np.column_stack([world.features(kind), np.ones(1024)])
        fitted = design @ np.linalg.lstsq(design, world.reward)[0]
        assert np.sqrt(np.mean((world.reward - fitted) ** 2)) > 0.1
    _, group = np.unique(world.features("discrete"), axis=0, return_inverse=True)
    for k in range(group.max() + 1):
        assert len(set(world.reward[group == k])) == 1


def test_features_that_are_changed_leave_the_world_as_it_was():
    world = Objectworld(size=4, num_objects=3)
    world.features()[:] = 0
    assert (world.features() > 0).any()


def test_an_empty_world_pays_nothing_and_everything_is_far():
    world = Objectworld(size=3, num_objects=0)
    assert np.array_equal(world.reward, np.zeros(9))
    assert_equal(world.features(), np.full((9, 4), np.sqrt(18)))
    assert not world.features("discrete").any()


def test_boards_are_pictures_of_values_over_states():
    world = Objectworld(size=5, num_objects=4, seed=1)
    board = world.to_board(np.arange(25.0))
    assert board.shape == world.shape == (5, 5)
    for state, (row, column) in enumerate(world.cells.tolist()):
        assert board[row, column] == state


def test_features_are_named_in_order():
    world = Objectworld(size=2, num_objects=1)
    assert world.feature_names() == ["outer 0", "outer 1", "inner 0", "inner 1"]
    assert world.feature_names("discrete")[:3] == ["outer 0 < 1", "outer 0 < 2", "outer 1 < 1"]
    assert len(world.feature_names("discrete")) == world.features("discrete").shape[1]


def test_planning_finds_the_places_that_pay():
    world = Objectworld(size=12, num_objects=12, seed=2)
    best = expected_return(world.mdp, hard_plan(world.mdp, world.reward), world.reward)
    aimless = expected_return(world.mdp, np.full((144, 5), 0.2), world.reward)
    assert best > 1
    assert aimless < 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"size": 0}, "`size` must be at least 1"),
        ({"size": 2, "num_objects": 5}, "at most 4, one for each cell"),
        ({"num_objects": -1}, "`num_objects` must be at least 0"),
        ({"num_colours": 1}, "`num_colours` must be at least 2"),
        ({"slip": 0.9}, r"`slip` must lie between 0 and 0\.8"),
        ({"slip": -0.1}, r"`slip` must lie between 0 and 0\.8"),
        ({"seed": -1}, "`seed` must be at least 0"),
        ({"discount": 1.5}, "`discount` must lie between 0 and 1"),
        ({"horizon": 0}, "`horizon` must be at least 1"),
    ],
)
def test_worlds_that_cannot_be_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        Objectworld(**options)


@pytest.mark.parametrize("method", ["features", "feature_names"])
def test_an_unknown_kind_of_features_is_refused(as_a_user, method):
    with pytest.raises(ValueError, match="`kind` must be one of 'continuous', 'discrete', but is 'binary'"):
        getattr(Objectworld(size=3, num_objects=1), method)("binary")
