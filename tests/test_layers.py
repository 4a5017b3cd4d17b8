"""Imports go one way: a module imports only from modules above it in the layout of the design."""

import ast
import functools
import graphlib
from pathlib import Path

import pytest

import irlax

ROOT = Path(irlax.__file__).parent
ORDER = [
    "startup",
    "lazy",
    "version",
    "typing",
    "precision",
    "compilation",
    "checks",
    "user_warnings",
    "progress",
    "storage",
    "records",
    "registry",
    "loggers",
    "run_folder",
    "status",
    "interrupts",
    "iteration",
    "notebook_html",
    "tables",
    "engine",
    "spaces",
    "networks",
    "report",
    "mdp",
    "planning",
    "rewards",
    "demos",
]
ORDER += [
    "analysis",
    "envs",
    "datasets",
    "rl",
    "routes",
    "estimators",
    "panels",
    "studio",
    "widgets",
    "showcase",
    "reproduce",
    "cli",
    "__init__",
]


def top(path):
    """The top-level module that a file belongs to."""
    return path.relative_to(ROOT).parts[0].removesuffix(".py")


MODULES = sorted({top(path) for path in ROOT.rglob("*.py")})


def imported(path):
    """The top-level modules that a file imports, also inside functions, each with its line."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno} imports relatively, which hides where from"
            # `from irlax import checks` imports a module, `from irlax import MDP` a name of the package.
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        else:
            continue
        for name in names:
            package, *rest = name.split(".")
            if package == "irlax":
                yield rest[0] if rest and rest[0] in MODULES else "__init__", node.lineno


@functools.cache
def imports_of(name):
    """What a top-level module imports from others, each with the line."""
    return {
        (target, f"{path.relative_to(ROOT)}:{line}")
        for path in ROOT.rglob("*.py")
        if top(path) == name
        for target, line in imported(path)
        if target != name
    }


@pytest.mark.parametrize("name", [name for name in ORDER if name in MODULES])
def test_a_module_imports_only_from_modules_above_it(name):
    below = [(target, where) for target, where in imports_of(name) if target in ORDER[ORDER.index(name) :]]
    assert not below, f"{name} must not import {sorted(below)}"


def test_modules_beside_the_layout_close_no_circle():
    """A helper module may stand anywhere, as long as the whole has an order at all."""
    graph = {name: {target for target, _ in imports_of(name)} for name in MODULES}
    graphlib.TopologicalSorter(graph).prepare()


def test_the_layout_is_there_to_be_checked():
    assert {"typing", "precision", "checks", "mdp", "planning", "demos", "envs", "__init__"} <= set(MODULES)
    assert ("mdp" in {target for target, _ in imports_of("planning")}) and imports_of("mdp")
