"""Is a pinned version known to be vulnerable?

    python -m checks.audit [--keep | --reviewed]       (`make audit`; `.ci/run` calls it)

Asks pip-audit about every version of constraints.txt, and fails for what it names. Where its data cannot be
reached, which a mirror that has packages but no advisories shows by skipping them all, checks/advisories.json
is read instead: a version below one that mended a known fault fails, and so do pins that nobody compared with
that list (`reviewed`: the digest of the pins, when, and what they were compared with). Without data and
without a review of these very pins nothing was checked: that fails, too.

    --keep      write down what live data found clean
    --reviewed  write down that somebody renewed the list by hand and compared these pins with it
"""

from __future__ import annotations

import datetime as dt
import hashlib
import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from packaging.utils import canonicalize_name
from packaging.version import Version

__all__ = ["Found", "ask_pip_audit", "audit", "digest", "main", "pinned"]

ROOT = Path(__file__).resolve().parent.parent
RECORD = ROOT / "checks" / "advisories.json"
PATIENCE_SECONDS = 240

Asked = Callable[[Mapping[str, str]], list[dict[str, Any]] | None]


@dataclass
class Found:
    """vulnerable: sentences; clean: name -> version with live data behind it; unknown: `name==version`;
    reviewed: these very pins were compared with the recorded list by hand."""

    reached: bool
    reviewed: bool = False
    vulnerable: list[str] = field(default_factory=list)
    clean: dict[str, str] = field(default_factory=dict)
    unknown: list[str] = field(default_factory=list)

    @property
    def passes(self) -> bool:
        """Whether anything was checked, and nothing found."""
        return (self.reached or self.reviewed or not self.unknown) and not self.vulnerable


def pinned(text: str) -> dict[str, str]:
    """Name, as registries write it -> version."""
    lines = (line.partition("#")[0].strip() for line in text.splitlines())
    pairs = (line.partition("==") for line in lines if "==" in line)
    return {canonicalize_name(name): version.strip() for name, _, version in pairs}


def digest(versions: Mapping[str, str]) -> str:
    """Of the pins, in whatever order they stand."""
    lines = sorted(f"{name}=={version}\n" for name, version in versions.items())
    return hashlib.sha256("".join(lines).encode()).hexdigest()


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
    found.reviewed = record["reviewed"].get("pins_sha256") == digest(versions)
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


def write(record: Mapping[str, Any]) -> None:
    """A line for each advisory."""
    text = re.sub(r"\[\s+(\S+)\s+(\S+)\s+\]", r"[\1 \2]", json.dumps(record, indent=2))
    RECORD.write_text(text + "\n", encoding="utf-8")


def main(keep: bool = False, reviewed: bool = False) -> int:
    """0 = the pins were checked, and none is known to be vulnerable. keep: write down what live data found
    clean; reviewed: that these pins were compared with the list by hand."""
    versions = pinned((ROOT / "constraints.txt").read_text(encoding="utf-8"))
    record = json.loads(RECORD.read_text(encoding="utf-8"))
    today = dt.datetime.now(dt.UTC).date().isoformat()
    if reviewed:
        record["reviewed"] |= {"pins_sha256": digest(versions), "on": today}
        write(record)
    found = audit(versions, record)
    if found.reached and keep:
        kept = {name: {"version": version, "on": today} for name, version in sorted(found.clean.items())}
        write({**record, "audited": kept})
    if not found.reached:
        known, of = len(record["fixed_in"].keys() & versions.keys()), record["reviewed"]
        print(
            "REPORT: pip-audit's advisories cannot be reached from here. Compared with the recorded list, "
            f"which knows {known} of {len(versions)} packages, by hand on {of['on']} with {of['with']}."
        )
    if not found.passes and not found.vulnerable:
        print(
            "FAILED: nothing was checked, and these pins are not those that were reviewed. Run this where the"
            " advisories can be reached, or renew checks/advisories.json by hand and run it with --reviewed."
        )
    if found.unknown:
        shown = ", ".join(found.unknown[:5]) + (" …" if len(found.unknown) > 5 else "")
        print(f"REPORT: {len(found.unknown)} of {len(versions)} pinned versions are in no audit yet: {shown}")
    for fault in found.vulnerable:
        print(f"VULNERABLE: {fault}")
    print(f"{len(versions)} pinned versions, {len(found.vulnerable)} known to be vulnerable.")
    return 0 if found.passes else 1


if __name__ == "__main__":
    sys.exit(main(keep="--keep" in sys.argv, reviewed="--reviewed" in sys.argv))
