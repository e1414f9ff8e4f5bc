"""What a run of the tests said, as a results file.

``python packaging/outcome.py coverage REPORT FILE`` from the JSON of coverage, ``... tests REPORT
FILE PINS`` from the JUnit XML of pytest, with the versions of what is pinned in PINS.
"""

from __future__ import annotations

import json
import sys
import xml.etree.ElementTree as ET
from importlib.metadata import version
from pathlib import Path
from typing import Any

from hencler.bench._record import environment, write_json


def coverage(report: Path) -> dict[str, Any]:
    """Lines and how many of them were run, in all and by file."""
    found = json.loads(report.read_text(encoding="utf-8"))
    totals = found["totals"]
    return {
        "lines": totals["num_statements"],
        "covered": totals["covered_lines"],
        "percent": round(totals["percent_covered"], 2),
        "omitted": "src/hencler/bench",
        "files": {
            name: round(one["summary"]["percent_covered"], 1)
            for name, one in sorted(found["files"].items())
        },
    }


def tests(report: Path, pins: Path) -> dict[str, Any]:
    """Counts of a run, the names of what failed, and the versions that were installed."""
    (suite,) = ET.parse(report).getroot().iter("testsuite")
    counts = {name: int(suite.get(name, 0)) for name in ("tests", "failures", "errors", "skipped")}
    lines = (line.partition("==") for line in pins.read_text(encoding="utf-8").splitlines())
    return {
        "passed": counts["tests"] - sum(counts[n] for n in ("failures", "errors", "skipped")),
        **{name: counts[name] for name in ("failures", "errors", "skipped")},
        "failed": [
            f"{case.get('classname')}::{case.get('name')}"
            for case in suite.iter("testcase")
            if case.find("failure") is not None or case.find("error") is not None
        ],
        "seconds": round(float(suite.get("time", 0)), 1),
        "pinned": {name: version(name) for name, is_pin, _ in lines if is_pin},
    }


def main(kind: str, report: str, file: str, *pins: str) -> int:
    """Write the file; 1 if a test failed."""
    result = coverage(Path(report)) if kind == "coverage" else tests(Path(report), Path(*pins))
    write_json(file, {**result, "environment": environment()})
    print(json.dumps({k: v for k, v in result.items() if not isinstance(v, dict)}))
    return 1 if result.get("failed") else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
