"""How much memory a fit will take, stated before it starts, and how much there is.

The plan counts what a fit allocates beyond the graph itself: a graph in memory is there already,
and memory maps are the system's to keep or drop. Each stage's parts are formulas in the sizes of
the graph; the peak is the largest stage together with all that outlives it. Constants come from
measurements (``hencler bench scale`` records both), rounded up.
"""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from ._encodings import EXACT_ENTRIES
from ._errors import ResourceError
from ._graph import SAMPLED_NODES, Graph
from ._learned import COLUMNS_PER_CLUSTER, MAX_COLUMNS
from ._network import ENCODING_LENGTH, KMEANS_NODES, LINK_COLUMNS
from ._ranks import ALONE, Ranks
from ._selection import EVIDENCE_NODES

__all__ = ["MemoryPlan", "available_memory", "closed_form_plan", "network_plan", "total_memory"]

GIB = 1 << 30

SMALL = 256 << 20
"""Plans below this are never refused: they are within the noise of what a process takes."""

_LIBRARIES = 128 << 20
"""What the linear algebra allocates on first use."""


@dataclass(frozen=True)
class MemoryPlan:
    """Bytes that a fit will take beyond the graph, by part.

    Attributes
    ----------
    kept : parts that stay from where they are made to the end
    stages : parts that live during one stage only, of which the largest counts
    mapped : bytes of the graph that are memory maps, and no memory of the process
    """

    kept: dict[str, int]
    stages: dict[str, int]
    mapped: int = 0
    notes: tuple[str, ...] = field(default=())

    @property
    def total(self) -> int:
        return _LIBRARIES + sum(self.kept.values()) + max(self.stages.values(), default=0)

    def line(self) -> str:
        """The plan in one line."""
        parts = self.kept | self.stages
        largest = sorted(parts, key=lambda name: -parts[name])[:3]
        shown = ", ".join(f"{name} {_size(parts[name])}" for name in largest)
        maps = f" beyond {_size(self.mapped)} of mapped files" if self.mapped else ""
        there = available_memory()
        free = "" if there is None else f"; {_size(there)} available"
        return f"memory: about {_size(self.total)}{maps} ({shown}){free}"

    def to_dict(self) -> dict[str, Any]:
        return {
            "planned_bytes": self.total,
            "mapped_bytes": self.mapped,
            "available_bytes": available_memory(),
            "kept": self.kept,
            "stages": self.stages,
            "notes": list(self.notes),
        }

    def require(self, remedy: str) -> None:
        """Refuse what cannot fit."""
        there = available_memory()
        if there is None or self.total < SMALL or self.total <= there:
            return
        raise ResourceError(
            f"the fit needs about {_size(self.total)} of memory, {_size(there)} are available",
            remedy=remedy,
        )


def _size(count: int) -> str:
    if count >= GIB // 10:
        return f"{count / GIB:.1f} GiB"
    return f"{max(1, round(count / (1 << 20)))} MiB"


# --- plans -----------------------------------------------------------------------------------


