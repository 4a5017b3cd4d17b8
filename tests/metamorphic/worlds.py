"""Tiny problems with demonstrations, and the changes of them that an estimate must answer in a known way.

All changes that keep the numbers of states, actions and features keep what was compiled. They are cached, so that two
tests of one change share its fits.
"""

import dataclasses
import functools
from typing import Any

import jax
import numpy as np

import irlax as ix

S, A, T, K = 4, 3, 4, 2
EPISODES = 40
TRUTH = np.array([1.0, -0.7])


@dataclasses.dataclass(frozen=True, eq=False)
class World:
    """An MDP as plain arrays, features, and demonstrations in it. Compared by identity, so that fits can be cached."""

    name: str
    transitions: np.ndarray
    initial: np.ndarray
    discount: float
    horizon: int | None
    available: np.ndarray
    features: np.ndarray
    demos: Any = None
    #: Where an estimate starts.
    weights: Any = None

    @functools.cached_property
    def mdp(self):
        return ix.MDP.from_dense(
            self.transitions,
            self.initial,
            discount=self.discount,
            horizon=self.horizon,
            available=None if self.available.all() else self.available,
        )

    @functools.cached_property
    def reward(self):
        return ix.LinearReward(self.features, self.weights)

    @functools.cached_property
    def end(self):
        """States that no available action leaves."""
        stays = np.isclose(np.einsum("sas->sa", self.transitions), 1)
        return (stays | ~self.available).all(axis=1)

    def changed(self, what, **fields):
        return dataclasses.replace(self, name=f"{self.name}, {what}", **fields)


def demonstrated(world, truth, *, num=EPISODES, length=None, key=0):
    """The world with episodes of its soft-optimal policy."""
    plan = ix.soft_plan(world.mdp, world.features @ truth)
    options = {} if world.horizon else {"length": length}
    return dataclasses.replace(world, demos=ix.rollout(world.mdp, plan, num=num, key=jax.random.key(key), **options))


@functools.cache
def finite():
    """Four decisions, chance in every move, one action that does not exist."""
    rng = np.random.default_rng(1)
    available = np.ones((S, A), bool)
    available[1, 2] = False
    transitions, features = rng.dirichlet(np.ones(S), (S, A)), rng.normal(size=(S, A, K))
    world = World("finite", transitions, np.full(S, 1 / S), 0.9, T, available, features)
    return demonstrated(world, TRUTH)


@functools.cache
def endless():
    """Discounted for ever: episodes are cut off where less than 1% of the discounted mass is left."""
    rng = np.random.default_rng(2)
    transitions, features = rng.dirichlet(np.ones(S), (S, A)), rng.normal(size=(S, A, K))
    world = World("endless", transitions, np.full(S, 1 / S), 0.7, None, np.ones((S, A), bool), features)
    return demonstrated(world, TRUTH, length=16)


@functools.cache
def ended():
    """Undiscounted until the last state, which has one action and no features; every step costs.

    Estimates start where steps cost enough for a soft value to exist under every model.
    """
    rng = np.random.default_rng(3)
    transitions = rng.dirichlet(np.ones(S), (S, A))
    transitions[-1] = np.eye(S)[-1]
    available = np.ones((S, A), bool)
    available[-1, 1:] = False
    features = np.stack([-np.ones((S, A)), rng.normal(size=(S, A))], axis=-1)
    features[-1] = 0.0
    initial = np.array([0.4, 0.3, 0.3, 0.0])
    world = World("ended", transitions, initial, 1.0, None, available, features, weights=np.array([2.0, 0.0]))
    return demonstrated(world, np.array([1.0, -0.7]), num=100, length=60)


@functools.cache
def maze():
    """Undiscounted and deterministic: without a cost of steps there are more long paths than short ones, so no soft
    value exists at θ = 0."""
    moves = np.array([[1, 0, 2], [2, 0, 3], [0, 1, 3], [3, 3, 3]])
    available = np.ones((S, A), bool)
    available[-1, 1:] = False
    features = np.zeros((S, A, K))
    features[:-1, :, 0] = -1.0
    features[:-1, 2, 1] = 1.0
    world = World("maze", np.eye(S)[moves], np.array([0.5, 0.3, 0.2, 0.0]), 1.0, None, available, features)
    return demonstrated(world, np.array([1.5, 0.4]), length=80)


WORLDS = {"finite": finite, "endless": endless, "ended": ended}


