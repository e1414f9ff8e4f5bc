"""Edge lists as text."""

from __future__ import annotations

import warnings
from array import array
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from .._errors import FileFormatError, GraphError, HenclerWarning
from .._graph import Graph
from ._assemble import Edges, check_weights
from ._columns import (
    SIDES,
    SOURCE_NAMES,
    TARGET_NAMES,
    WEIGHT_NAMES,
    find_column,
    is_pair,
    side_names,
)
from ._files import PathLike
from ._ids import INTEGER, check_id, natural, plain_id
from ._text import (
    csv_writer,
    data_line,
    first_rows,
    is_number,
    parse_number,
    raise_one_field,
    read_with_arrow,
    text_rows,
)

__all__ = ["edge_layout", "text_edges", "write_edge_list"]


_NO_WEIGHTS = {"time", "timestamp", "date", "year", "month", "day", "id", "type", "index"}
"""Heads of numbers that nobody takes for weights."""


@dataclass
class _Layout:
    """Which columns of an edge list are meant; `header` is the header's line, 0 without one.

    `unused` are the heads of numbers that are taken for nothing where there is no weight.
    """

    header: int
    width: int
    source: int
    target: int
    weight: int | None
    weight_name: str
    sides: tuple[str, str]
    unused: list[str] = field(default_factory=list)


def text_edges(file: Path) -> Edges:
    layout = edge_layout(file)

    def locate(i: int) -> str:
        return f"{file}:{data_line(file, layout.header, i)}"

    parts = _arrow_edges(file, layout) or _scanned_edges(file, layout)
    names, source, target, weight = parts
    if not source.size:
        raise FileFormatError(
            "there is a header, but no edge", place=str(file), remedy="Give at least one edge"
        )
    check_weights(weight, layout.weight_name, locate)
    _warn_if_weight(layout, file)
    edges = Edges(natural(names), source, target, weight, locate, layout.sides)
    if not layout.header:
        _warn_if_header(edges, file)
    return edges


def edge_layout(file: Path) -> _Layout:
    (line, first), *rest = first_rows(file)
    width = len(first)
    if width < 2:
        raise_one_field(first[0], file, line, "an edge needs a source and a target")
    source, target = find_column(first, SOURCE_NAMES), find_column(first, TARGET_NAMES)
    weight = find_column(first, WEIGHT_NAMES)
    named = source is not None and target is not None
    header = named or is_pair(first) or (width > 2 and not is_number(first[2]))
    if not header and rest:
        # Words above integers are a header; words above words may well be an edge.
        header = not any(map(INTEGER.match, first[:2])) and all(map(INTEGER.match, rest[0][1][:2]))
    if not named:
        source, target = 0, 1
        if not header:
            weight = 2 if width > 2 else None
        elif weight in (0, 1):
            weight = None
    assert source is not None
    assert target is not None
    name = first[weight].strip() if header and weight is not None else "weight"
    sides = side_names([first[source], first[target]]) if header else SIDES
    layout = _Layout(line if header else 0, width, source, target, weight, name, sides)
    if header and rest and weight is None:
        layout.unused = [
            first[j].strip()
            for j, text in enumerate(rest[0][1])
            if j not in (source, target) and is_number(text)
        ]
    return layout


def _warn_if_weight(layout: _Layout, file: Path) -> None:
    """One column of numbers beside the ends of the links may well be meant as their weights."""
    if len(layout.unused) == 1 and not set(layout.unused[0].lower().split("_")) & _NO_WEIGHTS:
        warnings.warn(
            f"{file}: the column {layout.unused[0]!r} is not used and all links weigh the same; if "
            "it says how strong a link is, name it 'weight'",
            HenclerWarning,
            stacklevel=4,
        )


def _warn_if_header(edges: Edges, file: Path) -> None:
    """Words in the first line that no other line has may be the heads of the columns."""
    a, b = int(edges.source[0]), int(edges.target[0])
    ends = np.bincount(np.concatenate([edges.source, edges.target]), minlength=len(edges.ids))
    words = [str(edges.ids[at]) for at in (a, b)]
    rare = ends[a] == ends[b] == 1 and np.median(ends) > 1
    if rare and all(map(str.isidentifier, words)):
        warnings.warn(
            f"{file}: the first line was read as an edge from {words[0]!r} to {words[1]!r}, two "
            "nodes that no other line names; if it is a header, name its columns source,target",
            HenclerWarning,
            stacklevel=4,
        )


