"""Who may talk to the studio, and that it stays up whatever it is told."""

import json
import threading
import urllib.request

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from starlette.testclient import TestClient
from starlette.websockets import WebSocketDisconnect
from tests.studio.driving import serving

from irlax.studio import app as app_module
from irlax.studio import desk as desk_module
from irlax.studio.app import STATIC, create_app
from irlax.studio.desk import HANDLERS
from irlax.studio.scene import Scene
from irlax.studio.serve import opened
from irlax.studio.storing import Folder
from irlax.studio.worker import Job, Worker

TOKEN, HOST = "secret-token", "127.0.0.1:8000"
ORIGIN = f"http://{HOST}"
MALFORMED = ["", "{", "[]", "null", '"hello"', '{"id": 1}', '{"id": "x", "kind": "fit"}', "[" * 5000, "\x00"]
MALFORMED += [
    '{"id": 1e400, "kind": "fit"}',
    '{"id": NaN, "kind": "fit"}',
    '{"id": 1, "kind": "no"}',
    '{"id": 1, "kind": "fit"}',
]
FORBIDDEN = ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "Function(", "import(")


SCENE = Scene((".G",), (((0, 0), (0, 1)),)).record()
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=8,
)
NAMES = st.sampled_from(["scene", "of", "cell", "sizes", "run", "offset", "file", "name", "what", "table", "mdp"])
HOSTILE = JSON | st.sampled_from(
    ["../..", "/etc/passwd", "\0", "a" * 5000, "<img src=x onerror=alert(1)>", -1, 2**70, 1e308]
)
SCENES = st.dictionaries(st.sampled_from(Scene.FIELDS), HOSTILE, max_size=4).map(lambda change: {**SCENE, **change})


@pytest.fixture
def client(tmp_path):
    app = create_app(Folder(tmp_path), token=TOKEN, hosts=(HOST, "localhost:8000"))
    return TestClient(app, base_url=ORIGIN)


def connect(client, token=TOKEN, **headers):
    return client.websocket_connect(f"/{token}/socket", headers={"host": HOST, "origin": ORIGIN, **headers})


def test_the_page_and_its_files_are_there_for_who_has_the_token(client):
    page = client.get(f"/{TOKEN}/")
    assert page.status_code == 200 and "irlax studio" in page.text
    for path in STATIC.iterdir():
        assert client.get(f"/{TOKEN}/static/{path.name}").content == path.read_bytes()


@pytest.mark.parametrize(
    ("path", "headers"),
    [
        ("/", {}),
        ("/wrong/", {}),
        ("/static/main.js", {}),
        (f"/{TOKEN}x/", {}),
        (f"/{TOKEN}/", {"host": "evil.example:8000"}),
        (f"/{TOKEN}/", {"host": "127.0.0.1:9999"}),
        (f"/{TOKEN}/", {"origin": "http://evil.example"}),
        (f"/{TOKEN}/static/../app.py", {}),
        (f"/{TOKEN}/static/..%2Fapp.py", {}),
        (f"/{TOKEN}/static/%2Fetc%2Fpasswd", {}),
        (f"/{TOKEN}/report/../../etc", {}),
    ],
)
def test_nobody_else_gets_anything(client, path, headers):
    answer = client.get(path, headers=headers)
    assert answer.status_code == 404 and "import" not in answer.text


@pytest.mark.parametrize(
    ("token", "headers"),
    [
        ("wrong", {}),
        (TOKEN, {"origin": "http://evil.example"}),
        (TOKEN, {"origin": "null"}),
        (TOKEN, {"host": "evil.example:8000", "origin": "http://evil.example:8000"}),
    ],
)
def test_a_socket_is_for_the_page_itself_only(client, token, headers):
    with pytest.raises(WebSocketDisconnect), connect(client, token, **headers):
        pass


def test_the_browser_is_told_to_run_nothing_but_the_page(client):
    headers = client.get(f"/{TOKEN}/").headers
    policy = headers["content-security-policy"]
    assert "default-src 'none'" in policy and "script-src 'self'" in policy and "unsafe" not in policy
    assert headers["x-content-type-options"] == "nosniff" and headers["referrer-policy"] == "no-referrer"


def test_the_front_end_never_makes_markup_of_data_and_fetches_nothing():
    for path in STATIC.iterdir():
        text = path.read_text()
        for word in FORBIDDEN:
            assert word not in text, (path.name, word)
        assert "https://" not in text and text.count("http://") == text.count("http://www.w3.org/"), path.name


@pytest.mark.parametrize(
    "message",
    MALFORMED,
)
def test_whatever_is_no_message_is_answered_by_one(client, message):
    with connect(client) as page:
        page.send_text(message)
        assert page.receive_json()["kind"] == "error"
        page.send_bytes(b"\xff\xfe")
        assert page.receive_json()["kind"] == "error"
        page.send_text(json.dumps({"id": 9, "kind": "hello"}))
        answer = page.receive_json()
    assert answer["id"] == 9 and len(answer["presets"]) >= 5


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    """The socket of a page, for all examples of a property."""
    app = create_app(Folder(tmp_path_factory.mktemp("studio")), token=TOKEN, hosts=(HOST,))
    with connect(TestClient(app, base_url=ORIGIN)) as page:
        yield page


