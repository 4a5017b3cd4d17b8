"""The studio in a real Chromium: its server in a process, and a page that is used by mouse, touch and keyboard."""

import base64
import contextlib
import json
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import uvicorn
from tests.browser import Tab, browser

from irlax.studio.app import create_app
from irlax.studio.storing import Folder

#: Seconds in which the first page must be there: programs are compiled before it.
FIRST = 300
_KEYS = {"z": "KeyZ", "Enter": "Enter", "ArrowRight": "ArrowRight", "ArrowDown": "ArrowDown", "ArrowUp": "ArrowUp"}
_CODES = {"z": 90, "Enter": 13, "ArrowRight": 39, "ArrowDown": 40, "ArrowUp": 38}


@contextlib.contextmanager
def studio(path: Path) -> Iterator[str]:
    """The address of a studio that was started with a scene or a folder, and ends with the block."""
    folder = path if path.is_dir() else path.parent
    command = [str(Path(sys.executable).with_name("irlax")), "studio", str(path), "--no-browser"]
    # Without Python's buffer, the address is there as soon as it is printed.
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    with subprocess.Popen(command, cwd=folder, env=environment, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            address = process.stdout.readline().strip()
            assert address.startswith("http://127.0.0.1:"), address
            yield address
        finally:
            process.terminate()


@contextlib.contextmanager
def serving(folder: Path) -> Iterator[tuple[uvicorn.Server, str]]:
    """A server in this process with its address. It fits nothing, so that nothing is compiled."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        bound.listen()
        host = f"127.0.0.1:{bound.getsockname()[1]}"
        ready = threading.Event()
        app = create_app(Folder(folder), token="secret", hosts=(host,), ready=ready)
        server = uvicorn.Server(uvicorn.Config(app, log_level="error", ws="websockets-sansio", lifespan="off"))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [bound]}, daemon=True)
        thread.start()
        try:
            yield server, f"http://{host}/secret/"
        finally:
            server.should_exit = True
            thread.join(timeout=30)
            ready.set()


class StudioPage:
    """The page in a tab, and what the server told it."""

    def __init__(self, tab: Tab, address: str, *, width: int):
        self.tab, self.width = tab, width
        self._read: dict[str, list[dict[str, Any]]] = {"Sent": [], "Received": []}
        self._num_read = 0
        tab.visit(address, width=width)
        self.wait("document.querySelector('#draw .status, .where').textContent.includes('irlax')")

    def wait(self, condition: str) -> None:
        """Wait until an expression in the page is true."""
        end = time.monotonic() + FIRST
        while not self.tab.run(f"Boolean({condition})"):
            assert time.monotonic() < end, f"{condition} did not become true; {self.tab.complaints()}"
            time.sleep(0.02)

    def rest(self) -> None:
        """Wait until all that the page asked for is answered."""
        end = time.monotonic() + FIRST
        # What is answered is read first: the page may ask more because of it.
        while True:
            answered = self._numbers("Received")
            if not self._numbers("Sent") - answered:
                return
            assert time.monotonic() < end, self.answers("error")
            time.sleep(0.02)

    def answers(self, kind: str) -> list[dict[str, Any]]:
        """What the server answered to messages of a kind, in order."""
        return [answer for answer in self._messages("Received") if answer["kind"] == kind]

    def _messages(self, way: str) -> list[dict[str, Any]]:
        self.tab.run("0")
        # Each is read once, so that a long session is not slowed down by its own reader.
        for event in self.tab.events[self._num_read :]:
            name = event.get("method", "").removeprefix("Network.webSocketFrame")
            if name in self._read:
                self._read[name].append(json.loads(event["params"]["response"]["payloadData"]))
        self._num_read = len(self.tab.events)
        return self._read[way]

    def _numbers(self, way: str) -> set[int]:
        return {message["id"] for message in self._messages(way) if message["kind"] != "preview"}

    def next_answer(self, kind: str, before: int) -> dict[str, Any]:
        """The newest answer of a kind, once there are more than `before`."""
        end = time.monotonic() + FIRST
        while len(found := self.answers(kind)) <= before:
            assert time.monotonic() < end, (kind, self.answers("error"))
            time.sleep(0.02)
        return found[-1]

    def measured(self, what: str = "reward map") -> list[float]:
        """Milliseconds from each pointer-up to what followed: the first reward map, or all of the "fit"."""
        return self.tab.run(f"performance.getEntriesByName('pointer-up to {what}').map(each => each.duration)")

    def draw_walk(self, walk: list[tuple[int, int]]) -> dict[str, float]:
        """Drag a walk, and wait for all that follows: milliseconds to the first reward map, and to all of the fit."""
        before = len(self.measured("fit"))
        self.drag(walk)
        self.rest()
        self.wait(f"performance.getEntriesByName('pointer-up to fit').length > {before}")
        return {what: self.measured(what)[-1] for what in ("reward map", "fit")}

    def show(self, view: str) -> None:
        """Choose a view by its tab."""
        self.tab.run(f"document.getElementById('tab-{view}').click()")

    def tool(self, name: str, view: str = "draw") -> None:
        """Choose a tool of the editor."""
        self.tab.run(f"{self._editor(view)}.querySelector('[data-name={name}]').click()")

    def press(self, key: str, *, control: bool = False) -> None:
        """Press a key."""
        for kind in ("keyDown", "keyUp"):
            options = {"key": key, "code": _KEYS[key], "windowsVirtualKeyCode": _CODES[key]}
            self.tab.send("Input.dispatchKeyEvent", type=kind, modifiers=2 * control, **options)

    def drag(self, cells: list[tuple[int, int]], view: str = "draw") -> None:
        """Drag the mouse from cell to cell."""
        places = self._places(cells, view)
        self._mouse("mousePressed", places[0])
        for place in places[1:]:
            self._mouse("mouseMoved", place)
        self._mouse("mouseReleased", places[-1])

    def swipe(self, cells: list[tuple[int, int]]) -> None:
        """Move a finger from cell to cell."""
        places = self._places(cells, "draw")
        for kind, at in [
            ("touchStart", places[0]),
            *(("touchMove", place) for place in places[1:]),
            ("touchEnd", None),
        ]:
            points = [] if at is None else [{"x": at[0], "y": at[1]}]
            self.tab.send("Input.dispatchTouchEvent", type=kind, touchPoints=points)

    def walks(self) -> int:
        """How many walks are drawn."""
        return self.tab.run(f"{self._editor('draw')}.querySelectorAll('polyline').length")

    def focus_grid(self) -> None:
        """Put the keyboard's focus on the grid."""
        self.tab.run(f"{self._editor('draw')}.querySelector('.grid').focus()")

    def slide(self, selector: str, value: float) -> None:
        """Move a slider as a hand does."""
        self.tab.run(
            f"(input => {{ input.value = {value}; input.dispatchEvent(new Event('input', {{ bubbles: true }})); }})"
            f"(document.querySelector({json.dumps(selector)}))"
        )

    def picture(self, path: Path, *, height: int | None = None, clip: str | None = None) -> None:
        """Write what is seen as a PNG; of an element only, if `clip` selects one."""
        height = height or self.tab.run("document.documentElement.scrollHeight")
        size = {"width": self.width, "height": height, "deviceScaleFactor": 1.5, "mobile": False}
        self.tab.send("Emulation.setScrollbarsHidden", hidden=True)
        self.tab.send("Emulation.setDeviceMetricsOverride", **size)
        self.tab.run("new Promise(drawn => requestAnimationFrame(() => setTimeout(drawn, 150)))")
        options: dict[str, Any] = {}
        if clip is not None:
            options["clip"] = {**self._box(f"document.querySelector({json.dumps(clip)})"), "scale": 1}
        data = self.tab.send("Page.captureScreenshot", format="png", **options)["data"]
        path.write_bytes(base64.b64decode(data))

    def _editor(self, view: str) -> str:
        return f"[...document.querySelectorAll('#{view} div')].find(each => each.shadowRoot).shadowRoot"

    def _box(self, element: str) -> dict[str, float]:
        return self.tab.run(
            f"(({{ x, y, width, height }}) => ({{ x, y, width, height }}))({element}.getBoundingClientRect())"
        )

    def _places(self, cells: list[tuple[int, int]], view: str) -> list[tuple[float, float]]:
        self.tab.run("window.scrollTo(0, 0)")
        grid = f"{self._editor(view)}.querySelector('.grid')"
        box, (_, _, width, height) = (
            self._box(grid),
            map(float, self.tab.run(f"{grid}.getAttribute('viewBox')").split()),
        )
        return [
            (box["x"] + box["width"] * (column + 0.54) / width, box["y"] + box["height"] * (row + 0.54) / height)
            for row, column in cells
        ]

    def _mouse(self, kind: str, place: tuple[float, float]) -> None:
        held = {} if kind == "mouseMoved" else {"button": "left", "clickCount": 1}
        self.tab.send("Input.dispatchMouseEvent", type=kind, x=place[0], y=place[1], buttons=1, **held)


@contextlib.contextmanager
def studio_page(address: str, profile: Path, *, width: int, dark: bool = False) -> Iterator[StudioPage]:
    """The page of a studio in a new browser."""
    profile.mkdir(parents=True, exist_ok=True)
    with browser(profile, dark=dark) as tab:
        yield StudioPage(tab, address, width=width)
