"""Training of the network: epochs, batches, optimisers, interruption, final statistics."""

from __future__ import annotations

import copy
import math
import signal
import threading
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ._adam import Adam, Optimiser
from ._cayley import CayleyAdam
from ._errors import HenclerWarning, ModelFileError
from ._graph import row_blocks
from ._model import Batch, FeatureRows, HeNClerNet, Output, Statistics
from ._ranks import ALONE, RankError, Ranks
from ._replay import Replayed
from ._sampling import BatchPairs, BatchPairSampler, DeviceBatchPairSampler, PairSampler
from ._torch import SparseMatrix

__all__ = ["Checkpoint", "NodeInputs", "TrainingSettings", "embed", "final_statistics", "train"]

PAIRS_PER_NODE = 2
"""Edges, and as many non-edges, drawn per node and epoch of full batches."""

EDGES_PER_BATCH_NODE = 0.25
"""Edges drawn per node of a minibatch; each sends one more node through psi."""

SAMPLED_ROWS = 256
"""Nodes on which the zeros of sparse attributes are looked at in a step of ``released``. The loss
of ``paper`` is a sum over attributes, not a mean, and its training does not bear the noise."""

SMALL_BATCH = 256
"""Minibatches of fewer nodes take smaller steps: Adam gives a gradient of any size steps of one
size, and in so few nodes most of it is noise, which made ``released`` diverge on small graphs."""

_MOMENTUM = 0.1
"""Share of a minibatch in the running estimates of the sums over all nodes."""


@dataclass(frozen=True)
class TrainingSettings:
    epochs: int = 300
    learning_rate: float = 0.01
    batch_size: int | None = None
    seed: int = 0


@dataclass(frozen=True)
class NodeInputs:
    """Inputs of all nodes, on the host: attributes (CSR or array, maybe memory-mapped) and
    the positional encoding, n rows each."""

    sparse: Any | None
    dense: NDArray[Any] | None
    encoding: NDArray[Any]

    def __len__(self) -> int:
        return len(self.encoding)

    @property
    def width(self) -> int:
        parts = (self.sparse, self.dense, self.encoding)
        return sum(int(part.shape[1]) for part in parts if part is not None)

    def rows(self, index: Any, device: torch.device) -> FeatureRows:
        """Inputs of the nodes in `index` (a slice or positions) on `device`, in float32."""
        parts = [p[index] for p in (self.dense, self.encoding) if p is not None]
        width = sum(p.shape[1] for p in parts)
        padded = np.empty((len(parts[0]), width + 1), dtype=np.float32)
        np.concatenate([*parts, np.ones((len(padded), 1))], 1, out=padded, casting="same_kind")
        sparse = None if self.sparse is None else SparseMatrix(self.sparse[index], device)
        return FeatureRows.from_padded(torch.from_numpy(padded).to(device), sparse)


class OnDevice:
    """Dense inputs of all nodes in the memory of a GPU, so that no batch has to be sent there."""

    def __init__(self, inputs: NodeInputs, device: torch.device) -> None:
        self.padded = torch.empty(len(inputs), inputs.width + 1, device=device)
        for rows in row_blocks(len(inputs), inputs.width):
            self.padded[rows] = inputs.rows(rows, device).with_ones

    @staticmethod
    def fits(inputs: NodeInputs, device: torch.device, adjacency: Any | None = None) -> bool:
        """Whether there is a GPU with room for them, and for the edges if given: half of its free
        memory is left to the steps."""
        if device.type != "cuda" or inputs.sparse is not None:
            return False
        free, _ = torch.cuda.mem_get_info(device)
        edges = 0 if adjacency is None else DeviceBatchPairSampler.bytes_needed(adjacency)
        return 4 * len(inputs) * (inputs.width + 1) + edges <= free // 2

    def __len__(self) -> int:
        return len(self.padded)

    def rows(self, index: NDArray[np.int64], device: torch.device) -> FeatureRows:
        """Inputs of the nodes at some positions."""
        return self.at(torch.from_numpy(index).to(self.padded.device))

    def at(self, index: Tensor) -> FeatureRows:
        """The same, positions on the device."""
        return FeatureRows.from_padded(self.padded.index_select(0, index))


