""".graphml and .gml, read by networkx once they are known to be harmless."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from .._errors import FileFormatError
from .._graph import Graph
from .._optional import optional_import
from ._files import guarded, placed
from ._ids import check_id, natural

__all__ = ["networkx_graph"]


def networkx_graph(file: Path, label: str | None) -> Graph:
    nx = optional_import("networkx", f"reading {file.suffix}")
    what = "GraphML" if file.suffix.lower() == ".graphml" else "GML"
    with guarded(file, what), placed(file):
        if what == "GraphML":
            _check_xml(file)
            graph = nx.read_graphml(file, node_type=str)
        else:
            graph = _read_gml(nx, file)
        if not len(graph):
            raise FileFormatError("the graph has no nodes", place=str(file))
        nodes = list(graph)
        names = [str(node) for node in nodes]
        for name in names:
            check_id(name, str(file))
        graph = nx.relabel_nodes(graph, dict(zip(nodes, natural(names).tolist())))
        return Graph.from_networkx(graph, label=label or "y", name=file.stem)


def _read_gml(nx: Any, file: Path) -> Any:
    try:
        return nx.read_gml(file)
    except nx.NetworkXError as error:
        if "label" not in str(error):
            raise
        return nx.read_gml(file, label="id")


_DEEPEST_XML = 100


def _check_xml(file: Path) -> None:
    """Refuse what only an attack has: a document type, which can define entities that grow without
    bound, and elements nested beyond measure."""
    from xml.parsers import expat

    parser = expat.ParserCreate()

    def refuse(*_: Any) -> None:
        raise FileFormatError(
            "the file has a document type definition, which is not read",
            place=f"{file}:{parser.CurrentLineNumber}",
            remedy="Remove the <!DOCTYPE ...> part",
        )

    depth = 0

    def enter(*_: Any) -> None:
        nonlocal depth
        depth += 1
        if depth > _DEEPEST_XML:
            raise FileFormatError(
                f"more than {_DEEPEST_XML} elements inside each other",
                place=f"{file}:{parser.CurrentLineNumber}",
                remedy="GraphML needs less than ten",
            )

    def leave(*_: Any) -> None:
        nonlocal depth
        depth -= 1

    parser.StartDoctypeDeclHandler = refuse
    parser.StartElementHandler, parser.EndElementHandler = enter, leave
    with open(file, "rb") as handle:
        while chunk := handle.read(1 << 16):
            parser.Parse(chunk, False)
