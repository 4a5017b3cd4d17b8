"""Public files: a local copy, or fetched once, checked against a checksum, and kept."""

from pathlib import Path

import equinox as eqx

#: Where fetched files are kept, instead of the system's place for caches.
FOLDER_VARIABLE = "IRLAX_DATA"


class PublicFiles(eqx.Module):
    """Files that are served under one address, with the SHA-256 of each."""

    name: str
    address: str
    checksums: tuple[tuple[str, str], ...]

    def paths(self, wanted: list[str], folder: str | Path | None) -> list[Path]:
        """The wanted files in `folder`; with None, from the cache, into which they are fetched once."""
        if folder is None:
            return self._fetched(wanted)
        folder = Path(folder)
        if not folder.is_dir():
            raise FileNotFoundError(f"`path` must be the folder that holds {', '.join(wanted)}, but {folder} is none.")
        missing = [name for name in wanted if not (folder / name).is_file()]
        if missing:
            raise FileNotFoundError(f"{folder} lacks {', '.join(missing)}. {self._by_hand()}")
        return [folder / name for name in wanted]

    def _fetched(self, wanted: list[str]) -> list[Path]:
        try:
            import pooch  # type: ignore[import-not-found]
        except ImportError:
            raise ImportError(
                f"Fetching {self.name} needs pooch: `pip install irlax[data]`. {self._by_hand()}"
            ) from None
        store = pooch.create(
            path=pooch.os_cache("irlax") / self.name,
            base_url=self.address,
            registry={name: f"sha256:{checksum}" for name, checksum in self.checksums},
            env=FOLDER_VARIABLE,
        )
        try:
            return [Path(store.fetch(name)) for name in wanted]
        except OSError as error:
            # Every failure of the connection is an OSError; one of the checksum, a ValueError, says enough itself.
            raise ConnectionError(f"{self.name} could not be fetched ({error}). {self._by_hand()}") from error

    def _by_hand(self) -> str:
        return f"Or get the files from {self.address} some other way, and pass their folder as `path=`."
