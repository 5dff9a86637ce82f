"""Classes listed in two orders, categories numbered anew for rows of prediction: labels-reencoded."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import partial

from memory_service.review.facts import Facts
from memory_service.review.findings import Finding, finding
from memory_service.review.interpretation.state import Coding, Rows
from memory_service.review.rules.data.leakage import column_of
from memory_service.review.source.nodes import calls_in, grouped, is_call, last_name
from memory_service.review.tables import patterns

_RE = patterns("label_encoding")
recoded = partial(finding, "labels-reencoded")
_SHARED_CODES = ("CategoricalDtype", "set_categories", "union_categoricals")


def code_rules(facts: Facts) -> Iterator[Finding]:
    """labels-reencoded and refitted-on-test: classes in two orders, or codes made of other rows alone."""
    yield from [*_listed_twice(facts), *_listed_unordered(facts)] or _recoded(facts)
    yield from _refitted(facts)


def _refitted(facts: Facts) -> Iterator[Finding]:
    """refitted-on-test: a scaler, imputer or vectorizer fitted on training rows, then on those to predict."""
    certain = (fit for fit in facts.walk.fitted if fit.unconditional and fit.rows)
    fits = [fit for fit in certain if fit.what not in _ONLY_SHOWN]
    for at, later in enumerate(fits):
        if any(one.what == later.what and _is_later(one.rows, later.rows, alike=False) for one in fits[:at]):
            yield finding("refitted-on-test", later.place, what=later.what)


_ONLY_SHOWN = ("TSNE", "UMAP", "MDS")


def _recoded(facts: Facts) -> Iterator[Finding]:
    """The first place that numbers rows of prediction after those of training."""
    if facts.script.called(*_SHARED_CODES):
        return
    aligned = bool(
        facts.script.called("reindex", "align", "Categorical") or _RE.aligned.search(facts.script.text)
    )
    certain = [coding for coding in facts.walk.codings if coding.unconditional and coding.rows]
    kinds = grouped((c.what, c) for c in certain if not (c.what == "get_dummies" and aligned))
    for what, codings in kinds.items():
        for at, later in enumerate(codings):
            columns = {later.columns} - (set() if what == "get_dummies" else {None})
            before = (one for one in codings[:at] if one.place is later.place or one.columns in columns)
            before = (one for one in before if _chosen(one.place) == _chosen(later.place))
            if any(_is_anew(facts, one, later) for one in before):
                yield recoded(later.place, "columns" if what == "get_dummies" else "rows", what=what)
                return


def _chosen(place: ast.AST) -> str:
    """The columns that are named, as those of no other table are: `pd.get_dummies(df, columns=names)`."""
    given = getattr(place, "keywords", ())
    return next((ast.dump(keyword.value) for keyword in given if keyword.arg == "columns"), "")


def _is_anew(facts: Facts, one: Coding, later: Coding) -> bool:
    """The later coding is of rows of prediction, or another encoder for the same column beside the first."""
    if _is_later(one.rows, later.rows, alike=later.present):
        return True
    if later.present or _roots(one.rows) & _roots(later.rows):
        return False
    home, coders = facts.script.function, (one.coder, later.coder)
    fitted = coders[0] is not coders[1] and None not in coders and home(one.place) is home(later.place)
    named = all("." in root.name for root in _roots(one.rows) | _roots(later.rows))  # tables of other things
    return fitted or (one.place is later.place and not named)


def _is_later(first: frozenset[Rows], later: frozenset[Rows], *, alike: bool) -> bool:
    """Rows of validation beside those of training, or (not if `alike`) a file of prediction beside theirs."""
    roots = _roots(first), _roots(later)
    if roots[0] & roots[1]:
        parts = {rows.part for rows in first}, {rows.part for rows in later}
        parents = {rows.parent for rows in first}, {rows.parent for rows in later}
        return parts == ({"train"}, {"valid"}) and parents[0] == parents[1]
    if alike:
        return False
    named = [any(_RE.later.search(root.name) for root in side) for side in roots]
    return named == [False, True]


def _roots(rows: frozenset[Rows]) -> set[Rows]:
    return {list(one.line())[-1] for one in rows}


def _listed_unordered(facts: Facts) -> Iterator[Finding]:
    """Classes numbered by walking a set, in what is made once for training and once more for validation."""
    script = facts.script
    for comp in script.all(ast.DictComp):
        over = comp.generators[0].iter
        if not is_call(over, "enumerate") or not over.args:
            continue
        owner, function = script.class_of(comp), script.function(comp)
        maker = owner.name if owner is not None else function.name if function is not None else ""
        if not maker or len({ast.dump(c) for c in script.calls_by_name.get(maker, ())}) < 2:
            continue
        listed = over.args[0]
        sources = facts.values.sources(listed) or [listed]
        if len(sources) == 1 and _order_of(sources[0]) in ("set", "unique"):
            yield recoded(comp, "unordered", maker=maker)
            return


def _listed_twice(facts: Facts) -> Iterator[Finding]:
    """Classes listed by set() or unique() in one place and by another order in another."""
    script = facts.script
    if not facts.training.trains and not facts.training.offers:
        return
    listed: list[tuple[ast.AST, str, ast.AST]] = []
    for node in script.all(ast.Assign):
        kind = _order_of(node.value) if _RE.classes.search(last_name(node.targets[0])) else ""
        if kind:
            listed.append((node, kind, node.value))
    yield from _factorized(facts, listed)
    for place, kind, _ in listed:
        if kind == "sorted":
            continue
        function = script.function(place)
        other = {k for p, k, _ in listed if p is not place and script.function(p) is not function}
        predicts = function is None or bool(_RE.predicts.search(function.name))
        if other and (kind == "set" or (predicts and other != {kind})):
            yield recoded(place, "twice", kind=kind)
            return


def _factorized(facts: Facts, listed: list[tuple[ast.AST, str, ast.AST]]) -> Iterator[Finding]:
    """`pd.factorize(df[c])[0]` counts classes as they come; `sorted(df[c].unique())` names them otherwise."""
    called = facts.script.called("factorize")
    unsorted = [call for call in called if "sort" not in {k.arg for k in call.keywords}]
    unsorted = [call for call in unsorted if isinstance(facts.script.parents[call], ast.Subscript)]
    columns = {column_of(facts.values, n) for call in unsorted for n in ast.walk(call)} - {None}
    for place, kind, value in listed:
        if kind == "sorted" and columns & {column_of(facts.values, n) for n in ast.walk(value)}:
            yield recoded(place, "factorized")


def _order_of(node: ast.AST) -> str:
    """How a list of classes is ordered: "sorted", "set", "unique", or "" for what is no such list."""
    names = {last_name(call.func) for call in calls_in(node)}
    if isinstance(node, ast.Call | ast.ListComp | ast.DictComp | ast.Subscript | ast.Attribute):
        unique = (n for n in ast.walk(node) if isinstance(n, ast.Attribute) and n.attr == "unique")
        of_numpy = "unique" in names and any(last_name(n.value) in ("np", "numpy") for n in unique)
        if names & {"sorted", "sort"} or of_numpy:
            return "sorted"
        return "set" if "set" in names else "unique" if names & {"unique", "drop_duplicates"} else ""
    return ""
