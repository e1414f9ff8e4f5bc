"""Arrays from which a part of a model is made again: there, of their type, fitting, finite."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ._errors import ModelFileError

__all__ = ["checked"]


def checked(
    state: dict[str, NDArray[Any]],
    shapes: dict[str, str],
    sizes: Mapping[str, int | None],
    *,
    integers: tuple[str, ...] = (),
) -> dict[str, NDArray[Any]]:
    """The arrays of a part of a model, if they are all there, fit each other and are finite.

    Parameters
    ----------
    shapes : for each array one letter per axis; the same letter is the same length everywhere
    sizes : lengths that are known, by letter
    integers : names of those that hold integers and not floats
    """
    lengths = {letter: size for letter, size in sizes.items() if size is not None}
    for name, letters in shapes.items():
        array = state.get(name)
        types = ("int64",) if name in integers else ("float32", "float64")
        if array is None or array.dtype.name not in types:
            raise ModelFileError(f"the tensor {name!r} is missing or of another type")
        expected = tuple(
            lengths.setdefault(letter, length) for letter, length in zip(letters, array.shape)
        )
        if array.ndim != len(letters) or array.shape != expected:
            raise ModelFileError(
                f"the tensor {name!r} has the shape {array.shape}, of another model"
            )
        if not np.isfinite(array).all():
            raise ModelFileError(f"the tensor {name!r} has entries that are not finite")
    return {name: state[name] for name in shapes}
