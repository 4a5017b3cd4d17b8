"""The report on a fit: everything is on the page, whatever the problem, and nothing on it can run."""

import dataclasses
import re
import sys
from html.parser import HTMLParser
from xml.etree import ElementTree

import numpy as np
import pytest

from irlax import MCEIRL, MDP, LinearReward, MaxEntIRL, Status, TabularReward, load
from irlax.envs import Gridworld, RiskyPath
from irlax.estimators.tabular.components import PolicyMixture, Posterior
from irlax.estimators.tabular.scene import Scene
from irlax.iteration import History
from irlax.mdp.grid import Grid
from irlax.report import plots
from irlax.tables import format_value
from tests.fits import REWARDS, A, S, T, made, random_mdp

EVIL = '<script>alert("x")</script>'


class Elements(HTMLParser):
    """Every tag with its attributes, and a check that they close in order."""

    VOID = ("meta", "link")

    def __init__(self, text):
        super().__init__()
        self.tags, self.attributes, self.text, self._open = [], [], [], []
        self.feed(text)
        assert not self._open

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += attrs
        if tag not in self.VOID:
            self._open.append(tag)

    def handle_endtag(self, tag):
        assert self._open.pop() == tag

    def handle_startendtag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += attrs

    def handle_data(self, data):
        self.text.append(data)


def page_of(tmp_path, fit, **labels):
    """The page on a fit that was saved and loaded, checked for what every page promises."""
    experts = tuple(dataclasses.replace(expert, mdp=expert.mdp.labelled(**labels)) for expert in fit.experts)
    text = load(dataclasses.replace(fit, experts=experts).save(tmp_path / "run")).page().render()
    elements = Elements(text)
    assert not {"script", "iframe", "object", "embed", "img", "form", "base"} & set(elements.tags)
    assert not [name for name, _ in elements.attributes if name.startswith("on")]
    links = [value for name, value in elements.attributes if name in ("href", "src", "xlink:href")]
    assert all(link.startswith(("#", "data:")) for link in links), "the page must need nothing else"
    for svg in re.findall(r"<svg.*?</svg>", text, flags=re.DOTALL):
        ElementTree.fromstring(svg)
    return elements


def grid_problem(**options):
    options = {"slip": 0.1, "horizon": T, "stay": True} | options
    return Gridworld(["S.#", ".XG"], **options)


@pytest.mark.parametrize(("over", "horizon"), [("s", T), ("s", None), ("sas", T)])
def test_grids_are_drawn_as_grids(tmp_path, over, horizon):
    grid = grid_problem(horizon=horizon)
    elements = page_of(tmp_path, made(TabularReward(over), mdp=grid.mdp))
    text = " ".join(elements.text)
    for heading in ("Reward", "Policy", "Where expert and model go", "Convergence", "Convergence"):
        assert heading in text
    assert "arrow" in text and "each cell" in text


@pytest.mark.parametrize(("kind", "horizon"), [("linear s", None), ("tabular sa", T), ("shaped", T), ("neural s", T)])
def test_other_problems_are_drawn_as_charts(tmp_path, kind, horizon):
    fit = made(REWARDS[kind](), mdp=random_mdp(horizon=horizon, masked=True), demonstrator="occupancy")
    text = " ".join(page_of(tmp_path, fit, states=list("abcd"), actions=["x", "y"]).text)
    assert "each state" in text and "arrow" not in text


def test_text_from_the_data_is_escaped(tmp_path):
    names = [EVIL, "$\\frac{1}$ & {{7*7}}\n\x00\u202e漢"]
    reward = LinearReward(np.eye(S)[:, :2], [1.0, -1.0], names=names)
    elements = page_of(tmp_path, made(reward), states=[*names, "$$", "<!-- --> ]]>"], actions=['" onload="x', EVIL])
    assert EVIL in "".join(elements.text)


def test_a_layout_may_hold_anything(tmp_path):
    fit = made(TabularReward("s"))
    elements = page_of(tmp_path, fit, layout=["<$", "&\u202e"], actions=["up", "down"])
    assert "arrow" in " ".join(elements.text)


def test_the_cells_of_a_layout_are_the_states():
    mdp = random_mdp()
    assert Grid.of(mdp) is None
    grid = Grid.of(mdp.labelled(layout=("..#", "..#")))
    assert grid is not None and grid.shape == (2, 3)
    picture = grid.picture(np.arange(4.0))
    np.testing.assert_array_equal(picture, [[0, 1, np.nan], [2, 3, np.nan]])


def test_occupancies_are_those_of_expert_and_model():
    fit = made(TabularReward("sa"))
    scene = Scene.of(fit, 0)
    assert scene.whole
    mass = sum(0.9**t for t in range(T))
    np.testing.assert_allclose([scene.model.sum(), scene.expert.sum()], mass)
    demos = fit.experts[0].demos
    expected = np.zeros((S, A))
    np.add.at(expected, (demos.states, demos.actions), 0.9**demos.times / demos.num_episodes)
    np.testing.assert_allclose(scene.expert, expected)
    np.testing.assert_allclose(np.nansum(scene.mean_policy, axis=1), 1)
    np.testing.assert_allclose(scene.first_policy, fit.policy[0])


def test_episodes_that_are_not_whole_are_compared_by_shares(tmp_path):
    fit = made(TabularReward("s"))
    cut = fit.experts[0].demos
    rows = np.flatnonzero(cut.times < 2)
    short = dataclasses.replace(
        cut,
        states=cut.states[rows],
        actions=cut.actions[rows],
        times=cut.times[rows],
        next_states=None,
        offsets=2 * np.arange(cut.num_episodes + 1),
    )
    expert = dataclasses.replace(fit.experts[0], demos=short)
    fit = dataclasses.replace(fit, experts=(expert,), feature_gap=None)
    scene = Scene.of(fit, 0)
    assert not scene.whole
    np.testing.assert_allclose([scene.model.sum(), scene.expert.sum()], 1)
    assert "not whole" in " ".join(page_of(tmp_path, fit).text)


