"""KMeans, spectral clustering, co-clustering, KSC and the content baselines."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn import cluster
from sklearn.base import clone
from sklearn.datasets import make_circles
from sklearn.manifold import spectral_embedding
from sklearn.metrics import adjusted_rand_score, normalized_mutual_info_score
from sklearn.metrics.pairwise import cosine_similarity, rbf_kernel
from sklearn.preprocessing import StandardScaler

from hencler import Graph, baselines
from hencler._errors import AttributeDataError, GraphError, ParameterError
from hencler.baselines import (
    KSC,
    METHODS,
    Content,
    KMeans,
    SpectralClustering,
    SpectralCoclustering,
)
from hencler.baselines._training import attributes_or_links
from hencler.baselines.coclustering import leading_triples, regularised
from hencler.baselines.content import neighbour_mean, soft_tfidf
from hencler.baselines.ksc import assign_code_words, dual_solution, frequent_words
from hencler.baselines.spectral import leading_eigenpairs

CLASSICAL = ["kmeans", "spectral", "coclustering", "ksc", "content"]


def nmi(y, labels):
    return normalized_mutual_info_score(y, labels)


def block_graph(probabilities, size, seed=0, *, directed=False, x=None):
    """Graph whose nodes i, j of blocks a, b are linked with probability P[a, b]."""
    rng = np.random.default_rng(seed)
    probabilities = np.asarray(probabilities, dtype=float)
    y = np.repeat(np.arange(len(probabilities)), size)
    a = (rng.random((y.size, y.size)) < probabilities[y][:, y]).astype(float)
    np.fill_diagonal(a, 0)
    a = a if directed else np.triu(a) + np.triu(a).T
    return Graph(sp.csr_array(a), x, y=y)


@pytest.fixture(scope="module")
def communities():
    return block_graph(0.02 + 0.28 * np.eye(3), 60)


@pytest.fixture(scope="module")
def cycle():
    """Directed blocks 0 -> 1 -> 2 -> 0: no block is linked to itself."""
    return block_graph(0.02 + 0.3 * np.roll(np.eye(3), 1, axis=1), 60, directed=True)


@pytest.fixture(scope="module")
def gaussians():
    rng = np.random.default_rng(1)
    y = np.repeat(np.arange(3), 50)
    x = 6 * np.eye(3, 4)[y] + rng.normal(size=(y.size, 4))
    return Graph(sp.csr_array((y.size, y.size)), x, y=y)


@pytest.fixture(scope="module")
def words():
    """Documents of three topics of different size, most words of each from its own topic."""
    rng = np.random.default_rng(2)
    y = np.repeat(np.arange(3), [75, 50, 25])
    own = (np.arange(120) // 40)[None, :] == y[:, None]
    x = (rng.random((y.size, 120)) < np.where(own, 0.4, 0.03)).astype(float)
    return Graph(sp.csr_array((y.size, y.size)), sp.csr_array(x), y=y)


# --- the registry and the estimator face ----------------------------------------------------


def test_registry_names_every_method():
    assert set(METHODS) >= {*CLASSICAL, "mincutpool", "dmon", "s3gc", "muse", "hole"}
    assert METHODS["kmeans"] is KMeans
    with pytest.raises(KeyError):
        METHODS["nothing"]
    with pytest.raises(AttributeError):
        baselines.Nothing  # noqa: B018


@pytest.mark.parametrize("name", CLASSICAL)
def test_same_seed_same_labels(name, communities):
    first = METHODS[name](3, random_state=7).fit_predict(communities)
    second = clone(METHODS[name](3, random_state=7)).fit_predict(communities)
    np.testing.assert_array_equal(first, second)
    assert first.dtype == np.int64
    assert first.shape == (communities.n_nodes,)


@pytest.mark.parametrize("name", CLASSICAL)
def test_degenerate_graphs(name):
    edges = np.zeros((6, 6))
    edges[0, 1] = edges[2, 2] = edges[3, 4] = 1
    for x in (None, np.ones((6, 2)), sp.csr_array(np.eye(6, 3))):
        for k in (1, 2):
            labels = METHODS[name](k, random_state=0).fit_predict(Graph(edges, x))
            assert labels.shape == (6,)
            assert labels.min() >= 0
            assert labels.max() < k


@pytest.mark.parametrize("name", CLASSICAL)
def test_parameters_are_checked_in_fit(name, communities):
    with pytest.raises(ParameterError):
        METHODS[name](0).fit(communities)
    with pytest.raises(ParameterError):
        METHODS[name](communities.n_nodes + 1).fit(communities)


@pytest.mark.parametrize("method", [SpectralClustering, SpectralCoclustering])
def test_link_methods_need_links(method, gaussians):
    with pytest.raises(GraphError, match="no two nodes"):
        method(3).fit(gaussians)
    with pytest.raises(GraphError, match="no two nodes"):
        method(2).fit(Graph(np.eye(4)))


# --- KMeans ---------------------------------------------------------------------------------


def test_kmeans_is_that_of_scikit_learn(gaussians):
    model = KMeans(3, random_state=0).fit(gaussians)
    reference = cluster.KMeans(3, n_init=10, random_state=0).fit(gaussians.x)
    assert adjusted_rand_score(reference.labels_, model.labels_) == 1
    assert model.inertia_ == pytest.approx(reference.inertia_)
    assert nmi(gaussians.y, model.labels_) > 0.95


@pytest.mark.parametrize("scaling", ["none", "standard"])
def test_kmeans_of_sparse_and_dense_attributes_agree(scaling, words):
    dense = Graph(words.adjacency, words.x.toarray())
    a = KMeans(3, scaling=scaling, random_state=0).fit(words)
    b = KMeans(3, scaling=scaling, random_state=0).fit(dense)
    assert adjusted_rand_score(a.labels_, b.labels_) == 1
    assert a.inertia_ == pytest.approx(b.inertia_)


def test_kmeans_standard_scaling_is_the_standard_scaler(words):
    x = StandardScaler().fit_transform(words.x.toarray())
    reference = cluster.KMeans(3, n_init=10, random_state=0).fit(x)
    model = KMeans(3, scaling="standard", random_state=0).fit(words)
    assert model.inertia_ == pytest.approx(reference.inertia_)


def test_kmeans_takes_long_indices(words):
    x = words.x.copy()
    x.indices, x.indptr = x.indices.astype(np.int64), x.indptr.astype(np.int64)
    short, long = (
        KMeans(3, random_state=0).fit_predict(Graph(words.adjacency, v)) for v in (words.x, x)
    )
    np.testing.assert_array_equal(short, long)


def test_links_stand_in_for_attributes(communities, cycle):
    for graph in (communities, cycle):
        assert nmi(graph.y, KMeans(3, random_state=0).fit_predict(graph)) > 0.9
    columns = attributes_or_links(communities, 0)
    assert columns.shape == (180, 64)
    gram = np.abs(np.linalg.eigvalsh(regularised(communities.adjacency, 1.0)[0].toarray()))
    np.testing.assert_allclose(
        np.linalg.norm(columns, axis=0), np.sqrt(180) * np.sort(gram)[::-1][:64]
    )


# --- spectral clustering and co-clustering ---------------------------------------------------


def test_spectral_clustering_is_that_of_scikit_learn(communities):
    model = SpectralClustering(3, regularisation=0, rows="degree", random_state=0).fit(communities)
    reference = cluster.SpectralClustering(3, affinity="precomputed", random_state=0).fit(
        communities.adjacency.toarray()
    )
    assert adjusted_rand_score(reference.labels_, model.labels_) == 1
    z = spectral_embedding(
        communities.adjacency.toarray(), n_components=3, drop_first=False, random_state=0
    )
    # The embeddings span the same space.
    assert np.linalg.matrix_rank(np.hstack([z, model.embedding_]), tol=1e-6) == 3


@pytest.mark.parametrize("rows", ["none", "unit", "degree"])
def test_spectral_clustering_finds_communities(rows, communities):
    labels = SpectralClustering(3, rows=rows, random_state=0).fit_predict(communities)
    assert nmi(communities.y, labels) > 0.9


def test_leading_eigenpairs_by_iteration_are_those_of_lapack():
    rng = np.random.default_rng(0)
    a = sp.random_array((700, 700), density=0.02, rng=rng)
    matrix, _, _ = regularised(sp.csr_array(a + a.T), 1.0)
    values, vectors = leading_eigenpairs(matrix, 4, seed=0)
    expected = np.linalg.eigvalsh(matrix.toarray())[::-1][:4]
    np.testing.assert_allclose(values, expected, atol=1e-10)
    np.testing.assert_allclose(matrix @ vectors, vectors * values, atol=1e-6)


def test_leading_triples_by_iteration_are_those_of_lapack():
    a = sp.csr_array(sp.random_array((700, 600), density=0.02, rng=np.random.default_rng(0)))
    u, s, v = leading_triples(a, 4, seed=0)
    expected = np.linalg.svd(a.toarray(), compute_uv=False)[:4]
    np.testing.assert_allclose(s, expected, atol=1e-10)
    np.testing.assert_allclose(a @ v, u * s, atol=1e-6)
    np.testing.assert_allclose(v.T @ v, np.eye(4), atol=1e-10)


def test_coclustering_matrix_is_dhillons(cycle):
    """Without regularisation, rows and columns scaled by degree: scikit-learn's embedding."""
    ours = SpectralCoclustering(
        3, n_components=3, regularisation=0, rows="degree", random_state=0
    ).fit(cycle)
    a = cycle.adjacency.toarray()
    d1, d2 = a.sum(axis=1), a.sum(axis=0)
    normalised = a / np.sqrt(np.outer(d1, d2))
    np.testing.assert_allclose(regularised(cycle.adjacency, 0)[0].toarray(), normalised)
    u, s, vt = np.linalg.svd(normalised)
    assert ours.singular_values_[0] == pytest.approx(1)
    np.testing.assert_allclose(ours.singular_values_, s[:3])
    projector = lambda z: z @ np.linalg.pinv(z)  # noqa: E731
    np.testing.assert_allclose(
        projector(ours.e_), projector(u[:, :3] / np.sqrt(d1)[:, None]), atol=1e-8
    )
    np.testing.assert_allclose(
        projector(ours.r_), projector(vt[:3].T / np.sqrt(d2)[:, None]), atol=1e-8
    )


