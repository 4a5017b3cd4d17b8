"""The server of the studio, on the loopback address."""

import os
import secrets
import socket
import threading
import webbrowser
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import jax
import uvicorn

from irlax import storage
from irlax.estimators.store import is_run
from irlax.run_folder import LOG
from irlax.studio.app import MAX_MESSAGE, create_app
from irlax.studio.desk import warm_up
from irlax.studio.presets import PRESETS
from irlax.studio.storing import SCENE_SUFFIX, Folder

ADDRESS = "127.0.0.1"


class Opened(NamedTuple):
    """The folder of the studio, and what the page opens first."""

    folder: Folder
    first: dict[str, str]


def opened(path: Path | None) -> Opened:
    """The folder that goes with a run, a scene, a table or an MDP, or a folder of such."""
    if path is None:
        return Opened(Folder(Path.cwd()), {})
    path = path.resolve()
    if path.is_dir():
        if is_run(path):
            return Opened(Folder(path.parent), {"run": path.name})
        return Opened(Folder(path.parent), {"live": path.name}) if (path / LOG).is_file() else Opened(Folder(path), {})
    path = storage.existing_file(path, (".json", ".csv", ".parquet", ".npz"))
    kind = {".csv": "table", ".parquet": "table", ".npz": "mdp"}.get(path.suffix.lower(), "scene")
    if kind == "scene" and not path.name.endswith(SCENE_SUFFIX):
        raise ValueError(f"{path} must be a scene (*{SCENE_SUFFIX}), a table, an MDP or the folder of a run.")
    folder = Folder(path.parent)
    if kind == "scene":
        folder.read_scene(path.name)
    return Opened(folder, {kind: path.name})


def serve(found: Opened, *, port: int, open_browser: bool, announce: Callable[[str], Any], warm: bool = True) -> None:
    """Serve until Ctrl-C. `announce` is called with the address, which holds the token."""
    token = secrets.token_urlsafe(24)
    bound = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        # On Windows this option would let two servers share a port.
        if os.name != "nt":
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind((ADDRESS, port))
        # From here on whoever comes waits, and is not refused.
        bound.listen()
    except OSError as error:
        bound.close()
        raise OSError(f"The port {port} cannot be used: {error.strerror}. Choose another by --port.") from None
    number = bound.getsockname()[1]
    ready = threading.Event()
    hosts = (f"{ADDRESS}:{number}", f"localhost:{number}")
    app = create_app(found.folder, token=token, hosts=hosts, first=found.first, ready=ready)
    threading.Thread(target=_prepare, args=(ready, found), daemon=True).start()
    address = f"http://{ADDRESS}:{number}/{token}/"
    announce(address)
    if open_browser:
        threading.Timer(0.5, webbrowser.open, [address]).start()
    config = uvicorn.Config(
        app, log_level="warning", access_log=False, ws="websockets-sansio", ws_max_size=4 * MAX_MESSAGE, lifespan="off"
    )
    uvicorn.Server(config).run(sockets=[bound])


def _prepare(ready: threading.Event, found: Opened) -> None:
    """Compile the programs of the first page, which a cache keeps for the next start."""
    try:
        keep_compiled_programs(os.environ)
        given = "scene" in found.first
        warm_up(found.folder.read_scene(found.first["scene"]) if given else PRESETS[0])
    finally:
        ready.set()


def keep_compiled_programs(environment: Mapping[str, str]) -> None:
    """Keep compiled programs in the user's cache, unless JAX was told where to keep them."""
    if getattr(jax.config, "jax_compilation_cache_dir", None) is None:
        base = Path(environment.get("XDG_CACHE_HOME") or Path.home() / ".cache")
        jax.config.update("jax_compilation_cache_dir", str(base / "irlax" / "compiled"))
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.2)
