import re

import numpy as np
import pytest

from irlax import hard_plan, soft_plan
from irlax.envs import Gridworld, RandomMDP, RiskyPath, TwoStateCycle, cliff
from irlax.mdp import Dense, Deterministic, Successors
from tests.problems import assert_equal

UP, RIGHT, DOWN, LEFT, STAY = range(5)


def refuses(message, error=ValueError):
    return pytest.raises(error, match=re.escape(message))


# RiskyPath: Primer, Figure 1.


def test_risky_path_is_the_primers_figure():
    env = RiskyPath(discount=0.8)
    mdp = env.mdp
    moves = {
        (0, RiskyPath.SAFE): {1: 1.0},
        (0, RiskyPath.RISKY): {2: 0.5, 3: 0.5},
        (1, 0): {2: 1.0},
        (2, 0): {2: 1.0},
        (3, 0): {3: 1.0},
    }
    transitions = mdp.dynamics.to_dense()
    assert {tuple(map(int, place)) for place in np.argwhere(mdp.available)} == set(moves)
    for (s, a), after in moves.items():
        assert transitions[s, a].tolist() == [after.get(state, 0.0) for state in range(4)]
    assert env.reward.tolist() == [0, 0, 1, -100]
    assert mdp.initial.tolist() == [1, 0, 0, 0]
    assert mdp.absorbing.tolist() == [False, False, True, True]
    assert (mdp.discount, mdp.horizon) == (0.8, None)
    assert RiskyPath(horizon=3).mdp.horizon == 3


@pytest.mark.parametrize("discount", [0.1, 0.5, 0.9])
def test_safe_way_has_the_higher_return_on_risky_path(discount):
    env = RiskyPath(discount=discount)
    plan = hard_plan(env.mdp, env.reward)
    assert plan.policy[0].tolist() == [1, 0]
    assert abs(plan.value[0] - discount**2 / (1 - discount)) <= plan.error_bound


# Gridworlds.

MAZE = ["S.#", "..G", "X#."]


def grid(**options):
    return Gridworld(MAZE, **options)


def at(env, row, column):
    return int(env.state_at[row, column])


def go(env, row, column, action):
    """The cells that a move leads to, each with its probability."""
    row_of = env.mdp.dynamics.to_dense()[at(env, row, column), action]
    return {tuple(map(int, env.cells[s])): float(row_of[s]) for s in np.flatnonzero(row_of)}


def test_states_are_the_cells_that_are_no_walls():
    env = grid()
    assert env.cells.tolist() == [[0, 0], [0, 1], [1, 0], [1, 1], [1, 2], [2, 0], [2, 2]]
    assert env.state_at.tolist() == [[0, 1, -1], [2, 3, 4], [5, -1, 6]]
    assert env.mdp.num_states == 7
    assert env.mdp.num_actions == 4
    assert env.shape == (3, 3)


def test_moves_lead_to_the_next_cell():
    env = grid()
    assert go(env, 1, 1, UP) == {(0, 1): 1}
    assert go(env, 1, 1, RIGHT) == {(1, 2): 1}
    assert go(env, 1, 0, DOWN) == {(2, 0): 1}
    assert go(env, 1, 1, LEFT) == {(1, 0): 1}
    assert isinstance(env.mdp.dynamics, Deterministic)


def test_walls_and_edges_are_bumped_into():
    env = grid()
    assert go(env, 1, 1, DOWN) == {(1, 1): 1}
    assert go(env, 0, 1, RIGHT) == {(0, 1): 1}
    assert go(env, 0, 0, UP) == {(0, 0): 1}
    assert go(env, 0, 0, LEFT) == {(0, 0): 1}
    assert go(env, 2, 2, DOWN) == {(2, 2): 1}
    assert np.all(env.mdp.available)


def test_moves_that_bump_do_not_exist_if_told_so():
    env = grid(bump="unavailable")
    possible = {
        tuple(cell): [a for a in range(4) if env.mdp.available[s, a]] for s, cell in enumerate(env.cells.tolist())
    }
    assert possible == {
        (0, 0): [RIGHT, DOWN],
        (0, 1): [DOWN, LEFT],
        (1, 0): [UP, RIGHT, DOWN],
        (1, 1): [UP, RIGHT, LEFT],
        (1, 2): [DOWN, LEFT],
        (2, 0): [UP],
        (2, 2): [UP],
    }


def test_staying_is_a_fifth_action():
    env = grid(stay=True)
    assert env.mdp.num_actions == 5
    assert all(go(env, row, column, STAY) == {(row, column): 1} for row, column in env.cells.tolist())
    assert np.all(grid(stay=True, bump="unavailable").mdp.available[:, STAY])


