"""Random small problems, half of which have a finite optimum; simulated in NumPy."""

import functools

import numpy as np

import irlax as ix
from tests.metamorphic import feasible
from tests.metamorphic.worlds import World

#: As in `worlds`, with one action that does not exist, so that they share what was compiled.
S, A, T, K = 4, 3, 4, 2
#: In which an episode ends: after T decisions, or in the last state.
KINDS = ("stochastic", "deterministic", "logit", "ended", "discounted end")
OBJECTIVES = ("feature-matching", "paths", "likelihood")
REWARDS = ("linear", "s", "sa")


def objectives_of(kind):
    """Which objectives are concave in this kind of problem, so that a linear programme can tell."""
    return OBJECTIVES if kind in ("deterministic", "logit") else OBJECTIVES[:2]


@functools.cache
def problem(kind, reward, seed):
    """A world with episodes of a policy that leaves actions out, or of a best one."""
    rng = np.random.default_rng((seed, KINDS.index(kind), REWARDS.index(reward)))
    ends = kind in ("ended", "discounted end")
    transitions, available = _dynamics(rng, kind), np.ones((S, A), bool)
    available[1, 2], available[-1, 1:] = False, not ends
    discount = {"stochastic": 0.9, "deterministic": 1.0, "logit": 0.0, "ended": 1.0, "discounted end": 0.9}[kind]
    initial = rng.dirichlet(np.ones(S - ends))
    world = World(
        f"{kind} {reward} {seed}",
        transitions,
        np.append(initial, 0.0) if ends else initial,
        discount,
        None if ends else T,
        available,
        _features(rng, reward, undiscounted_end=kind == "ended"),
    )
    policies = _mixed(rng, world) if rng.random() < 0.5 else _best(world, rng.normal(size=world.features.shape[-1]))
    num = int(rng.choice([2, 10, 200]))
    return world.changed(f"{num} episodes", demos=_episodes(rng, world, policies, num))


def learnable(world, reward):
    """The reward to learn, as the library has it: a table for "s" and "sa", whose features are one for each entry."""
    return ix.LinearReward(world.features) if reward == "linear" else ix.TabularReward(reward)


def _dynamics(rng, kind):
    if kind == "deterministic":
        return np.eye(S)[rng.integers(S, size=(S, A))]
    transitions = rng.dirichlet(np.ones(S), (S, A))
    if kind in ("ended", "discounted end"):
        # Two thirds of every move end the episode, so that soft values exist at θ = 0 under both models.
        transitions = transitions * rng.uniform(0.05, 0.33, (S, A, 1))
        transitions[..., -1] = 1 - transitions[..., :-1].sum(axis=-1)
        transitions[-1] = np.eye(S)[-1]
    return transitions


def _features(rng, reward, *, undiscounted_end):
    if reward == "sa":
        features = np.eye(S * A).reshape(S, A, S * A)
    elif reward == "s":
        features = np.broadcast_to(np.eye(S)[:, None], (S, A, S)).copy()
    else:
        features = rng.integers(-1, 2, size=(S, A, K)).astype(float)
    if undiscounted_end:
        features[-1] = 0.0
    return features


def _mixed(rng, world):
    """A policy at random, which may never take some actions."""
    policy = rng.dirichlet(np.ones(A), S) * world.available
    some = world.available & ((rng.random((S, A)) < rng.choice([0.7, 1.0])) | (np.arange(A) == 0))
    return [policy * some / (policy * some).sum(axis=1, keepdims=True)]


def _best(world, direction):
    """The best policy for a reward, at each time: its features are the most that can be had in that direction."""
    value, policies = np.zeros(S), []
    for _ in range(world.horizon or 100):
        q = np.where(world.available, world.features @ direction + world.discount * world.transitions @ value, -np.inf)
        # Endless rewards of an end are left out: the choices before it are what matters here.
        value = np.where(world.end & (world.horizon is None), 0.0, q.max(axis=1))
        policies.insert(0, np.eye(A)[q.argmax(axis=1)])
    return policies if world.horizon else policies[:1]


def _episodes(rng, world, policies, num):
    episodes, ended = [], []
    for _ in range(num):
        states, actions = [rng.choice(S, p=world.initial)], []
        while len(actions) < (world.horizon or 200) and not (world.horizon is None and world.end[states[-1]]):
            policy = policies[min(len(actions), len(policies) - 1)]
            actions.append(rng.choice(A, p=policy[states[-1]]))
            states.append(rng.choice(S, p=world.transitions[states[-1], actions[-1]]))
        episodes.append((np.array(states), np.array(actions)))
        ended.append(world.horizon is None)
    return ix.Demonstrations.from_episodes(episodes, terminated=np.array(ended))


def of_verdict(kind, reward, objective, finite, *, tries=40):
    """Problems of one kind that have an optimum, or have none, among the first so many."""
    for seed in range(tries):
        world = problem(kind, reward, seed)
        if feasible_optimum(world, kind, objective) is finite:
            yield world


@functools.cache
def feasible_optimum(world, kind, objective):
    """Whether there is an optimum. The likelihood of whole deterministic episodes at γ = 1 is that of paths."""
    if objective == "likelihood" and kind == "deterministic":
        objective = "paths"
    return feasible.has_optimum(world, objective)
