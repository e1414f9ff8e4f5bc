"""The few things every torch method here needs: a device, a seed, a sparse matrix."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ._errors import ParameterError, did_you_mean

__all__ = ["SparseMatrix", "resolve_device", "seeded", "sparse_tensor"]


def resolve_device(device: str | torch.device) -> torch.device:
    """``"auto"`` is CUDA where there is a CUDA device, else the CPU."""
    if device == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        resolved = torch.device(device)
    except RuntimeError as error:
        meant = "cuda" if device == "gpu" else str(device)
        raise ParameterError(
            f"device {device!r} is unknown", remedy=did_you_mean(meant, ("auto", "cpu", "cuda"))
        ) from error
    if resolved.type == "cuda" and not torch.cuda.is_available():
        raise ParameterError(
            "device 'cuda' was asked for, but torch sees no CUDA device",
            remedy="Use device 'auto' or 'cpu'",
        )
    return resolved


@contextmanager
def seeded(seed: int, device: torch.device) -> Iterator[None]:
    """Torch's global generators start from `seed` inside, and are as before afterwards."""
    devices = [device] if device.type == "cuda" else []
    with torch.random.fork_rng(devices=devices):
        torch.manual_seed(seed)
        yield


def sparse_tensor(
    matrix: Any, device: torch.device, dtype: torch.dtype = torch.float32
) -> torch.Tensor:
    """SciPy CSR matrix as a torch CSR tensor."""
    matrix = matrix.tocsr()
    with warnings.catch_warnings():
        # Products of CSR and dense matrices, all that is used here, have long been stable.
        warnings.filterwarnings("ignore", message="Sparse CSR tensor support is in beta")
        return torch.sparse_csr_tensor(
            _tensor(matrix.indptr.astype(np.int64)),
            _tensor(matrix.indices.astype(np.int64)),
            _tensor(matrix.data).to(dtype),
            size=matrix.shape,
            device=device,
            check_invariants=False,
        )


DENSE_SHARE = 0.08
"""Beyond this share of non-zeros a GPU multiplies faster by the dense matrix."""

DENSE_ENTRIES = 1 << 28
"""Entries, at most, of a matrix that is made dense for that."""


class SparseMatrix:
    """Constant sparse matrix M on a device, with its transpose for the backward pass.

    ``matrix @ tensor`` is differentiable in the tensor; M itself needs no gradient. Torch's own
    backward pass of a CSR product transposes M again at every step.

    Attributes
    ----------
    forward, transposed : M and M', CSR tensors, or dense ones where a GPU is faster by them
    """

    def __init__(self, matrix: Any, device: torch.device, dtype: torch.dtype = torch.float32):
        self.shape: tuple[int, int] = matrix.shape
        matrix = matrix.tocsr()
        entries = self.shape[0] * self.shape[1]
        if device.type == "cuda" and DENSE_SHARE * entries < matrix.nnz and entries < DENSE_ENTRIES:
            self.forward = sparse_tensor(matrix, device, dtype).to_dense()
            self.transposed = self.forward.T
        else:
            self.forward = sparse_tensor(matrix, device, dtype)
            self.transposed = sparse_tensor(matrix.T.tocsr(), device, dtype)

    @cached_property
    def column_sums(self) -> Tensor:
        """X'1, shape (columns,)."""
        ones = torch.ones(self.shape[0], 1, dtype=self.forward.dtype, device=self.forward.device)
        return (self.transposed @ ones)[:, 0]

    @cached_property
    def squared_norm(self) -> Tensor:
        """Sum of the squares of all entries."""
        dense = self.forward.layout == torch.strided
        return (self.forward if dense else self.forward.values()).square().sum()

    def __matmul__(self, dense: Tensor) -> Tensor:
        product: Tensor = _Spmm.apply(self.forward, self.transposed, dense)
        return product


class _Spmm(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, matrix: Tensor, transposed: Tensor, dense: Tensor) -> Tensor:
        ctx.transposed = transposed
        return matrix @ dense

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[None, None, Tensor]:
        return None, None, ctx.transposed @ grads[0]


def _tensor(array: NDArray[Any]) -> torch.Tensor:
    return torch.from_numpy(np.ascontiguousarray(array))
