import collections

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from irlax import Demonstrations
from irlax.demos import DemoStatistics, read_demos, statistics_from_parquet, streaming, tally
from tests.demos.panels import ALL_NAMES, NAMES, A, S, episodes, random_panel

DISCOUNT = 0.9
SIZES = {"num_states": S, "num_actions": A, "discount": DISCOUNT}
WITHOUT_NEXT = {role: name for role, name in ALL_NAMES.items() if role != "next_state"}
FORMS = [{"text": text, "gaps": gaps, "mark_last": last} for text in (0, 1) for gaps in (0, 1) for last in (0, 1)]


def assert_counts(statistics, panel, names, discount=DISCOUNT):
    """Plain loops over the episodes of a panel give the same sums."""
    starts, visits, choices = np.zeros(S), np.zeros((S, A)), np.zeros((S, A))
    moves, endings = np.zeros((A, S, S)), collections.Counter()
    total, missing = 0.0, 0.0
    for episode in episodes(panel):
        times, states, actions = episode["times"], episode["states"], episode["actions"]
        weight = episode["weight"] if "weight" in names else 1.0
        ended = bool("terminated" in names and episode["terminated"])
        total += weight
        starts[states[0]] += weight
        for i, (t, s, a) in enumerate(zip(times, states, actions, strict=True)):
            visits[s, a] += weight * discount**t
            choices[s, a] += weight
            if "next_state" in names:
                moves[a, s, episode["next_states"][i]] += weight
            elif i + 1 < len(times) and times[i + 1] == t + 1:
                moves[a, s, states[i + 1]] += weight
        missing += 0 if ended else weight * discount ** (times[-1] + 1)
        contiguous = times == list(range(times[0], times[0] + len(times)))
        final = episode["next_states"][-1] if ended and "next_state" in names else -1
        endings[ended, final, times[-1] + 1, times[0] == 0, contiguous] += 1
    assert np.allclose(statistics.starts, starts, rtol=1e-14)
    assert np.allclose(statistics.visits, visits, rtol=1e-14)
    assert np.allclose(statistics.choices, choices, rtol=1e-14)
    assert np.allclose([matrix.toarray() for matrix in statistics.transitions], moves, rtol=1e-14)
    assert np.isclose(statistics.missing_mass, missing / total, rtol=1e-14)
    assert np.isclose(statistics.total_weight, total)
    assert statistics.num_steps == len(panel) and statistics.max_time == panel["t"].max()
    assert_endings(statistics, endings)


def assert_endings(statistics, endings):
    found = statistics.endings
    keys = zip(found.terminated, found.final_state, found.length, found.starts_at_zero, found.contiguous, strict=True)
    assert dict(zip(keys, found.count, strict=True)) == endings
    assert statistics.num_episodes == endings.total()
    for position, number in ((0, "num_terminated"), (3, "num_from_zero"), (4, "num_contiguous")):
        assert getattr(statistics, number) == sum(count for key, count in endings.items() if key[position])
    for horizon in (1, 3, 6, None):
        whole = {key: n for key, n in endings.items() if key[3] and key[4] and (key[0] or key[2] == horizon)}
        assert statistics.num_whole(horizon) == sum(whole.values())


@pytest.mark.parametrize("names", [NAMES, WITHOUT_NEXT, ALL_NAMES], ids=len)
@pytest.mark.parametrize("form", FORMS)
def test_sums_are_those_of_plain_loops(form, names):
    panel = random_panel(0, num=12, **form)
    statistics = DemoStatistics.from_demos(Demonstrations.from_frame(panel, **names), **SIZES)
    assert_counts(statistics, panel, names)


@pytest.mark.parametrize("discount", [0.0, 0.5, 1.0])
def test_every_discount_counts_as_its_power_says(discount):
    panel = random_panel(1)
    demos = Demonstrations.from_frame(panel, **ALL_NAMES)
    statistics = DemoStatistics.from_demos(demos, num_states=S, num_actions=A, discount=discount)
    assert_counts(statistics, panel, ALL_NAMES, discount)


@pytest.mark.parametrize("batch", [1, 3, 1000])
@pytest.mark.parametrize("names", [NAMES, WITHOUT_NEXT, ALL_NAMES], ids=len)
@pytest.mark.parametrize("form", FORMS)
def test_a_file_read_in_pieces_gives_the_same(tmp_path, monkeypatch, form, names, batch):
    monkeypatch.setattr(streaming, "_BATCH", batch)
    monkeypatch.setattr(tally, "_PENDING", 2)
    panel, path = random_panel(2, num=9, **form), tmp_path / "panel.parquet"
    # Episodes must hang together; their order is free.
    order = np.random.default_rng(0).permutation(sorted(set(panel["id"])))
    pieces = pd.concat([panel[panel["id"] == label] for label in order])
    pq.write_table(pa.Table.from_pandas(pieces, preserve_index=False), path, row_group_size=7)
    assert_counts(statistics_from_parquet(path, **SIZES, **names), panel, names)


def test_a_file_of_one_long_episode_is_read_in_pieces(tmp_path, monkeypatch):
    monkeypatch.setattr(streaming, "_BATCH", 7)
    rng, n = np.random.default_rng(0), 100
    panel = pd.DataFrame({"id": "a", "t": np.arange(3, 3 + n), "s": rng.integers(S, size=n), "a": 1, "w": 2.5})
    panel["s2"] = np.append(panel["s"][1:], 0)
    panel["end"] = np.arange(n) == n - 1
    pq.write_table(pa.Table.from_pandas(panel), tmp_path / "panel.parquet")
    statistics = statistics_from_parquet(tmp_path / "panel.parquet", **SIZES, **ALL_NAMES)
    assert_counts(statistics, panel, ALL_NAMES)


