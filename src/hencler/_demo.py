"""The demo: one embedded graph, three simpler methods, HeNCler."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from ._config import write_settings
from ._estimator import HeNCler
from ._run import write_run
from .baselines import KMeans, SpectralClustering, SpectralCoclustering
from .datasets import make_heterophilous_graph
from .metrics import adjusted_rand_index, normalized_mutual_information

__all__ = ["run_demo"]


def run_demo(folder: Path, seed: int) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Fit all methods, write HeNCler's run folder, return the table's rows and the summary."""
    graph = make_heterophilous_graph(random_state=seed)
    assert graph.y is not None
    k = len(set(graph.y.tolist()))
    model = HeNCler(k, random_state=seed)
    methods = {
        "KMeans on the attributes": KMeans(k, random_state=seed),
        "spectral, symmetrised graph": SpectralClustering(k, random_state=seed),
        "spectral co-clustering of A": SpectralCoclustering(k, random_state=seed),
        "HeNCler": model,
    }
    rows: list[dict[str, Any]] = []
    for name, method in methods.items():
        start = time.perf_counter()
        labels = method.fit_predict(graph)
        rows.append(
            {
                "method": name,
                "nmi": normalized_mutual_information(labels, graph.y),
                "ari": adjusted_rand_index(labels, graph.y),
                "seconds": time.perf_counter() - start,
            }
        )
    seconds = rows[-1]["seconds"]
    summary = write_run(
        folder, graph, model, seconds=seconds, source="the demo's graph", truth=graph.y
    )
    settings = {"graph": folder / "graph.npz", "truth": folder / "truth.csv"}
    write_settings(folder, settings | {"clusters": k, "seed": seed})
    return rows, summary
