import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.linear_model import Ridge

from hencler import make_heterophilous_graph
from hencler._learned import LearnedMaps, _each_from_the_others, _split_links, _thinned
from hencler._links import Links
from hencler._prepare import prepare
from hencler._views import damped


def test_each_attribute_from_the_others_is_ridge_regression():
    """One inverse gives what a separate regression per attribute gives."""
    rng = np.random.default_rng(0)
    views = rng.normal(size=(50, 8))
    groups = np.array([0, 0, 1, 2])  # attributes are the first four columns
    decay = 1.7
    weights = _each_from_the_others(views.T @ views + decay * np.eye(8), groups)
    for group in range(3):
        at = np.flatnonzero(groups == group)
        others = np.setdiff1d(np.arange(8), at)
        ridge = Ridge(alpha=decay, fit_intercept=False).fit(views[:, others], views[:, at])
        np.testing.assert_allclose(weights[np.ix_(others, at)], ridge.coef_.reshape(len(at), -1).T)
        np.testing.assert_array_equal(weights[np.ix_(at, at)], 0)


def test_thinning_keeps_sums_on_average():
    content = sp.csr_array(np.ones((200, 50)))
    mask = np.random.default_rng(0).random(content.nnz) < 0.5
    shown, hidden = _thinned(content, mask, 0.5), _thinned(content, ~mask, 0.5)
    assert shown.multiply(hidden).nnz == 0
    np.testing.assert_allclose(((shown + hidden) / 2).toarray(), content.toarray())
    assert shown.sum() == pytest.approx(content.sum(), rel=0.05)


def test_pairs_of_links_are_hidden_together():
    rng = np.random.default_rng(0)
    half = sp.csr_array(np.triu(rng.random((40, 40)) < 0.2).astype(float))
    both = (half + half.T).tocsr()
    shown, hidden = _split_links(both, rng)
    assert (shown.out != shown.out.T).nnz == 0
    np.testing.assert_allclose(((shown.out + hidden.out) / 2).toarray(), both.toarray())
    assert shown.out.multiply(hidden.out).nnz == 0


def fit(graph, k=4):
    preparation = prepare(graph.x)
    links = damped(graph.adjacency, loops=False)
    maps = LearnedMaps().fit(preparation, graph.x, links, graph.directed, k, 0)
    return maps, links


@pytest.mark.parametrize("directed", [True, False])
@pytest.mark.parametrize("words", [True, False])
def test_maps_are_non_negative_linear_and_differ(directed, words):
    graph = make_heterophilous_graph(
        120, 4, directed=directed, n_attributes=80 if words else 10, random_state=0
    )
    if words:
        graph.x = sp.csr_array((graph.x > 1).astype(float))
    maps, links = fit(graph)
    phi, psi = maps.maps(graph.x, links, Links(links, links.T.tocsr()))
    assert phi.min() > 0  # so that relu cut nothing off
    assert psi.min() > 0
    similarity = phi @ psi.T
    if directed:
        assert np.abs(similarity - similarity.T).max() > 1e-3 * np.abs(similarity).max()
    again = LearnedMaps.from_state(maps.preparation, maps.state())
    np.testing.assert_array_equal(again.maps(graph.x, links, Links(links, links.T.tocsr()))[0], phi)


def test_what_the_neighbours_say_is_learned_from_the_graph():
    """On a homophilous graph the prediction from neighbours beats the noisy attributes."""
    rng = np.random.default_rng(0)
    y = rng.integers(3, size=300)
    means = rng.normal(size=(3, 8))
    x = means[y] + 2.0 * rng.normal(size=(300, 8))
    links = (rng.random((300, 300)) < np.where(y[:, None] == y, 0.08, 0.005)).astype(float)
    graph_links = sp.csr_array(np.maximum(links, links.T) * (1 - np.eye(300)))
    maps = LearnedMaps().fit(prepare(x), x, graph_links, False, 3, 0)
    phi, _ = maps.maps(x, graph_links, Links(graph_links, graph_links))

    def explained(z):
        centres = np.stack([z[y == c].mean(0) for c in range(3)])
        return 1 - ((z - centres[y]) ** 2).sum() / ((z - z.mean(0)) ** 2).sum()

    assert explained(phi[:, :8]) > explained(x) + 0.2
