"""What is the service made of? A CycloneDX document of every package that is installed with it.

    python -m checks.sbom         (`make sbom` writes docs/sbom.cdx.json)

The runtime dependencies of pyproject.toml and all of theirs, as this environment has them, with version and
licence. The same environment gives the same bytes: no time, no place.
"""

from __future__ import annotations

import json
import re
import tomllib
import uuid
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

__all__ = ["SBOM", "bill", "licence_of", "main", "runtime"]

ROOT = Path(__file__).resolve().parent.parent
SBOM = ROOT / "docs" / "sbom.cdx.json"
_LONGEST_NAME = 60
"""A longer `License` is the text of one, not its name."""


def runtime() -> list[str]:
    """The requirements of pyproject.toml, those of a server too; of tests and development left out."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    wanted = [*project["dependencies"], *extras["planner"], *extras["server"]]
    return [each for each in wanted if not each.startswith("memory-service[")]


def bill() -> dict[str, Any]:
    """The document."""
    from memory_service import __version__

    needs: dict[str, list[str]] = {}
    found: dict[str, Distribution] = {}
    own = _wanted(runtime(), set())
    pending = own
    while pending:
        name, extras = pending.pop()
        try:
            installed = distribution(name)
        except PackageNotFoundError:
            continue  # of another platform or Python
        found[name] = installed
        wanted = _wanted(installed.requires or (), extras)
        fresh = [each for each in wanted if each[0] not in needs.get(name, ())]
        needs.setdefault(name, []).extend(each[0] for each in fresh)
        pending += fresh
    components = [_component(name, found[name]) for name in sorted(found)]
    service = {
        "type": "application",
        "name": "memory-service",
        "version": __version__,
        "bom-ref": "memory-service",
    }
    graph = [
        {"ref": "memory-service", "dependsOn": _refs({name for name, _ in _wanted(runtime(), set())}, found)}
    ]
    graph += [
        {"ref": _ref(name, found[name]), "dependsOn": _refs(set(needs[name]), found)}
        for name in sorted(found)
    ]
    body = {
        "metadata": {"component": {**service, "licenses": [{"expression": "Apache-2.0"}]}},
        "components": components,
        "dependencies": graph,
    }
    serial = uuid.uuid5(uuid.NAMESPACE_URL, json.dumps(body, sort_keys=True))
    head = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{serial}",
        "version": 1,
    }
    return {**head, **body}


def licence_of(installed: Distribution) -> str:
    """The expression or name that the package states; "unknown" where it states none."""
    told = installed.metadata
    stated = told["License-Expression"] or told["License"] or ""
    if 0 < len(stated) <= _LONGEST_NAME and "\n" not in stated and stated != "UNKNOWN":
        return str(stated)
    named = [
        each.rpartition(" :: ")[2] for each in told.get_all("Classifier", []) if each.startswith("License ::")
    ]
    first = next((line.strip() for line in stated.splitlines() if line.strip()), "")
    return " AND ".join(named) or first[:_LONGEST_NAME] or "unknown"


def _wanted(requirements: Any, extras: set[str]) -> list[tuple[str, set[str]]]:
    out = []
    for text in requirements:
        need = Requirement(text)
        if need.marker is None or any(need.marker.evaluate({"extra": extra}) for extra in ("", *extras)):
            out.append((str(canonicalize_name(need.name)), set(need.extras)))
    return out


def _component(name: str, installed: Distribution) -> dict[str, Any]:
    stated = licence_of(installed)
    simple = re.fullmatch(r"[A-Za-z0-9.+-]+( (AND|OR|WITH) [A-Za-z0-9.+-]+)*", stated) is not None
    told = (
        {"expression": stated}
        if installed.metadata["License-Expression"] and simple
        else {"license": {"name": stated}}
    )
    ref = _ref(name, installed)
    return {
        "type": "library",
        "name": name,
        "version": installed.version,
        "bom-ref": ref,
        "purl": ref,
        "licenses": [told],
    }


def _ref(name: str, installed: Distribution) -> str:
    return f"pkg:pypi/{name}@{installed.version}"


def _refs(names: set[str], found: dict[str, Distribution]) -> list[str]:
    return [_ref(name, found[name]) for name in sorted(names) if name in found]


def main() -> None:
    """Write the file."""
    SBOM.write_text(json.dumps(bill(), indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
