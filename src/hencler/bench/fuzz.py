"""Hostile inputs for every reader: seeds, targets, and two ways to make inputs of them.

A target takes bytes and gives them to a reader. The reader may return or raise a
:class:`~hencler._errors.HenclerError`; anything else is a finding. Where atheris is installed its
coverage-guided mutations are used, with the bytecode of the readers instrumented; elsewhere
the seeds are mutated blindly, and the result says so.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import resource
import shutil
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import scipy.io
import scipy.sparse as sp

from .. import HeNCler, make_heterophilous_graph
from .._config import read_settings, write_settings
from .._errors import HenclerError
from .._persistence import CheckpointFile
from .._run import read_run
from ..io import (
    convert,
    read_graph,
    read_labels,
    write_edge_list,
    write_labels,
    write_npz,
    write_store,
)

__all__ = ["TARGETS", "Target", "fuzz", "make_targets", "mutate"]

_MEMORY = 6 << 30
_FLUSH = 1000


class Target:
    """A reader with the bytes it is started from.

    Parameters
    ----------
    read : callable of bytes
    seeds : valid inputs
    """

    def __init__(self, read: Callable[[bytes], object], seeds: Sequence[bytes]) -> None:
        self.read = read
        self.seeds = list(seeds)

    def __call__(self, data: bytes) -> bool:
        """Whether `data` was accepted; a refusal is a typed error, anything else propagates."""
        try:
            self.read(data)
        except HenclerError:
            return False
        return True


def make_targets(folder: Path) -> dict[str, Target]:
    """All targets; `folder` is where their files are written, best in memory."""
    graph = make_heterophilous_graph(12, 3, n_attributes=3, random_state=0)
    files = _seed_files(folder / "seeds", graph)
    targets: dict[str, Target] = {}
    for name, seeds in files.items():
        suffix = name.rpartition(".")[2]
        file = folder / f"input.{suffix}"
        if name.startswith("labels"):
            targets[name] = Target(_with_file(file, read_labels), seeds)
        elif name.startswith("features"):
            edges = folder / "seeds" / "edges.csv"
            targets[name] = Target(
                _with_file(file, lambda f, edges=edges: read_graph(edges, features=f)),  # type: ignore[misc]
                seeds,
            )
        else:
            targets[name] = Target(_with_file(file, read_graph), seeds)
    targets |= _model_targets(folder, graph)
    run = folder / "run"
    run.mkdir()
    targets["run.json"] = Target(
        _with_file(run / "run.json", lambda f: read_run(f.parent)),
        [b'{"graph": "g", "cluster_sizes": [1, 2], "settings": {"n_clusters": 2}, "warnings": []}'],
    )
    settings = write_settings(folder, {"graph": "g.csv", "clusters": 3, "label": "a b"})
    targets["hencler.yaml"] = Target(
        _with_file(settings, read_settings),
        [settings.read_bytes(), b"seed: !!int 3\nepochs: 0x10\n", b"label: &a x\ntruth: *a\n"],
    )
    targets |= _convert_targets(folder, files)
    write_store(graph, folder / "store")
    header = next((folder / "store").glob("*.json"))
    targets["store.json"] = Target(
        _with_file(header, lambda f: read_graph(f.parent)), [header.read_bytes()]
    )
    return targets


TARGETS = (
    "edges.csv", "edges.tsv", "edges.txt", "edges.parquet", "edges.graphml", "edges.gml",
    "edges.mtx", "edges.npz", "features.csv", "features.npy", "features.npz", "features.parquet",
    "labels.csv", "labels.parquet", "model.json", "tensors.safetensors", "checkpoint.json",
    "checkpoint.safetensors", "run.json", "hencler.yaml", "store.json", "convert.csv",
    "convert.npy", "convert.parquet", "convert_nodes.csv", "convert_nodes.npy",
    "convert_nodes.parquet",
)  # fmt: skip


def _with_file(file: Path, read: Callable[[Path], object]) -> Callable[[bytes], object]:
    def call(data: bytes) -> object:
        file.write_bytes(data)
        return read(file)

    return call


def _seed_files(folder: Path, graph: Any) -> dict[str, list[bytes]]:
    """Small valid files of every format."""
    import networkx as nx
    import pyarrow as pa
    import pyarrow.parquet as pq

    folder.mkdir(parents=True)
    nodes = [f"n{i}" for i in range(graph.n_nodes)]
    write_edge_list(graph, folder / "edges.csv", attributes=folder / "features.csv")
    write_edge_list(graph, folder / "edges.tsv", attributes=folder / "features.tsv")
    pairs = zip(*graph.adjacency.nonzero())
    (folder / "edges.txt").write_text("# links\n" + "".join(f"{u} {v}\n" for u, v in pairs))
    edges = graph.adjacency.tocoo()
    table = pa.table({"source": edges.row, "target": edges.col, "weight": edges.data})
    pq.write_table(table, folder / "edges.parquet")
    network = nx.DiGraph(zip(*(part.tolist() for part in graph.adjacency.nonzero())))
    nx.set_node_attributes(network, {i: float(graph.x[i, 0]) for i in network}, "a")
    nx.write_graphml(network, folder / "edges.graphml")
    nx.write_gml(nx.relabel_nodes(network, str), folder / "edges.gml")
    scipy.io.mmwrite(folder / "edges.mtx", sp.coo_array(graph.adjacency))
    write_npz(graph, folder / "edges.npz")
    np.save(folder / "features.npy", graph.x)
    np.savez(folder / "features.npz", x=graph.x, ids=np.arange(graph.n_nodes))
    columns = {"id": np.arange(graph.n_nodes), "a": graph.x[:, 0], "b": graph.x[:, 1]}
    pq.write_table(pa.table(columns), folder / "features.parquet")
    write_labels(folder / "labels.csv", nodes, graph.y)
    pq.write_table(pa.table({"node": nodes, "cluster": graph.y}), folder / "labels.parquet")
    seeds = {p.name: [p.read_bytes()] for p in folder.iterdir() if p.suffix != ".tsv"}
    seeds["edges.tsv"] = [(folder / "edges.tsv").read_bytes()]
    seeds["edges.csv"].append(b"a,b\nb,c\nc,a\n")
    seeds["edges.mtx"].append(b"%%MatrixMarket matrix array real general\n2 2\n0\n1\n1\n0\n")
    return seeds


def _convert_targets(folder: Path, files: dict[str, list[bytes]]) -> dict[str, Target]:
    """The readers that go block by block from a file to a store: of links, and of nodes."""
    out = folder / "converted"

    def to_store(edges: Path, nodes: Path | None = None) -> None:
        try:
            read_graph(convert(edges, out, features=nodes))
        finally:
            shutil.rmtree(out, ignore_errors=True)

    pairs = np.array([[0, 1], [1, 2], [2, 0]])
    np.save(folder / "pairs.npy", pairs)
    seeds = {**files, "edges.npy": [(folder / "pairs.npy").read_bytes()]}
    targets: dict[str, Target] = {}
    for suffix in ("csv", "npy", "parquet"):
        file = folder / f"convert.{suffix}"
        targets[f"convert.{suffix}"] = Target(_with_file(file, to_store), seeds[f"edges.{suffix}"])
        targets[f"convert_nodes.{suffix}"] = Target(
            _with_file(file, lambda f: to_store(folder / "seeds" / "edges.csv", f)),
            seeds[f"features.{suffix}"],
        )
    return targets


def _model_targets(folder: Path, graph: Any) -> dict[str, Target]:
    """Headers beside valid tensors, tensors below a header that names their checksum."""
    saved, kept = folder / "model", folder / "kept"
    options: dict[str, Any] = {"preset": "paper", "epochs": 1, "n_init": 1, "random_state": 0}
    HeNCler(3, **options, device="cpu", checkpoint=kept, checkpoint_epochs=1).fit(graph)
    headers, blobs = [], []
    for model in (HeNCler(3, n_init=1, random_state=0), HeNCler(3, **options, device="cpu")):
        model.fit(graph).save(saved)
        headers.append((saved / "model.json").read_bytes())
        blobs.append(next(saved.glob("*.safetensors")).read_bytes())
    for blob in blobs:
        (saved / _tensor_name(blob)).write_bytes(blob)
    kept_header = (kept / "model.json").read_bytes()
    kept_blob = next(kept.glob("*.safetensors")).read_bytes()
    fingerprint = json.loads(kept_header)["fingerprint"]

    def load_model(_: Path) -> object:
        return HeNCler.load(saved, device="cpu")

    def load_checkpoint(_: Path) -> object:
        return CheckpointFile(kept, fingerprint, resume=True).load()

    def load_tensors(
        place: Path, header: bytes, load: Callable[[Path], object]
    ) -> Callable[[bytes], object]:
        parsed = json.loads(header)

        def call(data: bytes) -> object:
            name = _tensor_name(data)
            parsed["tensors"] = {"file": name, "sha256": hashlib.sha256(data).hexdigest()}
            (place / "model.json").write_text(json.dumps(parsed))
            (place / name).write_bytes(data)
            try:
                return load(place)
            finally:
                (place / name).unlink()

        return call

    other = folder / "tensors"
    other.mkdir()
    again = folder / "kept-tensors"
    again.mkdir()
    return {
        "model.json": Target(_with_file(saved / "model.json", load_model), headers),
        "tensors.safetensors": Target(
            load_tensors(other, headers[0], lambda place: HeNCler.load(place, device="cpu")),
            blobs[:1],
        ),
        "checkpoint.json": Target(_with_file(kept / "model.json", load_checkpoint), [kept_header]),
        "checkpoint.safetensors": Target(
            load_tensors(
                again,
                kept_header,
                lambda place: CheckpointFile(place, fingerprint, resume=True).load(),
            ),
            [kept_blob],
        ),
    }


def _tensor_name(blob: bytes) -> str:
    return f"tensors-{hashlib.sha256(blob).hexdigest()[:16]}.safetensors"


# --- inputs --------------------------------------------------------------------------------------


_TOKENS = [
    b"nan", b"inf", b"-1", b"1e999", b"9" * 5000, b"\0", b"\xff\xfe", b'"', b",", b"\n", b"[" * 50,
    b"{" * 50, b"<a>" * 20, b"null", b"true", b"-0", b"\xe2\x80\xae", b"=1+1", b"../x", b"1e308",
]  # fmt: skip


def mutate(data: bytes, rng: np.random.Generator) -> bytes:
    """A few random changes: bits, bytes, cuts, repeats, tokens that parsers trip over."""
    out = bytearray(data)
    for _ in range(int(rng.integers(1, 6))):
        kind, at = int(rng.integers(7)), int(rng.integers(len(out) + 1))
        end = min(len(out), at + int(rng.geometric(0.1)))
        if kind == 0 and at < len(out):
            out[at] ^= 1 << int(rng.integers(8))
        elif kind == 1:
            out[at:end] = rng.bytes(end - at)
        elif kind == 2:
            del out[at:end]
        elif kind == 3:
            out[at:at] = out[at:end] * int(rng.integers(1, 50))
        elif kind == 4:
            out[at:end] = _TOKENS[int(rng.integers(len(_TOKENS)))]
        elif kind == 5 and rng.random() < 0.2:
            del out[at:]
        else:
            other = int(rng.integers(len(out) + 1))
            out[at:at] = out[other : other + 40]
    return bytes(out[: 1 << 20])


class _Tally:
    """Counts of one target, written to a file now and then: the process may die."""

    def __init__(self, target: Target, store: Path, engine: str, limit: int, seconds: float):
        self.target, self.store, self.limit = target, store, limit
        self.end = time.monotonic() + seconds
        self.result: dict[str, Any] = {
            "engine": engine,
            "inputs": 0,
            "accepted": 0,
            "slowest_seconds": 0.0,
            "findings": {},
        }

    def one(self, data: bytes) -> bool:
        """Read one input; False when enough were read."""
        start, result = time.monotonic(), self.result
        try:
            result["accepted"] += self.target(data)
        except Exception as error:  # that is what is looked for
            frame = traceback.extract_tb(error.__traceback__)[-1]
            key = f"{type(error).__name__} at {Path(frame.filename).name}:{frame.lineno}"
            if key not in result["findings"]:
                name = hashlib.sha256(data).hexdigest()[:12]
                (self.store.parent / f"{self.store.stem}-{name}").write_bytes(data)
                result["findings"][key] = {"message": str(error)[:200], "input": name}
        result["inputs"] += 1
        seconds = time.monotonic() - start
        result["slowest_seconds"] = max(result["slowest_seconds"], round(seconds, 3))
        done = result["inputs"] >= self.limit or time.monotonic() > self.end
        if done or result["inputs"] % _FLUSH == 0:
            self.store.write_text(json.dumps(result))
        return not done


def fuzz(name: str, store: Path, *, inputs: int, seconds: float, seed: int = 0) -> None:
    """Give a target `inputs` inputs, or as many as `seconds` allow; does not return."""
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, resource.getrlimit(resource.RLIMIT_AS)[1]))
    memory = Path("/dev/shm")
    folder = Path(tempfile.mkdtemp(dir=memory if memory.is_dir() else None))
    target = make_targets(folder)[name]
    try:
        import atheris
    except ImportError:
        atheris = None
    tally = _Tally(target, store, "atheris" if atheris else "blind", inputs, seconds)
    if atheris is None:
        rng = np.random.default_rng(seed)
        while tally.one(mutate(target.seeds[int(rng.integers(len(target.seeds)))], rng)):
            pass
        _leave(folder)
    corpus = folder / "corpus"
    corpus.mkdir()
    for i, data in enumerate(target.seeds):
        (corpus / str(i)).write_bytes(data)
    _instrument(atheris)

    def one(data: bytes) -> None:
        if not tally.one(data):
            _leave(folder)

    options = ["-max_len=65536", "-timeout=60", "-rss_limit_mb=0", f"-seed={seed + 1}"]
    atheris.Setup(["fuzz", *options, str(corpus)], one)
    atheris.Fuzz()


def _instrument(atheris: Any) -> None:
    """Coverage of what reads: this package's readers, networkx's and NumPy's."""
    prefixes = ("hencler.io", "hencler._convert", "hencler._store", "hencler._graph",
                "hencler._persistence", "hencler._state", "hencler._network",
                "hencler._closed_form", "hencler._run", "networkx.readwrite", "numpy.lib", "json",
                "csv")  # fmt: skip
    for name, module in list(sys.modules.items()):
        if name.startswith(prefixes):
            for value in list(vars(module).values()):
                if type(value).__name__ == "function" and value.__module__ == name:
                    atheris.instrument_func(value)


def _leave(folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    sys.stdout.flush()
    os._exit(0)  # libFuzzer does not give control back


def main(arguments: Sequence[str] | None = None) -> None:
    """``python -m hencler.bench.fuzz TARGET --out FILE [--inputs N] [--seconds S]``."""
    parser = argparse.ArgumentParser(prog="python -m hencler.bench.fuzz", description=__doc__)
    parser.add_argument("target", choices=TARGETS)
    parser.add_argument("--out", required=True, type=Path)
    parser.add_argument("--inputs", type=int, default=100_000)
    parser.add_argument("--seconds", type=float, default=600.0)
    parser.add_argument("--seed", type=int, default=0)
    chosen = parser.parse_args(arguments)
    fuzz(
        chosen.target,
        chosen.out,
        inputs=chosen.inputs,
        seconds=chosen.seconds,
        seed=chosen.seed,
    )


if __name__ == "__main__":
    main()
