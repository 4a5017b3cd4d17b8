"""Draw the pictures of the studio: the page itself, in a real Chromium.

.venv/bin/python -m docs.tools.studio_pictures
"""

import tempfile
from pathlib import Path

from tests.studio.driving import StudioPage, studio, studio_page

from irlax.studio.presets import PRESETS
from irlax.studio.storing import Folder

IMAGES = Path(__file__).parents[2] / "docs" / "images"
DESKTOP, PHONE = 1280, 390
_CELL = "document.querySelector('#doubt .choosing svg')"


def draw(page: StudioPage) -> None:
    """Wait until the first scene is shown with its standard errors."""
    page.wait("document.querySelectorAll('#doubt .direction').length")


def doubt(page: StudioPage) -> None:
    """Choose a cell, and move the reward along a direction that nobody's behaviour reveals."""
    page.show("doubt")
    box = f"{_CELL}.getBoundingClientRect()"
    page.tab.run(
        f"{_CELL}.dispatchEvent(new MouseEvent('click', {{ clientX: {box}.left + {box}.width * 0.65, "
        f"clientY: {box}.top + {box}.height * 0.25 }}))"
    )
    page.wait("document.querySelector('input[data-direction=open]')")
    before = len(page.answers("move"))
    page.slide("input[data-direction=null0]", 2)
    page.next_answer("move", before)


def main() -> None:
    """Write the pictures."""
    with tempfile.TemporaryDirectory() as folder:
        # Its name is seen at the bottom of the page.
        inner = Path(folder) / "walks"
        inner.mkdir()
        scene = Folder(inner).write_scene("doors", PRESETS[0])
        with studio(scene) as address:
            with studio_page(address, Path(folder) / "desktop", width=DESKTOP) as page:
                draw(page)
                page.picture(IMAGES / "studio_draw.png")
                doubt(page)
                page.picture(IMAGES / "studio_doubt.png", height=880)
            with studio_page(address, Path(folder) / "phone", width=PHONE, dark=True) as page:
                draw(page)
                page.picture(IMAGES / "studio_phone.png", height=844)


if __name__ == "__main__":
    main()
