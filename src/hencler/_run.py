"""A run: fit a graph and leave a folder with everything about it."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ._errors import FileFormatError, HenclerError, ParameterError
from ._estimator import HeNCler
from ._folders import make_folder, staged
from ._graph import Graph
from ._link_matrix import link_matrix
from .datasets import load_dataset
from .io import align_labels, atomic_write, read_graph, read_labels, write_labels, write_npz
from .metrics import evaluate

__all__ = ["open_graph", "read_run", "truth_labels", "write_run"]

DATASET_PREFIX = "dataset:"

WHOLE_NODES = 200_000
"""Up to so many nodes a run's report shows all; beyond, a random sample of `SAMPLE_NODES`."""

SAMPLE_NODES = 50_000

STABILITY = "stability.json"
"""In the sample of a large graph, whose report cannot find the clusters again by itself."""

WHOLE = "whole.npz"
"""In such a sample: what is counted over all nodes and links, k x k numbers."""

COUNTED_CLUSTERS = 4_096
"""With more clusters that table would be larger than the sample, and is left out."""


def open_graph(
    source: str,
    features: Path | None = None,
    label: str | None = None,
    directed: bool | None = None,
    bipartite: bool = False,
) -> Graph:
    """Graph from ``dataset:NAME`` or a file."""
    if source.startswith(DATASET_PREFIX):
        if bipartite:
            raise ParameterError(
                "only a table of links can be read as bipartite",
                place=source,
                remedy="Leave --bipartite out",
            )
        graph = load_dataset(source.removeprefix(DATASET_PREFIX))
        return graph if directed is not False else graph.to_undirected()
    return read_graph(
        source, features=features, label=label, directed=directed, bipartite=bipartite
    )


def truth_labels(graph: Graph, truth: str | None) -> np.ndarray[Any, Any] | None:
    """Classes to compare with: a table, ``dataset`` for those of the graph, or none."""
    if truth is None:
        return None
    if truth == "dataset":
        if graph.y is None:
            raise HenclerError(
                "the graph has no classes of its own",
                place="--truth dataset",
                remedy="Name a table with the columns node and class",
            )
        return graph.y
    return align_labels(graph.ids, read_labels(truth))


def write_run(
    folder: Path,
    graph: Graph,
    model: HeNCler,
    *,
    seconds: float,
    source: str,
    truth: np.ndarray[Any, Any] | None = None,
    warnings: list[str] | None = None,
) -> dict[str, Any]:
    """Write all files of a run and return its summary.

    ``labels.csv`` (node,cluster), ``embeddings.npz`` (e, r, singular_values), ``model/``,
    ``history.jsonl``, ``graph.npz`` (for the report), ``metrics.json`` (with truth) and
    ``run.json`` (what was run, on what). Of a graph with more than :data:`WHOLE_NODES` nodes the
    folder ``sample`` holds what the report needs of some of them, in place of ``graph.npz``.
    The files change together: an error before the last of them is written, such as a full disk,
    leaves an earlier run as it was.
    """
    make_folder(folder)
    with staged(folder, last="run.json") as staging:
        summary = _write_files(
            staging, graph, model, seconds=seconds, source=source, truth=truth, warnings=warnings
        )
        fresh = {path.relative_to(staging) for path in staging.rglob("*")}
    # What an earlier run left and this one does not renew would be taken for its result.
    stale = [Path(n) for n in ("metrics.json", "truth.csv", "report.html", "graph.npz")]
    for pattern in ("model/tensors-*.safetensors", "sample/*"):
        stale += [path.relative_to(folder) for path in folder.glob(pattern)]
    for name in set(stale) - fresh:
        (folder / name).unlink(missing_ok=True)
    return summary


def _write_files(
    folder: Path,
    graph: Graph,
    model: HeNCler,
    *,
    seconds: float,
    source: str,
    truth: np.ndarray[Any, Any] | None,
    warnings: list[str] | None,
) -> dict[str, Any]:
    write_labels(folder / "labels.csv", graph.ids, model.labels_)
    model.save(folder / "model")
    _write_embeddings(folder, model, slice(None))
    _write_history(folder, model)
    metrics = None
    if truth is not None:
        metrics = evaluate(model.labels_, truth)
        _write_json(folder / "metrics.json", metrics)
        write_labels(folder / "truth.csv", graph.ids, truth)
    sizes = np.bincount(model.labels_, minlength=int(model.labels_.max()) + 1)
    summary = {
        "graph": source,
        "nodes": graph.n_nodes,
        "edges": graph.n_edges,
        "directed": graph.directed,
        "attributes": graph.n_attributes,
        "settings": model.settings(),
        "seconds": round(seconds, 3),
        "cluster_sizes": sizes.tolist(),
        "warnings": warnings or [],
        "finished": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        **({"metrics": metrics} if metrics is not None else {}),
    }
    if graph.n_nodes <= WHOLE_NODES:
        write_npz(graph.without_labels(), folder / "graph.npz")
    else:
        _write_sample(folder, graph, model, summary, truth)
    _write_json(folder / "run.json", summary)
    return summary


