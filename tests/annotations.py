"""Annotations of irlax, checked in every call that a test makes.

jaxtyping's import hook decorates each function and class. Its own decorator binds every call's arguments in Python and
has them checked twice, for the wording of its messages, and it compiles two checks whenever an inner function is
defined, annotated or not. The one below leaves alone what has no annotation, makes a check when it is first needed,
binds axes only where some are named, and checks arguments and results of the same types and shapes once.
"""

import collections.abc
import dataclasses
import enum
import functools
import inspect
import types
import typing

import beartype
import beartype.door
import jax
import jaxtyping
import numpy as np

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

    @functools.cache
    def checks():
        """The function with its annotations, the checked one, and whether axes are named: made when first called."""
        named = with_known_names(target)
        return named, typechecker(named), any(map(names_axes, named.__annotations__.values()))

    # What was right once is right for all arguments and results of the same types and shapes.
    right = set()

    def call(*args, **kwargs):
        if jaxtyping.config.jaxtyping_disable:
            return target(*args, **kwargs)
        _, checked, has_axes = checks()
        if not has_axes:
            return checked(*args, **kwargs)
        given = kinds_of((args, tuple(kwargs.items())))
        if given not in right:
            with original("context"):
                result = checked(*args, **kwargs)
            found = kinds_of(result)
            if given is not None and found is not None:
                right.update((given, (given, found)))
            return result
        result = target(*args, **kwargs)
        found = kinds_of(result)
        if found is None or (given, found) not in right:
            with original("context"):
                check_result(result, args, kwargs)
            right.add((given, found))
        return result

    def check_result(result, args, kwargs):
        annotations = checks()[0].__annotations__
        for name, value in inspect.signature(target).bind(*args, **kwargs).arguments.items():
            # Binds the axes that the result shares with the arguments.
            beartype.door.is_bearable(value, annotations.get(name, typing.Any))
        if not beartype.door.is_bearable(result, annotations.get("return", typing.Any)):
            raise TypeError(f"The result of {target.__qualname__} violates type hint {annotations['return']}.")

    return functools.wraps(target)(call)


def kinds_of(value):
    """Types, and shapes of arrays, on which alone it depends whether a value is as annotated; None if on more."""
    kind = type(value)
    if kind is np.ndarray:
        return kind, value.dtype, value.shape
    if is_told_by_type(kind):
        return kind
    if kind in (str, bool) or isinstance(value, enum.Enum | type):
        return kind, value
    if hasattr(value, "dtype"):
        return kind, value.dtype, getattr(value, "shape", ())
    if (kind is list or isinstance(value, tuple)) and len(value) < 20:
        inside = tuple(map(kinds_of, value))
        return None if None in inside else (kind, inside)
    return None


@functools.cache
def is_told_by_type(kind):
    """Whether annotations say nothing about objects of a class but that they are of this class, as of most."""
    if kind in (int, float) or dataclasses.is_dataclass(kind):
        return True
    tell_more = (collections.abc.Collection, enum.Enum, type, bool, jax.Array)
    return not issubclass(kind, tell_more) and not hasattr(kind, "dtype")


#: The class of jaxtyping's annotations of arrays.
ARRAY = type(jaxtyping.Float[np.ndarray, " n"])


def names_axes(annotation):
    """Whether an annotation names axes of arrays, which must have one length in all arguments of a call."""
    return isinstance(annotation, ARRAY) or any(map(names_axes, typing.get_args(annotation)))


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
