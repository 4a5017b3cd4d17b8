"""Annotations of irlax, checked in every call that a test makes.

jaxtyping's import hook decorates each function and class. Its own decorator binds every call's arguments in Python and
has them checked twice, for the wording of its messages, and it compiles two checks whenever an inner function is
defined, annotated or not. The one below has arguments and result checked once, and leaves alone what has no annotation:
it takes half the time (on three files with 25 s of their own, 3.5 s instead of 7).
"""

import dataclasses
import functools
import inspect
import types
import typing

import jaxtyping

#: Under this name `irlax.user_warnings` looks past the calls below, as past those of jaxtyping.
__name__ = "jaxtyping.once"

original = jaxtyping.jaxtyped


def jaxtyped(target=None, *, typechecker=None):
    """Check a function, or what a dataclass is made from; in place of `jaxtyping.jaxtyped`."""
    if typechecker is None:
        return original(target)
    if target is None:
        return functools.partial(jaxtyped, typechecker=typechecker)
    if inspect.isclass(target):
        if dataclasses.is_dataclass(target) and getattr(target.__init__, "__globals__", None) is not globals():
            target.__init__ = jaxtyped(target.__init__, typechecker=typechecker)
        return target
    if not target.__annotations__:
        return target
    checked = typechecker(with_known_names(target))

    @functools.wraps(target)
    def call(*args, **kwargs):
        if jaxtyping.config.jaxtyping_disable:
            return target(*args, **kwargs)
        with original("context"):
            return checked(*args, **kwargs)

    return call


def with_known_names(function):
    """The function, with `Any` where an annotation names what is not imported there, or not yet."""

    def known(annotation):
        holder = types.SimpleNamespace(__annotations__={"it": annotation})
        try:
            return typing.get_type_hints(holder, function.__globals__, include_extras=True)["it"]
        except Exception:
            return typing.Any

    copy = types.FunctionType(
        function.__code__, function.__globals__, function.__name__, function.__defaults__, function.__closure__
    )
    functools.update_wrapper(copy, function)
    del copy.__wrapped__
    copy.__kwdefaults__ = function.__kwdefaults__
    copy.__annotations__ = {name: known(annotation) for name, annotation in function.__annotations__.items()}
    return copy


def check(package):
    """From its first import on. PEP 484 lets an int pass for a float, as every type checker does."""
    jaxtyping.jaxtyped = jaxtyped
    settings = "is_pep484_tower=True, violation_type=TypeError"
    jaxtyping.install_import_hook(package, f"beartype.beartype(conf=beartype.BeartypeConf({settings}))")
