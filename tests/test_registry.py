"""Objects as records: what goes in comes out, and nothing else does."""

import enum
import json

import equinox as eqx
import jax
import numpy as np
import pytest

from irlax import records, registry
from irlax.registry import stored
from irlax.typing import Float, Int


@stored("test-colour")
class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


@stored("test-leaf")
class Leaf(eqx.Module):
    values: Float[np.ndarray, " n"]
    index: Int[np.ndarray, " n"]
    name: str = "leaf"
    scale: float = 1.0


@stored("test-branch")
class Branch(eqx.Module):
    leaves: tuple[Leaf, ...]
    colour: Colour
    options: dict[str, float]
    nothing: None = None
    number: float = 0.0


def no_files(name, form):
    raise AssertionError(f"{name} is not to be read")


def leaf(size=3, **changes):
    return Leaf(np.linspace(0, 1, size), np.arange(size), **changes)


def through_json(thing):
    parts = registry.to_parts(thing)
    record = json.loads(records.as_json({"thing": parts.record}))["thing"]
    assert sorted(registry.array_names(record)) == sorted(parts.arrays)
    return registry.from_parts(record, parts.arrays, no_files)


@pytest.mark.parametrize("number", [0.1, float("inf"), -float("inf"), 1e-308])
def test_what_goes_in_comes_out(number):
    branch = Branch((leaf(), leaf(2, name="ä \ud800", scale=2.5)), Colour.BLUE, {"a": 1.0}, number=number)
    found = through_json(branch)
    assert type(found) is Branch and found.colour is Colour.BLUE and found.options == {"a": 1.0}
    assert found.number == number and found.nothing is None and found.leaves[1].name == "ä \ud800"
    for one, other in zip(found.leaves, branch.leaves, strict=True):
        assert one.values.tobytes() == other.values.tobytes() and one.index.tobytes() == other.index.tobytes()


def test_random_keys_survive():
    found = through_json({"key": jax.random.key(7)})
    assert jax.random.uniform(found["key"]) == jax.random.uniform(jax.random.key(7))


def edited(edit):
    parts = registry.to_parts(Branch((leaf(),), Colour.RED, {}))
    edit(parts.record["fields"], parts.arrays)
    return registry.from_parts(parts.record, parts.arrays, no_files)


EDITS = {
    "unknown class": (lambda f, a: f.update(colour={"kind": "os.system", "member": "x"}), "os.system"),
    "unknown member": (lambda f, a: f.update(colour={"kind": "test-colour", "member": "GREEN"}), "GREEN"),
    "unknown field": (lambda f, a: f.update(magic=1), "magic"),
    "missing field": (lambda f, a: f.pop("colour"), "colour"),
    "wrong type": (lambda f, a: f.update(number="one"), "number"),
    "bool for a number": (lambda f, a: f.update(number=True), "number"),
    "another class": (lambda f, a: f.update(leaves=[{"kind": "test-colour", "member": "RED"}]), "leaves"),
    "missing array": (lambda f, a: a.pop("leaves.0.values"), "leaves.0.values"),
    "another dtype": (lambda f, a: a.update({"leaves.0.values": np.arange(3)}), "values"),
    "axes that disagree": (lambda f, a: a.update({"leaves.0.values": np.zeros(4)}), "index"),
    "a file": (lambda f, a: f.update(nothing={"kind": "pickle", "file": "x.npz"}), "pickle"),
}


@pytest.mark.parametrize("edit", EDITS)
def test_a_record_that_is_not_ours_is_refused_by_name(edit):
    change, message = EDITS[edit]
    with pytest.raises((TypeError, ValueError), match=message):
        edited(change)


def test_a_field_that_is_younger_than_the_record_has_its_default():
    assert edited(lambda f, a: f.pop("number")).number == 0.0


def test_what_is_not_registered_is_refused_with_the_cure():
    class Unknown(eqx.Module):
        x: float = 0.0

    with pytest.raises(TypeError, match=r"Unknown.*leaves\.0.*stored"):
        registry.to_parts({"leaves": [Unknown()]})


def test_a_name_belongs_to_one_class():
    with pytest.raises(ValueError, match="Leaf"):
        stored("test-leaf")(Colour)
    assert stored("test-leaf")(Leaf) is Leaf
