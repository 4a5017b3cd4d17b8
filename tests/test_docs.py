"""Every Python block of the README and of the documentation runs as printed, and prints what is printed there."""

import json
import re
import sys
import tomllib

import pytest
from docs.tools.pages import ROOT, blocks_of, run

#: What is shown and not run here, and why: whole pages, and the fences marked `py` of others.
NOT_RUN = {
    "docs/dynamic_discrete_choice.md": "needs Rust's data: tests/test_dynamic_discrete_choice.py",
    "docs/estimators/control.md: py": "MuJoCo takes minutes, and is not installed everywhere",
    "docs/estimators/sampled.md: py": "estimators as they come take minutes",
    "docs/mujoco.md: py": "needs MuJoCo, and estimators take minutes",
    "docs/recipes.md: py": "estimators as they come take minutes",
    "docs/tutorials/panel_economists.md: py": "needs Rust's data: tests/panels/test_rust.py",
    "docs/tutorials/routes.md: py": "needs a network that the reader downloads",
    "docs/tutorials/cartpole.md": "takes minutes: tests/test_examples.py runs the script for two rounds",
    "docs/tutorials/transfer.md": "takes minutes: tests/test_examples.py runs the script for two rounds",
}
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
NAMES = [str(page.relative_to(ROOT)) for page in PAGES if blocks_of(page.read_text())]
#: Pages with draws, which differ from machine to machine, and by how much their numbers may: at all, and of their size.
LOOSE = {"docs/estimators/bayesian.md": (0.15, 0.0)}
LOOSE |= {f"docs/estimators/{page}.md": (0.3, 0.5) for page in ("sampled", "airl", "gcl", "gan_gcl", "imitation")}
# The size of a drift and the odds of switches are found to a tolerance.
LOOSE |= {f"docs/estimators/{page}.md": (1e-3, 1e-2) for page in ("drifting", "switching")}
#: Lines that differ from run to run.
UNSTEADY = ("seconds", "steps ", "largest gradient", "Newton decrement")


@pytest.mark.parametrize("name", [name for name in NAMES if name not in NOT_RUN])
def test_a_page_runs_as_printed(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text, names = (ROOT / name).read_text(), {}
    for block, printed in run(text, names):
        if block.shown is not None:
            assert_prints_the_same(printed, block.shown, LOOSE.get(name, (1e-7, 0.0)))
    if "matplotlib.pyplot" in sys.modules:
        sys.modules["matplotlib.pyplot"].close("all")
    if name.startswith("docs/estimators/"):
        assert_explained(names["fit"].summary(), text)


def assert_prints_the_same(printed, shown, tolerance):
    """Word for word, and number for number to the last digit; `python -m docs.tools.pages PAGE` prints anew."""
    ours, theirs = ([line for line in text.splitlines() if not line.startswith(UNSTEADY)] for text in (printed, shown))
    assert len(ours) == len(theirs), printed
    for one, other in zip(ours, theirs, strict=True):
        words = [(a, b) for a, b in zip(one.split(), other.split(), strict=True) if not a.startswith("──")]
        assert all(alike(a, b, tolerance) for a, b in words), f"{one}\n{other}"


def alike(one, other, tolerance):
    """Equal, or numbers that differ by no more than a unit of their last digit, or the tolerance."""
    ours, theirs = number(one), number(other)
    if ours is None or theirs is None:
        return one == other
    return abs(ours[0] - theirs[0]) <= max(
        1.01 * ours[1], 1.01 * theirs[1], tolerance[0], tolerance[1] * abs(theirs[0])
    )


def number(word):
    """A number as it is written, and the unit of its last digit: 0 if it is whole."""
    plain = word.strip("[]()%,;±").replace("−", "-").replace(",", "")
    found = re.fullmatch(r"[-+]?\d+\.?(\d*)(?:e([-+]?\d+))?", plain)
    if found is None:
        return None
    whole = not found[1] and not found[2]
    return float(plain), 0.0 if whole else 10.0 ** (int(found[2] or 0) - len(found[1]))


def assert_explained(summary, page):
    """Every row and column of an estimator's summary is explained on its page, or on that of all summaries."""
    known = page + "".join((ROOT / f"docs/estimators/{name}.md").read_text() for name in ("summary", "sampled"))
    columns = {column for table in summary.tables for column in table.columns}
    facts = {row[0] for table in summary.tables if not is_of_parameters(table) for row in table.rows}
    for label in {re.sub(r" \d+$", " g", label) for label in (columns - {"", "parameter"}) | facts}:
        assert f"`{label}`" in known, label


def is_of_parameters(table):
    """Their names are the user's."""
    return table.columns[0] == "parameter" or table.title.endswith(("types", "rewards of motives"))


def test_what_is_not_run_is_listed_and_there():
    marked = {f"{page.relative_to(ROOT)}: py" for page in PAGES if "\n```py\n" in page.read_text()}
    assert {name for name in NOT_RUN if name.endswith(": py")} == marked
    assert set(NOT_RUN) - marked <= set(NAMES)


def test_examples_are_shown_on_the_site():
    shown = "".join(page.read_text() for page in PAGES)
    for path in (ROOT / "examples").glob("*.py"):
        assert f'--8<-- "examples/{path.name}"' in shown, path.name


def test_the_readme_quotes_the_ratios_that_were_measured():
    measured = json.loads((ROOT / "benchmarks/results/speed.json").read_text())
    figures = {part: measured[part]["figures"] for part in ("gradient", "fit", "causal", "engine")}
    ratios = [figures["gradient"][grid]["ratio"] for grid in ("32×32", "64×64", "100×100")]
    ratios += [figures[part]["ratio_warm"] for part in ("fit", "causal", "engine")]
    quoted = re.findall(r"^\|.* (\d+)× \|$", (ROOT / "README.md").read_text(), re.M)
    assert quoted == [f"{ratio:.0f}" for ratio in ratios]


def test_links_of_the_readme_lead_somewhere():
    links = re.findall(r"\]\(([^)#]+)", (ROOT / "README.md").read_text())
    assert len(links) > 20
    assert not [link for link in links if "://" not in link and not (ROOT / link).exists()]


def test_the_citation_names_this_version():
    from irlax import __version__

    assert f"\nversion: {__version__}\n" in (ROOT / "CITATION.cff").read_text()
    assert "docs" in tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
