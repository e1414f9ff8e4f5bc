"""Every dependency is pinned, every floor is one that is tested, every licence is listed."""

import json
import re
import subprocess
import sys
import tomllib
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())


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
