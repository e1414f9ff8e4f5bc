"""Batches: made ahead, from the device, and the same as those from the host."""

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from hencler import Graph, HeNCler, _training, make_heterophilous_graph
from hencler._training import NodeInputs, OnDevice, TrainingSettings, _ahead, _step_size
from hencler.bench.speed import Subject

CPU = torch.device("cpu")


def test_batches_are_made_ahead_in_order():
    made = []

    def make(i):
        made.append(i)
        return i

    for i, batch in enumerate(_ahead(make, 4)):
        assert batch == i
    assert made == [0, 1, 2, 3]


def test_an_error_while_a_batch_is_made_is_raised():
    def make(i):
        if i == 2:
            raise MemoryError("no room")
        return i

    with pytest.raises(MemoryError, match="no room"):
        list(_ahead(make, 4))


@pytest.mark.parametrize(
    ("batch_size", "n", "expected"),
    [(None, 100, 0.01), (100, 100, 0.01), (64, 100, 0.005), (256, 1000, 0.01), (8192, 10**6, 0.01)],
)
def test_only_small_minibatches_take_smaller_steps(batch_size, n, expected):
    settings = TrainingSettings(batch_size=batch_size, learning_rate=0.01)
    assert _step_size(settings, n) == pytest.approx(expected)


def test_inputs_on_the_device_are_those_on_the_host():
    rng = np.random.default_rng(0)
    inputs = NodeInputs(None, rng.random((20, 4)), rng.random((20, 3)))
    rows = np.array([2, 3, 17])
    ours, theirs = OnDevice(inputs, CPU).rows(rows, CPU), inputs.rows(rows, CPU)
    assert torch.equal(ours.with_ones, theirs.with_ones)
    assert torch.equal(ours.dense, theirs.dense)
    assert not OnDevice.fits(inputs, CPU)


@pytest.mark.parametrize("preset", ["paper", "released"])
def test_a_device_that_draws_its_batches_trains_as_the_host_does(preset, monkeypatch):
    """Other draws of the same batches: as many steps, and the losses go the same way."""
    graph = make_heterophilous_graph(60, 3, n_attributes=5, random_state=0)
    settings = {"preset": preset, "epochs": 30, "batch_size": 16, "device": "cpu"}
    host = HeNCler(3, **settings, random_state=0).fit(graph)
    monkeypatch.setattr(_training.OnDevice, "fits", lambda *_: True)
    device = HeNCler(3, **settings, random_state=0).fit(graph)
    assert list(host.history_[0]) == list(device.history_[0])
    for loss in ("node", "edge"):
        ours, theirs = (np.mean([h[loss] for h in m.history_[-10:]]) for m in (device, host))
        assert ours == pytest.approx(theirs, rel=0.25)


def test_a_single_batch_on_a_device_is_a_full_batch(monkeypatch):
    """Exact sums over all nodes, whoever draws: the losses without pairs are the same."""
    graph = make_heterophilous_graph(60, 3, n_attributes=5, random_state=0)
    monkeypatch.setattr(_training.OnDevice, "fits", lambda *_: True)
    losses = []
    for make in (_training._full_batch_epochs, _training._minibatch_epochs):
        subject = Subject.make(graph, "paper", CPU)
        optimisers = _training._optimisers(subject.net, subject.settings)
        run = make(subject.net, subject.inputs, graph.adjacency, subject.settings, optimisers, CPU)
        losses.append(run(1)[0])
    for name in ("wksvd", "node"):
        assert float(losses[0][name]) == pytest.approx(float(losses[1][name]), rel=1e-5)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("preset", ["paper", "released"])
@pytest.mark.parametrize("batch_size", [None, 128])
@pytest.mark.parametrize("sparse", [False, True])
def test_an_epoch_on_a_gpu_never_waits_for_it(preset, batch_size, sparse):
    if sparse and batch_size is not None:
        pytest.skip("sparse minibatches come from the host")
    graph = make_heterophilous_graph(500, 3, n_attributes=5, random_state=0)
    if sparse:
        graph = Graph(graph.adjacency, sp.csr_array(np.maximum(graph.x, 0)), y=graph.y)
    epoch = Subject.make(graph, preset, torch.device("cuda"), batch_size).epochs()
    for i in range(5):  # the steps before the recording, and the recording itself
        epoch(i + 1)
    torch.cuda.set_sync_debug_mode("error")
    try:
        losses, _ = epoch(6)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    assert all(torch.isfinite(value) for value in losses.values())


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("preset", ["paper", "released"])
@pytest.mark.parametrize("batch_size", [None, 100])
def test_a_gpu_finds_what_the_cpu_finds(preset, batch_size):
    graph = make_heterophilous_graph(300, 3, n_attributes=8, random_state=0)
    histories = [
        HeNCler(3, preset=preset, batch_size=batch_size, epochs=30, device=d, random_state=0)
        .fit(graph)
        .history_
        for d in ("cpu", "cuda")
    ]
    # Draws differ, and with them the end of a training; a factor of two is within their spread.
    cpu, gpu = (np.mean([record["node"] for record in h[-10:]]) for h in histories)
    assert abs(np.log(cpu / gpu)) < np.log(2.5)
