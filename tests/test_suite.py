"""The suite itself: annotations are checked, `make quick` runs a sample of everything, and files named exist."""

from collections.abc import Sequence
from typing import Literal

import beartype
import numpy as np
import pytest

from irlax.mdp.rows import ONE_ROW
from irlax.rewards.linear import FoldedLinear
from irlax.typing import Array, Float
from tests import annotations
from tests.conftest import LONGEST, ROOT


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: ONE_ROW.num_rows("three"),
        # Axes of one name, N, that differ in length.
        lambda: ONE_ROW.sample_actions(np.ones((3, 2)), np.zeros(4, np.int32), np.zeros(5)),
        lambda: FoldedLinear(np.zeros((1, 2)), 1),
    ],
    ids=["type", "axis", "field"],
)
def test_what_contradicts_an_annotation_of_irlax_is_refused(wrong):
    with pytest.raises(TypeError, match="violates type hint"):
        wrong()


def test_results_and_inner_functions_are_checked():
    @annotations.jaxtyped(typechecker=beartype.beartype)
    def longer(values: Float[Array, " n"]) -> Float[Array, " n"]:
        return np.append(values, 0.0)

    with pytest.raises(beartype.roar.BeartypeCallHintReturnViolation):
        longer(np.zeros(3))


def test_what_was_right_before_does_not_make_another_result_right():
    @annotations.jaxtyped(typechecker=beartype.beartype)
    def of_length(values: Float[Array, " n"], length: int) -> Float[Array, " n"]:
        return np.zeros(length)

    for _ in range(2):
        of_length(np.zeros(3), 3)
    with pytest.raises(TypeError, match="violates type hint"):
        of_length(np.zeros(3), 4)
    of_length(np.zeros(4), 4)
    with pytest.raises(beartype.roar.BeartypeCallHintParamViolation):
        of_length(np.zeros(3, int), 3)


def test_what_stands_in_a_container_is_checked_in_every_call():
    @annotations.jaxtyped(typechecker=beartype.beartype)
    def total(values: Float[Array, " n"], weights: Sequence[float], method: Literal["sum", "mean"]) -> float:
        return 0.0

    for right, wrong in (((1.0,), ("one",)), ([1.0], ["one"]), ([1.0] * 30, ["one"] * 30), (range(0), {"one"})):
        total(np.zeros(3), right, "sum")
        with pytest.raises(beartype.roar.BeartypeCallHintParamViolation):
            total(np.zeros(3), wrong, "sum")
        with pytest.raises(beartype.roar.BeartypeCallHintParamViolation):
            total(np.zeros(3), right, "none")


def test_what_a_user_may_pass_is_not_refused_by_the_hook(as_a_user):
    assert ONE_ROW.num_rows("three") == "three"


def test_make_quick_runs_something_of_every_folder():
    """One path on each line of tests/quick.txt; pytest itself refuses one that is not there."""
    lines = (ROOT / "tests" / "quick.txt").read_text().splitlines()
    assert lines == sorted(set(lines))
    folders = {path.parent.relative_to(ROOT).as_posix() for path in (ROOT / "tests").rglob("test_*.py")}
    assert folders == {line.split("::")[0].rpartition("/")[0] for line in lines}


def test_the_longest_files_are_there():
    assert len(set(LONGEST)) == len(LONGEST)
    assert [name for name in LONGEST if not (ROOT / name).exists()] == []
