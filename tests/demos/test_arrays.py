"""Demonstrations from arrays: a row's next state and the next row's state are one and the same."""

import numpy as np
import pytest

from irlax import Demonstrations, read_demos
from irlax.demos.demonstrations import from_rows


def test_next_states_that_contradict_the_next_row_are_refused():
    states, after = [[0, 1, 2], [2, 1, 0]], [[1, 2, 0], [1, 1, 0]]
    message = r"row 4 \(episode 1, t = 1\) leads to state 1, and row 5 is in state 0"
    with pytest.raises(ValueError, match=message):
        Demonstrations.from_arrays(states, np.zeros((2, 3), int), next_states=after)
    # Beyond the end of an episode nothing is compared, and padding is nothing.
    demos = Demonstrations.from_arrays(states, np.zeros((2, 3), int), next_states=after, lengths=[3, 2])
    assert demos.next_states.tolist() == [1, 2, 0, 1, 1]


def test_next_states_before_a_gap_are_believed():
    rows = {"times": np.array([0, 1, 3]), "next_states": np.array([1, 2, 0]), "labels": np.array(["ann"])}
    assert from_rows(np.array([0, 1, 0]), np.zeros(3, int), np.array([3]), **rows).followed.tolist() == [0]
    with pytest.raises(ValueError, match=r"row 0 \(episode ann, t = 0\) leads to state 1, and row 1 is in state 2"):
        from_rows(np.array([0, 2, 0]), np.zeros(3, int), np.array([3]), **rows)


def test_an_archive_that_contradicts_itself_is_refused(tmp_path):
    arrays = {"states": [0, 1], "actions": [0, 0], "offsets": [0, 2], "terminated": [False], "next_states": [0, 1]}
    np.savez(tmp_path / "demos.npz", **arrays)
    with pytest.raises(ValueError, match=r"demos\.npz.*row 0 \(episode 0, t = 0\) leads to state 0"):
        read_demos(tmp_path / "demos.npz")


def test_next_observations_are_not_compared():
    """Floats that came by different ways may differ by their rounding."""
    seen = np.array([[0.0], [1.0]])
    demos = from_rows(
        None, np.zeros(2, int), np.array([2]), observations=seen, next_observations=seen + np.float32(1.0000001)
    )
    assert demos.num_steps == 2
