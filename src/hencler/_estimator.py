"""HeNCler, the scikit-learn face of it all."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import replace
from numbers import Integral, Real
from os import PathLike
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn import get_config
from sklearn.base import TransformerMixin
from sklearn.utils import Tags, estimator_html_repr
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted, validate_data

from . import __version__
from ._assign import KMeansAssigner
from ._base import Callback, Epoch, GraphClusterer, few_threads
from ._closed_form import ClosedFormModel
from ._display import fitted_html
from ._errors import GraphError, ModelFileError, ParameterError
from ._graph import Graph, as_graph, row_blocks
from ._memory import MemoryPlan, closed_form_plan, network_plan
from ._network import NetworkModel, default_batch_size
from ._order import canonical_order, order_bytes, restored
from ._persistence import CheckpointFile, read_model, write_model
from ._progress import announce
from ._ranks import current_ranks
from ._scoring import estimate_n_clusters, score_clustering
from ._stability import Reassign, Stability, compare, repeat
from ._stratified import stratified
from ._torch import resolve_device
from ._training import TrainingSettings

__all__ = ["HeNCler"]


class HeNCler(TransformerMixin, GraphClusterer):  # type: ignore[misc]
    r"""Cluster the nodes of a graph by a learned asymmetric similarity.

    Two feature maps phi and psi give every node two roles, as a source and as a target of
    similarity, :math:`S = \Phi\Psi'`. The weighted kernel SVD of S gives each node the embeddings
    e (as a source) and r (as a target), and clusters are found in them. Linked nodes need not be
    alike: what links mean is taken from the data.

    Parameters
    ----------
    n_clusters : int or "auto", default 8
        ``"auto"``: the number at which two halves of the data, clustered apart, agree best.
    preset : {"default", "paper", "released"}
        ``"default"``: maps in closed form, chosen and trained without labels; no epochs.
        ``"paper"``: two networks trained by gradient, the text of the paper with the least change
        that makes it well defined. ``"released"``: behaves as the code its authors published.
    n_components : int, optional
        Dimension s of e and of r, per similarity; by default 3 k, and 2 k for the networks.
    view : {"auto", "own", "neighbours", "smooth", "links"}
        *default only.* How the explicit maps look at a node; ``"auto"`` goes by the evidence.
    learned_maps : bool
        *default only.* Whether maps trained on hidden attributes and links take part.
    shared_map : bool
        *Networks only.* One map for both roles, as in the paper's ablation "undirected".
    losses : {"all", "reconstruction", "wksvd"}
        *Networks only.* Which losses are trained, as in the paper's other ablations.
    epochs : int, default 300
        *Networks only.*
    learning_rate : float, default 0.01
        *Networks only.*
    batch_size : int, optional
        *Networks only.* Nodes per step; by default all up to 100,000 nodes, 8,192 beyond.
    n_init : int, default 10
        KMeans runs for each similarity and dimension of the default (large graphs: at most 4);
        starts of the last KMeans of the networks.
    device : {"auto", "cpu", "cuda"} or torch.device
        *Networks only*; the default runs on the CPU.
    callback : callable, optional
        *Networks only.* Called with an :class:`~hencler._base.Epoch` after every epoch.
    checkpoint : path, optional
        *Networks only.* Folder in which an unfinished training is kept.
    checkpoint_seconds : float, default 30
        *Networks only.* Least time between two checkpoints. It grows with what they cost, so
        that they take less than 2 % of the training.
    checkpoint_epochs : int, optional
        *Networks only.* Epochs after which one is written in any case.
    resume : bool
        *Networks only.* Go on from the checkpoint, if there is one.
    random_state : int, RandomState or None
        The same seed gives the same clusters, bit for bit on a CPU.

    Attributes
    ----------
    labels_ : array of shape (n,)
        Cluster of every node, 0 ... n_clusters_ - 1.
    n_clusters_ : int
    e_, r_ : arrays of shape (n, s)
        Embeddings as a source and as a target; several similarities stand side by side. These and
        the clusters are, over several processes, those of all nodes on the first of them alone.
    singular_values_ : array of shape (s,)
    evidence_ : dict
        *default only.* The label-free statistics by which views were chosen.
    views_ : tuple of str
        *default only.* The explicit views that were chosen.
    history_ : list of dict
        Losses of every epoch; empty for the default.
    interrupted_ : bool
        Whether Ctrl-C ended the training before its last epoch.
    n_features_in_ : int

    Examples
    --------
    >>> from hencler import HeNCler, make_heterophilous_graph
    >>> from hencler.metrics import adjusted_rand_index
    >>> graph = make_heterophilous_graph(random_state=0)
    >>> model = HeNCler(n_clusters=4, random_state=0).fit(graph)
    >>> model.views_
    ('neighbours', 'links')
    >>> round(adjusted_rand_index(model.labels_, graph.y), 2)
    1.0

    References
    ----------
    Achten, Op de Beeck, Tonin, Cevher & Suykens: HeNCler: Node Clustering in Heterophilous Graphs
    via Learned Asymmetric Similarity. ICANN 2025.
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "n_clusters": [Interval(Integral, 1, None, closed="left"), StrOptions({"auto"})],
        "preset": [StrOptions({"default", "paper", "released"})],
        "n_components": [None, Interval(Integral, 1, None, closed="left")],
        "view": [StrOptions({"auto", "own", "neighbours", "smooth", "links"})],
        "learned_maps": ["boolean"],
        "shared_map": ["boolean"],
        "losses": [StrOptions({"all", "reconstruction", "wksvd"})],
        "epochs": [Interval(Integral, 0, None, closed="left")],
        "learning_rate": [Interval(Real, 0, None, closed="neither")],
        "batch_size": [None, Interval(Integral, 1, None, closed="left")],
        "n_init": [Interval(Integral, 1, None, closed="left")],
        "device": [str, torch.device],
        "callback": [None, callable],
        "checkpoint": [None, str, Path],
        "checkpoint_seconds": [Interval(Real, 0, None, closed="left")],
        "checkpoint_epochs": [None, Interval(Integral, 1, None, closed="left")],
        "resume": ["boolean"],
        "random_state": ["random_state"],
    }

    def __init__(
        self,
        n_clusters: int | str = 8,
        *,
        preset: str = "default",
        n_components: int | None = None,
        view: str = "auto",
        learned_maps: bool = True,
        shared_map: bool = False,
        losses: str = "all",
        epochs: int = 300,
        learning_rate: float = 0.01,
        batch_size: int | None = None,
        n_init: int = 10,
        device: str | torch.device = "auto",
        callback: Callback | None = None,
        checkpoint: str | Path | None = None,
        checkpoint_seconds: float = 30.0,
        checkpoint_epochs: int | None = None,
        resume: bool = False,
        random_state: Any = None,
    ) -> None:
        self.n_clusters = n_clusters
        self.preset = preset
        self.n_components = n_components
        self.view = view
        self.learned_maps = learned_maps
        self.shared_map = shared_map
        self.losses = losses
        self.epochs = epochs
        self.learning_rate = learning_rate
        self.batch_size = batch_size
        self.n_init = n_init
        self.device = device
        self.callback = callback
        self.checkpoint = checkpoint
        self.checkpoint_seconds = checkpoint_seconds
        self.checkpoint_epochs = checkpoint_epochs
        self.resume = resume
        self.random_state = random_state

    # --- fitting ---------------------------------------------------------------------------

    def fit(self, X: Any, y: Any = None, *, edges: Any = None) -> Self:
        """Cluster the nodes of a graph.

        Parameters
        ----------
        X : Graph, PyG ``Data``, networkx graph, or attributes of shape (n, d)
        y : ignored; labels are for evaluation after the fact
        edges : matrix (n, n) or integer array (2, E), beside attributes only

        Returns
        -------
        self
        """
        self._check_parameters()
        graph = self._as_graph(X, edges, reset=True)
        self._check_n_clusters(graph.n_nodes)
        if graph.x is None and graph.adjacency.nnz == 0:
            raise GraphError(
                "the graph has neither edges nor attributes, so nothing tells its nodes apart",
                remedy="Give edges, attributes, or both",
            )
        self._fit(graph)
        return self

    def plan_memory(self, X: Any, *, edges: Any = None) -> MemoryPlan:
        """The memory that :meth:`fit` will take beyond the graph itself.

        A fit that cannot fit is refused with a :class:`~hencler._errors.ResourceError` before it
        starts.

        Parameters
        ----------
        X, edges : as for :meth:`fit`
        """
        self._check_parameters()
        return self._plan(as_graph(X, edges), resolve_device(self.device))

    def _plan(self, graph: Graph, device: torch.device) -> MemoryPlan:
        k = 10 if self.n_clusters == "auto" else int(self.n_clusters)
        if self.preset == "default":
            plan = closed_form_plan(graph, n_clusters=k, n_components=self.n_components or 3 * k)
        else:
            plan = network_plan(
                graph,
                n_components=self.n_components or 2 * k,
                batch_size=self.batch_size or default_batch_size(graph.n_nodes),
                on_cpu=device.type == "cpu",
                ranks=current_ranks(device),
            )
        if taken := order_bytes(graph):
            plan = replace(plan, kept=plan.kept | {"graph in its own order": taken})
        return plan

    def _fit(self, graph: Graph) -> None:
        seed = self._seed()
        device = resolve_device(self.device)
        self._plan(graph, device).require(_REMEDIES[self.preset == "default"])
        # Random draws are by position, which must not depend on the order in the file.
        order = canonical_order(graph)
        ordered = graph if order is None else graph.subgraph(order)
        if self.n_clusters == "auto":
            with few_threads(graph.n_nodes):
                self.n_clusters_ = estimate_n_clusters(ordered, random_state=seed)[0]
        else:
            self.n_clusters_ = int(self.n_clusters)
        self._model: ClosedFormModel | NetworkModel
        if self.preset == "default":
            with few_threads(graph.n_nodes):
                self._model = model = self._fit_closed_form(ordered, seed)
            self.views_, self.evidence_ = model.views, model.evidence
            self.history_: list[dict[str, float]] = []
        else:
            self._model = network = self._fit_network(ordered, order, seed, device)
            self.history_ = network.history
        if order is not None:
            self._model.restore_order(order, graph.ids)
        self.e_, self.r_, self.labels_ = self._model.take_fitted()
        self.interrupted_ = self.preset != "default" and len(self.history_) < self.epochs
        self.singular_values_ = self._model.singular_values
        self._graph = graph

    def _fit_closed_form(self, graph: Graph, seed: int) -> ClosedFormModel:
        view = None if self.view == "auto" else self.view
        if view is not None and view != "links" and graph.x is None:
            raise ParameterError(
                f"view={view!r} needs attributes, and the graph has none",
                remedy="Use view='auto' or 'links'",
            )
        model = ClosedFormModel(learn=self.learned_maps, view=view)  # type: ignore[arg-type]
        return model.fit(graph, self.n_clusters_, self.n_components, self.n_init, seed)

    def _fit_network(
        self, graph: Graph, order: NDArray[np.int64] | None, seed: int, device: torch.device
    ) -> NetworkModel:
        k = self.n_clusters_

        def on_epoch(epoch: int, losses: Any, embedding: Any) -> None:
            def clusters() -> NDArray[np.int64]:
                z = embedding()
                # Fresh starts every epoch, as in the released code.
                own = int(np.random.SeedSequence([seed, epoch]).generate_state(1)[0])
                labels = KMeansAssigner().fit(z, k, self.n_init, own).predict(z)
                if order is None or len(labels) < len(order):  # another rank than the first
                    return labels
                return restored(labels, order)

            announce("training", epoch, self.epochs)
            if self.callback is not None:
                self.callback(Epoch(epoch, self.epochs, losses(), clusters))

        return NetworkModel(device).fit(
            graph,
            k,
            TrainingSettings(
                self.epochs,
                self.learning_rate,
                self.batch_size or default_batch_size(graph.n_nodes),
                seed,
            ),
            n_init=self.n_init,
            on_epoch=on_epoch,
            checkpoint=self._checkpoint_file(lambda: _fingerprint(graph, self.settings())),
            n_components=self.n_components or 2 * k,
            variant=self.preset,
            shared_map=self.shared_map,
            losses=self.losses,
        )

    def _checkpoint_file(self, fingerprint: Callable[[], str]) -> CheckpointFile | None:
        if self.checkpoint is None:
            return None
        return CheckpointFile(
            self.checkpoint,
            fingerprint(),
            resume=self.resume,
            seconds=self.checkpoint_seconds,
            epochs=self.checkpoint_epochs,
        )

    def discard_checkpoint(self) -> None:
        """Delete the checkpoint of the training; to be called once the result is safe."""
        checkpoint = self._checkpoint_file(str)
        if checkpoint is not None:
            checkpoint.remove()

    def _as_graph(self, X: Any, edges: Any, *, reset: bool) -> Graph:
        """A graph without labels, checked against the one the model was fitted on."""
        table = not isinstance(X, Graph | str | PathLike)
        if table and not (hasattr(X, "edge_index") or hasattr(X, "adj")):
            kind = [np.float64, np.float32]
            X = validate_data(self, X, accept_sparse="csr", dtype=kind, reset=reset)
        graph = as_graph(X, edges).without_labels()
        if reset:
            self.n_features_in_ = graph.n_attributes
        elif graph.n_attributes != self.n_features_in_:
            raise GraphError(
                f"the graph has {graph.n_attributes} attributes, the model was fitted with "
                f"{self.n_features_in_}",
                remedy="Use the same attribute columns in the same order",
            )
        return graph

    # --- using the fitted model ------------------------------------------------------------

    def predict(self, X: Any, *, edges: Any = None) -> NDArray[np.int64]:
        """Clusters of the nodes of a graph, new or old, shape (n,).

        Examples
        --------
        >>> from hencler import HeNCler, make_heterophilous_graph
        >>> graph = make_heterophilous_graph(60, 3, random_state=0)
        >>> model = HeNCler(3, random_state=0).fit(graph)
        >>> bool((model.predict(graph.subgraph(range(50))) == model.labels_[:50]).mean() > 0.8)
        True
        """
        check_is_fitted(self)
        return self._model.clusters(self._as_graph(X, edges, reset=False))

    def transform(self, X: Any, *, edges: Any = None) -> NDArray[Any]:
        """Embedding [e | r] of the nodes of a graph, shape (n, 2 s).

        Examples
        --------
        >>> from hencler import HeNCler, make_heterophilous_graph
        >>> graph = make_heterophilous_graph(60, 3, random_state=0)
        >>> model = HeNCler(3, random_state=0).fit(graph)
        >>> model.transform(graph).shape == (60, model.e_.shape[1] + model.r_.shape[1])
        True
        """
        check_is_fitted(self)
        return np.hstack(self._model.embed(self._as_graph(X, edges, reset=False)))

    def fit_transform(self, X: Any, y: Any = None, *, edges: Any = None) -> NDArray[Any]:
        """Fit, then the embedding [e | r] of the fitted nodes."""
        self.fit(X, edges=edges)
        return np.hstack([self.e_, self.r_])

    def score(self, X: Any = None, y: Any = None, *, edges: Any = None) -> float:
        """Label-free score of the clusters of a graph, by default of the one fitted on.

        Nats per node that the clusters save in telling the attributes and links they were chosen
        to explain; higher is better, and below 0 they do not pay. Comparable between clusterings
        of the same graph, not between graphs.

        Parameters
        ----------
        X, edges : as for :meth:`fit`; by default the graph the model was fitted on
        y : ignored
        """
        check_is_fitted(self)
        if X is None:
            return score_clustering(self._fitted_graph(), self.labels_)
        graph = self._as_graph(X, edges, reset=False)
        return score_clustering(graph, self._model.clusters(graph))

    def stability(self, *, graph: Any = None, n_runs: int = 8, max_nodes: int = 2_000) -> Stability:
        """How far the clusters come back when they are found anew by other seeds; no labels.

        The embedding stays as it is, and all that leads from it to clusters is repeated: for the
        default every KMeans run and their consensus, for the networks KMeans. How much the
        training itself depends on its seed, only models with another ``random_state`` tell.

        Parameters
        ----------
        graph : the graph the model was fitted on; needed after :meth:`load`
        n_runs : seeds to try
        max_nodes : of a larger graph so many nodes are drawn, from each cluster its share

        Returns
        -------
        Stability
            ``clusters`` of shape (k,), ``nodes`` of shape (n,) and ``agreement``, a number; see
            :class:`hencler._stability.Stability`.

        Examples
        --------
        >>> from hencler import HeNCler, make_heterophilous_graph
        >>> graph = make_heterophilous_graph(random_state=0)
        >>> stable = HeNCler(4, random_state=0).fit(graph).stability(n_runs=2)
        >>> bool(stable.clusters.min() > 0.9)
        True
        """
        check_is_fitted(self)
        graph = self._fitted_graph() if graph is None else graph
        graph = self._as_graph(graph, None, reset=False)
        if n_runs < 1 or graph.n_nodes != len(self.labels_):
            raise ParameterError(
                f"n_runs={n_runs} for a graph of {graph.n_nodes} nodes",
                remedy=f"Give at least one run, and the graph of {len(self.labels_)} nodes",
            )
        nodes = stratified(
            self.labels_,
            self.n_clusters_,
            max(max_nodes, self.n_clusters_),
            np.random.default_rng(0),
        )
        with few_threads(len(nodes)):
            runs = repeat(self._reassigner(graph, self.e_, self.r_), nodes, n_runs)
        return compare(self.labels_, self.n_clusters_, nodes, runs)

    def _reassigner(self, graph: Graph, e: NDArray[Any], r: NDArray[Any]) -> Reassign:
        """From some of a graph's nodes, of the embedding e and r, and a seed to their clusters."""
        if isinstance(self._model, NetworkModel):
            return self._model.reassigner(e, r, self.n_init)
        return self._model.reassigner(graph, self.n_init)

    def _fitted_graph(self) -> Graph:
        graph: Graph | None = getattr(self, "_graph", None)
        if graph is None:
            raise GraphError("a loaded model does not hold its graph", remedy="Pass the graph")
        return graph

    def similarity(self, rows: Any = None, cols: Any = None, *, graph: Any = None) -> NDArray[Any]:
        """Block of the learned asymmetric similarity S = Phi Psi'.

        Parameters
        ----------
        rows, cols : positions of nodes, by default all
        graph : needed after :meth:`load`; by default the graph the model was fitted on

        Returns
        -------
        array of shape (len(rows), len(cols))

        Examples
        --------
        >>> from hencler import HeNCler, make_heterophilous_graph
        >>> graph = make_heterophilous_graph(60, 3, random_state=0)
        >>> model = HeNCler(3, random_state=0).fit(graph)
        >>> s = model.similarity([0, 1], [2, 3, 4])
        >>> s.shape, bool((s >= 0).all())
        ((2, 3), True)
        """
        check_is_fitted(self)
        graph = self._fitted_graph() if graph is None else graph
        graph = self._as_graph(graph, None, reset=False)
        everything = slice(None)
        return self._model.similarity(
            graph,
            everything if rows is None else np.asarray(rows),
            everything if cols is None else np.asarray(cols),
        )

    # --- notebooks ---------------------------------------------------------------------------

    def _repr_html_(self) -> str:
        """scikit-learn's diagram of the settings and, once fitted, what was found."""
        diagram = estimator_html_repr(self)
        return diagram + fitted_html(self) if hasattr(self, "_model") else diagram

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, str]:
        bundle = {"text/plain": repr(self)}
        if get_config()["display"] == "diagram":
            bundle["text/html"] = self._repr_html_()
        return bundle

    # --- saving ------------------------------------------------------------------------------

    def save(self, folder: str | Path) -> None:
        """Write the fitted model to a folder, as safetensors and JSON.

        Examples
        --------
        >>> from hencler import HeNCler, make_heterophilous_graph
        >>> graph = make_heterophilous_graph(60, 3, random_state=0)
        >>> model = HeNCler(3, random_state=0).fit(graph)
        >>> model.save("model")
        >>> bool((HeNCler.load("model").predict(graph) == model.predict(graph)).all())
        True
        """
        check_is_fitted(self)
        header, arrays = self._model.state()
        tensors = {f"model.{k}": v for k, v in arrays.items()}
        for name in _FITTED:
            tensors[f"fitted.{name}"] = np.asarray(getattr(self, name))
        write_model(
            folder,
            {
                "estimator": "HeNCler",
                "hencler": __version__,
                "parameters": self.settings(),
                "n_features_in": int(self.n_features_in_),
                "n_clusters": int(self.n_clusters_),
                "history": self.history_,
                "model": header,
            },
            tensors,
        )

    @classmethod
    def load(cls, folder: str | Path, *, device: str = "auto") -> Self:
        """Read a model that :meth:`save` wrote, on whatever device there is."""
        header, tensors = read_model(folder)
        try:
            if header["estimator"] != "HeNCler":
                raise ValueError(f"it is a {header['estimator']}")
            self = cls(**header["parameters"], device=device)
            parts: dict[str, dict[str, NDArray[Any]]] = {}
            for name, value in tensors.items():
                part, _, key = name.partition(".")
                parts.setdefault(part, {})[key] = value
            self._model = _load_model(header["model"], parts["model"], device)
            for name in _FITTED:
                setattr(self, name, parts["fitted"][name])
            if isinstance(self._model, ClosedFormModel):
                self.views_, self.evidence_ = self._model.views, self._model.evidence
            self.history_ = header["history"]
            self.n_features_in_ = _count(header["n_features_in"], 0)
            self.n_clusters_ = _count(header["n_clusters"], 1)
            if not len(self.labels_) == len(self.e_) == len(self.r_):
                raise ValueError("labels, e and r are of different lengths")
        except (LookupError, TypeError, ValueError, RuntimeError, AttributeError, ArithmeticError,
                MemoryError) as error:  # fmt: skip
            raise ModelFileError(
                f"the model is not complete or not consistent ({error})",
                place=str(folder),
                remedy="Save the model again",
            ) from error
        return self

    def settings(self) -> dict[str, Any]:
        """Parameters that decide on the result, in a form JSON can hold."""
        skip = {"callback", "resume", "device"}
        settings = {
            k: v
            for k, v in self.get_params().items()
            if k not in skip and not k.startswith("checkpoint")
        }
        seed = settings["random_state"]
        settings["random_state"] = int(seed) if isinstance(seed, Integral) else None
        return {k: v.item() if isinstance(v, np.generic) else v for k, v in settings.items()}

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.transformer_tags.preserves_dtype = []
        return tags


