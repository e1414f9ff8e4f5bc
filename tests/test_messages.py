"""What the errors of the kernel machine, the encodings and the measures say, word for word.

A message is read by a person who needs the place and the remedy: its text is checked whole.
"""

import numpy as np
import pytest
import scipy.sparse as sp

from hencler import WKSVD, Graph
from hencler._encodings import random_walk_encoding
from hencler._errors import HenclerError
from hencler._wksvd import random_walk_weights, solve_primal
from hencler.metrics import (
    class_insensitive_homophily,
    clustering_accuracy,
    edge_homophily,
)

X = np.arange(12.0).reshape(4, 3) + 1
GRAPH = Graph(sp.csr_array(([1.0, 1.0], ([0, 1], [1, 2])), shape=(3, 3)))
ONES = np.ones(4)


def fitted(**options):
    return WKSVD(2, **options).fit(X)


MESSAGES = {
    "length": (lambda: random_walk_encoding(np.eye(2), 0), "length=0. Ask for at least one step."),
    "block": (
        lambda: random_walk_encoding(np.eye(2), block_entries=0),
        "block_entries=0. Give a positive number.",
    ),
    "square": (
        lambda: random_walk_encoding(np.ones((2, 3))),
        "the adjacency has shape (2, 3). Give a square matrix.",
    ),
    "degree": (
        lambda: random_walk_weights(np.array([1.0, 0.0]), np.ones(2)),
        "row 1: the degree is 0, so the weight 1/degree is undefined. Similarities must not be "
        "negative; for rows or columns without any, set regularization above 0 or "
        "weights='uniform'.",
    ),
    "features": (
        lambda: solve_primal(X, X[:, :2], ONES, ONES, 1),
        "phi has 3 features and psi has 2. Give both the same number, or use a kernel.",
    ),
    "w1": (
        lambda: solve_primal(X, X, ONES[:3], ONES, 1),
        "w1 has shape (3,). Give 4 positive numbers.",
    ),
    "w2": (
        lambda: solve_primal(X, X, ONES, -ONES, 1),
        "w2[0]: the weight is -1.0. Weights must be positive.",
    ),
    "weights": (
        lambda: fitted(weights=(ONES,)),
        "weights has 1 parts. Give a pair of arrays: one weight per row, one weight per column.",
    ),
    "row weights": (
        lambda: fitted(weights=(ONES[:2], ONES)),
        "weights[0] has shape (2,). Give 4 positive numbers.",
    ),
    "column weights": (
        lambda: fitted(weights=(ONES, ONES[:2])),
        "weights[1] has shape (2,). Give 4 positive numbers.",
    ),
    "clusters": (
        lambda: fitted(n_clusters=9),
        "n_clusters=9 is more than the 4 rows and 4 columns. Ask for at most 8 clusters.",
    ),
    "kernel shape": (
        lambda: fitted(kernel=lambda X, Z: np.ones((2, 2))),
        "kernel: the kernel returned shape (2, 2) for 4 rows and 4 columns. "
        "Return an (4, 4) matrix.",
    ),
    "kernel parameters": (
        lambda: fitted(kernel_params={"gamma": 1}),
        "kernel='linear' has no parameters. Leave kernel_params out.",
    ),
    "precomputed": (
        lambda: WKSVD(2, kernel="precomputed").fit(X, Z=X),
        "Z was given beside a precomputed S. Leave Z out: S has its own columns.",
    ),
    "columns": (
        lambda: fitted().transform_columns(X[:, :2]),
        "Z has 2 features, but WKSVD is expecting 3 features as input.",
    ),
    "columns of a kernel": (
        lambda: fitted(kernel="rbf").transform_columns(X[:, :2]),
        "Z has 2 features, but WKSVD is expecting 3 features as input.",
    ),
    "columns not finite": (
        lambda: fitted().transform_columns(X * np.nan),
        "node 0, column 0: the attribute is nan; NaN or infinity cannot be clustered. Fill the "
        "gaps, for example with the column mean, or drop the column.",
    ),
    "no columns": (
        lambda: fitted().transform_columns(X[:0]),
        "Z: Found array with 0 sample(s) (shape=(0, 3)) while a minimum of 1 is required.",
    ),
    "kernel without rows": (
        lambda: fitted(kernel=lambda X, Z: X[:0]),
        "kernel(X, Z): Found array with 0 sample(s) (shape=(0, 3)) while a minimum of 1 is "
        "required.",
    ),
    "no classes": (
        lambda: edge_homophily(GRAPH),
        "the graph has no classes. Give y, one class per node.",
    ),
    "number of classes": (
        lambda: edge_homophily(GRAPH, [0, 1]),
        "y: 2 classes for 3 nodes. Give one class per node.",
    ),
    "unknown classes": (
        lambda: edge_homophily(GRAPH, [-1, -1, -1]),
        "y: every class is unknown. Give known classes.",
    ),
    "one class": (
        lambda: class_insensitive_homophily(GRAPH, [0, 0, 0]),
        "y: all nodes are of one class. Homophily needs two classes or more.",
    ),
    "shape of y": (
        lambda: edge_homophily(GRAPH, [[0, 1, 2]]),
        "y: shape (1, 3). Give a sequence, one entry per node.",
    ),
    "type of y": (
        lambda: edge_homophily(GRAPH, np.array([1j, 2j, 3j])),
        "y: entries of type complex128. Give integers or strings.",
    ),
    "objects": (
        lambda: edge_homophily(GRAPH, np.array([[0], [1], None], dtype=object)),
        "y: an entry cannot be compared. Give integers or strings.",
    ),
    "lengths": (
        lambda: clustering_accuracy([0, 1], [0]),
        "labels, truth: 2 clusters for 1 classes. Give both for the same nodes, in the same order.",
    ),
    "no cluster": (
        lambda: clustering_accuracy(["a", ""], [0, 1]),
        "labels, entry 1: the node has no cluster. Give every node a cluster.",
    ),
    "no known class": (
        lambda: clustering_accuracy([0, 1], [-1, -1]),
        "truth: no node has a known class. Give at least one known class.",
    ),
    "labels": (
        lambda: clustering_accuracy([[0, 1]], [0, 1]),
        "labels: shape (1, 2). Give a sequence, one entry per node.",
    ),
    "truth": (
        lambda: clustering_accuracy([0, 1], np.array([1j, 2j])),
        "truth: entries of type complex128. Give integers or strings.",
    ),
}


