"""How much memory a small file may ask for."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Any

from ._errors import FileFormatError

__all__ = ["check_expansion", "check_parquet", "check_zip"]

_ALWAYS = 1 << 28
"""Bytes that any file may expand to; a graph made of them takes several times as much."""

_RATIO = 100
"""Above that, how many times its own size. Real graphs and tables compress less well."""


def check_expansion(expanded: int, stored: int, file: Path) -> None:
    """Refuse a file of `stored` bytes that asks for `expanded` bytes of memory."""
    if expanded > _ALWAYS and expanded > _RATIO * stored:
        raise FileFormatError(
            f"{stored:,} bytes would expand to {expanded:,}",
            place=str(file),
            remedy="If the file is genuine, save it without compression",
        )


def check_zip(file: Path) -> None:
    """Refuse an .npz file whose members would expand beyond measure."""
    with zipfile.ZipFile(file) as archive:
        expanded = sum(member.file_size for member in archive.infolist())
    check_expansion(expanded, file.stat().st_size, file)


def check_parquet(parquet: Any, file: Path) -> None:
    """Refuse a parquet file in which a few bytes stand for very many rows.

    A run of one value takes no room in it, whatever its length: rows and columns are what counts.
    """
    meta = parquet.metadata
    groups = sum(meta.row_group(i).total_byte_size for i in range(meta.num_row_groups))
    expanded = max(8 * meta.num_rows * meta.num_columns, groups)
    check_expansion(expanded, file.stat().st_size, file)
