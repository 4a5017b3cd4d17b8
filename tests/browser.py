"""A headless Chromium, driven over a pipe by its own protocol: no driver to install, no port to open."""

import contextlib
import itertools
import json
import os
import select
import shutil
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

PROGRAM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome", "chrome"))), None)
#: Chromium reads commands from file 3 and answers in file 4; what Python opened has other numbers.
_LAUNCH = (
    "import os, sys; os.dup2(int(sys.argv[1]), 3); os.dup2(int(sys.argv[2]), 4); os.execv(sys.argv[3], sys.argv[3:])"
)
#: Seconds.
PATIENCE = 60


class Tab:
    """One tab. `events` are all messages that were no answers, in order."""

    def __init__(self, commands: int, answers: int, *, dark: bool):
        self._commands, self._answers, self._unread = commands, answers, b""
        self._numbers = itertools.count(1)
        self._session: str | None = None
        self.events: list[dict[str, Any]] = []
        target = self.send("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.send("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.send(f"{domain}.enable")
        # For as long as it lives: pages remember the scheme that they began with.
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.send("Emulation.setEmulatedMedia", features=[scheme])

    def send(self, method: str, **params: Any) -> dict[str, Any]:
        """A command, and its answer."""
        number = next(self._numbers)
        message = {"id": number, "method": method, "params": params}
        message |= {} if self._session is None else {"sessionId": self._session}
        os.write(self._commands, json.dumps(message).encode() + b"\0")
        while (answer := self._next()).get("id") != number:
            self.events.append(answer)
        if "error" in answer:
            raise RuntimeError(f"{method}: {answer['error']}")
        return answer["result"]

    def visit(self, url: str, *, width: int) -> None:
        """Open a page and wait until it has loaded and drawn itself."""
        self.send("Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=False)
        self.events.clear()
        self.send("Page.navigate", url=url)
        while not any(event.get("method") == "Page.loadEventFired" for event in self.events):
            self.events.append(self._next())
        self.run("new Promise(drawn => requestAnimationFrame(() => setTimeout(drawn, 50)))")

    def run(self, script: str) -> Any:
        """The value of an expression in the page."""
        answer = self.send("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True)
        return answer["result"].get("value")

    def complaints(self) -> list[str]:
        """Errors and warnings of the console, exceptions, and requests that failed, since the page was opened."""
        said = []
        for event in self.events:
            params = event.get("params", {})
            match event.get("method"):
                case "Runtime.consoleAPICalled" if params["type"] in ("error", "warning", "assert"):
                    said.append(f"console: {params['args']}")
                case "Runtime.exceptionThrown":
                    said.append(f"exception: {params['exceptionDetails']['text']}")
                case "Log.entryAdded" if params["entry"]["level"] in ("error", "warning"):
                    said.append(f"log: {params['entry']['text']} {params['entry'].get('url', '')}")
                case "Network.loadingFailed" if not params.get("canceled"):
                    said.append(f"request: {params['errorText']}")
        return said

    def requests(self) -> list[str]:
        """The addresses that the page asked for."""
        sent = [event for event in self.events if event.get("method") == "Network.requestWillBeSent"]
        return [event["params"]["request"]["url"] for event in sent]

    def _next(self) -> dict[str, Any]:
        while b"\0" not in self._unread:
            ready, _, _ = select.select([self._answers], [], [], PATIENCE)
            part = os.read(self._answers, 2**16) if ready else b""
            if not part:
                raise RuntimeError(f"Chromium has gone, or was silent for {PATIENCE} s.")
            self._unread += part
        message, _, self._unread = self._unread.partition(b"\0")
        return json.loads(message)


@contextlib.contextmanager
def browser(profile: os.PathLike[str], *, dark: bool) -> Iterator[Tab]:
    """A tab of a new Chromium, for readers who prefer light or dark, which leaves with the block."""
    assert PROGRAM is not None
    to_read, commands = os.pipe()
    answers, to_write = os.pipe()
    flags = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run"]
    flags += ["--remote-debugging-pipe", f"--user-data-dir={profile}", "--disable-background-networking"]
    process = subprocess.Popen(
        [sys.executable, "-c", _LAUNCH, str(to_read), str(to_write), PROGRAM, *flags],
        pass_fds=(to_read, to_write),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    os.close(to_read)
    os.close(to_write)
    try:
        yield Tab(commands, answers, dark=dark)
    finally:
        # Without its pipe Chromium leaves.
        os.close(commands)
        os.close(answers)
        try:
            process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
