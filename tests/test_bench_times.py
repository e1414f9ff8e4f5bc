"""The stopwatch: one fit at a time, stopped at its limit."""

import time

import pytest

from hencler.bench import tables, times
from hencler.bench.methods import METHODS, Method
from hencler.bench.times import OVER, Stopwatch


def test_fits_are_timed_in_a_process_of_their_own(tmp_path):
    out, seen = tmp_path / "times.jsonl", []
    options = {"methods": ["kmeans", "mincutpool"], "datasets": ["like-texas"]}
    store = times.run(out, **options, device="cpu", limit=60, progress=seen.append)
    assert [cell["status"] for cell in store] == ["ok", "ok"]
    assert all(0 < cell["seconds"] < 60 for cell in store)
    assert all(cell["device"] == "cpu" and cell["limit"] == 60 for cell in store)
    times.run(out, **options, device="cpu", limit=60, progress=seen.append)
    assert len(seen) == 2  # nothing was measured twice


class Pipe:
    """The other end of the stopwatch, for messages that come after the given seconds."""

    def __init__(self, messages):
        self.messages = list(messages)

    def send(self, job):
        self.job = job

    def poll(self, seconds):
        if not self.messages:
            time.sleep(min(seconds, 0.2))
            return False
        return True

    def recv(self):
        message = self.messages.pop(0)
        if message is None:
            raise EOFError
        return message


@pytest.mark.parametrize(
    ("messages", "status"),
    [
        ([("start", None), ("share", 0.1)], OVER),
        ([("start", None)], OVER),
        ([("start", None), None], "oom"),
        ([("start", None), ("done", {"status": "ok", "seconds": 1.0})], "ok"),
    ],
)
def test_what_takes_too_long_or_dies_is_a_cell(monkeypatch, messages, status):
    stopwatch = Stopwatch("cpu")
    monkeypatch.setattr(stopwatch, "_running", lambda: Pipe(messages))
    cell = stopwatch.measure("mincutpool", "texas", limit=0.1)
    assert cell["status"] == status
    if len(messages) == 2 and status == OVER:
        assert cell["estimate"] == pytest.approx(2.0, rel=0.5)  # a tenth in 0.2 seconds
    elif status == OVER:
        assert cell["estimate"] is None


def test_the_time_table_says_what_stopped_a_fit(monkeypatch):
    def cell(method, dataset, **rest):
        return {"method": method, "dataset": dataset, "seed": 0, "limit": 60, **rest}

    machine = {"machine": {"cpu": "a CPU", "gpu": "a GPU"}}
    cells = [
        cell("dmon", "chameleon", status="ok", seconds=1.26, device="cuda", environment=machine),
        cell("dmon", "like-questions", status="ok", seconds=2, device="cuda", environment=machine),
        cell("hole", "tolokers", status=OVER, estimate=123.4, environment=machine),
        cell("hole", "squirrel", status=OVER, estimate=None, environment=machine),
        cell("muse", "squirrel", status="oom", environment=machine),
    ]
    text = tables._time_table({}, cells, tables.paper_tables())
    assert "| DMoN | ours | 1.3 | — |" in text
    assert "2.0\\* |" in text
    assert "> 60 (about 123)" in text
    assert "> 60 |" in text
    assert "| MUSE | ours | — | OOM |" in text
    assert "a GPU" in text


def test_a_small_fit_comes_first(monkeypatch):
    seen = []

    class Watched(type(METHODS["mincutpool"].make(2, 0, "cpu", ""))):
        def _fit(self, graph):
            seen.append((graph.n_nodes, self.epochs))
            super()._fit(graph)

    method = Method("watched", "watched", lambda k, s, d, _: Watched(k, device=d), None, True)
    times._warm_up(method, "cpu")
    assert seen == [(200, 2)]
