"""``hencler.yaml``: all settings of a run, written into its folder and accepted back.

A file is a flat mapping from names to plain values; YAML because people write it by hand, with
comments. It is read by a parser that makes nothing but text, numbers, truth values and null.
Paths in it are relative to the folder of the file, so that a run and its data can move together.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from ._errors import FileFormatError, did_you_mean

__all__ = ["FILE_NAME", "SETTINGS", "read_settings", "write_settings"]

FILE_NAME = "hencler.yaml"

_LARGEST = 1_000_000
"""Bytes; a mapping of a few names has a few hundred."""


class Setting(NamedTuple):
    """What a setting may be, and what it is by default."""

    kinds: tuple[type, ...]
    default: Any = None
    words: str = ""
    path: bool = False


_TEXT, _COUNT, _SWITCH = (str,), (int,), (bool,)

SETTINGS: Mapping[str, Setting] = {
    # what is clustered
    "graph": Setting(_TEXT, words="a file or dataset:NAME", path=True),
    "features": Setting(_TEXT, words="a file", path=True),
    "label": Setting(_TEXT, words="the name of a column"),
    "directed": Setting(_SWITCH, words="true, false or null"),
    "bipartite": Setting(_SWITCH, False, "true or false"),
    "truth": Setting(_TEXT, words="a file or 'dataset'", path=True),
    # how
    "clusters": Setting((int, str), words="a whole number or 'auto'"),
    "preset": Setting(_TEXT, "default", "default, paper or released"),
    "seed": Setting(_COUNT, 0, "a whole number"),
    "n_init": Setting(_COUNT, 10, "a whole number"),
    "n_components": Setting(_COUNT, words="a whole number or null"),
    "view": Setting(_TEXT, "auto", "auto, own, neighbours, smooth or links"),
    "learned_maps": Setting(_SWITCH, True, "true or false"),
    # the presets that are trained
    "epochs": Setting(_COUNT, 300, "a whole number"),
    "learning_rate": Setting((float, int), 0.01, "a number"),
    "batch_size": Setting(_COUNT, words="a whole number or null"),
    "shared_map": Setting(_SWITCH, False, "true or false"),
    "losses": Setting(_TEXT, "all", "all, reconstruction or wksvd"),
    "device": Setting(_TEXT, "auto", "auto, cpu or cuda"),
    "checkpoint_seconds": Setting((float, int), 30.0, "a number"),
    "checkpoint_epochs": Setting(_COUNT, words="a whole number or null"),
    # what is written
    "report": Setting(_SWITCH, True, "true or false"),
}
"""In the order of the file. Whether a value is in its range is for the estimator to say."""

_NOT_PATHS = ("dataset", "dataset:")

_HEADER = """\
# All settings of a run of hencler {version}. The same again, into another folder:
#   hencler fit --config {name} --out again
# Options on the command line go before this file. Paths are relative to its folder.
"""


def write_settings(folder: Path, settings: Mapping[str, Any]) -> Path:
    """Write ``hencler.yaml`` into a folder; settings that are left out have their defaults."""
    import yaml

    from . import __version__
    from .io import atomic_write

    values = {name: settings.get(name, each.default) for name, each in SETTINGS.items()}
    for name, each in SETTINGS.items():
        if each.path and values[name] is not None:
            values[name] = _relative(str(values[name]), folder)
    path = folder / FILE_NAME
    with atomic_write(path, mode="w") as file:
        file.write(_HEADER.format(version=__version__, name=FILE_NAME))
        file.write(yaml.safe_dump(values, sort_keys=False, allow_unicode=True, width=10_000))
    return path


def read_settings(path: Path) -> dict[str, Any]:
    """Settings of a file, or of the folder of a run, as far as it has them.

    A name that is unknown or given twice and a value of another kind are errors that name the
    line. Paths come back as they are seen from the current folder.
    """
    if path.is_dir():
        path = path / FILE_NAME
    nodes = _mapping(path)
    settings: dict[str, Any] = {}
    for name, (value, line) in nodes.items():
        place = f"{path}:{line}"
        if name not in SETTINGS:
            raise FileFormatError(
                f"there is no setting {name!r}", place=place, remedy=did_you_mean(name, SETTINGS)
            )
        settings[name] = _checked(name, value, place)
        if SETTINGS[name].path and settings[name] is not None:
            settings[name] = _from_here(settings[name], path.parent)
    return settings


def _mapping(path: Path) -> dict[str, tuple[Any, int]]:
    """Names with their values and lines."""
    import yaml

    text = _text(path)
    try:
        # Nodes first: they know their lines, and lists or aliases are refused before they grow.
        root = yaml.compose(text, Loader=yaml.SafeLoader)
        pairs = [] if root is None else _pairs(root, yaml, path)
        values = yaml.safe_load(text) or {}
    except FileFormatError:
        raise
    except (yaml.YAMLError, ValueError, RecursionError, LookupError, AttributeError, TypeError,
            ArithmeticError) as error:  # fmt: skip
        # Explicit tags such as "!!timestamp x" end in the parser's own mistakes.
        mark = getattr(error, "problem_mark", None)
        raise FileFormatError(
            f"this is not YAML ({getattr(error, 'problem', None) or type(error).__name__})",
            place=str(path) if mark is None else f"{path}:{mark.line + 1}",
            remedy="Write one setting a line, as in 'clusters: 4'",
        ) from error
    found: dict[str, tuple[Any, int]] = {}
    for name, line in pairs:
        if name in found:
            raise FileFormatError(
                f"{name!r} is set twice", place=f"{path}:{line}", remedy="Keep one of the two"
            )
        found[name] = (values.get(name), line)
    return found


def _text(path: Path) -> str:
    try:
        if path.exists() and not path.is_file():
            raise FileFormatError(
                "this is a device or a pipe, not a file", place=str(path), remedy="Name a file"
            )
        if path.stat().st_size > _LARGEST:
            raise FileFormatError(
                f"the file has more than {_LARGEST:,} bytes",
                place=str(path),
                remedy=f"Name a {FILE_NAME}",
            )
        return path.read_text(encoding="utf-8")
    except FileNotFoundError as error:
        raise FileFormatError(
            "no such file", place=str(path), remedy=f"Name a {FILE_NAME} or the folder of a run"
        ) from error
    except (OSError, UnicodeDecodeError) as error:
        raise FileFormatError(f"the settings cannot be read ({error})", place=str(path)) from error


def _pairs(root: Any, yaml: Any, path: Path) -> list[tuple[str, int]]:
    """Names and lines of a flat mapping."""
    flat = isinstance(root, yaml.MappingNode)
    pairs = []
    for key, value in root.value if flat else [(root, root)]:
        if not (flat and isinstance(key, yaml.ScalarNode) and isinstance(value, yaml.ScalarNode)):
            raise FileFormatError(
                "this is not a setting",
                place=f"{path}:{value.start_mark.line + 1}",
                remedy="Write one setting a line, as in 'clusters: 4'",
            )
        pairs.append((str(key.value), key.start_mark.line + 1))
    return pairs


def _checked(name: str, value: Any, place: str) -> Any:
    """The value, if it is of a kind that the setting can have."""
    setting = SETTINGS[name]
    if value is None:
        return setting.default
    if float in setting.kinds and isinstance(value, str):
        # YAML 1.1 takes 1e-3 for text.
        with suppress(ValueError):
            value = float(value)
    # A truth value is an int to Python, and would be 1 cluster.
    if isinstance(value, bool) != (bool in setting.kinds) or not isinstance(value, setting.kinds):
        quoted = isinstance(value, bool | int | float) and setting.kinds == _TEXT
        raise FileFormatError(
            f"{name} is {value!r}, not {setting.words}",
            place=place,
            remedy="Put it in quotation marks" if quoted else f"Give {setting.words}",
        )
    return value


def _relative(path: str, folder: Path) -> str:
    if path.startswith(_NOT_PATHS[1]) or path == _NOT_PATHS[0]:
        return path
    try:
        return Path(os.path.relpath(path, folder)).as_posix()
    except ValueError:  # another drive
        return os.path.abspath(path)


def _from_here(path: str, folder: Path) -> str:
    if path.startswith(_NOT_PATHS[1]) or path == _NOT_PATHS[0] or os.path.isabs(path):
        return path
    return os.path.normpath(folder / path)
