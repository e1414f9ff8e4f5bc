"""Clusters or classes of the nodes: ``labels.csv`` and tables like it."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._errors import FileFormatError, GraphError, ParameterError
from ._columns import CLUSTER_NAMES, ID_NAMES, find_column, raise_no_label, two_columns
from ._files import PathLike, existing_file
from ._ids import INTEGER, check_id, check_text, check_unique, natural, of_same_kind
from ._parquet import parquet_labels
from ._text import csv_writer, data_line, first_rows, raise_one_field, text_rows

__all__ = ["align_labels", "read_labels", "write_labels"]


_LABEL_SUFFIXES = (".csv", ".tsv", ".parquet")

_LABEL_ROWS = 1 << 17
"""Lines written in one go."""


def write_labels(path: PathLike, graph_ids: Any, labels: Any) -> None:
    """Clusters as a table ``node,cluster``, one line per node.

    Examples
    --------
    >>> from pathlib import Path
    >>> from hencler.io import write_labels
    >>> write_labels("labels.csv", ["fox", "mouse", "owl"], [0, 1, 0])
    >>> print(Path("labels.csv").read_text(), end="")
    node,cluster
    fox,0
    mouse,1
    owl,0
    """
    ids, values = np.asarray(graph_ids), np.asarray(labels)
    if ids.ndim != 1 or ids.shape != values.shape:
        raise ParameterError(
            f"{values.shape} labels for {ids.shape} ids", remedy="Give one label per node"
        )
    # Quotation marks are for odd texts; numbers need no look, and no list of all of them exists.
    texts = [v for part in (ids, values) if part.dtype.kind not in "biuf" for v in part.tolist()]
    with csv_writer(path, texts) as writer:
        writer.writerow(["node", "cluster"])
        for start in range(0, len(ids), _LABEL_ROWS):
            rows = slice(start, start + _LABEL_ROWS)
            writer.writerows(zip(ids[rows].tolist(), values[rows].tolist()))


def read_labels(path: PathLike) -> tuple[NDArray[Any], NDArray[Any]]:
    r"""Ids and clusters (or classes) from a table of two or more columns.

    The columns are found by name (``node`` or ``id``; ``cluster``, ``label``, ``class`` or ``y``),
    else they are the first two. Integers are read as integers, anything else as strings.

    Returns
    -------
    ids, labels : arrays of shape (n,)

    Examples
    --------
    >>> from pathlib import Path
    >>> from hencler.io import read_labels
    >>> _ = Path("truth.csv").write_text("id,name,class\n7,fox,predator\n9,mouse,prey\n")
    >>> ids, classes = read_labels("truth.csv")
    >>> ids.tolist(), classes.tolist()
    ([7, 9], ['predator', 'prey'])
    """
    file = existing_file(path, _LABEL_SUFFIXES, "labels")
    if file.suffix.lower() == ".parquet":
        return parquet_labels(file)
    (line, first), *rest = first_rows(file)
    if len(first) < 2:
        raise_one_field(first[0], file, line, "a node and its cluster are needed")
    key, at = find_column(first, ID_NAMES), find_column(first, CLUSTER_NAMES)
    header = key is not None or at is not None
    key, at = two_columns(key, at)
    if not header and rest:
        header = not INTEGER.match(first[at]) and bool(INTEGER.match(rest[0][1][at]))
    ids, labels = [], []
    rows = text_rows(file)
    if header:
        next(rows)
    for line, fields in rows:
        check_id(fields[key], f"{file}:{line}")
        if not fields[at].strip():
            raise_no_label(f"{file}:{line}")
        check_text(fields[at], f"{file}:{line}")
        ids.append(fields[key])
        labels.append(fields[at])
    if not ids:
        raise FileFormatError("there is no label", place=str(file), remedy="Give one per node")
    out = natural(ids)
    check_unique(out, lambda row: f"{file}:{data_line(file, header, row)}")
    return out, natural(labels)


def align_labels(ids: Any, table: tuple[Any, Any]) -> NDArray[Any]:
    """Labels of `table` = (ids, labels) in the order of `ids`; other nodes are left out.

    Examples
    --------
    >>> from hencler.io import align_labels
    >>> table = (["owl", "fox", "bat"], ["bird", "mammal", "mammal"])
    >>> align_labels(["fox", "owl"], table).tolist()
    ['mammal', 'bird']
    """
    wanted, known = of_same_kind(np.asarray(ids), np.asarray(table[0]))
    labels = np.asarray(table[1])
    order = np.argsort(known, kind="stable")
    at = np.searchsorted(known, wanted, sorter=order)
    found = at < known.size
    found[found] = known[order[at[found]]] == wanted[found]
    if not found.all():
        first = str(wanted[int((~found).argmax())])
        raise GraphError(
            f"{int((~found).sum())} of {len(wanted)} nodes have no label, the first is {first!r}",
            remedy="Give a label for every node of the graph",
        )
    return np.asarray(labels[order[at]])
