"""The default on generated graphs of many kinds, beside each of its explicit views alone.

Real graphs with known classes are few, and the default was made on some of them. These are many:
links between clusters follow one of several patterns, attributes are absent, normal or words, and
either may say nothing. Number and sizes of the clusters, degrees, hubs and directions are drawn.
The best single view of each graph is what a choice with the labels would have given.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from itertools import product
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple, get_args

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from .._estimator import HeNCler
from .._graph import Graph
from .._views import View
from ..metrics import adjusted_rand_index, normalized_mutual_information
from ._record import environment, write_json

__all__ = ["Case", "cases", "make", "render", "run"]

PATTERNS = ("assortative", "disassortative", "ring", "blocks", "bipartite", "none")
ATTRIBUTES = ("absent", "normal", "words")
_SIGNALS, _LINK_SIGNALS = (0.0, 1.5, 3.0), (0.3, 0.8)
_COLUMNS, _WORDS, _WORDS_PER_NODE = 24, 400, 25


class Case(NamedTuple):
    """One graph: which clusters link to which, what attributes say, how strongly, and a seed."""

    pattern: str
    attributes: str
    attribute_signal: float
    link_signal: float
    seed: int


def cases(seeds: int) -> Iterator[Case]:
    """All in which the links or the attributes tell the clusters apart."""
    for pattern, attributes, signal, links, seed in product(
        PATTERNS, ATTRIBUTES, _SIGNALS, _LINK_SIGNALS, range(seeds)
    ):
        silent = attributes == "absent" or signal == 0
        weak = pattern == "none" or links < max(_LINK_SIGNALS)
        repeated = attributes == "absent" and signal > 0
        if not (
            repeated or (silent and weak) or (pattern == "none" and links > min(_LINK_SIGNALS))
        ):
            yield Case(pattern, attributes, signal, links, seed)


def make(case: Case) -> Graph:
    """The graph of a case, with its clusters as `y`."""
    place = (PATTERNS.index(case.pattern), ATTRIBUTES.index(case.attributes))
    strength = (int(10 * case.attribute_signal), int(10 * case.link_signal))
    rng = np.random.default_rng((*place, *strength, case.seed))
    n, k = int(rng.choice([300, 800])), int(rng.choice([3, 4, 6, 8]))
    sizes = rng.dirichlet(np.full(k, 2.0)) if rng.random() < 0.5 else np.ones(k)
    sizes = np.maximum(sizes / sizes.sum(), 0.3 / k)
    y = np.r_[np.arange(k), rng.choice(k, n - k, p=sizes / sizes.sum())]
    links = _links(y, _plan(case.pattern, k, rng), case.link_signal, rng)
    directed = bool(rng.random() < 0.6)
    x: Any = None
    if case.attributes == "normal":
        means = rng.standard_normal((k, _COLUMNS))
        means *= case.attribute_signal / np.linalg.norm(means, axis=1, keepdims=True)
        x = means[y] + rng.standard_normal((n, _COLUMNS))
    elif case.attributes == "words":
        x = _words(y, case.attribute_signal / 6, rng)
    return Graph(links if directed else links.maximum(links.T), x, directed=directed, y=y)


def _plan(pattern: str, k: int, rng: np.random.Generator) -> NDArray[np.float64]:
    """How often a node of one cluster links to one of another, shape (k, k)."""
    if pattern == "blocks":
        return rng.gamma(0.3, size=(k, k))
    if pattern == "bipartite":
        side = np.arange(k) < k // 2
        return rng.gamma(0.5, size=(k, k)) * (side[:, None] & ~side)
    plans = {"assortative": np.eye(k), "ring": np.roll(np.eye(k), 1, axis=1)}
    return plans.get(pattern, np.ones((k, k)) - (pattern == "disassortative") * np.eye(k))


def _links(
    y: NDArray[Any], plan: NDArray[Any], signal: float, rng: np.random.Generator
) -> sp.csr_array:
    """A share `signal` of the links follows the plan, the rest joins nodes at random."""
    n, k = len(y), len(plan)
    hubs = rng.random() < 0.5
    weights = [rng.pareto(2.5, n) + 0.3 if hubs else np.ones(n) for _ in range(2)]
    count = int(n * rng.choice([2, 5, 12]))
    share = np.bincount(y, minlength=k) / n
    wanted = plan * np.outer(share, share)
    chance = signal * wanted / wanted.sum() + (1 - signal) * np.outer(share, share)
    pairs = rng.choice(k * k, count, p=chance.ravel() / chance.sum())
    ends = np.empty((2, count), dtype=np.int64)
    for side, clusters in enumerate((pairs // k, pairs % k)):
        for c in range(k):
            members, at = np.flatnonzero(y == c), np.flatnonzero(clusters == c)
            weight = weights[side][members]
            ends[side, at] = rng.choice(members, len(at), p=weight / weight.sum())
    links = sp.csr_array((np.ones(count), (ends[0], ends[1])), shape=(n, n))
    links.data[:] = 1.0
    return links


def _words(y: NDArray[Any], share: float, rng: np.random.Generator) -> sp.csr_array:
    """0/1 words of nodes; a share of them is drawn from the cluster's topic."""
    common = rng.dirichlet(np.full(_WORDS, 0.3))
    topics = rng.dirichlet(common * _WORDS * 0.3 + 1e-3, size=int(y.max()) + 1)
    lengths = 3 + rng.poisson(_WORDS_PER_NODE, len(y))
    drawn = [
        rng.multinomial(m, (1 - share) * common + share * topics[c]) for m, c in zip(lengths, y)
    ]
    return sp.csr_array(np.minimum(np.stack(drawn), 1).astype(np.float64))


