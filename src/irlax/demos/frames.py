"""Demonstrations from pandas frames, and back."""

from typing import TYPE_CHECKING, Any

import numpy as np

from irlax.demos import columns, panel
from irlax.demos.demonstrations import Demonstrations

if TYPE_CHECKING:
    import pandas as pd


def from_frame(frame: Any, names: panel.Columns) -> Demonstrations:
    """Demonstrations from a pandas frame whose columns are called `names`."""
    import pandas as pd

    if not isinstance(frame, pd.DataFrame):
        raise TypeError(f"`df` must be a pandas DataFrame, but is a {type(frame).__name__}.")
    names.check(list(frame.columns))
    if not len(frame):
        raise ValueError("The table has no rows. Give it one for each observed choice.")
    for role, name in names.names.items():
        # Text is of dtype object in pandas before 3, so episodes may be; a number may not.
        if role != "episode":
            _refuse_objects(name, frame[name])
    return panel.demonstrations(names, lambda name: columns.from_pandas(name, frame[name]))


def to_frame(demos: Demonstrations) -> "pd.DataFrame":
    """A pandas frame with a row for each observed choice."""
    import pandas as pd

    episode = demos.episode
    table: dict[str, Any] = {
        "episode": (np.arange(demos.num_episodes) if demos.labels is None else _distinct(demos.labels))[episode],
        "t": demos.times,
        "state": demos.tabular_states,
        "action": demos.actions,
    }
    if demos.next_states is not None:
        table["next_state"] = demos.next_states
    if demos.terminated.any():
        table["terminated"] = demos.terminated[episode]
    if (demos.weights != 1).any():
        table["weight"] = demos.weights[episode]
    if demos.goals is not None:
        table["goal"] = demos.goals[episode]
    if demos.row_weights is not None:
        table["row_weight"] = demos.row_weights
    if demos.rewards is not None:
        table["reward"] = demos.rewards
    return pd.DataFrame(table)


def _refuse_objects(name: Any, series: Any) -> None:
    if series.dtype != object:
        return
    missing = series.isna().to_numpy()
    if missing.any():
        raise ValueError(
            f"Column `{name}` must have a value in every row, but row {int(np.argmax(missing))} has none "
            f"(NaN or empty). Fill it in, or leave out its episode."
        )
    raise TypeError(
        f"Column `{name}` must hold numbers, but has dtype object: row 0 has {series.iloc[0]!r:.60}. Convert it, for "
        f"example with `.astype(int)`."
    )


def _distinct(labels: np.ndarray) -> np.ndarray:
    distinct, counts = np.unique(labels, return_counts=True)
    if len(distinct) < len(labels):
        raise ValueError(
            f"A table identifies episodes by their labels, but {distinct[counts > 1][0].item()!r} is the label of "
            f"{counts.max()}. Number them with `dataclasses.replace(demos, labels=None)`, or write an .npz file."
        )
    return labels