@settings(max_examples=1000, deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck))
@given(
    kind=st.sampled_from([*HANDLERS, "constructor", ""]),
    fields=st.dictionaries(NAMES | st.text(max_size=10), HOSTILE, max_size=4),
    scene=st.none() | SCENES,
)
def test_a_thousand_hostile_messages_are_answered(kind, fields, scene, page):
    """All by one server. Scenes that are valid after all are not fitted: only what is refused is of interest."""

    def not_fitted(*_, **__):
        raise ValueError("valid")

    fields = fields if scene is None else {**fields, "scene": scene}
    with pytest.MonkeyPatch.context() as patch:
        for name in ("learn", "save_fit", "risky_path"):
            patch.setattr(desk_module, name, not_fitted)
        page.send_text(json.dumps({**fields, "id": 5, "kind": kind}))
        answer = page.receive_json()
    # JSON has no infinity, so that a message with one is read as no message, and has no number.
    assert answer["id"] == 5 or "Infinity" in answer["message"]
    assert answer["kind"] in (kind, "error", "stale")
    assert answer["kind"] != "error" or (answer["message"] and len(answer["message"]) <= 2000)


@pytest.mark.parametrize("loss", [float("nan"), float("inf")])
def test_an_answer_that_json_cannot_hold_is_an_error_and_the_next_one_comes(loss, client, monkeypatch):
    monkeypatch.setitem(HANDLERS, "files", lambda *_: {"loss": loss})
    with connect(client) as page:
        page.send_text(json.dumps({"id": 1, "kind": "files"}))
        answer = page.receive_json()
        assert answer["id"] == 1 and answer["kind"] == "error" and "not finite" in answer["message"]
        page.send_text(json.dumps({"id": 2, "kind": "hello"}))
        assert page.receive_json()["id"] == 2


def test_a_message_that_is_too_long_is_not_read(client, monkeypatch):
    monkeypatch.setattr(app_module, "MAX_MESSAGE", 100)
    with connect(client) as page:
        page.send_text(json.dumps({"id": 1, "kind": "hello", "more": "x" * 100}))
        assert "at most 100 characters" in page.receive_json()["message"]


def test_at_most_some_pages_are_open_at_once(tmp_path, monkeypatch):
    monkeypatch.setattr(app_module, "MAX_PAGES", 1)
    client = TestClient(create_app(Folder(tmp_path), token=TOKEN, hosts=(HOST,)), base_url=ORIGIN)
    with client, connect(client), pytest.raises(WebSocketDisconnect), connect(client):
        pass


def test_of_waiting_messages_the_newest_is_answered_and_the_running_one_is_stopped():
    ready, started, answers = threading.Event(), threading.Event(), {}
    done = threading.Semaphore(0)

    def answer(message):
        answers[message["id"]] = message["kind"]
        done.release()

    def first(stop):
        started.set()
        while not stop():
            pass
        return {"id": 1, "kind": "stopped"}

    worker = Worker("test", ready)
    ready.set()
    worker.submit(Job(1, "fit", first, answer))
    assert started.wait(10)
    for number in (2, 3):
        worker.submit(Job(number, "fit", lambda _, number=number: {"id": number, "kind": "fit"}, answer))
    for _ in range(3):
        assert done.acquire(timeout=10)
    worker.close()
    # The second may have been taken before the third arrived.
    assert answers[1] == "stopped" and answers[3] == "fit" and answers[2] in ("fit", "stale")


def test_the_server_listens_on_the_loopback_address(tmp_path):
    with serving(tmp_path) as (_, address), urllib.request.urlopen(address, timeout=30) as answer:
        assert b"irlax studio" in answer.read()


def test_what_is_opened_says_which_folder_the_page_may_read(tmp_path):
    scene = Folder(tmp_path).write_scene("mine", Scene(("..G",)))
    assert opened(scene) == (Folder(tmp_path), {"scene": "mine.scene.json"})
    assert opened(tmp_path) == (Folder(tmp_path), {})
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "log.jsonl").touch()
    assert opened(tmp_path / "run") == (Folder(tmp_path), {"live": "run"})
    (tmp_path / "panel.csv").touch()
    assert opened(tmp_path / "panel.csv") == (Folder(tmp_path), {"table": "panel.csv"})
    (tmp_path / "broken.scene.json").write_text("{")
    with pytest.raises(ValueError, match="not JSON"):
        opened(tmp_path / "broken.scene.json")
    with pytest.raises(FileNotFoundError):
        opened(tmp_path / "nothing.csv")
