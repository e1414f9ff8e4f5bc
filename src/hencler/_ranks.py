"""Several processes that train one network together, each on its share of the nodes.

``torchrun`` starts them and tells each its number; gloo (CPU) or nccl (GPU) carries the
messages. Every rank holds the whole network and works on its own rows. What couples nodes in the
loss are sums of a few numbers (the moments of batch norm, the degrees' and the centring's sums),
so these are added up over all ranks where they occur, forward and backward, and then the loss and
the gradients are those of one process over the union of the ranks' batches.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from numpy.typing import NDArray
from torch import Tensor
from torch.autograd import Function

from ._errors import HenclerError
from ._graph import row_blocks

__all__ = ["ALONE", "RankError", "Ranks", "current_ranks", "joined"]


class RankError(HenclerError):
    """Another process of the same run ended or cannot be reached."""


@dataclass(frozen=True)
class Ranks:
    """This process among those of its run; `size` 1 is a process of its own.

    Attributes
    ----------
    rank : number of this process, from 0
    size : how many there are
    carrier : where messages have to lie; None where each can stay on its tensor's device
    """

    rank: int = 0
    size: int = 1
    carrier: torch.device | None = None

    @property
    def first(self) -> bool:
        """Whether this is the process that writes files and speaks."""
        return self.rank == 0

    def bounds(self, n: int) -> list[int]:
        """Rank k has the nodes from bounds[k] to bounds[k + 1]."""
        return [n * k // self.size for k in range(self.size + 1)]

    def shard(self, n: int) -> tuple[int, int]:
        """This rank's nodes, from the first up to the second of these."""
        bounds = self.bounds(n)
        return bounds[self.rank], bounds[self.rank + 1]

    def sum_(self, *tensors: Tensor) -> None:
        """Replace tensors, of one type, by their sums over all ranks, in one message."""
        if self.size == 1:
            return
        message = torch.cat([t.detach().reshape(-1) for t in tensors])
        message = message if self.carrier is None else message.to(self.carrier)
        with _clear_errors():
            dist.all_reduce(message)
        parts = message.split([t.numel() for t in tensors])
        for tensor, part in zip(tensors, parts):
            tensor.detach().copy_(part.view_as(tensor))

    def total(self, value: Tensor) -> Tensor:
        """Sum over all ranks, with a gradient."""
        return value if self.size == 1 else _Total.apply(value, self)

    def gather(self, rows: Tensor, start: int, n: int) -> Tensor:
        """The n rows of all ranks, of which this one's begin at `start`, with a gradient."""
        return rows if self.size == 1 else _Gather.apply(rows, start, n, self)

    def any(self, flag: bool) -> bool:
        """Whether the flag is set on some rank."""
        count = torch.tensor([int(flag)])
        self.sum_(count)
        return bool(count.item())

    def collect(self, rows: NDArray[Any], n: int) -> NDArray[Any]:
        """All n rows on the first rank, in a map of a temporary file; on others their own.

        `rows` are those of this rank's shard. A map is no memory of the process: the system
        keeps of it what there is room for.
        """
        if self.size == 1:
            return rows
        whole = _temporary_map((n, *rows.shape[1:]), rows.dtype) if self.first else rows
        for owner, (lo, hi) in enumerate(pairwise(self.bounds(n))):
            for block in row_blocks(hi - lo, max(1, rows[:1].size)):
                target = slice(lo + block.start, lo + block.stop)
                if self.first and owner == 0:
                    whole[target] = rows[block]
                elif self.first:
                    whole[target] = self._receive(whole[target], owner)
                elif self.rank == owner:
                    self._send(rows[block])
        return whole

    def _send(self, rows: NDArray[Any]) -> None:
        message = torch.from_numpy(np.ascontiguousarray(rows))
        with _clear_errors():
            dist.send(message if self.carrier is None else message.to(self.carrier), 0)

    def _receive(self, like: NDArray[Any], owner: int) -> NDArray[Any]:
        message = torch.from_numpy(np.empty_like(like, subok=False))
        message = message if self.carrier is None else message.to(self.carrier)
        with _clear_errors():
            dist.recv(message, owner)
        return message.cpu().numpy()


def _temporary_map(shape: tuple[int, ...], dtype: np.dtype[Any]) -> NDArray[Any]:
    """Array in a file without a name, which is gone when the array is."""
    size = int(np.prod(shape)) * dtype.itemsize
    try:
        with tempfile.TemporaryFile() as file:
            if hasattr(os, "posix_fallocate"):  # a full disk must not show when it is written to
                os.posix_fallocate(file.fileno(), 0, size)
            return np.memmap(file, dtype=dtype, mode="w+", shape=shape)
    except OSError as error:
        raise HenclerError(
            f"the results of all processes need {size / 1e9:.1f} GB on disk ({error.strerror})",
            place=tempfile.gettempdir(),
            remedy="Let TMPDIR name a folder with more room",
        ) from error


ALONE = Ranks()


class _Total(Function):
    """Sum over the ranks; every rank's loss depends on it, so that the gradients add up too."""

    @staticmethod
    def forward(ctx: Any, value: Tensor, ranks: Ranks) -> Tensor:
        ctx.ranks = ranks
        total = value.clone()
        ranks.sum_(total)
        return total

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None]:
        grad = grads[0].clone()
        ctx.ranks.sum_(grad)
        return grad, None


class _Gather(Function):
    @staticmethod
    def forward(ctx: Any, rows: Tensor, start: int, n: int, ranks: Ranks) -> Tensor:
        ctx.ranks, ctx.rows = ranks, slice(start, start + len(rows))
        everywhere = rows.new_zeros(n, rows.shape[1])
        everywhere[ctx.rows] = rows
        ranks.sum_(everywhere)
        return everywhere

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None, None, None]:
        grad = grads[0].clone()
        ctx.ranks.sum_(grad)
        return grad[ctx.rows], None, None, None


@contextmanager
def _clear_errors() -> Iterator[None]:
    try:
        yield
    except RuntimeError as error:
        raise RankError(
            "another process of this run ended, or the network between them broke "
            f"({str(error).splitlines()[0]})",
            remedy="See the first error above, then go on from the checkpoint with --resume; "
            "any number of processes can",
        ) from error


def current_ranks(device: torch.device) -> Ranks:
    """The ranks of ``torch.distributed``'s default group, or this process alone."""
    if not (dist.is_available() and dist.is_initialized()) or dist.get_world_size() == 1:
        return ALONE
    return Ranks(dist.get_rank(), dist.get_world_size(), device if _only_nccl() else None)


def _only_nccl() -> bool:
    return str(dist.get_backend()) == "nccl"


@contextmanager
def joined() -> Iterator[None]:
    """Inside, the processes that ``torchrun`` started are one group.

    It carries what lies on the CPU by gloo, on a GPU by nccl. Each process on a machine has a
    GPU of its own, as far as there are enough.
    """
    backend = "gloo"
    if torch.cuda.is_available():
        torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", "0")) % torch.cuda.device_count())
        backend = "cpu:gloo,cuda:nccl"
    with _clear_errors():
        dist.init_process_group(backend)
    try:
        yield
        with _clear_errors():
            dist.barrier()  # the first rank still writes: hanging up would look like an error
    finally:
        dist.destroy_process_group()