def test_coclustering_rows_agree_with_scikit_learn(cycle):
    reference = cluster.SpectralCoclustering(3, random_state=0).fit(cycle.adjacency.toarray())
    labels = SpectralCoclustering(3, random_state=0).fit_predict(cycle)
    assert adjusted_rand_score(reference.row_labels_, labels) > 0.9
    assert adjusted_rand_score(reference.column_labels_, labels) > 0.9


def test_coclustering_finds_what_spectral_clustering_cannot():
    """Two blocks that link to each other and not to themselves, one of them also receiving
    links from a third: only out- and in-links together tell them apart."""
    graph = block_graph(
        [[0.0, 0.3, 0.0], [0.0, 0.0, 0.3], [0.0, 0.0, 0.0]], 60, directed=True, seed=3
    )
    labels = SpectralCoclustering(3, random_state=0).fit_predict(graph)
    assert nmi(graph.y, labels) > 0.9
    assert nmi(graph.y, SpectralClustering(3, random_state=0).fit_predict(graph)) < 0.8


def test_coclustering_of_a_disassortative_graph():
    graph = block_graph(0.3 - 0.28 * np.eye(3), 60, seed=4)
    labels = SpectralCoclustering(3, random_state=0).fit_predict(graph)
    assert nmi(graph.y, labels) > 0.9


