"""Who listens is told of every step, and who does not costs nothing."""

import threading

import pytest

from hencler import HeNCler, make_heterophilous_graph
from hencler._encodings import random_walk_encoding
from hencler._progress import announce, listening, steps


def test_nobody_needs_to_listen():
    announce("anything")
    assert list(steps("anything", "abc")) == ["a", "b", "c"]


def test_a_listener_hears_its_own_block_and_no_other():
    heard = []
    with listening(heard.append):
        with listening(None):
            announce("unheard")
        with listening(heard.append):
            announce("first")
        other = threading.Thread(target=announce, args=("elsewhere",))
        other.start()
        other.join()
        announce("second", 3, 4)
    announce("late")
    assert heard == [("first", 0, None), ("second", 3, 4)]


def test_steps_count_to_their_end_unless_broken_off():
    heard = []
    with listening(heard.append):
        for item in steps("looking", [5, 7, 9]):
            if item == 7:
                break
    assert [step.done for step in heard] == [0, 1]


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, {"weighing the evidence", "weighted kernel SVD", "KMeans runs"}),
        ({"view": "own"}, {"learning the maps", "weighted kernel SVD", "KMeans runs"}),
        ({"preset": "paper", "epochs": 2}, {"positional encoding", "training", "KMeans"}),
        ({"n_clusters": "auto"}, {"trying numbers of clusters", "KMeans runs"}),
    ],
)
def test_every_long_step_of_a_fit_is_told(settings, expected):
    graph = make_heterophilous_graph(60, 3, random_state=0)
    heard = []
    with listening(heard.append):
        HeNCler(**({"n_clusters": 3, "n_init": 1, "random_state": 0} | settings)).fit(graph)
    assert expected <= {step.name for step in heard}
    for name in expected:
        own = [step for step in heard if step.name == name]
        assert all(step.total is None or 0 <= step.done <= step.total for step in own)


def test_listening_changes_no_number():
    graph = make_heterophilous_graph(60, 3, random_state=0)
    plain = HeNCler(3, random_state=0).fit(graph)
    with listening(lambda step: None):
        heard = HeNCler(3, random_state=0).fit(graph)
    assert (plain.labels_ == heard.labels_).all()
    assert (plain.e_ == heard.e_).all()
    with listening(lambda step: None):
        encoding = random_walk_encoding(graph.adjacency, 4)
    assert (encoding == random_walk_encoding(graph.adjacency, 4)).all()
