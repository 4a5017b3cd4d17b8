"""States that remember: against the recursion over whole histories, written out without extended states."""

import itertools

import jax
import numpy as np
import pandas as pd
import pytest

import irlax as ix

S, A, T, GAMMA = 4, 2, 4, 0.9


@pytest.fixture(scope="module")
def world():
    """Random sparse transitions, starts in two states, an absorbing state 3, one action missing."""
    rng = np.random.default_rng(0)
    transitions = rng.dirichlet(np.ones(S), (S, A)) * (rng.random((S, A, S)) < 0.6)
    transitions[..., 0] += 0.2
    transitions /= transitions.sum(axis=-1, keepdims=True)
    transitions[3] = np.eye(S)[3]
    available = np.ones((S, A), bool)
    available[1, 1] = available[3, 1] = False
    mdp = ix.MDP.from_dense(
        transitions, np.array([0.5, 0, 0.5, 0]), discount=GAMMA, horizon=T, available=available
    ).labelled(states=["home", "road", "shop", "end"], actions=["walk", "ride"])
    return mdp, transitions, available


def value_of(world, reward, past):
    """V and log π after a whole history (s₀, ..., s_t), by recursion over all continuations."""
    _, transitions, available = world
    if len(past) > T:
        return 0.0, None
    q = np.full(A, -np.inf)
    for a in np.flatnonzero(available[past[-1]]):
        ahead = [p * value_of(world, reward, (*past, s))[0] for s, p in enumerate(transitions[past[-1], a]) if p > 0]
        q[a] = reward(past) + GAMMA * sum(ahead)
    value = np.logaddexp.reduce(q)
    return value, q - value


def check_against_recursion(world, history, reward_of_code, reward_of_past):
    """Values at the start and the policy along random episodes."""
    mdp = world[0]
    plan = ix.soft_plan(history.mdp, reward_of_code)
    starts = np.flatnonzero(history.mdp.initial > 0)
    for code in starts:
        expected, _ = value_of(world, reward_of_past, (int(history.present[code]),))
        assert np.isclose(plan.value[0, code], expected, rtol=1e-12)
    assert np.allclose(history.total(history.mdp.initial), mdp.initial)
    demos = ix.rollout(mdp, np.full((T, S, A), 0.5) * world[2] / world[2].mean(-1, keepdims=True), num=6, key=KEY)
    coded = history.translate(demos)
    coded.check(history.mdp)
    for k, row in itertools.product(range(3), range(T)):
        index = k * T + row
        past = tuple(map(int, demos.states[k * T : index + 1]))
        _, log_policy = value_of(world, reward_of_past, past)
        assert np.allclose(plan.log_policy[row, coded.states[index]], log_policy, atol=1e-12)


KEY = jax.random.key(0)


@pytest.mark.parametrize("last", [1, 2])
def test_rewards_of_the_last_states_give_the_values_of_whole_histories(world, last):
    history = ix.with_history(world[0], last=last)
    table = np.random.default_rng(1).normal(size=(S + 1,) * (last + 1))
    padded = np.concatenate([history.previous[:, ::-1], history.present[:, None]], axis=1)

    def of_past(past):
        if past[-1] == 3:
            return table[(3,) * (last + 1)]
        return table[(*(-1,) * max(last + 1 - len(past), 0), *past[-last - 1 :])]

    check_against_recursion(world, history, table[tuple(padded.T)], of_past)


def test_a_memory_of_ones_own_gives_the_values_of_whole_histories(world):
    history = ix.with_history(world[0], last=0, memory=ix.Memory.visited([1, 2]))
    bonus = np.array([0.0, 1.0, -2.0, 0.5])

    def of_past(past):
        if past[-1] == 3:
            return bonus[0]
        return bonus[(1 in past) + 2 * (2 in past)] + 0.3 * past[-1]

    reward = np.where(history.present == 3, bonus[0], bonus[history.memory] + 0.3 * history.present)
    check_against_recursion(world, history, reward, of_past)
    assert set(np.unique(history.memory)) <= {0, 1, 2, 3}
    assert "home (visited 1)" in history.mdp.labels.states


def test_time_since_a_visit_is_capped(world):
    history = ix.with_history(world[0], last=0, memory=ix.Memory.since(0, 3))
    demos = ix.Demonstrations.from_episodes([([2, 0, 0, 2], [0, 0, 0, 0])]) if world[1][2, 0, 0] > 0 else None
    assert demos is not None and world[1][0, 0, 2] > 0
    assert history.memory[history.translate(demos).states].tolist() == [3, 0, 0, 1]


