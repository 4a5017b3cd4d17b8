"""Tutorials as notebooks: the code of the pages, whose blocks `test_docs.py` runs, and links that lead somewhere."""

import json
import re
import subprocess
import sys

import pytest
from docs.tools.notebooks import notebook, paragraphs, tutorials, write
from docs.tools.pages import ROOT, blocks_of

TUTORIALS = tutorials()
BY_NAME = pytest.mark.parametrize("page", TUTORIALS, ids=lambda page: page.stem)


def source_of(made, kind):
    return [cell["source"] for cell in made["cells"] if cell["cell_type"] == kind]


def squeezed(text):
    """Code without its docstring and empty lines."""
    return [line for line in re.sub(r'^""".*?"""\n', "", text, flags=re.S).splitlines() if line.strip()]


def test_every_page_of_the_folder_is_a_tutorial():
    assert {page for page in TUTORIALS if page.parent.name == "tutorials"} == set(
        (ROOT / "docs/tutorials").glob("*.md")
    )


@BY_NAME
def test_the_cells_are_the_code_of_the_page(page):
    made = notebook(page.read_text())
    code, codes = source_of(made, "code"), [block.code for block in blocks_of(page.read_text())]
    if any("parse_args()" in each for each in codes):
        # Else the kernel's own arguments would be read.
        assert code.pop(0) == "import sys\n\nsys.argv[1:] = []"
    assert squeezed("\n".join(code)) == [line for each in codes for line in squeezed(each)]
    for cell in code:
        compile(cell, page.stem, "exec")


@BY_NAME
def test_a_notebook_is_in_the_format_and_its_text_is_the_page(page, tmp_path):
    made = json.loads(write(page, tmp_path, TUTORIALS).read_text())
    assert (made["nbformat"], made["nbformat_minor"]) == (4, 5) and made["metadata"]["kernelspec"]["name"] == "python3"
    ids = [cell["id"] for cell in made["cells"]]
    assert len(set(ids)) == len(ids) and all(re.fullmatch("[a-zA-Z0-9_-]{1,64}", each) for each in ids)
    for cell in made["cells"]:
        rest = {"outputs": [], "execution_count": None} if cell["cell_type"] == "code" else {}
        assert {name: cell[name] for name in set(cell) - {"cell_type", "metadata", "source", "id"}} == rest
    text = "\n".join(source_of(made, "markdown"))
    assert "```python" not in text and "--8<--" not in "\n".join(source_of(made, "code"))
    headings = [line for line in page.read_text().splitlines() if line.startswith("#")]
    assert [line for line in text.splitlines() if line in headings] == [line for line in headings if line in text]
    for link in re.findall(r"\]\(([^)\s]+)\)", text):
        target = link.split("#")[0]
        made_too = target.endswith(".ipynb") and target.removesuffix(".ipynb") in {each.stem for each in TUTORIALS}
        assert "://" in link or not target or made_too or (tmp_path / target).exists(), link


CODE = '''"""A script."""

import a

import b

x = """

1"""
# On y.

# More.
y = (

    2
)
z = 3


def f():

    return 1
'''


def test_code_is_cut_between_statements_only():
    page_block = "a = 1\n\nb = 2"
    assert paragraphs(page_block) == [page_block]
    assert paragraphs(CODE) == [
        "import a\n\nimport b",
        'x = """\n\n1"""\n# On y.',
        "# More.\ny = (\n\n    2\n)\nz = 3",
        "def f():\n\n    return 1",
    ]


def test_a_notebook_runs_in_ipython(tmp_path):
    pytest.importorskip("IPython", reason="IPython comes with `irlax[notebook]`, which is not installed")
    page = ROOT / "docs/notebooks.md"
    path = write(page, tmp_path, [])
    code = (
        "import json, sys\n"
        "from IPython.core.interactiveshell import InteractiveShell\n"
        "shell = InteractiveShell.instance()\n"
        "for cell in json.load(open(sys.argv[1]))['cells']:\n"
        "    if cell['cell_type'] == 'code':\n"
        "        shell.run_cell(cell['source']).raise_error()\n"
    )
    run = subprocess.run(
        [sys.executable, "-c", code, str(path)], capture_output=True, text=True, cwd=tmp_path, check=False
    )
    assert run.returncode == 0, run.stdout + run.stderr
    printed = [block.shown for block in blocks_of(page.read_text()) if block.shown]
    assert printed and all(text in run.stdout for text in printed)
