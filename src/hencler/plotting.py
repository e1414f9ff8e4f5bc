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

from ._errors import ParameterError, did_you_mean
from ._estimator import HeNCler
from ._graph import Graph
from ._link_matrix import link_matrix
from ._optional import optional_import
from ._stability import Stability
from ._stratified import stratified
from .report._certainty import certainty
from .report._map import circle_of_clusters, leading_plane, neighbourhoods
from .report._profile import attribute_table
from .report._similarity import against_chance, asymmetry, cosines, spectra
from .report._views import DISSOLVED, STABLE, matched_order

__all__ = [
    "plot_attributes",
    "plot_certainty",
    "plot_confusion",
    "plot_embedding",
    "plot_graph",
    "plot_history",
    "plot_links",
    "plot_similarity",
    "plot_singular_values",
    "plot_sizes",
    "plot_stability",
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

EMBEDDED_NODES, MAPPED_NODES, DRAWN_NODES = 5_000, 1_000, 300

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

    Examples
    --------
    >>> from hencler import make_heterophilous_graph
    >>> from hencler.plotting import plot_links
    >>> graph = make_heterophilous_graph(60, 3, random_state=0)
    >>> print(plot_links(graph, graph.y).get_title())
    12% of links stay in their cluster
    (by chance 30%)
    """
    labels = _checked_labels(graph, labels)
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

    Examples
    --------
    >>> from hencler import HeNCler, make_heterophilous_graph
    >>> from hencler.plotting import plot_similarity
    >>> model = HeNCler(3, random_state=0).fit(make_heterophilous_graph(60, 3, random_state=0))
    >>> ax = plot_similarity(model)
    >>> ax.get_xlabel(), ax.get_ylabel()
    ('node as a target, by cluster', 'node as a source, by cluster')
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


def plot_embedding(
    model: Any, ax: Any = None, side: str = "e", *, layout: str = "components"
) -> Any:
    """The nodes by their embedding in two dimensions, coloured by cluster.

    Parameters
    ----------
    model : HeNCler or WKSVD, fitted
    ax : matplotlib Axes, optional
    side : {"e", "r"}
        Nodes as sources, or as targets.
    layout : {"components", "neighbours"}
        The plane in which the embedding varies most, or a map that keeps each node's neighbours
        (t-SNE of the cosines), on which gaps and sizes of groups mean nothing.

    Returns
    -------
    matplotlib Axes
        Of more than 5,000 nodes, or 1,000 for a map of neighbours, a sample is drawn, from each
        cluster its share.

    Examples
    --------
    >>> from hencler import HeNCler, make_heterophilous_graph
    >>> from hencler.plotting import plot_embedding
    >>> model = HeNCler(3, random_state=0).fit(make_heterophilous_graph(60, 3, random_state=0))
    >>> plot_embedding(model, side="r").get_title()
    'embedding r, as targets'
    """
    check_is_fitted(model)
    if side not in ("e", "r"):
        raise ParameterError(f"side={side!r} is not a side", remedy="Choose 'e' or 'r'")
    if layout not in ("components", "neighbours"):
        raise ParameterError(
            f"layout={layout!r} is not a layout",
            remedy=did_you_mean(layout, ("components", "neighbours")),
        )
    z = model.e_ if side == "e" else model.r_
    labels = _labels(model, side, len(z))
    k = int(labels.max()) + 1
    limit = EMBEDDED_NODES if layout == "components" else MAPPED_NODES
    nodes = stratified(labels, k, limit, np.random.default_rng(0))
    plane = leading_plane(z, nodes)
    near = neighbourhoods(z[nodes]) if layout == "neighbours" else None
    places = plane.points if near is None else near
    ax = _axes(ax)
    for c in np.unique(labels[nodes]):
        points = places[labels[nodes] == c]
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
        axis.set_label_text(f"{_percent(share)} of the variance" if near is None else "")
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

    Examples
    --------
    >>> from hencler import HeNCler, make_heterophilous_graph
    >>> from hencler.plotting import plot_singular_values
    >>> model = HeNCler(3, random_state=0).fit(make_heterophilous_graph(60, 3, random_state=0))
    >>> ax = plot_singular_values(model)
    >>> ax.get_xlabel(), ax.get_ylabel()
    ('component', 'singular value')
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

    Examples
    --------
    >>> from hencler import HeNCler, make_heterophilous_graph
    >>> from hencler.plotting import plot_history
    >>> graph = make_heterophilous_graph(60, 3, random_state=0)
    >>> model = HeNCler(3, preset="paper", epochs=2, n_init=1, random_state=0).fit(graph)
    >>> ax = plot_history(model)
    >>> [line.get_label() for line in ax.get_lines()]
    ['loss', 'wksvd', 'node', 'edge']
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


def plot_sizes(labels: ArrayLike, ax: Any = None) -> Any:
    """How many nodes each cluster has.

    Parameters
    ----------
    labels : sequence of n clusters or classes
    ax : matplotlib Axes, optional

    Returns
    -------
    matplotlib Axes

    Examples
    --------
    >>> from hencler.plotting import plot_sizes
    >>> [int(bar.get_width()) for bar in plot_sizes([0, 1, 1, 2, 1]).patches]
    [1, 3, 1]
    """
    names, counts = np.unique(np.asarray(labels), return_counts=True)
    ax = _axes(ax)
    bars = ax.barh(range(len(names)), counts, color=_colours(len(names)))
    ax.bar_label(bars, [f"{count:,}" for count in counts], padding=3, fontsize="small")
    ax.set_yticks(range(len(names)), [str(name) for name in names])
    ax.invert_yaxis()
    ax.margins(x=0.12)
    ax.set_xlabel("nodes")
    ax.set_ylabel("cluster")
    return ax


def plot_certainty(model: HeNCler, ax: Any = None) -> Any:
    r"""How sure each node's cluster is: the margins of every cluster, sorted.

    With a the distance to the centre of a node's own cluster in [e | r] and b that to the nearest
    other one, the margin is :math:`(b - a) / \max(a, b)`: 1 on the centre, 0 halfway between two,
    negative where another centre is nearer (the simplified silhouette).

    Parameters
    ----------
    model : HeNCler, fitted, with two clusters at least
    ax : matplotlib Axes, optional

    Returns
    -------
    matplotlib Axes

    Examples
    --------
    >>> from hencler import HeNCler, make_heterophilous_graph
    >>> from hencler.plotting import plot_certainty
    >>> model = HeNCler(3, random_state=0).fit(make_heterophilous_graph(60, 3, random_state=0))
    >>> plot_certainty(model).get_title().startswith("median certainty 0.")
    True
    """
    check_is_fitted(model)
    names, clusters = np.unique(model.labels_, return_inverse=True)
    if len(names) < 2:
        raise ParameterError("one cluster has no margins", remedy="Ask for two clusters at least")
    z = np.hstack([model.e_, model.r_])
    margin = certainty(z, clusters.astype(np.int64), len(names)).margin
    ax = _axes(ax)
    start, gap, middles = 0.0, 0.02 * len(clusters), []
    for c, colour in enumerate(_colours(len(names))):
        values = np.sort(margin[clusters == c])
        ax.fill_betweenx(start + np.arange(len(values)), 0, values, color=colour, linewidth=0)
        middles.append(start + len(values) / 2)
        start += len(values) + gap
    ax.axvline(0, color="black", linewidth=0.8)
    ax.set_yticks(middles, [str(name) for name in names])
    ax.invert_yaxis()
    ax.set_xlabel("certainty")
    ax.set_ylabel("nodes by cluster")
    ax.set_title(f"median certainty {np.median(margin):.2f}")
    return ax


def plot_stability(stability: Stability, ax: Any = None) -> Any:
    """How far each cluster comes back with other seeds.

    Parameters
    ----------
    stability : what :meth:`HeNCler.stability` returned
    ax : matplotlib Axes, optional

    Returns
    -------
    matplotlib Axes
        Lines at 0.75, above which a cluster is taken as stable, and 0.5, below which as dissolved.

    Examples
    --------
    >>> from hencler import HeNCler, make_heterophilous_graph
    >>> from hencler.plotting import plot_stability
    >>> model = HeNCler(3, random_state=0).fit(make_heterophilous_graph(60, 3, random_state=0))
    >>> [bar.get_text() for bar in plot_stability(model.stability(n_runs=2)).texts]
    ['1.00', '1.00', '1.00']
    """
    values = np.nan_to_num(stability.clusters)
    ax = _axes(ax)
    bars = ax.barh(range(len(values)), values, color=_colours(len(values)))
    ax.bar_label(bars, [f"{value:.2f}" for value in values], padding=3, fontsize="small")
    for level in (DISSOLVED, STABLE):
        ax.axvline(level, color="black", linewidth=0.8, linestyle=":")
    ax.set_yticks(range(len(values)))
    ax.invert_yaxis()
    ax.set_xlim(0, 1.12)
    ax.set_xlabel("Jaccard similarity with its best match")
    ax.set_ylabel("cluster")
    ax.set_title(f"agreement over seeds {stability.agreement:.2f}")
    return ax


def plot_confusion(labels: ArrayLike, classes: ArrayLike, ax: Any = None) -> Any:
    """Known classes against clusters; columns are ordered so that matches lie on the diagonal.

    A cell's colour is the share of its class, its text the number of nodes. To be looked at when
    the clusters are final: what is chosen by it is no clustering without labels.

    Parameters
    ----------
    labels : sequence of n clusters
    classes : sequence of n classes
    ax : matplotlib Axes, optional

    Returns
    -------
    matplotlib Axes

    Examples
    --------
    >>> from hencler.plotting import plot_confusion
    >>> ax = plot_confusion([1, 1, 0, 0], ["a", "a", "b", "b"])
    >>> [tick.get_text() for tick in ax.get_xticklabels()]
    ['1', '0']
    """
    labels, classes = np.asarray(labels), np.asarray(classes)
    if labels.shape != classes.shape or labels.ndim != 1:
        raise ParameterError(
            f"labels has shape {labels.shape}, classes {classes.shape}",
            remedy="Give one cluster and one class per node",
        )
    columns, found = np.unique(labels, return_inverse=True)
    rows, known = np.unique(classes, return_inverse=True)
    table = np.zeros((len(rows), len(columns)), dtype=np.int64)
    np.add.at(table, (known, found), 1)
    order = matched_order(table)
    table, columns = table[:, order], columns[order]
    share = table / table.sum(axis=1, keepdims=True)
    ax = _axes(ax)
    image = ax.imshow(share, cmap="Blues", vmin=0, vmax=1.25, aspect="auto")
    if max(table.shape) <= 2 * COUNTED_CLUSTERS:
        for a, b in np.ndindex(table.shape):
            colour = "white" if share[a, b] > 0.8 else "black"
            ax.text(b, a, f"{table[a, b]:,}", ha="center", va="center", color=colour)
    ax.set_xticks(range(len(columns)), [str(name) for name in columns])
    ax.set_yticks(range(len(rows)), [str(name) for name in rows])
    ax.set_xlabel("cluster")
    ax.set_ylabel("class")
    image.set_clim(0, 1.25)
    return ax


def plot_attributes(
    graph: Graph, labels: ArrayLike, cluster: Any, ax: Any = None, count: int = 6
) -> Any:
    """What distinguishes a cluster: the attributes most over- and most under-represented in it.

    Parameters
    ----------
    graph : Graph with attributes
    labels : sequence of n clusters
    cluster : one of them
    ax : matplotlib Axes, optional
    count : int
        Attributes on each side.

    Returns
    -------
    matplotlib Axes
        Bars are mean inside minus mean of all other nodes, in standard deviations over all nodes.

    Examples
    --------
    >>> from hencler import make_heterophilous_graph
    >>> from hencler.plotting import plot_attributes
    >>> graph = make_heterophilous_graph(60, 3, random_state=0)
    >>> ax = plot_attributes(graph, graph.y, 0, count=2)
    >>> ax.get_title()
    'cluster 0, 20 nodes'
    """
    labels = _checked_labels(graph, labels)
    names, clusters = np.unique(labels, return_inverse=True)
    if graph.x is None or cluster not in names.tolist():
        raise ParameterError(
            "the graph has no attributes" if graph.x is None else f"no node is in {cluster!r}",
            remedy="Give a graph with attributes and one of its clusters",
        )
    at = names.tolist().index(cluster)
    table = attribute_table(graph.x, clusters.astype(np.int64), len(names))
    difference = table.difference[at]
    order = np.argsort(-difference, kind="stable")
    chosen = [j for j in order[:count] if difference[j] > 0]
    chosen += [j for j in order[::-1][:count][::-1] if difference[j] < 0]
    words = graph.attribute_names
    ax = _axes(ax)
    colours = [MORE if difference[j] > 0 else LESS for j in chosen]
    ax.barh(range(len(chosen)), difference[chosen], color=colours)
    ax.axvline(0, color="black", linewidth=0.8)
    ticks = [f"column {j}" if words is None else str(words[j]) for j in chosen]
    ax.set_yticks(range(len(chosen)), ticks)
    ax.invert_yaxis()
    ax.set_xlabel("difference from all other nodes, in standard deviations")
    ax.set_title(f"cluster {cluster}, {int((clusters == at).sum())} nodes")
    return ax


def plot_graph(graph: Graph, labels: ArrayLike, ax: Any = None) -> Any:
    """The graph itself, where it is small enough to be read: every cluster a disc of its nodes.

    A link has the colour of the cluster it comes from and bends to its left; within a disc the
    nodes with most links are inmost.

    Parameters
    ----------
    graph : Graph of at most 300 nodes
    labels : sequence of n clusters or classes
    ax : matplotlib Axes, optional

    Returns
    -------
    matplotlib Axes

    Examples
    --------
    >>> from hencler import make_heterophilous_graph
    >>> from hencler.plotting import plot_graph
    >>> graph = make_heterophilous_graph(60, 3, random_state=0)
    >>> ax = plot_graph(graph, graph.y)
    >>> [text.get_text() for text in ax.texts]
    ['0', '1', '2']
    """
    labels = _checked_labels(graph, labels)
    if graph.n_nodes > DRAWN_NODES:
        raise ParameterError(
            f"a drawing of {graph.n_nodes} nodes cannot be read",
            remedy=f"Use plot_links, or a graph of at most {DRAWN_NODES} nodes",
        )
    names, clusters = np.unique(labels, return_inverse=True)
    clusters = clusters.astype(np.int64)
    into = np.bincount(graph.adjacency.indices, minlength=graph.n_nodes)
    degrees = np.diff(graph.adjacency.indptr) + into
    points, centres, radii = circle_of_clusters(clusters, degrees, len(names))
    colours = np.array(_colours(len(names)))
    ax = _axes(ax)
    _draw_links(ax, graph, points, colours[clusters])
    ax.scatter(*points.T, s=22, color=colours[clusters], edgecolors="white", linewidths=0.5)
    outward = centres / np.maximum(np.linalg.norm(centres, axis=1), 1e-9)[:, None]
    for name, place in zip(names, centres + outward * (radii + 1.1)[:, None]):
        ax.text(*place, str(name), ha="center", va="center", weight="bold")
    ax.set_aspect("equal")
    ax.invert_yaxis()
    ax.axis("off")
    return ax


# --- parts ------------------------------------------------------------------------------------


def _axes(ax: Any) -> Any:
    pyplot = optional_import("matplotlib.pyplot", "a picture")
    return pyplot.subplots(layout="constrained")[1] if ax is None else ax


def _checked_labels(graph: Graph, labels: ArrayLike) -> NDArray[Any]:
    labels = np.asarray(labels)
    if labels.shape != (graph.n_nodes,):
        raise ParameterError(
            f"labels has shape {labels.shape}, the graph has {graph.n_nodes} nodes",
            remedy="Give one label per node",
        )
    return labels


def _colours(k: int) -> list[str]:
    return [COLOURS[c % len(COLOURS)] for c in range(k)]


def _draw_links(ax: Any, graph: Graph, points: NDArray[Any], colours: NDArray[Any]) -> None:
    paths = optional_import("matplotlib.path", "a picture")
    collections = optional_import("matplotlib.collections", "a picture")
    edges = graph.adjacency.tocoo()
    keep = edges.row != edges.col if graph.directed else edges.row < edges.col
    tail, head = points[edges.row[keep]], points[edges.col[keep]]
    step = head - tail
    bend = (tail + head) / 2 + 0.14 * np.stack([step[:, 1], -step[:, 0]], axis=1)
    codes = [paths.Path.MOVETO, paths.Path.CURVE3, paths.Path.CURVE3]
    curves = [paths.Path(each, codes) for each in np.stack([tail, bend, head], axis=1)]
    alpha = float(np.clip(10 / np.sqrt(max(1, len(curves))), 0.1, 0.6))
    ax.add_collection(
        collections.PathCollection(
            curves,
            facecolors="none",
            edgecolors=colours[edges.row[keep]].tolist(),
            linewidths=0.7,
            alpha=alpha,
            zorder=0,
        )
    )


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
