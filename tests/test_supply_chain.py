"""Every dependency is pinned, every floor is one that is tested, every licence is listed."""

import importlib.util
import json
import re
import subprocess
import sys
import tomllib
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

import numpy as np
import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())


def script(name):
    """A file of the folder packaging, as a module."""
    spec = importlib.util.spec_from_file_location(name, ROOT / "packaging" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def canonical(name):
    return re.sub(r"[-_.]+", "-", name).lower()


def pins(file):
    lines = [line for line in (ROOT / file).read_text().splitlines() if line[:1] != "#"]
    return {canonical(name): version for name, version in (line.split("==") for line in lines)}


def requirements():
    extras = PROJECT["project"]["optional-dependencies"]
    texts = PROJECT["project"]["dependencies"] + [
        text for group in extras.values() for text in group
    ]
    texts += PROJECT["build-system"]["requires"]
    return [r for r in map(Requirement, texts) if r.name != "hencler"]


def test_everything_is_pinned_exactly():
    pinned = pins("constraints.txt")
    for requirement in requirements():
        version = pinned[canonical(requirement.name)]
        assert version in requirement.specifier, requirement


def test_the_lowest_versions_are_the_floors():
    lowest = pins("constraints-lowest.txt")
    tested = {"dependencies": PROJECT["project"]["dependencies"]}
    extras = PROJECT["project"]["optional-dependencies"]
    tested |= {k: extras[k] for k in ("pyg", "networkx", "parquet", "plot", "report", "test")}
    for requirement in (Requirement(text) for group in tested.values() for text in group):
        if requirement.name != "hencler":
            (floor,) = requirement.specifier
            version = lowest[canonical(requirement.name)]
            assert re.sub(r"(\.0)+$", "", version) == re.sub(r"(\.0)+$", "", floor.version)


def test_the_bill_of_materials_names_the_core(tmp_path):
    try:
        distribution("hencler")
    except PackageNotFoundError:
        pytest.skip("the package is not installed, only on the path")
    file = tmp_path / "sbom.json"
    script = ROOT / "packaging" / "supply_chain.py"
    done = subprocess.run(
        [sys.executable, str(script), "sbom", str(file)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    bom = json.loads(file.read_text())
    names = {component["name"] for component in bom["components"]}
    core = {canonical(Requirement(text).name) for text in PROJECT["project"]["dependencies"]}
    assert core <= names
    references = {component["bom-ref"] for component in bom["components"]}
    for entry in bom["dependencies"]:
        assert set(entry["dependsOn"]) <= references


def test_the_licences_of_the_core_are_listed():
    page = (ROOT / "docs" / "licences.md").read_text()
    for text in PROJECT["project"]["dependencies"]:
        assert f"| **{canonical(Requirement(text).name)}** |" in page
    assert "unknown" not in page


def looked_up(name, *ids):
    return {"name": name, "version": "1", "vulns": [{"id": i} for i in ids]}


@pytest.mark.parametrize(
    ("answers", "status", "said"),
    [
        ([None, None], 2, "not done"),
        ([[looked_up("a"), {"name": "b", "skip_reason": "?"}], None], 2, "1 of 2 packages"),
        ([None, [looked_up("a"), looked_up("b")]], 0, "none known in 2 packages"),
        ([[looked_up("a", "CVE-1", "CVE-2")]], 1, "a 1: CVE-1, CVE-2"),
    ],
)
def test_an_audit_that_could_not_ask_is_no_clean_one(monkeypatch, capsys, answers, status, said):
    audit, left = script("audit"), iter(answers)
    monkeypatch.setattr(audit, "ask", lambda service, pins: next(left))
    assert audit.main("constraints.txt") == status
    text = capsys.readouterr()
    assert said in text.out + text.err


def test_outcome_of_tests(tmp_path):
    (tmp_path / "pins.txt").write_text("# none\nnumpy==0\n")
    (tmp_path / "tests.xml").write_text(
        "<testsuites><testsuite tests='4' failures='1' errors='0' skipped='1' time='1.26'>"
        "<testcase classname='a' name='b'><failure/></testcase><testcase classname='a' name='c'/>"
        "</testsuite></testsuites>"
    )
    files = [str(tmp_path / name) for name in ("tests.xml", "out.json", "pins.txt")]
    assert script("outcome").main("tests", *files) == 1
    result = json.loads((tmp_path / "out.json").read_text())
    assert (result["passed"], result["failures"], result["skipped"]) == (2, 1, 1)
    assert result["failed"] == ["a::b"]
    assert result["pinned"] == {"numpy": np.__version__}
    assert result["environment"]["python"]


def test_outcome_of_coverage(tmp_path):
    files = {"a.py": {"summary": {"percent_covered": 66.666}}}
    totals = {"num_statements": 3, "covered_lines": 2, "percent_covered": 66.666}
    (tmp_path / "c.json").write_text(json.dumps({"totals": totals, "files": files}))
    script("outcome").main("coverage", str(tmp_path / "c.json"), str(tmp_path / "out.json"))
    result = json.loads((tmp_path / "out.json").read_text())
    assert (result["lines"], result["covered"], result["percent"]) == (3, 2, 66.67)
    assert result["files"] == {"a.py": 66.7}
