"""Draw the pictures of the studio: the page itself, in a real Chromium.

.venv/bin/python -m docs.tools.studio_pictures
"""

import tempfile
from pathlib import Path

from tests.studio.driving import StudioPage, studio, studio_page

IMAGES = Path(__file__).parents[2] / "docs" / "images"
DESKTOP, PHONE = 1280, 390
_CELL = "document.querySelector('#doubt .choosing svg')"


def draw(page: StudioPage) -> None:
    """Choose the first example, and wait until it is shown with its standard errors."""
    page.tab.run(
        "(list => { list.value = 0; list.dispatchEvent(new Event('change')); })"
        "(document.querySelector('.actions select'))"
    )
    page.rest()


def doubt(page: StudioPage) -> None:
    """Choose a cell, and move the reward along a direction that nobody's behaviour reveals."""
    page.show("doubt")
    box = f"{_CELL}.getBoundingClientRect()"
    page.tab.run(
        f"{_CELL}.dispatchEvent(new MouseEvent('click', {{ clientX: {box}.left + {box}.width * 0.65, "
        f"clientY: {box}.top + {box}.height * 0.25 }}))"
    )
    page.wait("document.querySelector('input[data-direction=open]')")
    page.slide("input[data-direction=null0]", 2)
    page.rest()


def write_pictures(address: str, images: Path, profiles: Path) -> None:
    """Write the pictures of a studio at an address. A test calls this as well, with a folder of its own."""
    with studio_page(address, profiles / "desktop", width=DESKTOP) as page:
        draw(page)
        page.picture(images / "studio_draw.png")
        doubt(page)
        page.picture(images / "studio_doubt.png", height=920)
    with studio_page(address, profiles / "phone", width=PHONE, dark=True) as page:
        draw(page)
        page.picture(images / "studio_phone.png", height=844)


def main() -> None:
    """Write the pictures."""
    with tempfile.TemporaryDirectory() as folder:
        # Its name is seen at the bottom of the page.
        inner = Path(folder) / "walks"
        inner.mkdir()
        with studio(inner) as address:
            write_pictures(address, IMAGES, Path(folder))


if __name__ == "__main__":
    main()