def test_a_slip_draws_from_all_moves():
    env = grid(slip=0.2)
    assert go(env, 1, 1, UP) == pytest.approx({(0, 1): 0.85, (1, 2): 0.05, (1, 1): 0.05, (1, 0): 0.05})
    # Two of the four moves bump in the corner, so staying has both their shares.
    assert go(env, 0, 0, RIGHT) == pytest.approx({(0, 1): 0.85, (1, 0): 0.05, (0, 0): 0.1})
    assert go(grid(slip=0.2, stay=True), 0, 0, STAY) == pytest.approx({(0, 0): 0.92, (0, 1): 0.04, (1, 0): 0.04})
    assert isinstance(env.mdp.dynamics, Successors)


def test_a_sure_slip_makes_all_moves_alike():
    transitions = grid(slip=1.0).mdp.dynamics.to_dense()
    assert_equal(transitions, np.repeat(transitions[:, :1], 4, axis=1))


@pytest.mark.parametrize("slip", [0.0, 0.3])
def test_goals_and_hazards_end_the_walk_if_told_so(slip):
    env = grid(ends=True, slip=slip)
    ends = [at(env, 1, 2), at(env, 2, 0)]
    assert np.flatnonzero(env.mdp.absorbing).tolist() == ends
    assert np.asarray(env.mdp.available)[ends].sum(axis=1).tolist() == [1, 1]
    assert not grid(slip=slip).mdp.absorbing.any()


def test_rewards_stand_on_their_cells():
    env = grid(step_reward=-0.5, goal_reward=3.0, hazard_reward=-7.0)
    assert env.reward.tolist() == [-0.5, -0.5, -0.5, -0.5, 3.0, -7.0, -0.5]
    picture = env.to_board(env.reward, fill=0.0)
    assert picture.tolist() == [[-0.5, -0.5, 0.0], [-0.5, -0.5, 3.0], [-7.0, 0.0, -0.5]]


def test_starts_are_shared_equally_and_without_any_every_free_cell_is_one():
    assert grid().mdp.initial.tolist() == [1, 0, 0, 0, 0, 0, 0]
    assert Gridworld(["S.S"]).mdp.initial.tolist() == [0.5, 0, 0.5]
    assert Gridworld([".G.X"]).mdp.initial.tolist() == [0.5, 0, 0.5, 0]
    assert Gridworld(["GX"]).mdp.initial.tolist() == [0.5, 0.5]


def test_open_boards_have_goals_where_they_are_put():
    env = Gridworld.open(2, 3, goals=[(0, 2)], discount=0.7, horizon=5)
    assert env.layout == ("..G", "...")
    assert (env.mdp.num_states, env.mdp.discount, env.mdp.horizon) == (6, 0.7, 5)


def test_an_undiscounted_walk_to_a_goal_is_proper():
    env = Gridworld(["S..", "..G"], ends=True, step_reward=-2.0, goal_reward=0.0, discount=1.0)
    value = soft_plan(env.mdp, env.reward).value
    assert np.isfinite(value).all()
    assert value[at(env, 1, 2)] == 0


@pytest.mark.parametrize(
    ("layout", "message"),
    [
        ([], "`layout` must have at least one row of cells."),
        ([""], "`layout` must have at least one row of cells."),
        (["..", "."], "`layout` must have rows of equal length, but they have [1, 2]."),
        (["a.", ".b"], "`layout` may use the characters '.#SGX', but has a, b."),
        (["##"], "`layout` must have at least one cell that is not a wall."),
    ],
)
def test_layouts_that_are_none_are_refused(layout, message):
    with refuses(message):
        Gridworld(layout)


@pytest.mark.parametrize("slip", [-0.1, 1.1])
def test_slip_is_a_probability(slip):
    with refuses(f"`slip` must lie between 0 and 1, but is {slip}."):
        grid(slip=slip)


def test_a_slip_cannot_be_kept_from_the_wall():
    with refuses("`bump='unavailable'` needs slip = 0"):
        grid(bump="unavailable", slip=0.1)


@pytest.mark.usefixtures("as_a_user")
def test_bumps_are_of_two_kinds():
    with refuses("`bump` must be one of 'stay', 'unavailable', but is 'bounce'."):
        grid(bump="bounce")


def test_a_walled_in_cell_without_moves_is_refused():
    with refuses("No move is possible from cells [0, 0]."):
        Gridworld([".#.."], bump="unavailable").mdp


def test_goals_off_the_board_are_refused():
    with refuses("The goal (2, 0) is not on the 2×3 board."):
        Gridworld.open(2, 3, goals=[(2, 0)])


# The cliff.


