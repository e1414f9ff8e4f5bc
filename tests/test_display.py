"""The model in a notebook: well-formed, escaped, and scikit-learn's where it is not fitted."""

from html.parser import HTMLParser

import numpy as np
import pytest
from sklearn import config_context
from sklearn.pipeline import make_pipeline

from hencler import HeNCler, make_heterophilous_graph
from hencler._display import fitted_html


class _Balanced(HTMLParser):
    """Fails on a tag that is closed without having been opened, or left open."""

    def __init__(self, text):
        super().__init__()
        self.open, self.words = [], []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        pass

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.words.append(data)


@pytest.fixture(scope="module")
def model():
    graph = make_heterophilous_graph(80, 4, random_state=0)
    return HeNCler(4, n_init=2, random_state=0).fit(graph)


def test_a_fitted_model_shows_what_was_found(model):
    text = " ".join(_Balanced(fitted_html(model)).words)
    for size in np.bincount(model.labels_):
        assert f"{size}" in text
    assert f"{model.score():.3g} nats per node" in text
    assert ", ".join(model.views_) in text
    assert fitted_html(model).count("<rect") == len(model.singular_values_)
    bundle = model._repr_mimebundle_()
    assert bundle["text/plain"] == repr(model)
    assert fitted_html(model) in bundle["text/html"]
    assert fitted_html(model) in model._repr_html_()


def test_nothing_is_loaded_from_elsewhere_and_nothing_is_markup(model):
    model = HeNCler(4, n_init=2, random_state=0).fit(
        make_heterophilous_graph(80, 4, random_state=0)
    )
    model.views_ = ("<script>alert(1)</script>",)
    del model._graph
    text = fitted_html(model)
    assert "<script" not in text
    assert "http" not in text
    assert "&lt;script" in text
    assert "nats" not in text  # without its graph there is no score


def test_before_the_fit_it_is_scikit_learns(model):
    html = HeNCler(4)._repr_html_()
    assert "hencler-fit" not in html
    assert "HeNCler" in html
    with config_context(display="text"):
        assert "text/html" not in model._repr_mimebundle_()
    assert "HeNCler" in make_pipeline(HeNCler(4))._repr_html_()


def test_trained_and_loaded_models(tmp_path):
    graph = make_heterophilous_graph(60, 3, random_state=0)
    model = HeNCler(3, preset="paper", epochs=2, n_init=1, random_state=0).fit(graph)
    text = " ".join(_Balanced(fitted_html(model)).words)
    assert "last loss" in text
    model.save(tmp_path / "model")
    _Balanced(fitted_html(HeNCler.load(tmp_path / "model", device="cpu")))