def _write_sample(
    folder: Path, graph: Graph, model: HeNCler, summary: dict[str, Any], truth: Any
) -> None:
    """A run folder of some nodes, with the links among them, for the report."""
    inside = folder / "sample"
    make_folder(inside)
    nodes = _sampled(model.labels_, SAMPLE_NODES)
    part = graph.without_labels().subgraph(nodes)
    write_npz(part, inside / "graph.npz")
    write_labels(inside / "labels.csv", part.ids, model.labels_[nodes])
    _write_embeddings(inside, model, nodes)
    _write_history(inside, model)
    counted = _write_whole(inside / WHOLE, graph, model.labels_)
    if truth is not None:
        _write_json(inside / "metrics.json", summary["metrics"])
        write_labels(inside / "truth.csv", part.ids, np.asarray(truth)[nodes])
    stable = model.stability(n_runs=4, max_nodes=1_000)
    found = {"clusters": stable.clusters.tolist(), "agreement": stable.agreement}
    _write_json(inside / STABILITY, found)
    note = f"The report shows a random sample of {len(nodes):,} of {graph.n_nodes:,} nodes"
    note += "; the sizes of clusters and the links between them are those of all" * counted
    _write_json(inside / "run.json", summary | {"warnings": [*summary["warnings"], note]})


def _sampled(labels: NDArray[np.int64], size: int) -> NDArray[np.int64]:
    """Nodes drawn at random, and one of each cluster that has none among them; sorted."""
    nodes = np.random.default_rng(0).choice(len(labels), size, replace=False)
    seen = np.zeros(int(labels.max()) + 1, dtype=bool)
    seen[labels[nodes]] = True
    others = np.flatnonzero(~seen[labels])
    _, first = np.unique(labels[others], return_index=True)
    return np.sort(np.concatenate([nodes, others[first]]))


def _write_whole(path: Path, graph: Graph, labels: NDArray[np.int64]) -> bool:
    """Sizes, links and isolated nodes of the whole graph, which its sample cannot tell."""
    k = int(labels.max()) + 1
    if k > COUNTED_CLUSTERS:
        return False
    links = link_matrix(graph.adjacency, labels, k)
    with atomic_write(path, mode="wb") as file:
        np.savez(
            file,
            sizes=np.bincount(labels, minlength=k),
            links=links.observed,
            self_loops=links.self_loops,
            isolated=graph.n_isolated,
        )
    return True


def _write_embeddings(folder: Path, model: HeNCler, nodes: Any) -> None:
    with atomic_write(folder / "embeddings.npz", mode="wb") as file:
        e, r = model.e_[nodes], model.r_[nodes]
        np.savez(file, e=e, r=r, singular_values=model.singular_values_)


def _write_history(folder: Path, model: HeNCler) -> None:
    with atomic_write(folder / "history.jsonl", mode="w") as file:
        file.writelines(json.dumps(record) + "\n" for record in model.history_)


def read_run(folder: Path) -> dict[str, Any]:
    """The summary of a run folder."""
    path = folder / "run.json"
    try:
        summary = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise FileFormatError(
            "there is no run here",
            place=str(folder),
            remedy="Name a folder that 'hencler fit --out' wrote",
        ) from error
    except (OSError, ValueError, RecursionError) as error:
        raise FileFormatError(
            f"the summary cannot be read ({error})", place=str(path), remedy="Run fit again"
        ) from error
    if not isinstance(summary, dict):
        raise FileFormatError(
            "this is not the summary of a run", place=str(path), remedy="Run fit again"
        )
    return summary


def _write_json(path: Path, payload: dict[str, Any]) -> None:
    with atomic_write(path, mode="w") as file:
        json.dump(payload, file, indent=1)
        file.write("\n")
