"""How well the label-free score ranks clusterings, and the estimated number of clusters.

On each graph many clusterings are made: HeNCler by each view, with and without learned maps, and
simple baselines, over several seeds; then some of them with a share of the nodes exchanged at
random. The rank correlation (Spearman) of their score with their NMI says how far the score can be
trusted to pick among clusterings. Labels are seen by the NMI alone.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
import warnings
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.stats import rankdata, spearmanr

from .._base import GraphClusterer
from .._errors import DatasetError, HenclerError
from .._estimator import HeNCler
from .._graph import Graph
from .._scoring import Scorer, estimate_n_clusters
from .._views import View
from ..baselines import METHODS
from ..datasets import load_dataset, make_heterophilous_graph
from ..metrics import contingency, normalized_mutual_information
from ._record import environment, write_json

__all__ = ["GENERATED", "GRAPHS", "KNOWN", "make_known", "run"]

GRAPHS = (
    "texas",
    "wisconsin",
    "chameleon",
    "cora",
    "citeseer",
    "minesweeper",
    "celegans",
    "drosophila-left",
    "serengeti",
    "polblogs",
    # not looked at while the score was made:
    "cornell",
    "drosophila-right",
)
GENERATED = ("generated:0", "generated:1")
"""Graphs of the generator, as ``generated:SEED``."""

KNOWN = tuple(
    (kind, k)
    for kind in ("assortative", "disassortative", "cyclic", "blobs", "words")
    for k in (2, 3, 5, 8)
)
"""Kinds and numbers of clusters of :func:`make_known`."""

PLAIN: tuple[View, ...] = ("own", "links")
"""Views of the score without a choice, for comparison."""

_SEEDS = 3
_RESTARTS = 10
_EXCHANGED = (0.15, 0.3, 0.6)


def run(
    out: str | Path = "benchmarks/results/scoring.json",
    graphs: Sequence[str] = (*GRAPHS, *GENERATED),
    known: Sequence[tuple[str, int]] = KNOWN,
    *,
    jobs: int = 1,
) -> dict[str, Any]:
    """Measure, write to `out`, and return what was written.

    The file is written anew after each graph, so that a run cut short leaves what it had.

    Parameters
    ----------
    out : path of the JSON file
    graphs : names of benchmark graphs, or ``generated:SEED``; those not found are skipped
    known : kinds and numbers of clusters of :func:`make_known`
    jobs : graphs measured at a time, each in a process of its own if more than one
    """
    results: list[dict[str, Any]] = []
    payload = _payload(results, graphs)
    with ExitStack() as stack:
        over: Any = map
        if jobs > 1:
            over = stack.enter_context(
                ProcessPoolExecutor(jobs, mp_context=get_context("spawn"))
            ).map
        numbers = over(_counted_known, known)
        for result in over(_measured, graphs):
            results.append(result)
            payload = _payload(results, graphs)
            write_json(out, payload)
        payload["n_clusters_known"] = list(numbers)
    write_json(out, payload)
    return payload


def _payload(results: Sequence[dict[str, Any]], graphs: Sequence[str]) -> dict[str, Any]:
    done = [each for each in results if "ranking" in each]
    ranks = [each["ranking"] for each in done]
    return {
        "benchmark": "label-free score",
        "environment": environment(),
        "ranking": [{k: v for k, v in row.items() if k != "clusterings"} for row in ranks],
        "pooled": _pooled(ranks),
        "n_clusters": [each["n_clusters"] for each in done],
        "n_clusters_known": [],
        "skipped": [each for each in results if "ranking" not in each],
        "pending": list(graphs[len(results) :]),
    }


def _measured(name: str) -> dict[str, Any]:
    try:
        graph = _load(name)
    except DatasetError as error:
        return {"data": name, "why": str(error)}
    return {"ranking": _ranked(name, graph), "n_clusters": _counted(name, graph)}


def _counted_known(kind_and_k: tuple[str, int]) -> dict[str, Any]:
    kind, k = kind_and_k
    return _counted(kind, make_known(kind, k, seed=k))


def _load(name: str) -> Graph:
    if name.startswith("generated:"):
        return make_heterophilous_graph(random_state=int(name.partition(":")[2]))
    return load_dataset(name)


def _true_k(graph: Graph) -> int:
    assert graph.y is not None
    return int(contingency(np.zeros(graph.n_nodes, dtype=int), graph.y).shape[0])


# --- ranking -------------------------------------------------------------------------------------


def _ranked(name: str, graph: Graph) -> dict[str, Any]:
    """Rank correlations of the scores with NMI on one graph."""
    k = _true_k(graph)
    assert graph.y is not None
    made = list(_clusterings(graph, k))
    scorer = Scorer(graph.without_labels())
    start = time.perf_counter()
    views = scorer.views_for(k)
    choice_seconds = time.perf_counter() - start
    nmi = np.array([normalized_mutual_information(each, graph.y) for _, _, each in made])
    kinds = np.array([kind for kind, _, _ in made])
    scorer.views = views
    start = time.perf_counter()
    score = np.array([scorer.parts(each)["score"] for _, _, each in made])
    seconds = (time.perf_counter() - start) / len(made)
    real, restarts = np.isin(kinds, ["method", "baseline"]), kinds == "restart"
    row = {
        "data": name,
        "n_clusters": k,
        "views": list(views),
        "clusterings": [
            {"kind": kind, "name": label, "nmi": a, "score": b}
            for (kind, label, _), a, b in zip(made, nmi, score)
        ],
        "count": int(real.sum()),
        "spearman": _spearman(score[real], nmi[real]),
        "spearman_with_exchanged": _spearman(score[~restarts], nmi[~restarts]),
        "spearman_restarts_of_kmeans": _spearman(score[restarts], nmi[restarts]),
        "nmi_of_best_score": float(nmi[real][np.argmax(score[real])]),
        "nmi_best": float(nmi[real].max()),
        "nmi_mean": float(nmi[real].mean()),
        "seconds_per_clustering": seconds,
        "seconds_choice_of_views": choice_seconds,
    }
    if scorer.preparation is not None:
        scorer.views = PLAIN
        plain = np.array([scorer.parts(each)["score"] for _, _, each in made])
        row["spearman_own_and_links"] = _spearman(plain[real], nmi[real])
    return row


def _clusterings(graph: Graph, k: int) -> Iterator[tuple[str, str, NDArray[Any]]]:
    """Kind, name and clusters of each clustering."""
    rng = np.random.default_rng(0)
    for kind, name, seed, method in _methods(graph, k):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                labels = method.fit_predict(graph)
            except HenclerError:  # a baseline for other data: words, say
                continue
        yield kind, f"{name}, seed {seed}", labels
        if seed == 0 and kind != "restart":
            for share in _EXCHANGED:
                some = np.flatnonzero(rng.random(graph.n_nodes) < share)
                mixed = labels.copy()
                mixed[some] = labels[rng.permutation(some)]
                yield "exchanged", f"{name}, {share:.0%} exchanged", mixed


def _methods(graph: Graph, k: int) -> Iterator[tuple[str, str, int, GraphClusterer]]:
    views = ["links"] if graph.x is None else ["own", "neighbours", "smooth", "links"]
    for view in views:
        for seed in range(_SEEDS):
            model = HeNCler(k, view=view, learned_maps=False, random_state=seed)
            yield "method", f"HeNCler {view}", seed, model
    yield "method", "HeNCler", 0, HeNCler(k, random_state=0)
    if graph.x is not None:
        for view in ("own", "smooth"):
            yield "method", f"HeNCler {view}, learned", 0, HeNCler(k, view=view, random_state=0)
    for name in ("kmeans", "spectral", "coclustering", "content"):
        for seed in range(_SEEDS):
            yield "baseline", name, seed, METHODS[name](n_clusters=k, random_state=seed)
    for seed in range(_RESTARTS):
        method = METHODS["kmeans"](n_clusters=k, random_state=100 + seed)
        yield "restart", "kmeans", 100 + seed, method


def _spearman(a: NDArray[Any], b: NDArray[Any]) -> float | None:
    """None where all values of one side are the same."""
    if len(a) < 2 or np.ptp(a) == 0 or np.ptp(b) == 0:
        return None
    return float(spearmanr(a, b)[0])


def _pooled(rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Correlation of ranks within each graph over all graphs' clusterings, and plain means."""
    ours: list[float] = []
    truth: list[float] = []
    for row in rows:
        real = [c for c in row["clusterings"] if c["kind"] in ("method", "baseline")]
        for pool, key in ((ours, "score"), (truth, "nmi")):
            ranks = rankdata([c[key] for c in real])
            pool.extend((ranks - ranks.mean()) / len(real))
    pooled: dict[str, Any] = {"clusterings": len(ours)}
    pooled["rank_correlation"] = float(np.corrcoef(ours, truth)[0, 1]) if len(ours) > 1 else None
    for key in ("spearman", "spearman_own_and_links", "spearman_restarts_of_kmeans"):
        values = [row[key] for row in rows if row.get(key) is not None]
        pooled[f"mean_{key}"] = float(np.mean(values)) if values else None
    return pooled


