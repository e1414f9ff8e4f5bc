"""What the package stands on: a bill of materials and a list of licences.

``python packaging/supply_chain.py sbom FILE`` writes CycloneDX JSON of the core dependencies and
all that they need in turn, as installed here. ``... licences FILE`` writes the Markdown page.
"""

from __future__ import annotations

import json
import re
import sys
import tomllib
import uuid
from collections.abc import Iterator
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path

from packaging.markers import default_environment
from packaging.requirements import Requirement

ROOT = "hencler"
HERE = Path(__file__).parents[1]
HEAD = """# Licences of the core dependencies

What `pip install hencler` installs, directly (**bold**) or through another package, on Linux with
the versions of `constraints.txt`. Written by `make licences` from the packages' own metadata.

| package | version | licence |
| --- | --- | --- |
"""


def needs(name: str) -> Iterator[str]:
    """Names of the packages that one needs here, without extras.

    Those of the root are read from its project file: an editable install may be older.
    """
    if name == ROOT:
        project = tomllib.loads((HERE / "pyproject.toml").read_text(encoding="utf-8"))
        texts = project["project"]["dependencies"]
    else:
        texts = distribution(name).requires or []
    for text in texts:
        requirement = Requirement(text)
        environment = {**default_environment(), "extra": ""}
        if requirement.marker is None or requirement.marker.evaluate(environment):
            yield canonical(requirement.name)


def canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def closure() -> dict[str, tuple[Distribution, list[str]]]:
    """All packages below the root, with what each of them needs."""
    found: dict[str, tuple[Distribution, list[str]]] = {}
    todo = [ROOT]
    while todo:
        name = todo.pop()
        if name in found:
            continue
        try:
            below = sorted(set(needs(name)))
            found[name] = distribution(name), below
        except PackageNotFoundError:
            continue  # for another platform
        todo += below
    return found


def licence(package: Distribution) -> str:
    """As the package says it: an SPDX expression, a classifier, or the first words of a text."""
    meta = package.metadata
    if expression := meta.get("License-Expression"):
        return expression
    classifiers = [
        line.rpartition(" :: ")[2]
        for line in meta.get_all("Classifier") or ()
        if line.startswith("License ::") and not line.endswith("OSI Approved")
    ]
    text = (meta.get("License") or "").strip().splitlines()
    return ", ".join(classifiers) or (text[0][:60] if text else "unknown")


def sbom() -> dict[str, object]:
    """CycloneDX 1.6, reproducible: the serial number is a digest of the contents."""
    packages = closure()
    references = {n: f"pkg:pypi/{n}@{p.version.split('+')[0]}" for n, (p, _) in packages.items()}
    components = [
        {
            "type": "library",
            "bom-ref": references[name],
            "name": name,
            "version": package.version,
            "purl": references[name],
            "licenses": [{"license": {"name": licence(package)}}],
        }
        for name, (package, _) in sorted(packages.items())
    ]
    dependencies = [
        {
            "ref": references[name],
            "dependsOn": sorted(references[n] for n in below if n in references),
        }
        for name, (_, below) in sorted(packages.items())
    ]
    serial = uuid.uuid5(uuid.NAMESPACE_URL, json.dumps([components, dependencies]))
    (root,) = (c for c in components if c["name"] == ROOT)
    return {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{serial}",
        "version": 1,
        "metadata": {"component": root},
        "components": [c for c in components if c is not root],
        "dependencies": dependencies,
    }


def licences() -> str:
    packages = closure()
    direct = packages[ROOT][1]
    rows = [
        f"| {f'**{name}**' if name in direct else name} | {package.version.split('+')[0]} | "
        f"{licence(package)} |"
        for name, (package, _) in sorted(packages.items())
        if name != ROOT
    ]
    return HEAD + "\n".join(rows) + "\n"


if __name__ == "__main__":
    kind, file = sys.argv[1:]
    text = licences() if kind == "licences" else json.dumps(sbom(), indent=1) + "\n"
    Path(file).parent.mkdir(parents=True, exist_ok=True)
    Path(file).write_text(text, encoding="utf-8")
