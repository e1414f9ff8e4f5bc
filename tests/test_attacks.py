"""Files made to do harm: each is refused with a typed error, in bounded memory and time."""

import csv
import io
import json
import os
import pickle
import re
import resource
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hencler import Graph, HeNCler, load_dataset, make_heterophilous_graph, report
from hencler._config import read_settings
from hencler._errors import FileFormatError, HenclerError, ModelFileError
from hencler._limits import check_expansion
from hencler._run import read_run, write_run
from hencler.bench.fuzz import TARGETS, make_targets, mutate
from hencler.cli import main
from hencler.io import convert, read_graph, read_labels, write_store
from hencler.report import write_report

GRAPHML = '<graphml xmlns="http://graphml.graphdrawing.org/xmlns">{}</graphml>'


@pytest.fixture
def little_memory():
    """What a reader may have above what the process has already."""
    limits = resource.getrlimit(resource.RLIMIT_AS)
    with open("/proc/self/statm") as file:
        used = int(file.read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + (1 << 29), limits[1]))
    yield
    resource.setrlimit(resource.RLIMIT_AS, limits)


# --- size ------------------------------------------------------------------------------------


def zip_bomb(path, member, shape, dtype="<i8"):
    """A compressed array of zeros."""
    header = io.BytesIO()
    layout = {"descr": dtype, "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(header, layout)
    with (
        zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive,
        archive.open(member, "w") as file,
    ):
        file.write(header.getvalue())
        left = int(np.prod(shape)) * 8
        while left > 0:
            file.write(bytes(min(left, 1 << 22)))
            left -= 1 << 22
    return path


def test_decompression_bomb_in_npz(tmp_path, little_memory):
    path = zip_bomb(tmp_path / "g.npz", "edge_index.npy", (2, 20_000_000))
    assert path.stat().st_size < 4_000_000
    with pytest.raises(FileFormatError, match="would expand to"):
        read_graph(path)
    edges = tmp_path / "e.csv"
    edges.write_text("0,1\n")
    features = zip_bomb(tmp_path / "f.npz", "x.npy", (2, 20_000_000), "<f8")
    with pytest.raises(FileFormatError, match="would expand to"):
        read_graph(edges, features=features)
    with pytest.raises(FileFormatError, match="would expand to"):
        convert(edges, tmp_path / "store", features=features)


def test_decompression_bomb_in_parquet(tmp_path, little_memory):
    import pyarrow as pa
    import pyarrow.parquet as pq

    ends = pa.DictionaryArray.from_arrays(pa.array(np.zeros(2_000_000, np.int8)), pa.array(["a"]))
    many = pa.chunked_array([ends] * 10)
    table = pa.table({"source": many, "target": many})
    pq.write_table(table, tmp_path / "g.parquet", compression="zstd")
    assert (tmp_path / "g.parquet").stat().st_size < 500_000
    (tmp_path / "e.csv").write_text("0,1\n")
    for read in (
        read_graph,
        read_labels,
        lambda p: convert(p, tmp_path / "store"),
        lambda p: convert(tmp_path / "e.csv", tmp_path / "store", features=p),
    ):
        with pytest.raises(FileFormatError, match="would expand to"):
            read(tmp_path / "g.parquet")
    assert not (tmp_path / "store").exists()


def test_what_real_files_expand_to_is_allowed(tmp_path):
    check_expansion(200 << 20, 1, tmp_path)
    check_expansion(50 << 30, 1 << 30, tmp_path)
    with pytest.raises(FileFormatError):
        check_expansion(101 << 30, 1 << 30, tmp_path)


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_one_long_text_does_not_make_all_long(tmp_path, kind, little_memory):
    labels = ["a"] * 20_000 + ["b" * 130_000]
    path = tmp_path / f"l.{kind}"
    if kind == "csv":
        with path.open("w", newline="") as file:
            csv.writer(file).writerows([("node", "cluster"), *enumerate(labels)])
    else:
        import pyarrow as pa
        import pyarrow.parquet as pq

        pq.write_table(pa.table({"node": np.arange(20_001), "cluster": labels}), path)
    (tmp_path / "e.csv").write_text("0,1\n")
    for read in (
        read_labels,
        lambda p: read_graph(tmp_path / "e.csv", features=p, label="cluster"),
    ):
        with pytest.raises(FileFormatError, match="130000 characters"):
            read(path)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("g.mtx", "%%MatrixMarket matrix coordinate real general\n9 9 99999999999\n1 1 1\n"),
        ("g.mtx", "%%MatrixMarket matrix array real general\n99999999 99999999\n1\n"),
        ("g.mtx", "%%MatrixMarket matrix coordinate real general\n99999999999 9 1\n1 1 1\n"),
        ("g.gml", "graph [ " + "a [ " * 50_000),
        ("g.gml", "graph [ node [ id " + "9" * 5000 + " ] ]"),
        ("g.graphml", GRAPHML.format("<graph edgedefault='directed'>" * 2000)),
        ("g.graphml", "<a>" * 100_000 + "</a>" * 100_000),
        ("g.csv", "a" * 200_000 + ",b\n"),
        ("g.csv", '"' * 100_001),
        ("g.txt", "a" * 2000 + " b\n"),
    ],
)
def test_declared_and_nested_sizes(put, name, content, little_memory):
    with pytest.raises(HenclerError):
        read_graph(put(name, content))