# --- kernel spectral clustering --------------------------------------------------------------


def dense_dual(omega, s):
    """D^-1 M_D Omega alpha = lambda alpha as it stands, with alpha of D-norm 1."""
    n = len(omega)
    inverse = np.diag(1 / omega.sum(axis=1))
    one = np.ones(n)
    m_d = np.eye(n) - np.outer(one, one @ inverse) / (one @ inverse @ one)
    values, alpha = np.linalg.eig(inverse @ m_d @ omega)
    order = np.argsort(-values.real)[:s]
    values, alpha = values.real[order], alpha.real[:, order]
    alpha = alpha / np.sqrt(np.sum(alpha**2 / np.diag(inverse)[:, None], axis=0))
    b = -(one @ inverse @ omega @ alpha) / (one @ inverse @ one)
    return values, alpha, omega @ alpha + b


@pytest.mark.parametrize("kernel", ["rbf", "cosine"])
def test_ksc_solves_its_dual(kernel, words):
    gamma = 0.05
    x = words.x.toarray()
    omega = rbf_kernel(x, gamma=gamma) if kernel == "rbf" else cosine_similarity(x)
    values, _, scores = dense_dual(omega, 2)
    model = KSC(3, kernel=kernel, gamma=gamma, random_state=0).fit(words)
    np.testing.assert_allclose(model.eigenvalues_, values, rtol=1e-8)
    signs = np.sign(np.sum(model.scores_ * scores, axis=0))
    np.testing.assert_allclose(model.scores_ * signs, scores, atol=1e-8)
    assert nmi(words.y, model.labels_) > 0.9


def test_ksc_by_iteration_solves_the_dual():
    x = np.random.default_rng(0).normal(size=(600, 3))
    omega = rbf_kernel(x, gamma=0.5)
    dual = dual_solution(lambda v: omega @ v, 600, 3, seed=0)
    values, _, scores = dense_dual(omega, 3)
    np.testing.assert_allclose(dual.eigenvalues, values, rtol=1e-8)
    ours = omega @ dual.alpha + dual.b
    np.testing.assert_allclose(np.abs(np.sum(ours * scores, axis=0)), np.sum(scores**2, axis=0))


def test_ksc_scores_of_trained_nodes_are_lambda_d_alpha(words):
    omega = rbf_kernel(words.x.toarray(), gamma=0.05)
    dual = dual_solution(lambda v: omega @ v, len(omega), 2, seed=0)
    expected = omega.sum(axis=1)[:, None] * dual.alpha * dual.eigenvalues
    np.testing.assert_allclose(omega @ dual.alpha + dual.b, expected, atol=1e-10)


