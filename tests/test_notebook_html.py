"""How objects show themselves: well-formed HTML of bounded size in which nothing can run, and a line of text."""

import io
import re

import jax
import numpy as np
import pytest
from PIL import Image

import irlax as ix
from irlax.demos.demonstrations import from_rows
from irlax.mdp.overview import as_html
from irlax.tables import Summary, Table
from tests.fits import REWARDS, made
from tests.report.test_report import EVIL, Elements

LAYOUT = ("S..", ".#G")
ENV = ix.envs.Gridworld(LAYOUT, horizon=4)
PLAN = ix.soft_plan(ENV.mdp, ENV.reward)
DEMOS = ix.rollout(ENV.mdp, PLAN, num=3, key=jax.random.key(0))
EVIL_MDP = ENV.mdp.labelled(
    states=[EVIL] * 5, actions=[EVIL] * 4, layout=("<&.", ".#G"), state_unit=EVIL, action_unit=EVIL, time_unit=EVIL
)
EVIL_DEMOS = from_rows(np.zeros(2, int), np.zeros(2, int), np.array([1, 1]), labels=np.array([EVIL, EVIL]))


def shown(thing):
    """What a notebook shows, checked for what all of it promises."""
    text = thing._repr_html_()
    elements = Elements(text)
    assert not {"script", "iframe", "object", "embed", "img", "form", "base", "link"} & set(elements.tags)
    assert not [name for name, _ in elements.attributes if name.startswith("on")]
    assert "url(" not in text and "<script" not in text
    # Colours of text and paper are those of the notebook.
    style = text[text.index("<style>") : text.index("</style>")]
    assert "color: inherit" in style and not re.search(r"#[0-9a-f]{3,6}\b", style)
    return text, elements


THINGS = {
    "mdp": ENV.mdp,
    "plan": PLAN,
    "plan without a grid": ix.soft_plan(ix.envs.RiskyPath().mdp, np.zeros(4)),
    "demos": DEMOS,
    "fit": made(REWARDS["linear s"]()),
    "table": Table(("a", "b"), [("x", 1.0)]),
    "summary": Summary([Table(("a", "b"), [("x", 1.0)])]),
    "identification": ix.identify(ENV.mdp, ix.TabularReward("s", ENV.reward), PLAN),
    "evil mdp": EVIL_MDP,
    "evil plan": ix.soft_plan(EVIL_MDP, ENV.reward),
    "evil demos": EVIL_DEMOS,
    "evil table": Table((EVIL, EVIL), [(EVIL, EVIL)], EVIL, [EVIL]),
}


@pytest.mark.parametrize("name", THINGS)
def test_what_notebooks_show_is_harmless_and_takes_the_colours_of_the_notebook(name):
    shown(THINGS[name])


@pytest.mark.parametrize("name", THINGS)
def test_the_text_beside_it_is_short(name):
    lines = repr(THINGS[name]).splitlines()
    assert len(lines) < 20 and max(map(len, lines)) < 160


def test_an_mdp_says_its_sizes_and_draws_its_grid():
    text, elements = shown(ENV.mdp)
    assert repr(ENV.mdp) == "MDP(5 states, 4 actions, discount 0.9, horizon 4, grid 2 × 3)"
    assert {"5", "4: up, right, down, left", "0.9"} <= set(elements.text)
    assert text.count("<svg") == 1 and [word for word in elements.text if word in "SG"] == ["S", "G"]
    # One wall, at row 1 and column 1.
    assert "M1 1h1v1h-1z" in text and text.count("h1v1h-1z") == 1


def test_a_plan_draws_its_values_and_likeliest_moves():
    text, _ = shown(PLAN)
    best = np.argmax(PLAN.policy[0], axis=1)
    # From the top left corner the way leads right.
    assert best[0] == 1 and f"{PLAN.first_value[0]:.4f}"[:4] in text
    # A head of an arrow has two sides; each cell has one arrow.
    path = re.search(r'<path d="([^"]*)" fill="none"', text)[1]
    assert path.count("l") == 2 * 5 and path.startswith("M0.22 0.50L0.78 0.50")
    # Highest at the goal, in row 1 and column 2; the cells farthest from it have the lowest value, and no colour.
    places = {place: float(opacity) for places, opacity in SHADES.findall(text) for place in places.split("h1v1h-1z")}
    assert sorted(filter(None, places), key=places.get) == ["M1 0", "M2 0", "M2 1"]
    assert np.argsort(PLAN.first_value)[2:].tolist() == [1, 2, 4]