_Parsed: TypeAlias = tuple[
    list[str], NDArray[np.int64], NDArray[np.int64], NDArray[np.float64] | None
]


def _scanned_edges(file: Path, layout: _Layout) -> _Parsed:
    """The edges by the csv module: slower, but knows every line; holds each id only once."""
    index: dict[str, int] = {}
    source, target, weight = array("q"), array("q"), array("d")
    rows = text_rows(file)
    if layout.header:
        next(rows)
    for line, fields in rows:
        for column, out in ((layout.source, source), (layout.target, target)):
            text = fields[column]
            code = index.get(text)
            if code is None:
                check_id(text, f"{file}:{line}")
                code = index[text] = len(index)
            out.append(code)
        if layout.weight is not None:
            weight.append(parse_number(fields[layout.weight], file, line, layout.weight_name))
    return (
        list(index),
        np.array(source, dtype=np.int64),
        np.array(target, dtype=np.int64),
        None if layout.weight is None else np.array(weight, dtype=np.float64),
    )


def _arrow_edges(file: Path, layout: _Layout) -> _Parsed | None:
    """The edges by pyarrow, several times faster; None where only the slow way is sure."""
    types = {layout.source: "id", layout.target: "id"}
    if layout.weight is not None:
        types[layout.weight] = "number"
    table = read_with_arrow(file, layout.header, layout.width, types)
    if table is None:
        return None
    index: dict[str, int] = {}
    codes = []
    for column in (layout.source, layout.target):
        part = table.column(f"c{column}").combine_chunks()
        names = part.dictionary.to_pylist()
        if not all(map(plain_id, names)):
            return None
        local = np.array([index.setdefault(name, len(index)) for name in names], dtype=np.int64)
        codes.append(local[part.indices.to_numpy()] if names else np.zeros(0, dtype=np.int64))
    weight = None
    if layout.weight is not None:
        weight = table.column(f"c{layout.weight}").to_numpy()
    return list(index), codes[0], codes[1], weight


def write_edge_list(graph: Graph, path: PathLike, *, attributes: PathLike | None = None) -> None:
    """Edges as ``source,target,weight`` and, on request, the nodes as a table beside them.

    Parameters
    ----------
    path : .csv or .tsv
        An undirected edge is written in both directions, so that :func:`read_graph` finds an
        undirected graph again.
    attributes : .csv or .tsv, optional
        Table ``id``, attributes, and ``label`` where the graph has classes. Needed when some
        nodes have no edge, since an edge list does not know them.

    Examples
    --------
    >>> from pathlib import Path
    >>> from hencler import Graph
    >>> from hencler.io import write_edge_list
    >>> write_edge_list(Graph.from_edge_list(["fox", "owl"], ["mouse", "mouse"], [2, 1]), "web.csv")
    >>> print(Path("web.csv").read_text(), end="")
    source,target,weight
    fox,mouse,2.0
    owl,mouse,1.0
    """
    edges = graph.adjacency.tocoo()
    ids = graph.ids.tolist()
    lost = graph.n_nodes - len(np.union1d(edges.row, edges.col))
    if lost and attributes is None:
        raise GraphError(
            f"{lost} nodes without an edge would be lost",
            place=str(path),
            remedy="Name a file for the attributes, too, or use write_npz",
        )
    rows = zip(edges.row.tolist(), edges.col.tolist(), edges.data.tolist())
    with csv_writer(path, ids) as writer:
        writer.writerow(["source", "target", "weight"])
        writer.writerows((ids[u], ids[v], repr(w)) for u, v, w in rows)
    if attributes is not None:
        _write_table(graph, attributes, ids)


def _write_table(graph: Graph, path: PathLike, ids: list[Any]) -> None:
    names = list(graph.attribute_names or (f"x{j}" for j in range(graph.n_attributes)))
    labels = None if graph.y is None else graph.y.tolist()
    with csv_writer(path, ids + names + (labels or [])) as writer:
        writer.writerow(["id", *names] + ([] if labels is None else ["label"]))
        for i, node in enumerate(ids):
            row: Any = [] if graph.x is None else graph.x[[i]]
            row = row.toarray() if sp.issparse(row) else np.asarray(row)
            cells = [repr(float(v)) for v in row.ravel()]
            writer.writerow([node, *cells] + ([] if labels is None else [labels[i]]))
