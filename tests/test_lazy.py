"""Public names are imported when they are used: the table at run time is the list of imports for type checkers."""

import ast
import importlib
import json
import subprocess
import sys
from pathlib import Path

import pytest

LAZY = ("irlax", "irlax.estimators.tabular", "irlax.report")


@pytest.mark.parametrize("name", LAZY)
def test_type_checkers_and_the_interpreter_find_the_same(name):
    package = importlib.import_module(name)
    tree = ast.parse(Path(package.__file__).read_text())
    (typed,) = (node for node in tree.body if isinstance(node, ast.If))
    imports = [node for node in typed.body if isinstance(node, ast.ImportFrom)]
    names = {alias.name: node.module for node in imports for alias in node.names}
    eager = {alias.name for node in tree.body if isinstance(node, ast.ImportFrom) for alias in node.names}
    assert set(names) | (eager & {"__version__"}) == set(package.__all__)
    assert set(package.__all__) <= set(dir(package))
    for own, module in names.items():
        holder = importlib.import_module(module)
        expected = getattr(holder, own, None) or importlib.import_module(f"{module}.{own}")
        assert getattr(package, own) is expected, own


def test_other_modules_are_attributes_and_other_names_are_not():
    import irlax as ix

    assert ix.analysis.__name__ == "irlax.analysis"
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        _ = ix.nothing


def test_what_computes_nothing_imports_no_jax():
    script = """
import contextlib, io, json, sys
from irlax.cli import main
ends = []
helps = (["--version"], ["--help"], ["fit", "--help"], ["panel", "fit", "--help"])
for words in (*helps, ["fit", "--methd", "mce"], ["ft"]):
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        try:
            main(words)
        except SystemExit as end:
            ends.append(end.code)
print(json.dumps([ends, sorted({"jax", "numpy", "pandas", "equinox"} & set(sys.modules))]))
"""
    said = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout
    assert json.loads(said) == [[0, 0, 0, 0, 2, 2], []]
