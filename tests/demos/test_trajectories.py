import dataclasses
from types import SimpleNamespace

import equinox as eqx
import numpy as np
import pytest

from irlax import Demonstrations


def tabular(seed, num=4):
    rng = np.random.default_rng(seed)
    lengths = rng.integers(1, 6, size=num)
    return [
        SimpleNamespace(
            obs=rng.integers(5, size=n + 1), acts=rng.integers(3, size=n), terminal=bool(k % 2), rews=rng.normal(size=n)
        )
        for k, n in enumerate(lengths)
    ]


def continuous(seed, num=4, discrete=False):
    rng = np.random.default_rng(seed)
    lengths = rng.integers(1, 6, size=num)
    return [
        SimpleNamespace(
            obs=rng.normal(size=(n + 1, 3)).astype(np.float32),
            acts=rng.integers(2, size=n) if discrete else rng.normal(size=(n, 2)),
            terminal=np.bool_(k % 2),
            infos=None,
        )
        for k, n in enumerate(lengths)
    ]


@pytest.mark.parametrize("seed", range(3))
def test_integer_observations_are_states(seed):
    trajectories = tabular(seed)
    demos = Demonstrations.from_trajectories(iter(trajectories))
    for k, trajectory in enumerate(trajectories):
        rows = slice(demos.offsets[k], demos.offsets[k + 1])
        assert demos.states[rows].tolist() == trajectory.obs[:-1].tolist()
        assert demos.next_states[rows].tolist() == trajectory.obs[1:].tolist()
        assert demos.actions[rows].tolist() == trajectory.acts.tolist()
        assert demos.times[rows].tolist() == list(range(len(trajectory.acts)))
        assert demos.terminated[k] == trajectory.terminal
        assert np.isclose(demos.returns[k], trajectory.rews.sum())
    assert demos.observations is None


@pytest.mark.parametrize("discrete", [False, True])
def test_floats_are_observations(discrete):
    trajectories = continuous(0, discrete=discrete)
    demos = Demonstrations.from_trajectories(trajectories)
    assert demos.states is None and demos.rewards is None
    assert np.array_equal(demos.observations, np.concatenate([each.obs[:-1] for each in trajectories]))
    assert np.array_equal(demos.next_observations, np.concatenate([each.obs[1:] for each in trajectories]))
    assert np.array_equal(demos.actions, np.concatenate([each.acts for each in trajectories]))
    assert demos.observations.dtype == np.float32


@pytest.mark.parametrize("trajectories", [tabular(1), continuous(1), continuous(1, discrete=True)])
def test_to_trajectories_and_back(trajectories):
    demos = Demonstrations.from_trajectories(trajectories)
    there = demos.to_trajectories()
    for one, other in zip(there, trajectories, strict=True):
        assert np.array_equal(one.obs, other.obs) and np.array_equal(one.acts, other.acts)
        assert one.terminal is bool(other.terminal) and len(one) == len(other.acts)
        assert one.infos is None
    assert eqx.tree_equal(Demonstrations.from_trajectories(there), demos)
    with pytest.raises(dataclasses.FrozenInstanceError):
        there[0].terminal = False


def test_a_gap_a_late_start_or_an_unknown_end_has_no_trajectory():
    demos = Demonstrations.from_arrays([[0, 1, 2]], [[0, 0, 0]], next_states=[[1, 2, 0]])
    assert demos.to_trajectories()[0].obs.tolist() == [0, 1, 2, 0]
    for times in ([1, 2, 3], [0, 1, 3]):
        with pytest.raises(ValueError, match="no gaps and starts at t = 0"):
            dataclasses.replace(demos, times=np.array(times)).to_trajectories()
    with pytest.raises(ValueError, match=r"row 2 \(episode 0, t = 2\) does not"):
        dataclasses.replace(demos, next_states=np.array([1, 1, 0])).to_trajectories()
    with pytest.raises(ValueError, match="after its last action"):
        dataclasses.replace(demos, next_states=None).to_trajectories()


GOOD = SimpleNamespace(obs=[0, 1, 2], acts=[0, 1], terminal=True)


def but(**changes):
    return [GOOD, SimpleNamespace(**vars(GOOD) | changes)]


@pytest.mark.parametrize(
    "trajectories, error, message",
    [
        ([], ValueError, "no trajectories"),
        ([GOOD, 3], TypeError, "Trajectory 1 must have the attributes.*int without obs, acts, terminal"),
        (but(obs=[0, 1]), ValueError, r"Trajectory 1.*shapes \(2,\) and \(2,\)"),
        (but(obs=[0], acts=[]), ValueError, "Trajectory 1 has no steps"),
        (but(obs=[[0], [1], [2]]), ValueError, "convert them"),
        (but(acts=[[0], [1]]), ValueError, "convert them"),
        (but(obs=[0.0, 1.0, 2.0]), ValueError, "`obs` of one kind"),
        (but(obs=[0, -1, 2]), ValueError, "must not be negative"),
        (but(obs=["a", "b", "c"]), TypeError, "obs of trajectory 1"),
        (but(obs=[[0], [1, 2], 3]), ValueError, "obs of trajectory 1"),
        (but(acts=[np.nan, 1]), ValueError, "acts of trajectory 1` must be finite"),
        (but(terminal=1), TypeError, "`terminal` of trajectory 1 must be True or False, but is 1"),
        (but(rews=[1.0]), ValueError, "rews of trajectory 1"),
        (but(rews=[1.0, np.inf]), ValueError, "rews of trajectory 1"),
        ([SimpleNamespace(obs=[0, 1], acts=[0.5], terminal=False)], TypeError, "`acts` must be integers too"),
    ],
)
def test_malformed_trajectories_are_refused(trajectories, error, message):
    with pytest.raises(error, match=message):
        Demonstrations.from_trajectories(trajectories)
