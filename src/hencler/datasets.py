"""Benchmark graphs, read from their original files and counted, and a generator of test graphs.

The files lie below one folder in the layout of PyG: ``root`` if given, else ``$HENCLER_DATA``,
else the user's cache, which PyG's downloader fills. They are read here, not by PyG, so that the
folder may be read-only, sparse attributes stay sparse, and no code in a pickle can run.
"""

from __future__ import annotations

import hashlib
import io
import os
import pickle
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from ._errors import DatasetError, FileFormatError, HenclerError, ParameterError, did_you_mean
from ._graph import Attributes, Graph
from ._optional import optional_import

__all__ = ["DATASETS", "DatasetInfo", "list_datasets", "load_dataset", "make_heterophilous_graph"]


@dataclass(frozen=True)
class DatasetInfo:
    """What a benchmark graph must be.

    Attributes
    ----------
    name : str
    n_nodes : int
    n_links : int
        Directed edges as loaded: both directions of an undirected edge and duplicates count.
    n_undirected : int
        Unordered pairs of different, linked nodes.
    n_self_loops, n_classes, n_attributes : int
    directed : bool
    paper_name : str or None
        Short name in the paper's tables, None where the paper does not use the graph.
    pyg_class : str or None
        Class of ``torch_geometric.datasets`` that can download it.
    class_counts : tuple of int or None
        Sizes of the classes, where a wrong copy is known to be in circulation.

    Examples
    --------
    >>> from hencler.datasets import DATASETS
    >>> DATASETS["texas"].n_nodes, DATASETS["texas"].directed
    (183, True)
    """

    name: str
    n_nodes: int
    n_links: int
    n_undirected: int
    n_self_loops: int
    n_classes: int
    n_attributes: int
    directed: bool
    paper_name: str | None = None
    pyg_class: str | None = None
    class_counts: tuple[int, ...] | None = None


_INFOS = (
    DatasetInfo("texas", 183, 325, 279, 16, 5, 1703, True, "tex", "WebKB"),
    DatasetInfo("cornell", 183, 298, 277, 3, 5, 1703, True, "corn", "WebKB", (38, 16, 30, 82, 17)),
    DatasetInfo("wisconsin", 251, 515, 450, 16, 5, 1703, True, "wis", "WebKB"),
    DatasetInfo("chameleon", 2277, 62742, 31371, 0, 5, 2325, False, "cha", "WikipediaNetwork"),
    DatasetInfo("squirrel", 5201, 396706, 198353, 0, 5, 2089, False, "squi", "WikipediaNetwork"),
    DatasetInfo(
        "roman-empire", 22662, 65854, 32927, 0, 18, 300, False, "rom", "HeterophilousGraphDataset"
    ),
    DatasetInfo(
        "amazon-ratings", 24492, 186100, 93050, 0, 5, 300, False, None, "HeterophilousGraphDataset"
    ),
    DatasetInfo(
        "minesweeper", 10000, 78804, 39402, 0, 2, 7, False, "mine", "HeterophilousGraphDataset"
    ),
    DatasetInfo(
        "tolokers", 11758, 1038000, 519000, 0, 2, 10, False, "tol", "HeterophilousGraphDataset"
    ),
    DatasetInfo(
        "questions", 48921, 307080, 153540, 0, 2, 301, False, None, "HeterophilousGraphDataset"
    ),
    DatasetInfo("cora", 2708, 10556, 5278, 0, 7, 1433, False, "cora", "Planetoid"),
    DatasetInfo("citeseer", 3327, 9104, 4552, 0, 6, 3703, False, "cite", "Planetoid"),
    DatasetInfo("pubmed", 19717, 88648, 44324, 0, 3, 500, False, "pub", "Planetoid"),
    DatasetInfo("coauthor-cs", 18333, 163788, 81894, 0, 15, 6805, False, None, "Coauthor"),
    DatasetInfo("coauthor-physics", 34493, 495924, 247962, 0, 5, 8415, False, None, "Coauthor"),
    DatasetInfo("polblogs", 1490, 19090, 16715, 3, 2, 0, True),
    DatasetInfo("celegans", 300, 3638, 2932, 34, 4, 0, True),
    DatasetInfo("drosophila-left", 209, 7425, 5559, 0, 4, 0, True),
    DatasetInfo("drosophila-right", 213, 7536, 5625, 0, 4, 0, True),
    DatasetInfo("serengeti", 161, 592, 591, 1, 14, 0, True),
)

