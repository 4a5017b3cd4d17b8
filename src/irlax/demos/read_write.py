"""Demonstrations from and to files: CSV, Parquet and npz."""

import csv as standard_csv
import dataclasses
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from irlax import storage
from irlax.demos import npz, panel
from irlax.demos.demonstrations import Demonstrations
from irlax.demos.frames import to_frame

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq

SUFFIXES = (".csv", ".parquet", ".npz")
#: How an integer is written, unlike 007.
AN_INTEGER = r"0|-?[1-9][0-9]{0,17}"
#: What counts as missing in a numeric column of a CSV file. In a column of labels only an empty cell does.
MISSING = ["", "NA", "N/A", "NaN", "nan", "null", "NULL", "None", "."]


def read_demos(
    path: str | os.PathLike[str],
    *,
    episode: str = "episode",
    time: str = "t",
    state: str = "state",
    action: str = "action",
    next_state: str | None = None,
    terminated: str | None = None,
    weight: str | None = None,
    goal: str | None = None,
    row_weight: str | None = None,
) -> Demonstrations:
    """Read demonstrations from a .csv, .parquet or .npz file.

    Tables have a row for each observed choice, in any order; the arguments name their columns, which are
    those of `Demonstrations.from_frame`. Columns called next_state, terminated, weight, goal and row_weight are
    used where there are any, unless others are named.

        episode,t,state,action
        ann,0,2,1
        ann,1,0,0
        bob,0,1,0

    Labels 0, 1, …, N−1 only number the episodes in their order, and are not kept. CSV has no types:
    labels that all look like whole numbers are taken as such, but 007 stays text.

    An .npz file holds the fields of `Demonstrations` as arrays, under their names. Nothing is ever unpickled.
    """
    path = storage.existing_file(path, SUFFIXES)
    if path.suffix.lower() == ".npz":
        return npz.load(path)
    names = panel.Columns(episode, time, state, action, next_state, terminated, weight, goal, row_weight)
    try:
        demos = _read_csv(path, names) if path.suffix.lower() == ".csv" else _read_parquet(path, names)
    except (TypeError, ValueError) as error:
        raise storage.in_file(path, error) from None
    numbered = demos.labels is not None and np.array_equal(demos.labels, np.arange(demos.num_episodes))
    return dataclasses.replace(demos, labels=None) if numbered else demos


def write_demos(path: str | os.PathLike[str], demos: Demonstrations) -> None:
    """Write demonstrations to a .csv, .parquet or .npz file, whole or not at all.

    Only .npz holds observations, rewards and continuous actions, and keeps the order of labelled episodes;
    tables are read back in the order of the labels.
    """
    path = storage.known_suffix(path, SUFFIXES)
    if not isinstance(demos, Demonstrations):
        raise TypeError(f"`demos` must be Demonstrations, but is a {type(demos).__name__}.")
    if path.suffix.lower() == ".npz":
        npz.save(path, demos)
        return
    held = [name for name in ("observations", "next_observations", "rewards") if getattr(demos, name) is not None]
    if held:
        raise ValueError(f"A table has no column for {' and '.join(held)}. Write an .npz file instead.")
    frame = to_frame(demos)
    if path.suffix.lower() == ".csv":
        with storage.replacing(path) as file:
            frame.to_csv(file, index=False, encoding="utf-8", lineterminator="\n")
        return
    import pyarrow as pa
    import pyarrow.parquet as pq

    table = pa.Table.from_pandas(frame, preserve_index=False)
    with storage.replacing(path) as file:
        # With checksums, a damaged file is an error when it is read, instead of other values.
        pq.write_table(table, file, write_page_checksum=True)


def open_parquet(path: Path) -> "pq.ParquetFile":
    """A Parquet file whose heading can be read."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    source = pa.OSFile(str(path))
    with storage.unreadable(path, "a Parquet file"):
        return pq.ParquetFile(source, page_checksum_verification=True)


def _read_parquet(path: Path, names: panel.Columns) -> Demonstrations:
    file = open_parquet(path)
    names = checked_names(names, file.schema_arrow.names)
    wanted = list(dict.fromkeys(names.names.values()))
    advice = "`statistics_from_parquet` reads it in pieces."
    # Eight bytes for a number, twice: as it is read, and sorted.
    storage.fits_in_memory(path, 16 * len(wanted) * max(file.metadata.num_rows, 0), advice)
    with storage.unreadable(path, "a Parquet file"):
        table: pa.Table = file.read(columns=wanted)
        table.validate(full=True)
    return panel.demonstrations(names, table.column)


def checked_names(names: panel.Columns, present: list[str]) -> panel.Columns:
    """The columns to read from a file that has `present`."""
    names = names.found_in(present)
    names.check(present)
    return names


def _read_csv(path: Path, names: panel.Columns) -> Demonstrations:
    # Not by pandas, whose import would be a tenth of the time of `irlax fit` on a small problem.
    import pyarrow as pa
    import pyarrow.compute as pc
    from pyarrow import csv

    kind = "a CSV file"
    with storage.unreadable(path, kind), path.open(encoding="utf-8-sig", newline="") as file:
        # Empty lines count for nothing, wherever they are.
        heading = next(filter(None, standard_csv.reader(file)), [])
        if not heading:
            raise ValueError("it has no line of column names")
    names = checked_names(names, heading)
    # Types are inferred from the first block, so that all of the file must be one.
    reading = csv.ReadOptions(block_size=min(path.stat().st_size + 1, 2**31 - 1))
    converting = csv.ConvertOptions(
        column_types={names.episode: pa.string()},
        include_columns=list(dict.fromkeys(names.names.values())),
        null_values=MISSING,
    )
    with storage.unreadable(path, kind):
        table = csv.read_csv(path, reading, csv.ParseOptions(newlines_in_values=True), converting)
    labels = table[names.episode]
    # With `\z`, because `$` also matches before a line break at the end.
    integers = pc.MatchSubstringOptions(rf"\A(?:{AN_INTEGER})\z")
    if pc.call_function("all", [pc.call_function("match_substring_regex", [labels], integers)]).as_py():
        labels = labels.cast(pa.int64())
    return panel.demonstrations(names, lambda name: labels if name == names.episode else table[name])


def exact_floats() -> dict[str, Any]:
    """The option with which pandas before 3.1 reads floats to the last bit; later ones always do, and warn of it."""
    import pandas as pd

    release = tuple(int(part) for part in pd.__version__.split(".")[:2])
    return {} if release >= (3, 1) else {"float_precision": "round_trip"}


def written_as_integers(labels: Any) -> Any:
    """Labels as integers, if every one is written the way an integer is."""
    texts = labels.drop_duplicates()
    if texts.isna().any() or not texts.str.fullmatch(AN_INTEGER).all():
        return labels
    return labels.astype("int64")
