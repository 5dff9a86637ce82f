"""A review as SARIF 2.1.0, for code scanning."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from memory_service.review.findings import RULES

SARIF_MEDIA_TYPE = "application/sarif+json"
_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"


def sarif(findings: Iterable[Mapping[str, Any]], filename: str, version: str) -> dict[str, Any]:
    """One run with every rule described and every finding as a result. `findings` as the answer has them."""
    order = list(RULES)
    rules = [
        {
            "id": rule.id,
            "shortDescription": {"text": rule.about},
            "defaultConfiguration": {"level": rule.severity},
            "properties": {"source": rule.source},
        }
        for rule in RULES.values()
    ]
    run = {
        "tool": {"driver": {"name": "memory-service", "semanticVersion": version, "rules": rules}},
        "columnKind": "unicodeCodePoints",
        "results": [_result(found, filename, order) for found in findings],
    }
    return {"$schema": _SCHEMA, "version": "2.1.0", "runs": [run]}


def _result(found: Mapping[str, Any], filename: str, order: list[str]) -> dict[str, Any]:
    cell = f"cell {found['cell']}" if found.get("cell") else None
    logical = {"logicalLocations": [{"name": cell, "kind": "module"}]} if cell else {}
    region = {"startLine": found["line"], "startColumn": found["column"], "endLine": found["end_line"]}
    place = {"artifactLocation": {"uri": found.get("file") or filename}, "region": region}
    return {
        "ruleId": found["rule"],
        "ruleIndex": order.index(found["rule"]),
        "level": found["severity"],
        "message": {"text": f"{found['message']}\nFix: {found['fix']}"},
        "locations": [{"physicalLocation": place, **logical}],
    }
