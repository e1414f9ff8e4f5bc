"""The report of a run: one HTML file that opens offline, made from the run's folder alone."""

from __future__ import annotations

from pathlib import Path

from ..io import atomic_write
from ._folder import read_folder
from ._page import render

__all__ = ["write_report"]


def write_report(folder: str | Path) -> Path:
    """Write ``report.html`` into the folder of a run.

    Parameters
    ----------
    folder : path
        What ``hencler fit`` wrote: ``run.json``, ``labels.csv``, ``embeddings.npz``,
        ``graph.npz`` and ``model/``; ``history.jsonl``, ``metrics.json`` and ``truth.csv`` where
        there are any.

    Returns
    -------
    path of the report
        The same folder gives the same bytes. Large graphs are sampled, so that the file stays
        below 10 MB; time and memory grow linearly with nodes, edges and attributes.

    Examples
    --------
    >>> from hencler import make_heterophilous_graph
    >>> from hencler.cli import app
    >>> from hencler.io import write_npz
    >>> from hencler.report import write_report
    >>> write_npz(make_heterophilous_graph(60, 3, random_state=0), "graph.npz")
    >>> app(["fit", "graph.npz", "--clusters=3", "--no-report", "--quiet"], standalone_mode=False)
    >>> write_report("hencler-run").name
    'report.html'
    """
    path = Path(folder) / "report.html"
    sample = Path(folder) / "sample"  # what a run on a large graph leaves for the report
    page = render(read_folder(sample if sample.is_dir() else Path(folder)))
    with atomic_write(path, mode="w") as file:
        file.write(page)
    return path