DATASETS: dict[str, DatasetInfo] = {info.name: info for info in _INFOS}
"""All benchmark graphs by name."""


def list_datasets() -> list[str]:
    """Names that :func:`load_dataset` knows.

    Examples
    --------
    >>> from hencler import list_datasets
    >>> list_datasets()[:3]
    ['texas', 'cornell', 'wisconsin']
    """
    return list(DATASETS)


def load_dataset(name: str, *, root: str | os.PathLike[str] | None = None) -> Graph:
    """Benchmark graph, checked against its known counts.

    Parameters
    ----------
    name : str
        One of :func:`list_datasets`.
    root : path, optional
        Folder of the files. By default ``$HENCLER_DATA``; where that is not set, the user's cache,
        filled from the network by PyG on first use.

    Returns
    -------
    Graph
        With integer classes ``y``, for evaluation only.

    Notes
    -----
    Chameleon and squirrel have the attributes and classes of Geom-GCN and the undirected edges of
    the original files, as in the paper. Coauthor attributes are made 0 or 1, as PyG does. Links
    that occur twice (65 in polblogs) weigh 2. Neural graphs are weighted by their synapses.

    Examples
    --------
    >>> from hencler import load_dataset
    >>> load_dataset("texas")  # doctest: +SKIP
    Graph(texas: 183 nodes, 325 directed edges, 1703 sparse attributes)

    A name that is not known is an error which says what may have been meant:

    >>> load_dataset("texsa")
    Traceback (most recent call last):
        ...
    hencler._errors.DatasetError: there is no data set 'texsa'. Did you mean 'texas'?
    """
    info = _info(name)
    folder, may_download = _root(root)
    files = _files(info.name)
    missing = [file for file in files if not (folder / file).is_file()]
    if missing and may_download and info.pyg_class is not None:
        _download(info, folder)
        missing = [file for file in files if not (folder / file).is_file()]
    if missing:
        raise DatasetError(
            f"the data set {info.name!r} is not there: no {missing[0]}",
            place=str(folder),
            remedy=_how_to_get(info, may_download),
        )
    with _guard(folder / files[0]):
        raw = _reader(info.name)(folder, info.name)
    _check_counts(info, raw, folder)
    edges = sp.coo_array(
        (
            np.ones(raw.edges.shape[1]) if raw.weight is None else raw.weight.astype(np.float64),
            (raw.edges[0], raw.edges[1]),
        ),
        shape=(info.n_nodes, info.n_nodes),
    )
    return Graph(edges, raw.x, ids=raw.ids, y=raw.y, name=info.name)


def _info(name: str) -> DatasetInfo:
    key = str(name).strip().lower().replace("_", "-")
    if key in DATASETS:
        return DATASETS[key]
    known = "Known are " + ", ".join(DATASETS)
    raise DatasetError(f"there is no data set {name!r}", remedy=did_you_mean(key, DATASETS, known))


# --- where the files are -----------------------------------------------------------------------


def _root(root: str | os.PathLike[str] | None) -> tuple[Path, bool]:
    """Folder of the data, and whether it is ours to fill."""
    if root is not None:
        return Path(root), False
    if os.environ.get("HENCLER_DATA"):
        return Path(os.environ["HENCLER_DATA"]), False
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return Path(cache) / "hencler", True