_REMEDIES = (
    "Use a smaller batch_size (--batch-size), fewer n_components, or a graph on disk ('hencler "
    "convert')",
    "Use the preset 'paper', which works in batches, or a machine with more memory",
)
"""What helps when memory does not suffice: the networks, the default."""

_FITTED = ("labels_", "e_", "r_", "singular_values_")


def _load_model(
    header: dict[str, Any], arrays: dict[str, NDArray[Any]], device: str
) -> ClosedFormModel | NetworkModel:
    if header["kind"] == "network":
        return NetworkModel.from_state(header, arrays, resolve_device(device))
    return ClosedFormModel.from_state(header, arrays)


def _count(value: Any, least: int) -> int:
    if type(value) is not int or not least <= value < 1 << 31:
        raise ValueError(f"{str(value)[:40]} is no number of clusters or attributes")
    return value


def _fingerprint(graph: Graph, settings: dict[str, Any]) -> str:
    """Digest of the graph and the settings, so that a checkpoint is not continued elsewhere."""
    digest = hashlib.sha256(json.dumps(settings, sort_keys=True).encode())
    parts = [graph.adjacency.indptr, graph.adjacency.indices, graph.adjacency.data]
    if graph.x is not None:
        sparse = hasattr(graph.x, "indptr")
        parts += [graph.x.indptr, graph.x.indices, graph.x.data] if sparse else [graph.x]
    for part in parts:
        digest.update(str((part.shape, part.dtype)).encode())
        # Weights that are all 1 may be one number only, and files are read block by block.
        part = part[:1] if part.strides == (0,) else part
        for rows in row_blocks(len(part), part[:1].size):
            digest.update(np.ascontiguousarray(part[rows]).data)
    return digest.hexdigest()
