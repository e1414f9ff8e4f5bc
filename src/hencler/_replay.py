"""A training step on a GPU, recorded once as a CUDA graph and then replayed.

A step of this model is some hundred small kernels. Started one by one they cost the host more time
than the GPU takes for their work; a recorded step starts all of them at once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from ._adam import Optimiser
from ._cayley import CayleyAdam

__all__ = ["Replayed"]

_EAGER_CALLS = 3
"""Steps before the recording: they make what libraries make on first use, and the moments."""

Tensors = tuple[Tensor, ...]


class Replayed:
    """Calls of `step`; on a GPU, from the fourth one on, replays of its recording.

    `step` takes nothing, always works on the same tensors in the same shapes, never waits for
    the GPU and returns tensors. Those of a replay are overwritten by the next one. On a CPU, and in
    steps in which an optimiser does something that is not recorded, `step` is called.

    Parameters
    ----------
    step : what to record
    optimisers : those whose steps are part of it
    generator : the random numbers of it; it can be seeded anew before every call
    """

    def __init__(
        self,
        step: Callable[[], Tensors],
        optimisers: Sequence[Optimiser],
        generator: torch.Generator,
    ) -> None:
        self.step, self.generator = step, generator
        self.counted = [o for o in optimisers if isinstance(o, CayleyAdam)]
        self.graph: torch.cuda.CUDAGraph | None = None
        self.left = _EAGER_CALLS
        # Versions of torch that cannot record a generator of one's own take every step eagerly.
        self.records = generator.device.type == "cuda" and hasattr(
            torch.cuda.CUDAGraph, "register_generator_state"
        )
        if self.records:
            self.stream = torch.cuda.Stream(generator.device)

    def __call__(self) -> Tensors:
        if not self.records:
            return self.step()
        if self.left > 0 or any(o.retracts for o in self.counted):
            self.left -= 1
            return self._aside()
        if self.graph is None:
            self._record()
        else:
            for optimiser in self.counted:
                optimiser.count_replayed()
        assert self.graph is not None
        self.graph.replay()
        return self.results

    def _aside(self) -> Tensors:
        """A call on the stream of the recording, whose memory autograd's nodes belong to."""
        here = torch.cuda.current_stream(self.generator.device)
        self.stream.wait_stream(here)
        with torch.cuda.stream(self.stream):
            results = self.step()
        here.wait_stream(self.stream)
        for tensor in results:
            tensor.record_stream(here)
        return results

    def _record(self) -> None:
        graph = torch.cuda.CUDAGraph()
        graph.register_generator_state(self.generator)
        # Errors of other threads, which may use the GPU meanwhile, are not this recording's.
        with torch.cuda.graph(graph, stream=self.stream, capture_error_mode="thread_local"):
            self.results = self.step()
        self.graph = graph