_PLANETOID = {"cora": "Cora", "citeseer": "CiteSeer", "pubmed": "PubMed"}
_COAUTHOR = {"coauthor-cs": ("CS", "cs"), "coauthor-physics": ("Physics", "phy")}
_PARTS = ("tx", "allx", "ty", "ally", "graph", "test.index")


def _files(name: str) -> list[str]:
    """The files that are read, relative to the root."""
    kind = DATASETS[name].pyg_class
    if kind == "WebKB":
        folder = f"webkb/{name}/raw"
        return [f"{folder}/out1_node_feature_label.txt", f"{folder}/out1_graph_edges.txt"]
    if kind == "WikipediaNetwork":
        folder = f"wikipedia/{name}"
        return [f"{folder}/geom_gcn/raw/out1_node_feature_label.txt", f"{folder}/raw/{name}.npz"]
    if kind == "HeterophilousGraphDataset":
        stem = name.replace("-", "_")
        return [f"heterophilous/{stem}/raw/{stem}.npz"]
    if kind == "Planetoid":
        return [f"planetoid/{_PLANETOID[name]}/raw/ind.{name}.{part}" for part in _PARTS]
    if kind == "Coauthor":
        folder, short = _COAUTHOR[name]
        return [f"coauthor/{folder}/raw/ms_academic_{short}.npz"]
    if name.startswith("drosophila"):
        side = name.removeprefix("drosophila-")
        return [f"bio/drosophila_mb/{side}_{part}.csv" for part in ("adjacency", "cell_labels")]
    return ["polblogs/polblogs.npz"] if name == "polblogs" else [f"bio/{name}/{name}.npz"]


def _how_to_get(info: DatasetInfo, may_download: bool) -> str:
    if info.pyg_class is None:
        return "It cannot be downloaded; put the file there, and set HENCLER_DATA to the folder"
    if may_download:
        return "Put the file there, or set HENCLER_DATA to a folder that has it"
    return "Put the file there, or unset HENCLER_DATA and leave root out to have it downloaded"


class _DownloadedError(Exception):
    """Raised in place of PyG's processing, which would unpickle what it just downloaded."""


def _download(info: DatasetInfo, folder: Path) -> None:
    pyg = optional_import("torch_geometric.datasets", f"downloading {info.name!r}")
    base = getattr(pyg, str(info.pyg_class))

    def stop(self: Any) -> None:
        raise _DownloadedError

    only = type(f"Download{base.__name__}", (base,), {"process": stop})
    family = _files(info.name)[0].split("/")[0]
    own = _PLANETOID.get(info.name) or _COAUTHOR.get(info.name, (info.name,))[0]
    variants = [(True,), (False,)] if info.pyg_class == "WikipediaNetwork" else [()]
    for extra in variants:
        try:
            only(str(folder / family), own, *extra)
        except _DownloadedError:
            continue
        except Exception as error:  # whatever the network and its libraries come up with
            raise DatasetError(
                f"{info.name!r} could not be downloaded ({type(error).__name__}: {error})",
                place=str(folder),
                remedy="Check the network, or set HENCLER_DATA to a folder that has the files",
            ) from error


# --- readers: one per layout --------------------------------------------------------------------


@dataclass
class _Raw:
    """A graph as its files have it; edges of shape (2, E), not yet merged into a matrix."""

    edges: NDArray[np.int64]
    y: NDArray[np.int64]
    x: Attributes | None = None
    weight: NDArray[Any] | None = None
    ids: NDArray[Any] | None = None


_Reader = Callable[[Path, str], _Raw]


def _reader(name: str) -> _Reader:
    readers: dict[str | None, _Reader] = {
        "WebKB": _read_webkb,
        "WikipediaNetwork": _read_wikipedia,
        "HeterophilousGraphDataset": _read_heterophilous,
        "Planetoid": _read_planetoid,
        "Coauthor": _read_coauthor,
        None: _read_drosophila if name.startswith("drosophila") else _read_plain,
    }
    return readers[DATASETS[name].pyg_class]


