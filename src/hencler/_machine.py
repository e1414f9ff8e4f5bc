"""One fitted wKSVD with degree weights: feature maps of any nodes in, e and r out."""

from __future__ import annotations

from typing import Any, NamedTuple, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from ._graph import MANY_NODES, SAMPLED_NODES
from ._order import restored
from ._singular import leading_svd
from ._state import checked
from ._wksvd import degrees, similarity_degrees, solve_dual, solve_primal, solve_projections

__all__ = ["Embedding", "Machine"]


class Embedding(NamedTuple):
    """e, r of shape (n, s), their weights w1, w2 of shape (n,), and sigma of shape (s,)."""

    e: NDArray[Any]
    r: NDArray[Any]
    w1: NDArray[Any]
    w2: NDArray[Any]
    sigma: NDArray[Any]

    def take(self, rows: Any) -> Embedding:
        """The same of some nodes."""
        return Embedding(self.e[rows], self.r[rows], self.w1[rows], self.w2[rows], self.sigma)

    def walk_rows(self, s: int) -> NDArray[Any]:
        """Rows of D^-1/2 e and D^-1/2 r, i.e. of H Sigma, in the leading s dimensions."""
        e = np.sqrt(self.w1)[:, None] * self.e[:, :s]
        return np.hstack([e, np.sqrt(self.w2)[:, None] * self.r[:, :s]])

    def flat_rows(self, s: int) -> NDArray[Any]:
        """Rows of e and r divided by Sigma^1/2, i.e. of D^1/2 H Sigma^1/2."""
        sigma = self.sigma[:s]
        scale = np.divide(1.0, np.sqrt(sigma), out=np.zeros_like(sigma), where=sigma > 0)
        return np.hstack([self.e[:, :s] * scale, self.r[:, :s] * scale])


class Machine:
    r"""Weights :math:`w = 1/(D + \rho\bar D)`, weighted centring, leading triples, projections.

    Primal: ``phi`` and ``psi`` are features, and :math:`D_1 = \Phi(\Psi'1)`. Dual (`fit_links`):
    ``phi`` is a row of the similarity and ``psi`` a column, and :math:`D_1` is the row's sum.
    New nodes go the same way, with the sums and means of the nodes fitted on.
    """

    def fit(self, phi: Any, psi: Any, s: int, regularization: float) -> Self:
        w1, w2 = self._weigh(*degrees(phi, psi), regularization)
        ones = np.ones(phi.shape[0])
        self.phi_sum, self.psi_sum = np.asarray(phi.T @ ones), np.asarray(psi.T @ ones)
        solve = solve_primal if phi.shape[0] <= SAMPLED_NODES else solve_projections
        self._keep(solve(phi, psi, w1, w2, s))
        return self

    def fit_links(self, links: Any, s: int, regularization: float) -> Self:
        """S = A. Regularised degrees leave a leading pair that is not trivial: no centring."""
        w1, w2 = self._weigh(*similarity_degrees(links), regularization)
        n = links.shape[0]
        self.phi_sum = self.psi_sum = np.ones(n)
        if n <= MANY_NODES:
            self._keep(solve_dual(links, w1, w2, s, center=False))
            return self
        # Large graphs in single precision: half the memory, and precise enough for clusters.
        dtype = np.float64 if n <= SAMPLED_NODES else np.float32
        root1, root2 = np.sqrt(w1).astype(dtype), np.sqrt(w2).astype(dtype)
        links = links.astype(dtype, copy=False)
        weighted = sp.csr_array(sp.diags_array(root1) @ links @ sp.diags_array(root2))
        h_e, self.sigma, h_r = leading_svd(weighted, s)
        self.U, self.V = root2[:, None] * h_r, root1[:, None] * h_e
        self.mean_phi = self.mean_psi = np.zeros(n)
        return self

    def restore_order(self, order: NDArray[np.int64]) -> None:
        """After :meth:`fit_links`: give the nodes the places they had before `order`."""
        for name in ("U", "V", "mean_phi", "mean_psi", "phi_sum", "psi_sum"):
            setattr(self, name, restored(getattr(self, name), order))

    def _weigh(
        self, d1: NDArray[Any], d2: NDArray[Any], regularization: float
    ) -> tuple[NDArray[Any], NDArray[Any]]:
        # Where no two nodes are similar at all, every node weighs the same.
        self.shift1, self.shift2 = (
            regularization * float(d.mean()) if d.any() else 1.0 for d in (d1, d2)
        )
        return 1 / (d1 + self.shift1), 1 / (d2 + self.shift2)

    def _keep(self, solution: Any) -> None:
        self.U, self.V, self.sigma = solution.U, solution.V, solution.sigma
        self.mean_phi, self.mean_psi = solution.mean_phi, solution.mean_psi

    def embed(self, phi: Any, psi: Any) -> Embedding:
        """e = U'(phi - mean), r = V'(psi - mean) and the weights of some nodes."""
        dtype = np.float64 if phi.shape[0] <= SAMPLED_NODES else np.float32
        e, r = (
            np.asarray(features @ matrix.astype(dtype, copy=False), dtype=dtype)
            - (mean @ matrix).astype(dtype)
            for features, matrix, mean in (
                (phi, self.U, self.mean_phi),
                (psi, self.V, self.mean_psi),
            )
        )
        w1 = 1 / np.maximum(phi @ self.psi_sum + self.shift1, np.finfo(float).tiny)
        w2 = 1 / np.maximum(psi @ self.phi_sum + self.shift2, np.finfo(float).tiny)
        return Embedding(e, r, w1, w2, self.sigma)

    def state(self) -> dict[str, NDArray[Any]]:
        names = ("U", "V", "sigma", "mean_phi", "mean_psi", "phi_sum", "psi_sum")
        shifts = np.array([self.shift1, self.shift2])
        return {**{name: getattr(self, name) for name in names}, "shifts": shifts}

    @classmethod
    def from_state(
        cls, state: dict[str, NDArray[Any]], d: int | None = None, s: int | None = None
    ) -> Self:
        """`d`: columns of phi and psi, `s`: components, where they are known."""
        self = cls()
        shapes = {"U": "ds", "V": "ds", "sigma": "s", "shifts": "2"}
        shapes |= dict.fromkeys(("mean_phi", "mean_psi", "phi_sum", "psi_sum"), "d")
        for name, value in checked(state, shapes, {"d": d, "s": s, "2": 2}).items():
            if name != "shifts":
                setattr(self, name, value)
        self.shift1, self.shift2 = (float(v) for v in state["shifts"])
        return self
