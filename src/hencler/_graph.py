"""The graph as every later stage sees it, and all checks of what a user hands in.

A :class:`Graph` is checked once, when it is made; no later stage checks it again.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import Any, TypeAlias

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from ._errors import AttributeDataError, GraphError
from ._optional import optional_import

__all__ = [
    "MANY_NODES",
    "SAMPLED_NODES",
    "Attributes",
    "Graph",
    "as_graph",
    "check_attributes",
    "check_ids",
    "edge_blocks",
    "row_blocks",
    "sampled_nodes",
]

Attributes: TypeAlias = Any
"""Array, memory map or CSR matrix of shape (n, d)."""

MANY_NODES = 10_000
"""A graph is large above this: what only steadies an answer is done less often, singular vectors
are as exact as it matters, and threads pay."""

SAMPLED_NODES = 50_000
"""With more nodes, what needs no exact answer (KMeans, evidence) sees a sample of so many."""

_BLOCK_ENTRIES = 1 << 24
"""Entries looked at in one go, so that memory-mapped attributes never load as a whole."""


class Graph:
    """Nodes with ids, weighted edges, attributes, and labels that only evaluation may see.

    Parameters
    ----------
    edges : sparse matrix or array of shape (n, n)
        Entry (u, v) > 0 is the weight of the edge from u to v. Entries given twice are
        duplicate edges: their weights add up. Zeros are no edges. Self-loops are kept.
    x : array or sparse matrix of shape (n, d), optional
        Node attributes. A :class:`numpy.memmap` stays on disk. Without attributes the
        links themselves are what the nodes are clustered by.
    ids : sequence of n unique str or int, optional
        Names of the nodes; 0 ... n-1 when absent.
    directed : bool, optional
        ``False`` makes ``edges`` symmetric; where both directions are given the larger weight
        counts. By default a symmetric matrix is an undirected graph, any other a directed one.
    y : sequence of length n, optional
        Classes, for evaluation after the fact. No ``fit`` reads them.
    attribute_names : sequence of d str, optional
    name : str, optional

    Notes
    -----
    Isolated nodes, disconnected parts, no edges at all and no attributes at all are fine;
    a graph with neither edges nor attributes is not, since nothing tells its nodes apart.

    Examples
    --------
    >>> import numpy as np
    >>> from hencler import Graph
    >>> Graph(np.array([[0, 1], [0, 0]]), x=np.eye(2), ids=["a", "b"])
    Graph(2 nodes, 1 directed edges, 2 dense attributes)
    """

    __slots__ = (
        "_ids",
        "_self_loops",
        "adjacency",
        "attribute_names",
        "directed",
        "name",
        "store",
        "x",
        "y",
    )

    adjacency: sp.csr_array[Any]
    x: Attributes | None
    directed: bool
    y: NDArray[Any] | None
    attribute_names: tuple[str, ...] | None
    name: str | None
    _self_loops: int | None
    store: str | None
    """Folder whose memory maps this graph is made of, if it is."""

    def __init__(
        self,
        edges: Any,
        x: Any = None,
        *,
        ids: Sequence[Any] | NDArray[Any] | None = None,
        directed: bool | None = None,
        y: ArrayLike | None = None,
        attribute_names: Sequence[str] | None = None,
        name: str | None = None,
    ) -> None:
        self.adjacency, self.directed = _check_edges(edges, directed)
        n = self.adjacency.shape[0]
        self.x = None if x is None else check_attributes(x, n)
        self._ids = None if ids is None else check_ids(ids, n)
        self.y = None if y is None else _check_length(np.asarray(y), n, "y")
        self.attribute_names = None
        if attribute_names is not None:
            if len(attribute_names) != self.n_attributes:
                raise AttributeDataError(
                    f"{len(attribute_names)} attribute names for {self.n_attributes} columns",
                    remedy="Give one name per attribute column",
                )
            self.attribute_names = tuple(map(str, attribute_names))
        self.name = name
        self.store = self._self_loops = None

    @classmethod
    def _from_parts(cls, *, n_self_loops: int, source: str, **parts: Any) -> Graph:
        """A graph from the checked parts of a store: no further check, no copy."""
        new = object.__new__(cls)
        for slot, value in {**parts, "store": source, "_self_loops": n_self_loops}.items():
            setattr(new, slot, value)
        return new

    # --- what it holds -----------------------------------------------------------------

    @property
    def ids(self) -> NDArray[Any]:
        """Node ids, shape (n,)."""
        return np.arange(self.n_nodes) if self._ids is None else self._ids

    @property
    def has_ids(self) -> bool:
        """Whether the nodes were named by the user."""
        return self._ids is not None

    @property
    def n_nodes(self) -> int:
        return int(self.adjacency.shape[0])

    @property
    def n_edges(self) -> int:
        """Number of distinct edges; an undirected edge counts once."""
        nnz = int(self.adjacency.nnz)
        return nnz if self.directed else (nnz + self.n_self_loops) // 2

    @property
    def n_attributes(self) -> int:
        return 0 if self.x is None else int(self.x.shape[1])

    @property
    def n_self_loops(self) -> int:
        if self._self_loops is not None:
            return self._self_loops
        return int(np.count_nonzero(self.adjacency.diagonal()))

    @property
    def n_isolated(self) -> int:
        """Nodes without any edge to or from another node."""
        touched = np.zeros(self.n_nodes, dtype=bool)
        for rows, source, target in edge_blocks(self.adjacency):
            off = source != target
            touched[target[off]] = True
            touched[rows] |= np.bincount(source[off] - rows.start, minlength=len(touched[rows])) > 0
        return int(self.n_nodes - touched.sum())

    def __repr__(self) -> str:
        kind = "directed" if self.directed else "undirected"
        if self.x is None:
            attributes = "no attributes"
        else:
            attributes = f"{self.n_attributes} {'sparse' if sp.issparse(self.x) else 'dense'}"
            attributes += " attributes"
        name = f"{self.name}: " if self.name else ""
        return f"Graph({name}{self.n_nodes} nodes, {self.n_edges} {kind} edges, {attributes})"

    # --- other graphs made from it -----------------------------------------------------

    def without_labels(self) -> Graph:
        """The same graph, sharing its arrays, with ``y`` gone: what every ``fit`` works on."""
        return self._replace(y=None)

    def to_undirected(self) -> Graph:
        """The symmetrised graph, weight of {u, v} = the larger of the two directions.

        Examples
        --------
        >>> from hencler import Graph
        >>> Graph([[0, 2], [1, 0]]).to_undirected().adjacency.toarray().tolist()
        [[0.0, 2.0], [2.0, 0.0]]
        """
        if not self.directed:
            return self
        return self._replace(adjacency=_symmetrised(self.adjacency), directed=False, store=None)

    def with_links(self, adjacency: Any) -> Graph:
        """The same nodes with other links, which are taken as they are: CSR (n, n)."""
        return self._replace(adjacency=adjacency, store=None, _self_loops=None)

    def subgraph(self, nodes: ArrayLike) -> Graph:
        """The graph induced by `nodes` (positions or a mask), in the order given.

        Examples
        --------
        >>> from hencler import Graph
        >>> web = Graph.from_edge_list(["fox", "owl"], ["mouse", "mouse"])
        >>> web.subgraph(web.ids != "owl").ids.tolist()
        ['fox', 'mouse']
        """
        index = np.asarray(nodes)
        index = np.flatnonzero(index) if index.dtype == bool else index
        part = self.adjacency[index][:, index] if self.store is None else _induced(self, index)
        part = sp.csr_array(part)
        part.sort_indices()  # which choosing columns in another order does not do
        return self._replace(
            adjacency=part,
            x=None if self.x is None else self.x[index],
            _ids=self.ids[index],
            y=None if self.y is None else self.y[index],
            store=None,
            _self_loops=None,
        )

    def _replace(self, **changes: Any) -> Graph:
        # Parts of a checked graph need no second check, and must not be copied.
        new = object.__new__(type(self))
        for slot in self.__slots__:
            setattr(new, slot, changes.get(slot, getattr(self, slot)))
        return new

    # --- converters ----------------------------------------------------------------------

    @classmethod
    def from_edge_list(
        cls,
        sources: ArrayLike,
        targets: ArrayLike,
        weights: ArrayLike | None = None,
        *,
        nodes: Sequence[Any] | NDArray[Any] | None = None,
        **kwargs: Any,
    ) -> Graph:
        """Graph from pairs of ids.

        Parameters
        ----------
        sources, targets : sequences of E ids
        weights : sequence of E positive numbers, optional
        nodes : sequence of ids, optional
            All nodes, in the wanted order; isolated ones must be here. By default the nodes
            are those that occur in the edges, sorted.
        **kwargs
            As for :class:`Graph`.

        Examples
        --------
        >>> from hencler import Graph
        >>> web = Graph.from_edge_list(["fox", "owl"], ["mouse", "mouse"], [2, 1])
        >>> web.ids.tolist(), web.adjacency.toarray().tolist()
        (['fox', 'mouse', 'owl'], [[0.0, 2.0, 0.0], [0.0, 0.0, 0.0], [0.0, 1.0, 0.0]])
        """
        source, target = _id_array(sources), _id_array(targets)
        if source.shape != target.shape or source.ndim != 1:
            raise GraphError(
                f"{source.size} sources for {target.size} targets",
                remedy="Give one source and one target per edge",
            )
        if (source.dtype.kind == "U") != (target.dtype.kind == "U") and source.size:
            source, target = source.astype(str), target.astype(str)
        if nodes is None:
            ids = np.unique(np.concatenate([source, target]))
        else:
            ids = check_ids(nodes, len(nodes))
            if (ids.dtype.kind == "U") != (source.dtype.kind == "U") and source.size:
                ids, source, target = ids.astype(str), source.astype(str), target.astype(str)
        rows, cols = _positions(source, ids, "source"), _positions(target, ids, "target")
        w = np.ones(source.size) if weights is None else np.asarray(weights, dtype=np.float64)
        _check_length(w, source.size, "weights")
        # Negative weights must be caught before duplicates are added up.
        _check_weights(w, rows, cols)
        n = ids.size
        return cls(sp.coo_array((w, (rows, cols)), shape=(n, n)), ids=ids, **kwargs)

    @classmethod
    def from_biadjacency(
        cls,
        links: Any,
        *,
        row_ids: Sequence[Any] | None = None,
        col_ids: Sequence[Any] | None = None,
        **kwargs: Any,
    ) -> Graph:
        """Bipartite graph of n + m nodes from links of shape (n, m), rows before columns.

        Every edge goes from a row to a column, so that the graph is directed and the two
        sides meet in ``e`` (rows as sources) and ``r`` (columns as targets).

        Examples
        --------
        >>> from hencler import Graph
        >>> bought = [[1, 1, 0], [0, 0, 2]]
        >>> Graph.from_biadjacency(bought, row_ids=["Ann", "Bob"], col_ids=["tea", "milk", "nails"])
        Graph(5 nodes, 3 directed edges, no attributes)
        """
        links = sp.coo_array(links)
        n, m = links.shape
        rows = [f"row:{i}" for i in range(n)] if row_ids is None else [str(i) for i in row_ids]
        cols = [f"col:{j}" for j in range(m)] if col_ids is None else [str(j) for j in col_ids]
        _check_weights(links.data, links.row, links.col)
        shifted = (links.data, (links.row, links.col + n))
        edges = sp.coo_array(shifted, shape=(n + m, n + m))
        return cls(edges, ids=rows + cols, directed=True, **kwargs)

    @classmethod
    def from_networkx(
        cls,
        graph: Any,
        *,
        attributes: Sequence[str] | None = None,
        weight: str | None = "weight",
        label: str = "y",
        name: str | None = None,
    ) -> Graph:
        """Graph from a networkx graph; parallel edges add up.

        Parameters
        ----------
        attributes : names of node attributes, optional
            Numbers, or vectors of one length. By default every numeric attribute except `label`
            and ``y``, where :meth:`to_networkx` puts the classes.
        weight : name of the edge weight; edges without it weigh 1.
        label : name of the node attribute that holds the class, for evaluation only.
            ``y`` may be absent.

        Examples
        --------
        >>> import networkx as nx
        >>> from hencler import Graph
        >>> links = nx.DiGraph([("fox", "mouse"), ("owl", "mouse")])
        >>> nx.set_node_attributes(links, {"fox": 6.0, "owl": 2.0, "mouse": 0.02}, "kg")
        >>> Graph.from_networkx(links)
        Graph(3 nodes, 2 directed edges, 1 dense attributes)
        """
        nodes = list(graph.nodes)
        index = {node: i for i, node in enumerate(nodes)}
        edges = [
            (index[u], index[v], 1.0 if weight is None else _edge_weight(u, v, data, weight))
            for u, v, data in graph.edges(data=True)
        ]
        table = np.array(edges, dtype=np.float64).reshape(-1, 3)
        rows, cols = table[:, 0].astype(np.int64), table[:, 1].astype(np.int64)
        _check_weights(table[:, 2], rows, cols)
        matrix = sp.coo_array((table[:, 2], (rows, cols)), shape=(len(nodes), len(nodes)))
        columns = dict(graph.nodes(data=True))
        x, names = _node_attributes(columns, attributes, label)
        return cls(
            matrix,
            x,
            ids=[node if isinstance(node, int | np.integer | str) else str(node) for node in nodes],
            directed=graph.is_directed(),
            y=_node_labels(columns, label),
            attribute_names=names,
            name=name or (graph.name or None),
        )

    def to_networkx(self) -> Any:
        """networkx graph with node attribute ``x`` (dense vector) and edge ``weight``."""
        nx = optional_import("networkx", "to_networkx")
        out = nx.DiGraph() if self.directed else nx.Graph()
        ids = self.ids.tolist()
        for i, node in enumerate(ids):
            data: dict[str, Any] = {}
            if self.x is not None:
                row = self.x[[i]]
                data["x"] = (row.toarray() if sp.issparse(row) else np.asarray(row))[0]
            if self.y is not None:
                data["y"] = self.y[i].item() if hasattr(self.y[i], "item") else self.y[i]
            out.add_node(node, **data)
        edges = self.adjacency.tocoo()
        for u, v, w in zip(edges.row.tolist(), edges.col.tolist(), edges.data.tolist()):
            if self.directed or u <= v:
                out.add_edge(ids[u], ids[v], weight=w)
        return out

    @classmethod
    def from_pyg(cls, data: Any, *, name: str | None = None) -> Graph:
        """Graph from a PyG ``Data``: ``edge_index``, ``edge_weight`` (or 1-D ``edge_attr``),
        ``x`` and ``y``."""
        if getattr(data, "edge_index", None) is None:
            raise GraphError(
                "the PyG data has no edge_index", remedy="Set data.edge_index, shape (2, E)"
            )
        n = int(data.num_nodes)
        index = data.edge_index.detach().cpu().numpy()
        weights = getattr(data, "edge_weight", None)
        if weights is None:
            attr = getattr(data, "edge_attr", None)
            if attr is not None and (attr.dim() == 1 or attr.shape[1:] == (1,)):
                weights = attr.reshape(-1)
        w = np.ones(index.shape[1]) if weights is None else weights.detach().cpu().numpy()
        _check_range(index, n)
        _check_weights(w, index[0], index[1])
        edges = sp.coo_array((w.astype(np.float64), (index[0], index[1])), shape=(n, n))
        x = getattr(data, "x", None)
        if x is not None:
            x = x.to_dense() if x.layout is not _strided() else x
            x = x.detach().cpu().numpy()
        y = getattr(data, "y", None)
        y = None if y is None else y.detach().cpu().numpy()
        y = y.reshape(-1) if y is not None and y.size == n else None
        return cls(edges, x, y=y, name=name)

    def to_pyg(self) -> Any:
        """PyG ``Data`` with ``x`` (dense float), ``edge_index``, ``edge_weight`` and ``y``."""
        import torch

        pyg = optional_import("torch_geometric.data", "to_pyg")
        edges = self.adjacency.tocoo()
        index = torch.from_numpy(np.stack([edges.row, edges.col]).astype(np.int64))
        data = pyg.Data(edge_index=index, num_nodes=self.n_nodes)
        data.edge_weight = torch.from_numpy(edges.data.astype(np.float32))
        if self.x is not None:
            dense = self.x.toarray() if sp.issparse(self.x) else np.asarray(self.x)
            data.x = torch.from_numpy(dense.astype(np.float32))
        if self.y is not None:
            _, codes = np.unique(self.y, return_inverse=True)
            data.y = torch.from_numpy(codes.astype(np.int64))
        return data


def _induced(graph: Graph, index: NDArray[Any]) -> Any:
    """Links among some nodes of a memory-mapped graph, of which only their rows are read."""
    links, m = graph.adjacency, len(index)
    first, count = links.indptr[index], np.diff(links.indptr)[index]
    row = np.repeat(np.arange(m), count)
    at = np.arange(len(row)) + np.repeat(first - (np.cumsum(count) - count), count)
    new = np.full(graph.n_nodes, -1, dtype=np.int64)
    new[index] = np.arange(m)
    column = new[links.indices[at]]
    inside = column >= 0
    parts = (links.data[at[inside]], (row[inside], column[inside]))
    return sp.coo_array(parts, shape=(m, m)).tocsr()


def as_graph(x: Any, edges: Any = None) -> Graph:
    """What `fit` accepts, made a Graph.

    Parameters
    ----------
    x : Graph, PyG ``Data``, networkx graph, or attributes of shape (n, d)
    edges : matrix of shape (n, n) or integer array of shape (2, E), optional
        Only beside attributes; without it the graph has no edges.
    """
    if isinstance(x, str | os.PathLike):
        raise GraphError(
            f"{os.fspath(x)!r} is the name of a file, not a graph",
            remedy="Read it first: read_graph(...), or load_dataset(...) for a benchmark graph",
        )
    if isinstance(x, Graph):
        graph = x
    elif type(x).__module__.startswith("networkx"):
        graph = Graph.from_networkx(x)
    elif hasattr(x, "edge_index") and hasattr(x, "num_nodes"):
        graph = Graph.from_pyg(x)
    else:
        n = x.shape[0] if hasattr(x, "shape") else len(x)
        return Graph(_edges_beside(n, edges), x)
    if edges is not None:
        raise GraphError(
            f"edges were given beside a {type(x).__name__}, which has its own",
            remedy="Leave edges out, or pass the attributes alone",
        )
    return graph


def row_blocks(n: int, width: int) -> Iterator[slice]:
    """Slices over n rows of `width` entries, each of bounded size."""
    step = max(1, _BLOCK_ENTRIES // max(1, width))
    for start in range(0, n, step):
        yield slice(start, min(n, start + step))


def sampled_nodes(n: int) -> NDArray[np.int64]:
    """All n nodes, or :data:`SAMPLED_NODES` of them spread evenly; the same on every call."""
    return np.linspace(0, n, min(n, SAMPLED_NODES), endpoint=False).astype(np.int64)


def edge_blocks(
    adjacency: Any, entries: int = _BLOCK_ENTRIES // 4
) -> Iterator[tuple[slice, NDArray[Any], NDArray[Any]]]:
    """Rows, sources and targets of a CSR matrix, rows with about so many entries at a time."""
    indptr, n, lo = adjacency.indptr, int(adjacency.shape[0]), 0
    while lo < n:
        hi = int(np.searchsorted(indptr, int(indptr[lo]) + entries, side="right")) - 1
        hi = min(max(hi, lo + 1), n, lo + entries)
        source = np.repeat(np.arange(lo, hi), np.diff(indptr[lo : hi + 1]))
        yield slice(lo, hi), source, adjacency.indices[int(indptr[lo]) : int(indptr[hi])]
        lo = hi


# --- checks --------------------------------------------------------------------------------


def _edges_beside(n: int, edges: Any) -> Any:
    if edges is None:
        return sp.csr_array((n, n), dtype=np.float64)
    if not sp.issparse(edges):
        edges = np.asarray(edges)
        if edges.shape != (n, n) and edges.ndim == 2 and edges.shape[0] == 2:
            _check_range(edges, n)
            ones = np.ones(edges.shape[1])
            return sp.coo_array((ones, (edges[0], edges[1])), shape=(n, n))
    if edges.shape != (n, n):
        raise GraphError(
            f"edges have shape {edges.shape} for {n} nodes",
            remedy=f"Give an ({n}, {n}) matrix or an integer array of shape (2, E)",
        )
    return edges


def _check_edges(edges: Any, directed: bool | None) -> tuple[sp.csr_array[Any], bool]:
    if not sp.issparse(edges):
        edges = np.asarray(edges)
        if edges.dtype.kind not in "buif":
            raise GraphError(
                f"edges of type {edges.dtype} are not numbers",
                remedy="Use Graph.from_edge_list for pairs of ids",
            )
    if edges.ndim != 2 or edges.shape[0] != edges.shape[1]:
        raise GraphError(
            f"edges have shape {edges.shape}",
            remedy="Give a square matrix, or use Graph.from_edge_list for pairs of ids",
        )
    if edges.shape[0] == 0:
        raise GraphError("the graph has no nodes", remedy="Give at least one node")
    if sp.issparse(edges) and edges.dtype.kind not in "buif":
        raise GraphError(f"edge weights of type {edges.dtype} are not real numbers")
    if sp.issparse(edges) and edges.format != "csr":
        # Duplicates of a COO matrix are added up on conversion: look at the parts first.
        coo = edges.tocoo()
        _check_weights(coo.data, coo.row, coo.col)
    matrix = sp.csr_array(edges)
    if matrix.dtype.kind != "f":
        matrix = matrix.astype(np.float64)
    coo = matrix.tocoo()
    _check_weights(coo.data, coo.row, coo.col)
    if not matrix.has_canonical_format:
        matrix = matrix.copy()
        matrix.sum_duplicates()
    if np.any(matrix.data == 0):
        matrix = matrix.copy()
        matrix.eliminate_zeros()
    with np.errstate(over="ignore"):
        total = matrix.data.sum()
    if not np.isfinite(total):
        raise GraphError(
            f"the weights add up to more than a {matrix.dtype} can hold",
            remedy="Divide all weights by the largest",
        )
    if directed is None:
        directed = (matrix != matrix.T).nnz > 0
    elif not directed:
        matrix = _symmetrised(matrix)
    return matrix, bool(directed)


def _symmetrised(matrix: sp.csr_array[Any]) -> sp.csr_array[Any]:
    return sp.csr_array(matrix.maximum(matrix.T))


def _check_weights(weights: Any, rows: Any, cols: Any) -> None:
    values = np.asarray(weights)
    bad = ~np.isfinite(values) | (values < 0) if values.dtype.kind == "f" else values < 0
    if np.any(bad):
        i = int(np.flatnonzero(bad)[0])
        raise GraphError(
            f"the weight is {values[i]}",
            place=f"edge number {i} ({rows[i]} -> {cols[i]})",
            remedy="Weights must be finite and not negative",
        )


def _check_range(index: NDArray[Any], n: int) -> None:
    if index.dtype.kind not in "iu":
        raise GraphError(
            f"node positions of type {index.dtype}", remedy="Give integers from 0 to n - 1"
        )
    bad = (index < 0) | (index >= n)
    if np.any(bad):
        side, i = (int(k[0]) for k in np.nonzero(bad))
        raise GraphError(
            f"node {index[side, i]} does not exist, there are {n} nodes",
            place=f"edge number {i}",
            remedy="Number the nodes from 0 to n - 1",
        )


def check_attributes(x: Any, n: int) -> Attributes:
    """Attributes as a float array, a float CSR matrix, or a memory map left on disk."""
    if sp.issparse(x):
        out: Any = sp.csr_array(x)
        values = out.data
    else:
        out = x if isinstance(x, np.ndarray) else np.asarray(x)
        values = out
    if out.ndim != 2:
        raise AttributeDataError(
            f"the attributes have {out.ndim} dimension(s)", remedy="Give an (n, d) table"
        )
    if out.shape[0] != n:
        raise AttributeDataError(
            f"{out.shape[0]} rows of attributes for {n} nodes", remedy="Give one row per node"
        )
    if out.shape[1] == 0:
        raise AttributeDataError(
            "the attributes have no column", remedy="Leave x out for a graph without attributes"
        )
    if values.dtype.kind not in "buif":
        raise AttributeDataError(
            f"attributes of type {values.dtype} are not real numbers",
            remedy="Encode text columns as numbers first",
        )
    if sp.issparse(out) and (not out.has_canonical_format or not out.data.all()):
        # Stored zeros and entries given twice must not count as attributes of their own.
        out = out.copy()
        out.sum_duplicates()
        out.eliminate_zeros()
    # torch knows no longer floats.
    usable = values.dtype.kind == "f" and values.dtype.itemsize <= 8
    if not usable and not isinstance(out, np.memmap):
        with np.errstate(over="ignore"):
            out = out.astype(np.float64)
    _check_finite(out)
    return out


def _check_finite(x: Any) -> None:
    if sp.issparse(x):
        bad = np.flatnonzero(~np.isfinite(x.data))
        if bad.size:
            row = int(np.searchsorted(x.indptr, bad[0], side="right")) - 1
            _raise_not_finite(row, int(x.indices[bad[0]]), x.data[bad[0]])
        return
    if x.dtype.kind != "f":
        return
    for rows in row_blocks(*x.shape):
        finite = np.isfinite(x[rows])
        if not finite.all():
            i, j = (int(k[0]) for k in np.nonzero(~finite))
            _raise_not_finite(rows.start + i, j, x[rows.start + i, j])


def _raise_not_finite(row: int, column: int, value: float) -> None:
    raise AttributeDataError(
        f"the attribute is {value}; NaN or infinity cannot be clustered",
        place=f"node {row}, column {column}",
        remedy="Fill the gaps, for example with the column mean, or drop the column",
    )


def _id_array(ids: Any) -> NDArray[Any]:
    array = np.asarray(ids)
    if array.size == 0:
        return array.astype(np.int64)
    if array.dtype.kind == "O":
        array = np.array([str(i) for i in array])
    if array.dtype.kind not in "iuU":
        raise GraphError(f"node ids of type {array.dtype}", remedy="Use strings or integers as ids")
    return array


def check_ids(ids: Any, n: int) -> NDArray[Any]:
    array = _check_length(_id_array(ids), n, "ids")
    values, counts = np.unique(array, return_counts=True)
    if values.size != n:
        raise GraphError(
            f"the node id {str(values[counts > 1][0])!r} occurs more than once",
            remedy="Give every node its own id",
        )
    return array


def _check_length(array: NDArray[Any], n: int, what: str) -> NDArray[Any]:
    if array.ndim != 1 or array.shape[0] != n:
        raise GraphError(f"{what} has shape {array.shape}", remedy=f"Give a sequence of length {n}")
    return array


def _positions(values: NDArray[Any], ids: NDArray[Any], what: str) -> NDArray[np.int64]:
    """Where each of `values` stands in `ids`."""
    order = np.argsort(ids, kind="stable")
    at = np.searchsorted(ids, values, sorter=order)
    found = at < ids.size
    found[found] = ids[order[at[found]]] == values[found]
    if not found.all():
        i = int(np.flatnonzero(~found)[0])
        raise GraphError(
            f"the {what} {str(values[i])!r} is not among the {ids.size} nodes",
            place=f"edge number {i}",
            remedy="Add the node to the table of nodes, or remove the edge",
        )
    return order[at].astype(np.int64)


def _strided() -> Any:
    import torch

    return torch.strided


def _edge_weight(u: Any, v: Any, data: dict[str, Any], weight: str) -> float:
    value = data.get(weight, 1.0)
    if np.ndim(value) or not _is_numeric(value):
        raise GraphError(
            f"the weight {value!r} is not a number",
            place=f"edge {u!r} -> {v!r}",
            remedy="Give every edge a number, or none",
        )
    return float(value)


def _node_labels(nodes: dict[Any, dict[str, Any]], label: str) -> NDArray[Any] | None:
    for node, data in nodes.items():
        if label not in data:
            if label == "y":
                return None
            raise GraphError(
                f"the label {label!r} is missing",
                place=f"node {node!r}",
                remedy="Give it to every node, or name another attribute as label",
            )
    return np.array([data[label] for data in nodes.values()])


def _node_attributes(
    nodes: dict[Any, dict[str, Any]], wanted: Sequence[str] | None, label: str
) -> tuple[NDArray[Any] | None, list[str] | None]:
    """Numeric node attributes of a networkx graph as columns, with their names."""
    first = next(iter(nodes.values()), {})
    if wanted is None:
        wanted = [k for k, v in first.items() if k not in (label, "y") and _is_numeric(v)]
    if not wanted:
        return None, None
    columns, names = [], []
    for key in wanted:
        rows = []
        for node, data in nodes.items():
            if key not in data or not _is_numeric(data[key]):
                raise AttributeDataError(
                    f"the attribute {key!r} is missing or not a number",
                    place=f"node {node!r}",
                    remedy="Give it to every node, or name the attributes to use",
                )
            rows.append(np.atleast_1d(np.asarray(data[key], dtype=np.float64)))
        if len({row.shape for row in rows}) > 1:
            raise AttributeDataError(
                f"the attribute {key!r} has vectors of different lengths",
                remedy="Give vectors of one length",
            )
        block = np.stack(rows)
        columns.append(block)
        width = block.shape[1]
        names += [key] if width == 1 else [f"{key}[{j}]" for j in range(width)]
    return np.concatenate(columns, axis=1), names


def _is_numeric(value: Any) -> bool:
    try:
        return np.asarray(value).dtype.kind in "buif"
    except ValueError:
        return False
