"""Files on disk: written completely or not at all; archives of arrays are read without running any code in them."""

import contextlib
import math
import os
import secrets
import warnings
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from irlax import checks

#: No archive may unpack to more than this many bytes, nor to more than the machine's memory.
MAX_BYTES = 64 * 2**30
_HEADERS = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
_ENCRYPTED = 0x1
_LAST_CODE_POINT = 0x10FFFF
_SURROGATES = (0xD800, 0xDFFF)


def existing_file(path: str | os.PathLike[str], suffixes: Sequence[str]) -> Path:
    """`path`, if it is an existing file with one of these suffixes; else an error."""
    path = known_suffix(path, suffixes)
    if path.is_dir():
        raise IsADirectoryError(f"{path} is a directory. Name the file inside it.")
    if not path.exists():
        raise FileNotFoundError(f"There is no file {path}. Check the name; it is relative to {Path.cwd()}.")
    return path


def known_suffix(path: str | os.PathLike[str], suffixes: Sequence[str]) -> Path:
    """`path`, if it ends with one of these suffixes; else an error."""
    if not isinstance(path, (str, os.PathLike)):
        raise TypeError(f"`path` must be the name of a file, but is a {type(path).__name__}.")
    path = Path(path)
    if path.suffix.lower() not in suffixes:
        raise ValueError(f"The file's name must end in {' or '.join(suffixes)}, but is {path.name!r}.")
    return path


@contextlib.contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """A temporary file to write, which replaces `path` at the end, or is removed after an error."""
    if not path.parent.is_dir():
        raise FileNotFoundError(f"There is no directory {path.parent} to write {path.name} in. Create it first.")
    if path.is_dir():
        raise IsADirectoryError(f"{path} is a directory. Name the file inside it.")
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")
    try:
        # Not by `tempfile`, whose files only their owner can read.
        with temporary.open("xb") as file:
            yield file
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


@contextlib.contextmanager
def unreadable(path: Path, kind: str) -> Iterator[None]:
    """A context in which every error becomes a ValueError that names the file and its kind."""
    try:
        yield
    # On damaged files parsers raise a dozen types of exceptions (zlib.error, EOFError, ArrowException, RuntimeError,
    # MemoryError for a wrong length), which all mean the same to the caller.
    except Exception as error:
        reason = str(error).strip().rstrip(".") or type(error).__name__
        raise ValueError(f"{path} cannot be read as {kind}: {reason}. Is it damaged, or of another format?") from None


def in_file(path: Path, error: TypeError | ValueError) -> TypeError | ValueError:
    """The error with the name of the file in its message."""
    kind = TypeError if isinstance(error, TypeError) else ValueError
    return kind(str(error) if str(path) in str(error) else f"{path}: {error}")


def fits_in_memory(path: Path, num_bytes: int, advice: str = "") -> None:
    """Raise a ValueError if arrays of `num_bytes` do not fit in memory; called before they are unpacked."""
    limit = min(MAX_BYTES, _machine_memory())
    if num_bytes > limit:
        raise ValueError(
            f"{path} declares {num_bytes / 2**30:,.1f} GiB of arrays, more than the {limit / 2**30:,.1f} GiB that can "
            f"be read here. {advice or 'Is the file damaged? irlax writes no such file.'}"
        )


def _machine_memory() -> int:
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return MAX_BYTES


def save_arrays(path: Path, arrays: Mapping[str, Any], *, compressed: bool = True) -> None:
    """Write named arrays to an .npz archive; those that are None are left out."""
    present: dict[str, Any] = {name: np.asarray(array) for name, array in arrays.items() if array is not None}
    for name, array in present.items():
        if array.dtype.hasobject:
            raise TypeError(
                f"`{name}` has dtype {array.dtype}, which an .npz file can hold only as a pickle. Convert it to "
                f"numbers or text first."
            )
    with replacing(path) as file:
        (np.savez_compressed if compressed else np.savez)(file, **present)


def load_arrays(path: Path, known: Sequence[str] | None, kind: str) -> dict[str, np.ndarray]:
    """Read named arrays from an .npz archive, never unpickling.

    Every member must have one of the `known` names, if these are given. The sizes that the archive declares are
    checked before anything is unpacked, so a small file cannot fill the memory.
    """
    with path.open("rb") as file, unreadable(path, kind):
        archive = zipfile.ZipFile(file)
        members = archive.infolist()
        names = [member.filename.removesuffix(".npy") for member in members]
    _refuse_unknown_names(path, names, known)
    fits_in_memory(path, sum(member.file_size for member in members))
    with path.open("rb") as file, unreadable(path, kind), zipfile.ZipFile(file) as archive:
        return {name: _member(archive, member) for name, member in zip(names, members, strict=True)}


def _refuse_unknown_names(path: Path, names: Sequence[str], known: Sequence[str] | None) -> None:
    unknown = [] if known is None else [repr(name) for name in names if name not in known]
    if known is not None and unknown:
        raise ValueError(f"{path} holds {checks.some(unknown)}, but may hold only {', '.join(known)}.")
    repeated = [repr(name) for name in dict.fromkeys(names) if names.count(name) > 1]
    if repeated:
        raise ValueError(f"{path} holds {checks.some(repeated)} more than once.")


def _member(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> np.ndarray:
    if member.flag_bits & _ENCRYPTED or member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise ValueError(f"{member.filename} is encrypted, or compressed by another method than deflate")
    with warnings.catch_warnings():
        # Headers written by Python 2 are parsed with a warning; the array is checked all the same.
        warnings.simplefilter("ignore")
        with archive.open(member) as file:
            _check_header(file, member)
        with archive.open(member) as file:
            array = np.lib.format.read_array(file, allow_pickle=False)
            # zipfile compares the checksum only when the end has been read.
            if file.read(1):
                raise ValueError(f"{member.filename} is longer than it declares")
    if array.dtype.kind == "U" and not _is_text(array):
        raise ValueError(f"{member.filename} holds text that is not valid Unicode")
    return array


def _is_text(array: np.ndarray) -> bool:
    """Whether all characters are valid Unicode: NumPy stores four bytes for each and does not validate them."""
    codes = np.atleast_1d(array.astype(array.dtype.newbyteorder("="))).ravel().view(np.uint32)
    return not ((codes > _LAST_CODE_POINT) | ((codes >= _SURROGATES[0]) & (codes <= _SURROGATES[1]))).any()


def _check_header(file: Any, member: zipfile.ZipInfo) -> None:
    version = np.lib.format.read_magic(file)
    if version not in _HEADERS:
        raise ValueError(f"{member.filename} has the unknown array format {version}")
    shape, _, dtype = _HEADERS[version](file)
    if dtype.hasobject:
        raise ValueError(
            f"{member.filename} holds Python objects, which are never loaded because unpickling runs code; store "
            f"numbers or text"
        )
    size = dtype.itemsize * math.prod(shape)
    if min(shape, default=0) < 0 or not dtype.itemsize or file.tell() + size != member.file_size:
        raise ValueError(f"{member.filename} declares shape {shape} of {dtype}, but has another size")