def test_names_are_shown_with_their_units(tmp_path):
    fit = made(REWARDS["tabular sa"]())
    labels = {"states": ["0", "5", "10", "15"], "actions": ["wait", "go"], "state_unit": "miles"}
    experts = (dataclasses.replace(fit.experts[0], mdp=fit.mdp.labelled(**labels)),)
    scene = Scene.of(dataclasses.replace(fit, experts=experts), 0)
    assert scene.state_names == ["0 miles", "5 miles", "10 miles", "15 miles"]
    assert scene.action_names == ["wait", "go"]
    assert Scene.of(fit, 0).state_names == ["s0", "s1", "s2", "s3"]


def test_large_problems_show_the_states_that_matter(tmp_path):
    num = 60
    successors = np.stack([np.arange(num), (np.arange(num) + 1) % num], axis=1)[..., None]
    mdp = MDP.from_successors(successors, np.ones(successors.shape), np.eye(num)[40], discount=0.9, horizon=5)
    fit = made(TabularReward("s"), mdp=mdp)
    scene = Scene.of(fit, 0)
    assert {40, 41, 42} <= set(scene.shown) and len(scene.shown) == 30
    text = " ".join(page_of(tmp_path, fit).text)
    assert "30 are not" in text and "r(59)" not in text


def test_large_grids_have_colours_for_arrows(tmp_path):
    grid = Gridworld(["." * 61], horizon=2)
    text = " ".join(page_of(tmp_path, made(TabularReward("s"), mdp=grid.mdp)).text)
    assert "likeliest action of each cell" in text


def test_several_mdps_are_shown_one_by_one(tmp_path):
    one, other = made(TabularReward("s")), made(TabularReward("s"), mdp=random_mdp(1))
    both = dataclasses.replace(
        one, rewards=one.rewards * 2, experts=(*one.experts, *other.experts), plans=(*one.plans, *other.plans)
    )
    text = " ".join(page_of(tmp_path, both).text)
    assert "Reward, MDP 1 of 2" in text and "Reward, MDP 2 of 2" in text


@pytest.mark.parametrize("status", [Status.INTERRUPTED, Status.UNBOUNDED])
def test_a_fit_without_success_says_so_at_the_top(tmp_path, status):
    elements = page_of(tmp_path, made(TabularReward("s"), status=status))
    assert ("class", "alert") in elements.attributes
    assert any(status.value in text for text in elements.text)


def test_posterior_draws_and_mixtures_are_shown(tmp_path):
    draws = np.random.default_rng(0).normal(size=(40, 2))
    posterior = Posterior(draws, 1.0, 40.0, 0, np.zeros(2, np.uint32))
    fit = dataclasses.replace(made(REWARDS["linear s"]()), posterior=posterior)
    text = " ".join(page_of(tmp_path, fit).text)
    assert "Posterior" in text and "97.5%" in text and "Sampling" in text
    mixture = PolicyMixture(np.full((T, S, A), 0.5), 0.1, 0.05, 3, 2)
    apprentice = dataclasses.replace(made(TabularReward("s")), mixture=mixture)
    assert "mixture" in " ".join(page_of(tmp_path, apprentice).text)


def test_extreme_numbers_can_be_drawn(tmp_path):
    huge = TabularReward("s", np.array([1e300, -1e300, 0.0, 1e-300]))
    fit = dataclasses.replace(made(TabularReward("s")), rewards=(huge,))
    history = History({"loss": np.array([np.inf, 1e308, -1e308]), "gradient": np.array([np.nan, 0, 1e-320])})
    page_of(tmp_path, dataclasses.replace(fit, history=history))


def test_riskypath_shows_what_either_model_makes_of_goal_and_hazard(tmp_path):
    env = RiskyPath(discount=1.0, horizon=5)
    policy = np.zeros((4, 2))
    policy[:, 0], policy[0] = 1, [0.95, 0.05]
    reward = LinearReward(np.eye(4)[:, 2:], names=["goal", "hazard"])
    for estimator, alike in ((MaxEntIRL, True), (MCEIRL, False)):
        fit = estimator().fit(env.mdp, reward, policy)
        goal, hazard = fit.reward.weights
        assert np.isclose(goal, hazard) if alike else goal > 0 > hazard
        elements = page_of(tmp_path, fit)
        cells = [text.strip() for text in elements.text]
        for name, weight in (("goal", goal), ("hazard", hazard)):
            assert cells[cells.index(name) + 1] == format_value(float(weight))


def test_figures_leave_no_global_state():
    _, axes = plots.blank(2)
    plots.bars(axes[0, 0], {"a": np.ones(2)}, ["x", "y"], xlabel="n")
    assert "matplotlib.pyplot" not in sys.modules or not sys.modules["matplotlib.pyplot"].get_fignums()


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([1.0, 3.0], (0.0, 3.0, plots.AMOUNTS)),
        ([-1.0, 3.0], (-3.0, 3.0, plots.SIGNED)),
        ([np.nan], (0.0, 1.0, plots.AMOUNTS)),
    ],
)
def test_scales_begin_at_zero_or_lie_about_it(values, expected):
    assert plots.limits(np.array(values)) == expected


def test_pages_are_the_same_from_run_to_run(tmp_path):
    fit = load(made(TabularReward("s")).save(tmp_path / "run"))
    assert fit.page().render() == fit.page().render()
