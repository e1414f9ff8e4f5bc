"""Graphs, attribute tables and labels from files and to files.

One reader per format, chosen by the suffix; one typed error per fault, with the file and the line.
Nothing here runs code from a file: no pickle, no XML entities.

Edge lists (``.csv``, ``.tsv``, ``.txt``, ``.parquet``)
    One edge a line: source, target and, if there is one, weight. A header may name the columns
    (``source``, ``target``, ``weight``; other columns are ignored; well-known pairs such as
    ``user,item`` are a header too); without one they are taken in this order. Both columns name
    nodes of one kind, unless the table is read as bipartite. ``.txt`` is separated by white space,
    and its lines that start with ``#`` or ``%`` are comments. Text is UTF-8.
Ids
    Integers where every id of the file is written as a plain integer, else strings: ``007`` stays
    ``"007"``. When two files disagree, both are compared as strings.
``.npz``
    ``edge_index`` of shape (2, E) with ``edge_weight`` if there is one, or the CSR parts
    ``adj_data``, ``adj_indices``, ``adj_indptr``, ``adj_shape``. Optional: ``x`` of shape (n, d)
    or ``attr_data``, ``attr_indices``, ``attr_indptr``, ``attr_shape``; ``y`` or ``labels``;
    ``ids`` or ``node_names``; ``attribute_names``; ``directed``.
``.mtx``
    Matrix Market; a matrix that is not square holds the links of a bipartite graph.
a folder
    A store, whose arrays stay on disk, memory-mapped; :func:`convert` and :func:`write_store` make
    one.
``.graphml``, ``.gml``
    Read by networkx; numeric node attributes become attributes, except ``y``, the class.
"""

from __future__ import annotations

from pathlib import Path

from .._errors import ParameterError
from .._graph import Graph
from ._assemble import assemble, edges_of
from ._bipartite import check_directed, two_sided, warn_if_two_kinds
from ._edge_list import text_edges, write_edge_list
from ._files import PathLike, atomic_write, existing_file
from ._labels import align_labels, read_labels, write_labels
from ._mtx import mtx_graph
from ._networkx import networkx_graph
from ._node_table import read_table
from ._npz import npz_graph, write_npz
from ._parquet import parquet_edges
from ._text import DELIMITERS

__all__ = [
    "align_labels",
    "atomic_write",
    "convert",
    "read_graph",
    "read_labels",
    "write_edge_list",
    "write_labels",
    "write_npz",
    "write_store",
]

_GRAPH_SUFFIXES = (".csv", ".tsv", ".txt", ".parquet", ".graphml", ".gml", ".mtx", ".npz")


def read_graph(
    path: PathLike,
    *,
    features: PathLike | None = None,
    label: str | None = None,
    directed: bool | None = None,
    bipartite: bool = False,
) -> Graph:
    r"""Graph from a file, with attributes from a second one if wanted.

    Parameters
    ----------
    path : path
        Edge list (.csv, .tsv, .txt, .parquet), .graphml, .gml, .mtx or .npz; or the folder of a
        store (:func:`hencler.io.convert`), which stays on disk, memory-mapped.
    features : path, optional
        Attributes of the nodes; they replace those of the graph file. As .csv, .tsv or .parquet:
        one row per node, the id in the column ``id`` or ``node``, else in the first one, and
        numbers in all others. The table says which nodes there are and in which order: those
        without an edge are isolated, an edge to any other node is an error. As .npy (left on disk,
        memory-mapped) or .npz (a SciPy sparse matrix, ``x``, or ``attr_*``; ``ids`` if wanted)
        without ids: row i belongs to node i where the ids are integers, and to the i-th id in
        sorted order where they are strings.
    label : str, optional
        Column of `features`, node attribute or array of the graph file that holds the classes,
        for evaluation only. It is never an attribute.
    directed : bool, optional
        As for :class:`Graph`: by default, symmetric edges are an undirected graph.
    bipartite : bool
        The two columns of an edge list name nodes of two kinds, user 1 and item 1, that are
        different nodes. Their ids begin with the heads of their columns, ``user:1`` and
        ``item:1`` (``row:1`` and ``col:1`` where there are none), also in `features` if it has
        ids. Every link goes from the first column to the second, and nodes of the first come
        before those of the second. A square .mtx is taken as the links of such a graph, too.

    Returns
    -------
    Graph
        Without `features` its nodes are those of the edges, sorted.

    Examples
    --------
    >>> from pathlib import Path
    >>> from hencler import read_graph
    >>> _ = Path("edges.csv").write_text("source,target,weight\nfox,mouse,2\nowl,mouse,1\n")
    >>> read_graph("edges.csv")
    Graph(edges: 3 nodes, 2 directed edges, no attributes)

    A table of the nodes says which there are, in which order, and what is known of them:

    >>> _ = Path("nodes.csv").write_text("id,kg,legs\nowl,2,2\nfox,6,4\nmouse,0.02,4\nbat,0.03,2\n")
    >>> graph = read_graph("edges.csv", features="nodes.csv")
    >>> graph.ids.tolist(), graph.attribute_names
    (['owl', 'fox', 'mouse', 'bat'], ('kg', 'legs'))

    User 1 and item 1 are not the same:

    >>> _ = Path("bought.csv").write_text("user,item\n1,1\n1,2\n2,2\n")
    >>> read_graph("bought.csv", bipartite=True).ids.tolist()
    ['user:1', 'user:2', 'item:1', 'item:2']
    """
    if bipartite:
        _check_bipartite(Path(path), directed)
        directed = True
    if Path(path).is_dir():
        return _stored_graph(Path(path), features, label, directed)
    file = existing_file(path, _GRAPH_SUFFIXES, "a graph")
    suffix = file.suffix.lower()
    if suffix in DELIMITERS or suffix == ".parquet":
        edges = parquet_edges(file) if suffix == ".parquet" else text_edges(file)
        if bipartite:
            edges = two_sided(edges)
        else:
            warn_if_two_kinds(edges, file)
        if features is None:
            if label is not None:
                raise ParameterError(
                    f"label={label!r} was given, but an edge list has no node columns",
                    place=str(file),
                    remedy="Give the table of nodes as features, too",
                )
            return assemble(edges, None, directed, file)
        return assemble(edges, read_table(features, label), directed, file)
    in_graph = label if features is None else None
    if suffix in (".graphml", ".gml"):
        graph = networkx_graph(file, in_graph)
    elif suffix == ".mtx":
        graph = mtx_graph(file, in_graph, bipartite)
    else:
        graph = npz_graph(file, in_graph)
    if features is not None:
        table = read_table(features, label)
        # Rows of a matrix are in order, also where their ids are words.
        edges = edges_of(graph, file, ordered=suffix == ".mtx")
        return assemble(edges, table, _still(graph, directed), file)
    return graph if directed is None else _turned(graph, directed)


