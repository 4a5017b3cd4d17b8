"""Pages as notebooks: their Python blocks as cells of code, the rest as text.

    .venv/bin/python -m docs.tools.notebooks out/notebooks                  # all tutorials of the site
    .venv/bin/python -m docs.tools.notebooks out/notebooks docs/panels.md   # these pages

A block that includes a script is one cell for each of its paragraphs. The blocks of the pages are run by
`tests/test_docs.py`, and `tests/test_notebooks.py` checks that the cells are the same code.
"""

import ast
import itertools
import json
import os
import re
import sys
from pathlib import Path
from typing import Any

import yaml
from docs.tools.pages import ROOT, blocks_of

_BLOCK = re.compile(r"^```python\n.*?^```\n(?:\n?^```text\n.*?^```\n)?", re.S | re.M)
#: Of a Markdown link or image: all up to its address, a path of this site, and the rest.
_LINK = re.compile(r"(\]\()(?![a-z]+:|#)([^)#\s]+)")
#: Jupyter starts its kernels with arguments of its own, which a script would read.
_NO_ARGUMENTS = "import sys\n\nsys.argv[1:] = []"


def tutorials() -> list[Path]:
    """The pages below "Tutorials" in the navigation of the site."""
    nav = yaml.safe_load((ROOT / "mkdocs.yml").read_text())["nav"]
    (entries,) = [entry["Tutorials"] for entry in nav if "Tutorials" in entry]
    return [ROOT / "docs" / path for entry in entries for path in entry.values()]


def notebook(page: str) -> dict[str, Any]:
    """A page in the notebook format, 4.5; what it prints is left for Jupyter to print."""
    codes, texts = [block.code for block in blocks_of(page)], _BLOCK.split(page)
    cells = [_cell("markdown", texts[0])]
    if any(".parse_args()" in code for code in codes):
        cells.append(_cell("code", _NO_ARGUMENTS))
    for code, text in zip(codes, texts[1:], strict=True):
        cells += [_cell("code", paragraph) for paragraph in paragraphs(code)]
        cells.append(_cell("markdown", text))
    filled = [cell | {"id": f"cell-{number}"} for number, cell in enumerate(cells) if cell["source"]]
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    return {"cells": filled, "metadata": {"kernelspec": kernel}, "nbformat": 4, "nbformat_minor": 5}


def paragraphs(code: str) -> list[str]:
    """A script, cut at the empty lines between its statements; other code as it is.

    A script begins with a docstring, which is left out: the page says it too. Imports stay together.
    """
    lines, cut, statements = code.splitlines(), [0], ast.parse(code).body
    if ast.get_docstring(ast.parse(code)) is None:
        return [code]
    for before, after in itertools.pairwise(statements):
        assert before.end_lineno is not None
        # The first empty line between two statements: comments above the second belong to it.
        empty = [k for k in range(before.end_lineno, after.lineno - 1) if not lines[k].strip()]
        if empty and not (_is_import(before) and _is_import(after)):
            cut.append(empty[0])
    ends = [*cut[1:], len(lines)]
    return ["\n".join(lines[start:end]).strip("\n") for start, end in zip(cut, ends, strict=True)][1:]


def write(page: Path, folder: Path, others: list[Path]) -> Path:
    """Write the notebook of a page; its links lead to the notebooks of the others, or to the pages of the site."""

    def moved(found: re.Match[str]) -> str:
        there = (page.parent / found[2]).resolve()
        at_home = folder / f"{there.stem}.ipynb" if there in others else there
        return found[1] + Path(os.path.relpath(at_home, folder)).as_posix()

    made = notebook(page.read_text())
    for cell in made["cells"]:
        if cell["cell_type"] == "markdown":
            cell["source"] = _LINK.sub(moved, cell["source"])
    path = folder / f"{page.stem}.ipynb"
    path.write_text(json.dumps(made, indent=1, ensure_ascii=False) + "\n")
    return path


def _is_import(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Import | ast.ImportFrom)


def _cell(kind: str, source: str) -> dict[str, Any]:
    cell: dict[str, Any] = {"cell_type": kind, "metadata": {}, "source": source.strip("\n")}
    return cell | {"outputs": [], "execution_count": None} if kind == "code" else cell


if __name__ == "__main__":
    folder, *pages = [Path(argument).resolve() for argument in sys.argv[1:]]
    folder.mkdir(parents=True, exist_ok=True)
    for page in pages or tutorials():
        write(page, folder, pages or tutorials())
