"""The application: one page, its files, and a socket for its messages; nobody else may talk to it.

Every address begins with the token, so that nothing is found without it. A request must name the host that the server
is bound to (another name could be one that an attacker's page has pointed here), and a socket must come from the page
itself (its `Origin`). The page may load only its own files.
"""

import asyncio
import functools
import json
import secrets
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.responses import FileResponse, HTMLResponse, PlainTextResponse, Response
from starlette.routing import Route, WebSocketRoute
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from starlette.websockets import WebSocket, WebSocketDisconnect

from irlax.estimators.store import load
from irlax.studio.desk import Desk
from irlax.studio.scene import expect, parse_json, whole
from irlax.studio.storing import Folder
from irlax.studio.worker import Job, Worker

STATIC = Path(__file__).parent / "static"
#: A longer message is answered by an error, and not read.
MAX_MESSAGE = 2**20
#: Pages that are open at once.
MAX_PAGES = 16

_HEADERS = {
    "cache-control": "no-store",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
}
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self' ws://{host}; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
#: Reports are one file with their styles in it, and no scripts.
_REPORT_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; sandbox; frame-ancestors 'none'"


def create_app(
    folder: Folder,
    *,
    token: str,
    hosts: tuple[str, ...],
    first: Mapping[str, Any] | None = None,
    ready: threading.Event | None = None,
) -> Starlette:
    """The application. `hosts` are the names with ports that a request may use; `first` is what to open.

    Messages wait for `ready`, while the programs that they need are compiled.
    """
    if ready is None:
        ready = threading.Event()
        ready.set()
    pages = asyncio.Semaphore(MAX_PAGES)

    async def page(request: Request) -> Response:
        return FileResponse(STATIC / "index.html")

    async def static(request: Request) -> Response:
        name = request.path_params["name"]
        # Compared with what is there, so that no name leads elsewhere.
        known = {path.name: path for path in STATIC.iterdir() if path.is_file()}
        return FileResponse(known[name]) if name in known else PlainTextResponse("Not found.", 404)

    async def report(request: Request) -> Response:
        try:
            path = folder.inside(request.path_params["run"])
            html = await asyncio.to_thread(lambda: load(path).page().render())
        except ValueError as error:
            return PlainTextResponse(str(error), 404)
        return HTMLResponse(html, headers={"content-security-policy": _REPORT_POLICY})

    async def socket(websocket: WebSocket) -> None:
        if pages.locked():
            await websocket.close(1013)
            return
        async with pages:
            await websocket.accept()
            await _Connection(websocket, folder, first, ready).serve()

    routes = [
        Route("/", page),
        Route("/static/{name}", static),
        Route("/report/{run:path}", report),
        WebSocketRoute("/socket", socket),
    ]
    app = Starlette(routes=routes)
    app.add_middleware(functools.partial(_Guard, token=token, hosts=hosts))
    return app


class _Guard:
    """Refuses what does not have the token, the host, and for sockets the origin of the page; adds headers."""

    def __init__(self, app: ASGIApp, *, token: str, hosts: tuple[str, ...]) -> None:
        self._app, self._token, self._hosts = app, token, hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        token, _, rest = scope["path"].removeprefix("/").partition("/")
        host, origin = headers.get("host", ""), headers.get("origin")
        own = origin == f"http://{host}" if scope["type"] == "websocket" else origin in (None, f"http://{host}")
        if host not in self._hosts or not own or not secrets.compare_digest(token.encode(), self._token.encode()):
            await _refuse(scope, receive, send)
            return

        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                known = MutableHeaders(scope=message)
                for name, value in {**_HEADERS, "content-security-policy": _POLICY.format(host=host)}.items():
                    known.setdefault(name, value)
            await send(message)

        await self._app({**scope, "path": f"/{rest}", "raw_path": f"/{rest}".encode()}, receive, send_guarded)


async def _refuse(scope: Scope, receive: Receive, send: Send) -> None:
    if scope["type"] == "websocket":
        await receive()
        await send({"type": "websocket.close", "code": 1008})
    else:
        await PlainTextResponse("Not found. Use the address that `irlax studio` printed.", 404)(scope, receive, send)


class _Connection:
    """The messages of one page: received here, answered by four threads, so that slow ones keep no other waiting."""

    def __init__(
        self, websocket: WebSocket, folder: Folder, first: Mapping[str, Any] | None, ready: threading.Event
    ) -> None:
        self._websocket, self._desk = websocket, Desk(folder, first, tell=self._answer)
        self._loop = asyncio.get_running_loop()
        self._answers: asyncio.Queue[str] = asyncio.Queue()
        at_once = threading.Event()
        at_once.set()
        self._slow, light = Worker("studio-slow", ready), Worker("studio-light", at_once)
        quick, doubts = Worker("studio-quick", ready), Worker("studio-doubts", ready)
        groups = ((Desk.QUICK, quick), (Desk.DOUBTS, doubts), (Desk.LIGHT, light))
        self._workers = {kind: worker for kinds, worker in groups for kind in kinds}

    async def serve(self) -> None:
        """Receive and answer until the page leaves."""
        sending = asyncio.create_task(self._send())
        try:
            while True:
                message = await self._websocket.receive()
                if message["type"] == "websocket.disconnect":
                    return
                text = message.get("text")
                self._receive(message.get("bytes") or b"" if text is None else text)
        except WebSocketDisconnect:
            return
        finally:
            for worker in {*self._workers.values(), self._slow}:
                worker.close()
            sending.cancel()

    def _receive(self, text: str | bytes) -> None:
        number = 0
        try:
            if len(text) > MAX_MESSAGE:
                raise ValueError(f"A message may have at most {MAX_MESSAGE} characters, but this has {len(text)}.")
            fields = expect("A message", parse_json(text), dict)
            number = whole("id", fields.get("id"), 0, 2**53)
            kind = expect("`kind`", fields.get("kind"), str)
        except ValueError as error:
            self._answers.put_nowait(_text_of({"id": number, "kind": "error", "message": str(error)}))
            return
        worker = self._workers.get(kind, self._slow)
        compute = functools.partial(self._desk.answer, number, kind, fields)
        worker.submit(Job(number, _lane(kind, fields), compute, self._answer))

    def _answer(self, answer: dict[str, Any]) -> None:
        self._loop.call_soon_threadsafe(self._answers.put_nowait, _text_of(answer))

    async def _send(self) -> None:
        while True:
            await self._websocket.send_text(await self._answers.get())


def _text_of(answer: dict[str, Any]) -> str:
    """An answer as JSON, which has no NaN and no infinity: an answer that holds one becomes an error."""
    try:
        return json.dumps(answer, allow_nan=False)
    except ValueError:
        message = "The answer holds a number that is not finite, which the page cannot show."
        return json.dumps({"id": answer["id"], "kind": "error", "message": message})


def _lane(kind: str, fields: Mapping[str, Any]) -> str:
    """Messages of one lane replace each other: several runs may be opened or watched at a time."""
    run = fields.get("run")
    return f"{kind} {run}" if kind in ("open", "watch") and isinstance(run, str) else kind
