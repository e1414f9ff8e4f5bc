"""Speed of the trained presets, as ratios between things measured in turn in one run.

Sections, each stored with its own environment so that one can be measured again alone:

* ``epoch``: an epoch of each preset against its *floor*, a bare autoencoder of the same shapes
  (both maps, the decoder, forward, backward, Adam) on dense inputs, and ``released`` against the
  plain full-batch form that its authors' code has.
* ``minibatch``: an epoch in minibatches against the same floor on the same batches.
* ``quality``: honest scores in full batches and in minibatches, which must not differ.
* ``gpu``: ten million nodes in the memory of a GPU, as shares of its measured peaks.
* ``ranks``: an epoch over one and over two processes of this machine, and what they send.
* ``clustering``: time to a finished clustering against every baseline.
"""

from __future__ import annotations

import json
import multiprocessing
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from statistics import mean, median, stdev
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor, nn
from torch.multiprocessing.spawn import spawn
from torch.nn import functional as F

from .. import _training
from .._adam import Adam, Optimiser
from .._errors import HenclerError, ParameterError
from .._graph import Graph
from .._model import HeNClerNet, ModelConfig
from .._network import ENCODING_LENGTH, NetworkModel
from .._ranks import Ranks, current_ranks
from .._replay import Replayed
from .._torch import resolve_device, seeded
from .._training import NodeInputs, TrainingSettings
from ..datasets import DATASETS, make_heterophilous_graph
from ._record import environment, write_json
from .methods import METHODS
from .paper import STAND_IN, TIMED, open_dataset, run_cell

__all__ = ["SECTIONS", "Floor", "PlainReleased", "count_flops", "run"]

PRESETS = ("paper", "released")
SPARSE = ("texas", "wisconsin", "chameleon", "squirrel", "cora", "pubmed")
DENSE = ("minesweeper", "tolokers", "roman-empire", "amazon-ratings")
QUALITY = ("texas", "wisconsin", "chameleon")
_QUALITY_STEPS = 300

_SECONDS = 6.0
_LEAST_ROUNDS, _MOST_ROUNDS = 5, 60

Step = Callable[[int], object]
Say = Callable[[str], None]


def run(
    out: str | Path,
    *,
    device: str = "auto",
    sections: Sequence[str] | None = None,
    graphs: Sequence[str] | None = None,
    seconds: float = _SECONDS,
    seeds: int = 5,
    say: Say | None = None,
) -> dict[str, Any]:
    """Measure some sections, by default all, and write them to the JSON file `out`.

    Parameters
    ----------
    out : path of the file; sections that are there and not measured now are kept
    graphs : names of benchmark graphs; by default those of each section
    seconds : time per comparison; five rounds at least
    seeds : runs per score of the section ``quality``
    say : called with a line about each result
    """
    chosen = list(SECTIONS) if sections is None else list(sections)
    for name in chosen:
        if name not in SECTIONS:
            raise ParameterError(f"no such section: {name!r}", remedy=f"Use {', '.join(SECTIONS)}")
    task = Task(resolve_device(device), graphs, seconds, seeds, say or (lambda _: None))
    path = Path(out)
    payload: dict[str, Any] = {"benchmark": "speed", "sections": {}}
    if path.exists():
        payload = json.loads(path.read_text(encoding="utf-8"))
    for name in chosen:
        rows = []
        for row in SECTIONS[name](task):
            rows.append(row)
            task.say(f"{name}: {_line(row)}")
            entry = {"environment": environment(), "threads": torch.get_num_threads()}
            payload["sections"][name] = {**entry, "rows": rows}
            write_json(path, payload)
    return payload


@dataclass(frozen=True)
class Task:
    device: torch.device
    graphs: Sequence[str] | None
    seconds: float
    seeds: int
    say: Say

    def names(self, default: Sequence[str]) -> Sequence[str]:
        return default if self.graphs is None else self.graphs


def _line(row: dict[str, Any]) -> str:
    shown = {k: round(v, 4) if isinstance(v, float) else v for k, v in row.items()}
    return ", ".join(f"{k} {v}" for k, v in shown.items() if not isinstance(v, dict | list))


# --- what is compared -------------------------------------------------------------------------


