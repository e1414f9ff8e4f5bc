import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.feature_extraction.text import TfidfTransformer

from hencler._prepare import REDUCED_COLUMNS, Measurements, Words, prepare


def make_words(n=50, d=80, seed=0):
    rng = np.random.default_rng(seed)
    return sp.csr_array((rng.random((n, d)) < 0.1).astype(float))


def test_content_is_scikit_learns_tf_idf_with_soft_lengths():
    x = make_words()
    content = Words().fit(x).content(x)
    lengths = np.log1p(np.diff(x.indptr))
    expected = TfidfTransformer(smooth_idf=True).fit_transform(x)
    # scikit-learn: ln((1 + n) / (1 + df)) + 1 and rows of unit length, as here.
    expected = sp.diags_array(lengths / lengths.mean()) @ expected
    np.testing.assert_allclose(content.toarray(), expected.toarray(), atol=1e-12)


def test_weighted_values_get_no_second_idf():
    x = make_words()
    x.data = np.random.default_rng(1).random(x.nnz)
    np.testing.assert_array_equal(Words().fit(x).idf, 1.0)


def test_magnitude_is_silent_where_lengths_are_alike():
    x = sp.csr_array(np.tile(np.eye(10), (10, 8)))
    words = Words().fit(x)
    np.testing.assert_allclose(words.magnitude(np.diff(x.indptr)), 0, atol=1e-9)
    x = make_words()
    words, lengths = Words().fit(x), np.log1p(np.diff(x.indptr))
    expected = (lengths - lengths.mean()) / lengths.std() * (lengths.std() / lengths.mean()) ** 2
    np.testing.assert_allclose(words.magnitude(np.diff(x.indptr)), expected)


def test_measurements_are_standardised_and_split_by_sign():
    x = np.random.default_rng(0).normal(3, 5, size=(40, 6))
    fitted = Measurements().fit(x)
    z = (x - x.mean(0)) / x.std(0) / np.sqrt(6)
    np.testing.assert_allclose(fitted.content(x), z)
    features = fitted.features(x)
    assert features.min() >= 0
    np.testing.assert_allclose(features[:, :6] - features[:, 6:], z)
    assert np.sqrt((z**2).sum(1).mean()) == pytest.approx(1.0)


def test_constant_columns_are_left_out():
    x = np.random.default_rng(0).normal(size=(20, 3))
    x[:, 1] = 7.0
    assert Measurements().fit(x).content(x).shape == (20, 2)
    assert prepare(np.ones((5, 3))) is None


def test_one_hot_columns_are_one_attribute():
    rng = np.random.default_rng(0)
    kind = np.eye(4)[rng.integers(4, size=60)]
    free = (rng.random((60, 2)) < 0.5).astype(float)
    x = np.hstack([kind[:, :2], rng.normal(size=(60, 1)), kind[:, 2:], free])
    groups = Measurements().fit(x).groups_of_columns
    assert len({groups[0], groups[1], groups[3], groups[4]}) == 1
    assert len(set(groups)) == 4


def test_many_columns_are_reduced():
    x = np.random.default_rng(0).normal(size=(300, 600))
    fitted = Measurements().fit(x)
    assert fitted.content(x).shape == (300, REDUCED_COLUMNS)


@pytest.mark.parametrize(
    ("x", "kind"),
    [
        (make_words(), "words"),
        (make_words().toarray(), "words"),
        (make_words(d=20), "measurements"),
        (np.random.default_rng(0).normal(size=(30, 100)), "measurements"),
        (-make_words(), "measurements"),
    ],
)
def test_the_kind_is_read_off_the_data(x, kind):
    fitted = prepare(x)
    assert fitted.kind == kind
    again = type(fitted).from_state(fitted.state())
    a, b = fitted.features(x), again.features(x)
    np.testing.assert_array_equal(
        a.toarray() if sp.issparse(a) else a, b.toarray() if sp.issparse(b) else b
    )
    assert fitted.groups.shape == (a.shape[1],)
