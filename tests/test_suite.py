"""The suite itself: what `make quick` runs is a sample of everything, and the order of files names files that exist."""

from tests.conftest import LONGEST, ROOT


def test_make_quick_runs_something_of_every_folder():
    """One path on each line of tests/quick.txt; pytest itself refuses one that is not there."""
    lines = (ROOT / "tests" / "quick.txt").read_text().splitlines()
    assert lines == sorted(set(lines))
    folders = {path.parent.relative_to(ROOT).as_posix() for path in (ROOT / "tests").rglob("test_*.py")}
    assert folders == {line.split("::")[0].rpartition("/")[0] for line in lines}


def test_the_longest_files_are_there():
    assert len(set(LONGEST)) == len(LONGEST)
    assert [name for name in LONGEST if not (ROOT / name).exists()] == []