@contextmanager
def _guard(file: Path) -> Iterator[None]:
    try:
        yield
    except HenclerError:
        raise
    except Exception as error:  # damaged files fail in many libraries in many ways
        raise DatasetError(
            f"the file cannot be read ({type(error).__name__}: {error})",
            place=str(file),
            remedy="Replace it by the original one",
        ) from error


def _read_webkb(root: Path, name: str) -> _Raw:
    nodes, links = (root / file for file in _files(name))
    x, y = _geom_gcn_nodes(nodes)
    edges = np.loadtxt(links, dtype=np.int64, skiprows=1, delimiter="\t", ndmin=2).T
    return _Raw(_distinct(edges, len(y)), y, x)


def _read_wikipedia(root: Path, name: str) -> _Raw:
    nodes, links = (root / file for file in _files(name))
    x, y = _geom_gcn_nodes(nodes)
    with np.load(links, allow_pickle=False) as data:
        return _Raw(_distinct(data["edges"].T, len(y)), y, x)


def _geom_gcn_nodes(file: Path) -> tuple[Any, NDArray[np.int64]]:
    """Lines ``id <tab> 0,1,0,... <tab> class``, in the order of the ids, as CSR and classes."""
    rows, labels = [], []
    with open(file, encoding="utf-8") as handle:
        next(handle)
        for line, text in enumerate(handle, 2):
            fields = text.rstrip("\n").split("\t")
            if len(fields) != 3 or fields[0] != str(line - 2):
                raise FileFormatError(
                    "not a line of node, attributes and class",
                    place=f"{file}:{line}",
                    remedy="Replace the file by the original one",
                )
            rows.append(_bits(fields[1]))
            labels.append(int(fields[2]))
    return sp.csr_array(np.stack(rows), dtype=np.float64), np.array(labels, dtype=np.int64)


def _bits(text: str) -> NDArray[np.uint8]:
    """``0,1,1,0`` as an array; the attributes of these files are all 0 or 1."""
    characters = np.frombuffer(text.encode("ascii"), dtype=np.uint8)
    bits = characters[::2] - ord("0")
    if len(characters) % 2 == 0 or np.any(characters[1::2] != ord(",")) or np.any(bits > 1):
        raise ValueError("attributes other than 0 and 1")
    return np.asarray(bits)


def _read_heterophilous(root: Path, name: str) -> _Raw:
    with np.load(root / _files(name)[0], allow_pickle=False) as data:
        x, y, edges = data["node_features"], data["node_labels"], data["edges"].T
    both = np.concatenate([edges, edges[::-1]], axis=1)
    return _Raw(_distinct(both, len(y)), y.astype(np.int64), x)


def _read_coauthor(root: Path, name: str) -> _Raw:
    with np.load(root / _files(name)[0], allow_pickle=False) as data:
        x = sp.csr_array(
            (data["attr_data"], data["attr_indices"], data["attr_indptr"]), data["attr_shape"]
        )
        adjacency = sp.csr_array(
            (data["adj_data"], data["adj_indices"], data["adj_indptr"]), data["adj_shape"]
        ).tocoo()
        y = data["labels"].astype(np.int64)
    x.data = (x.data > 0).astype(np.float32)
    edges = np.stack([adjacency.row, adjacency.col])
    edges = edges[:, edges[0] != edges[1]]
    return _Raw(_distinct(np.concatenate([edges, edges[::-1]], axis=1), len(y)), y, x)


def _read_plain(root: Path, name: str) -> _Raw:
    with np.load(root / _files(name)[0], allow_pickle=False) as data:
        return _Raw(
            data["edge_index"].astype(np.int64),
            data["y"].astype(np.int64),
            weight=data["edge_weight"] if "edge_weight" in data.files else None,
            ids=data["node_names"] if "node_names" in data.files else None,
        )