@pytest.mark.parametrize("shape", [(1 << 40, 1 << 20), (2, 1 << 60), (-1, 2), (1 << 62, 8)])
@pytest.mark.parametrize("suffix", ["npy", "npz"])
def test_arrays_that_announce_more_than_they_hold(tmp_path, shape, suffix, little_memory):
    header = io.BytesIO()
    layout = {"descr": "<f8", "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(header, layout)
    (tmp_path / "e.csv").write_text("0,1\n")
    path = tmp_path / f"f.{suffix}"
    if suffix == "npy":
        path.write_bytes(header.getvalue() + bytes(64))
    else:
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("x.npy", header.getvalue() + bytes(64))
    with pytest.raises(HenclerError):
        read_graph(tmp_path / "e.csv", features=path)
    with pytest.raises(HenclerError):
        convert(tmp_path / "e.csv", tmp_path / "store", features=path)
    if suffix == "npy":
        with pytest.raises(HenclerError):
            convert(path, tmp_path / "store")


@pytest.mark.parametrize("target", ["/dev/zero", "pipe"])
def test_devices_and_pipes_are_no_files(tmp_path, target):
    path = tmp_path / "g.csv"
    os.mkfifo(path) if target == "pipe" else path.symlink_to(target)
    for read in (read_graph, lambda p: convert(p, tmp_path / "store")):
        with pytest.raises(FileFormatError, match="device or a pipe"):
            read(path)


# --- code ------------------------------------------------------------------------------------


class Harm:
    """Makes a file when it is unpickled."""

    def __init__(self, path):
        self.path = str(path)

    def __reduce__(self):
        return (open, (self.path, "w"))


def test_pickled_objects_are_not_loaded(tmp_path):
    mark = tmp_path / "harm"
    (tmp_path / "e.csv").write_text("0,1\n")
    objects = np.array([[Harm(mark)], [Harm(mark)]], dtype=object)
    np.savez(tmp_path / "g.npz", edge_index=objects)
    np.savez(tmp_path / "f.npz", x=objects)
    np.save(tmp_path / "f.npy", objects, allow_pickle=True)
    (tmp_path / "p.npy").write_bytes(pickle.dumps(Harm(mark)))
    (tmp_path / "p.npz").write_bytes(pickle.dumps(Harm(mark)))
    with pytest.raises(HenclerError):
        read_graph(tmp_path / "g.npz")
    for name in ("f.npz", "f.npy", "p.npy", "p.npz"):
        with pytest.raises(HenclerError):
            read_graph(tmp_path / "e.csv", features=tmp_path / name)
        with pytest.raises(HenclerError):
            convert(tmp_path / "e.csv", tmp_path / "store", features=tmp_path / name)
    for name in ("f.npy", "p.npy"):
        with pytest.raises(HenclerError):
            convert(tmp_path / name, tmp_path / "store")
    assert not mark.exists()
    assert not (tmp_path / "store").exists()


def test_entities_are_not_expanded(put, tmp_path):
    secret = put("secret.txt", "secret")
    for doctype in (
        f'<!DOCTYPE g [<!ENTITY x SYSTEM "file://{secret}">]>',
        '<!DOCTYPE g [<!ENTITY a "aaaaaaaaaa"><!ENTITY x "&a;&a;&a;&a;&a;&a;&a;&a;&a;">]>',
        '<!DOCTYPE g SYSTEM "http://localhost/g.dtd">',
    ):
        text = doctype + GRAPHML.format("<graph edgedefault='directed'><node id='&x;'/></graph>")
        for encoding in ("utf-8", "utf-16"):
            with pytest.raises(FileFormatError, match="document type"):
                read_graph(put("g.graphml", text.encode(encoding)))


@pytest.mark.parametrize(
    "name",
    ["../secret", "/etc/passwd", "..", ".", "", "a/b", "tensors-\0.safetensors", "model.json",
     "tensors-0123456789abcdef.safetensors/../../secret", 3, None, ["a"]],
)  # fmt: skip
def test_a_model_names_no_file_outside_of_its_folder(tmp_path, name):
    header = {"format": 1, "tensors": {"file": name, "sha256": "0" * 64}}
    (tmp_path / "model.json").write_text(json.dumps(header))
    with pytest.raises(ModelFileError, match="names no tensor file"):
        HeNCler.load(tmp_path)


@pytest.mark.parametrize("name", ["../x.npy", "/x.npy", "..\\x.npy"])
def test_members_of_an_archive_are_never_extracted(tmp_path, name):
    inner = tmp_path / "inner"
    inner.mkdir()
    with zipfile.ZipFile(inner / "g.npz", "w") as archive:
        for member in (name, "edge_index.npy"):
            content = io.BytesIO()
            np.save(content, np.array([[0], [1]]))
            archive.writestr(member, content.getvalue())
    assert read_graph(inner / "g.npz").n_nodes == 2
    assert sorted(p.name for p in tmp_path.rglob("*")) == ["g.npz", "inner"]


@pytest.mark.parametrize("name", ["../../etc/passwd", "texas/../texas", "a\0b", "-h", ""])
def test_no_file_by_the_name_of_a_data_set(name):
    with pytest.raises(HenclerError):
        load_dataset(name)


# --- text ------------------------------------------------------------------------------------

HOSTILE = [
    "<script>alert(1)</script>", "</script><img src=x onerror=alert(1)>",
    "'\"><svg onload=alert(1)>",
    "=HYPERLINK(\"http://x\")", "+1", "-1+1", "@SUM(A1)", "\t=1", "{{7*7}}", "{% raw %}", "${7*7}",
    "]]>", "<!--", "&lt;b&gt;", "\u202eabc", "javascript:alert(1)", "%0d%0aX: y", "a\nb",
]  # fmt: skip


@pytest.fixture(scope="module", params=["store", "paper"])
def hostile_run(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("run")
    n = len(HOSTILE)
    rng = np.random.default_rng(0)
    graph = Graph(
        rng.random((n, n)) < 0.4, rng.random((n, n)), ids=HOSTILE, attribute_names=HOSTILE
    )
    options = {"view": "own", "learned_maps": False}
    if request.param == "paper":
        options = {"preset": "paper", "epochs": 2, "device": "cpu"}
    if request.param == "store":
        write_store(graph, folder / "store")
        graph = read_graph(folder / "store")
    model = HeNCler(2, **options, random_state=0).fit(graph)
    source = HOSTILE[1]
    write_run(folder, graph, model, seconds=0.0, source=source, truth=np.array(HOSTILE),
              warnings=HOSTILE)  # fmt: skip
    write_report(folder)
    return folder, graph


def test_nothing_in_the_report_is_markup_but_its_own(hostile_run):
    from html.parser import HTMLParser

    folder, _ = hostile_run
    page = (folder / "report.html").read_text()
    tags, scripts = [], 0

    class Reader(HTMLParser):
        def handle_starttag(self, tag, attributes):
            nonlocal scripts
            scripts += tag == "script"
            tags.append((tag, dict(attributes)))

    Reader().feed(page)
    for tag, attributes in tags:
        assert not [name for name in attributes if name.startswith("on")], tag
        assert "javascript:" not in str(attributes.get("href", ""))
        assert attributes.get("src", "").startswith(("data:", "")) or tag != "img"
    assert "onerror" not in " ".join(str(a.keys()) for _, a in tags)
    assert page.count("<script>alert") == 0
    assert page.count("</script>") == scripts
    assert "49" not in [a.get("value") for _, a in tags]


def test_hostile_names_come_back_unchanged(hostile_run):
    folder, graph = hostile_run
    ids, _ = read_labels(folder / "labels.csv")
    assert ids.tolist() == HOSTILE
    assert read_graph(folder / "graph.npz").ids.tolist() == graph.ids.tolist()


def test_the_rule_by_which_the_download_guards_formulas():
    # The same as in the browser's test, for machines without one.
    script = (Path(report.__file__).parent / "page.js").read_text(encoding="utf-8")
    rule = re.search(r"plain = /(.+?)/\.test\(text\) && !/(.+?)/\.test\(text\)", script)
    formula, number = (re.compile(part.replace("$", r"\Z")) for part in rule.groups())
    guarded = [t for t in HOSTILE if formula.search(t) and not number.search(t)]
    assert guarded == ['=HYPERLINK("http://x")', "-1+1", "@SUM(A1)", "\t=1"]


# --- ids and encodings -----------------------------------------------------------------------


@pytest.mark.parametrize("suffix", ["csv", "parquet", "npz"])
def test_duplicate_ids(tmp_path, suffix):
    (tmp_path / "e.csv").write_text("a,b\n")
    path = tmp_path / f"f.{suffix}"
    if suffix == "csv":
        path.write_text("id,x\na,1\nb,2\na,3\n")
    elif suffix == "npz":
        np.savez(path, x=np.ones((3, 1)), ids=np.array(["a", "b", "a"]))
    else:
        import pyarrow as pa
        import pyarrow.parquet as pq

        pq.write_table(pa.table({"id": ["a", "b", "a"], "x": [1.0, 2.0, 3.0]}), path)
    with pytest.raises(HenclerError, match="'a' occurs more than once"):
        read_graph(tmp_path / "e.csv", features=path)


@pytest.mark.parametrize("encoding", ["utf-16", "utf-32", "latin-1", "cp1252", "shift_jis"])
def test_other_encodings_are_named_not_guessed(put, encoding):
    text = "source,target\nä,b\nb,ä\n" if encoding != "shift_jis" else "source,target\n日,b\n"
    with pytest.raises(FileFormatError, match=r"UTF-8|zero bytes"):
        read_graph(put("g.csv", text.encode(encoding)))


def test_mixed_encodings(put):
    with pytest.raises(FileFormatError, match=r":3.*byte .*0xe4.*UTF-8"):
        read_graph(put("g.csv", "source,target\nä,b\n".encode() + "b,ä\n".encode("latin-1")))


def test_look_alike_ids_stay_apart(put):
    graph = read_graph(put("g.csv", "a,\u0430\né,e\u0301\n"))
    assert graph.n_nodes == 4


# --- command line ----------------------------------------------------------------------------


@pytest.mark.parametrize("name", TARGETS)
def test_a_damaged_file_is_one_line_on_the_command_line(
    name, tmp_path, tmp_path_factory, monkeypatch, capsys
):
    edges = tmp_path / "good.csv"
    edges.write_text("0,1\n1,2\n2,0\n")
    bad = tmp_path / name
    bad.write_bytes(b"\x89\0PK\x03\x04 not this")
    kind = name.partition(".")[0]
    (tmp_path / "model").mkdir()
    (tmp_path / "out").mkdir()
    command = ["fit", bad, "-k", "2"]
    if kind == "features":
        command = ["fit", edges, "--features", bad, "-k", "2"]
    elif kind == "labels":
        command = ["evaluate", bad, bad]
    elif kind in ("model", "tensors"):
        bad.rename(tmp_path / "model" / "model.json")
        command = ["predict", tmp_path / "model", edges, "--out", tmp_path / "l.csv"]
    elif kind == "checkpoint":
        (tmp_path / "out" / "checkpoint").mkdir()
        bad.rename(tmp_path / "out" / "checkpoint" / "model.json")
        command = ["fit", edges, "-k", "2", "--preset", "paper", "--resume"]
    elif kind == "run":
        command = ["report", tmp_path]
    elif kind == "hencler":
        command = ["fit", "--config", bad]
    elif kind == "store":
        command = ["fit", tmp_path, "-k", "2"]
    elif kind == "convert":
        command = ["convert", bad, "--out", tmp_path / "made"]
    elif kind == "convert_nodes":
        command = ["convert", edges, "--features", bad, "--out", tmp_path / "made"]
    if command[0] == "fit":
        command += ["--out", tmp_path / "out"]
    monkeypatch.setattr(sys, "argv", ["hencler", *map(str, command)])
    with pytest.raises(SystemExit) as stop:
        main()
    error = capsys.readouterr().err
    assert stop.value.code == 2
    assert error.startswith("error: ")
    assert error.count("\n") == 1


# --- settings -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "seed: !!python/object/apply:os.system ['true']\n",
        "seed: !!timestamp x\n",
        "seed: !!int ''\n",
        "seed: !!float ''\n",
        "seed: !!bool x\n",
        "seed: !!binary x\n",
        "seed: " + "9" * 5000 + "\n",
        "a: &a [x, x]\nb: &b [*a, *a]\nc: [*b, *b]\n",
        "seed: " + "[" * 100_000,
        "{" * 100_000,
        "seed: 1\nseed: 2\n",
        "clusters: 2020-01-01\n",
        "graph: \0\n",
        "\ufeff\0",
        "? [a]\n: b\n",
        "<<: {seed: 3}\n",
        "x" * 1_000_001,
    ],
    ids=range(17),
)
def test_settings_made_to_do_harm(put, text, little_memory):
    with pytest.raises(FileFormatError):
        read_settings(put("hencler.yaml", text))


