"""Warnings point at the user's line, whatever lies between."""

import functools

import pytest

from irlax.user_warnings import warn_user


def called_through(*modules):
    """Warn from the first of these modules, which was called by the second, and so on."""
    function = functools.partial(warn_user, "unwell", DeprecationWarning)
    for name in modules:
        around = {"__name__": name, "function": function}
        exec(compile("def wrapper():\n    function()", name, "exec"), around)
        function = around["wrapper"]
    with pytest.warns(DeprecationWarning, match="unwell") as said:
        function()
    return said[0].filename


def test_a_warning_points_past_the_wrappers_of_other_libraries():
    wrappers = ("irlax.status", "equinox._module._prebuilt", "jaxtyping._decorator", "jax._src.api", "irlax")
    assert called_through(*wrappers) == __file__


def test_a_module_with_a_similar_name_is_the_users_own():
    assert called_through("irlax.status", "irlax_experiments", "irlax") == "irlax_experiments"
