"""Is a pinned version known to be vulnerable?

    python -m checks.audit [--keep]       (`make audit`; `.ci/run` calls it)

Asks pip-audit about every version of constraints.txt. Where its data cannot be reached, which a mirror that
has packages but no advisories shows by skipping them all, it says so and reads the recorded list instead
(checks/advisories.json): a version below one that mended a known fault fails, and so does any that pip-audit
names; what nobody has audited is reported and fails nothing. `--keep` adds to the list what was found clean.
"""

from __future__ import annotations

import datetime as dt
import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from packaging.utils import canonicalize_name
from packaging.version import Version

__all__ = ["Found", "ask_pip_audit", "audit", "main", "pinned"]

ROOT = Path(__file__).resolve().parent.parent
RECORD = ROOT / "checks" / "advisories.json"
PATIENCE_SECONDS = 240

Asked = Callable[[Mapping[str, str]], list[dict[str, Any]] | None]


@dataclass
class Found:
    """vulnerable: sentences; clean: name -> version with live data behind it; unknown: `name==version`."""

    reached: bool
    vulnerable: list[str] = field(default_factory=list)
    clean: dict[str, str] = field(default_factory=dict)
    unknown: list[str] = field(default_factory=list)


def pinned(text: str) -> dict[str, str]:
    """Name, as registries write it -> version."""
    lines = (line.partition("#")[0].strip() for line in text.splitlines())
    pairs = (line.partition("==") for line in lines if "==" in line)
    return {canonicalize_name(name): version.strip() for name, _, version in pairs}


def ask_pip_audit(versions: Mapping[str, str]) -> list[dict[str, Any]] | None:
    """What it says of each, None where it could not be asked."""
    with tempfile.TemporaryDirectory() as folder:
        wanted = Path(folder) / "pinned.txt"
        wanted.write_text("\n".join(f"{name}=={version}" for name, version in versions.items()))
        options = [
            "--no-deps",
            "--disable-pip",
            "--format",
            "json",
            "--progress-spinner",
            "off",
            "--timeout",
            "10",
        ]
        command = [sys.executable, "-m", "pip_audit", "--requirement", str(wanted), *options]
        try:
            done = subprocess.run(
                command, capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=False
            )
            told: list[dict[str, Any]] = json.loads(done.stdout)["dependencies"]
        except (subprocess.TimeoutExpired, ValueError, KeyError):
            return None
    return told


def audit(versions: Mapping[str, str], record: Mapping[str, Any], ask: Asked = ask_pip_audit) -> Found:
    """By live data as far as there is any, else by the record."""
    told: dict[str, dict[str, Any]] = {canonicalize_name(each["name"]): each for each in ask(versions) or ()}
    found = Found(reached=any("vulns" in each for each in told.values()))
    for name, version in versions.items():
        live = told.get(name, {})
        if "vulns" in live:
            if not live["vulns"]:
                found.clean[name] = version
            for fault in live["vulns"]:
                mended = ", ".join(fault.get("fix_versions", ())) or "no version yet"
                found.vulnerable.append(f"{name} {version}: {fault['id']}, mended in {mended}")
            continue
        least, advisory = record["fixed_in"].get(name, ("0", ""))
        if Version(version) < Version(least):
            found.vulnerable.append(f"{name} {version}: {advisory}, mended in {least}")
        elif record["audited"].get(name, {}).get("version") != version:
            found.unknown.append(f"{name}=={version}")
    return found


def main(keep: bool = False) -> int:
    """0 = nothing known to be vulnerable is pinned. keep: write down what live data found clean."""
    versions = pinned((ROOT / "constraints.txt").read_text(encoding="utf-8"))
    record = json.loads(RECORD.read_text(encoding="utf-8"))
    found = audit(versions, record)
    if found.reached and keep:
        today = dt.datetime.now(dt.UTC).date().isoformat()
        kept = {name: {"version": version, "on": today} for name, version in sorted(found.clean.items())}
        RECORD.write_text(json.dumps({**record, "audited": kept}, indent=2) + "\n", encoding="utf-8")
    if not found.reached:
        print("REPORT: pip-audit's advisories cannot be reached from here: the recorded list was read.")
    if found.unknown:
        shown = ", ".join(found.unknown[:5]) + (" …" if len(found.unknown) > 5 else "")
        print(f"REPORT: {len(found.unknown)} of {len(versions)} pinned versions are in no audit yet: {shown}")
    for fault in found.vulnerable:
        print(f"VULNERABLE: {fault}")
    print(f"{len(versions)} pinned versions, {len(found.vulnerable)} known to be vulnerable.")
    return 1 if found.vulnerable else 0


if __name__ == "__main__":
    sys.exit(main(keep="--keep" in sys.argv))