# Changes of the demonstrations.


@functools.cache
def weighted(world, weights):
    return world.changed("weighted", demos=dataclasses.replace(world.demos, weights=np.array(weights, float)))


@functools.cache
def copied(world, times):
    """Each episode as often as `times` says; none at all for 0."""
    return world.changed("copied", demos=world.demos.select(np.repeat(np.arange(len(times)), times)))


def some_weights(world):
    """A whole number for each episode, not all equal."""
    return tuple(1 + i % 3 for i in range(world.demos.num_episodes))


def weights_with_zeros(world):
    """One episode in eight counts nothing."""
    return tuple(int(i % 8 != 3) for i in range(world.demos.num_episodes))


@functools.cache
def with_episodes(world, order):
    return world.changed("other order of episodes", demos=world.demos.select(np.array(order)))


@functools.cache
def with_another_frame(world):
    """The same rows in another order, and episodes called by names whose order is not that of the numbers."""
    frame = world.demos.to_frame()
    frame["episode"] = [f"no. {(int(number) * 7919 + 13) % 10_007}" for number in frame["episode"]]
    return world.changed("another frame", demos=_of_frame(frame.sample(frac=1, random_state=0)))


def _of_frame(frame):
    optional = {"next_state": "next_state", "terminated": "terminated", "weight": "weight"}
    columns = {name: column for name, column in optional.items() if column in frame}
    return ix.Demonstrations.from_frame(frame, episode="episode", time="t", state="state", action="action", **columns)


# Changes of names and units, after which the answer is the same but for them.


@functools.cache
def with_states(world, order):
    """State i of the new world is state order[i] of the old."""
    order = np.array(order)
    place = np.argsort(order)
    demos = dataclasses.replace(world.demos, states=place[world.demos.states], next_states=_placed(world, place))
    return world.changed(
        "other order of states",
        transitions=world.transitions[order][:, :, order],
        initial=world.initial[order],
        available=world.available[order],
        features=world.features[order],
        demos=demos,
    )


def _placed(world, place):
    return None if world.demos.next_states is None else place[world.demos.next_states]


@functools.cache
def with_actions(world, order):
    """Action i of the new world is action order[i] of the old."""
    order = np.array(order)
    return world.changed(
        "other order of actions",
        transitions=world.transitions[:, order],
        available=world.available[:, order],
        features=world.features[:, order],
        demos=dataclasses.replace(world.demos, actions=np.argsort(order)[world.demos.actions]),
    )


@functools.cache
def with_units(world, factor):
    """The last feature in other units."""
    return world.changed(f"times {factor}", features=world.features * np.append(np.ones(K - 1), factor))


@functools.cache
def with_constant(world, constant):
    """A constant added to the first feature: no choice depends on it, where episodes are equally long."""
    features = world.features + np.append(constant, np.zeros(K - 1))
    return world.changed(f"plus {constant}", features=features)


# Additions that mean nothing.


@functools.cache
def with_more_room(world):
    """One more state, that nothing leads to, and one more action, that exists there only; both first in order."""
    num, demos = world.transitions.shape[0], world.demos
    room, available = np.zeros((num + 1, A + 1, num + 1)), np.zeros((num + 1, A + 1), bool)
    room[:, :, 1:] = 1 / num
    room[1:, 1:, 1:] = world.transitions
    available[0], available[1:, 1:] = True, world.available
    features = np.full((num + 1, A + 1, K), 0.5)
    features[1:, 1:] = world.features
    return world.changed(
        "more room",
        transitions=room,
        initial=np.append(0.0, world.initial),
        available=available,
        features=features,
        demos=dataclasses.replace(
            demos, states=demos.states + 1, actions=demos.actions + 1, next_states=demos.next_states + 1
        ),
    )


#: What a further column of features may be, without saying anything; and which of the old parameters it takes the
#: identification from.
COLUMNS = {
    "zero": (lambda features: 0.0 * features[..., 0], ()),
    "duplicate": (lambda features: features[..., 0], (0,)),
    "collinear": (lambda features: features[..., 0] - 2 * features[..., 1], (0, 1)),
}


@functools.cache
def with_column(world, kind):
    column = COLUMNS[kind][0](world.features)
    return world.changed(f"{kind} column", features=np.concatenate([world.features, column[..., None]], axis=-1))


@functools.cache
def with_first_column_only(world):
    return world.changed("first column only", features=world.features[..., :1])