def test_only_what_can_occur_is_listed_and_named(world):
    mdp, transitions, available = world
    history = ix.with_history(mdp)
    possible = np.where(available[..., None], transitions, 0).sum(axis=1) > 0
    reached = np.array([True, possible[[0, 2], 1].any(), True, False])
    edges = {(s, t) for s, t in np.argwhere(possible) if reached[s] and t != 3} | {(3, 3), (-1, 0), (-1, 2)}
    assert set(zip(history.previous[:, 0], history.present, strict=True)) == edges
    names = history.mdp.labels.states
    assert "start → home" in names and "home → shop" in names and names.count("end") == 1
    assert history.mdp.labels.actions == ("walk", "ride") and history.mdp.absorbing.sum() == 1
    stay = ix.with_history(mdp, start="stay")
    assert (stay.previous >= 0).all() and set(stay.present[stay.mdp.initial > 0]) == {0, 2}


@pytest.fixture(scope="module")
def panel(world):
    """Episodes with a gap, a late start, an end and weights; all moves are possible."""
    follow = lambda s: int(np.argmax(world[1][s, 0] * (np.arange(S) != 3)))  # noqa: E731
    chain = [2]
    for _ in range(3):
        chain.append(follow(chain[-1]))
    ends = next(int(s) for s in range(3) if world[1][s, 0, 3] > 0)
    rows = [("gap", t, chain[t], chain[t + 1] if t < 3 else follow(chain[3]), False, 2.0) for t in (0, 1, 3)]
    rows += [("late", t, chain[t], chain[t + 1], False, 1.0) for t in (1, 2)]
    rows += [("ends", 0, ends, 3, True, 1.0)]
    columns = ["episode", "t", "state", "next", "terminated", "weight"]
    frame = pd.DataFrame(rows, columns=columns).assign(action=0)
    names = {"time": "t", "next_state": "next", "terminated": "terminated", "weight": "weight"}
    demos = ix.Demonstrations.from_frame(frame, episode="episode", state="state", action="action", **names)
    return demos, chain


def test_rows_of_unknown_history_are_refused_dropped_or_started(world, panel):
    (demos, chain), mdp = panel, world[0]
    with pytest.raises(ValueError, match=r"history of 2 rows.*episode gap, t = 3.*unknown='drop'"):
        ix.with_history(mdp, demos)
    history = ix.with_history(mdp, demos, unknown="drop")
    coded = history.demos
    coded.check(history.mdp)
    assert coded.labels.tolist() == ["ends", "gap", "late"] and coded.lengths.tolist() == [1, 2, 1]
    assert coded.weights.tolist() == [1, 2, 1] and coded.terminated.tolist() == [True, False, False]
    assert coded.times.tolist() == [0, 0, 1, 2]
    assert history.previous[coded.states, 0].tolist() == [-1, -1, chain[0], chain[1]]
    assert history.present[coded.next_states].tolist() == [3, chain[1], chain[2], chain[3]]
    started = ix.with_history(mdp, demos, unknown="start").demos
    assert started.num_steps == demos.num_steps
    nowhere = demos.select([2])
    with pytest.raises(ValueError, match="leaves no row"):
        ix.with_history(mdp, nowhere, last=3, unknown="drop")


def test_dropping_the_last_row_of_an_episode_drops_its_end(world, panel):
    demos = panel[0]
    frame = demos.to_frame()
    ends = frame[frame.episode == "ends"].iloc[0]
    gap = frame[(frame.episode == "gap") & (frame.t == 0)].assign(episode="x")
    last = pd.DataFrame([ends]).assign(episode="x", t=3, weight=2.0)
    joined = pd.concat([gap.assign(terminated=True), last])
    both = ix.Demonstrations.from_frame(
        joined,
        episode="episode",
        time="t",
        state="state",
        action="action",
        next_state="next_state",
        terminated="terminated",
        weight="weight",
    )
    assert both.terminated.tolist() == [True]
    coded = ix.with_history(world[0], both, unknown="drop").demos
    assert coded.num_steps == 1 and coded.terminated.tolist() == [False]


