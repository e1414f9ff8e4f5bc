"""Folders that are written by one process at a time, and whose files change together."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ._errors import WriteError

__all__ = ["locked", "make_folder", "staged", "sweep"]

_STAGING = ".staging-"


def make_folder(folder: Path) -> None:
    """Make a folder, before the work whose result it is to hold."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise WriteError(
            f"the folder cannot be made ({error.strerror})",
            place=str(folder),
            remedy="Choose a folder that may be written to",
        ) from error


@contextmanager
def locked(folder: Path, *, wait: bool = True) -> Iterator[None]:
    """Keep other processes out of a folder that is being written.

    The system gives the lock back when the process ends, however it ends. Where the system or
    the file system knows no locks, there is none.

    Parameters
    ----------
    wait : bool
        Whether to wait for whoever holds it; otherwise that is a :class:`WriteError`.
    """
    try:
        import fcntl
    except ImportError:  # only POSIX has it
        yield
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        except BlockingIOError as error:
            raise WriteError(
                "another run is writing to this folder",
                place=str(folder),
                remedy="Wait for its end, or choose another folder",
            ) from error
        except OSError:  # some network file systems
            pass
        yield
    finally:
        os.close(descriptor)


@contextmanager
def staged(folder: Path, last: str) -> Iterator[Path]:
    """A folder inside `folder` whose files take their places in it when the block ends.

    Until then nothing in `folder` changes: a full disk or any other error leaves the earlier
    files as they were. The files are renamed one by one, which needs no room on the disk; the
    one named `last` comes last and so tells that the others are there.
    """
    try:
        staging = Path(tempfile.mkdtemp(prefix=_STAGING, dir=folder))
    except OSError as error:
        raise WriteError(
            f"cannot be written to ({error.strerror})",
            place=str(folder),
            remedy="Choose a folder that may be written to",
        ) from error
    try:
        yield staging
        files = sorted(path for path in staging.rglob("*") if path.is_file())
        # Deeper ones first; the header of a model after its tensors, which it names.
        files.sort(key=lambda p: (p.name == last, -len(p.parts), p.suffix != ".safetensors"))
        for file in files:
            target = folder / file.relative_to(staging)
            target.parent.mkdir(parents=True, exist_ok=True)
            os.replace(file, target)
    finally:
        shutil.rmtree(staging, ignore_errors=True)


def sweep(folder: Path) -> None:
    """Delete what a killed process left unfinished; only for the holder of the lock."""
    for path in folder.glob(f"{_STAGING}*"):
        shutil.rmtree(path, ignore_errors=True)
    for inner in (folder, folder / "checkpoint", folder / "model"):
        for path in inner.glob(".*.tmp"):
            path.unlink(missing_ok=True)
