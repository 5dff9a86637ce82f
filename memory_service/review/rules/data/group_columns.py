"""Columns that name groups of rows (patients, speakers, users), and the words that say so."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from memory_service.review.constants.values import Values
from memory_service.review.facts import Facts
from memory_service.review.interpretation.vocabulary import TARGET_COLUMN
from memory_service.review.source.comments import columns_listed, prose_of, several_each
from memory_service.review.source.nodes import entries_of, is_call, last_name, receiver

_GROUP_COLUMN = re.compile(
    r"^(patient|subject|speaker|participant|actor|student|user|customer|session|player|author|client|person|"
    r"driver|recording|animal|study|group|site|household|device|well|scene|video|clip|essay_prompt|prompt|"
    r"case|family|owner|store|shop|individual|slide|specimen|donor|recorder|microphone|observer|plot|site|"
    r"plate|household|lesion|eye|mouse|farm|station|sensor|machine|engine|vehicle|artist|singer|song|album|"
    r"document|article|writer|reader|school|teacher|company|merchant|trip|flight|worker|rater|child|infant|"
    r"dog|cow|plant|tree|hospital|village|ship|vessel|camera|room)(_?(id|no|nr|num|name|code|uid|key))?s?$",
    re.IGNORECASE,
)
_GROUPS = ("groups", "group", "group_ids", "patients", "subjects", "speakers")
_ONE_EACH = re.compile(
    r"\b(one|single|1)\s+[\w-]+\s+(per|for each|for every|of each)\s+(patient|subject|"
    r"speaker|participant|donor)"
)
_PERSON = re.compile(r"^(patient|subject|speaker|participant|donor|actor)_?(id|no|nr|uid|key)s?$")
_OWN_NAME = re.compile(
    r"(^|_)(path|file|filename|filepath|image|img|slice|scan|wav|clip|recording|patch|tile)s?(_|$)|_uid$|"
    r"^(study|exam|visit|session|series|sample|segment|utterance|note|encounter)_?(id|no|nr)$"
)


def group_column(facts: Facts) -> str:
    """A column that names groups, with evidence that a group has several rows."""
    evidence = (_counted_columns, _named_columns, _parsed_columns, _documented_columns, _noted_columns)
    return next((column for found in evidence for column in found(facts)), "")


def _counted_columns(facts: Facts) -> Iterator[str]:
    """Rows are grouped or counted by it."""
    script, values, walk = facts.script, facts.values, facts.walk
    divided = {root for one in walk.divisions for rows in one.contents.rows for root in rows.line()}
    for call in script.called("groupby"):
        grouped = {root for rows in walk.grouped.get(call, ()) for root in rows.line()}
        if divided and grouped and not divided & grouped:
            continue  # of another table, which is joined
        by = values.one(values.argument(call, "by", 0))
        for name in by if isinstance(by, list) else [by]:
            if isinstance(name, str) and _GROUP_COLUMN.match(name):
                yield name
    for call in script.called("nunique", "value_counts", "duplicated"):
        base = receiver(call) or call
        column = base.attr if isinstance(base, ast.Attribute) else column_of(facts.values, base)
        reported = last_name(call.func) != "nunique" or _is_reported(facts, call)
        if column and _GROUP_COLUMN.match(column) and reported:
            yield column


def _is_reported(facts: Facts, call: ast.Call) -> bool:
    """Printed, logged or asserted: the author knows of groups. A count for an embedding tells nothing."""
    for up in facts.script.above(call):
        if isinstance(up, ast.Assert | ast.JoinedStr | ast.Compare):
            return True
        if isinstance(up, ast.Call) and last_name(up.func) in ("print", "info", "debug", "warning", "log"):
            return True
        if isinstance(up, ast.stmt):
            return isinstance(up, ast.Expr)
    return False


def _named_columns(facts: Facts) -> Iterator[str]:
    """It is assigned to a name that says so."""
    for node in facts.script.all(ast.Assign):
        if any(last_name(target).lower() in _GROUPS for target in node.targets):
            yield from (c for n in ast.walk(node.value) if (c := column_of(facts.values, n)))


def _parsed_columns(facts: Facts) -> Iterator[str]:
    """It is cut out of the names of files: `df["patient"] = df["path"].str.split("_").str[0]`."""
    for node in facts.script.all(ast.Assign):
        for target in node.targets:
            column = column_of(facts.values, target) if isinstance(target, ast.Subscript) else None
            if column and _GROUP_COLUMN.match(column) and _cut_from_file(node.value):
                yield column
    entries = (entry for item in facts.script.all(ast.Dict) for entry in entries_of(item))
    yield from (name for name, value in entries if _GROUP_COLUMN.match(name) and _cut_from_file(value))


def _cut_from_file(node: ast.AST) -> bool:
    text = ast.dump(node)[:4000]
    cut = re.search(r"'(split|rsplit|extract|parent|stem|match|search|slice|partition)'", text)
    file = re.search(r"'\w*(path|file|filename|image|img|wav|audio|clip|stem|name|_id|id)s?'", text)
    return bool(cut and file)


def _documented_columns(facts: Facts) -> Iterator[str]:
    """A comment or a docstring tells of several rows each."""
    known = list(dict.fromkeys(_columns_mentioned(facts)))
    for word in several_each(prose_of(facts.script)):
        yield from (c for c in known if _GROUP_COLUMN.match(c) and c.lower().startswith(word))


def _columns_mentioned(facts: Facts) -> Iterator[str]:
    """Names that may be columns: texts, `df.patient`, and what is written beside the name of a table."""
    yield from facts.script.strings
    yield from (name for _, names in _noted(facts) for name in names)
    yield from columns_listed(prose_of(facts.script))
    for node in facts.script.all(ast.Attribute):
        if isinstance(node.value, ast.Name) and node.value.id not in facts.script.imports:
            yield node.attr


def _noted(facts: Facts) -> Iterator[tuple[ast.Call, list[str]]]:
    """Tables that are read, with the columns that a comment beside them names."""
    for call in facts.script.calls:
        if last_name(call.func).startswith(("read_", "scan_")):
            names = re.findall(r"[a-z]\w+", facts.script.comment_near(call.lineno).lower())
            if names:
                yield call, names


def _noted_columns(facts: Facts) -> Iterator[str]:
    """A comment names the columns of a table: each row has a file or number of its own beside its patient."""
    if _ONE_EACH.search(facts.script.text):
        return
    for _, names in _noted(facts):
        for name in names:
            if _PERSON.match(name) and any(_OWN_NAME.search(n) for n in names if n != name):
                yield name


def column_of(values: Values, node: ast.AST) -> str | None:
    """`df["a"]`, `df.loc[:, "a"]`, `df.pop("a")` -> "a"."""
    if isinstance(node, ast.Subscript):
        inner = node.slice
        if isinstance(inner, ast.Tuple) and len(inner.elts) == 2:
            inner = inner.elts[1]
        return values.text(inner)
    if is_call(node, "pop") and node.args and receiver(node) is not None:
        return values.text(node.args[0])
    named = isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name)
    named = named and bool(TARGET_COLUMN.match(last_name(node)))
    return last_name(node) if named and not isinstance(values.one(node), str) else None