def _read_drosophila(root: Path, name: str) -> _Raw:
    links, labels = (root / file for file in _files(name))
    matrix = np.loadtxt(links)
    rows, cols = np.nonzero(matrix)
    _, y = np.unique(labels.read_text(encoding="utf-8").split(), return_inverse=True)
    return _Raw(np.stack([rows, cols]), y.astype(np.int64), weight=matrix[rows, cols])


def _distinct(edges: NDArray[Any], n: int) -> NDArray[np.int64]:
    """Each pair once, sorted."""
    edges = edges.astype(np.int64)
    if edges.size and (edges.min() < 0 or edges.max() >= n):
        raise DatasetError(
            f"an edge names a node outside 0 ... {n - 1}",
            remedy="Replace the files by the original ones",
        )
    codes = _sorted_once(edges[0] * n + edges[1])
    return np.stack([codes // n, codes % n])


def _sorted_once(codes: NDArray[np.int64]) -> NDArray[np.int64]:
    # np.unique goes through a hash table, many times slower for a million different values.
    codes = np.sort(codes)
    return codes[np.diff(codes, prepend=-1) != 0]


# --- Planetoid: pickles, read without running them ----------------------------------------------

_SHA256 = {
    "ind.citeseer.allx": "2ac30345d95c9ec933a817ee0bdd6a5f077f8c184a20e696910192d534414668",
    "ind.citeseer.ally": "f704b2d986dde6c2669934de1f3ae5696a6cf9455c0f6b2646a2d135ea0a1c95",
    "ind.citeseer.graph": "d79a4ef9d3e7169aee8946145f6b7306e35bc79bffad26346cfb94e10e9912a7",
    "ind.citeseer.test.index": "2af990671580b6b2df5d158d1038f8292e30c9cd821b5453f399659b25b723d4",
    "ind.citeseer.tx": "539a8906a2da97628d212f2fdd668c109a8b3f0d36574b59e5d3fd5b5303da21",
    "ind.citeseer.ty": "55e5bd1ba1e733a04598753ad1a8d57957f4b8f89e74519f41f4f4938767e4ce",
    "ind.cora.allx": "9419ba2f26f5c35243db64aba110e0f35a04851609e0dc5433450676ca6b8543",
    "ind.cora.ally": "2b998f5cc7fedc86e7f97ca2498f47a1ffc1462c29e2d578b23bf3f62b6e7d71",
    "ind.cora.graph": "58f13302f39dde8852dad6fe6d15b89b077b6d7f837626bce671ef80344b383d",
    "ind.cora.test.index": "297ce89af2b51a6a194181c7dbe1796c6a1cf9cd9349a88383b1b1e227867875",
    "ind.cora.tx": "b9afbaa4a400df991f6f02ef677e1e44da55ffc04801fd02f9e673987829226a",
    "ind.cora.ty": "41f5ac76596a1699cc33f53084a2419e92961c42bb75f36fc38e616d348532ad",
    "ind.pubmed.allx": "508e538e2abdccdd54c4d3e9f49d638b4af7107d85845f66ddea5a5152658b7e",
    "ind.pubmed.ally": "0c37bbe3b5014ec365e9d393cf4791925e5ed94fb194305d74f064a8d7b50f0e",
    "ind.pubmed.graph": "5b89f0036ca22909471f1e6558eb42fa06e0c730a577bde5b058b40638f81dc9",
    "ind.pubmed.test.index": "b101d421688bbaecbd82e8a18f1e282378d6830f3a37666f28ebc47f844341b5",
    "ind.pubmed.tx": "4eb5f5d0f30f26497eb0ac6ac9719d09c67e284f1ed0385c93f3ef27a671da3d",
    "ind.pubmed.ty": "ee2e0d4819d9fbcc403689c3bf2e49face401b605932f093bc58ab6461130fdd",
}


class _CsrState:
    """Stands for a pickled ``csr_matrix``: keeps its parts, calls nothing of SciPy."""

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.parts = (state["data"], state["indices"], state["indptr"])
        self.shape = tuple(int(size) for size in state["_shape"])

    def matrix(self) -> Any:
        out = sp.csr_array(self.parts, shape=self.shape)
        out.check_format(full_check=True)
        return out


class _ArrayUnpickler(pickle.Unpickler):
    """Knows the six names the Planetoid files use and refuses any other."""

    def find_class(self, module: str, name: str) -> Any:
        reconstruct = np.ndarray.__reduce__(np.empty(0))[0]
        known: dict[tuple[str, str], Any] = {
            ("collections", "defaultdict"): defaultdict,
            ("__builtin__", "list"): list,
            ("numpy.core.multiarray", "_reconstruct"): reconstruct,
            ("numpy", "ndarray"): np.ndarray,
            ("numpy", "dtype"): np.dtype,
            ("scipy.sparse.csr", "csr_matrix"): _CsrState,
        }
        if (module, name) not in known:
            raise DatasetError(
                f"the pickle asks for {module}.{name}, which no array needs",
                remedy="Do not trust this file; replace it by the original one",
            )
        return known[module, name]


def _unpickle(content: bytes) -> Any:
    value = _ArrayUnpickler(io.BytesIO(content), encoding="latin1").load()
    return value.matrix() if isinstance(value, _CsrState) else value


def _verified(file: Path) -> bytes:
    """Bytes of a file whose SHA-256 is the known one: what is checked is what is read."""
    content = file.read_bytes()
    if hashlib.sha256(content).hexdigest() != _SHA256.get(file.name):
        raise DatasetError(
            "the file is not the original one: its SHA-256 differs, and pickles that "
            "are not known are not opened",
            place=str(file),
            remedy="Replace it by the original one",
        )
    return content


def _read_planetoid(root: Path, name: str) -> _Raw:
    content = [_verified(root / file) for file in _files(name)]
    tx, allx, ty, ally, links = (_unpickle(part) for part in content[:-1])
    test = np.array(content[-1].split(), dtype=np.int64)
    return _planetoid(tx, allx, ty, ally, links, test)


def _planetoid(
    tx: Any, allx: Any, ty: Any, ally: Any, links: dict[int, list[int]], test: NDArray[np.int64]
) -> _Raw:
    """Put the test rows where they belong.

    Row i of `tx` belongs to node ``test[i]``. Where ids are missing from `test` (the isolated nodes
    of citeseer), a node has no attributes and, as in PyG, class 0. Self-loops and duplicates go.
    """
    first, n_test = int(test.min()), int(test.max() - test.min()) + 1
    put = sp.coo_array(
        (np.ones(len(test), dtype=tx.dtype), (test - first, np.arange(len(test)))),
        shape=(n_test, len(test)),
    ).tocsr()
    x = sp.csr_array(sp.vstack([allx, put @ tx]))
    x.eliminate_zeros()
    y = np.concatenate([ally, put @ ty]).argmax(axis=1)
    sources = np.repeat(list(links), [len(targets) for targets in links.values()])
    targets = np.concatenate([np.asarray(part, dtype=np.int64) for part in links.values()])
    edges = _distinct(np.stack([sources, targets]), len(y))
    return _Raw(edges[:, edges[0] != edges[1]], y.astype(np.int64), x)


# --- counts -------------------------------------------------------------------------------------


def _check_counts(info: DatasetInfo, raw: _Raw, folder: Path) -> None:
    """Raise if the graph is not the one that `info` describes."""
    source, target = raw.edges
    n = len(raw.y)
    loops = source == target
    low, high = np.minimum(source, target)[~loops], np.maximum(source, target)[~loops]
    forward, backward = _sorted_once(source * n + target), _sorted_once(target * n + source)
    found: dict[str, Any] = {
        "n_nodes": n,
        "n_links": len(source),
        "n_undirected": len(_sorted_once(low * n + high)),
        "n_self_loops": int(loops.sum()),
        "n_classes": len(np.unique(raw.y[raw.y >= 0])),
        "n_attributes": 0 if raw.x is None else int(raw.x.shape[1]),
        "directed": not np.array_equal(forward, backward),
    }
    if info.class_counts is not None:
        found["class_counts"] = tuple(np.bincount(raw.y).tolist())
    for key, value in found.items():
        expected = getattr(info, key)
        if value != expected:
            raise DatasetError(
                f"this is not the known {info.name!r}: {key} is {value}, expected {expected}",
                place=str(folder / _files(info.name)[0]),
                remedy=_CORNELL if info.name == "cornell" else "Replace it by the original one",
            )


_CORNELL = (
    "Many copies of Geom-GCN hold the nodes of texas (classes of 33, 1, 18, 101 and 30) as those "
    "of cornell, and other edges; take both files from a corrected copy, with classes of 38, 16, "
    "30, 82 and 17 nodes and 298 edges"
)


# --- generator ----------------------------------------------------------------------------------


def make_heterophilous_graph(
    n_nodes: int = 600,
    n_clusters: int = 4,
    *,
    directed: bool = True,
    n_attributes: int = 32,
    degree: float = 8.0,
    attribute_signal: float = 4.0,
    link_signal: float = 0.7,
    random_state: int | np.random.Generator | np.random.RandomState | None = None,
) -> Graph:
    r"""Graph whose clusters link to *other* clusters, and which needs all of its data.

    Clusters come in rings of four, :math:`p_0 \to q_0 \to p_1 \to q_1 \to p_0`: without the
    directions, :math:`p_0` and :math:`p_1` both are just "linked with the q", and likewise the q.
    Both clusters of such a pair have the same mean attributes. So attributes, the symmetrised
    graph, and both together find the pairs only; the direction of the links tells the two apart.

    Parameters
    ----------
    n_nodes : int
        At least `n_clusters`. Cluster sizes differ by at most one.
    n_clusters : int, at least 2
        Filled up with rings of four. Three that remain are a chain :math:`p_0 \to q_0 \to p_1`,
        two are a pair :math:`p_0 \to p_1` (which the symmetrised graph, then bipartite, does tell
        apart), one joins a ring to make a chain and a pair.
    directed : bool
        ``False`` forgets the directions of the same links. Then the attributes have to tell
        :math:`p_0` from :math:`p_1`: there are two mean vectors, one for all :math:`p_0, q_0`, one
        for all :math:`p_1, q_1`. Links alone find the pairs, attributes alone find the index.
    n_attributes : int
        0 for a graph without attributes.
    degree : float
        Links drawn per node. Self-loops and duplicates among them are dropped.
    attribute_signal : float
        Length of the mean vectors: a node has :math:`x = a\,\mu + \varepsilon` with :math:`\mu`
        a random unit vector (they are orthogonal if there is room) and :math:`\varepsilon` standard
        normal.
    link_signal : float in [0, 1]
        A link follows the plan with this probability: its two clusters are one of the arrows
        above, drawn such that every cluster has its share. Else it joins two nodes at random.
        Within the clusters its two nodes are drawn uniformly.
    random_state : int, Generator, RandomState or None

    Returns
    -------
    Graph
        With clusters ``y`` = 0 ... k-1 in random order of nodes.

    Examples
    --------
    >>> from hencler.datasets import make_heterophilous_graph
    >>> make_heterophilous_graph(100, random_state=0).directed
    True
    """
    _check_generator_parameters(n_nodes, n_clusters, n_attributes, degree, link_signal)
    rng = _generator(random_state)
    y = rng.permutation(np.arange(n_nodes) % n_clusters)
    plan, pair, index = _plan(n_clusters)
    edges = _draw_links(y, plan, round(n_nodes * degree), link_signal, rng)
    x = None
    if n_attributes:
        kind = pair if directed else index
        means = _unit_vectors(int(kind.max()) + 1, n_attributes, rng)
        x = attribute_signal * means[kind[y]] + rng.standard_normal((n_nodes, n_attributes))
    return Graph(edges, x, directed=directed, y=y, name="heterophilous")


def _check_generator_parameters(
    n: int, k: int, n_attributes: int, degree: float, link_signal: float
) -> None:
    for ok, problem in (
        (k >= 2, f"n_clusters={k} is less than 2"),
        (n >= k, f"n_nodes={n} is less than n_clusters={k}"),
        (n_attributes >= 0, f"n_attributes={n_attributes} is negative"),
        (0 <= degree < float("inf"), f"degree={degree} is negative or not finite"),
        (0 <= link_signal <= 1, f"link_signal={link_signal} is not in [0, 1]"),
    ):
        if not ok:
            raise ParameterError(problem, remedy="Choose a value in the range")


def _generator(random_state: Any) -> np.random.Generator:
    if isinstance(random_state, np.random.RandomState):
        random_state = random_state.randint(np.iinfo(np.int32).max)
    return np.random.default_rng(random_state)


_UNITS = {
    # clusters: (arrows with their weights, pair of each cluster, index within its pair)
    4: ([(0, 1, 1.0), (1, 2, 1.0), (2, 3, 1.0), (3, 0, 1.0)], [0, 1, 0, 1], [0, 0, 1, 1]),
    3: ([(0, 1, 1.5), (1, 2, 1.5)], [0, 1, 0], [0, 0, 1]),
    2: ([(0, 1, 2.0)], [0, 0], [0, 1]),
}


def _plan(k: int) -> tuple[NDArray[np.float64], NDArray[np.int64], NDArray[np.int64]]:
    """Probabilities of the arrows, shape (k, k), sum 1; pair and index of each cluster."""
    plan = np.zeros((k, k))
    pairs: list[int] = []
    index: list[int] = []
    while len(pairs) < k:
        left, start = k - len(pairs), len(pairs)
        # One cluster cannot be a unit: five are a chain and a pair.
        arrows, pair, within = _UNITS[left if left < 4 else 3 if left == 5 else 4]
        for a, b, weight in arrows:
            plan[start + a, start + b] = weight
        pairs += [p + max(pairs, default=-1) + 1 for p in pair]
        index += within
    return plan / plan.sum(), np.array(pairs), np.array(index)


def _draw_links(
    y: NDArray[np.int64],
    plan: NDArray[np.float64],
    n_links: int,
    signal: float,
    rng: np.random.Generator,
) -> Any:
    n, k = len(y), len(plan)
    members = np.argsort(y, kind="stable")
    sizes = np.bincount(y, minlength=k)
    starts = np.cumsum(sizes) - sizes
    arrows = rng.choice(k * k, size=n_links, p=plan.ravel())
    planned = rng.random(n_links) < signal
    ends = []
    for cluster in (arrows // k, arrows % k):
        at = starts[cluster] + rng.integers(0, sizes[cluster])
        ends.append(np.where(planned, members[at], rng.integers(0, n, size=n_links)))
    source, target = ends
    keep = source != target
    edges = sp.coo_array((np.ones(keep.sum()), (source[keep], target[keep])), shape=(n, n)).tocsr()
    edges.data[:] = 1.0
    return edges


def _unit_vectors(count: int, width: int, rng: np.random.Generator) -> NDArray[np.float64]:
    vectors = rng.standard_normal((count, width))
    if count <= width:
        return np.asarray(np.linalg.qr(vectors.T)[0].T)
    return np.asarray(vectors / np.linalg.norm(vectors, axis=1, keepdims=True))