def run(
    out: str | Path,
    *,
    seeds: int = 2,
    jobs: int = 1,
    progress: Callable[[dict[str, Any]], None] | None = None,
) -> dict[str, Any]:
    """Fit all :func:`cases`, `jobs` at a time, and write the scores to `out`."""
    rows: list[dict[str, Any]] = []
    with ExitStack() as stack:
        over: Any = map
        if jobs > 1:
            pool = ProcessPoolExecutor(jobs, mp_context=get_context("spawn"))
            over = stack.enter_context(pool).map
        for row in over(_measured, cases(seeds)):
            rows.append(row)
            if progress is not None:
                progress(row)
    payload = {"seeds": seeds, "environment": environment(), "graphs": rows}
    write_json(out, payload)
    return payload


def _measured(case: Case) -> dict[str, Any]:
    graph = make(case)
    truth: Any = graph.y
    k, shown = len(np.unique(truth)), graph.without_labels()
    row: dict[str, Any] = {**case._asdict(), "nodes": graph.n_nodes, "links": graph.n_edges}
    row |= {"clusters": k, "directed": graph.directed}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        labels = HeNCler(k, random_state=0).fit_predict(shown)
        row |= {
            "nmi": normalized_mutual_information(labels, truth),
            "ari": adjusted_rand_index(labels, truth),
        }
        views = get_args(View) if graph.x is not None else ("links",)
        row["views"] = {
            view: normalized_mutual_information(
                HeNCler(k, view=view, learned_maps=False, random_state=0).fit_predict(shown), truth
            )
            for view in views
        }
    return row


def render(payload: dict[str, Any]) -> str:
    """Means over the graphs of each pattern, in Markdown."""
    views = get_args(View)
    head = ["links", "attributes", "graphs", "default", *views, "best view", "largest loss"]
    lines = ["| " + " | ".join(head) + " |", "|---|---|" + "---:|" * (len(head) - 2)]
    rows: Sequence[dict[str, Any]] = payload["graphs"]
    groups = [(p, a) for p in PATTERNS for a in ATTRIBUTES]
    for pattern, attributes in [*groups, ("all", "all")]:
        some = [
            row
            for row in rows
            if pattern == "all" or (row["pattern"], row["attributes"]) == (pattern, attributes)
        ]
        if not some:
            continue
        best = [max(row["views"].values()) for row in some]
        loss = max(b - row["nmi"] for b, row in zip(best, some))
        means = [np.mean([row["nmi"] for row in some])]
        means += [np.mean([row["views"].get(view, np.nan) for row in some]) for view in views]
        cells = ["" if np.isnan(m) else f"{100 * m:.1f}" for m in (*means, np.mean(best))]
        lost = f"{100 * max(loss, 0.0):.1f}"
        lines.append("| " + " | ".join([pattern, attributes, str(len(some)), *cells, lost]) + " |")
    return "\n".join(lines) + "\n"
