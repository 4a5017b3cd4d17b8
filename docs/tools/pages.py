"""Run the Python blocks of the pages, and print into the pages what they print.

    .venv/bin/python -m docs.tools.pages README.md docs/estimators/*.md

A block is followed by what it prints if a fence marked `text` comes right after it. Blocks of one page share their
names. `tests/test_docs.py` runs them all, and compares.
"""

import contextlib
import io
import re
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).parents[2]
_BLOCK = re.compile(r"^```python\n(?P<code>.*?)^```\n(?:\n?^```text\n(?P<shown>.*?)^```\n)?", re.S | re.M)
_INCLUDED = re.compile(r'^--8<-- "(.*)"\n', re.M)


class Block(NamedTuple):
    """A block of Python, what the page says that it prints, and where that stands in the page."""

    code: str
    shown: str | None
    span: tuple[int, int]


def blocks_of(text: str) -> list[Block]:
    """The blocks of a page, with the files that they include."""

    def included(found: re.Match[str]) -> str:
        return (ROOT / found[1]).read_text()

    return [
        Block(_INCLUDED.sub(included, block["code"]), block["shown"], block.span("shown"))
        for block in _BLOCK.finditer(text)
    ]


def run(text: str, names: dict[str, Any]) -> Iterator[tuple[Block, str]]:
    """Run the blocks of a page one after the other; yields each with what it printed."""
    for block in blocks_of(text):
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(block.code, names)  # the pages are ours
        yield block, printed.getvalue()


def with_outputs(text: str, names: dict[str, Any]) -> str:
    """The page with what its blocks print now."""
    for block, printed in reversed(list(run(text, names))):
        if block.shown is not None:
            text = text[: block.span[0]] + printed + text[block.span[1] :]
    return text


if __name__ == "__main__":
    for path in [Path(argument).resolve() for argument in sys.argv[1:]]:
        # What a page writes is not kept.
        with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
            path.write_text(with_outputs(path.read_text(), {}))