def test_both_ways_agree_on_a_larger_file(tmp_path):
    panel = random_panel(3, num=2000).rename(columns=dict(zip(ALL_NAMES.values(), ALL_NAMES, strict=True)))
    panel = panel.rename(columns={"time": "t"})
    pq.write_table(pa.Table.from_pandas(panel), tmp_path / "panel.parquet", row_group_size=999)
    whole = DemoStatistics.from_demos(read_demos(tmp_path / "panel.parquet"), **SIZES)
    pieces = statistics_from_parquet(tmp_path / "panel.parquet", **SIZES, progress=False)
    for name in ("starts", "visits", "choices", "num_steps", "max_time", "missing_mass", "num_terminated"):
        assert np.allclose(getattr(whole, name), getattr(pieces, name), rtol=1e-13)
    for one, other in zip(whole.transitions, pieces.transitions, strict=True):
        assert abs(one - other).max() < 1e-12


GOOD = pd.DataFrame(
    {"id": list("aaabbb"), "t": [0, 1, 2] * 2, "s": 1, "a": 0, "s2": 1, "end": [False, False, True] * 2, "w": 1.0}
)


def replaced(column, row, value):
    frame = GOOD.astype({column: "float64"}) if isinstance(value, float) else GOOD.copy()
    frame.loc[row, column] = value
    return frame


FAULTS = [
    (replaced("s", 3, 7), r"state must lie in 0\.\.4, but row 3 \(episode 'b', t = 0\) has 7"),
    (replaced("a", 4, 3), r"action must lie in 0\.\.2, but row 4"),
    (replaced("s", 4, 2), r"row 3 \(episode 'b', t = 0\) leads to state 1, and row 4 is in state 2"),
    (replaced("s2", 1, 3), r"`s2`.*row 1 \(episode 'a', t = 1\) leads to state 3, and row 2 is in state 1"),
    (replaced("s2", 5, 5), r"next state must lie in 0\.\.4, but row 5"),
    (replaced("s", 4, -1), "`s`.*row 4 has -1"),
    (replaced("s", 4, 0.5), r"`s`.*row 4 has 0\.5"),
    (replaced("s", 4, np.nan), "`s`.*row 4 has none"),
    (replaced("w", 4, np.inf), "`w`.*row 4 has inf"),
    (replaced("w", 4, 2.0), r"`w`.*row 4 \(episode 'b', t = 1\) has 2\.0 after 1\.0"),
    (replaced("end", 4, True), r"`end`.*row 4 \(episode 'b', t = 1\) is not the last"),
    (replaced("t", 4, 0), r"row 4 repeats row 3 \(episode 'b', t = 0\)"),
    (GOOD.assign(w=0.0), "weight 0|all of them zero"),
    (GOOD.assign(w=1e308), "sum over all steps"),
    (GOOD.iloc[:0], "no rows"),
    (GOOD.drop(columns="s"), "no column `s` for `state`"),
    (GOOD.assign(s="x"), "`s`.*row 0 has 'x'"),
]
UNSORTED = [
    (replaced("t", 4, 9), r"falls at row 5 \(episode 'b', t = 2\).*Sort the table by episode and time"),
    (GOOD.iloc[[0, 1, 3, 4, 5, 2]], "episode 'a', which starts in row 0, comes back in row 5.*Sort the table"),
    (GOOD.iloc[::-1], "Time must increase.*falls at row 1 .*Sort the table"),
]


@pytest.mark.parametrize("batch", [1, 2, 4, 1000])
@pytest.mark.parametrize("frame, message", FAULTS + UNSORTED)
def test_a_malformed_file_is_refused_with_the_place_of_the_fault(tmp_path, monkeypatch, frame, message, batch):
    monkeypatch.setattr(streaming, "_BATCH", batch)
    path = tmp_path / "panel.parquet"
    pq.write_table(pa.Table.from_pandas(frame, preserve_index=False), path)
    names = ALL_NAMES if "end" in frame and "w" in frame else NAMES
    with pytest.raises((ValueError, TypeError), match=f"(?s){message}") as caught:
        statistics_from_parquet(path, **SIZES, **names)
    assert str(path) in str(caught.value)


@pytest.mark.parametrize("frame, message", FAULTS)
def test_the_reader_in_memory_says_the_same(frame, message):
    with pytest.raises((ValueError, TypeError), match=f"(?s){message}"):
        DemoStatistics.from_demos(Demonstrations.from_frame(frame, **ALL_NAMES), **SIZES)


def test_sizes_and_files_are_checked_first(tmp_path, as_a_user):
    demos = Demonstrations.from_frame(GOOD, **ALL_NAMES)
    with pytest.raises(ValueError, match="`num_states` must be at least 1"):
        DemoStatistics.from_demos(demos, num_states=0, num_actions=1, discount=0.5)
    with pytest.raises(TypeError, match="`num_actions`"):
        DemoStatistics.from_demos(demos, num_states=5, num_actions=1.5, discount=0.5)
    with pytest.raises(ValueError, match="`discount`"):
        DemoStatistics.from_demos(demos, num_states=5, num_actions=1, discount=1.5)
    with pytest.raises(ValueError, match=r"must end in \.parquet"):
        statistics_from_parquet(tmp_path / "panel.csv", **SIZES)
    with pytest.raises(FileNotFoundError):
        statistics_from_parquet(tmp_path / "panel.parquet", **SIZES)
    continuous = Demonstrations.from_trajectories([_Continuous()])
    with pytest.raises(TypeError, match="observations, not the integer states"):
        DemoStatistics.from_demos(continuous, **SIZES)


class _Continuous:
    obs, acts, terminal = np.zeros((3, 2)), np.zeros(2), False