@dataclass(frozen=True)
class Subject:
    """A network on a graph, ready to be trained."""

    adjacency: Any
    inputs: NodeInputs
    net: HeNClerNet
    settings: TrainingSettings
    device: torch.device

    @classmethod
    def make(
        cls, graph: Graph, preset: str, device: torch.device, batch_size: int | None = None
    ) -> Subject:
        assert graph.y is not None
        k = len(np.unique(graph.y[graph.y >= 0]))
        model = NetworkModel(device)
        model.links, model.unit = None, 1.0
        return cls.of(graph.adjacency, model.inputs(graph), k, preset, device, batch_size)

    @classmethod
    def of(
        cls,
        adjacency: Any,
        inputs: NodeInputs,
        k: int,
        preset: str,
        device: torch.device,
        batch_size: int | None = None,
    ) -> Subject:
        n_sparse = 0 if inputs.sparse is None else inputs.sparse.shape[1]
        shapes: Any = {
            "n_sparse": n_sparse,
            "n_dense": inputs.width - n_sparse,
            "n_encoding": ENCODING_LENGTH,
            "n_components": 2 * k,
            "variant": preset,
        }
        with seeded(0, device):
            net = HeNClerNet(ModelConfig(**shapes))
        settings = TrainingSettings(seed=0, batch_size=batch_size)
        return cls(adjacency, inputs, net.to(device).train(), settings, device)

    def epochs(self) -> Step:
        optimisers = _training._optimisers(self.net, self.settings)
        full = self.settings.batch_size is None
        make = _training._full_batch_epochs if full else _training._minibatch_epochs
        return make(self.net, self.inputs, self.adjacency, self.settings, optimisers, self.device)

    def beside_floors(self) -> dict[str, Step]:
        """An epoch of ours and one of the floor, on a GPU also of the floor as a CUDA graph."""
        steps = {"hencler": self.epochs(), "floor": self.floor()}
        if self.device.type == "cuda":
            steps["recorded_floor"] = self.floor(recorded=True)
        return steps

    def dense(self) -> Tensor:
        """All inputs as one dense matrix on the device."""
        parts: tuple[Any, ...] = (self.inputs.sparse, self.inputs.dense, self.inputs.encoding)
        arrays = [p.toarray() if sp.issparse(p) else np.asarray(p) for p in parts if p is not None]
        return torch.from_numpy(np.hstack(arrays).astype(np.float32)).to(self.device)

    def floor(self, recorded: bool = False) -> Step:
        """Epochs of the floor; `recorded` as a CUDA graph, as ours are on a GPU."""
        with seeded(0, self.device):
            floor = Floor(self.net.config, self.net.decoder_hidden.out_features).to(self.device)
        adam = Adam(floor.parameters(), 0.01)
        x, size = self.dense(), self.settings.batch_size
        generator = torch.Generator(device=self.device).manual_seed(0)
        order = torch.arange(len(x), device=self.device)
        done = torch.zeros((), dtype=torch.int64, device=self.device)

        def step(count: int) -> tuple[Tensor, ...]:
            chosen = x
            if size is not None:
                chosen = x[order[done + torch.arange(count, device=self.device)]]
                done.add_(count)
            _descend(floor(chosen), adam)
            return ()

        sizes = [len(part) for part in order.split(size or len(x))]
        steps: dict[int, Callable[[], object]] = {s: partial(step, s) for s in sizes}
        if recorded:
            steps = {s: Replayed(partial(step, s), [], generator) for s in sizes}

        def epoch(_: int) -> None:
            if size is not None:
                torch.randperm(len(x), generator=generator, device=self.device, out=order)
                done.zero_()
            for count in sizes:
                steps[count]()

        return epoch


def _descend(loss: Tensor, *optimisers: Optimiser | torch.optim.Optimizer) -> None:
    for optimiser in optimisers:
        optimiser.zero_grad()
    loss.backward()
    for optimiser in optimisers:
        optimiser.step()


