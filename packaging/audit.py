"""Known vulnerabilities of everything that is pinned: ``python packaging/audit.py PINS``.

pip-audit by itself ends well where it could not ask about a package; here every pin must have
been looked up. PyPI's service is asked first, then that of the Open Source Vulnerabilities.
"""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

SERVICES = ("pypi", "osv")


def ask(service: str, pins: str) -> list[dict[str, Any]] | None:
    """What a service says of every pin, or None if it cannot be reached."""
    done = subprocess.run(
        [sys.executable, "-m", "pip_audit", "--vulnerability-service", service, "--format", "json",
         "--progress-spinner", "off", "--no-deps", "--disable-pip", "--requirement", pins],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    try:
        return list(json.loads(done.stdout)["dependencies"])
    except (ValueError, KeyError, TypeError):
        return None


def verdict(answer: list[dict[str, Any]] | None) -> tuple[bool, str]:
    """Whether every pin was looked up and none is vulnerable, and a line that says so."""
    if answer is None:
        return False, "the service cannot be reached"
    skipped = [one["name"] for one in answer if "skip_reason" in one]
    if skipped:
        return False, f"could not be asked about {len(skipped)} of {len(answer)} packages"
    found = [
        f"{one['name']} {one['version']}: {', '.join(v['id'] for v in one['vulns'])}"
        for one in answer
        if one["vulns"]
    ]
    return not found, "; ".join(found) or f"none known in {len(answer)} packages"


def main(pins: str) -> int:
    for service in SERVICES:
        answer = ask(service, pins)
        clean, line = verdict(answer)
        print(f"{service}: {line}")
        if clean or (answer and any(one.get("vulns") for one in answer)):
            return 0 if clean else 1
    print(
        "audit: not done, no service answered for every package. It needs the network; run it "
        "before a release, where there is one",
        file=sys.stderr,
    )
    return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
