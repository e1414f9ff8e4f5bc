"""Batches: made ahead, from the device, and the same as those from the host."""

import numpy as np
import pytest
import torch

from hencler import HeNCler, _training, make_heterophilous_graph
from hencler._training import NodeInputs, OnDevice, _ahead

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


def test_inputs_on_the_device_are_those_on_the_host():
    rng = np.random.default_rng(0)
    inputs = NodeInputs(None, rng.random((20, 4)), rng.random((20, 3)))
    rows = np.array([2, 3, 17])
    ours, theirs = OnDevice(inputs, CPU).rows(rows, CPU), inputs.rows(rows, CPU)
    assert torch.equal(ours.with_ones, theirs.with_ones)
    assert torch.equal(ours.dense, theirs.dense)
    assert not OnDevice.fits(inputs, CPU)


@pytest.mark.parametrize("preset", ["paper", "released"])
def test_training_from_the_device_is_training_from_the_host(preset, monkeypatch):
    graph = make_heterophilous_graph(60, 3, n_attributes=5, random_state=0)
    settings = {"preset": preset, "epochs": 3, "batch_size": 16, "device": "cpu", "random_state": 0}
    host = HeNCler(3, **settings).fit(graph)
    monkeypatch.setattr(_training.OnDevice, "fits", lambda *_: True)
    device = HeNCler(3, **settings).fit(graph)
    np.testing.assert_array_equal(host.e_, device.e_)
    assert host.history_ == device.history_


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("preset", ["paper", "released"])
def test_an_epoch_on_a_gpu_never_waits_for_it(preset):
    from hencler.bench.speed import Subject

    graph = make_heterophilous_graph(500, 3, n_attributes=5, random_state=0)
    epoch = Subject.make(graph, preset, torch.device("cuda")).epochs()
    epoch(1)
    torch.cuda.set_sync_debug_mode("error")
    try:
        losses, _ = epoch(2)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    assert all(torch.isfinite(value) for value in losses.values())


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("preset", ["paper", "released"])
@pytest.mark.parametrize("batch_size", [None, 100])
def test_a_gpu_finds_what_the_cpu_finds(preset, batch_size):
    graph = make_heterophilous_graph(300, 3, n_attributes=8, random_state=0)
    losses = [
        HeNCler(3, preset=preset, batch_size=batch_size, epochs=30, device=d, random_state=0)
        .fit(graph)
        .history_[-1]["node"]
        for d in ("cpu", "cuda")
    ]
    assert losses[0] == pytest.approx(losses[1], rel=0.3)
