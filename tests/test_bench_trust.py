"""Short versions of the counted attempts, and the table that is made of their results."""

import json

import pytest

from hencler._errors import ParameterError
from hencler.bench import trust


def test_killed_runs_resume_to_the_same_bits():
    result = trust.crash(kills=3, programs=0, progress=lambda _: None)
    kills = result["kills"]
    assert kills >= 3
    assert result["resumed_bit_equal"] == result["nothing_left_over"] == kills
    assert sum(result["kills_in"].values()) == kills


def test_full_disks():
    result = trust.disk(writes=10)
    assert result["refused_with_a_typed_error"] == result["earlier_run_intact"] == 10


def test_the_order_of_the_nodes():
    assert trust.order(graphs=1)["equal"] == {"default": 1, "paper": 1, "released": 1}


def test_many_fits_give_the_same():
    result = trust.load(fits=6, graphs=2)
    assert result["same_labels_as_the_first_time"] == 6


@pytest.mark.slow
def test_fits_leave_no_objects_behind():
    result = trust.leak(fits=10, nodes=40)
    for preset in ("default", "paper"):
        part = result[preset]
        # A leaked model is thousands of objects; caches of the libraries are few.
        assert part["objects_at_the_end"] - part["objects_after_a_tenth"] < 500


@pytest.mark.slow
def test_processes_at_once():
    result = trust.processes(count=3)
    assert result["own_folders_equal_to_a_run_alone"] == 3
    assert result["shared_folder_finished"] + result["shared_folder_refused"] == 3
    assert result["shared_folder_finished"] >= 1
    assert result["shared_folder_equal_to_a_run_alone"]


def test_checkpoints_cost_little():
    result = trust.checkpoints(nodes=60, epochs=4, every=0.0)
    assert result["checkpoints"] >= 1
    assert result["epochs"] == 4


def test_parts_are_put_beside_each_other(tmp_path, monkeypatch):
    store = tmp_path / "trust.json"
    store.write_text(json.dumps({"load": {"fits": 1}}))
    disk = {"writes": 7, "refused_with_a_typed_error": 7, "earlier_run_intact": 7}
    monkeypatch.setitem(trust.PARTS, "disk", lambda: disk)
    said = []
    result = trust.run(store, ["disk"], progress=said.append)
    assert said[0] == "disk ..."
    assert said[1].startswith("disk: 0 s")
    assert json.loads(store.read_text()) == result
    assert result["load"] == {"fits": 1}
    assert result["disk"]["writes"] == 7
    assert result["disk"]["took_seconds"] >= 0
    assert result["disk"]["environment"]["python"]
    with pytest.raises(ParameterError, match="no such part"):
        trust.run(store, ["disc"])


def test_the_table_has_a_row_for_every_part():
    part = {"resident_at_the_end_bytes": 2**20, "resident_after_a_tenth_bytes": 0, "fits": 1000}
    result = {
        "crash": {
            "kills": 3, "kills_in": {"training": 2, "result": 1}, "resumed_bit_equal": 3,
            "nothing_left_over": 3, "programs_killed": 1, "programs_resumed_bit_equal": 1,
        },
        "disk": {"writes": 5, "refused_with_a_typed_error": 5, "earlier_run_intact": 5},
        "order": {"graphs": 2, "equal": {"default": 2, "paper": 1}},
        "load": {**part, "graphs": 2, "same_labels_as_the_first_time": 1000},
        "leak": {"default": part, "environment": {}, "took_seconds": 1.0},
        "processes": {
            "processes": 8, "own_folders_equal_to_a_run_alone": 8, "shared_folder_finished": 1,
            "shared_folder_refused": 7, "shared_folder_equal_to_a_run_alone": True,
        },
        "checkpoints": {"seconds": 9.0, "checkpoints": 3, "share_percent": 0.5},
        "fuzz": {"targets": {"a": {}}, "inputs": 1_000_000, "findings": 0,
                 "processes_that_died": 0},
    }  # fmt: skip
    table = trust.render(result)
    assert "2 in training, 1 in result" in table
    assert "| 1,000,000 | 0 findings" in table
    assert "+1.0 MiB resident" in table
    assert "1 finished, 7 refused; the result is whole" in table
    assert "`paper` | 2 | 1 with the same clusters" in table
    assert table.count("\n") == 2 + 11


def test_fuzz_counts_are_taken_up(tmp_path):
    counts = {"inputs": 5, "findings": {"x": {}}, "accepted": 1}
    (tmp_path / "edges.csv.json").write_text(json.dumps(counts))
    result = trust.fuzz(folder=tmp_path, targets=["edges.csv"])
    assert result["inputs"] == 5
    assert result["findings"] == 1
    assert result["processes_that_died"] == 0
