"""Scenes to start from."""

from irlax.studio.scene import Cell, Scene, Truth


def _walk(*corners: Cell) -> tuple[Cell, ...]:
    """The walk from corner to corner, each leg straight."""
    cells = [corners[0]]
    for row, column in corners[1:]:
        while cells[-1] != (row, column):
            here, there = cells[-1]
            step = ((row > here) - (row < here), (column > there) - (column < there))
            cells.append((here + step[0], there + step[1]))
    return tuple(cells)


DOORS = Scene(
    title="A room with two doors",
    board=(
        *("..........", "..........", "..........", "....#.....", "###.####.#"),
        *("..........", "..........", ".......X..", "..........", ".........G"),
    ),
    demonstrations=(
        _walk((0, 1), (0, 3), (6, 3), (6, 5), (9, 5), (9, 9)),
        _walk((1, 6), (1, 8), (5, 8), (5, 9), (9, 9)),
        _walk((2, 0), (2, 3), (5, 3), (5, 4), (8, 4), (8, 8), (9, 8), (9, 9)),
    ),
    slip=0.1,
    discount=0.9,
    l2=0.02,
    truth=Truth(0.0, 20.0, -20.0),
)

LEDGE = Scene(
    title="Along a ledge",
    board=("............", "............", "............", "SXXXXXXXXXXG"),
    demonstrations=(
        _walk((3, 0), (1, 0), (1, 11), (3, 11)),
        _walk((3, 0), (0, 0), (0, 11), (3, 11)),
        _walk((3, 0), (1, 0), (1, 6), (0, 6), (0, 11), (3, 11)),
    ),
    slip=0.3,
    discount=0.9,
    reward="marks",
    l2=0.01,
    truth=Truth(0.0, 20.0, -20.0),
)

ROUND = Scene(
    title="Round and round",
    board=("........", "........", "..####..", "..####..", "..####..", "..####..", "........", "........"),
    demonstrations=(
        _walk((0, 0), (0, 7), (7, 7), (7, 0), (1, 0)),
        _walk((1, 1), (1, 6), (6, 6), (6, 1), (2, 1)),
    ),
    slip=0.05,
    discount=0.9,
    ends=False,
    reward="moves",
    l2=0.02,
)

LARGE = Scene(
    title="A maze of 30×30",
    board=tuple(
        "".join(
            "G"
            if (row, column) == (29, 29)
            else "#"
            if (row % 6 == 5 and column % 12 != (row // 6 * 5) % 12) or (column == 14 and row % 6 not in (2, 5))
            else "."
            for column in range(30)
        )
        for row in range(30)
    ),
    demonstrations=(_walk((0, 3), (3, 3), (3, 0), (8, 0), (8, 5), (14, 5)),),
    slip=0.1,
    discount=0.95,
    horizon=60,
    l2=0.02,
)

EMPTY = Scene(title="An empty room", board=("." * 10,) * 10, slip=0.1)

PRESETS = (DOORS, LEDGE, ROUND, LARGE, EMPTY)
