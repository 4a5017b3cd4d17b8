"""`irlax panel`."""

import json

import pytest

from tests.command_line import irlax
from tests.panels.panels import machines

COLUMNS = ("--individual", "id", "--period", "t", "--state", "mileage", "--action", "choice")


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    path = tmp_path_factory.mktemp("panel") / "machines.csv"
    machines().to_csv(path, index=False)
    return str(path)


def test_a_fit_prints_its_table_and_writes_it(table, tmp_path):
    target = tmp_path / "machines.tex"
    shown = irlax("panel", "fit", table, *COLUMNS, "--formula", "mileage:keep + replace", "--discount", "0.9",
                  "--table", str(target))  # fmt: skip
    assert shown.code == 0 and "clustered by individual" in shown.out and "counts by state" in shown.out
    assert r"\toprule" in target.read_text()


@pytest.mark.parametrize(
    ("more", "complaint"),
    [
        (("--formula", "nothing", "--discount", "0.9"), "could not be evaluated"),
        (("--formula", "replace", "--discount", "high"), "--discount must be a number"),
        (("--formula", "replace", "--discount", "0.9", "--transitions", "mileage:walk"), "--transitions must be"),
        (("--formula", "replace", "--discount", "0.9", "--fixed", "replace=low"), "--fixed must set"),
        (("--formula", "replace", "--discount", "0.9", "--available", "replace=miles > 2"), "must be a condition"),
    ],
)
def test_wrong_options_have_a_line_each(table, more, complaint):
    shown = irlax("panel", "fit", table, *COLUMNS, *more)
    assert shown.code == 2 and complaint in shown.err and "Traceback" not in shown.err


def test_an_overview_as_json(table):
    shown = irlax("panel", "describe", table, *COLUMNS, "--json")
    assert json.loads(shown.out)["individuals"] == 80


def test_terms_are_set_and_choice_sets_vary(table):
    shown = irlax("panel", "fit", table, *COLUMNS, "--formula", "mileage:keep + replace", "--discount", "0.9",
                  "--fixed", "replace=-2", "--available", "replace=mileage >= 0")  # fmt: skip
    assert shown.code == 0 and "Set: replace = -2." in shown.out
