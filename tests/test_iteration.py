"""The driver: history, limits, callbacks, interruption, and runs that go on after they were killed."""

import json
import os
import signal

import jax
import numpy as np
import pytest

import irlax as ix
from irlax.iteration import NEXT, AbstractIteration, AbstractResumable, History, Iterate, Session, Watch


class Halving(AbstractResumable):
    """x ← x/2 until it is small."""

    start: float
    small: float

    def init(self):
        return self.start

    def step(self, state):
        return state / 2

    def status(self, state):
        return ix.Status.CONVERGED if state <= self.small else None

    def iterates(self, state):
        return [Iterate(NEXT, {"loss": state, "gradient": state / 2})]

    def identity(self):
        return {"start": self.start}

    def snapshot(self, state):
        return [np.asarray(state)]

    def restore(self, arrays):
        return float(arrays[0])


def run(iteration=None, *, limit=None, **watch):
    with Session("test", watch=Watch(progress=False, **watch)) as session:
        state, status = session.run(iteration or Halving(8.0, 0.5), limit=limit)
    return state, status, session.history


def test_it_runs_until_it_has_ended():
    state, status, history = run()
    assert (state, status) == (0.5, ix.Status.CONVERGED)
    assert [iterate.step for iterate in history] == list(range(5))
    np.testing.assert_array_equal(History.of(history).loss, [8, 4, 2, 1, 0.5])
    np.testing.assert_array_equal(History.of(history)["gradient"], [4, 2, 1, 0.5, 0.25])


@pytest.mark.parametrize("limit", [0, 3])
def test_limits_are_limits_of_steps(limit):
    state, status, history = run(limit=limit)
    assert (state, status, len(history)) == (8 / 2**limit, ix.Status.MAX_STEPS, limit + 1)


def test_only_true_stops():
    assert run(callback=lambda iterate: "go on")[1] is ix.Status.CONVERGED
    state, status, _ = run(callback=lambda iterate: iterate.step == 2)
    assert (state, status) == (2.0, ix.Status.INTERRUPTED)


def test_ctrl_c_ends_after_the_step_and_a_second_one_at_once(default_signals):
    def press(iterate):
        if iterate.step == 1:
            os.kill(os.getpid(), signal.SIGINT)

    assert run(callback=press)[:2] == (4.0, ix.Status.INTERRUPTED)
    assert signal.getsignal(signal.SIGINT) is default_signals[signal.SIGINT]
    with pytest.raises(KeyboardInterrupt):
        run(callback=lambda iterate: [press(iterate), press(iterate)])


class KilledError(Exception):
    pass


def killed_at(step):
    def callback(iterate):
        if iterate.step == step:
            raise KilledError

    return callback


@pytest.mark.parametrize("step", [1, 3])
def test_a_killed_run_goes_on_and_ends_as_one_that_was_not(tmp_path, step):
    folder = ix.RunFolder(tmp_path / "run", checkpoint_every=0)
    with pytest.raises(KilledError):
        run(run=folder, callback=killed_at(step))
    resumed = run(run=ix.RunFolder(tmp_path / "run", resume=True))
    assert resumed[:2] == run()[:2]
    assert [iterate.numbers for iterate in resumed[2]] == [iterate.numbers for iterate in run()[2]]
    lines = [json.loads(line) for line in (tmp_path / "run" / "log.jsonl").read_text().splitlines()]
    assert [line["loss"] for line in lines] == [8, 4, 2, 1, 0.5]
    assert run(run=ix.RunFolder(tmp_path / "run", resume=True))[:2] == resumed[:2]


def test_a_folder_of_another_run_is_refused(tmp_path):
    run(run=ix.RunFolder(tmp_path))
    with pytest.raises(FileExistsError, match="resume=True"):
        run(run=ix.RunFolder(tmp_path))
    with pytest.raises(ValueError, match="another start"):
        run(Halving(4.0, 0.5), run=ix.RunFolder(tmp_path, resume=True))
    (tmp_path / "log.jsonl").write_text("")
    with pytest.raises(ValueError, match="0 lines"):
        run(run=ix.RunFolder(tmp_path, resume=True))


def test_what_keeps_no_checkpoints_takes_no_folder(tmp_path):
    class Once(AbstractIteration):
        def init(self):
            return 0

        def step(self, state):
            return 1

        def status(self, state):
            return ix.Status.CONVERGED

        def iterates(self, state):
            return []

    assert run(Once())[:2] == (0, ix.Status.CONVERGED)
    with pytest.raises(ValueError, match="Once"):
        run(Once(), run=ix.RunFolder(tmp_path))


@pytest.mark.parametrize("solver", ["newton", "lbfgs", "dual-ascent"])
def test_a_killed_fit_goes_on_to_the_same_optimum(tmp_path, solver):
    rng = np.random.default_rng(0)
    mdp = ix.MDP.from_dense(rng.dirichlet(np.ones(4), size=(4, 2)), np.full(4, 0.25), discount=0.9)
    reward = ix.LinearReward(rng.normal(size=(4, 2, 2)))
    demos = ix.rollout(mdp, np.full((4, 2), 0.5), num=20, length=10, key=jax.random.key(0))
    estimator = ix.MCEIRL(objective="likelihood", solver=solver, progress=False)
    with pytest.raises(KilledError):
        estimator.fit(mdp, reward, demos, callback=killed_at(2), run=ix.RunFolder(tmp_path, checkpoint_every=0))
    whole, resumed = (estimator.fit(mdp, reward, demos, run=run) for run in (None, ix.RunFolder(tmp_path, resume=True)))
    assert resumed.converged and len(resumed.history) > 2
    np.testing.assert_allclose(resumed.reward.weights, whole.reward.weights, atol=1e-7)
    with pytest.raises(ValueError, match="another problem"):
        estimator.fit(mdp, reward, demos.select(range(19)), run=ix.RunFolder(tmp_path, resume=True))
