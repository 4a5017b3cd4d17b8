"""The studio as people use it, in a real Chromium."""

import json

import numpy as np
import pytest
from docs.tools.studio_pictures import IMAGES, write_pictures
from tests.browser import PROGRAM
from tests.studio.driving import serving, studio, studio_page

import irlax as ix
from irlax.studio.scene import Scene, parse
from irlax.studio.storing import Folder

needs_browser = pytest.mark.skipif(PROGRAM is None, reason="no Chromium is installed")
DESKTOP, PHONE = 1280, 360
VIEWS = ("draw", "doubt", "what-if", "models", "open")
WALKS = (
    [(0, 0), (0, 1), (0, 2), (1, 2), (2, 2), (3, 2), (3, 3), (4, 3), (4, 4)],
    [(2, 0), (3, 0), (3, 1), (3, 2), (4, 2), (4, 3), (4, 4)],
    [(0, 4), (1, 4), (2, 4), (3, 4), (4, 4)],
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with an empty scene, and a run that is being written."""
    root = tmp_path_factory.mktemp("studio")
    Folder(root).write_scene("empty", Scene(("." * 5,) * 5, slip=0.1, discount=0.8))
    (root / "live").mkdir()
    (root / "live" / "log.jsonl").write_text('{"step": 0, "loss": 3.5}\n{"step": 1, "loss": 2.5}\n')
    return root


@pytest.fixture(scope="module")
def address(folder):
    with studio(folder / "empty.scene.json") as address:
        yield address


def array(picture):
    return np.array(picture, float)


def no_complaints(page):
    assert not page.tab.complaints()
    assert page.answers("error") == []
    assert page.tab.run("document.querySelector('.banner').hidden")


@needs_browser
def test_from_a_drawing_to_a_saved_fit(folder, address, tmp_path, capsys):
    with studio_page(address, tmp_path / "profile", width=DESKTOP) as page:
        draw_and_see_a_reward(page)
        move_what_is_open(page)
        undo_and_redo(page)
        ask_what_if(page)
        save_and_load(page, folder)
        open_runs(page, folder)
        times = {"5×5": page.measured()} | {f"{side}×{side}": draw_on_larger_grids(page, side) for side in (10, 30)}
        no_complaints(page)
    with capsys.disabled():
        for name, each in times.items():
            low, high = np.percentile(each, [50, 95])
            print(f"\nfrom pointer-up to a new reward map, {name}: median {low:.0f} ms, 95th percentile {high:.0f} ms")


def draw_on_larger_grids(page, side):
    """Milliseconds from pointer-up to a reward map; of many walks by `benchmarks.speed.studio`."""
    page.show("draw")
    page.tab.run(
        f"(size => {{ size.value = {side}; size.dispatchEvent(new Event('change')); }})"
        "(document.querySelector('#draw select[aria-label=Size]'))"
    )
    page.rest()
    return [page.draw_walk([(row, 1), (row, 2), (row, 3), (row + 1, 3)])["reward map"] for row in (5, 6, 7)]


def draw_and_see_a_reward(page):
    page.wait("document.querySelector('.status').textContent.includes('Draw a walk')")
    page.tool("wall")
    page.drag([(1, 0), (1, 1)])
    page.tool("goal")
    page.drag([(4, 4)])
    page.tool("walk")
    for number, walk in enumerate(WALKS):
        page.drag(walk)
        page.wait(f"document.querySelector('#draw').textContent.includes('in {number + 1} walk')")
    answer = page.answers("fit")[-1]
    page.wait("document.querySelectorAll('#draw .map')[0].querySelectorAll('rect[fill]').length === 23")
    reward = array(answer["reward"])
    assert np.isnan(reward[1, :2]).all() and np.isfinite(reward).sum() == 23
    assert np.nanargmax(reward) == 24, "the goal, where all walks end"
    assert answer["converged"] and answer["choices"] == sum(len(walk) - 1 for walk in WALKS)
    assert answer["log_likelihood"] > answer["chance"]
    # Standard errors follow.
    page.wait("document.querySelectorAll('#draw .map')[1].querySelectorAll('rect[fill]').length === 23")
    assert page.walks() == 3


def move_what_is_open(page):
    page.show("doubt")
    page.wait("document.querySelector('input[data-direction=null0]')")
    fit = page.answers("fit")[-1]
    for number, size in enumerate((-2.0, 1.5)):
        page.slide("input[data-direction=null0]", size)
        moved = page.next_answer("move", number)
        change = array(moved["reward"]) - array(fit["reward"])
        assert np.nanmax(np.abs(change)) == pytest.approx(abs(size), abs=0.2)
        np.testing.assert_allclose(array(moved["policy"]), array(fit["policy"]), atol=1e-8)
        assert moved["policy_change"] <= 1e-8
    page.slide("input[data-direction=least]", 2)
    assert page.next_answer("move", 2)["log_likelihood"] < fit["log_likelihood"] - 0.1
    page.wait("document.querySelector('#doubt .chart .curve')")
    # A cell is chosen by keys: at first the first one that is free, from there the next one, over walls.
    page.tab.run("document.querySelector('#doubt .choosing svg').focus()")
    for cell in ([0, 0], [2, 0]):
        before = len(page.answers("doubt"))
        page.press("ArrowDown")
        assert page.next_answer("doubt", before)["cell"] == cell
    page.wait("document.querySelector('#doubt .choosing .chosen').getAttribute('y') === '2'")


def undo_and_redo(page):
    page.show("draw")
    page.focus_grid()
    before = len(page.answers("fit"))
    page.press("z", control=True)
    assert page.next_answer("fit", before)["walks"] == 2
    assert page.walks() == 2
    page.tool("redo")
    assert page.next_answer("fit", before + 1)["walks"] == 3
    # A walk by keys: the cursor is in the goal, where the last walk ended and none starts.
    page.focus_grid()
    for key in ("ArrowUp", "Enter", "ArrowUp", "Enter"):
        page.press(key)
    assert page.next_answer("fit", before + 2)["walks"] == 4
    page.tool("undo")
    page.next_answer("fit", before + 3)


def ask_what_if(page):
    page.show("what-if")
    first = page.next_answer("what-if", 0)
    page.drag([(3, 2)], view="what-if")
    changed = page.next_answer("what-if", 1)
    assert first["learned"]["policy"][3][2] is not None
    assert changed["learned"]["model"][3][2] is None


def save_and_load(page, folder):
    page.show("draw")
    page.tab.run("[...document.querySelectorAll('.actions button')].find(each => each.textContent === 'Save').click()")
    name = "document.querySelector('dialog[open] input[type=text]').value = 'mine'"
    page.tab.run(name)
    for number, text in enumerate(("Save scene", "Save fit")):
        page.tab.run(
            f"[...document.querySelectorAll('dialog[open] button')].find(each => each.textContent === '{text}').click()"
        )
        page.next_answer("save", number)
    page.tab.run("document.querySelector('dialog[open] header button').click()")
    scene = parse(json.loads((folder / "mine.scene.json").read_text()))
    assert scene.board[1][:2] == "##" and [list(walk) for walk in scene.demonstrations[:3]] == [*map(list, WALKS)]
    fit = ix.load(folder / "mine")
    shown = array(page.answers("fit")[-1]["reward"])
    np.testing.assert_allclose(scene.gridworld.to_board(fit.reward.parameters), shown, atol=1e-3)
    # The answer to this step is waited for, so that the next one is to the scene that is opened.
    before = len(page.answers("fit"))
    page.tool("undo")
    assert page.next_answer("fit", before)["walks"] == len(scene.demonstrations) - 1
    page.show("open")
    page.wait("[...document.querySelectorAll('#open button')].some(each => each.textContent === 'mine.scene.json')")
    before = len(page.answers("fit"))
    page.tab.run(
        "[...document.querySelectorAll('#open button')].find(each => each.textContent === 'mine.scene.json').click()"
    )
    loaded = page.next_answer("fit", before)
    assert loaded["walks"] == len(scene.demonstrations) == page.walks()


def open_runs(page, folder):
    # Names that an address has to quote.
    (folder / "mine").rename(folder / "50% #1")
    page.show("open")
    for name in ("50% #1", "live"):
        box = f"[...document.querySelectorAll('#open .check')].find(each => each.textContent.startsWith('{name}'))"
        page.wait(box)
        page.tab.run(f"{box}.querySelector('input').click()")
    page.wait("[...document.querySelectorAll('#open article h3')].some(each => each.textContent === '50% #1')")
    assert page.tab.run("document.querySelector('#open article a').href").endswith("/report/50%25%20%231")
    page.wait(
        "document.querySelector('#open article table') && document.querySelector('#open article .map rect[fill]')"
    )
    page.wait("document.querySelector('#open').textContent.includes('2 steps')")
    with (folder / "live" / "log.jsonl").open("a") as file:
        file.write('{"step": 2, "loss": 2.0}\n')
    page.wait("document.querySelector('#open').textContent.includes('3 steps')")


@needs_browser
def test_what_is_drawn_stays_when_the_server_ends(tmp_path):
    with serving(tmp_path) as (server, address), studio_page(address, tmp_path / "profile", width=DESKTOP) as page:
        page.wait("document.querySelector('.status').textContent.includes('is compiled')")
        server.should_exit = True
        page.wait("document.querySelector('.banner').textContent.includes('has ended')")
        page.drag([(0, 0), (0, 1)])
        page.wait("document.querySelector('.status').textContent.includes('no fit')")
        assert page.walks() == 4


@needs_browser
def test_the_pictures_of_the_documentation_are_made_of_this_page(address, tmp_path):
    write_pictures(address, tmp_path, tmp_path)
    made = sorted(tmp_path.glob("*.png"))
    assert [path.name for path in made] == sorted(path.name for path in IMAGES.glob("studio_*.png"))
    for path in made:
        # A PNG begins with its width and height; the height depends on the fonts that are installed.
        assert path.read_bytes()[16:20] == (IMAGES / path.name).read_bytes()[16:20], path.name
        assert path.stat().st_size > (IMAGES / path.name).stat().st_size / 2


@needs_browser
@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("width", [DESKTOP, PHONE])
def test_every_view_fits_its_width_in_light_and_dark(dark, width, address, tmp_path):
    with studio_page(address, tmp_path / "profile", width=width, dark=dark) as page:
        page.wait("document.querySelector('.status').textContent.includes('Draw a walk')")
        if width == PHONE:
            page.tab.send("Emulation.setTouchEmulationEnabled", enabled=True)
            page.swipe(WALKS[2])
        else:
            page.drag(WALKS[2])
        answer = page.next_answer("fit", 1)
        assert answer["walks"] == 1
        page.next_answer("doubt", 0)
        for view in VIEWS:
            page.show(view)
            page.tab.run("new Promise(drawn => requestAnimationFrame(() => setTimeout(drawn, 50)))")
            assert page.tab.run("document.documentElement.scrollWidth") <= width, view
        background = page.tab.run("getComputedStyle(document.body).backgroundColor")
        assert (sum(map(int, background[4:-1].split(","))) < 200) == dark
        assert all(url.startswith((address, "data:", "blob:")) for url in page.tab.requests())
        no_complaints(page)