# --- number of clusters --------------------------------------------------------------------------


def _counted(name: str, graph: Graph) -> dict[str, Any]:
    start = time.perf_counter()
    k, table = estimate_n_clusters(graph.without_labels(), random_state=0)
    return {
        "data": name,
        "nodes": graph.n_nodes,
        "true": _true_k(graph),
        "estimated": k,
        "agreement": [row["agreement"] for row in table],
        "above_null": sum(row["above_null"] for row in table) + 1,
        "seconds": time.perf_counter() - start,
    }


def make_known(kind: str, k: int, *, n: int = 400, seed: int = 0) -> Graph:
    """Graph with k clusters by construction.

    Parameters
    ----------
    kind : ``"assortative"`` (links within clusters), ``"disassortative"`` (to any other) or
        ``"cyclic"`` (to the next, directed): links only, a fifth of them at random;
        ``"blobs"`` (normal) or ``"words"`` (counts): attributes only
    """
    rng = np.random.default_rng(seed)
    y = rng.permutation(np.arange(n) % k)
    if kind in ("assortative", "disassortative", "cyclic"):
        ends = rng.integers(n, size=(2, 8 * n))
        other = rng.integers(1, k, ends.shape[1])
        step = {"assortative": 0, "disassortative": other, "cyclic": 1}[kind]
        target = (y[ends[0]] + step) % k
        planned = rng.random(ends.shape[1]) < 0.8
        for c in range(k):
            at = np.flatnonzero(planned & (target == c))
            ends[1, at] = rng.choice(np.flatnonzero(y == c), len(at))
        links = sp.csr_array((np.ones(ends.shape[1]), (ends[0], ends[1])), shape=(n, n))
        links.data[:] = 1.0
        return Graph(links, directed=kind == "cyclic", y=y)
    if kind == "blobs":
        x: Any = 2 * rng.standard_normal((k, 16))[y] + rng.standard_normal((n, 16))
    else:
        topics = 0.7 * rng.dirichlet(np.full(300, 0.1), k) + 0.3 * rng.dirichlet(np.full(300, 0.5))
        x = sp.csr_array(
            np.stack([rng.multinomial(20 + rng.poisson(10), topics[c]) for c in y]).astype(float)
        )
    return Graph(sp.csr_array((n, n)), x, directed=False, y=y)


def main(arguments: Sequence[str] | None = None) -> int:
    """``python -m hencler.bench.scoring [GRAPH ...] [--out FILE] [--jobs N]``."""
    parser = argparse.ArgumentParser(prog="python -m hencler.bench.scoring", description=__doc__)
    parser.add_argument("graphs", nargs="*", default=(*GRAPHS, *GENERATED))
    parser.add_argument("--out", default="benchmarks/results/scoring.json")
    parser.add_argument("--jobs", type=int, default=1, help="graphs measured at a time")
    chosen = parser.parse_args(arguments)
    try:
        payload = run(chosen.out, chosen.graphs, jobs=chosen.jobs)
        print(json.dumps(payload["pooled"], indent=2))
    except HenclerError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
