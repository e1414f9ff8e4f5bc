"""What the trained baselines share: their inputs as tensors, and one full-batch loop."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping

import numpy as np
import scipy.sparse as sp
import torch
from numpy.typing import NDArray
from torch import Tensor

from .._base import Callback, Epoch
from .._errors import GraphError, HenclerError
from .._graph import Attributes, Graph
from .._torch import SparseMatrix

__all__ = [
    "SparseMatrix",
    "as_floats",
    "attributes_or_links",
    "input_matrix",
    "need_two_nodes",
    "run_epochs",
    "train",
    "without_trace",
]


def train(
    step_loss: Callable[[], Mapping[str, Tensor]],
    parameters: Iterable[Tensor],
    *,
    epochs: int,
    lr: float,
    weight_decay: float = 0.0,
    callback: Callback | None = None,
    labels: Callable[[], NDArray[np.int64]],
) -> list[dict[str, float]]:
    """Adam on the sum of named losses, one step per epoch.

    Parameters
    ----------
    step_loss : callable without arguments
        One forward pass; returns the terms of the loss, already weighted, as scalars.
    parameters : tensors to train
    epochs, lr, weight_decay
        As for :class:`torch.optim.Adam`.
    callback : callable, optional
        Called after each epoch with an :class:`~hencler._base.Epoch`.
    labels : callable without arguments
        The clusters at the present parameters, shape (n,). Called only when a callback asks;
        looking changes neither the gradients nor the random numbers of the training.

    Returns
    -------
    history : list of dict
        Every term, and their sum as ``"loss"``, per epoch, each before its step.
    """
    parameters = list(parameters)
    optimizer = torch.optim.Adam(parameters, lr=lr, weight_decay=weight_decay)

    def epoch() -> Mapping[str, Tensor]:
        optimizer.zero_grad(set_to_none=True)
        terms = step_loss()
        loss = torch.stack(list(terms.values())).sum()
        loss.backward()
        optimizer.step()
        return terms

    return run_epochs(
        epoch, epochs=epochs, callback=callback, labels=labels, device=parameters[0].device
    )


def run_epochs(
    epoch: Callable[[], Mapping[str, Tensor]],
    *,
    epochs: int,
    callback: Callback | None,
    labels: Callable[[], NDArray[np.int64]],
    device: torch.device,
) -> list[dict[str, float]]:
    """Run epochs that train by themselves and return their terms of the loss; see :func:`train`."""
    look = without_trace(labels, device)
    history: list[dict[str, float]] = []
    for number in range(1, epochs + 1):
        history.append(as_floats(epoch(), number))
        if callback is not None:
            callback(Epoch(number, epochs, history[-1], look))
    return history


def as_floats(terms: Mapping[str, Tensor], number: int) -> dict[str, float]:
    # One transfer from the device for all terms.
    values = torch.stack([term.detach() for term in terms.values()]).tolist()
    losses = {**dict(zip(terms, values)), "loss": math.fsum(values)}
    if not math.isfinite(losses["loss"]):
        raise HenclerError(
            f"the loss is {losses['loss']}",
            place=f"epoch {number}",
            remedy="Lower the learning rate, or scale the attributes to a range near 1",
        )
    return losses


def without_trace(
    labels: Callable[[], NDArray[np.int64]], device: torch.device
) -> Callable[[], NDArray[np.int64]]:
    def look() -> NDArray[np.int64]:
        devices = [device] if device.type == "cuda" else []
        with torch.no_grad(), torch.random.fork_rng(devices=devices):
            return labels()

    return look


# --- inputs --------------------------------------------------------------------------------


def need_two_nodes(graph: Graph, method: str) -> None:
    if graph.n_nodes < 2:
        raise GraphError(
            f"the graph has one node, and {method} compares pairs of nodes",
            remedy="Give at least two nodes",
        )


def attributes_or_links(graph: Graph, seed: int) -> Attributes:
    """The attributes; without any, the links reduced to at most 64 columns of unit scale.

    Leading singular vectors of the regularised adjacency matrix, scaled by sqrt(n) times
    their singular values: 64 for an undirected graph, 32 left (out-links) beside 32 right
    (in-links) ones for a directed graph.
    """
    if graph.x is not None:
        return graph.x
    from .coclustering import link_columns

    return link_columns(graph, 64, seed)


def input_matrix(
    x: Attributes, device: torch.device, dtype: torch.dtype = torch.float32
) -> Tensor | SparseMatrix:
    """Attributes (n, d) on a device, sparse ones left sparse: both know ``@`` with (d, f)."""
    if sp.issparse(x):
        return SparseMatrix(x, device, dtype)
    # A copy: torch must not share memory that may be a read-only memory map.
    return torch.tensor(np.asarray(x), device=device, dtype=dtype)