SHADES = re.compile(r'<path d="([^"]*)" fill="#[0-9a-f]{6}" fill-opacity="([0-9.]+)"/>')


def test_a_plan_of_a_problem_without_a_grid_is_a_table():
    _, elements = shown(THINGS["plan without a grid"])
    assert {"start s0", "likeliest action", "risky"} & set(elements.text) >= {"start s0", "likeliest action"}


def test_demonstrations_show_their_first_rows():
    demos = ix.Demonstrations.from_episodes([([0, 1, 2, 4], [1, 1, 2]), ([3], [0])], weights=[1.0, 2.5])
    _, elements = shown(demos)
    assert {"1 to 3, median 2", "1 to 2.5", "next state", "The first 8 of"} & set(elements.text) == {
        "1 to 3, median 2",
        "1 to 2.5",
    }
    assert repr(demos) == "Demonstrations(2 episodes, 4 choices, 0 terminated)"


def test_demonstrations_of_every_kind_are_shown():
    rows = np.zeros(3, int)
    goals = from_rows(rows, rows, np.array([3]), goals=np.array([2]), row_weights=np.array([1.0, 0.0, 1.0]))
    assert {"goal", "weight"} <= set(shown(goals)[1].text) and "goals, row_weights" in repr(goals)
    seen = from_rows(
        None, np.zeros((3, 2)), np.array([3]), observations=np.arange(18.0).reshape(3, 6), rewards=rows + 1.0
    )
    assert {"0, 1, 2, 3, …", "numbers an observation"} <= set(shown(seen)[1].text)


def test_nothing_grows_with_the_problem(monkeypatch):
    side = 1000
    size = side * side
    mdp = ix.MDP.from_successors(
        np.arange(size)[:, None, None], np.ones((size, 1, 1)), np.eye(1, size)[0], discount=0.9
    )
    large = mdp.labelled(layout=["." * side] * side)
    # The drawing is not even read.
    monkeypatch.setattr("irlax.mdp.grid.np.argwhere", None)
    text, _ = shown(large)
    assert len(text) < 4000 and "<svg" not in text and "1,000,000" in text
    demos = from_rows(np.zeros(size, int), np.zeros(size, int), np.full(size // 10, 10))
    assert len(shown(demos)[0]) < 6000


def test_a_plan_of_a_large_problem_computes_no_policy(monkeypatch):
    size = 300_000
    successors = np.zeros((size, 1, 1), int)
    mdp = ix.MDP.from_successors(successors, np.ones((size, 1, 1)), np.eye(1, size)[0], discount=0.5, horizon=1)
    plan = ix.soft_plan(mdp, np.zeros(size))
    monkeypatch.setattr(ix.Plan, "policy_at", None)
    assert "The first 8 of 300,000 states" in shown(plan)[1].text


def test_a_line_of_text_exists_inside_transforms():
    said = []

    def traced(mdp, demos, reward):
        plan = ix.soft_plan(mdp, reward)
        said.extend(map(repr, (mdp, demos, plan)))
        return plan.first_value

    jax.jit(traced)(ENV.mdp, DEMOS, ENV.reward)
    assert [text.split("(")[0] for text in said] == ["MDP", "Demonstrations", "Plan"]
    assert "discount float32[]" in said[0] and "terminated" not in said[1] and "error bound float32[]" in said[2]
    dense = np.full((2, 1, 2), 0.5)
    options = {"initial": np.ones(2) / 2, "horizon": 2}
    several = jax.vmap(lambda discount: ix.MDP.from_dense(dense, **options, discount=discount))(np.array([0.5, 0.9]))
    assert "discount float64[2]" in repr(several) and "float64[2]" in as_html(several)


def test_notebooks_show_figures_that_pyplot_does_not_know():
    formatters = pytest.importorskip(
        "IPython.core.formatters", reason="IPython comes with `irlax[notebook]`, which is not installed"
    )
    # As it is before pyplot is imported, which makes IPython show all figures by itself.
    data, _ = formatters.DisplayFormatter().format(ENV.mdp.plot())
    with Image.open(io.BytesIO(data["image/png"])) as picture:
        assert picture.format == "PNG" and min(picture.size) > 100
    assert data["text/plain"].startswith("<Figure of")
