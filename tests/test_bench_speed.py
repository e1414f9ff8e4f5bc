"""The benchmark of speed on tiny graphs: what it stores, and what it counts."""

import json

import numpy as np
import pytest
import torch

from hencler import make_heterophilous_graph
from hencler._errors import ParameterError
from hencler._model import ModelConfig
from hencler._torch import seeded
from hencler.bench import speed
from hencler.bench.plan import epoch_page, plan, plan_page, ranks_figure

CPU = torch.device("cpu")


@pytest.fixture
def tiny(monkeypatch):
    graph = make_heterophilous_graph(40, 3, n_attributes=6, random_state=0)
    monkeypatch.setattr(speed, "open_dataset", lambda name: graph)


def test_epochs_are_compared_and_other_sections_kept(tiny, tmp_path):
    out = tmp_path / "speed.json"
    out.write_text(json.dumps({"benchmark": "speed", "sections": {"ranks": {"rows": []}}}))
    speed.run(out, device="cpu", sections=["epoch"], graphs=["texas"], seconds=0)
    sections = json.loads(out.read_text())["sections"]
    assert set(sections) == {"ranks", "epoch"}
    paper, released = sections["epoch"]["rows"]
    assert paper["hencler_to_floor"] > 0
    assert released["plain_to_hencler"] > 0
    assert sections["epoch"]["environment"]["versions"]["torch"]


def test_unknown_sections_are_refused(tmp_path):
    with pytest.raises(ParameterError, match="no such section"):
        speed.run(tmp_path / "x.json", sections=["spede"])


def test_operations_are_those_of_the_products():
    config = ModelConfig(0, 10, 3, n_components=4, hidden=5, n_features=6, variant="released")
    n, width = 7, 11
    flops = speed.count_flops(config, width, n, 0, n)
    first, second = 2 * n * 10 * 5, 2 * n * 5 * 6
    decoder = 2 * n * 12 * 11 + 2 * n * 11 * 10
    assert flops["floor"] == 2 * (2 * first + 3 * second) + 3 * decoder
    ours = 2 * (2 * first + 3 * second) + 2 * 3 * 2 * n * 6 * 4
    assert flops["hencler"] == ours + 3 * (2 * n * 8 * 11 + 2 * n * 11 * 10)


def test_the_plain_form_is_the_released_model():
    """Same weights, same loss but for the sampled pairs, whose loss is ln 2 in both."""
    graph = make_heterophilous_graph(40, 3, n_attributes=6, random_state=0)
    subject = speed.Subject.make(graph, "released", CPU)
    net, x = subject.net, subject.dense()
    with seeded(0, CPU):
        plain = speed.PlainReleased(subject)
    with torch.no_grad():
        for ours, theirs in ((net.phi, plain.phi), (net.psi, plain.psi)):
            theirs[0].weight.copy_(ours.first.weight)
            theirs[0].bias.copy_(ours.first.bias)
            theirs[2].weight.copy_(ours.second.weight)
            theirs[2].bias.copy_(ours.second.bias)
        plain.p.copy_(net.stiefel)
        plain.decoder[0].weight.copy_(net.decoder_hidden.weight)
        plain.decoder[0].bias.copy_(net.decoder_hidden.bias)
        plain.decoder[2].weight.copy_(net.decoder_out.weight)
        plain.decoder[2].bias.copy_(net.decoder_out.bias)
    losses, _ = subject.epochs()(1)  # the losses before its step
    loss = float(plain(x, np.random.default_rng(0)).detach())
    assert loss == pytest.approx(float(losses["loss"]), rel=1e-4)


def test_a_plan_adds_up():
    measured = {"device": "cpu", "flops": {"hencler": 10**9}, "hencler_seconds": 0.1}
    sizes = {"epochs": 2, "batch_per_rank": 1000, "measured": measured}
    one = plan(10**6, 10**7, 64, 5, ranks=1, **sizes)
    four = plan(10**6, 10**7, 64, 5, ranks=4, **sizes)
    assert one.seconds_sending == 0
    assert one.seconds_computing == pytest.approx(2 * one.flops_per_epoch / 1e10)
    assert four.seconds_computing == pytest.approx(one.seconds_computing / 4)
    assert one.store_bytes == 4 * (10**6 + 1 + 10**7) + 2 * 64 * 10**6
    assert one.steps_per_epoch == 1000


