"""Rows of .csv, .tsv and .txt files, with their line numbers."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, NoReturn, TypeAlias

from .._errors import FileFormatError, MissingExtraError
from .._optional import optional_import
from ._files import PathLike, atomic_write, with_suffix

__all__ = [
    "DELIMITERS",
    "Row",
    "arrow_options",
    "csv_writer",
    "data_line",
    "first_rows",
    "is_number",
    "parse_number",
    "raise_one_field",
    "read_with_arrow",
    "text_rows",
]

DELIMITERS = {".csv": ",", ".tsv": "\t", ".txt": None}

Row: TypeAlias = tuple[int, list[str]]


def text_rows(file: Path) -> Iterator[Row]:
    """(line number, fields) of every row that is not blank; all rows are equally long."""
    delimiter = DELIMITERS[file.suffix.lower()]
    width = 0
    line = 1
    try:
        with open(file, encoding="utf-8-sig", newline="") as handle:
            for line, fields in _split(handle, delimiter):
                if len(fields) < 2 and not "".join(fields).strip():
                    continue
                width = width or len(fields)
                if len(fields) != width:
                    raise FileFormatError(
                        f"{len(fields)} fields, but {width} in the first line",
                        place=f"{file}:{line}",
                        remedy="Give every line as many fields; the file may have been cut off",
                    )
                yield line, fields
    except UnicodeDecodeError:
        _raise_encoding(file)
    except csv.Error as error:
        raise FileFormatError(
            f"the line cannot be split into fields ({error})",
            place=f"{file}:{line + 1}",
            remedy="Check the quotation marks; the file may have been cut off",
        ) from error


def _split(handle: IO[str], delimiter: str | None) -> Iterator[Row]:
    if delimiter is None:
        for line, text in enumerate(handle, 1):
            if not text.lstrip().startswith(("#", "%")):
                yield line, text.split()
        return
    reader = csv.reader(handle, delimiter=delimiter, skipinitialspace=True, strict=True)
    for fields in reader:
        yield reader.line_num, fields


def _raise_encoding(file: Path) -> NoReturn:
    offset = 0
    with open(file, "rb") as handle:
        for line, raw in enumerate(handle, 1):
            try:
                raw.decode("utf-8")
            except UnicodeDecodeError as error:
                raise FileFormatError(
                    f"byte {offset + error.start} (0x{raw[error.start]:02x}) is not UTF-8",
                    place=f"{file}:{line}",
                    remedy="Save the file as UTF-8",
                ) from None
            offset += len(raw)
    raise FileFormatError("the text is not UTF-8", place=str(file), remedy="Save it as UTF-8")


def first_rows(file: Path) -> list[Row]:
    """The first two rows: enough to tell a header from data."""
    with open(file, "rb") as handle:
        if b"\0" in handle.read(1 << 16):
            raise FileFormatError(
                "this is not text: it holds zero bytes",
                place=str(file),
                remedy="Save it as UTF-8 text, or give the file its right suffix",
            )
    out = []
    for row in text_rows(file):
        out.append(row)
        if len(out) == 2:
            break
    if not out:
        raise FileFormatError("no line has any data", place=str(file), remedy="Check the file")
    return out


def data_line(file: Path, header: int, number: int) -> int:
    """Line of the data row `number` (from 0); read again, since only errors ask for it."""
    for i, (line, _) in enumerate(text_rows(file)):
        if i == number + (header > 0):
            return line
    return 0


def is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return "_" not in text


def parse_number(text: str, file: Path, line: int, column: str) -> float:
    if is_number(text):
        return float(text)
    problem = "the cell is empty" if not text.strip() else f"{text[:40]!r} is not a number"
    raise FileFormatError(
        problem,
        place=f"{file}:{line}, column {column!r}",
        remedy="Give a number (for words one column of 0 and 1 each), or leave the column out",
    )


def raise_one_field(text: str, file: Path, line: int, need: str) -> NoReturn:
    """A row without a separator; one that looks as if it had another says so."""
    names = {",": "commas", "\t": "tabs", None: "white space"}
    right = names[DELIMITERS[file.suffix.lower()]]
    others = {";": "semicolons", "\t": "tabs", ",": "commas", "|": "bars"}
    found = next((name for mark, name in others.items() if mark in text), None)
    remedy = f"Separate the fields by {right}"
    if found is not None:
        remedy += f"; they seem to be separated by {found}"
        remedy += ", which is for a .tsv file" if found == "tabs" else ""
    raise FileFormatError(f"one field only, {need}", place=f"{file}:{line}", remedy=remedy)


def read_with_arrow(file: Path, header: int, width: int, types: dict[int, str]) -> Any:
    """The columns of `types` ("id", "text", "number") as an Arrow table, or None."""
    delimiter = DELIMITERS[file.suffix.lower()]
    if delimiter is None:
        return None
    try:
        pa = optional_import("pyarrow", "reading large tables")
        reader = optional_import("pyarrow.csv", "reading large tables")
    except MissingExtraError:
        return None
    kinds = {
        "id": pa.dictionary(pa.int32(), pa.string()),
        "text": pa.string(),
        "number": pa.float64(),
    }
    try:
        columns = {j: kinds[kind] for j, kind in types.items()}
        table = reader.read_csv(file, **arrow_options(reader, header, width, columns, delimiter))
    except (pa.ArrowException, OSError, ValueError):
        # The slow way reads it after all, or names the line.
        return None
    return table.unify_dictionaries()


def arrow_options(
    csv: Any,
    header: int,
    width: int,
    columns: dict[int, Any],
    delimiter: str,
    block_size: int | None = None,
) -> dict[str, Any]:
    """How pyarrow is to read some columns, by their types: as they are, nothing taken for a gap."""
    return {
        "read_options": csv.ReadOptions(
            column_names=[f"c{j}" for j in range(width)], skip_rows=header, block_size=block_size
        ),
        "parse_options": csv.ParseOptions(delimiter=delimiter, quote_char=False),
        "convert_options": csv.ConvertOptions(
            column_types={f"c{j}": kind for j, kind in columns.items()},
            include_columns=[f"c{j}" for j in columns],
            null_values=[],
            strings_can_be_null=False,
        ),
    }


@contextmanager
def csv_writer(path: PathLike, texts: Sequence[Any]) -> Iterator[Any]:
    file = with_suffix(path, (".csv", ".tsv"))
    # Without quotation marks a leading space or a carriage return would not come back.
    odd = any(isinstance(t, str) and (t != t.strip() or "\r" in t) for t in texts)
    with atomic_write(file, "w") as handle:
        yield csv.writer(
            handle,
            delimiter=DELIMITERS[file.suffix.lower()] or ",",
            lineterminator="\n",
            quoting=csv.QUOTE_ALL if odd else csv.QUOTE_MINIMAL,
        )