def test_cliff_lies_between_start_and_goal():
    env = cliff(height=3, width=4)
    assert env.layout == ("....", "....", "SXXG")
    assert env.reward[env.state_at].tolist() == [[-1] * 4, [-1] * 4, [-1, -100, -100, 0]]
    assert np.flatnonzero(env.mdp.absorbing).tolist() == [9, 10, 11]
    assert env.mdp.initial[at(env, 2, 0)] == 1
    assert cliff().shape == (4, 12)


def test_the_best_walk_goes_along_the_edge():
    env = cliff(height=3, width=4, discount=1.0)
    plan = hard_plan(env.mdp.replace(horizon=12), env.reward)
    # Up, three to the right, down: five steps at a cost of 1, and the goal is free.
    assert plan.value[0, at(env, 2, 0)] == -5


def test_a_slippery_cliff_is_walked_with_distance():
    best = {}
    for slip in (0.0, 0.4):
        env = cliff(height=4, width=6, slip=slip, discount=0.99)
        best[slip] = hard_plan(env.mdp, env.reward).policy[at(env, 2, 1)]
    assert best[0.0][RIGHT] == 1
    assert best[0.4][RIGHT] == 0


@pytest.mark.parametrize(("height", "width"), [(1, 5), (4, 2)])
def test_a_cliff_needs_room(height, width):
    with pytest.raises(ValueError, match="must be at least"):
        cliff(height=height, width=width)


# The two-state cycle.


def test_two_state_cycle_alternates():
    env = TwoStateCycle(discount=0.6)
    assert env.mdp.dynamics.to_dense().tolist() == [[[0, 1], [0, 1]], [[1, 0], [1, 0]]]
    assert env.mdp.initial.tolist() == [0.5, 0.5]
    assert env.reward.tolist() == [1, 0]
    assert env.mdp.discount == 0.6


def test_two_state_cycle_with_self_loops_can_stay():
    env = TwoStateCycle(self_loops=True, horizon=4)
    assert env.mdp.dynamics.to_dense().tolist() == [[[0, 1], [1, 0]], [[1, 0], [0, 1]]]
    assert env.mdp.horizon == 4


def test_state_rewards_cannot_be_told_apart_on_the_two_state_cycle():
    """Both actions do the same, so every state-only reward gives the uniform policy."""
    for reward in ([1.0, 0.0], [-3.0, 5.0]):
        assert_equal(soft_plan(TwoStateCycle().mdp, np.array(reward)).policy, np.full((2, 2), 0.5))
    loops = TwoStateCycle(self_loops=True)
    assert soft_plan(loops.mdp, loops.reward).policy[0, 1] > 0.6


# Random MDPs.


@pytest.mark.parametrize(("branching", "kind"), [(None, Dense), (1, Deterministic), (3, Successors)])
def test_random_mdps_are_as_sparse_as_asked(branching, kind):
    mdp = RandomMDP(num_states=8, num_actions=3, branching=branching).mdp
    assert isinstance(mdp.dynamics, kind)
    transitions = mdp.dynamics.to_dense()
    assert ((transitions > 0).sum(axis=-1) == (branching or 8)).all()
    assert_equal(transitions.sum(axis=-1), np.ones((8, 3)))
    assert_equal(np.sum(mdp.initial), 1.0)


def test_large_random_mdps_branch_no_wider_than_asked():
    mdp = RandomMDP(num_states=3000, num_actions=2, branching=4).mdp
    assert mdp.dynamics.successors.shape == (4, 2, 3000)


def test_random_mdps_are_set_by_their_seed():
    def arrays(seed):
        env = RandomMDP(seed=seed)
        return env.mdp.dynamics.to_dense(), env.reward

    for first, again, other in zip(arrays(0), arrays(0), arrays(1), strict=True):
        assert np.array_equal(first, again)
        assert not np.array_equal(first, other)


def test_random_mdps_lack_the_share_of_actions_that_is_asked_for():
    available = RandomMDP(num_states=500, num_actions=8, unavailable=0.5).mdp.available
    assert available.any(axis=1).all()
    # Half of eight, and one more half of the time, for the action that each state keeps.
    assert abs(available.mean() - (0.5 + 0.5 / 8)) < 0.03
    assert np.all(RandomMDP().mdp.available)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"num_states": 0}, "`num_states` must be at least 1, but is 0."),
        ({"num_actions": -1}, "`num_actions` must be at least 1, but is -1."),
        ({"branching": 0}, "`branching` must be at least 1, but is 0."),
        ({"num_states": 3, "branching": 4}, "`branching` must be at most 3 states, but is 4."),
        ({"unavailable": 1.0}, "`unavailable` must lie in [0, 1), but is 1.0."),
    ],
)
def test_random_mdps_that_cannot_be_are_refused(options, message):
    with refuses(message):
        RandomMDP(**options)