def test_the_page_shows_both():
    row = {"device": "cpu", "preset": "paper", "nodes": 1000, "hencler_seconds": 0.1}
    ranks = {"ranks": 2, "epoch_seconds": 0.1, "to_one_rank": 0.6, "message_bytes_per_step": 5.0}
    result = {
        "sections": {
            "minibatch": {"rows": [row | {"flops": {"hencler": 10**9}}]},
            "ranks": {"rows": [row | ranks]},
        }
    }
    page = plan_page([result])
    assert "| cpu | 2 | 1,000 | 0.1 | 0.60 | 5 |" in page
    assert "| ranks | 8 | 64 |" in page


def test_the_page_of_epochs_has_a_line_for_every_row():
    row = {"device": "cpu", "graph": "texas", "preset": "paper", "hencler_to_floor": 1.25}
    released = row | {"preset": "released", "plain_to_hencler": 3.5}
    page = epoch_page(
        [{"sections": {"epoch": {"rows": [row, released]}, "minibatch": {"rows": [row]}}}]
    )
    assert "| cpu | texas | paper | 1.25 |  |  |" in page
    assert "| cpu | texas | released | 1.25 |  | 3.5 |" in page
    assert "| cpu | texas, minibatches | paper | 1.25 |  |  |" in page


def test_the_page_of_epochs_shows_shares_of_the_peaks():
    row = {"device": "cuda", "graph": "random", "preset": "paper", "nodes": 10**7, "edges": 10**8}
    row |= {"precision": "highest", "losses": {"loss": 1.5}}
    row |= {"batch_size": 8192, "hencler_seconds": 2.0, "nodes_per_second": 5e6}
    row |= {"flops_per_second": 5e12, "bytes_per_second": 4e11, "peak_memory_bytes": 6 * 10**9}
    row |= {"share_of_peak_flops": 0.1, "share_of_peak_bytes": 0.1}
    row |= {"peaks": {"flops_per_second": 5e13, "bytes_per_second": 4e12}}
    page = epoch_page([{"sections": {"gpu": {"rows": [row]}}}])
    assert "| paper | float32 | 10,000,000 | 8,192 | 2.00 | 5.0 | 5.0 | 10 % | 400 |" in page


def test_the_page_of_epochs_shows_both_kinds_of_batches():
    row = {"graph": "texas", "preset": "paper", "batch_size": None, "nmi": 20.04, "nmi_std": 3.0}
    row |= {"scores": [20.0, 20.1], "epochs": 300}
    page = epoch_page([{"sections": {"quality": {"rows": [row, row | {"batch_size": 46}]}}}])
    assert "| texas | paper | all nodes | 300 | 2 | 20.0 ± 3.0 |" in page
    assert "| texas | paper | 46 | 300 | 2 | 20.0 ± 3.0 |" in page


def test_ranks_are_drawn(tmp_path):
    pytest.importorskip("matplotlib")
    rows = [
        {"device": "cpu", "ranks": r, "epoch_seconds": 1 / r, "result_bytes_per_rank": 100 // r}
        for r in (1, 2)
    ]
    ranks_figure([{"sections": {"ranks": {"rows": rows}}}], tmp_path / "ranks.png")
    assert (tmp_path / "ranks.png").stat().st_size > 1000


def test_large_random_graphs_have_the_edges_asked_for():
    inputs, adjacency = speed._random_large_graph(200, 4, 10)
    assert len(inputs) == 200
    targets = adjacency.indices.reshape(200, 10)
    assert (np.diff(targets, axis=1) > 0).all()
    assert not (targets == np.arange(200)[:, None]).any()


def test_bytes_are_those_of_the_products():
    config = ModelConfig(0, 10, 3, n_components=4, hidden=5, n_features=6, variant="released")
    n, width = 7, 11
    first, second, projected = 2 * 2 * (10 + 5), 2 * 3 * (5 + 6), 2 * 3 * (6 + 4)
    decoder = 3 * (8 + 11) + 3 * (11 + 10)
    assert speed.count_bytes(config, width, n) == 4 * n * (first + second + projected + decoder)