def test_ksc_beyond_n_train_scores_out_of_sample(words):
    full = KSC(3, random_state=0).fit_predict(words)
    sampled = KSC(3, n_train=75, random_state=0).fit(words)
    assert sampled.scores_.shape == (150, 2)
    assert adjusted_rand_score(full, sampled.labels_) > 0.9


def test_ksc_separates_what_is_not_linear():
    x, y = make_circles(300, factor=0.2, noise=0.03, random_state=0)
    graph = Graph(sp.csr_array((300, 300)), x, y=y)
    assert nmi(y, KSC(2, gamma=20.0, random_state=0).fit_predict(graph)) > 0.95
    assert nmi(y, KMeans(2, random_state=0).fit_predict(graph)) < 0.1


def test_ksc_refuses_signed_attributes_under_cosine(gaussians):
    with pytest.raises(AttributeDataError, match="rbf"):
        KSC(3, kernel="cosine", random_state=0).fit(gaussians)


def test_code_words():
    words = np.array([[1, 1], [0, 0], [1, 1], [0, 0], [1, 1], [0, 1]], dtype=bool)
    codes = frequent_words(words, 2)
    np.testing.assert_array_equal(codes, [[True, True], [False, False]])
    np.testing.assert_array_equal(assign_code_words(words, codes), [0, 1, 0, 1, 0, 0])


# --- content baselines -----------------------------------------------------------------------


@pytest.mark.parametrize("representation", ["soft", "tfidf"])
def test_content_finds_topics(representation, words):
    labels = Content(3, representation=representation, random_state=0).fit_predict(words)
    assert nmi(words.y, labels) > 0.9


def test_soft_tfidf_by_hand(words):
    x = words.x.toarray()
    n, present = len(x), (x > 0).sum(axis=1)
    weighted = x * (np.log((1 + n) / (1 + (x > 0).sum(axis=0))) + 1)
    weighted /= np.linalg.norm(weighted, axis=1, keepdims=True)
    np.testing.assert_allclose(soft_tfidf(words.x).toarray(), weighted * np.log1p(present)[:, None])
    model = Content(3, random_state=0).fit(words)
    s = np.linalg.svd(soft_tfidf(words.x).toarray(), compute_uv=False)
    np.testing.assert_allclose(np.linalg.norm(model.embedding_, axis=0), s[:3])


def test_content_count_finds_magnitude():
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1, 2], 40)
    x = (rng.random((120, 300)) < np.array([0.02, 0.2, 0.6])[y][:, None]).astype(float)
    graph = Graph(sp.csr_array((120, 120)), sp.csr_array(x), y=y)
    labels = Content(3, representation="count", random_state=0).fit_predict(graph)
    assert nmi(y, labels) > 0.95


def test_content_mean_finds_what_only_the_neighbours_show():
    """Two kinds of users differ by the kind of item they link to; only items have attributes."""
    p = np.zeros((4, 4))
    p[0, 2] = p[1, 3] = 0.2
    kind = np.repeat(np.arange(4), 50)
    x = np.eye(2)[kind - 2] * (kind >= 2)[:, None]
    graph = block_graph(p + p.T, 50, seed=5, x=x)
    y = np.minimum(kind, 2)  # the users' mean is an item, the items' mean is nothing
    assert nmi(y, Content(3, representation="mean", random_state=0).fit_predict(graph)) > 0.95
    assert nmi(y, KMeans(3, random_state=0).fit_predict(graph)) < 0.7
    joint = Content(4, representation="joint", random_state=0).fit(graph)
    assert nmi(kind, joint.labels_) > 0.95
    assert joint.embedding_.shape == (200, 4)


def test_neighbour_mean_by_hand():
    a = np.array([[0, 1, 3, 0], [0, 0, 1, 0], [0, 0, 0, 0], [0, 0, 0, 0]], dtype=float)
    x = np.array([[1.0], [2.0], [4.0], [8.0]])
    expected = [
        [(1 * 2 + 3 * 4) / 4],  # out-neighbours alone
        [(4 + 1) / 2],  # mean of the out-mean 4 and the in-mean 1
        [(3 * 1 + 1 * 2) / 4],  # in-neighbours alone
        [0],  # isolated
    ]
    np.testing.assert_allclose(neighbour_mean(sp.csr_array(a), x), expected)
    sparse = neighbour_mean(sp.csr_array(a), sp.csr_array(x))
    np.testing.assert_allclose(sparse.toarray(), expected)


def test_content_of_links(cycle):
    labels = Content(3, random_state=0).fit_predict(cycle)
    assert nmi(cycle.y, labels) > 0.9


def test_tfidf_refuses_signed_attributes(gaussians):
    with pytest.raises(AttributeDataError, match="joint"):
        Content(3, random_state=0).fit(gaussians)