def network_plan(
    graph: Graph,
    *,
    n_components: int,
    batch_size: int | None,
    on_cpu: bool = True,
    ranks: Ranks = ALONE,
) -> MemoryPlan:
    """Plan of the presets ``paper`` and ``released``: O(batch) + O(n s).

    Parameters
    ----------
    n_components : s
    batch_size : nodes per step, None for all
    on_cpu : whether the steps are in this memory, and not in that of a GPU
    ranks : processes that share the nodes, the steps and their results
    """
    n, links = graph.n_nodes, int(graph.adjacency.nnz)
    own = -(-n // ranks.size)
    hidden, features = 256, 128
    width = (2 * LINK_COLUMNS if graph.x is None else graph.n_attributes) + ENCODING_LENGTH
    batch = n if batch_size is None else min(batch_size, n)
    batch = -(-batch // ranks.size)
    block = min(n, (1 << 21) // (width + hidden))
    exact = links <= EXACT_ENTRIES
    weights = 2 * (width * hidden + hidden * features) + (2 * features + width) * (features + width)
    decoder = features + width
    # Two maps forward and backward, the targets of a quarter of the batch, and the decoder.
    step = 4 * batch * (6 * (width + hidden + features) + 3 * (decoder + width))
    if not sp.issparse(graph.x):
        step += 4 * batch * width
    kept = {
        "positional encoding": 4 * n * ENCODING_LENGTH,
        "weights and optimiser": 16 * weights,
    }
    outcome = 2 * 4 * own * n_components
    stages = {
        "encoding": 170 * links if exact else 8 * n + 160 * (1 << 20),
        "training step": step + 16 * own + (24 * links if batch == n else 0),
        "embeddings e and r": outcome + 4 * block * (2 * width + 4 * hidden + 4 * features),
        # Clusters and classes of all nodes, and what writing them takes: measured at 10^7 nodes.
        "clusters": outcome
        + 72 * (n if ranks.first else own)
        + 40 * min(n, KMEANS_NODES) * 2 * n_components
        + 8 * min(n, (1 << 20) // n_components) * 4 * n_components,
    }
    if not on_cpu:
        stages["training step"] = 16 * own
    if graph.x is None:
        kept["links as columns"] = 8 * n * 4 * LINK_COLUMNS
        stages["singular vectors of the links"] = 8 * n * 2 * 170 + 12 * links
    note = "positional encoding: " + ("exact" if exact else "exact to two steps, then sampled")
    return MemoryPlan(kept, stages, mapped_bytes(graph), (note,))


def closed_form_plan(graph: Graph, *, n_clusters: int, n_components: int) -> MemoryPlan:
    """Plan of the default preset: linear in nodes, links and attribute entries."""
    n, links, s = graph.n_nodes, int(graph.adjacency.nnz), n_components
    if n > SAMPLED_NODES:
        return _large_closed_form_plan(graph, s)
    if graph.x is None:
        features = 0
    elif sp.issparse(graph.x):
        features = 12 * int(graph.x.nnz) + 16 * n
    else:
        features = 8 * n * 2 * min(graph.n_attributes, 512)
    columns = min(MAX_COLUMNS, COLUMNS_PER_CLUSTER * n_clusters)
    kept = {"attributes as features": features, "links": 12 * links}
    stages = {
        "evidence for the views": 5 * features + 80 * links,
        "singular vectors": 8 * n * (6 * s + 40) + 48 * links,
        "learned maps": (0 if graph.x is None else 8 * n * 6 * columns) + 2 * features + 60 * links,
        "consensus": 8 * n * (80 * n_clusters + 8 * s) + features,
    }
    return MemoryPlan(kept, stages, mapped_bytes(graph))


def _large_closed_form_plan(graph: Graph, s: int) -> MemoryPlan:
    """Attributes in blocks, evidence from a sample, all of size n in single precision."""
    n, links = graph.n_nodes, int(graph.adjacency.nnz)
    touched = min(n, EVIDENCE_NODES * (1 + 2 * links // n))
    features = evidence = 0
    x: Any = graph.x
    if sp.issparse(x):
        features = 12 * int(x.nnz) + 16 * n
        evidence = 6 * features * touched // n
    elif x is not None:
        evidence = 3 * 8 * touched * 2 * min(graph.n_attributes, 512)
    sides = 2 if x is None else 4
    kept = {
        "attributes as features": features,
        "links": 24 * links,
        "embeddings": 4 * n * s * sides + 32 * n,
    }
    stages = {
        "evidence for the views": evidence + 70 * links,
        "singular vectors": 4 * n * max((s + 20) * 7, 8 * s + 41),
        "clusters": 8 * min(60 * n * s, 5 << 24),
    }
    return MemoryPlan(kept, stages, mapped_bytes(graph))


def mapped_bytes(graph: Graph) -> int:
    """Bytes of a graph that are memory maps."""
    parts = [graph.adjacency.indptr, graph.adjacency.indices, graph.adjacency.data]
    x: Any = graph.x
    if sp.issparse(x):
        parts += [x.indptr, x.indices, x.data]
    elif x is not None:
        parts.append(x)
    return sum(part.nbytes for part in parts if isinstance(part, np.memmap))


# --- what there is ---------------------------------------------------------------------------


def available_memory() -> int | None:
    """Bytes that this process can still allocate; None where the system does not say.

    The least of what the machine has left, what the control group leaves, and what the limits
    of the process (``ulimit -v``, ``ulimit -d``) allow.
    """
    found = [_machine_available(), *_group_available(), *_limit_available()]
    known = [count for count in found if count is not None]
    return max(0, min(known)) if known else None


def total_memory() -> int | None:
    """Bytes of memory of the machine."""
    with suppress(AttributeError, ValueError, OSError):
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return None


def _machine_available() -> int | None:
    with suppress(OSError, ValueError, IndexError):
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    return total_memory()


def _group_available(root: Path = Path("/sys/fs/cgroup")) -> list[int]:
    """What the control group, and those above it, leave; files in its cache can be dropped."""
    found = []
    with suppress(OSError, ValueError, IndexError):
        own = Path("/proc/self/cgroup").read_text().split("::", 1)[1].splitlines()[0]
        folder = root / own.lstrip("/")
        for group in (folder, *folder.parents):
            if not group.is_relative_to(root):
                break
            found += _one_group(group, "memory.max", "memory.current", "inactive_file")
    found += _one_group(
        root / "memory", "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"
    )
    return found


def _one_group(group: Path, limit: str, usage: str, cache: str) -> list[int]:
    with suppress(OSError, ValueError):
        most = int((group / limit).read_text())
        used = int((group / usage).read_text())
        for line in (group / "memory.stat").read_text().splitlines():
            if line.startswith(f"{cache} "):
                used -= int(line.split()[1])
        return [most - used]
    return []


def _limit_available() -> list[int]:
    found = []
    with suppress(ImportError, OSError, ValueError, IndexError):
        import resource

        pages = Path("/proc/self/statm").read_text().split()
        page = os.sysconf("SC_PAGE_SIZE")
        for limit, used in ((resource.RLIMIT_AS, pages[0]), (resource.RLIMIT_DATA, pages[5])):
            soft = resource.getrlimit(limit)[0]
            if soft != resource.RLIM_INFINITY:
                found.append(soft - int(used) * page)
    return found
