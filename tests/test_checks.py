"""Does the audit of dependencies fail for what is known, and does the bill of materials name all of them?"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path
from typing import Any

import pytest
from packaging.utils import canonicalize_name

from checks.audit import RECORD, ROOT, ask_pip_audit, audit, digest, pinned
from checks.imports import faults, imports_of, sources
from checks.sbom import SBOM, runtime

VERSIONS = {"jinja2": "3.1.6", "starlette": "1.10.0"}
RECORDED: dict[str, Any] = {
    "fixed_in": {"jinja2": ["3.1.6", "CVE-2025-27516"]},
    "audited": {},
    "reviewed": {"pins_sha256": "", "on": "", "with": ""},
}


def test_without_live_data_what_the_record_knows_fails_and_what_nobody_audited_is_named():
    found = audit(VERSIONS, RECORDED, lambda _: None)
    assert not found.reached
    assert not found.vulnerable
    assert found.unknown == ["jinja2==3.1.6", "starlette==1.10.0"]
    old = audit({"jinja2": "3.1.2"}, RECORDED, lambda _: None)
    assert old.vulnerable == ["jinja2 3.1.2: CVE-2025-27516, mended in 3.1.6"]
    before = {**RECORDED, "audited": {"starlette": {"version": "1.10.0", "on": "2026-11-21"}}}
    assert audit(VERSIONS, before, lambda _: None).unknown == ["jinja2==3.1.6"]


def test_without_live_data_only_the_pins_that_were_reviewed_pass():
    reviewed = {**RECORDED, "reviewed": {"pins_sha256": digest(VERSIONS)}}
    assert not audit(VERSIONS, RECORDED, lambda _: None).passes
    assert audit(VERSIONS, reviewed, lambda _: None).passes
    assert audit(dict(reversed(VERSIONS.items())), reviewed, lambda _: None).passes
    assert not audit({**VERSIONS, "starlette": "1.10.1"}, reviewed, lambda _: None).passes
    assert not audit({**VERSIONS, "six": "1.17.0"}, reviewed, lambda _: None).passes
    old = {"jinja2": "3.1.2"}
    known = {**RECORDED, "reviewed": {"pins_sha256": digest(old)}}
    assert not audit(old, known, lambda _: None).passes, "a review excuses no known fault"
    before = {name: {"version": version, "on": "2026-11-21"} for name, version in VERSIONS.items()}
    assert audit(VERSIONS, {**RECORDED, "audited": before}, lambda _: None).passes


def test_a_mirror_that_skips_every_package_counts_as_not_reached():
    skipped: list[dict[str, Any]] = [{"name": name, "skip_reason": "not found"} for name in VERSIONS]
    found = audit({**VERSIONS, "jinja2": "3.1.2"}, RECORDED, lambda _: skipped)
    assert not found.reached
    assert len(found.vulnerable) == 1


def test_live_data_fails_the_build_for_what_it_names_and_goes_before_the_record():
    live: list[dict[str, Any]] = [
        {"name": "Jinja2", "version": "3.1.6", "vulns": []},
        {"name": "starlette", "vulns": [{"id": "PYSEC-1", "fix_versions": ["1.11.0"]}]},
    ]
    found = audit(VERSIONS, RECORDED, lambda _: live)
    assert found.reached
    assert found.clean == {"jinja2": "3.1.6"}
    assert found.vulnerable == ["starlette 1.10.0: PYSEC-1, mended in 1.11.0"]


def test_a_tool_that_cannot_be_run_is_no_failure(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(sys, "executable", "/bin/false")
    assert ask_pip_audit(VERSIONS) is None


def test_the_pinned_versions_are_above_every_recorded_fault():
    versions = pinned((ROOT / "constraints.txt").read_text(encoding="utf-8"))
    record = json.loads(RECORD.read_text(encoding="utf-8"))
    assert len(versions) > 100
    found = audit(versions, record, lambda _: None)
    assert found.vulnerable == []
    assert found.passes, "renew checks/advisories.json, then python -m checks.audit --reviewed"


def test_the_hashes_are_of_the_pinned_versions_and_name_no_host():
    versions = pinned((ROOT / "constraints.txt").read_text(encoding="utf-8"))
    text = (ROOT / "constraints-hashes.txt").read_text(encoding="utf-8")
    assert "://" not in text
    hashed: dict[str, str] = dict(re.findall(r"^(\S+?)==(.+(?:\n    .+)+)", text, re.MULTILINE))
    found = {str(canonicalize_name(name)): re.split(r"[ ;\\]", line)[0] for name, line in hashed.items()}
    assert {name: found.get(name) for name in versions} == versions, "run make hashes"
    for name, line in hashed.items():
        digests = re.findall(r"--hash=sha256:[0-9a-f]{64}", line)
        assert digests, name
        assert line.count("--hash=") == len(digests), name


def test_the_bill_of_materials_names_every_pinned_runtime_dependency_with_version_and_licence():
    versions = pinned((ROOT / "constraints.txt").read_text(encoding="utf-8"))
    document = json.loads(SBOM.read_text(encoding="utf-8"))
    assert (document["bomFormat"], document["specVersion"]) == ("CycloneDX", "1.6")
    named = {component["name"]: component for component in document["components"]}
    direct = {re.split(r"[\[><=; ]", need)[0].lower().replace("_", "-") for need in runtime()}
    assert direct <= named.keys(), "run make sbom"
    for name, component in named.items():
        assert component["version"] == versions[name], f"{name}: run make sbom"
        (licence,) = component["licenses"]
        assert licence.get("expression") or licence["license"]["name"], name
        assert component["purl"] == f"pkg:pypi/{name}@{component['version']}"
    refs = {component["bom-ref"] for component in named.values()} | {"memory-service"}
    assert {each["ref"] for each in document["dependencies"]} == refs
    assert refs >= {ref for each in document["dependencies"] for ref in each["dependsOn"]}


def test_the_bill_of_materials_is_the_same_each_time(tmp_path: Path):
    """In two processes, whose sets are in another order."""
    code = "import json; from checks.sbom import bill; print(json.dumps(bill()))"
    told = [
        subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, check=True).stdout
        for _ in range(2)
    ]
    assert told[0] == told[1]


PROJECT: dict[str, Any] = {
    "name": "memory-service",
    "dependencies": ["rich>=15"],
    "optional-dependencies": {
        "planner": ["numpy"],
        "server": ["memory-service[planner]", "torch"],
        "otel": ["opentelemetry-api"],
        "test": ["memory-service[server]", "pandas"],
    },
}
OWNERS = {"opentelemetry": ["opentelemetry-api"]}


@pytest.mark.parametrize(
    ("module", "text", "missing"),
    [
        ("cli.ask", "import rich\nimport os.path", None),
        ("cli.ask", "import numpy as np", "numpy, which pyproject.toml does not require for the light"),
        ("cli.ask", "def ask():\n    import numpy", None),
        ("cli.ask", "def ask():\n    import platformdirs", "platformdirs, which .* for any extra"),
        ("cli.ask", "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import torch", None),
        ("cli.ask", "from memory_service.store import rows", r"store.rows imports numpy, .* for the light"),
        ("settings", "import platformdirs", r"platformdirs, .* for \[planner\]"),
        (
            "settings",
            "try:\n    from torch import nn\nexcept ImportError:\n    pass",
            r"torch, .* \[planner\]",
        ),
        ("settings", "def f():\n    import opentelemetry.trace", None),
        ("settings", "def f():\n    import pandas", "pandas, .* for any extra"),
        ("measure.trace", "import torch", None),
        ("measure.trace", "import timm", r"timm, .* for \[server\]"),
        ("client.boosting", "import importlib\nimportlib.import_module('xgboost')", None),
        ("client.boosting", "import importlib\nimportlib.import_module('shap')", "shap, .*"),
    ],
)
def test_an_import_that_its_installation_need_not_have_is_named(module: str, text: str, missing: str | None):
    modules = {
        "memory_service": "",
        "memory_service.store.rows": "import numpy",
        f"memory_service.{module}": text,
    }
    found = faults(modules, PROJECT, OWNERS)
    assert bool(found) == (missing is not None), found
    assert missing is None or re.search(f"imports {missing}|{missing}", found[0])


def test_every_import_of_the_package_is_declared():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    modules = sources()
    assert {"memory_service.settings", "memory_service.cli.serve"} <= modules.keys()
    assert "platformdirs" in {one.module for one in imports_of(modules["memory_service.settings"])}
    assert faults(modules, project, packages_distributions()) == []
    extras = project["optional-dependencies"]
    extras["planner"] = [each for each in extras["planner"] if not each.startswith("platformdirs")]
    assert "settings imports platformdirs" in faults(modules, project, packages_distributions())[0]