def convert(
    edges: PathLike,
    out: PathLike,
    *,
    features: PathLike | None = None,
    label: str | None = None,
    directed: bool | None = None,
    bipartite: bool = False,
    dtype: str = "float32",
) -> Path:
    r"""Stream an edge list, and attributes, larger than memory into a store.

    Parameters
    ----------
    edges : path
        .csv, .tsv, .txt or .parquet as for :func:`read_graph`, or .npy: integers of shape (E, 2) or
        (2, E).
    out : path
        Folder to make. It appears when it is complete.
    features, label, directed, bipartite : as for :func:`read_graph`
    dtype : {"float32", "float16"}
        Of the attributes in the store.

    Returns
    -------
    path of the store, which :func:`read_graph` opens

    Examples
    --------
    >>> from pathlib import Path
    >>> from hencler import read_graph
    >>> from hencler.io import convert
    >>> _ = Path("edges.csv").write_text("source,target\nfox,mouse\nowl,mouse\n")
    >>> store = convert("edges.csv", "web")
    >>> read_graph(store)
    Graph(edges: 3 nodes, 2 directed edges, no attributes)
    """
    from .._convert import convert

    return convert(
        edges,
        out,
        features=features,
        label=label,
        directed=directed,
        bipartite=bipartite,
        dtype=dtype,
    )


def write_store(graph: Graph, folder: PathLike) -> None:
    """Write a graph that is in memory as a store, a folder that :func:`read_graph` opens.

    Examples
    --------
    >>> from hencler import make_heterophilous_graph, read_graph
    >>> from hencler.io import write_store
    >>> write_store(make_heterophilous_graph(60, 3, random_state=0), "graph")
    >>> type(read_graph("graph").x).__name__
    'memmap'
    """
    from .._store import write_store

    write_store(graph, folder)


def _check_bipartite(path: Path, directed: bool | None) -> None:
    check_directed(directed)
    if path.is_dir() or path.suffix.lower() in (".graphml", ".gml", ".npz"):
        raise ParameterError(
            "only a table of links can be read as bipartite; this has one set of nodes",
            place=str(path),
            remedy="Leave bipartite out",
        )


def _stored_graph(
    folder: Path, features: PathLike | None, label: str | None, directed: bool | None
) -> Graph:
    from .._store import Store

    if features is not None or label is not None:
        raise ParameterError(
            "features or a label were given beside a store, which has its own",
            place=str(folder),
            remedy="Leave them out, or convert the edges again with other features",
        )
    graph = Store.open(folder).graph()
    return graph if directed is None else _turned(graph, directed)


def _still(graph: Graph, directed: bool | None) -> bool:
    return graph.directed if directed is None else directed


def _turned(graph: Graph, directed: bool) -> Graph:
    """The same graph, taken as a directed or an undirected one."""
    if directed == graph.directed:
        return graph
    if not directed:
        return graph.to_undirected()
    return Graph(
        graph.adjacency,
        graph.x,
        ids=graph.ids if graph.has_ids else None,
        directed=True,
        y=graph.y,
        attribute_names=graph.attribute_names,
        name=graph.name,
    )
