"""Episodes that end at goals of their own: in tables, in files, and checked against an MDP."""

import dataclasses

import equinox as eqx
import numpy as np
import pandas as pd
import pytest

from irlax import MDP, Demonstrations, load_mdp, read_demos, save_mdp, statistics_from_parquet, write_demos

NAMES = {"episode": "episode", "time": "t", "state": "state", "action": "action"}
EXTRA = {"next_state": "next_state", "terminated": "terminated", "goal": "goal"}


def walks():
    """Two walks along 0 → 1 → 2 → 3 (action 0 goes on, 1 goes back): to 2 and to 3."""
    return pd.DataFrame(
        {
            "episode": [0, 0, 1, 1, 1],
            "t": [0, 1, 0, 1, 2],
            "state": [0, 1, 2, 1, 2],
            "action": [0, 0, 1, 0, 0],
            "next_state": [1, 2, 1, 2, 3],
            "terminated": True,
            "goal": [2, 2, 3, 3, 3],
        }
    )


def line(**options):
    successors = np.array([[1, 0], [2, 0], [3, 1], [3, 2]])[..., None]
    return MDP.from_successors(successors, np.ones((4, 2, 1)), np.full(4, 0.25), discount=1.0, **options)


def demonstrations(**columns):
    return Demonstrations.from_frame(walks().assign(**columns), **NAMES, **EXTRA)


def test_goals_come_from_a_frame_and_go_back_to_it():
    demos = demonstrations()
    assert demos.goals.tolist() == [2, 3]
    pd.testing.assert_frame_equal(demos.to_frame(), walks(), check_dtype=False)
    demos.check(line(ends_at_goal=True))


@pytest.mark.parametrize("suffix", ["csv", "parquet", "npz"])
def test_files_keep_goals(tmp_path, suffix):
    demos = dataclasses.replace(demonstrations(), labels=None)
    write_demos(tmp_path / f"walks.{suffix}", demos)
    assert eqx.tree_equal(read_demos(tmp_path / f"walks.{suffix}"), demos)


def test_another_column_may_hold_the_goals(tmp_path):
    walks().rename(columns={"goal": "to"}).to_csv(tmp_path / "walks.csv", index=False)
    assert read_demos(tmp_path / "walks.csv").goals is None
    assert read_demos(tmp_path / "walks.csv", goal="to").goals.tolist() == [2, 3]


def test_a_goal_that_changes_within_an_episode_is_refused():
    with pytest.raises(ValueError, match=r"Column `goal` must be the same .* but row 3 \(episode 1, t = 1\) has 2"):
        demonstrations(goal=[2, 2, 3, 2, 3])


@pytest.mark.parametrize("goals, message", [([2, -1], "negative"), ([2], "must have shape"), ([0.5, 1], "integers")])
def test_goals_in_an_archive_are_checked(tmp_path, goals, message):
    arrays = {"states": [0, 1], "actions": [0, 0], "offsets": [0, 1, 2], "terminated": [True, True], "goals": goals}
    np.savez(tmp_path / "demos.npz", **arrays)
    with pytest.raises((ValueError, TypeError), match=message):
        read_demos(tmp_path / "demos.npz")


@pytest.mark.parametrize(
    "columns, message",
    [
        ({"goal": [2, 2, 9, 9, 9]}, r"goal must lie in 0..3, but row 2 \(episode 1, t = 0\) has 9"),
        ({"goal": [1, 1, 3, 3, 3]}, r"not be reached before its end, .* but row 1 \(episode 0, t = 1\) has 1"),
        ({"goal": [3, 3, 3, 3, 3]}, r"must be its goal, but row 1 \(episode 0, t = 1\) has 2"),
        ({"goal": [2, 2, 1, 1, 1], "t": [0, 1, 0, 2, 3], "state": [0, 1, 2, 2, 2], "next_state": [1, 2, 1, 2, 3]},
         r"not be reached before its end, .* but row 2"),
    ],
)  # fmt: skip
def test_an_episode_ends_where_it_first_reaches_its_goal(columns, message):
    with pytest.raises(ValueError, match=message):
        demonstrations(**columns).check(line(ends_at_goal=True))


def test_a_truncated_episode_need_not_reach_its_goal():
    demonstrations(goal=[3, 3, 3, 3, 3], terminated=False).check(line(ends_at_goal=True))


def test_statistics_have_no_goals(tmp_path):
    walks().to_parquet(tmp_path / "walks.parquet")
    with pytest.raises(ValueError, match="Statistics have no goals, but the file has a column `goal`"):
        statistics_from_parquet(tmp_path / "walks.parquet", num_states=4, num_actions=2, discount=0.9)


@pytest.mark.parametrize("ends", [True, False])
def test_a_file_says_whether_episodes_end_at_goals(tmp_path, ends):
    save_mdp(tmp_path / "line.npz", line(ends_at_goal=ends, horizon=None if ends else 9))
    assert load_mdp(tmp_path / "line.npz").ends_at_goal is ends
    with np.load(tmp_path / "line.npz") as arrays:
        assert ("ends_at_goal" in arrays) is ends


@pytest.mark.parametrize("stated", [1, [True], "yes"])
def test_whether_episodes_end_at_goals_is_true_or_false(tmp_path, stated):
    np.savez(tmp_path / "m.npz", transitions=np.ones((1, 1, 1)), initial=[1.0], discount=0.9, ends_at_goal=stated)
    with pytest.raises(TypeError, match="`ends_at_goal` must be true or false"):
        load_mdp(tmp_path / "m.npz")
