"""Attributes of Equinox's modules, looked up as Equinox does, but in less time.

Equinox asks of every attribute whether its name is magic, before it asks whether it is a method, and makes a bound
method at each use as it makes any module, with checks of all of its fields.
"""

import functools
import types

import equinox as eqx

try:  # private to Equinox
    from equinox._module._module import BoundMethod, _is_magic
    from equinox._module._prebuilt import WRAPPER_FIELD_NAMES
except ImportError:
    BoundMethod = None


@functools.cache
def fields_of(function):
    """What each bound method of this function holds, but for the module that it is bound to."""
    copied = {name: getattr(function, name) for name in WRAPPER_FIELD_NAMES if hasattr(function, name)}
    return {"__func__": function} | copied


def attribute(self, name, /):
    """An attribute of a module: a method as a `BoundMethod`, which is a pytree, and anything else as it is."""
    found = object.__getattribute__(self, name)
    if type(found) is types.MethodType and found.__self__ is self and not _is_magic(name):
        bound = object.__new__(BoundMethod)
        held = object.__getattribute__(bound, "__dict__")
        held.update(fields_of(found.__func__))
        held["__self__"] = self
        return bound
    return found


class _Probe(eqx.Module):
    def method(self):
        """A method, from which it is seen what Equinox makes of one."""


def install():
    """For all modules, if Equinox makes of a method what `attribute` makes of it."""
    if BoundMethod is None:
        return
    probe = _Probe()
    bound = probe.method
    if type(bound) is BoundMethod and vars(bound) == fields_of(_Probe.method) | {"__self__": probe}:
        eqx.Module.__getattribute__ = attribute