def test_settings_from_a_pipe(tmp_path):
    os.mkfifo(tmp_path / "hencler.yaml")
    with pytest.raises(FileFormatError, match="pipe"):
        read_settings(tmp_path / "hencler.yaml")


# --- fuzz ------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def targets(tmp_path_factory):
    return make_targets(tmp_path_factory.mktemp("fuzz"))


@pytest.mark.parametrize("name", TARGETS)
def test_seeds_are_accepted(targets, name):
    assert set(targets) == set(TARGETS)
    assert all(targets[name](seed) for seed in targets[name].seeds)


@pytest.mark.parametrize("name", TARGETS)
@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(seed=st.integers(0, 2**32), data=st.data())
def test_fuzz_every_reader(targets, name, seed, data):
    start = data.draw(st.sampled_from([*targets[name].seeds, b""]))
    targets[name](mutate(start, np.random.default_rng(seed)))


def test_the_fuzzer_counts_and_finds(tmp_path):
    code = (
        "import sys; import hencler.bench.fuzz as f; from pathlib import Path\n"
        "sys.modules['atheris'] = None\n"
        "t = f.Target(lambda d: 1 / (d[0] - 65), [b'AB', b'B'])\n"
        "f.make_targets = lambda _: {'x': t}\n"
        "f.fuzz('x', Path(sys.argv[1]), inputs=300, seconds=60)"
    )
    subprocess.run([sys.executable, "-c", code, str(tmp_path / "x.json")], check=True)
    result = json.loads((tmp_path / "x.json").read_text())
    assert result["engine"] == "blind"
    assert result["inputs"] == 300
    assert any("ZeroDivisionError" in finding for finding in result["findings"])


@pytest.mark.parametrize("text", ["", "{", "[]", "[" * 100_000, "\x00", '{"a":' + "9" * 5000 + "}"])
def test_damaged_summaries(put, tmp_path, text):
    put("run.json", text)
    with pytest.raises(FileFormatError):
        read_run(tmp_path)


def test_numbers_json_knows_and_models_do_not(tmp_path):
    graph = make_heterophilous_graph(30, 3, n_attributes=4, random_state=0)
    for preset in ("default", "paper"):
        options = {"preset": preset, "epochs": 1, "device": "cpu", "random_state": 0}
        HeNCler(3, **options).fit(graph).save(tmp_path)
        text = (tmp_path / "model.json").read_text()
        for number in ("NaN", "Infinity", "1e999", "-1e999", "9" * 400, "9" * 5000):
            for key in ("n_features_in", "n_clusters"):
                before, _, after = text.rpartition(f'"{key}": ')
                changed = f'{before}"{key}": {number}{after.lstrip("0123456789")}'
                (tmp_path / "model.json").write_text(changed)
                with pytest.raises(ModelFileError):
                    HeNCler.load(tmp_path, device="cpu")
