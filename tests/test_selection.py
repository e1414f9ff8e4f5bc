"""The evidence must speak for the right view on graphs where it is known."""

import numpy as np
import pytest
import scipy.sparse as sp

from hencler._prepare import prepare
from hencler._selection import (
    Evidence,
    _shuffled,
    choose_views,
    link_excess,
    reliability,
    sampled_evidence,
)
from hencler._views import damped


def sbm(y, inside, outside, seed=0, directed=False):
    rng = np.random.default_rng(seed)
    links = rng.random((len(y), len(y))) < np.where(y[:, None] == y, inside, outside)
    np.fill_diagonal(links, False)
    return sp.csr_array((links if directed else np.maximum(links, links.T)).astype(float))


def words(y, seed=1, strength=0.25):
    rng = np.random.default_rng(seed)
    topics = np.clip(rng.random((y.max() + 1, 120)) < 0.15, 0, 1) * strength + 0.03
    return sp.csr_array((rng.random((len(y), 120)) < topics[y]).astype(float))


@pytest.fixture
def y():
    return np.random.default_rng(0).integers(3, size=240)


def choose(x, links, k=3, directed=False):
    prepared = prepare(x)
    links = damped(links, loops=False)
    attributes = Evidence.whole(prepared.features(x), links)
    return choose_views(attributes, prepared.groups, links, k, directed)


def test_without_attributes_there_are_only_links(y):
    assert choose_views(None, None, sbm(y, 0.1, 0.1), 3, False).views == ("links",)


def test_without_links_there_are_only_attributes(y):
    assert choose(words(y), sp.csr_array((240, 240))).views == ("own",)


def test_random_links_are_not_looked_at(y):
    assert choose(words(y), sbm(y, 0.02, 0.02)).views == ("own",)


def test_homophilous_links_smooth_the_attributes(y):
    choice = choose(words(y, strength=0.12), sbm(y, 0.03, 0.004))
    assert set(choice.views) & {"smooth", "links"}
    assert choice.evidence["homophily"] > 0.3


def test_clear_blocks_of_links_beat_meaningless_attributes(y):
    rng = np.random.default_rng(5)
    choice = choose(rng.normal(size=(240, 6)), sbm(y, 0.02, 0.2))
    assert choice.views == ("links",)
    assert choice.evidence["link_head"] > 0.05


def test_random_links_have_no_excess(y):
    rng = np.random.default_rng(0)
    head, _ = link_excess(sbm(y, 0.05, 0.05), 3, False, rng)
    assert head < 0.05
    head, tail = link_excess(sbm(y, 0.2, 0.02), 3, False, rng)
    assert head > 0.3
    assert tail < 0.25 * head


def test_reliability_is_high_only_where_halves_agree(y):
    good, noise = words(y, strength=0.5), words(np.zeros_like(y))
    links = sbm(y, 0.05, 0.05)
    for x, low, high in ((good, 0.6, 1.0), (noise, -0.2, 0.2)):
        prepared = prepare(x)
        attributes = Evidence.whole(prepared.features(x), links)
        score = reliability("own", attributes, prepared.groups, links, 3, False)
        assert low <= score <= high


def cycle(y, link=0.05, seed=3):
    """Directed links from each cluster to the next, and some at random."""
    rng = np.random.default_rng(seed)
    follows = y == (y[:, None] + 1) % (y.max() + 1)
    return sp.csr_array(
        (rng.random((len(y), len(y))) < np.where(follows, link, 0.01)).astype(float)
    )


@pytest.mark.parametrize("k", [2, 3])
@pytest.mark.parametrize("kind", ["words", "measurements"])
def test_links_are_chosen_where_attributes_are_noise(k, kind):
    y = np.random.default_rng(0).integers(k, size=240)
    noise = np.random.default_rng(9)
    x = (
        words(noise.permutation(y), strength=0.0)
        if kind == "words"
        else noise.normal(size=(240, 8))
    )
    choice = choose(x, cycle(y), k, directed=True)
    assert choice.views == ("links",)
    assert max(choice.evidence["own"], choice.evidence["neighbours"]) < 1.05


@pytest.mark.parametrize("kind", ["words", "measurements"])
def test_noise_shows_no_more_structure_than_its_null(y, kind):
    noise = np.random.default_rng(9)
    x = words(y, strength=0.0) if kind == "words" else noise.normal(size=(240, 8))
    choice = choose(x, sbm(y, 0.03, 0.03))
    for name in ("own", "neighbours"):
        assert choice.evidence[name] < 1.05


def test_shuffled_attributes_keep_their_values_together():
    x = np.arange(12.0).reshape(6, 2)
    features, groups = np.hstack([x, -x]), np.array([0, 1, 0, 1])
    out = _shuffled(features, groups, np.random.default_rng(0))
    np.testing.assert_array_equal(out[:, :2], -out[:, 2:])
    np.testing.assert_array_equal(np.sort(out, axis=0), np.sort(features, axis=0))
    assert not np.array_equal(out[:, 1] - out[:, 0], np.ones(6))


def test_a_sample_without_links_is_no_homophily(y, monkeypatch):
    monkeypatch.setattr("hencler._selection.EVIDENCE_NODES", 60)
    n = len(y)
    links = sp.csr_array(([1.0], ([1], [3])), shape=(n, n))  # of every fourth node, none
    preparation = prepare(words(y))
    evidence = sampled_evidence(preparation, words(y), links)
    assert evidence.out.nnz == evidence.into.nnz == 0
    choice = choose_views(evidence, preparation.groups, links, 3, True)
    assert choice.evidence["homophily"] == 0
    assert choice.views == ("own",)
