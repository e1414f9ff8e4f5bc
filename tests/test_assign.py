import numpy as np
import pytest
from sklearn.cluster import KMeans
from sklearn.datasets import make_blobs
from sklearn.metrics import adjusted_rand_score, normalized_mutual_info_score

from hencler._assign import Consensus, KMeansAssigner, mutual_agreement
from hencler._errors import HenclerWarning


def make_rows(seed=0, spread=1.0):
    return make_blobs(200, centers=4, n_features=5, cluster_std=spread, random_state=seed)


def test_kmeans_assigner_is_scikit_learns():
    rows, _ = make_rows()
    expected = KMeans(4, n_init=5, random_state=3).fit(rows)
    assigner = KMeansAssigner().fit(rows, 4, 5, 3)
    np.testing.assert_array_equal(assigner.predict(rows), expected.labels_)


def test_too_few_distinct_rows_are_said():
    with pytest.warns(HenclerWarning, match="only 2 of the 3"):
        KMeansAssigner().fit(np.repeat([[0.0], [1.0]], 5, axis=0), 3, 1, 0)


def test_a_consensus_finds_what_the_runs_agree_on():
    rows, y = make_rows()
    noise = np.random.default_rng(0).normal(size=rows.shape)
    members = [rows, rows[:, :3], noise]
    consensus = Consensus().fit(members, 4, 4, 0)
    assert adjusted_rand_score(y, consensus.predict(members)) > 0.98


def test_a_consensus_is_steadier_than_its_runs():
    rows, _ = make_rows(spread=6.0)

    def agreement(labels):
        pairs = [adjusted_rand_score(a, b) for a in labels for b in labels]
        return np.mean(pairs)

    single = [KMeans(4, n_init=1, random_state=s).fit_predict(rows) for s in range(5)]
    joint = [Consensus().fit([rows], 12, 4, s).predict([rows]) for s in range(5)]
    assert agreement(joint) >= agreement(single)


def test_new_nodes_go_the_same_way_and_state_is_kept():
    rows, _ = make_rows()
    consensus = Consensus().fit([rows, rows**2], 2, 4, 0)
    labels = consensus.predict([rows, rows**2])
    np.testing.assert_array_equal(consensus.predict([rows[:9], rows[:9] ** 2]), labels[:9])
    again = Consensus.from_state(consensus.state())
    np.testing.assert_array_equal(again.predict([rows, rows**2]), labels)


def test_mutual_agreement_is_scikit_learns():
    rng = np.random.default_rng(1)
    runs = np.vstack([rng.integers(0, 3, (4, 50)), np.zeros((1, 50), int)])
    expected = [[normalized_mutual_info_score(a, b) for b in runs] for a in runs]
    np.testing.assert_allclose(mutual_agreement(runs, 4), expected, atol=1e-12)


def test_the_answer_is_the_run_most_like_the_others():
    rows, _ = make_rows(spread=6.0)
    members = [rows, rows[:, :2]]
    consensus = Consensus().fit(members, 6, 4, 0)
    runs = consensus.runs(members)
    means = [np.mean([normalized_mutual_info_score(a, b) for b in runs]) for a in runs]
    labels = consensus.predict(members)
    np.testing.assert_array_equal(labels, runs[np.argmax(means)])
    assert consensus.agreement == pytest.approx((max(means) * 12 - 1) / 11)


def test_a_large_graph_s_answer_is_settled_on_all_rows(monkeypatch):
    """Runs see a sample; the centres of the answer are a fixed point of Lloyd on all rows."""
    monkeypatch.setattr("hencler._assign.MANY_NODES", 60)
    rng = np.random.default_rng(0)
    z = rng.normal(size=(500, 3)) + 2 * rng.integers(0, 3, 500)[:, None]
    consensus = Consensus().fit([z], 4, 3, 0)
    member, run = consensus.chosen
    labels = consensus.predict([z])
    means = np.stack([z[labels == c].mean(axis=0) for c in range(3)])
    np.testing.assert_allclose(consensus.centres[member][run], means, atol=0.05)
    whole = KMeans(3, n_init=10, random_state=0).fit(z)
    assert ((z - means[labels]) ** 2).sum() <= 1.01 * whole.inertia_
