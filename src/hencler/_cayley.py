"""The optimiser of the released model: Adam on the Stiefel manifold by Cayley transforms.

Li, Fuxin & Todorovic, Efficient Riemannian optimization on the Stiefel manifold via the Cayley
transform, ICLR 2020; without first-moment averaging, as the released code of HeNCler runs it.
"""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor

from ._adam import Optimiser

__all__ = ["CayleyAdam"]

_BETA2 = 0.99
_EPSILON = 1e-8
_FIXED_POINT_STEPS = 5
_RETRACTION_PERIOD = 101


class CayleyAdam(Optimiser):
    r"""Keeps the rows of P (p, n), p <= n, orthonormal.

    With X = P', gradient G and v the running mean of its squared norm,

    .. math:: \hat W = G'X' - \tfrac12 X(X'G'X'), \quad
              W = (\hat W - \hat W') / \sqrt{\hat v + \epsilon}, \quad
              Y = (I + \tfrac\alpha2 W)^{-1}(I - \tfrac\alpha2 W) X,

    the Cayley transform being computed by five fixed-point steps, and
    alpha = min(1 / ||W||_1, learning rate). Once in 101 steps on average X is made exactly
    orthonormal by a QR decomposition.

    Parameters
    ----------
    parameters : of shape (p, n)
        Where p > n there is no such manifold, and plain gradient steps are taken.
    lr : learning rate
    seed : of the draw that decides on the QR decomposition in each step
    """

    def __init__(self, parameters: Iterable[Tensor], lr: float = 0.01, seed: int = 0) -> None:
        super().__init__(parameters, lr)
        self.seed = seed
        self._steps: int | None = 0

    def load_state(self, state: dict[int, dict[str, Tensor]]) -> None:
        super().load_state(state)
        self._steps = None

    @property
    def steps(self) -> int:
        """Steps so far, as the host counts them, which never asks the device but after loading."""
        if self._steps is None:
            self._steps = max((int(s["step"]) for s in self.state.values()), default=0)
        return self._steps

    @property
    def retracts(self) -> bool:
        """Whether the coming step makes X exactly orthonormal first."""
        # Drawn from the step number, so that a resumed run draws the same.
        draw = torch.Generator().manual_seed((self.seed * 1_000_003 + self.steps + 1) % (1 << 63))
        return int(torch.randint(_RETRACTION_PERIOD, (), generator=draw)) == 0

    def count_replayed(self) -> None:
        """Tell that a recorded step, one without a retraction, was replayed."""
        self._steps = self.steps + 1

    @torch.no_grad()
    def step(self) -> None:
        retracts = self.retracts
        for j, p in enumerate(self.parameters):
            if p.grad is None:
                continue
            if p.shape[0] > p.shape[1]:
                p.add_(p.grad, alpha=-self.lr)
            else:
                self._step_one(p, p.grad, self.state.setdefault(j, {}), retracts)
        self.count_replayed()

    def _step_one(
        self, p: Tensor, gradient: Tensor, state: dict[str, Tensor], retracts: bool
    ) -> None:
        if not state:
            state["step"] = torch.zeros((), dtype=torch.int64, device=p.device)
            state["v"] = torch.zeros((), device=p.device)
        t = state["step"].add_(1)
        x = (p / (p.norm(dim=1, keepdim=True) + _EPSILON)).T
        if retracts:
            q, r = torch.linalg.qr(x)
            x = q * torch.sign(torch.diagonal(r))
        m = gradient.T
        state["v"].lerp_(gradient.square().sum().to(state["v"].dtype), 1 - _BETA2)
        v_hat = state["v"] / (1 - torch.pow(_BETA2, t))
        w_hat = m @ x.T - 0.5 * x @ (x.T @ m @ x.T)
        w = (w_hat - w_hat.T) / torch.sqrt(v_hat + _EPSILON)
        alpha = torch.clamp(1 / (w.abs().sum(0).max() + _EPSILON), max=self.lr)
        y = x - alpha * m
        for _ in range(_FIXED_POINT_STEPS):
            y = x - 0.5 * alpha * (w @ (x + y))
        p.copy_(y.T)