def test_means_and_sums_over_histories(world, panel):
    history = ix.with_history(world[0], panel[0], unknown="drop")
    values = np.random.default_rng(2).normal(size=history.mdp.num_states)
    weight = np.bincount(history.demos.states, [1, 2, 2, 1], minlength=len(values))
    for s in range(S):
        here = history.present == s
        expected = (values * weight)[here].sum() / weight[here].sum() if weight[here].any() else np.nan
        assert np.isclose(history.average(values)[s], expected, equal_nan=True)
        assert np.isclose(history.average(values, visits=np.ones((len(values), A)))[s], values[here].mean())
        assert np.allclose(history.total(np.stack([values, 2 * values], 1))[s], values[here].sum() * np.array([1, 2]))
    table = history.pairs(values)
    assert table.shape == (S + 1, S) and table.notna().to_numpy().sum() == len(values)
    code = int(np.flatnonzero(history.previous[:, 0] == 0)[0])
    assert table.loc["home"].iloc[history.present[code]] == values[code]
    longer = ix.with_history(world[0], last=2)
    with pytest.raises(ValueError, match=r"ix.visits"):
        longer.pairs(np.ones(longer.mdp.num_states))
    means = longer.pairs(np.ones(longer.mdp.num_states), visits=np.ones(longer.mdp.num_states))
    assert set(means.stack().dropna()) == {1.0}


def test_lifted_features_give_the_fit_of_the_original_states(world):
    mdp = world[0]
    plan = ix.soft_plan(mdp, np.array([0.0, 1.0, -1.0, 0.0]))
    demos = ix.rollout(mdp, plan, num=40, key=jax.random.key(1))
    reward = ix.LinearReward(np.eye(S)[:, 1:3], names=["road", "shop"])
    history = ix.with_history(mdp, demos)
    estimator = ix.MCEIRL(objective="likelihood")
    plain, lifted = (
        estimator.fit(mdp, reward, demos),
        estimator.fit(history.mdp, history.lift(reward), history.demos),
    )
    assert np.allclose(plain.reward.weights, lifted.reward.weights, atol=1e-8)
    assert lifted.reward.names == ("road", "shop")
    assert np.isclose(plain.log_likelihood, lifted.log_likelihood)


def test_mistakes_have_messages(world):
    mdp = world[0]
    with pytest.raises(ValueError, match="last=0"):
        ix.with_history(mdp, last=0)
    with pytest.raises(TypeError, match="Memory"):
        ix.with_history(mdp, memory=lambda m: m)
    with pytest.raises(TypeError, match=r"ix\.Demonstrations, but is a list"):
        ix.with_history(mdp, [])
    with pytest.raises(ValueError, match=r"More than 50 extended states.*max_states"):
        ix.with_history(mdp, last=0, memory=ix.Memory(0, lambda m, s, a, after: m + 1), max_states=50)
    with pytest.raises(ValueError, match="from 0 to"):
        ix.with_history(mdp, memory=ix.Memory(-1, lambda m, s, a, after: m))
    with pytest.raises(ValueError, match="62 bits"):
        ix.with_history(mdp, last=40)
    with pytest.raises(ValueError, match=r"one value|one row for each"):
        ix.with_history(mdp).average(np.ones(2))
    with pytest.raises(ValueError, match=r"\(S, \.\.\.\)"):
        ix.with_history(mdp).lift(np.ones((3, 2)))
    with pytest.raises(ValueError, match="einsum"):
        ix.with_history(mdp).lift(ix.LinearReward(np.ones((S, A, S, 1))))
    elsewhere = ix.Demonstrations.from_episodes([([1], [0])])
    with pytest.raises(ValueError, match="with all demonstrations"):
        ix.with_history(mdp).translate(elsewhere)
    assert ix.with_history(mdp, elsewhere).demos.num_steps == 1


def test_single_precision_and_endless_horizons(world):
    mdp = world[0]
    narrow = ix.with_history(mdp.single_precision())
    assert narrow.mdp.initial.dtype == np.float32
    endless = ix.with_history(mdp.replace(horizon=None))
    assert endless.mdp.horizon is None and endless.mdp.num_states == narrow.mdp.num_states


def test_weights_of_rows_are_kept(world, panel):
    demos = panel[0].with_row_weights(np.arange(1.0, 7.0))
    history = ix.with_history(world[0], demos, unknown="drop")
    assert history.demos.row_weights.tolist() == [1, 2, 3, 6]
    assert history.total(history._observed()).sum() == history.demos.choice_weights.sum()
