"""Random panels, and plain loops over them: the oracles of the readers."""

import numpy as np
import pandas as pd

S, A = 5, 3

NAMES = {"episode": "id", "time": "t", "state": "s", "action": "a"}
ALL_NAMES = NAMES | {"next_state": "s2", "terminated": "end", "weight": "w"}


def random_panel(seed, *, num=6, text=False, gaps=False, mark_last=False):
    """A frame sorted by episode and time, with all optional columns."""
    rng = np.random.default_rng(seed)
    rows = []
    for k in range(num):
        length = int(rng.integers(1, 9))
        times = np.cumsum(rng.integers(1, 3, size=length)) - rng.integers(2) if gaps else np.arange(length)
        ends, weight = bool(rng.integers(2)), float(rng.integers(1, 5)) / 4
        for i, t in enumerate(times):
            end = ends and (i == length - 1 or not mark_last)
            label = f"person {k:02d}" if text else 10 * k - 7
            s, a = rng.integers(S), rng.integers(A)
            if i and t == times[i - 1] + 1:
                s = after
            after = rng.integers(S)
            rows.append((label, int(t), int(s), int(a), int(after), end, weight))
    return pd.DataFrame(rows, columns=list(ALL_NAMES.values()))


def shuffled(frame, seed=0):
    return frame.sample(frac=1, random_state=seed)


def episodes(frame):
    """Each episode as plain lists, in the order of the labels; `end` and `w` as one value."""
    found = []
    for label in sorted(set(frame["id"])):
        rows = sorted(row for row in frame.itertuples(index=False) if row.id == label)
        found.append(
            {
                "label": label,
                "times": [row.t for row in rows],
                "states": [row.s for row in rows],
                "actions": [row.a for row in rows],
                "next_states": [row.s2 for row in rows],
                "terminated": rows[-1].end,
                "weight": rows[0].w,
            }
        )
    return found


def assert_holds(demos, expected):
    """The demonstrations hold these episodes, and nothing else."""
    assert demos.num_episodes == len(expected)
    for k, episode in enumerate(expected):
        rows = slice(demos.offsets[k], demos.offsets[k + 1])
        assert demos.labels[k] == episode["label"]
        assert demos.times[rows].tolist() == episode["times"]
        assert demos.states[rows].tolist() == episode["states"]
        assert demos.actions[rows].tolist() == episode["actions"]
        assert demos.next_states[rows].tolist() == episode["next_states"]
        assert demos.terminated[k] == episode["terminated"]
        assert demos.weights[k] == episode["weight"]
    assert demos.num_steps == sum(len(episode["times"]) for episode in expected)
