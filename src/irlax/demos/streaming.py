"""Statistics of a Parquet file in one pass, in memory that does not grow with its rows."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import equinox as eqx
import numpy as np

from irlax import storage
from irlax.demos import columns, panel
from irlax.demos.read_write import checked_names, open_parquet
from irlax.demos.statistics import NO_ROW_WEIGHTS, DemoStatistics, from_tally, new_tally
from irlax.demos.tally import Tally
from irlax.progress import progress_bar
from irlax.typing import Bool

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq

#: Rows read at a time.
_BATCH = 2**18


class _Piece(eqx.Module):
    """Some rows of the file in their order."""

    labels: Any
    values: dict[str, Any]
    rows: np.ndarray

    def tail(self, follows: Bool[np.ndarray, " n"]) -> "_Piece":
        """The last two rows, or one if they are of two episodes: those that `Steps.check` compares with the next."""
        keep = 2 if follows[-1] else 1
        values = {role: None if array is None else array[-keep:] for role, array in self.values.items()}
        return _Piece(self.labels[-keep:], values, self.rows[-keep:])

    def after(self, tail: "_Piece | None") -> "_Piece":
        """These rows behind the last ones of the piece before them."""
        import pyarrow as pa

        if tail is None:
            return self
        values = {
            role: None if array is None else np.concatenate([tail.values[role], array])
            for role, array in self.values.items()
        }
        return _Piece(pa.concat_arrays([tail.labels, self.labels]), values, np.concatenate([tail.rows, self.rows]))

    def steps(self) -> panel.Steps:
        """As rows of a sorted table."""
        return panel.Steps(
            rows=self.rows,
            follows=np.concatenate([[False], _equal_to_next(self.labels)]),
            **self.values,
            label=lambda i: self.labels[i].as_py(),
        )


def statistics_from_parquet(
    path: str | os.PathLike[str],
    *,
    num_states: int,
    num_actions: int,
    discount: float,
    horizon: int | None = None,
    episode: str = "episode",
    time: str = "t",
    state: str = "state",
    action: str = "action",
    next_state: str | None = None,
    terminated: str | None = None,
    weight: str | None = None,
    progress: bool = True,
) -> DemoStatistics:
    """The statistics that tabular estimators need, from one pass over a Parquet file of any size.

    The columns are those of `read_demos`. All rows of an episode must follow each other, in the order of
    time. Memory holds a batch of rows, the statistics and the labels of the episodes. With a `horizon`, choices are
    counted at each time as well, T·S·A numbers at most: likelihoods over a finite horizon need them. Statistics have no
    goals, so a file with a column `goal` is refused: read it with `read_demos`.

        statistics = statistics_from_parquet("panel.parquet", num_states=100, num_actions=4, discount=0.95)
        mdp = MDP.from_statistics(statistics)
        fit = MCEIRL(objective="likelihood").fit(mdp, reward, statistics)
    """
    tally = new_tally(num_states, num_actions, discount, horizon)
    path = storage.existing_file(path, (".parquet",))
    names = panel.Columns(episode, time, state, action, next_state, terminated, weight)
    try:
        file = open_parquet(path)
        names = checked_names(names, file.schema_arrow.names)
        if names.goal is not None:
            raise ValueError(
                f"Statistics have no goals, but the file has a column `{names.goal}`. Read it with `read_demos`, or "
                f"rename the column if it holds something else."
            )
        if names.row_weight is not None:
            raise ValueError(NO_ROW_WEIGHTS.format(f"the file has a column `{names.row_weight}`"))
        _count(_pieces(path, file, names, progress), names, tally)
        return from_tally(tally)
    except (TypeError, ValueError) as error:
        raise storage.in_file(path, error) from None


def _count(pieces: Iterator[_Piece], names: panel.Columns, tally: Tally) -> None:
    tail, labels = None, _Labels()
    for piece in pieces:
        longer = piece.after(tail)
        steps, repeated = longer.steps(), len(longer.rows) - len(piece.rows)
        steps.check(names)
        labels.add(longer, steps, repeated)
        tally.add(steps, repeated=repeated)
        tail = longer.tail(steps.follows)
    labels.check()
    if tail is not None:
        tally.add(tail.steps(), repeated=len(tail.rows), ended=True)


def _pieces(path: Path, file: "pq.ParquetFile", names: panel.Columns, progress: bool) -> Iterator[_Piece]:
    """The columns that are needed, some rows at a time, each checked on its own."""
    wanted = list(dict.fromkeys(names.names.values()))
    batches = file.iter_batches(_BATCH, columns=wanted)
    first_row = 0
    with progress_bar(f"reading {path.name}", file.metadata.num_rows, shown=None if progress else False) as bar:
        while True:
            with storage.unreadable(path, "a Parquet file"):
                batch = next(batches, None)
                if batch is not None:
                    batch.validate(full=True)
            if batch is None:
                return
            if not len(batch):
                continue
            labels, values = panel.read_columns(names, batch.column, first_row)
            yield _Piece(labels, values, np.arange(first_row, first_row + len(batch)))
            first_row += len(batch)
            bar.update(first_row)


class _Labels:
    """The labels of all episodes so far, to find episodes whose rows do not follow each other."""

    def __init__(self) -> None:
        self._labels: list[Any] = []
        self._rows: list[np.ndarray] = []

    def add(self, piece: _Piece, steps: panel.Steps, repeated: int) -> None:
        """Add the episodes that start in a piece, and compare their labels with each other."""
        import pyarrow as pa

        first = np.flatnonzero(~steps.follows[repeated:]) + repeated
        labels, rows = piece.labels.take(pa.array(first)), piece.rows[first]
        _refuse_repeated(labels, rows)
        self._labels.append(labels)
        self._rows.append(rows)

    def check(self) -> None:
        """Compare the episodes of all pieces."""
        import pyarrow as pa

        if self._labels:
            _refuse_repeated(pa.concat_arrays(self._labels), np.concatenate(self._rows))


def _refuse_repeated(labels: "pa.Array", rows: np.ndarray) -> None:
    encoded = labels.dictionary_encode()
    if len(encoded.dictionary) == len(labels):
        return
    codes = columns.as_numpy(encoded.indices)
    again = np.ones(len(codes), bool)
    again[np.unique(codes, return_index=True)[1]] = False
    i = int(np.argmax(again))
    raise ValueError(
        f"All rows of an episode must follow each other, but episode {labels[i].as_py()!r}, which starts in row "
        f"{rows[int(np.argmax(codes == codes[i]))]}, comes back in row {rows[i]}. {panel.SORT}"
    )


def _equal_to_next(labels: "pa.Array") -> np.ndarray:
    import pyarrow.compute as pc

    return columns.as_numpy(pc.call_function("equal", [labels[1:], labels[:-1]]))
