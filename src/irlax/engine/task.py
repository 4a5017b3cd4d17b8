"""Tasks: what a sweep does, each a function by its name and arguments as plain values, named by a hash of both."""

import functools
import hashlib
import importlib
import inspect
import json
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from irlax import checks, records

#: A record of a result: values by name, of JSON's types.
Row = dict[str, Any]
#: So many hexadecimal digits of the hash are a task's name.
DIGITS = 20


class Task(NamedTuple):
    """One or several cases that are computed together; its name says what it does, and nothing else."""

    function: str
    #: The arguments of each case.
    cases: tuple[dict[str, Any], ...]
    name: str
    #: Where the cases stand among all cases of the sweep.
    first: int


def function_name(function: Callable[..., Any] | str) -> str:
    """`module:name`, by which other processes import a function."""
    if isinstance(function, str):
        if function.count(":") != 1:
            raise ValueError(f"A function is named as 'module:function', but got {function!r}.")
        return function
    module = function.__module__
    spec = getattr(sys.modules.get(module), "__spec__", None)
    # What runs as a program is imported by others under the name that it was started by: python -m package.module.
    module = spec.name if module == "__main__" and spec is not None else module
    if module == "__main__" or "<" in function.__qualname__:
        raise ValueError(
            f"`function` must be importable in other processes, but {function.__qualname__} is defined "
            f"{'in a script' if module == '__main__' else 'inside a function'}. Move it to the top of a module of its "
            f"own beside the script."
        )
    return f"{module}:{function.__qualname__}"


@functools.cache
def function_of(name: str) -> Callable[..., Any]:
    """The function that `function_name` named."""
    module, _, attribute = name.partition(":")
    try:
        found = getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        raise ValueError(f"The function {name} cannot be imported: {error}.") from error
    return found


def tasks_of(
    function: Callable[..., Any] | str,
    cases: Sequence[Mapping[str, Any]],
    *,
    together: int = 1,
    files: Sequence[str] = (),
) -> list[Task]:
    """The tasks of a sweep, in the order of its cases; cases that are given twice are refused.

    `files` names arguments that are paths: what is in those files is part of a task's name, where they are is not.
    """
    checks.count("together", together)
    name = function_name(function)
    function_of(name)
    plain = [_plain(case) for case in cases]
    contents = [_with_contents(case, files) for case in plain]
    texts = [_text(case) for case in contents]
    if len(set(texts)) < len(texts):
        twice = next(case for case, text in zip(plain, texts, strict=True) if texts.count(text) > 1)
        raise ValueError(f"The case {twice} is given twice. Cases must differ; number repetitions by a seed.")
    tasks = []
    for first in range(0, len(plain), together):
        part = slice(first, first + together)
        digest = hashlib.sha256(_text([name, contents[part]]).encode()).hexdigest()
        tasks.append(Task(name, tuple(plain[part]), digest[:DIGITS], first))
    return tasks


def rows_of(task: Task, folder: Path) -> list[Row]:
    """The row of each case of a task. A function with an argument `folder` may write there what it likes."""
    function = function_of(task.function)
    known = inspect.signature(function).parameters
    extra = {"folder": folder} if "folder" in known else {}
    if "cases" in known:
        rows = function(cases=[dict(case) for case in task.cases], **extra)
    else:
        rows = [function(**case, **extra) for case in task.cases]
    if len(rows) != len(task.cases) or not all(isinstance(row, Mapping) for row in rows):
        raise TypeError(f"{task.function} must return a dict for each case, but returned {rows!r:.80}.")
    return [{str(name): records.plain(value) for name, value in row.items()} for row in rows]


def _plain(case: Mapping[str, Any]) -> dict[str, Any]:
    if not isinstance(case, Mapping):
        raise TypeError(f"A case must be a dict of arguments, but is a {type(case).__name__}.")
    try:
        return json.loads(json.dumps(dict(case), default=_as_plain, allow_nan=False))
    except (TypeError, ValueError) as error:
        raise TypeError(
            f"The arguments of a case must be numbers, text, lists or dicts of these, so that other processes read "
            f"them and a hash can name them, but {error}. Let the function build the rest from them."
        ) from None


def _as_plain(value: Any) -> Any:
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    converted = records.plain(value)
    if isinstance(converted, str):
        raise TypeError(f"one is a {type(value).__name__}")
    return converted


def _with_contents(case: dict[str, Any], files: Sequence[str]) -> dict[str, Any]:
    named = {name: case[name] for name in files if isinstance(case.get(name), str) and Path(case[name]).is_file()}
    return case | {name: {"contents": _digest(path, os.stat(path).st_mtime_ns)} for name, path in named.items()}


@functools.cache
def _digest(path: str, _changed: int) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _text(value: Any) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"))
