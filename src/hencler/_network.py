"""The trained model as a whole: raw attributes and encodings in, e and r out."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any, Self, get_args

import numpy as np
import scipy.sparse as sp
import torch
from numpy.typing import NDArray

from ._assign import KMeansAssigner
from ._encodings import node_encoding
from ._errors import HenclerWarning, ModelFileError, ParameterError
from ._graph import Graph, check_ids, row_blocks
from ._links import LinkColumns, known_links
from ._model import HeNClerNet, Losses, ModelConfig, Statistics, Variant
from ._order import restored
from ._ranks import Ranks, current_ranks
from ._stability import Reassign
from ._state import checked
from ._torch import seeded
from ._training import (
    Checkpoint,
    NodeInputs,
    OnEpoch,
    TrainingSettings,
    embed,
    final_statistics,
    train,
)

__all__ = ["NetworkModel", "default_batch_size"]

ENCODING_LENGTH = 3
"""Steps of the positional encoding, as in the released code; the paper does not say."""

LARGEST = 1e9
"""Attributes beyond this, or all below its inverse, are rescaled: squares must fit a float32."""

LINK_COLUMNS = 64
"""Columns that stand for the links of a graph without attributes, out and in each."""

FULL_BATCH_NODES = 100_000
"""Graphs with more nodes are trained in batches unless told otherwise."""

LARGE_BATCH = 8192
"""Their batch size: steps large enough for a GPU or a few cores, and below 100 MB."""

KMEANS_NODES = 100_000
"""Centres are found on a random sample of this many nodes, where there are more."""


def default_batch_size(n: int) -> int | None:
    """Nodes per step where the user leaves it open; None is all."""
    return None if n <= FULL_BATCH_NODES else LARGE_BATCH


class NetworkModel:
    """Feature maps trained by gradient, the presets ``paper`` and ``released``.

    Inputs are the attributes as they are (divided by `unit`, which is 1 unless they would not fit
    single precision) beside a random-walk positional encoding. A graph without attributes is
    described by :class:`LinkColumns` instead.
    """

    net: HeNClerNet
    unit: float
    statistics: Statistics
    links: LinkColumns | None
    known_ids: NDArray[Any] | None
    history: list[dict[str, float]]
    assigner: KMeansAssigner
    e: NDArray[np.float32]
    r: NDArray[np.float32]
    labels: NDArray[np.int64]
    """Embeddings and clusters of the nodes fitted on, until :meth:`take_fitted` hands them out;
    over several ranks of all nodes on the first, of its own nodes on another."""

    def __init__(self, device: torch.device, encoding_length: int = ENCODING_LENGTH) -> None:
        self.device = device
        self.encoding_length = encoding_length

    def fit(
        self,
        graph: Graph,
        n_clusters: int,
        settings: TrainingSettings,
        *,
        n_init: int,
        on_epoch: OnEpoch | None = None,
        checkpoint: Checkpoint | None = None,
        **config: Any,
    ) -> Self:
        """`config`: what :class:`ModelConfig` leaves open beside the shapes of the input."""
        self.links = self.known_ids = None
        if graph.x is None:
            self.links = LinkColumns(min(LINK_COLUMNS, graph.n_nodes)).fit(graph.adjacency)
            self.known_ids = graph.ids
        self.unit = _unit(graph)
        inputs = self.inputs(graph)
        n_sparse = 0 if inputs.sparse is None else inputs.sparse.shape[1]
        shapes: dict[str, Any] = {
            "n_sparse": n_sparse,
            "n_dense": inputs.width - n_sparse,
            "n_encoding": self.encoding_length,
        }
        with seeded(settings.seed, self.device):
            self.net = HeNClerNet(ModelConfig(**shapes, **config))
        ranks = current_ranks(self.device)
        self.history = train(
            self.net,
            inputs,
            graph.adjacency,
            settings,
            self.device,
            on_epoch=on_epoch,
            checkpoint=checkpoint,
            ranks=ranks,
        )
        self.statistics = final_statistics(self.net, inputs, self.device, ranks)
        e, r = embed(self.net, inputs, self.statistics, self.device, ranks)
        if ranks.any(not all(np.isfinite(z[rows]).all() for z in (e, r) for rows in _blocks(z))):
            raise ParameterError(
                "the training diverged: the embedding is not finite",
                place=f"learning_rate={settings.learning_rate}",
                remedy="Use a smaller learning rate, or standardise the attributes",
            )
        self.assigner = _common_centres(e, r, len(inputs), n_clusters, n_init, settings.seed, ranks)
        fitted = e, r, self._nearest(e, r)
        self.e, self.r, self.labels = (ranks.collect(part, len(inputs)) for part in fitted)
        return self

    def take_fitted(self) -> tuple[NDArray[Any], NDArray[Any], NDArray[np.int64]]:
        """e, r and clusters of the nodes fitted on; this model keeps no second hold of them."""
        fitted = self.e, self.r, self.labels
        del self.e, self.r, self.labels
        return fitted

    def restore_order(self, order: NDArray[np.int64], ids: NDArray[Any]) -> None:
        """Give all nodes the places they had, under `ids`, before they were put in `order`.

        A rank that has its own nodes alone leaves these in that order.
        """
        fitted = self.e, self.r, self.labels
        if len(self.labels) == len(order):
            self.e, self.r, self.labels = (restored(z, order) for z in fitted)
        if self.links is not None:
            self.links.restore_order(order)
            self.known_ids = ids

    def inputs(self, graph: Graph) -> NodeInputs:
        """The network's inputs for a graph."""
        encoding = node_encoding(graph.adjacency, self.encoding_length)
        if self.links is not None:
            assert self.known_ids is not None
            columns = self.links.transform(*known_links(graph, self.known_ids))
            return NodeInputs(None, np.hstack(columns).astype(np.float32, copy=False), encoding)
        x: Any = graph.x
        if self.unit != 1:
            x = x / self.unit if sp.issparse(x) else _Divided(x, self.unit)
        return NodeInputs(x, None, encoding) if sp.issparse(x) else NodeInputs(None, x, encoding)

    def embed(self, graph: Graph) -> tuple[NDArray[Any], NDArray[Any]]:
        """e and r, shape (n, s) each."""
        return embed(self.net, self.inputs(graph), self.statistics, self.device)

    def clusters(self, graph: Graph) -> NDArray[np.int64]:
        return self._nearest(*self.embed(graph))

    def _nearest(self, e: NDArray[Any], r: NDArray[Any]) -> NDArray[np.int64]:
        """Clusters of embedded nodes, a block at a time."""
        labels = np.empty(len(e), dtype=np.int64)
        for rows in _blocks(e):
            labels[rows] = self.assigner.predict(np.hstack([e[rows], r[rows]]))
        return labels

    def reassigner(self, e: NDArray[Any], r: NDArray[Any], n_init: int) -> Reassign:
        """Clusters of some nodes by another seed, the embedding as it is."""
        k = len(self.assigner.centres)

        def again(nodes: NDArray[np.int64], seed: int) -> NDArray[np.int64]:
            z = np.hstack([e[nodes], r[nodes]])
            return KMeansAssigner().fit(z, k, n_init, seed).predict(z)

        return again

    def similarity(self, graph: Graph, rows: Any, cols: Any) -> NDArray[Any]:
        """Block of S = Phi Psi'."""
        inputs, nodes = self.inputs(graph), np.arange(graph.n_nodes)
        phi = self._features(inputs, nodes[rows])[0]
        return phi @ self._features(inputs, nodes[cols])[1].T

    @torch.no_grad()
    def _features(
        self, inputs: NodeInputs, nodes: NDArray[np.int64]
    ) -> tuple[NDArray[Any], NDArray[Any]]:
        """phi and psi of some nodes, shape (m, d_f) each."""
        self.net.to(self.device).eval()
        blocks = [
            [f.cpu().numpy() for f in self.net.maps(inputs.rows(nodes[rows], self.device))]
            for rows in row_blocks(len(nodes), inputs.width + self.net.config.hidden)
        ]
        return np.concatenate([b[0] for b in blocks]), np.concatenate([b[1] for b in blocks])

    @property
    @torch.no_grad()
    def singular_values(self) -> NDArray[Any]:
        return self.net.sigma.cpu().numpy()

    def state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """JSON header and arrays from which :meth:`from_state` makes the same model."""
        arrays = {f"net.{k}": v.cpu().numpy() for k, v in self.net.state_dict().items()}
        for name, value in zip(Statistics._fields, self.statistics):
            arrays[f"statistics.{name}"] = value.cpu().numpy()
        arrays |= {f"assigner.{k}": v for k, v in self.assigner.state().items()}
        header = {
            "kind": "network",
            "config": self.net.config.to_dict(),
            "encoding_length": self.encoding_length,
            "links": self.links is not None,
            "unit": self.unit,
            "n_clusters": len(self.assigner.centres),
        }
        if self.links is not None and self.known_ids is not None:
            arrays |= {f"links.{k}": v for k, v in self.links.state().items()}
            numbered = np.array_equal(self.known_ids, np.arange(len(self.known_ids)))
            header["known_ids"] = None if numbered else self.known_ids.tolist()
        return header, arrays

    @classmethod
    def from_state(
        cls, header: dict[str, Any], arrays: dict[str, NDArray[Any]], device: torch.device
    ) -> Self:
        self = cls(device, int(header["encoding_length"]))
        self.unit = float(header["unit"])
        with torch.device("meta"):  # shapes without memory: sizes in a file may be of any size
            self.net = HeNClerNet(ModelConfig(**header["config"]))
        parts: dict[str, dict[str, NDArray[Any]]] = {"net": {}, "statistics": {}}
        for name, value in arrays.items():
            part, _, key = name.partition(".")
            parts.setdefault(part, {})[key] = value
        config, types = self.net.config, {k: v.dtype for k, v in self.net.state_dict().items()}
        if not (
            config.n_encoding == self.encoding_length
            and type(config.shared_map) is bool
            and header["links"] is ("links" in parts)
            and config.variant in get_args(Variant)
            and config.losses in get_args(Losses)
            and 0 < self.unit < np.inf
        ):
            raise ModelFileError("the header is not that of a model")
        weights = {k: torch.from_numpy(v.copy()) for k, v in parts["net"].items()}
        for name, tensor in weights.items():
            # The running estimates are NaN in a model that was trained on whole graphs.
            finite = name == "running" or bool(torch.isfinite(tensor).all())
            if types.get(name) != tensor.dtype or not finite:
                raise ModelFileError(f"the tensor {name!r} is of another type or not finite")
        self.net.load_state_dict(weights, assign=True)
        statistics = checked(
            parts["statistics"], dict.fromkeys(Statistics._fields, "f"), {"f": config.n_features}
        )
        self.statistics = Statistics(
            *(torch.from_numpy(value.copy()).to(device) for value in statistics.values())
        )
        self.links = self.known_ids = None
        if header["links"]:
            known = header["known_ids"]
            if known is None:  # 0 ... n-1
                known = np.arange(len(parts["links"]["left"]))
            self.known_ids = check_ids(known, len(known))
            self.links = LinkColumns.from_state(parts["links"], len(self.known_ids))
            if config.n_inputs != 2 * self.links.n_columns + self.encoding_length:
                raise ModelFileError("the links have another number of columns than the network")
        self.assigner = KMeansAssigner.from_state(
            parts["assigner"], int(header["n_clusters"]), 2 * config.n_components
        )
        self.history = []
        return self