@pytest.mark.parametrize("kind", MESSAGES)
def test_message(kind):
    call, text = MESSAGES[kind]
    with pytest.raises(HenclerError) as caught:
        call()
    assert str(caught.value) == text


def test_too_large_a_kernel_matrix(monkeypatch):
    monkeypatch.setattr("hencler._wksvd_estimator._MAX_KERNEL_ENTRIES", 15)
    with pytest.raises(HenclerError) as caught:
        fitted(kernel="rbf")
    assert str(caught.value) == (
        "the kernel matrix would have 4 x 4 entries. "
        "Use kernel='linear' on explicit features, or a sparse precomputed S."
    )
    monkeypatch.setattr("hencler._wksvd_estimator._MAX_KERNEL_ENTRIES", 16)
    fitted(kernel="rbf")


def test_class_insensitive_homophily_by_hand():
    # Heads of class 0: from 1; of class 1: from 0 and 1; of class 2: from 2.
    graph = Graph(sp.csr_array((np.ones(4), ([2, 0, 2, 4], [1, 2, 3, 5])), shape=(6, 6)))
    y = [0, 0, 1, 1, 2, 2]
    # h = 0, 1/2, 1; each class has a third of the nodes.
    assert class_insensitive_homophily(graph, y) == pytest.approx((0 + 1 / 6 + 2 / 3) / 2)
    assert edge_homophily(graph, y) == pytest.approx(2 / 4)


def test_unknown_classes_are_left_out_by_hand():
    graph = Graph(sp.csr_array((np.ones(3), ([0, 1, 2], [1, 2, 3])), shape=(4, 4)))
    assert edge_homophily(graph, [1, 1, -1, 0]) == 1.0
    assert class_insensitive_homophily(graph, [1, 1, -1, 0]) == pytest.approx(1 / 3)


def test_three_steps_by_default_and_sinks_stay_at_zero():
    cycle = np.array([[0, 2.0, 0, 0], [0, 0, 1, 0], [1, 0, 0, 3], [0, 0, 0, 0]])
    encoding = random_walk_encoding(cycle)
    np.testing.assert_allclose(encoding, [[0, 0, 0.25], [0, 0, 0.25], [0, 0, 0.25], [0, 0, 0]])


def test_columns_of_their_own_reach_the_embedding():
    Z = X[::-1] ** 2
    both = WKSVD(2).fit(X, Z=Z)
    np.testing.assert_allclose(WKSVD(2).fit_transform(X, Z=Z), both.e_)
    assert not np.allclose(both.e_, WKSVD(2).fit(X).e_)
    plain = WKSVD(2, center=False, weights="uniform").fit(X, Z=Z)
    expected = np.linalg.svd(X @ Z.T, compute_uv=False)[:2]
    np.testing.assert_allclose(plain.singular_values_, expected, rtol=1e-8)
