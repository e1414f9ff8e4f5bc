"""The trained model as a whole: raw attributes and encodings in, e and r out."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
import scipy.sparse as sp
import torch
from numpy.typing import NDArray

from ._assign import KMeansAssigner
from ._encodings import random_walk_encoding
from ._graph import Graph, row_blocks
from ._links import LinkColumns, known_links
from ._model import HeNClerNet, ModelConfig, Statistics
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

__all__ = ["NetworkModel"]

ENCODING_LENGTH = 3
"""Steps of the positional encoding, as in the released code; the paper does not say."""

LINK_COLUMNS = 64
"""Columns that stand for the links of a graph without attributes, out and in each."""


class NetworkModel:
    """Feature maps trained by gradient, the presets ``paper`` and ``released``.

    Inputs are the attributes as they are beside a random-walk positional encoding. A graph
    without attributes is described by :class:`LinkColumns` instead.
    """

    net: HeNClerNet
    statistics: Statistics
    links: LinkColumns | None
    known_ids: NDArray[Any] | None
    history: list[dict[str, float]]
    assigner: KMeansAssigner

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
        inputs = self.inputs(graph)
        n_sparse = 0 if inputs.sparse is None else inputs.sparse.shape[1]
        shapes: dict[str, Any] = {
            "n_sparse": n_sparse,
            "n_dense": inputs.width - n_sparse,
            "n_encoding": self.encoding_length,
        }
        with seeded(settings.seed, self.device):
            self.net = HeNClerNet(ModelConfig(**shapes, **config))
        self.history = train(
            self.net,
            inputs,
            graph.adjacency,
            settings,
            self.device,
            on_epoch=on_epoch,
            checkpoint=checkpoint,
        )
        self.statistics = final_statistics(self.net, inputs, self.device)
        embedding = np.hstack(embed(self.net, inputs, self.statistics, self.device))
        self.assigner = KMeansAssigner().fit(embedding, n_clusters, n_init, settings.seed)
        return self

    def inputs(self, graph: Graph) -> NodeInputs:
        """The network's inputs for a graph."""
        encoding = random_walk_encoding(graph.adjacency, self.encoding_length)
        if self.links is not None:
            assert self.known_ids is not None
            columns = self.links.transform(*known_links(graph, self.known_ids))
            return NodeInputs(None, np.hstack(columns).astype(np.float32), encoding)
        if sp.issparse(graph.x):
            return NodeInputs(graph.x, None, encoding)
        return NodeInputs(None, graph.x, encoding)

    def embed(self, graph: Graph) -> tuple[NDArray[Any], NDArray[Any]]:
        """e and r, shape (n, s) each."""
        return embed(self.net, self.inputs(graph), self.statistics, self.device)

    def clusters(self, graph: Graph) -> NDArray[np.int64]:
        return self.assigner.predict(np.hstack(self.embed(graph)))

    def similarity(self, graph: Graph, rows: Any, cols: Any) -> NDArray[Any]:
        """Block of S = Phi Psi'."""
        phi, psi = self.features(graph)
        return phi[rows] @ psi[cols].T

    @torch.no_grad()
    def features(self, graph: Graph) -> tuple[NDArray[Any], NDArray[Any]]:
        """phi and psi, shape (n, d_f) each."""
        inputs = self.inputs(graph)
        self.net.to(self.device).eval()
        blocks = [
            [f.cpu().numpy() for f in self.net.maps(inputs.rows(rows, self.device))]
            for rows in row_blocks(len(inputs), inputs.width + self.net.config.hidden)
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
        }
        if self.links is not None and self.known_ids is not None:
            arrays |= {f"links.{k}": v for k, v in self.links.state().items()}
            header["known_ids"] = self.known_ids.tolist()
        return header, arrays

    @classmethod
    def from_state(
        cls, header: dict[str, Any], arrays: dict[str, NDArray[Any]], device: torch.device
    ) -> Self:
        self = cls(device, int(header["encoding_length"]))
        with seeded(0, device):  # overwritten below; torch has no cheaper way to make it
            self.net = HeNClerNet(ModelConfig(**header["config"]))
        self.net.load_state_dict(
            {k[4:]: torch.from_numpy(v) for k, v in arrays.items() if k.startswith("net.")}
        )
        self.statistics = Statistics(
            *(torch.from_numpy(arrays[f"statistics.{f}"]).to(device) for f in Statistics._fields)
        )
        self.links = self.known_ids = None
        if header["links"]:
            self.links = LinkColumns.from_state(
                {k[6:]: v for k, v in arrays.items() if k.startswith("links.")}
            )
            self.known_ids = np.array(header["known_ids"])
        self.assigner = KMeansAssigner.from_state(
            {k[9:]: v for k, v in arrays.items() if k.startswith("assigner.")}
        )
        self.history = []
        return self
