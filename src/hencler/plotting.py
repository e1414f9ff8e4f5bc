"""Pictures of a graph and a fitted model, for papers and notebooks.

Every function draws into the Axes it is given, or a new one, and returns it. The numbers are those
of the HTML report. Colours can be told apart with any colour vision and in print: blue is less and
orange is more than by chance, and clusters differ in shape as well as in colour.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted

from ._errors import ParameterError
from ._estimator import HeNCler
from ._graph import Graph
from ._optional import optional_import
from ._stratified import stratified
from .report._links import link_matrix
from .report._map import leading_plane
from .report._similarity import against_chance, asymmetry, cosines, spectra

__all__ = [
    "plot_embedding",
    "plot_history",
    "plot_links",
    "plot_similarity",
    "plot_singular_values",
]

COLOURS = (
    "#00639f",
    "#d07c00",
    "#009e73",
    "#c45b96",
    "#2e98d6",
    "#c4460a",
    "#8a8a1f",
    "#7a2e6f",
)
"""Of the clusters, as in the report; further clusters repeat them in another shape."""

SHAPES = "osD^vP*X"

LESS, EVEN, MORE, UNDEFINED = "#164f96", "#ffffff", "#bf4d00", "#b8bcc2"

FULL_COLOUR = 3.0
"""abs(log2 ratio) at which the colour is full: eight times chance, or an eighth of it."""

COUNTED_CLUSTERS = 16
"""With more clusters than this, counts in the cells are too small to be read."""

EMBEDDED_NODES = 5_000

LINES: Mapping[str, str] = MappingProxyType({"loss": "-", "wksvd": "--", "node": "-.", "edge": ":"})


def plot_links(graph: Graph, labels: ArrayLike, ax: Any = None) -> Any:
    """Who links to whom: links between clusters, observed over expected by chance.

    A cell's colour is log2 of the ratio, limited to eight times chance; its text counts the
    links from the cluster of the row to the cluster of the column. Chance keeps every cluster's
    number of out- and of in-links. Self-loops and weights do not count. Grey: none to be expected.

    Parameters
    ----------
    graph : Graph
    labels : sequence of n clusters or classes
    ax : matplotlib Axes, optional

    Returns
    -------
    matplotlib Axes
    """
    labels = np.asarray(labels)
    if labels.shape != (graph.n_nodes,):
        raise ParameterError(
            f"labels has shape {labels.shape}, the graph has {graph.n_nodes} nodes",
            remedy="Give one label per node",
        )
    names, clusters = np.unique(labels, return_inverse=True)
    k = len(names)
    links = link_matrix(graph.adjacency, clusters.astype(np.int64), k)
    ax = _axes(ax)
    image = _diverging_image(ax, links.log_ratio, FULL_COLOUR)
    for at in np.arange(1, k) - 0.5:
        ax.axhline(at, color="white", linewidth=1)
        ax.axvline(at, color="white", linewidth=1)
    # An undirected link within a cluster is seen from both of its ends.
    halves = 1 if graph.directed else 1 + np.eye(k, dtype=np.int64)
    if k <= COUNTED_CLUSTERS:
        _write_counts(ax, links.observed // halves, image.get_array())
    ax.set_xticks(range(k), [str(name) for name in names])
    ax.set_yticks(range(k), [str(name) for name in names])
    ax.set_xlabel("to cluster" if graph.directed else "cluster")
    ax.set_ylabel("from cluster" if graph.directed else "cluster")
    ax.set_title(
        f"{_percent(links.within)} of links stay in their cluster\n"
        f"(by chance {_percent(links.within_expected)})"
    )
    _ratio_bar(ax, image, "links, times chance")
    return ax


def plot_similarity(
    model: HeNCler,
    graph: Graph | None = None,
    ax: Any = None,
    max_nodes: int = 200,
    *,
    view: str | None = None,
) -> Any:
    r"""The learned asymmetric similarity S, ordered by cluster.

    Row i, column j: how similar node i as a source is to node j as a target, against what their
    degrees alone would give, :math:`S_{ij} S_{\cdot\cdot} / (S_{i\cdot} S_{\cdot j})`; S itself
    where it has negative entries or a degree of zero. The title has the asymmetry
    :math:`\|S - S'\|_F / \|S\|_F`, which is 0 for a symmetric S and at most 1.41 for S >= 0.

    Parameters
    ----------
    model : HeNCler, fitted
    graph : Graph, optional
        The graph the model was fitted on; needed after :meth:`HeNCler.load`.
    ax : matplotlib Axes, optional
    max_nodes : int
        Of a larger graph so many nodes are drawn at random, from each cluster its share.
    view : str, optional
        One of the model's similarities alone, by its name in ``views_`` or ``"learned"``: the
        cosine of :math:`\Sigma^{-1/2} e_i` and :math:`\Sigma^{-1/2} r_j` in k components. Their
        product is S without noise, and the cosine leaves the degrees out. It needs no graph.

    Returns
    -------
    matplotlib Axes
    """
    check_is_fitted(model)
    labels = model.labels_
    if graph is not None and graph.n_nodes != len(labels):
        raise ParameterError(
            f"the graph has {graph.n_nodes} nodes, the model was fitted on {len(labels)}",
            remedy="Give the graph the model was fitted on",
        )
    k = int(labels.max()) + 1
    nodes = stratified(labels, k, max(1, max_nodes), np.random.default_rng(0))
    nodes = nodes[np.argsort(labels[nodes], kind="stable")]
    ax = _axes(ax)
    if view is None:
        s = np.asarray(model.similarity(nodes, nodes, graph=graph), dtype=np.float64)
        _draw_similarity(ax, s)
    else:
        s = cosines(model, view, nodes)
        image = _diverging_image(ax, s, 1.0)
        ax.figure.colorbar(image, ax=ax, label="cosine", fraction=0.046, pad=0.03)
    _cluster_ticks(ax, labels[nodes])
    ax.set_xlabel("node as a target, by cluster")
    ax.set_ylabel("node as a source, by cluster")
    name = "" if view is None else f" by {view}"
    ax.set_title(f"learned similarity{name}\nasymmetry {asymmetry(s):.2f}")
    return ax


def plot_embedding(model: Any, ax: Any = None, side: str = "e") -> Any:
    """The nodes in the plane in which their embedding varies most, coloured by cluster.

    Parameters
    ----------
    model : HeNCler or WKSVD, fitted
    ax : matplotlib Axes, optional
    side : {"e", "r"}
        Nodes as sources, or as targets.

    Returns
    -------
    matplotlib Axes
        Of more than 5,000 nodes a sample is drawn, from each cluster its share.
    """
    check_is_fitted(model)
    if side not in ("e", "r"):
        raise ParameterError(f"side={side!r} is not a side", remedy="Choose 'e' or 'r'")
    z = model.e_ if side == "e" else model.r_
    labels = _labels(model, side, len(z))
    k = int(labels.max()) + 1
    nodes = stratified(labels, k, EMBEDDED_NODES, np.random.default_rng(0))
    plane = leading_plane(z, nodes)
    ax = _axes(ax)
    for c in np.unique(labels[nodes]):
        points = plane.points[labels[nodes] == c]
        ax.scatter(
            *points.T,
            s=16,
            color=COLOURS[c % len(COLOURS)],
            marker=SHAPES[(c + c // len(COLOURS)) % len(SHAPES)],
            edgecolors="white",
            linewidths=0.3,
            alpha=0.85,
            label=str(c),
        )
    if 1 < k <= COUNTED_CLUSTERS:
        ax.legend(title="cluster", fontsize="small", markerscale=1.3, framealpha=0.8)
    for axis, share in zip((ax.xaxis, ax.yaxis), plane.explained):
        axis.set_label_text(f"{_percent(share)} of the variance")
        axis.set_ticks([])
    ax.set_title(f"embedding {side}, as {'sources' if side == 'e' else 'targets'}")
    return ax


def plot_singular_values(model: Any, ax: Any = None) -> Any:
    """The singular values of each similarity of the model.

    Parameters
    ----------
    model : HeNCler or WKSVD, fitted
    ax : matplotlib Axes, optional

    Returns
    -------
    matplotlib Axes
    """
    check_is_fitted(model)
    ax = _axes(ax)
    parts = spectra(model)
    for i, (name, sigma) in enumerate(parts.items()):
        ax.plot(
            np.arange(1, len(sigma) + 1),
            sigma,
            color=COLOURS[i],
            marker=SHAPES[i],
            markersize=4,
            linewidth=1,
            label=name or None,
        )
    if len(parts) > 1:
        ax.legend(title="similarity", fontsize="small")
    ax.set_ylim(bottom=0)
    ax.xaxis.get_major_locator().set_params(integer=True)
    ax.set_xlabel("component")
    ax.set_ylabel("singular value")
    return ax


def plot_history(model: HeNCler, ax: Any = None) -> Any:
    """The losses of every epoch, of the presets that train by gradient.

    Parameters
    ----------
    model : HeNCler, fitted
    ax : matplotlib Axes, optional

    Returns
    -------
    matplotlib Axes
        With a scale that is linear between -1 and 1 and logarithmic beyond.
    """
    check_is_fitted(model)
    if not model.history_:
        raise ParameterError(
            f"a model with preset={model.preset!r} and epochs={model.epochs} has no history",
            remedy="Use preset='paper' or 'released'; the default is solved without epochs",
        )
    ax = _axes(ax)
    epochs = [record["epoch"] for record in model.history_]
    for i, name in enumerate(key for key in model.history_[0] if key != "epoch"):
        values = [record[name] for record in model.history_]
        ax.plot(epochs, values, LINES.get(name, "-"), color=COLOURS[i % len(COLOURS)], label=name)
    ax.set_yscale("symlog", linthresh=1)
    ax.legend(fontsize="small")
    ax.set_xlabel("epoch")
    ax.set_ylabel("loss")
    return ax


# --- parts ------------------------------------------------------------------------------------


def _axes(ax: Any) -> Any:
    pyplot = optional_import("matplotlib.pyplot", "a picture")
    return pyplot.subplots(layout="constrained")[1] if ax is None else ax


def _percent(share: float) -> str:
    return "none" if np.isnan(share) else f"{share:.0%}"


def _diverging_image(ax: Any, values: NDArray[Any], end: float) -> Any:
    """Image of values limited to [-end, end], white at 0; grey where there is none."""
    colours = optional_import("matplotlib.colors", "a picture")
    scale = colours.LinearSegmentedColormap.from_list("chance", [LESS, EVEN, MORE])
    limited = np.ma.masked_invalid(np.clip(values, -end, end))
    return ax.imshow(limited, cmap=scale.with_extremes(bad=UNDEFINED), vmin=-end, vmax=end)


def _draw_similarity(ax: Any, s: NDArray[np.float64]) -> None:
    relative = against_chance(s)
    if relative is None:
        image = ax.imshow(s, cmap="cividis")
        ax.figure.colorbar(image, ax=ax, label="S", fraction=0.046, pad=0.03)
        return
    with np.errstate(divide="ignore"):
        image = _diverging_image(ax, np.log2(relative), FULL_COLOUR)
    _ratio_bar(ax, image, "similarity, times chance")


def _ratio_bar(ax: Any, image: Any, label: str) -> None:
    bar = ax.figure.colorbar(image, ax=ax, label=label, fraction=0.046, pad=0.03)
    bar.set_ticks([-3, -2, -1, 0, 1, 2, 3], labels=["⅛", "¼", "½", "1", "2", "4", "8"])


def _write_counts(ax: Any, counts: NDArray[np.int64], colour: Any) -> None:
    strong = np.abs(np.ma.filled(colour, 0.0)) > 0.75 * FULL_COLOUR
    for a, b in np.ndindex(counts.shape):
        ax.text(
            b,
            a,
            f"{counts[a, b]:,}",
            ha="center",
            va="center",
            fontsize="small",
            color="white" if strong[a, b] else "black",
        )


def _cluster_ticks(ax: Any, labels: NDArray[np.int64]) -> None:
    """Lines between the clusters of sorted nodes, and each cluster's number at its middle."""
    clusters, starts = np.unique(labels, return_index=True)
    ends = np.append(starts[1:], len(labels))
    for at in starts[1:] - 0.5:
        ax.axhline(at, color="black", linewidth=0.6)
        ax.axvline(at, color="black", linewidth=0.6)
    ticks = (starts + ends - 1) / 2
    ax.set_xticks(ticks, [str(c) for c in clusters], fontsize="small")
    ax.set_yticks(ticks, [str(c) for c in clusters], fontsize="small")
    ax.tick_params(length=0)


def _labels(model: Any, side: str, n: int) -> NDArray[np.int64]:
    """Clusters of the nodes; a WKSVD has them for each side, or not at all."""
    name = "labels_"
    if hasattr(model, "row_weights_"):
        name = "row_labels_" if side == "e" else "column_labels_"
    return np.asarray(getattr(model, name, np.zeros(n, dtype=np.int64)))
