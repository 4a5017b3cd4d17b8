"""Sizes of data, rounded up, so that data of similar size use the same compiled programs."""

import numpy as np

#: Fewer rows than these do not save time.
_SMALL = 64
#: Up to this size, sizes are rounded to powers of two; beyond it, to multiples of it, to waste little memory.
_LARGE = 2**16


def rounded_up(size: int) -> int:
    """A size that few sizes are rounded to: at most twice as large, or 64."""
    if size > _LARGE:
        return -(-size // _LARGE) * _LARGE
    return max(_SMALL, 1 << (size - 1).bit_length())


def padded(*columns: np.ndarray) -> list[np.ndarray]:
    """Columns of the same length, with their first entry repeated at the end, up to a length that is rounded."""
    missing = rounded_up(len(columns[0])) - len(columns[0])
    return [np.append(column, np.full(missing, column[0], column.dtype)) for column in columns]
