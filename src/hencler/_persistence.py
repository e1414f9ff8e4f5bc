"""Models and checkpoints on disk: safetensors and JSON, written whole or not at all.

A model folder holds ``model.json`` (format, parameters, the SHA-256 of the tensors) and
``tensors-*.safetensors``. Reading them executes nothing. A file is written under a temporary
name and renamed; the JSON names the tensors' checksum, so that a pair of files from two
different saves is recognised.
"""

from __future__ import annotations

import hashlib
import json
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeGuard

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ._errors import ModelFileError
from ._folders import locked, make_folder
from .io import atomic_write

__all__ = ["CheckpointFile", "read_model", "write_model"]

FORMAT = 1
"""Raised when a change makes older versions of the package unable to read a model."""

_HEADER = "model.json"
_TENSORS = re.compile(r"tensors-[0-9a-f]{16}\.safetensors")
_READS = 5
"""How often a model that others keep replacing is tried."""

_COST = 60
"""A checkpoint that took t seconds is not followed by another for 60 t: less than 2 % in all."""


def write_model(
    folder: str | Path, header: dict[str, Any], tensors: dict[str, NDArray[Any]]
) -> None:
    """Write a model folder; one that is there already is replaced only by a complete one.

    Tensors go to the file from where they are: no copy of all of them is made.
    """
    folder = Path(folder)
    make_folder(folder)
    parts = list(_serialised({k: np.asarray(v, order="C") for k, v in tensors.items()}))
    sha = hashlib.sha256()
    for part in parts:
        sha.update(part)
    digest = sha.hexdigest()
    # A new name for each content: the old header keeps pointing at the old tensors until the
    # new header replaces it, so that a crash in between loses nothing.
    name = f"tensors-{digest[:16]}.safetensors"
    text = json.dumps({"format": FORMAT, **header, "tensors": {"file": name, "sha256": digest}})
    # Of two writers at once, one would delete the tensors that the other's header names.
    with locked(folder):
        with atomic_write(folder / name, mode="wb") as file:
            for part in parts:
                file.write(part)
        with atomic_write(folder / _HEADER, mode="w") as file:
            file.write(text)
        for old in folder.glob("tensors-*.safetensors"):
            if old.name != name:
                old.unlink(missing_ok=True)


_TYPES = {
    "bool": "BOOL", "uint8": "U8", "int8": "I8", "int16": "I16", "int32": "I32", "int64": "I64",
    "float16": "F16", "float32": "F32", "float64": "F64",
}  # fmt: skip


def _serialised(tensors: dict[str, NDArray[Any]]) -> Iterator[bytes | memoryview]:
    """The parts of a safetensors file: size of the header, header, and each array's own bytes."""
    header: dict[str, Any] = {}
    end = 0
    # Wide types first, so that every tensor lies at a multiple of its size.
    order = sorted(tensors, key=lambda name: (-tensors[name].dtype.itemsize, name))
    for name in order:
        array = tensors[name]
        start, end = end, end + array.nbytes
        kind = _TYPES[array.dtype.name]
        header[name] = {"dtype": kind, "shape": list(array.shape), "data_offsets": [start, end]}
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    yield len(text).to_bytes(8, "little")
    yield text
    for name in order:
        if tensors[name].size:
            yield tensors[name].reshape(-1).view(np.uint8).data


def read_model(folder: str | Path) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Header and tensors of a model folder, or a ModelFileError that says what is wrong."""
    folder = Path(folder)
    header = _read_header(folder / _HEADER)
    for _ in range(_READS):
        try:
            return header, _read_tensors(folder / header["tensors"]["file"], header)
        except ModelFileError:
            # A model saved meanwhile has put another pair of files in the place of this one.
            again = _read_header(folder / _HEADER)
            if again == header:
                raise
            header = again
    return header, _read_tensors(folder / header["tensors"]["file"], header)


def _read_header(path: Path) -> dict[str, Any]:
    """The header, with a tensor file's name and checksum in it."""
    try:
        header = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise ModelFileError(
            "there is no model here", place=str(path), remedy="Name the folder of a saved model"
        ) from error
    except (OSError, ValueError, RecursionError) as error:
        raise ModelFileError(
            f"the header cannot be read ({error})", place=str(path), remedy="Save the model again"
        ) from error
    if not isinstance(header, dict) or not isinstance(header.get("format"), int):
        raise ModelFileError(
            "this is not the header of a hencler model", place=str(path), remedy="Save it again"
        )
    if header["format"] > FORMAT:
        raise ModelFileError(
            f"the model has format {header['format']}, this version reads up to {FORMAT}",
            place=str(path),
            remedy="Install a newer version of hencler",
        )
    entry = header.get("tensors")
    name = entry.get("file") if isinstance(entry, dict) else None
    if not isinstance(entry, dict) or not isinstance(name, str) or not _TENSORS.fullmatch(name):
        raise ModelFileError(
            "the header names no tensor file", place=str(path), remedy="Save the model again"
        )
    return header


