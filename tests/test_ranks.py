"""Several processes against one: the same loss, the same gradients, the same statistics."""

import json
import os
import socket
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
import torch
import torch.distributed as dist
import torch.multiprocessing as mp

from hencler import HeNCler, _ranks, make_heterophilous_graph
from hencler._errors import HenclerError
from hencler._model import Batch, FeatureRows, HeNClerNet, ModelConfig
from hencler._order import canonical_order
from hencler._ranks import ALONE, Ranks, current_ranks
from hencler._torch import SparseMatrix, seeded
from hencler._training import NodeInputs, TrainingSettings, embed, final_statistics, train

CPU = torch.device("cpu")
N = 23

pytestmark = pytest.mark.skipif(
    not (dist.is_available() and dist.is_gloo_available()), reason="needs torch with gloo"
)


# --- the loss over a global batch --------------------------------------------------------------


def make_net(variant, d_sparse):
    config = ModelConfig(d_sparse, 7, 3, n_components=3, hidden=10, n_features=9, variant=variant)
    with seeded(0, CPU):
        return HeNClerNet(config).double()


def part_of(cuts, k, d_sparse):
    """What rank k of len(cuts) - 1 sees of one global batch; of one rank, all of it."""
    rng = np.random.default_rng(0)
    dense = torch.from_numpy(rng.normal(size=(N, 7)))
    sparse = sp.random_array((N, max(1, d_sparse)), density=0.3, rng=rng, format="csr")
    further = torch.from_numpy(rng.normal(size=(5, 7)))
    source, target = rng.integers(N, size=40), rng.integers(N + 5, size=40)
    is_edge = torch.from_numpy(rng.integers(2, size=40).astype(float))
    weight = torch.from_numpy(rng.random(40))
    lo, hi = cuts[k], cuts[k + 1]
    own = np.flatnonzero((source >= lo) & (source < hi))
    matrix = SparseMatrix(sparse[lo:hi], CPU, torch.float64) if d_sparse else None
    extra = SparseMatrix(sparse[:5], CPU, torch.float64) if d_sparse else None
    return Batch(
        FeatureRows(dense[lo:hi], matrix),
        torch.from_numpy(np.stack([source[own] - lo, target[own]])),
        is_edge[own],
        weight[own],
        n_nodes=50,
        targets=FeatureRows(further, extra),
        n_batch=N,
        start=lo,
    )


def losses_and_gradients(variant, d_sparse, cuts, ranks):
    net = make_net(variant, d_sparse)
    net.ranks = ranks
    losses = net(part_of(cuts, ranks.rank, d_sparse)).losses
    values = torch.stack(list(losses.values()))
    values.sum().backward()
    values = values.detach()
    gradients = [torch.zeros_like(p) if p.grad is None else p.grad for p in net.parameters()]
    moments = [m.clone() for name, m in net.named_buffers() if "running_" in name]
    ranks.sum_(values, *gradients)
    return [values, *gradients, *moments]


def inputs_of(graph):
    return NodeInputs(None, graph.x, np.zeros((graph.n_nodes, 3)))


def statistics_and_embedding(graph, ranks):
    with seeded(0, CPU):
        net = HeNClerNet(ModelConfig(0, 8, 3, n_components=3, hidden=10, n_features=9))
    inputs = inputs_of(graph)
    statistics = final_statistics(net, inputs, CPU, ranks)
    own = embed(net, inputs, statistics, CPU, ranks)
    return [*statistics, *(torch.from_numpy(ranks.collect(z, len(inputs)).copy()) for z in own)]


def clustered(graph):
    model = HeNCler(3, preset="paper", epochs=2, batch_size=16, device="cpu", random_state=0)
    model.fit(graph)
    return {
        "labels": torch.from_numpy(np.array(model.labels_)),
        "transformed": torch.from_numpy(model.transform(graph)),
        "predicted": torch.from_numpy(model.predict(graph)),
        "e": torch.from_numpy(np.array(model.e_)),
        "planned": model.plan_memory(graph).to_dict(),
    }


