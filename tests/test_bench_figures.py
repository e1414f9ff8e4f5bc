import numpy as np
import pytest

from hencler.bench.figures import asymmetry, similarity_figure, time_figure


def test_asymmetry_is_0_for_symmetric_and_1_for_antisymmetric():
    matrix = np.random.default_rng(0).random((5, 5))
    assert asymmetry(matrix + matrix.T) == pytest.approx(0, abs=1e-12)
    assert asymmetry(matrix - matrix.T) == pytest.approx(1)


@pytest.mark.data("drosophila-left")
def test_figures_are_drawn(tmp_path):
    pytest.importorskip("matplotlib")
    numbers = similarity_figure(["drosophila-left"], tmp_path / "s.png")
    assert 0 < numbers["drosophila-left"] < 1
    cell = {
        "method": "hencler",
        "dataset": "texas",
        "seed": 0,
        "status": "ok",
        "honest": dict.fromkeys(
            ("nmi", "ari", "acc", "pairwise_f1", "paper_f1", "n_clusters"), 0.5
        ),
        "seconds": 1.0,
        "peak_bytes": 1,
        "peak_gpu_bytes": None,
        "device": "cpu",
    }
    time_figure([cell], tmp_path / "t.png")
    assert (tmp_path / "t.png").stat().st_size > 1000