class Checkpoint(Protocol):
    """Where the state of an unfinished training is kept."""

    def load(self) -> tuple[int, dict[str, Tensor], list[dict[str, float]]] | None: ...

    def save(
        self,
        epoch: int,
        tensors: Callable[[], dict[str, Tensor]],
        history: Callable[[], list[dict[str, float]]],
        *,
        force: bool,
    ) -> None: ...


OnEpoch = Callable[[int, Callable[[], dict[str, float]], Callable[[], NDArray[Any]]], None]
"""Told the epoch, and how to see its losses and its embedding; looking waits for the device."""


def train(
    net: HeNClerNet,
    inputs: NodeInputs,
    adjacency: Any,
    settings: TrainingSettings,
    device: torch.device,
    *,
    on_epoch: OnEpoch | None = None,
    checkpoint: Checkpoint | None = None,
    ranks: Ranks = ALONE,
) -> list[dict[str, float]]:
    """Train `net` in place and return the losses of every epoch.

    Every random draw of an epoch comes from a generator seeded with (seed, epoch), so that a
    run continued from a checkpoint is the run that was never interrupted. Ctrl-C ends the
    training after the current epoch. Over several ranks each works on its own nodes; the first
    one keeps the checkpoint, also when another one is lost.
    """
    net.to(device).train()
    net.ranks = ranks
    settings = replace(settings, learning_rate=_step_size(settings, len(inputs)))
    optimisers = _optimisers(net, settings)
    history = _History()
    first = 1
    if checkpoint is not None and (saved := checkpoint.load()) is not None:
        done, tensors, history.records = saved
        _restore(net, optimisers, tensors, settings)
        first = done + 1

    alone = ranks.size == 1
    full = settings.batch_size is None or settings.batch_size >= len(inputs)
    make = _full_batch_epochs if full and alone else _minibatch_epochs
    run_epoch = make(net, inputs, adjacency, settings, optimisers, device)
    keep = checkpoint if ranks.first else None
    safe: tuple[int, dict[str, Tensor]] | None = None
    with _interruptible(also_terminated=not alone) as interrupted:
        try:
            for epoch in range(first, settings.epochs + 1):
                losses, embedding = run_epoch(epoch)
                history.append(epoch, losses)
                if on_epoch is not None:
                    on_epoch(epoch, lambda: history.fetched()[-1], embedding)
                stop = ranks.any(interrupted()) and epoch < settings.epochs
                if keep is not None:
                    keep.save(epoch, lambda: _state(net, optimisers), history.fetched, force=stop)
                    if not alone:
                        safe = epoch, _state(net, optimisers)
                if stop:
                    warnings.warn(
                        f"training was interrupted after epoch {epoch} of {settings.epochs}; the "
                        "result so far is kept",
                        HenclerWarning,
                        stacklevel=2,
                    )
                    break
        except RankError:
            if keep is not None and safe is not None:
                done, tensors = safe
                keep.save(done, lambda: tensors, lambda: history.fetched()[:done], force=True)
            raise
    net.ranks = ALONE
    return history.fetched()


def _step_size(settings: TrainingSettings, n: int) -> float:
    """Learning rate; of minibatches less in proportion to the noise of their gradients."""
    size = settings.batch_size
    if size is None or size >= n:
        return settings.learning_rate
    return settings.learning_rate * min(1.0, math.sqrt(size / SMALL_BATCH))


class _History:
    """Losses of every epoch, fetched from the device only when someone wants to see them."""

    def __init__(self) -> None:
        self.records: list[dict[str, float]] = []
        self._waiting: list[tuple[int, dict[str, Tensor]]] = []

    def append(self, epoch: int, losses: dict[str, Tensor]) -> None:
        self._waiting.append((epoch, losses))

    def fetched(self) -> list[dict[str, float]]:
        if self._waiting:
            rows = torch.stack([torch.stack(list(losses.values())) for _, losses in self._waiting])
            for (epoch, losses), values in zip(self._waiting, rows.tolist()):
                self.records.append({"epoch": float(epoch), **dict(zip(losses, values))})
            self._waiting.clear()
        return self.records


Embedding = Callable[[], NDArray[Any]]
RunEpoch = Callable[[int], tuple[dict[str, Tensor], Embedding]]


