"""Files that exist and can be read, files that appear whole, and errors that name them."""

from __future__ import annotations

import difflib
import errno
import os
import re
import secrets
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any, TypeAlias

from .._errors import FileFormatError, HenclerError, ParameterError, ResourceError, WriteError

__all__ = [
    "PathLike",
    "atomic_write",
    "check_size",
    "existing_file",
    "guarded",
    "placed",
    "with_suffix",
]

PathLike: TypeAlias = str | os.PathLike[str]

_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EROFS)
"""What a system says when bytes find no place."""


@contextmanager
def atomic_write(path: PathLike, mode: str = "wb") -> Iterator[IO[Any]]:
    """Open a file that takes the place of `path` only when the block ends without an error.

    The bytes go to a temporary name in the same folder, are flushed to the disk and renamed;
    whoever reads `path` sees the old file or the new one, never a part.

    Examples
    --------
    >>> from pathlib import Path
    >>> from hencler.io import atomic_write
    >>> with atomic_write("notes.txt", "w") as file:
    ...     _ = file.write("all of it")
    >>> try:
    ...     with atomic_write("notes.txt", "w") as file:
    ...         _ = file.write("half of")
    ...         raise KeyboardInterrupt
    ... except KeyboardInterrupt:
    ...     print(Path("notes.txt").read_text())
    all of it
    """
    if mode not in ("wb", "w"):
        raise ParameterError(f"mode={mode!r} is unknown", remedy="Use 'wb' or 'w'")
    target = Path(os.path.realpath(path))
    if target.is_dir():
        raise FileFormatError("this is a folder", place=str(path), remedy="Name a file in it")
    temporary = target.with_name(f".{target.name[:100]}.{secrets.token_hex(6)}.tmp")
    text: dict[str, Any] = {"encoding": "utf-8", "newline": ""} if mode == "w" else {}
    try:
        handle = open(temporary, mode.replace("w", "x"), **text)  # noqa: SIM115
    except OSError as error:
        raise WriteError(
            f"cannot be written ({error.strerror})",
            place=str(path),
            remedy="Choose a folder that exists and may be written to",
        ) from error
    try:
        with handle:
            yield handle
            handle.flush()
            os.fsync(handle.fileno())
        if target.exists():
            shutil.copymode(target, temporary)
        os.replace(temporary, target)
    except BaseException as error:
        with suppress(OSError):
            temporary.unlink()
        if isinstance(error, OSError) and error.errno in _FULL:
            raise WriteError(
                f"cannot be written ({error.strerror})",
                place=str(path),
                remedy="Make room on the disk; what was there before is untouched",
            ) from error
        raise
    _sync_folder(target.parent)


def _sync_folder(folder: Path) -> None:
    # Only POSIX can open a folder; elsewhere the rename itself is all there is.
    if os.name == "posix":
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def existing_file(path: PathLike, suffixes: Sequence[str], what: str) -> Path:
    """The path, if it is a readable, non-empty file with one of the suffixes."""
    file = Path(path)
    try:
        if not file.exists():
            raise FileFormatError("no such file", place=str(file), remedy=_similar_file(file))
        if file.is_dir():
            raise FileFormatError("this is a folder", place=str(file), remedy="Name a file in it")
        if not file.is_file():
            raise FileFormatError(
                "this is a device or a pipe, not a file", place=str(file), remedy="Name a file"
            )
        if file.suffix.lower() not in suffixes:
            close = difflib.get_close_matches(file.suffix.lower(), suffixes, 1)
            meant = f"Did you mean {close[0]}? " if close else ""
            raise FileFormatError(
                f"the suffix {file.suffix!r} names no format for {what}",
                place=str(file),
                remedy=f"{meant}Known are {', '.join(suffixes)}",
            )
        with open(file, "rb") as handle:
            if not handle.read(1):
                raise FileFormatError(
                    "the file is empty", place=str(file), remedy="Check how it was made"
                )
    except (OSError, ValueError) as error:
        if isinstance(error, HenclerError):
            raise
        raise FileFormatError(f"cannot be opened ({error})", place=str(file)) from error
    return file


def _similar_file(file: Path) -> str:
    names = [p.name for p in file.parent.iterdir()] if file.parent.is_dir() else []
    close = difflib.get_close_matches(file.name, names, 1)
    return f"Did you mean {close[0]}?" if close else "Check the name and the folder"


@contextmanager
def guarded(file: Path, what: str) -> Iterator[None]:
    """Whatever another library makes of a damaged file becomes one typed error."""
    try:
        yield
    except HenclerError:
        raise
    except MemoryError as error:
        raise ResourceError(
            "the file does not fit into memory", place=str(file), remedy="Split or shrink it"
        ) from error
    except Exception as error:  # a parser meets arbitrary bytes here
        line = re.search(r"[Ll]ine\s+(\d+)|\((\d+), \d+\)", str(error))
        place = f"{file}:{line[1] or line[2]}" if line else str(file)
        detail = " ".join(str(error).split())[:200].rstrip(".") or type(error).__name__
        raise FileFormatError(
            f"this is not {what} that can be read ({detail})",
            place=place,
            remedy="Check that the file is complete and of the format its suffix names",
        ) from error


@contextmanager
def placed(file: Path) -> Iterator[None]:
    """Errors of :class:`Graph` get the file they come from."""
    try:
        yield
    except HenclerError as error:
        if error.place and error.place.startswith(str(file)):
            raise
        place = f"{file}, {error.place}" if error.place else str(file)
        raise type(error)(error.problem, place=place, remedy=error.remedy) from error


def with_suffix(path: PathLike, suffixes: Sequence[str]) -> Path:
    file = Path(path)
    if file.suffix.lower() not in suffixes:
        raise FileFormatError(
            f"the suffix {file.suffix!r} is not one to write here",
            place=str(file),
            remedy=f"Use {' or '.join(suffixes)}",
        )
    return file


def check_size(n: int, entries: int, file: Path) -> None:
    """A small file must not be able to ask for the memory of a huge graph."""
    if n > 10_000_000 and n > 100 * entries:
        raise FileFormatError(
            f"{n} nodes for {entries} edges",
            place=str(file),
            remedy="Number the nodes from 0 without large gaps",
        )
