"""Counts of mutmut's last run, by module: ``python packaging/mutation.py FILE``."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter, defaultdict
from pathlib import Path

from hencler.bench._record import environment, write_json


def counts() -> dict[str, Counter[str]]:
    """Mutants of each module by what became of them."""
    done = subprocess.run(
        [sys.executable, "-m", "mutmut", "results", "--all", "true"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    found: dict[str, Counter[str]] = defaultdict(Counter)
    for line in done.stdout.splitlines():
        name, _, outcome = line.strip().rpartition(": ")
        if "__mutmut_" in name:
            found[name.split(".x")[0].removesuffix(".")][outcome] += 1
    return found


def main(file: Path) -> None:
    result: dict[str, object] = {}
    for module, outcomes in sorted(counts().items()):
        killed = outcomes["killed"] + outcomes["timeout"]
        checked = outcomes.total() - outcomes["not checked"]
        result[module] = {
            "mutants": outcomes.total(),
            "checked": checked,
            "killed": killed,
            "killed_percent": round(100 * killed / max(checked, 1), 1),
        }
    write_json(file, {"modules": result, "environment": environment()})
    print(json.dumps(result, indent=1))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