class Floor(nn.Module):
    """Bare autoencoder of a network's shapes: what its matrix products and Adam cost alone."""

    def __init__(self, config: ModelConfig, width: int) -> None:
        super().__init__()
        d, h, f = config.n_inputs, config.hidden, config.n_features
        self.phi = nn.Sequential(nn.Linear(d, h), nn.LeakyReLU(), nn.Linear(h, f))
        self.psi = nn.Sequential(nn.Linear(d, h), nn.LeakyReLU(), nn.Linear(h, f))
        self.decoder = nn.Sequential(
            nn.Linear(2 * f, width), nn.LeakyReLU(), nn.Linear(width, config.n_targets)
        )
        self.n_targets = config.n_targets

    def forward(self, x: Tensor) -> Tensor:
        decoded = self.decoder(torch.cat([self.phi(x), self.psi(x)], 1))
        return F.mse_loss(decoded, x[:, : self.n_targets])


class PlainReleased(nn.Module):
    """The released model written down plainly, as its authors' code runs it: dense inputs, one
    product after the other, every epoch 2 n edges and 2 n non-edges drawn anew on the host."""

    def __init__(self, subject: Subject) -> None:
        super().__init__()
        config = subject.net.config
        d, h, f = config.n_inputs, config.hidden, config.n_features
        leaky = nn.LeakyReLU
        self.phi = nn.Sequential(nn.Linear(d, h), leaky(), nn.Linear(h, f), leaky())
        self.psi = nn.Sequential(nn.Linear(d, h), leaky(), nn.Linear(h, f), leaky())
        self.p = nn.Parameter(nn.init.orthogonal_(torch.empty(2 * config.n_components, f)))
        width = (2 * f + d) // 2
        self.decoder = nn.Sequential(nn.Linear(2 * f, width), leaky(), nn.Linear(width, d))
        self.s = config.n_components
        links = subject.adjacency.tocoo()
        self.links = torch.from_numpy(np.stack([links.row, links.col]).astype(np.int64))

    def forward(self, x: Tensor, rng: np.random.Generator) -> Tensor:
        phi, psi = self.phi(x), self.psi(x)
        w1 = 1 / (phi @ psi.sum(0) + 1e-5)
        w2 = 1 / (psi @ phi.sum(0) + 1e-5)
        phi = phi - (w1[:, None] * phi).sum(0) / w1.sum()
        psi = psi - (w2[:, None] * psi).sum(0) / w2.sum()
        u, v = self.p[: self.s].T, self.p[self.s :].T
        e, r = phi @ u, psi @ v
        phi_hat, psi_hat = e @ u.T, r @ v.T
        primal = (w1 * e.norm(dim=1) + w2 * r.norm(dim=1)).mean().square()
        node = F.mse_loss(self.decoder(torch.cat([phi_hat, psi_hat], 1)), x)
        pairs, truth = self._pairs(len(x), rng, x.device)
        logits = (phi_hat[pairs[0]] * psi_hat[pairs[1]]).sum(1)
        return primal + node + F.binary_cross_entropy(torch.sigmoid(logits), truth)

    def _pairs(
        self, n: int, rng: np.random.Generator, device: torch.device
    ) -> tuple[Tensor, Tensor]:
        edges = self.links[:, torch.from_numpy(rng.choice(self.links.shape[1], 2 * n))]
        keys = (self.links[0] * n + self.links[1]).numpy()
        others = rng.integers(n * n, size=2 * n)
        for _ in range(3):
            bad = np.isin(others, keys) | (others // n == others % n)
            others[bad] = rng.integers(n * n, size=int(bad.sum()))
        non_edges = torch.from_numpy(np.stack([others // n, others % n]))
        truth = torch.cat([torch.ones(2 * n), torch.zeros(2 * n)])
        return torch.cat([edges, non_edges], 1).to(device), truth.to(device)


def plain_released(subject: Subject) -> Step:
    """Epochs of :class:`PlainReleased`, with the optimisers as its authors made them."""
    from .._cayley import CayleyAdam

    with seeded(0, subject.device):
        model = PlainReleased(subject).to(subject.device)
    adam = torch.optim.Adam([p for p in model.parameters() if p is not model.p], lr=0.01)
    cayley = CayleyAdam([model.p], lr=0.01)
    x, rng = subject.dense(), np.random.default_rng(0)
    return lambda _: _descend(model(x, rng), adam, cayley)


# --- how it is compared -------------------------------------------------------------------------


def compare(
    steps: dict[str, Step], device: torch.device, seconds: float, several: int | None = None
) -> dict[str, Any]:
    """Median seconds of each step, taken in turn, and median ratios of the first to the others.

    On a GPU several steps are timed as one, so that the host can run ahead as it would in use.
    """
    several = several or (10 if device.type == "cuda" else 1)
    for step in steps.values():
        for i in range(2 * several):
            step(i + 1)
    times: dict[str, list[float]] = {name: [] for name in steps}
    start, rounds = time.monotonic(), 0
    while rounds < _LEAST_ROUNDS or (time.monotonic() - start < seconds and rounds < _MOST_ROUNDS):
        for name, step in steps.items():
            _wait(device)
            begin = time.perf_counter()
            for i in range(several):
                step(2 * several + rounds * several + i + 1)
            _wait(device)
            times[name].append((time.perf_counter() - begin) / several)
        rounds += 1
    first, *others = steps
    ratios = {
        f"{first}_to_{name}": median(a / b for a, b in zip(times[first], times[name]))
        for name in others
    }
    return {
        **{f"{name}_seconds": median(values) for name, values in times.items()},
        **ratios,
        "rounds": rounds,
    }


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def count_flops(config: ModelConfig, width: int, n: int, nnz: int, rows: int) -> dict[str, int]:
    """Floating-point operations of an epoch's matrix products, forward and backward.

    A product of (a, b) and (b, c) counts 2 a b c, with its two gradients three times that, a
    first layer twice (its inputs need none).

    Parameters
    ----------
    width : of the decoder's hidden layer
    nnz : non-zeros of sparse inputs
    rows : nodes on which zeros are looked at
    """
    d, h, f, t = config.n_inputs, config.hidden, config.n_features, config.n_targets
    s, dense = config.n_components, config.n_dense
    maps = 3 * 2 * 2 * n * h * f
    floor = 2 * 2 * 2 * n * d * h + maps + 3 * 2 * n * (2 * f * width + width * t)
    first = 2 * 2 * 2 * (nnz + n * dense) * h
    decoder = 3 * 2 * n * 2 * s * width
    if config.n_sparse and rows < n:
        decoder += 3 * 2 * rows * width * config.n_sparse + 2 * 2 * nnz * width
        decoder += 3 * 2 * n * width * (t - config.n_sparse)
    elif config.n_sparse:
        plain, gram = 3 * n * config.n_sparse, 2 * (n + config.n_sparse) * width
        decoder += 2 * width * (plain if plain <= gram else gram + 2 * nnz)
        decoder += 3 * 2 * n * width * (t - config.n_sparse)
    else:
        decoder += 3 * 2 * n * width * t
    projections = 3 * 2 * 2 * n * f * s
    return {"floor": floor, "hencler": first + maps + projections + decoder}


# --- sections -----------------------------------------------------------------------------------


def epoch_section(task: Task) -> Iterator[dict[str, Any]]:
    """Every preset against the floor; `released` also against its plain form."""
    for name in task.names((*SPARSE, *DENSE)):
        graph, shown = _open(name)
        for preset in PRESETS:
            subject = Subject.make(graph, preset, task.device)
            steps = subject.beside_floors()
            row = _described(subject, shown, preset)
            row |= compare(steps, task.device, task.seconds)
            if preset == "released":
                plain = {"plain": plain_released(subject), "hencler": steps["hencler"]}
                # One at a time: that form waits for the host in every step.
                ratio = compare(plain, task.device, task.seconds, several=1)
                row["plain_to_hencler"] = ratio["plain_to_hencler"]
            yield row


def minibatch_section(task: Task) -> Iterator[dict[str, Any]]:
    """Generated graphs with dense attributes, in minibatches; nodes per second."""
    for n, degree in ((20_000, 10), (40_000, 10), (20_000, 100)):
        graph = make_heterophilous_graph(
            n, 8, directed=True, n_attributes=64, degree=degree, random_state=0
        )
        for preset in PRESETS:
            subject = Subject.make(graph, preset, task.device, batch_size=4096)
            steps = subject.beside_floors()
            row = _described(subject, f"generated:{n}:{degree}", preset)
            row |= {"batch_size": 4096, **compare(steps, task.device, task.seconds)}
            yield row | {"nodes_per_second": n / row["hencler_seconds"]}


_GPU_NODES, _GPU_ATTRIBUTES, _GPU_DEGREE, _GPU_CLUSTERS = 10_000_000, 64, 10, 10


def gpu_section(task: Task) -> Iterator[dict[str, Any]]:
    """Epochs of ten million nodes whose inputs and edges lie in the memory of a GPU.

    Operations and bytes are those of the matrix products alone, every operand read and every result
    written once; the peaks are a large product and a large copy, measured in the same run.
    """
    if task.device.type != "cuda":
        return
    inputs, adjacency = _random_large_graph(_GPU_NODES, _GPU_ATTRIBUTES, _GPU_DEGREE)
    for precision in ("highest", "high"):
        with _products_in(precision):
            peaks = measured_peaks(task.device)
            for preset in PRESETS:
                for batch_size in (8192, 65_536):
                    subject = Subject.of(
                        adjacency, inputs, _GPU_CLUSTERS, preset, task.device, batch_size
                    )
                    yield {"precision": precision, **_large_epochs(subject, preset, peaks)}
                    del subject
                    torch.cuda.empty_cache()
                    torch.cuda.reset_peak_memory_stats(task.device)


@contextmanager
def _products_in(precision: str) -> Iterator[None]:
    """Inside, torch's products in single precision are ``highest``, or ``high``: in TF32."""
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision(precision)
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)


def _large_epochs(subject: Subject, preset: str, peaks: dict[str, float]) -> dict[str, Any]:
    """Time of an epoch, what it does in that time, and the losses it has come to."""
    epoch, times = subject.epochs(), []
    epoch(1)
    for i in range(3):
        _wait(subject.device)
        begin = time.perf_counter()
        losses: Any = epoch(i + 2)
        _wait(subject.device)
        times.append(time.perf_counter() - begin)
    row = _described(subject, f"random:{_GPU_NODES}:{_GPU_DEGREE}", preset)
    n, seconds = len(subject.inputs), median(times)
    moved = count_bytes(subject.net.config, subject.net.decoder_hidden.out_features, n)
    rate, bandwidth = row["flops"]["hencler"] / seconds, moved / seconds
    return row | {
        "batch_size": subject.settings.batch_size,
        "hencler_seconds": seconds,
        "nodes_per_second": n / seconds,
        "bytes": moved,
        "flops_per_second": rate,
        "bytes_per_second": bandwidth,
        "share_of_peak_flops": rate / peaks["flops_per_second"],
        "share_of_peak_bytes": bandwidth / peaks["bytes_per_second"],
        "peaks": peaks,
        "peak_memory_bytes": torch.cuda.max_memory_allocated(subject.device),
        "losses": {name: float(value) for name, value in losses[0].items()},
    }


def _random_large_graph(n: int, d: int, degree: int) -> tuple[NodeInputs, Any]:
    """Random inputs, and as many random edges of every node: only their number matters here."""
    rng = np.random.default_rng(0)
    # Neighbours at increasing distances around a circle differ from each other, and are sorted.
    steps = np.cumsum(rng.integers(1, n // degree, size=(n, degree)), axis=1)
    steps += np.arange(n)[:, None]
    targets = np.sort(steps % n, axis=1).astype(np.int32).ravel()
    indptr = np.arange(0, n * degree + 1, degree, dtype=np.int64)
    adjacency = sp.csr_array((np.ones(n * degree, dtype=np.int8), targets, indptr), shape=(n, n))
    dense = rng.standard_normal((n, d), dtype=np.float32)
    encoding = rng.random((n, ENCODING_LENGTH), dtype=np.float32)
    return NodeInputs(None, dense, encoding), adjacency


def measured_peaks(device: torch.device) -> dict[str, float]:
    """Operations per second of a large product in single precision, bytes of a large copy."""
    a, b = (torch.randn(8192, 8192, device=device) for _ in range(2))
    out = torch.empty_like(a)
    source = torch.randn(1 << 28, device=device)
    target = torch.empty_like(source)

    def seconds(work: Callable[[], object]) -> float:
        times = []
        for _ in range(7):
            _wait(device)
            begin = time.perf_counter()
            for _ in range(10):
                work()
            _wait(device)
            times.append((time.perf_counter() - begin) / 10)
        return median(times)

    return {
        "flops_per_second": 2 * 8192**3 / seconds(lambda: torch.mm(a, b, out=out)),
        "bytes_per_second": 8 * source.numel() / seconds(lambda: target.copy_(source)),
    }


def count_bytes(config: ModelConfig, width: int, n: int) -> int:
    """Bytes that the matrix products of an epoch on dense inputs read and write, in float32.

    A product of (n, b) and (b, c) reads n b numbers and writes n c, its gradients move as many
    each; that of a first layer's inputs is not needed.
    """
    d, h, f, s = config.n_inputs, config.hidden, config.n_features, config.n_components
    layers = 2 * 2 * (d + h) + 3 * 2 * (h + f) + 3 * 2 * (f + s)
    decoder = 3 * (2 * s + width) + 3 * (width + config.n_targets)
    return 4 * n * (layers + decoder)


def _open(name: str) -> tuple[Graph, str]:
    """A graph, or one of its size where it is not there, and what to call it."""
    try:
        return open_dataset(name), name
    except HenclerError:
        if name not in DATASETS:
            raise
        return open_dataset(STAND_IN + name), STAND_IN + name


def _described(subject: Subject, name: str, preset: str) -> dict[str, Any]:
    inputs, config = subject.inputs, subject.net.config
    nnz = 0 if inputs.sparse is None else int(inputs.sparse.nnz)
    sampled = preset == "released" and len(inputs) > 2 * _training.SAMPLED_ROWS
    rows = _training.SAMPLED_ROWS if sampled else len(inputs)
    width = subject.net.decoder_hidden.out_features
    return {
        "graph": name,
        "preset": preset,
        "device": subject.device.type,
        "nodes": len(inputs),
        "edges": int(subject.adjacency.nnz),
        "inputs": inputs.width,
        "share_of_zeros": 1 - nnz / max(1, len(inputs) * config.n_sparse) if nnz else 0.0,
        "flops": count_flops(config, width, len(inputs), nnz, rows),
    }


def quality_section(task: Task) -> Iterator[dict[str, Any]]:
    """Honest NMI of finished clusterings: full batches against minibatches.

    Both take the same number of steps.
    """
    from .._estimator import HeNCler
    from ..metrics import evaluate

    for name in task.names(QUALITY):
        graph = open_dataset(name)
        assert graph.y is not None
        k, n = len(np.unique(graph.y[graph.y >= 0])), graph.n_nodes
        for preset in PRESETS:
            for batch_size, epochs in ((None, _QUALITY_STEPS), (-(-n // 4), _QUALITY_STEPS // 4)):
                scores = []
                for seed in range(task.seeds):
                    model = HeNCler(
                        k,
                        preset=preset,
                        batch_size=batch_size,
                        epochs=epochs,
                        device=str(task.device),
                        random_state=seed,
                    )
                    scores.append(100 * float(evaluate(model.fit_predict(graph), graph.y)["nmi"]))
                yield {
                    "graph": name,
                    "preset": preset,
                    "batch_size": batch_size,
                    "epochs": epochs,
                    "nmi": mean(scores),
                    "nmi_std": stdev(scores) if len(scores) > 1 else 0.0,
                    "scores": scores,
                }


def clustering_section(task: Task) -> Iterator[dict[str, Any]]:
    """Seconds to a finished clustering on the graphs of the paper's time table.

    Each method has a process of its own and at most ten times the time of the slowest of
    ours, a minute at least; one that is not done by then is slower, and how much does not matter.
    """
    ours = ("hencler", "hencler-released", "hencler-paper")
    others = [m for m in METHODS if not m.startswith(("hencler", "paper-", "default-"))]
    for name in task.names(TIMED):
        _, shown = _open(name)
        slowest = 6.0
        for method in (*ours, *others):
            limit = 10 * slowest if method in others else 3600.0
            row = {"graph": shown, "method": method, **_timed(method, shown, task.device, limit)}
            if method == "hencler" and "seconds" in row:
                slowest = max(slowest, row["seconds"])
            yield row


def _timed(method: str, graph: str, device: torch.device, limit: float) -> dict[str, Any]:
    context = multiprocessing.get_context("spawn")
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=_cell, args=(sender, method, graph, str(device)))
    process.start()
    sender.close()
    try:
        if not receiver.poll(limit):
            return {"status": "slower", "limit_seconds": limit}
        cell = receiver.recv()
    except EOFError:
        return {"status": "killed"}
    finally:
        process.kill()
        process.join()
    if cell["status"] != "ok":
        return {"status": cell["status"]}
    return {"status": "ok", "seconds": cell["seconds"]}


def _cell(sender: Any, method: str, graph: str, device: str) -> None:
    sender.send(run_cell(method, graph, 0, device, "honest"))


# --- ranks --------------------------------------------------------------------------------------

_RANK_NODES, _RANK_BATCH, _RANK_EPOCHS = 20_000, 4096, 5


def ranks_section(task: Task) -> Iterator[dict[str, Any]]:
    """The same graph and global batch over more and more processes; GPUs, as many as there are."""
    most = torch.cuda.device_count() if task.device.type == "cuda" else 2
    alone = None
    for size in sorted({1, *(r for r in (2, 4, 8) if r <= most)}):
        with tempfile.TemporaryDirectory() as folder:
            spawn(_rank_epochs, (size, folder, task.device.type), nprocs=size)
            row = json.loads(Path(folder, "row.json").read_text())
        alone = alone or row["epoch_seconds"]
        yield {**row, "to_one_rank": row["epoch_seconds"] / alone}


@dataclass(frozen=True)
class _Counted(Ranks):
    """Ranks that count the bytes they send."""

    sent: list[int] = field(default_factory=list)

    def sum_(self, *tensors: Tensor) -> None:
        if self.size > 1:
            self.sent.append(sum(t.numel() * t.element_size() for t in tensors))
        super().sum_(*tensors)


def _rank_epochs(rank: int, size: int, folder: str, kind: str) -> None:
    """What one process does; the first writes the median time of an epoch."""
    import torch.distributed as dist

    device = torch.device(kind, rank) if kind == "cuda" else torch.device("cpu")
    if kind == "cuda":
        torch.cuda.set_device(device)
    else:
        torch.set_num_threads(1)
    dist.init_process_group(
        "cpu:gloo,cuda:nccl" if kind == "cuda" else "gloo",
        init_method=f"file://{folder}/meeting",
        rank=rank,
        world_size=size,
    )
    graph = make_heterophilous_graph(_RANK_NODES, 8, directed=True, n_attributes=64, random_state=0)
    subject = Subject.make(graph, "paper", device, batch_size=_RANK_BATCH)
    current = current_ranks(device)
    subject.net.ranks = ranks = _Counted(current.rank, current.size, current.carrier)
    epoch, times = subject.epochs(), []
    epoch(1)
    ranks.sent.clear()
    for i in range(_RANK_EPOCHS):
        dist.barrier()
        _wait(device)
        begin = time.perf_counter()
        epoch(i + 2)
        _wait(device)
        times.append(time.perf_counter() - begin)
    steps = -(-_RANK_NODES // _RANK_BATCH)
    sent = sum(ranks.sent)
    statistics = _training.final_statistics(subject.net, subject.inputs, device, ranks)
    held = _training.embed(subject.net, subject.inputs, statistics, device, ranks)
    if rank == 0:
        row = {
            "device": kind,
            "ranks": size,
            "nodes": _RANK_NODES,
            "batch_size": _RANK_BATCH,
            "epoch_seconds": median(times),
            "message_bytes_per_step": sent / steps / _RANK_EPOCHS,
            "result_bytes_per_rank": sum(part.nbytes for part in held),
        }
        write_json(Path(folder, "row.json"), row)
    dist.barrier()
    dist.destroy_process_group()


SECTIONS: dict[str, Callable[[Task], Iterator[dict[str, Any]]]] = {
    "epoch": epoch_section,
    "minibatch": minibatch_section,
    "gpu": gpu_section,
    "quality": quality_section,
    "ranks": ranks_section,
    "clustering": clustering_section,
}
