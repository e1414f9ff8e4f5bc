import json

import numpy as np
import pytest
import torch

from hencler import Graph, HeNCler, make_heterophilous_graph
from hencler._errors import ModelFileError
from hencler._persistence import FORMAT, CheckpointFile, read_model, write_model


@pytest.fixture(scope="module")
def graph():
    return make_heterophilous_graph(60, 4, n_attributes=8, random_state=0)


@pytest.fixture
def saved(graph, tmp_path):
    model = HeNCler(4, preset="paper", epochs=2, random_state=0).fit(graph)
    model.save(tmp_path / "model")
    return model, tmp_path / "model"


@pytest.mark.parametrize("preset", ["default", "paper", "released"])
@pytest.mark.parametrize("attributes", [True, False])
def test_a_loaded_model_is_the_saved_one(graph, preset, attributes, tmp_path):
    graph = graph if attributes else Graph(graph.adjacency, ids=[f"n{i}" for i in range(60)])
    model = HeNCler(4, preset=preset, epochs=2, random_state=0).fit(graph)
    model.save(tmp_path)
    loaded = HeNCler.load(tmp_path)
    np.testing.assert_array_equal(loaded.predict(graph), model.labels_)
    np.testing.assert_array_equal(loaded.labels_, model.labels_)
    np.testing.assert_array_equal(loaded.e_, model.e_)
    np.testing.assert_allclose(
        loaded.similarity([0], [1, 2], graph=graph), model.similarity([0], [1, 2]), rtol=1e-6
    )
    assert loaded.history_ == model.history_
    assert loaded.settings() == model.settings()


def test_saving_again_replaces_and_leaves_no_rest(saved, graph):
    _, folder = saved
    HeNCler(3, preset="paper", epochs=1, random_state=1).fit(graph).save(folder)
    assert len(list(folder.glob("*.safetensors"))) == 1
    assert HeNCler.load(folder).n_clusters == 3


def test_a_flipped_bit_is_found(saved):
    _, folder = saved
    (path,) = folder.glob("*.safetensors")
    blob = bytearray(path.read_bytes())
    blob[len(blob) // 2] ^= 1
    path.write_bytes(bytes(blob))
    with pytest.raises(ModelFileError, match="checksum"):
        HeNCler.load(folder)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda h: h.update(format=FORMAT + 1), "newer version"),
        (lambda h: h.pop("format"), "not the header"),
        (lambda h: h.pop("tensors"), "names no tensor file"),
        (lambda h: h["tensors"].update(file="../model.json"), "names no tensor file"),
        (lambda h: h.pop("model"), "not complete"),
        (lambda h: h["parameters"].update(nonsense=1), "not complete"),
        (lambda h: h["model"]["config"].update(n_features=3), "not complete"),
    ],
)
def test_a_changed_header_is_refused(saved, change, message):
    _, folder = saved
    header = json.loads((folder / "model.json").read_text())
    change(header)
    (folder / "model.json").write_text(json.dumps(header))
    with pytest.raises(ModelFileError, match=message):
        HeNCler.load(folder)


@pytest.mark.parametrize("text", ["", "{", "[]", "[" * 100_000, "\x00"])
def test_a_damaged_header_is_refused(tmp_path, text):
    (tmp_path / "model.json").write_text(text)
    with pytest.raises(ModelFileError):
        read_model(tmp_path)


def test_missing_files_are_named(tmp_path, saved):
    with pytest.raises(ModelFileError, match="there is no model here"):
        HeNCler.load(tmp_path / "nowhere")
    _, folder = saved
    for path in folder.glob("*.safetensors"):
        path.unlink()
    with pytest.raises(ModelFileError, match="cannot be read"):
        HeNCler.load(folder)


