"""Random small problems, half of which have a finite optimum; simulated in NumPy."""

import functools

import numpy as np

import irlax as ix
from tests.metamorphic import feasible
from tests.metamorphic.worlds import World

S, A, T, K = 4, 2, 4, 4
#: In which an episode ends: after T decisions, or in the last state.
KINDS = ("stochastic", "deterministic", "logit", "ended", "discounted end")
OBJECTIVES = ("feature-matching", "paths", "likelihood")
REWARDS = ("linear", "s", "sa")


def objectives_of(kind):
    """Which objectives are concave in this kind of problem, so that a linear programme can tell."""
    return OBJECTIVES if kind in ("deterministic", "logit") else OBJECTIVES[:2]


@functools.cache
def problem(kind, reward, seed):
    """A world with a few episodes of a policy that may leave actions out."""
    rng = np.random.default_rng((seed, KINDS.index(kind), REWARDS.index(reward)))
    ends = kind in ("ended", "discounted end")
    transitions, available = _dynamics(rng, kind), np.ones((S, A), bool)
    available[-1, 1:] = not ends
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
    policy = rng.dirichlet(np.ones(A), S)
    # Some actions are never taken, and few episodes leave out others.
    policy = np.where(rng.random((S, 1)) < rng.choice([0.0, 0.4]), np.eye(A)[rng.integers(A, size=S)], policy)
    policy[-1] = np.eye(A)[0] if ends else policy[-1]
    num = int(rng.choice([3, 20, 300]))
    return world.changed(f"{num} episodes", demos=_episodes(rng, world, policy, num))


def learnable(world, reward):
    """The reward to learn, as the library has it: a table for "s" and "sa", whose features are one for each entry."""
    return ix.LinearReward(world.features) if reward == "linear" else ix.TabularReward(reward)


def _dynamics(rng, kind):
    if kind == "deterministic":
        return np.eye(S)[rng.integers(S, size=(S, A))]
    transitions = rng.dirichlet(np.ones(S), (S, A))
    if kind in ("ended", "discounted end"):
        # More than half of every move ends the episode, so that soft values exist at θ = 0.
        transitions = transitions * rng.uniform(0.05, 0.49, (S, A, 1))
        transitions[..., -1] = 1 - transitions[..., :-1].sum(axis=-1)
        transitions[-1] = np.eye(S)[-1]
    return transitions


def _features(rng, reward, *, undiscounted_end):
    if reward == "sa":
        features = np.eye(S * A).reshape(S, A, S * A)
    elif reward == "s":
        features = np.broadcast_to(np.eye(S)[:, None], (S, A, S)).copy()
    else:
        # Of rank 2: some directions are never identified, which is no reason to have no optimum.
        features = rng.normal(size=(S, A, 2)) @ rng.integers(-2, 3, size=(2, K))
    if undiscounted_end:
        features[-1] = 0.0
    return features


def _episodes(rng, world, policy, num):
    episodes, ended = [], []
    for _ in range(num):
        states, actions = [rng.choice(S, p=world.initial)], []
        while len(actions) < (world.horizon or 200) and not (world.horizon is None and world.end[states[-1]]):
            actions.append(rng.choice(A, p=policy[states[-1]]))
            states.append(rng.choice(S, p=world.transitions[states[-1], actions[-1]]))
        episodes.append((np.array(states), np.array(actions)))
        ended.append(world.horizon is None)
    return ix.Demonstrations.from_episodes(episodes, terminated=np.array(ended))


def of_verdict(kind, reward, objective, finite, *, tries=80):
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