def trained(graph, ranks, batch_size):
    with seeded(0, CPU):
        net = HeNClerNet(ModelConfig(0, 8, 3, n_components=3, hidden=10, n_features=9))
    settings = TrainingSettings(epochs=4, batch_size=batch_size, seed=0)
    history = train(net, inputs_of(graph), graph.adjacency, settings, CPU, ranks=ranks)
    return history, [p.detach() for p in net.parameters()]


CUTS = {1: [0, N], 2: [0, 5, N], 3: [0, 11, 12, N]}


def small_graph():
    return make_heterophilous_graph(41, 3, n_attributes=5, random_state=0)


def work(rank, folder):
    """What each process of the tests does: as one of three, then, but for the last, of two."""
    torch.set_num_threads(1)
    for size in (3, 2):
        if rank < size:
            dist.init_process_group(
                "gloo", init_method=f"file://{folder}/{size}", rank=rank, world_size=size
            )
            torch.save(outcome_of(size), f"{folder}/{size}-{rank}.pt")
            dist.barrier()
            dist.destroy_process_group()


def outcome_of(size):
    ranks = current_ranks(CPU)
    graph = small_graph()
    outcome = {
        f"{variant}-{d}": losses_and_gradients(variant, d, CUTS[size], ranks)
        for variant in ("paper", "released")
        for d in (0, 15)
    }
    outcome["embedding"] = statistics_and_embedding(graph, ranks)
    outcome["clustered"] = clustered(graph)
    for batch_size in (None, 10):
        history, parameters = trained(graph, ranks, batch_size)
        outcome[f"trained-{batch_size}"] = parameters
        assert all(np.isfinite(list(record.values())).all() for record in history)
    return outcome


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("ranks")
    mp.spawn(work, (str(folder),), nprocs=3)
    return folder


@pytest.fixture(params=[2, 3])
def outcomes(request, folder):
    return [torch.load(folder / f"{request.param}-{rank}.pt") for rank in range(request.param)]


@pytest.mark.parametrize("variant", ["paper", "released"])
@pytest.mark.parametrize("d_sparse", [0, 15])
def test_loss_and_gradients_are_those_of_one_process(outcomes, variant, d_sparse):
    expected = losses_and_gradients(variant, d_sparse, CUTS[1], ALONE)
    for found in outcomes:
        for a, b in zip(found[f"{variant}-{d_sparse}"], expected, strict=True):
            torch.testing.assert_close(a, b, atol=1e-6, rtol=1e-6)


def test_statistics_and_embedding_are_those_of_one_process(outcomes):
    """All of it on the first rank; on the others their own nodes'."""
    expected = statistics_and_embedding(small_graph(), ALONE)
    for rank, found in enumerate(outcomes):
        rows = slice(None) if rank == 0 else slice(*Ranks(rank, len(outcomes)).shard(41))
        for a, b in zip(found["embedding"], [*expected[:4], *(z[rows] for z in expected[4:])]):
            torch.testing.assert_close(a, b, atol=1e-6, rtol=1e-5)


def test_clusters_are_one_clustering_of_all_nodes(outcomes):
    first, *others = (found["clustered"] for found in outcomes)
    assert len(first["labels"]) == len(first["e"]) == 41
    # The model is the same everywhere: it gives the clusters of the fit to all nodes.
    torch.testing.assert_close(first["transformed"][:, :6], first["e"], atol=1e-5, rtol=1e-4)
    order = canonical_order(small_graph().without_labels())
    for rank, found in enumerate(outcomes):
        assert torch.equal(found["clustered"]["predicted"], first["labels"])
        if rank:
            own = order[slice(*Ranks(rank, len(outcomes)).shard(41))]
            assert torch.equal(found["clustered"]["labels"], first["labels"][own])
    for other in others:
        assert other["planned"]["kept"] == first["planned"]["kept"]
        parts = [p["planned"]["stages"]["clusters"] for p in (other, first)]
        assert parts[0] < parts[1]


