"""Counts of mutmut's last run, by module: ``python packaging/mutation.py FILE``.

Modules that the run did not touch keep the counts that FILE has of them, with their commit.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter, defaultdict
from importlib.metadata import version
from pathlib import Path
from typing import Any

from hencler.bench._record import environment, write_json

COUNTS = ("mutants", "checked", "killed")


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
    here = environment()
    before = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {"modules": {}}
    modules: dict[str, dict[str, Any]] = before["modules"]
    for module in modules.values():
        module.setdefault("commit", before["environment"]["commit"])
    for module, outcomes in counts().items():
        killed = outcomes["killed"] + outcomes["timeout"]
        checked = outcomes.total() - outcomes["not checked"]
        if checked:
            modules[module] = {
                "mutants": outcomes.total(),
                "checked": checked,
                "killed": killed,
                "killed_percent": round(100 * killed / checked, 1),
                "commit": here["commit"],
            }
    total = {name: sum(m[name] for m in modules.values()) for name in COUNTS}
    total["killed_percent"] = round(100 * total["killed"] / max(total["checked"], 1), 1)
    tool = f"mutmut {version('mutmut')}"
    result = {"modules": dict(sorted(modules.items())), "all": total, "tool": tool}
    write_json(file, {**result, "environment": here})
    print(json.dumps(result, indent=1))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