def test_a_failed_write_keeps_the_old_model(saved, monkeypatch):
    model, folder = saved
    before = {p.name: p.read_bytes() for p in folder.iterdir()}

    def fail(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.replace", fail)
    monkeypatch.setattr("pathlib.Path.replace", fail)
    with pytest.raises(OSError, match="No space"):
        write_model(folder, {"a": 1}, {"t": np.ones(3)})
    assert {p.name: p.read_bytes() for p in folder.iterdir()} == before
    HeNCler.load(folder)
    assert model.labels_ is not None


class Stop(Exception):
    pass


@pytest.mark.parametrize("preset", ["paper", "released"])
@pytest.mark.parametrize("batch_size", [None, 20])
def test_a_resumed_training_is_the_uninterrupted_one(graph, preset, batch_size, tmp_path):
    settings = {"preset": preset, "epochs": 6, "batch_size": batch_size, "random_state": 0}
    whole = HeNCler(4, **settings).fit(graph)

    def stop(epoch):
        if epoch.number == 4:
            raise Stop

    kept = {"checkpoint": tmp_path / "c", "checkpoint_epochs": 1}
    with pytest.raises(Stop):
        HeNCler(4, callback=stop, **kept, **settings).fit(graph)
    again = HeNCler(4, resume=True, **kept, **settings).fit(graph)
    np.testing.assert_array_equal(again.e_, whole.e_)
    np.testing.assert_array_equal(again.labels_, whole.labels_)
    assert again.history_ == whole.history_
    other = HeNCler(4, resume=True, **kept, **{**settings, "epochs": 9})
    with pytest.raises(ModelFileError, match="other data or other settings"):
        other.fit(graph)
    again.discard_checkpoint()
    assert not (tmp_path / "c").exists()


def history(epochs):
    return [{"epoch": float(i), "loss": 1.0} for i in range(1, epochs + 1)]


def test_checkpoints_keep_their_distance(tmp_path):
    file = CheckpointFile(tmp_path / "c", "x", resume=True, seconds=1000.0)
    file.save(1, lambda: {"t": torch.ones(2)}, lambda: history(1))
    assert file.load() is None


def test_checkpoints_by_epochs(tmp_path):
    file = CheckpointFile(tmp_path / "c", "x", resume=True, seconds=1000.0, epochs=3)
    written = []
    for epoch in range(1, 11):
        file.save(epoch, lambda: {"t": torch.ones(2)}, lambda epoch=epoch: history(epoch))
        written.append(file.written)
    assert written == [0, 0, 1, 1, 1, 2, 2, 2, 3, 3]
    assert file.load()[0] == 9


def test_checkpoints_take_less_than_two_percent(tmp_path, monkeypatch):
    now = 0.0
    monkeypatch.setattr("time.monotonic", lambda: now)

    def slow():
        nonlocal now
        now += 2.0  # what one checkpoint takes
        return {"t": torch.ones(2)}

    file = CheckpointFile(tmp_path / "c", "x", resume=True, seconds=1.0)
    for epoch in range(1, 2001):
        now += 1.0
        file.save(epoch, slow, lambda: history(1))
    assert file.written > 10
    assert file.cost == 2.0 * file.written
    assert file.cost < 0.02 * now


@pytest.fixture
def unfinished(graph, tmp_path):
    """A training that is stopped after 3 of 4 epochs, and a way to take it up."""

    def stop(epoch):
        if epoch.number == 3:
            raise Stop

    def resume(**changes):
        options = {"epochs": 4, "random_state": 0, "device": "cpu", **changes}
        return HeNCler(
            4, preset="released", checkpoint=tmp_path / "c", checkpoint_epochs=1, **options
        ).fit(graph)

    with pytest.raises(Stop):
        resume(callback=stop)
    return tmp_path / "c", lambda: resume(resume=True)


def test_altered_checkpoints_are_refused(unfinished):
    folder, resume = unfinished
    header, tensors = read_model(folder)
    header = {k: v for k, v in header.items() if k not in ("format", "tensors")}
    bad = [({k: v for k, v in header.items() if k != key}, tensors) for key in header]
    bad += [
        (header | {"epoch": value}, tensors) for value in (-1, 0, 10**30, 2.0, "2", None, True, [])
    ]
    bad += [
        (header | {"history": value}, tensors)
        for value in (None, {}, [1, 2], [{"loss": "x"}] * 2, [[]] * 2)
    ]
    chosen = [*list(tensors)[::6], *(k for k in tensors if k.startswith("optimiser.1"))]
    for name in chosen:
        value = tensors[name]
        others = [
            value[None],
            value.astype(np.float16),
            np.zeros(value.shape, np.uint8),
            np.ones(value.size + 1, value.dtype),
            value[..., :0] if value.ndim else np.ones((2, 2), value.dtype),
        ]
        bad += [(header, tensors | {name: other}) for other in others]
        bad.append((header, {k: v for k, v in tensors.items() if k != name}))
        bad.append((header, tensors | {f"{name}.more": value}))
    bad.append((header, tensors | {"optimiser.0.-1.step": np.float32(1)}))
    bad.append((header, tensors | {"optimiser.0": np.float32(1)}))
    for changed, arrays in bad:
        write_model(folder, changed, arrays)
        with pytest.raises(ModelFileError):
            resume()
    write_model(folder, header, tensors)
    resume()
