"""Adam, and what an optimiser is here.

Optimisers of ``torch.optim`` import torch's compiler when the first of them is made, which takes
seconds: as long as many a fit. These do not.
"""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor

__all__ = ["Adam", "Optimiser"]


class Optimiser:
    """Parameters, and the tensors that are kept for each.

    Attributes
    ----------
    parameters : list of tensors
    state : for the position of a parameter its tensors by name; filled by the first step
    """

    def __init__(self, parameters: Iterable[Tensor], lr: float) -> None:
        self.parameters = list(parameters)
        self.lr = lr
        self.state: dict[int, dict[str, Tensor]] = {}

    def zero_grad(self) -> None:
        for p in self.parameters:
            p.grad = None

    def step(self) -> None:
        raise NotImplementedError

    def load_state(self, state: dict[int, dict[str, Tensor]]) -> None:
        """Go on from the `state` of another optimiser, on the parameters' device."""
        self.state = {}
        for j, tensors in state.items():
            like = self.parameters[j]
            self.state[j] = {
                # Stored as the parameter is: the kernels ask so.
                key: torch.empty_like(like).copy_(value)
                if value.shape == like.shape
                else value.to(like.device, copy=True)
                for key, value in tensors.items()
            }


class Adam(Optimiser):
    """Adam (Kingma & Ba, ICLR 2015), as one kernel; like :class:`torch.optim.Adam` in numbers."""

    betas = (0.9, 0.999)
    epsilon = 1e-8

    @torch.no_grad()
    def step(self) -> None:
        moved = {j: p.grad for j, p in enumerate(self.parameters) if p.grad is not None}
        if not moved:
            return
        for j in moved:
            if j not in self.state:
                p = self.parameters[j]
                self.state[j] = {
                    "step": torch.zeros((), dtype=torch.float32, device=p.device),
                    "exp_avg": torch.zeros_like(p),
                    "exp_avg_sq": torch.zeros_like(p),
                }
        states = [self.state[j] for j in moved]
        steps = [s["step"] for s in states]
        torch._foreach_add_(steps, 1)
        torch._fused_adam_(
            [self.parameters[j] for j in moved],
            list(moved.values()),
            [s["exp_avg"] for s in states],
            [s["exp_avg_sq"] for s in states],
            [],
            steps,
            lr=self.lr,
            beta1=self.betas[0],
            beta2=self.betas[1],
            weight_decay=0.0,
            eps=self.epsilon,
            amsgrad=False,
            maximize=False,
        )
