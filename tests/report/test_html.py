"""Pages in a browser: what is wider than the window stays within reach."""

import pytest

from irlax.report.html import Page
from irlax.tables import Table, pairs
from tests.browser import PROGRAM, browser

LONG = " + ".join(f"parameter{i}" for i in range(20))
BOX = "[...document.querySelectorAll('.table')]"


@pytest.mark.skipif(PROGRAM is None, reason="no Chromium is installed")
@pytest.mark.parametrize("width", [1000, 390])
def test_wide_tables_scroll_in_a_box_that_shows_it_and_long_text_is_broken(width, tmp_path):
    numbers = Table([f"column{i}" for i in range(40)], [[i + 0.5 for i in range(40)]], title="Numbers")
    page = Page("Wide").table(numbers).table(pairs("Text", [("identified", LONG)])).write(tmp_path / "page.html")
    with browser(tmp_path / "profile", dark=False) as tab:
        tab.visit(page.as_uri(), width=width)
        assert tab.run("document.documentElement.scrollWidth") <= width
        assert tab.run(f"{BOX}.map(box => box.scrollWidth > box.clientWidth)") == [True, False]
        # With the keyboard, to the last column; hidden scroll bars have a shade in their place.
        assert tab.run(f"{BOX}[0].focus(); document.activeElement === {BOX}[0]")
        assert "gradient" in tab.run(f"getComputedStyle({BOX}[0]).backgroundImage")
        right = "getBoundingClientRect().right"
        last = f"{BOX}[0].scrollLeft = 1e6; [...document.querySelectorAll('th')].at(-1).{right} < {BOX}[0].{right}"
        assert tab.run(last)