@pytest.mark.parametrize("batch_size", [None, 10])
def test_all_ranks_train_one_network(outcomes, batch_size):
    first, *others = (found[f"trained-{batch_size}"] for found in outcomes)
    for parameters in others:
        for a, b in zip(parameters, first, strict=True):
            assert torch.equal(a, b)


def test_shards_cover_all_nodes():
    for size in (1, 2, 3, 7):
        shards = [Ranks(rank, size).shard(23) for rank in range(size)]
        assert [lo for lo, _ in shards] == [0, *(hi for _, hi in shards[:-1])]
        assert shards[-1][1] == 23


def test_results_without_room_on_disk_are_refused(monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(_ranks.os, "posix_fallocate", full, raising=False)
    with pytest.raises(HenclerError, match="TMPDIR"):
        _ranks._temporary_map((10, 3), np.dtype("float32"))


# --- the command line --------------------------------------------------------------------------


SIGN = """
import sys
from pathlib import Path
from hencler import _training, cli

append = _training._History.append

def append_and_tell(self, epoch, losses):
    append(self, epoch, losses)
    if epoch == 3:
        Path(sign).touch()

_training._History.append = append_and_tell
sign = sys.argv.pop(1)
cli.main()
"""
"""The command line, with a file as a sign that the third epoch is over."""


def start(rank, size, port, sign, *arguments):
    """One process as torchrun would start it."""
    return subprocess.Popen(
        [sys.executable, "-c", SIGN, f"{sign}-{rank}", "fit", *map(str, arguments)],
        env=os.environ
        | {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(size)}
        | {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "OMP_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@pytest.fixture
def edges(tmp_path):
    from hencler.io import write_npz

    write_npz(small_graph().without_labels(), tmp_path / "graph.npz")
    return tmp_path / "graph.npz"


def test_a_lost_rank_ends_the_run_with_a_message_and_a_checkpoint(edges, tmp_path):
    folder = tmp_path / "run"
    options = ["--clusters", 3, "--preset", "paper", "--device", "cpu", "--out", folder]
    options += ["--epochs", 1_000_000, "--no-report"]
    port = free_port()
    sign = tmp_path / "sign"
    processes = [start(rank, 2, port, sign, edges, *options) for rank in range(2)]
    try:
        deadline = time.monotonic() + 300
        while not Path(f"{sign}-0").exists() and time.monotonic() < deadline:
            time.sleep(0.05)
        processes[1].kill()
        _, message = processes[0].communicate(timeout=120)
    finally:
        for process in processes:
            process.kill()
            process.communicate()
    assert processes[0].returncode == 2, message
    assert "--resume" in message
    assert "Traceback" not in message
    header = json.loads((folder / "checkpoint" / "model.json").read_text())
    assert len(header["history"]) == header["epoch"] > 0

    # One process goes on from there.
    graph = small_graph()
    seen = []
    settings = {"preset": "paper", "device": "cpu", "random_state": 0, "epochs": 1_000_000}
    model = HeNCler(
        3,
        **settings,
        checkpoint=folder / "checkpoint",
        resume=True,
        callback=lambda epoch: (seen.append(epoch.number), os.kill(os.getpid(), 2)),
    )
    with pytest.warns(UserWarning, match="interrupted"):
        model.fit(graph)
    assert seen == [header["epoch"] + 1]


@pytest.mark.slow
def test_fit_under_torchrun(edges, tmp_path):
    folder = tmp_path / "run"
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    command += ["--nproc-per-node", "2", "-m", "hencler", "fit", str(edges)]
    command += ["--clusters", "3", "--preset", "released", "--epochs", "5", "--batch-size", "16"]
    command += ["--device", "cpu", "--out", str(folder), "--no-report"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("the run is in") == 1
    assert len((folder / "labels.csv").read_text().splitlines()) == 42
    assert len((folder / "history.jsonl").read_text().splitlines()) == 5
    assert not Path(folder / "checkpoint").exists()
