"""The folder that the page may read and write, and nothing outside it."""

import contextlib
import re
from pathlib import Path

import equinox as eqx

from irlax import storage
from irlax.records import as_json
from irlax.studio.scene import MAX_WALKS, Scene, expect, parse_text, text_of

SCENE_SUFFIX = ".scene.json"
#: A longer file is not read as a scene.
MAX_SCENE_BYTES = 2**20 + 100 * MAX_WALKS
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9 _-]{0,60}")


class Folder(eqx.Module):
    """The folder of the studio: names in messages are paths inside it, with `/` between their parts."""

    root: Path = eqx.field(converter=lambda root: Path(root).resolve())

    def holds(self, path: Path) -> bool:
        """Whether a path, with all links followed, is inside."""
        return path.resolve().is_relative_to(self.root)

    def inside(self, name: object) -> Path:
        """The path of a name, or a ValueError if it leads out of the folder or to nothing."""
        text = expect("The name of a file", name, str)
        # Names that the operating system cannot hold raise.
        with contextlib.suppress(OSError, ValueError):
            path = (self.root / text).resolve()
            if path.is_relative_to(self.root) and path.exists():
                return path
        raise ValueError(f"There is no {text_of(text)} in the folder of the studio.")

    def new(self, name: object) -> Path:
        """The path of a new file or folder at the top, whose name is letters, digits, spaces, - and _ only."""
        text = expect("The name", name, str)
        if not _NAME.fullmatch(text):
            raise ValueError(
                f"The name must be of at most 61 letters, digits, spaces, - and _, but is {text_of(text)}."
            )
        path = self.root / text.strip()
        if path.is_symlink():
            raise ValueError(f"{text_of(text)} is a link, which is not written through. Choose another name.")
        return path

    def read_scene(self, name: object) -> Scene:
        """A scene that was saved."""
        path = self.inside(name)
        if not path.is_file() or path.stat().st_size > MAX_SCENE_BYTES:
            raise ValueError(f"{text_of(path.name)} is not the file of a scene.")
        return parse_text(path.read_bytes())

    def write_scene(self, name: object, scene: Scene) -> Path:
        """Save a scene; one of the same name is replaced."""
        path = self.new(name)
        path = path.with_name(path.name + SCENE_SUFFIX)
        with storage.replacing(path) as file:
            file.write(as_json(scene.record()))
        return path