def _full_batch_epochs(
    net: HeNClerNet,
    inputs: NodeInputs,
    adjacency: Any,
    settings: TrainingSettings,
    optimisers: list[Optimiser],
    device: torch.device,
) -> RunEpoch:
    """Function that runs one epoch, a single step on all nodes."""
    n = len(inputs)
    sampler = PairSampler(adjacency, device)
    whole = inputs.rows(slice(None), device)
    generator = torch.Generator(device)

    def step() -> tuple[Tensor, ...]:
        pairs = sampler.draw(PAIRS_PER_NODE * n, generator)
        sample = _sampled_rows(net, whole, generator, device)
        losses, output = _update(net, Batch(whole, *pairs, n, sample=sample), optimisers)
        # The embedding of the forward pass, before the update, is what the released code scores.
        return losses, output.e.detach(), output.r.detach()

    replayed = Replayed(step, optimisers, generator)

    def run(epoch: int) -> tuple[dict[str, Tensor], Embedding]:
        generator.manual_seed(_mixed(settings.seed, epoch))
        losses, e, r = replayed()
        return net.named_losses(losses.clone()), lambda: torch.cat([e, r], 1).cpu().numpy()

    return run


def _update(net: HeNClerNet, batch: Batch, optimisers: list[Optimiser]) -> tuple[Tensor, Output]:
    """One gradient step; the losses before it, detached, their sum first."""
    output = net(batch)
    parts = torch.stack(list(output.losses.values()))
    loss = parts.sum()
    for optimiser in optimisers:
        optimiser.zero_grad()
    loss.backward()
    values = torch.cat([loss[None], parts]).detach()
    if net.ranks.size > 1:
        net.ranks.sum_(values, *_gradients(net))
    for optimiser in optimisers:
        optimiser.step()
    return values, output


def _gradients(net: HeNClerNet) -> Iterator[Tensor]:
    """Gradients of all parameters, zero where this rank has none: the ranks' must match."""
    for parameter in net.parameters():
        if parameter.grad is None:
            parameter.grad = torch.zeros_like(parameter)
        yield parameter.grad


def _sampled_rows(
    net: HeNClerNet, nodes: FeatureRows, generator: torch.Generator, device: torch.device
) -> Tensor | None:
    """Rows on which zeros are looked at, one from each of as many equal parts of the nodes, so
    that every row is as likely as any other; None where all of them cost little more."""
    n = len(nodes)
    if nodes.sparse is None or n <= 2 * SAMPLED_ROWS or net.config.variant == "paper":
        return None
    at = torch.rand(SAMPLED_ROWS, generator=generator, device=device, dtype=torch.float64)
    at += torch.arange(SAMPLED_ROWS, device=device)
    return at.mul_(n / SAMPLED_ROWS).long().clamp_(max=n - 1)


