"""Environments in worker processes: the same episodes, errors that arrive, and processes that end."""

import os
import signal
import subprocess
import sys
import threading
import time

import cloudpickle
import jax
import jax.random as jr
import numpy as np
import pytest

from irlax.envs import GymnasiumEnvironment, make
from irlax.envs.host import HostRunner
from irlax.envs.rollout import PlainPolicy
from tests.envs.counts import Counts
from tests.envs.policies import Uniform

#: Copies of unequal number for each of two workers, and a horizon that some episodes reach.
COPIES, HORIZON = 3, 25


def pids(env):
    return [worker.pid for worker in env._copies._processes]


def alive(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.fixture(scope="module")
def pole():
    env = make("gymnasium:CartPole-v1", num_envs=COPIES, horizon=HORIZON, after_end="absorbing", workers=2)
    yield env
    env.close()


def steps_of(env, seed):
    """Observations and steps of random actions."""
    rng = np.random.default_rng(0)
    first = env.reset(seed)
    return first, [env.step(rng.integers(2, size=COPIES)) for _ in range(60)]


def test_episodes_do_not_depend_on_the_number_of_workers(pole):
    alone = make("gymnasium:CartPole-v1", num_envs=COPIES, horizon=HORIZON, after_end="absorbing")
    first, steps = steps_of(alone, 3)
    assert any(step.truncated.any() for step in steps) and any(step.observation[:, -1].any() for step in steps)
    for seed in (3, 4):
        again, others = steps_of(pole, seed)
        same = [np.array_equal(*pair) for pair in zip(jax.tree.leaves(steps), jax.tree.leaves(others), strict=True)]
        assert all([np.array_equal(first, again), *same]) == (seed == 3)


class Sleeps(Counts):
    seconds = 0.4

    def step(self, action):
        time.sleep(self.seconds)
        return super().step(action)


class Breaks(Counts):
    """Ends in its second step: by an error, or with its process."""

    def __init__(self, exits=False):
        super().__init__()
        self.exits = exits

    def step(self, action):
        if self.time == 1 and self.exits:
            os._exit(3)
        if self.time == 1:
            raise FloatingPointError("the second step")
        return super().step(action)


@pytest.fixture(autouse=True)
def _sent_by_value():
    """So that workers need not import this file, and irlax with it."""
    cloudpickle.register_pickle_by_value(sys.modules[__name__])
    yield
    cloudpickle.unregister_pickle_by_value(sys.modules[__name__])


def test_this_process_is_free_while_workers_step():
    env = GymnasiumEnvironment(Sleeps, 2, horizon=50, workers=2)
    env.reset(seed=0)
    began = time.monotonic()
    env.start_step(np.zeros(2, int))
    assert time.monotonic() - began < Sleeps.seconds
    assert env.finish_step().reward.tolist() == [1, 1]
    assert time.monotonic() - began >= Sleeps.seconds
    env.close()


def test_collecting_in_the_background_gives_the_same_steps(pole):
    policy, key = PlainPolicy(Uniform(pole.actions)), jr.key(0)
    batch, returns = HostRunner(pole, seed=1).collect_steps(policy, 30, 0.0, key=key)
    later, later_returns = HostRunner(pole, seed=1).start_collecting(policy, 30, 0.0, key=key).result()
    jax.tree.map(np.testing.assert_array_equal, batch, later)
    assert returns == later_returns and returns


def test_errors_of_a_worker_arrive_with_their_traceback_and_reset_starts_again():
    env = GymnasiumEnvironment(Breaks, 2, horizon=50, workers=2)
    for _ in range(2):
        env.reset(seed=0)
        env.step(np.zeros(2, int))
        before = pids(env)
        with pytest.raises(FloatingPointError, match="the second step") as caught:
            env.step(np.zeros(2, int))
        assert "in step" in str(caught.value.__cause__) and "worker process" in str(caught.value.__cause__)
        assert not any(map(alive, before))
    with pytest.raises(RuntimeError, match=r"workers of Breaks have ended.*Call `reset`"):
        env.step(np.zeros(2, int))


def test_a_worker_that_dies_is_reported():
    env = GymnasiumEnvironment(lambda: Breaks(exits=True), 1, horizon=50, workers=1)
    env.reset(seed=0)
    env.step(np.zeros(1, int))
    with pytest.raises(RuntimeError, match=r"ended by itself, with exit code 3"):
        env.step(np.zeros(1, int))


def test_bad_input_is_refused(as_a_user):
    lock = threading.Lock()
    with pytest.raises(TypeError, match=r"cannot be sent to a worker process.*leave out `workers`"):
        GymnasiumEnvironment(lambda: lock and Counts(), horizon=5, workers=1)
    with pytest.raises(TypeError, match="`workers` must be"):
        make("gymnasium:CartPole-v1", workers="many")
    with pytest.raises(ValueError, match="`workers` must be"):
        make("gymnasium:CartPole-v1", workers=0)


#: As a user would write it: no guard around the main program, and a class that no other process can import.
SCRIPT = """
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)
import gymnasium, numpy as np
from irlax.envs import GymnasiumEnvironment

class Endless(gymnasium.Env):
    observation_space = gymnasium.spaces.Box(-1, 1, (1,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        return np.zeros(1, np.float32), {}

    def step(self, action):
        print("said by a worker", flush=True)
        return np.zeros(1, np.float32), 0.0, False, False, {}

env = GymnasiumEnvironment(Endless, 2, horizon=10, workers=2)
env.reset(seed=0)
env.step(np.zeros(2, int))
print(*(worker.pid for worker in env._copies._processes), flush=True)
while True:
    env.step(np.zeros(2, int))
"""


@pytest.mark.skipif(os.name != "posix", reason="signals of a terminal are those of POSIX")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_workers_end_with_the_program(number):
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    with subprocess.Popen([sys.executable, "-"], **pipes, text=True, start_new_session=True) as program:
        program.stdin.write(SCRIPT)
        program.stdin.close()
        workers = [int(pid) for pid in program.stdout.readline().split()]
        assert len(workers) == 2 and all(map(alive, workers))
        # As a terminal does, to all of them; but what cannot be handled to the program alone.
        (os.killpg if number == signal.SIGINT else os.kill)(program.pid, number)
        said, complained = program.stdout.read(), program.stderr.read()
    deadline = time.monotonic() + 30
    while any(map(alive, workers)) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not any(map(alive, workers)) and not said and "said by a worker" in complained
    assert complained.count("Traceback") == (number == signal.SIGINT), complained
