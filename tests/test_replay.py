"""Recorded steps: the same numbers as steps that are run, and the same counts."""

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from hencler import Graph, _replay, make_heterophilous_graph
from hencler._cayley import CayleyAdam
from hencler._replay import Replayed
from hencler.bench.speed import Subject

CPU = torch.device("cpu")
needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")


def test_on_a_cpu_a_step_is_simply_called():
    calls = []

    def step():
        calls.append(1)
        return (torch.tensor(float(len(calls))),)

    replayed = Replayed(step, [], torch.Generator())
    assert [float(replayed()[0]) for _ in range(6)] == [1, 2, 3, 4, 5, 6]


def stiefel(seed):
    p = torch.nn.Parameter(torch.eye(3, 8))
    return p, CayleyAdam([p], lr=0.05, seed=seed)


def test_replayed_steps_are_counted_as_steps():
    """What the host counts decides on retractions, also after the state was loaded."""
    p, ours = stiefel(0)
    _, theirs = stiefel(0)
    for i in range(7):
        p.grad = torch.full_like(p, 0.1 * i)
        ours.step()
        theirs.count_replayed()
    assert ours.steps == theirs.steps == 7
    _, loaded = stiefel(0)
    loaded.load_state(ours.state)
    assert loaded.steps == 7
    for _ in range(300):
        for optimiser in (ours, theirs, loaded):
            optimiser.count_replayed()
        assert ours.retracts == theirs.retracts == loaded.retracts


def test_retractions_come_once_in_a_hundred_steps():
    _, optimiser = stiefel(1)
    count = 0
    for _ in range(3000):
        count += optimiser.retracts
        optimiser.count_replayed()
    assert 10 <= count <= 55


@needs_gpu
@pytest.mark.parametrize("preset", ["paper", "released"])
@pytest.mark.parametrize("batch_size", [None, 128])
@pytest.mark.parametrize("sparse", [False, True])
def test_a_replayed_epoch_is_an_epoch(preset, batch_size, sparse, monkeypatch):
    graph = make_heterophilous_graph(600, 3, n_attributes=6, random_state=0)
    if sparse:
        graph = Graph(graph.adjacency, sp.csr_array(np.maximum(graph.x, 0)), y=graph.y)
    losses = []
    for eager in (3, 10**9):
        monkeypatch.setattr(_replay, "_EAGER_CALLS", eager)
        epoch = Subject.make(graph, preset, torch.device("cuda"), batch_size).epochs()
        losses.append([{k: float(v) for k, v in epoch(i + 1)[0].items()} for i in range(6)])
    for ours, theirs in zip(*losses):
        assert ours == pytest.approx(theirs, rel=1e-2, abs=1e-6)
