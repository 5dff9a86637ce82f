"""The rules with severity, source and messages (`rules.toml`), the finding value, reviews as SARIF 2.1.0."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any, Literal

from memory_service.domain.common.tables import shipped_table

Severity = Literal["error", "warning", "note"]

SEVERITIES: tuple[Severity, ...] = ("error", "warning", "note")  # the gravest first


@dataclass(frozen=True, slots=True)
class Rule:
    """`about`: what it looks for; `source`: a rule of the strategy tables; `says`: case -> message, fix."""

    id: str
    severity: Severity
    source: str
    about: str
    says: Mapping[str, tuple[str, str]]


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing to change. Lines and columns count from one; `fix` can be pasted."""

    rule: str
    severity: Severity
    line: int
    end_line: int
    column: int
    message: str
    fix: str
    source: str

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


_USUAL: dict[str, Any] = {"severity": "warning", "source": "R28", "says": {}}
_TABLE = shipped_table(__package__, "rules.toml")
RULES: Mapping[str, Rule] = {name: Rule(name, **_USUAL | about) for name, about in _TABLE.items()}

Place = ast.AST | int


def finding(
    rule: str, place: Place, case: str = "it", since: ast.AST | None = None, /, **values: Any
) -> Finding:
    """A finding at a node of the tree, or at a line; with `since` it begins at the head of that one.

    case, values   which message of the rule it is, and what stands in it and in its fix
    """
    message, fix = (text.format(**values) for text in RULES[rule].says[case])
    return told(rule, place, message, fix, since)


def told(rule: str, place: Place, message: str, fix: str, since: ast.AST | None = None) -> Finding:
    """A finding in words of its own."""
    known = RULES[rule]
    if isinstance(place, int):
        line, end, column = place, place, 1
    else:
        line = int(getattr(place, "lineno", 1))
        column = int(getattr(place, "col_offset", 0)) + 1
        end = line if isinstance(place, _BLOCKS) else int(getattr(place, "end_lineno", None) or line)
    if since is not None:
        line, column = int(getattr(since, "lineno", line)), int(getattr(since, "col_offset", 0)) + 1
    return Finding(rule, known.severity, line, max(line, end), column, message, fix, known.source)


wrong = partial(finding, "wrong-parameter")  # the library refuses, ignores or misreads it


def head_of(place: ast.AST) -> ast.AST:
    """A statement at the same place, without what the tree holds below."""
    head = ast.copy_location(ast.Pass(), place)
    if isinstance(place, _BLOCKS):
        head.end_lineno = head.lineno
    return head


_BLOCKS = (ast.For, ast.While, ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.With, ast.If)


def in_order(found: Iterable[Finding]) -> tuple[Finding, ...]:
    """By line; one finding a rule and line."""
    first = {(item.rule, item.line): item for item in reversed([*found])}
    return tuple(sorted(first.values(), key=lambda f: (f.line, SEVERITIES.index(f.severity), f.rule)))


SARIF_MEDIA_TYPE = "application/sarif+json"
_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"


def sarif(findings: Iterable[Mapping[str, Any]], filename: str, version: str) -> dict[str, Any]:
    """One run with every rule described and every finding as a result. `findings` as the answer has them."""
    order = list(RULES)
    rules = [
        {"id": rule.id, "shortDescription": {"text": rule.about}, "properties": {"source": rule.source}}
        | {"defaultConfiguration": {"level": rule.severity}}
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