def _minibatch_epochs(
    net: HeNClerNet,
    inputs: NodeInputs,
    adjacency: Any,
    settings: TrainingSettings,
    optimisers: list[Optimiser],
    device: torch.device,
) -> RunEpoch:
    """Function that runs one epoch, steps on all nodes in random order.

    Every rank takes an equal part of its own nodes in each step.
    """
    n, ranks = len(inputs), net.ranks
    size = min(settings.batch_size or n, n)
    steps = -(-n // size)
    if ranks.size == 1 and OnDevice.fits(inputs, device, adjacency):
        return _device_epochs(net, inputs, adjacency, settings, optimisers, device, steps)
    bounds = ranks.bounds(n)
    lo, hi = ranks.shard(n)
    sampler = BatchPairSampler(adjacency, EDGES_PER_BATCH_NODE, PAIRS_PER_NODE, ranks)
    source = OnDevice(inputs, device) if OnDevice.fits(inputs, device) else inputs

    def run(epoch: int) -> tuple[dict[str, Tensor], Embedding]:
        generator = _generator(settings.seed, epoch, device)
        rng = np.random.default_rng([settings.seed, epoch, ranks.rank])
        order = lo + rng.permutation(hi - lo)
        totals = torch.zeros((), device=device)
        running: Statistics | None = net.running_statistics() if steps > 1 else None

        def make(step: int) -> Batch:
            # Where each rank's part of the batch begins and ends in its order of nodes.
            cuts = [[(b - a) * t // steps for t in (step, step + 1)] for a, b in pairwise(bounds)]
            chosen = np.sort(order[slice(*cuts[ranks.rank])])
            starts = np.cumsum([0, *(stop - start for start, stop in cuts)])
            own = slice(*starts[ranks.rank : ranks.rank + 2])
            whole = _everywhere(chosen, own, int(starts[-1]), ranks)
            drawn = sampler.draw(whole, rng, own)
            batch = _minibatch(source, drawn, whole, own, device)
            return batch._replace(sample=_sampled_rows(net, batch.nodes, generator, device))

        # Over ranks, making a batch sends messages, which must not overtake those of a step.
        batches = _ahead(make, steps) if ranks.size == 1 else map(make, range(steps))
        for batch in batches:
            batch = batch._replace(statistics=running, momentum=_MOMENTUM)
            losses, output = _update(net, batch, optimisers)
            if steps > 1:
                running = Statistics(*(value.detach() for value in output.statistics))
            totals = totals + (batch.n_batch or 0) / n * losses
        if running is not None:
            net.keep_running_statistics(running)
        return net.named_losses(totals), lambda: _embedding(net, inputs, device)

    return run


def _device_epochs(
    net: HeNClerNet,
    inputs: NodeInputs,
    adjacency: Any,
    settings: TrainingSettings,
    optimisers: list[Optimiser],
    device: torch.device,
    steps: int,
) -> RunEpoch:
    """:func:`_minibatch_epochs` on a GPU that holds inputs and edges, and draws the batches."""
    n, source = len(inputs), OnDevice(inputs, device)
    sampler = DeviceBatchPairSampler(adjacency, EDGES_PER_BATCH_NODE, PAIRS_PER_NODE, device)
    generator = torch.Generator(device)
    order = torch.empty(n, dtype=torch.int64, device=device)
    done = torch.zeros((), dtype=torch.int64, device=device)
    totals = torch.zeros(len(net.loss_names), device=device)
    fresh = steps == 1 or net.running_statistics() is None

    def step(size: int) -> tuple[Tensor, ...]:
        nonlocal fresh
        chosen = order[done + torch.arange(size, device=device)]
        done.add_(size)
        drawn = sampler.draw(chosen, generator)
        running = None if fresh else Statistics(*net.running)
        batch = Batch(
            source.at(chosen), *drawn[:3], n,
            targets=source.at(drawn.targets) if len(drawn.targets) else None,
            statistics=running, momentum=_MOMENTUM,
        )  # fmt: skip
        losses, output = _update(net, batch, optimisers)
        if steps > 1:
            net.keep_running_statistics(output.statistics)
            fresh = False
        totals.add_(losses, alpha=size / n)
        return ()

    ends = [n * t // steps for t in range(steps + 1)]
    sizes = [b - a for a, b in pairwise(ends)]
    # Parts as equal as possible: two sizes at most.
    replayed = {s: Replayed(partial(step, s), optimisers, generator) for s in set(sizes)}

    def run(epoch: int) -> tuple[dict[str, Tensor], Embedding]:
        generator.manual_seed(_mixed(settings.seed, epoch))
        torch.randperm(n, generator=generator, device=device, out=order)
        for tensor in (done, totals):
            tensor.zero_()
        for size in sizes:
            replayed[size]()
        return net.named_losses(totals.clone()), lambda: _embedding(net, inputs, device)

    return run


def _ahead(make: Callable[[int], Batch], count: int) -> Iterator[Batch]:
    """make(0), make(1), ..., each made by another thread while the one before is worked on."""
    with ThreadPoolExecutor(1) as maker:
        waiting = maker.submit(make, 0)
        for i in range(1, count + 1):
            ready = waiting.result()
            if i < count:
                waiting = maker.submit(make, i)
            yield ready


def _everywhere(
    chosen: NDArray[np.int64], own: slice, total: int, ranks: Ranks
) -> NDArray[np.int64]:
    """The nodes of a batch on all ranks, this one's at `own`."""
    if ranks.size == 1:
        return chosen
    whole = torch.zeros(total, dtype=torch.int64)
    whole[own] = torch.from_numpy(chosen)
    ranks.sum_(whole)
    return whole.numpy()


def _minibatch(
    inputs: NodeInputs | OnDevice,
    drawn: BatchPairs,
    whole: NDArray[np.int64],
    own: slice,
    device: torch.device,
) -> Batch:
    nodes = inputs.rows(whole[own], device)
    # Every further target once, in ascending order: it may lie on disk.
    further, position = np.unique(drawn.targets, return_inverse=True)
    pairs = drawn.pairs.copy()
    pairs[1, : len(position)] = len(whole) + position
    return Batch(
        nodes,
        torch.from_numpy(pairs).to(device),
        torch.from_numpy(drawn.is_edge).to(device),
        torch.from_numpy(drawn.weight).to(device),
        len(inputs),
        targets=inputs.rows(further, device) if len(further) else None,
        n_batch=len(whole),
        start=int(own.start),
    )


def _embedding(net: HeNClerNet, inputs: NodeInputs, device: torch.device) -> NDArray[Any]:
    """[e | r] as they would be if the training ended here; of all nodes on the first rank."""
    training = net.training
    statistics = final_statistics(net, inputs, device, net.ranks)
    own = np.concatenate(embed(net, inputs, statistics, device, net.ranks), 1)
    net.train(training)
    return net.ranks.collect(own, len(inputs))


# --- after training --------------------------------------------------------------------------


@torch.no_grad()
def final_statistics(
    net: HeNClerNet, inputs: NodeInputs, device: torch.device, ranks: Ranks = ALONE
) -> Statistics:
    """Batch norm, degree sums and weighted means over all nodes, for the weights as they are.

    With them one node's embedding no longer depends on which others it is computed with, so
    that `predict` on the training graph gives the training's clusters. Every rank goes through
    its own nodes.
    """
    n = len(inputs)
    net.to(device)
    blocks = list(_forward_blocks(net, inputs, ranks))
    if net.phi.norm is not None:
        _final_moments(net, inputs, blocks, device, ranks)
    net.eval()

    def zeros(*shape: int) -> Tensor:
        return torch.zeros(shape, device=device, dtype=torch.float64)

    sums = zeros(2, net.config.n_features)
    for rows in blocks:
        for side, features in zip(sums, net.maps(inputs.rows(rows, device))):
            side += features.double().sum(0)
    ranks.sum_(sums)
    mean_phi, mean_psi = (sums / n).float()
    weighted, masses = zeros(2, net.config.n_features), zeros(2)
    for rows in blocks:
        phi, psi = net.maps(inputs.rows(rows, device))
        weights = net.weights(phi, psi, mean_phi, mean_psi, n)
        for side, (f, w) in enumerate(zip((phi, psi), weights)):
            weighted[side] += w.double() @ f.double()
            masses[side] += w.double().sum()
    ranks.sum_(weighted, masses)
    at_phi, at_psi = (weighted / masses[:, None]).float()
    return Statistics(mean_phi, mean_psi, at_phi, at_psi)


def _final_moments(
    net: HeNClerNet,
    inputs: NodeInputs,
    blocks: list[slice],
    device: torch.device,
    ranks: Ranks,
) -> None:
    """Write the moments over all nodes into the batch norms."""
    n, norms = len(inputs), [net.phi.norm, *([] if net.config.shared_map else [net.psi.norm])]
    shape = (2, len(norms), net.config.n_features)
    sums = torch.zeros(shape, device=device, dtype=torch.float64)
    for rows in blocks:
        for i, z in enumerate(net.layers(inputs.rows(rows, device))):
            sums[0, i] += z.double().sum(0)
            sums[1, i] += z.double().square().sum(0)
    ranks.sum_(sums)
    mean, square = sums / n
    variance = (square - mean.square()).clamp(min=0) * (n / max(1, n - 1))
    for i, norm in enumerate(norms):
        assert norm is not None
        assert norm.running_mean is not None
        assert norm.running_var is not None
        if n == 1:  # in training a single node is not normalised either
            norm.reset_running_stats()
            continue
        norm.running_mean.copy_(mean[i])
        norm.running_var.copy_(variance[i])


@torch.no_grad()
def embed(
    net: HeNClerNet,
    inputs: NodeInputs,
    statistics: Statistics,
    device: torch.device,
    ranks: Ranks = ALONE,
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """e and r of this rank's nodes, shape (n / ranks, s) each."""
    net.to(device).eval()
    u, v = net.projections
    lo, hi = ranks.shard(len(inputs))
    e, r = (np.empty((hi - lo, net.config.n_components), dtype=np.float32) for _ in range(2))
    for rows in _forward_blocks(net, inputs, ranks):
        own = slice(rows.start - lo, rows.stop - lo)
        phi, psi = net.maps(inputs.rows(rows, device))
        e[own] = ((phi - statistics.centre_phi) @ u).cpu().numpy()
        r[own] = ((psi - statistics.centre_psi) @ v).cpu().numpy()
    return e, r


def _forward_blocks(net: HeNClerNet, inputs: NodeInputs, ranks: Ranks) -> Iterator[slice]:
    # Some thousands of rows: what a layer writes is still in the cache when the next one reads it.
    lo, hi = ranks.shard(len(inputs))
    for rows in row_blocks(hi - lo, 8 * (inputs.width + net.config.hidden)):
        yield slice(lo + rows.start, lo + rows.stop)


# --- optimisers and their state --------------------------------------------------------------


def _optimisers(net: HeNClerNet, settings: TrainingSettings) -> list[Optimiser]:
    stiefel = getattr(net, "stiefel", None)
    rest = [p for p in net.parameters() if p is not stiefel]
    optimisers: list[Optimiser] = [Adam(rest, settings.learning_rate)]
    if stiefel is not None:
        optimisers.append(CayleyAdam([stiefel], lr=settings.learning_rate, seed=settings.seed))
    return optimisers


def _mixed(seed: int, epoch: int) -> int:
    """Seed of an epoch's draws."""
    return int(np.random.SeedSequence([seed, epoch]).generate_state(1, np.uint64)[0]) % (1 << 63)


def _generator(seed: int, epoch: int, device: torch.device) -> torch.Generator:
    return torch.Generator(device=device).manual_seed(_mixed(seed, epoch))


def _state(net: HeNClerNet, optimisers: list[Optimiser]) -> dict[str, Tensor]:
    """All tensors a continued training needs, by name."""
    tensors = {f"net.{k}": v.detach().clone() for k, v in net.state_dict().items()}
    for i, optimiser in enumerate(optimisers):
        for j, state in optimiser.state.items():
            for key, value in state.items():
                tensors[f"optimiser.{i}.{j}.{key}"] = value.clone()
    return tensors


def _restore(
    net: HeNClerNet,
    optimisers: list[Optimiser],
    tensors: dict[str, Tensor],
    settings: TrainingSettings,
) -> None:
    _check_checkpoint(net, tensors, settings)
    net.load_state_dict({k[4:]: v for k, v in tensors.items() if k.startswith("net.")})
    for i, optimiser in enumerate(optimisers):
        state: dict[int, dict[str, Tensor]] = {}
        for name, value in tensors.items():
            kind, *rest = name.split(".")
            if kind == "optimiser" and int(rest[0]) == i:
                state.setdefault(int(rest[1]), {})[rest[2]] = value
        optimiser.load_state(state)


def _check_checkpoint(
    net: HeNClerNet, tensors: dict[str, Tensor], settings: TrainingSettings
) -> None:
    """Names, shapes and types must be those of this network after a step.

    torch itself converts and broadcasts what does not fit. A parameter that no loss reaches has
    no state in its optimiser.
    """
    twin = copy.deepcopy(net)
    optimisers = _optimisers(twin, settings)
    for parameter in twin.parameters():
        parameter.grad = torch.zeros_like(parameter)
    for optimiser in optimisers:
        optimiser.step()
    expected = {k: (v.shape, v.dtype) for k, v in _state(twin, optimisers).items()}
    found = {k: (v.shape, v.dtype) for k, v in tensors.items()}
    wrong = [k for k in found if found[k] != expected.get(k)]
    parts = {k.rpartition(".")[0] for k in found if k.startswith("optimiser.")}
    missing = [
        k
        for k in expected.keys() - found.keys()
        if k.startswith("net.") or k.rpartition(".")[0] in parts
    ]
    if wrong or missing:
        raise ModelFileError(
            f"the checkpoint is damaged or of another training: {sorted(wrong + missing)[0]!r} "
            "does not fit",
            remedy="Start anew without --resume",
        )


@contextmanager
def _interruptible(also_terminated: bool = False) -> Iterator[Callable[[], bool]]:
    """Inside, the first Ctrl-C only sets a flag; the second one interrupts as usual.

    So does, if asked for, being told to terminate: torchrun tells all ranks when one is lost, and
    the first of them still has a checkpoint to write.
    """
    if threading.current_thread() is not threading.main_thread():
        yield lambda: False
        return
    pressed = False

    def handler(signum: int, frame: Any) -> None:
        nonlocal pressed
        if pressed:
            raise KeyboardInterrupt
        pressed = True

    signals = [signal.SIGINT, *([signal.SIGTERM] if also_terminated else [])]
    previous = {which: signal.signal(which, handler) for which in signals}
    try:
        yield lambda: pressed
    finally:
        for which, old in previous.items():
            signal.signal(which, old)