def _read_tensors(path: Path, header: dict[str, Any]) -> dict[str, NDArray[Any]]:
    from safetensors import SafetensorError
    from safetensors.numpy import load

    try:
        blob = path.read_bytes()
    except OSError as error:
        raise ModelFileError(
            f"the tensors cannot be read ({error.strerror})",
            place=str(path),
            remedy="Copy the whole model folder",
        ) from error
    if hashlib.sha256(blob).hexdigest() != header["tensors"].get("sha256"):
        raise ModelFileError(
            "the tensors are damaged or from another model: their checksum differs",
            place=str(path),
            remedy="Copy the whole model folder again, or save the model again",
        )
    try:
        return load(blob)
    except (SafetensorError, ValueError, KeyError) as error:
        raise ModelFileError(
            f"the tensors cannot be read ({error})", place=str(path), remedy="Save it again"
        ) from error


class CheckpointFile:
    """State of an unfinished training in one folder.

    Parameters
    ----------
    folder : where the checkpoint lies
    fingerprint : what the training depends on; another one's checkpoint is refused
    resume : whether to take up what is there
    seconds : least time between two checkpoints; it grows with what they cost, so that they
        take less than 2 % of the training
    epochs : epochs after which one is written in any case; by default only time counts
    """

    def __init__(
        self,
        folder: str | Path,
        fingerprint: str,
        *,
        resume: bool,
        seconds: float = 30.0,
        epochs: int | None = None,
    ) -> None:
        self.folder = Path(folder)
        self.fingerprint = fingerprint
        self.resume = resume
        self.seconds = seconds
        self.epochs = epochs
        self.written = 0
        self.cost = 0.0
        self._last = time.monotonic()
        self._last_epoch = 0
        self._wait = seconds

    def load(self) -> tuple[int, dict[str, Tensor], list[dict[str, float]]] | None:
        """Epochs done, tensors and history, or None where there is nothing to take up."""
        if not self.resume or not (self.folder / _HEADER).exists():
            return None
        header, arrays = read_model(self.folder)
        if header.get("fingerprint") != self.fingerprint:
            raise ModelFileError(
                "the checkpoint belongs to other data or other settings",
                place=str(self.folder),
                remedy="Use the same graph and options, or start anew without --resume",
            )
        epoch, history = header.get("epoch"), header.get("history")
        if not _is_history(history) or type(epoch) is not int or epoch != len(history):
            raise ModelFileError(
                "the checkpoint's history of losses is damaged",
                place=str(self.folder),
                remedy="Start anew without --resume",
            )
        self._last_epoch = epoch
        return epoch, {k: torch.from_numpy(v) for k, v in arrays.items()}, history

    def save(
        self,
        epoch: int,
        tensors: Callable[[], dict[str, Tensor]],
        history: Callable[[], list[dict[str, float]]],
        *,
        force: bool = False,
    ) -> None:
        """Write a checkpoint if the last one is old enough, or if told to."""
        start = time.monotonic()
        due = self.epochs is not None and epoch - self._last_epoch >= self.epochs
        if not (force or due or start - self._last >= self._wait):
            return
        header = {"fingerprint": self.fingerprint, "epoch": epoch, "history": history()}
        write_model(self.folder, header, {k: v.cpu().numpy() for k, v in tensors().items()})
        self._last, self._last_epoch = time.monotonic(), epoch
        self._wait = max(self.seconds, _COST * (self._last - start))
        self.written += 1
        self.cost += self._last - start

    def remove(self) -> None:
        """Delete the checkpoint once the result is safe."""
        for path in [self.folder / _HEADER, *self.folder.glob("tensors-*.safetensors")]:
            path.unlink(missing_ok=True)
        if self.folder.is_dir() and not any(self.folder.iterdir()):
            self.folder.rmdir()


def _is_history(history: Any) -> TypeGuard[list[dict[str, float]]]:
    return isinstance(history, list) and all(
        isinstance(record, dict) and all(type(v) in (int, float) for v in record.values())
        for record in history
    )