class _Divided:
    """An array, maybe on disk, whose rows are divided by a number when they are asked for."""

    def __init__(self, x: NDArray[Any], unit: float) -> None:
        self.x, self.unit, self.shape = x, unit, x.shape

    def __getitem__(self, index: Any) -> NDArray[Any]:
        return np.asarray(self.x[index]) / self.unit


def _blocks(z: NDArray[Any]) -> Iterator[slice]:
    # KMeans makes copies of its rows in double precision, and distances to every centre.
    return row_blocks(len(z), 16 * z.shape[1])


def _sample(n: int, seed: int) -> NDArray[np.int64]:
    """Nodes on which the centres are found: all, or a sorted random choice."""
    if n <= KMEANS_NODES:
        return np.arange(n)
    return np.sort(np.random.default_rng(seed).choice(n, KMEANS_NODES, replace=False))


def _common_centres(
    e: NDArray[Any], r: NDArray[Any], n: int, k: int, n_init: int, seed: int, ranks: Ranks
) -> KMeansAssigner:
    """Centres that the first rank finds on a sample of all nodes; `e` and `r` are of a shard."""
    sample, (lo, hi) = _sample(n, seed), ranks.shard(n)
    own = slice(*np.searchsorted(sample, [lo, hi]))
    rows = np.zeros((len(sample), 2 * e.shape[1]), dtype=e.dtype)
    rows[own] = np.hstack([e[sample[own] - lo], r[sample[own] - lo]])
    ranks.sum_(torch.from_numpy(rows))
    assigner = KMeansAssigner()
    assigner.centres = np.zeros((k, rows.shape[1]))
    if ranks.first:
        assigner.fit(rows, k, n_init, seed)
    ranks.sum_(torch.from_numpy(assigner.centres))
    return assigner


def _unit(graph: Graph) -> float:
    """What the attributes are divided by to fit single precision."""
    if graph.x is None:
        return 1.0
    largest = 0.0
    for rows in row_blocks(*graph.x.shape):
        part = graph.x[rows]
        largest = max(largest, float(part.max()), -float(part.min()))
    if largest == 0 or 1 / LARGEST <= largest <= LARGEST:
        return 1.0
    warnings.warn(
        f"the largest attribute is {largest:.3g}; the network works in single precision, so that "
        f"all attributes were divided by {largest:.3g}. Standardise them to choose otherwise",
        HenclerWarning,
        stacklevel=5,
    )
    return max(largest, np.finfo(float).tiny)  # the inverse of less is infinite
