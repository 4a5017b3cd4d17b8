"""Constructors of our frozen classes, for the reference: equinox makes them from the fields, where griffe sees none.

Classes that check their arguments (`__check_init__`) are those that users build; the others are results.
"""

from typing import Any

import griffe


class Constructors(griffe.Extension):
    """Adds an `__init__` made of the annotated fields, in their order."""

    def on_package(self, *, pkg: griffe.Module, **_: Any) -> None:
        """After all modules of the package were read."""
        for class_ in _classes(pkg):
            if "__check_init__" in class_.members and "__init__" not in class_.members:
                parameters = griffe.Parameters(griffe.Parameter("self"), *_parameters(class_))
                class_.set_member("__init__", griffe.Function("__init__", parameters=parameters, returns="None"))


def _classes(within: griffe.Module | griffe.Class) -> list[griffe.Class]:
    inside = [member for member in within.members.values() if not member.is_alias]
    modules = [member for member in inside if isinstance(member, griffe.Module)]
    found = [member for member in inside if isinstance(member, griffe.Class)]
    return found + [class_ for module in modules for class_ in _classes(module)]


def _parameters(class_: griffe.Class) -> list[griffe.Parameter]:
    fields = [member for member in class_.members.values() if isinstance(member, griffe.Attribute)]
    return [
        griffe.Parameter(
            field.name,
            annotation=field.annotation,
            kind=griffe.ParameterKind.positional_or_keyword,
            default=None if field.value is None or "converter=" in str(field.value) else field.value,
        )
        for field in fields
        # Neither properties nor class variables.
        if field.annotation is not None and "instance-attribute" in field.labels
    ]
