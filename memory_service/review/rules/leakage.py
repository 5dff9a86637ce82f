"""Leaks across a division of rows, groups or time, the target among features, codes made anew."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import partial
from itertools import accumulate, islice, takewhile

from memory_service.review.facts import Facts
from memory_service.review.findings import Finding, finding
from memory_service.review.interpretation.state import Rows, Value, all_of
from memory_service.review.interpretation.walk import Coding, Division, Supervised
from memory_service.review.rules.loss import VALUE_FAMILIES, metric_of
from memory_service.review.source.script import (
    Script,
    calls_in,
    entries_of,
    grouped,
    is_call,
    is_none,
    keyword_names,
    last_name,
    receiver,
    receiver_name,
)
from memory_service.review.tables import PATTERNS, words_of
from memory_service.review.values.values import Values

_RE, _SET, *_ = words_of("leakage")
_EACH_HAS = [pattern for name, pattern in PATTERNS["leakage"].items() if name.startswith("each_has")]
MOST_READ = 20_000  # signs of comments and docstrings that are looked through


def prose_of(script: Script) -> list[str]:
    """Docstrings, and comments with those below joined, in lower case, without marks of emphasis."""
    docs = (getattr(node.value, "value", None) for node in script.all(ast.Expr))
    out = [*script.notes, *(text for text in docs if isinstance(text, str))]
    joined = [" ".join(re.sub(r"[*`_]{1,2}(\w{1,80})[*`]{1,2}", r"\1", text).lower().split()) for text in out]
    read = accumulate(map(len, joined))
    return [text for text, signs in zip(joined, read, strict=True) if signs < MOST_READ]


def group_column(facts: Facts) -> str:
    """A column that names groups, with evidence that a group has several rows."""
    evidence = (_counted_columns, _assigned_columns, _documented_columns)
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
            if isinstance(name, str) and _RE.group_column.match(name):
                yield name
    for call in script.called("nunique", "value_counts", "duplicated"):
        base = receiver(call) or call
        column = base.attr if isinstance(base, ast.Attribute) else column_of(facts.values, base)
        reported = last_name(call.func) != "nunique" or _is_reported(facts, call)
        if column and _RE.group_column.match(column) and reported:
            yield column


def _is_reported(facts: Facts, call: ast.Call) -> bool:
    """Printed, logged or asserted: the author knows of groups. A count for an embedding tells nothing."""
    stated = facts.script.statement(call)
    inside = [*takewhile(lambda up: up is not stated, facts.script.above(call)), stated]
    shown = (isinstance(up, ast.Assert | ast.JoinedStr | ast.Compare) for up in inside)
    logged = (is_call(up, "print", "info", "debug", "warning", "log") for up in inside)
    return isinstance(stated, ast.Expr) or any(shown) or any(logged)


def _assigned_columns(facts: Facts) -> Iterator[str]:
    """It is cut out of names of files: `df["path"].str.split("_")`."""
    for node in facts.script.all(ast.Assign):
        for target in node.targets:
            column = column_of(facts.values, target) if isinstance(target, ast.Subscript) else None
            if column and _RE.group_column.match(column) and _cut_from_file(node.value):
                yield column
    entries = (entry for item in facts.script.all(ast.Dict) for entry in entries_of(item))
    yield from (name for name, value in entries if _RE.group_column.match(name) and _cut_from_file(value))


def _cut_from_file(node: ast.AST) -> bool:
    text = ast.dump(node)[:4000]
    cut = re.search(r"'(split|rsplit|extract|parent|stem|match|search|slice|partition)'", text)
    file = re.search(r"'\w*(path|file|filename|image|img|wav|audio|clip|stem|name|_id|id)s?'", text)
    return bool(cut and file)


def _documented_columns(facts: Facts) -> Iterator[str]:
    """A comment or a docstring tells of several rows each, or that each row has a number of its own."""
    known = list(dict.fromkeys(_columns_mentioned(facts)))
    texts = prose_of(facts.script)  # "91 actors, ~400 clips each" -> "actor"
    single = {stated[1] for text in texts for stated in _RE.one_row_each.finditer(text)}
    several = (stated[1] for text in texts for pattern in _EACH_HAS for stated in pattern.finditer(text))
    for word in (word.rstrip("s") for word in several if word.rstrip("s") not in single):
        yield from (c for c in known if _RE.group_column.match(c) and c.lower().startswith(word))
    for names in () if _RE.one_each.search(facts.script.text) else _noted(facts):
        for name in names:  # of a file or number of its own beside its patient
            if _RE.person.match(name) and any(_RE.own_name.search(n) for n in names if n != name):
                yield name


def _columns_mentioned(facts: Facts) -> Iterator[str]:
    """Names that may be columns: texts, `df.patient`, and what is written beside the name of a table."""
    yield from facts.script.strings
    yield from (name for names in _noted(facts) for name in names)
    listed = (stated[1] for text in prose_of(facts.script) for stated in _RE.listed.finditer(text))
    yield from (name for text in listed for name in re.findall(r"\w+", text))  # "meta.csv: clip, actor"
    for node in facts.script.all(ast.Attribute):
        if isinstance(node.value, ast.Name) and node.value.id not in facts.script.imports:
            yield node.attr


def _noted(facts: Facts) -> Iterator[list[str]]:
    """The columns that a comment beside a table that is read names."""
    read = (call for call in facts.script.calls if last_name(call.func).startswith(("read_", "scan_")))
    for call in read:
        yield re.findall(r"[a-z]\w+", facts.script.comment_near(call.lineno).lower())


def column_of(values: Values, node: ast.AST) -> str | None:
    """`df["a"]`, `df.loc[:, "a"]`, `df.pop("a")` -> "a"."""
    if isinstance(node, ast.Subscript):
        inner = node.slice
        if isinstance(inner, ast.Tuple) and len(inner.elts) == 2:
            inner = inner.elts[1]
        return values.text(inner)
    named = isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name)
    named = named and bool(PATTERNS["interpretation"]["target_column"].match(last_name(node)))
    return last_name(node) if named and not isinstance(values.one(node), str) else None


def split_rules(facts: Facts) -> Iterator[Finding]:
    """fit-before-split and target-statistics-before-split."""
    leaks = reversed([*facts.walk.leaks.items()])
    first = {facts.script.statement(learned.place): (learned, place) for learned, place in leaks}
    for learned, place in reversed([*first.values()]):
        rule = "target-statistics-before-split" if learned.kind == "target" else "fit-before-split"
        case = "it" if learned.kind == "target" or learned.what else "standardised"
        yield finding(rule, learned.place, case, what=learned.what, at=getattr(place, "lineno", 0))


MOST_INPUTS = 20


def target_rules(facts: Facts) -> Iterator[Finding]:
    """target-in-features: the first column of each script that is the answer, or computed from it."""
    for whole in facts.walk.supervised:
        beside = [*(whole.features.keys or {}).values(), *(whole.features.items or ())]  # `fit([X, shop], y)`
        for features in beside[:MOST_INPUTS] or [whole.features]:
            for column, place in _telling(features, whole):
                yield finding("target-in-features", place, column=column)
                return


def _telling(features: Value, supervised: Supervised) -> Iterator[tuple[str, ast.AST]]:
    """(column, where) that tells the answer."""
    answer = supervised.answer
    named = (answer.columns, None if answer.series else answer.reads)
    target = next((one for names in named if names is not None and len(names) == 1 for one in names), None)
    known = features.whole or (features.columns is not None and len(features.columns) > 1)
    if target is None or not known or not all_of(features.rows) & all_of(answer.rows):
        return
    source = answer.reads - {target} if not answer.series else set()  # tomorrow's value is not today's
    certain = {target} | (source if len(source) == 1 else set())

    def inside(column: str) -> bool:
        if features.columns is not None:
            return column in features.columns
        return features.whole and column not in features.dropped

    if features.columns is None and not features.dropped and not supervised.final:
        return  # a whole table is divided, its columns are chosen later
    for name, value in sorted(features.attrs.items(), key=lambda one: getattr(one[1].place, "lineno", 0)):
        column = name[1:-1]
        if column not in certain and column != "?" and inside(column) and value.reads & certain:
            yield column, value.place or supervised.place
    for column in sorted(certain):
        if inside(column):
            yield column, features.place or supervised.place


_FORECAST, _IS_FORECAST = "time-series-regression", "the task is a forecast"


def row_rules(facts: Facts) -> Iterator[Finding]:
    """shuffled-time-series and groups-across-folds."""
    divisions = sorted(facts.walk.divisions, key=lambda one: facts.script.order.get(one.place, 0))
    yield from _series(facts, divisions)
    yield from _groups(facts, divisions)


def _series(facts: Facts, divisions: list[Division]) -> Iterator[Finding]:
    own = facts.script.own.get("SPLIT")
    if own is not None and (own.value == "time" or facts.context.task == _FORECAST):
        if own.value != "time":  # of the branches of its `split` this one runs
            yield finding("shuffled-time-series", own, "own", why=_IS_FORECAST)
        return
    found = ((_shuffled(facts, division), _of_time(facts, division)) for division in divisions)
    for shuffled, why in islice(((at, why) for at, why in found if at is not None and why), 1):
        yield finding("shuffled-time-series", shuffled, why=why)


def _shuffled(facts: Facts, division: Division) -> ast.AST | None:
    kind, maker = _divider(facts, division)
    if maker is None:
        return None
    shuffle = facts.values.argument(maker, "shuffle", 1 if kind.endswith("KFold") else None)
    shuffles = facts.values.one(shuffle) is True
    if kind == "train_test_split":
        return division.place if shuffle is None or shuffles else None
    if kind in ("KFold", "StratifiedKFold"):
        return maker if shuffles else None
    return division.place if kind in ("ShuffleSplit", "StratifiedShuffleSplit", "random_split") else None


def _of_time(facts: Facts, division: Division) -> str:
    """Why rows must not be mixed: a forecast, or rows made of their neighbours in time."""
    metric = metric_of(facts)
    values = metric is not None and metric.family in VALUE_FAMILIES
    if facts.context.task == _FORECAST or (facts.context.task == "time-series" and values):
        return _IS_FORECAST
    series = sorted(division.contents.series, key=lambda node: facts.script.order.get(node, 0))
    made = (n for n in series if not isinstance(n, ast.Call) or _RE.of_time.search(last_name(n.func)))
    line = next((getattr(node, "lineno", 0) for node in made), None)
    return f"line {line} makes them of their neighbours in time" if line is not None else ""


def _divider(facts: Facts, division: Division) -> tuple[str, ast.Call | None]:
    """The class that divides the rows and the call that made it; of a search and of scoring their `cv`."""
    if division.kind not in _SET.by_parameter:
        return division.kind, division.maker
    call: ast.AST | None = division.place
    if division.kind == "fit" and isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute):
        made = facts.values.makers(call.func.value)
        call = next((one for one in made if "Search" in last_name(one.func)), None)
    if not isinstance(call, ast.Call):
        return "", None
    given = facts.values.argument(call, "cv")
    if given is None or facts.values.number(given) is not None:
        return "KFold", call
    made = facts.values.makers(given)
    return (last_name(made[0].func), made[0]) if made else ("", None)


def _groups(facts: Facts, divisions: list[Division]) -> Iterator[Finding]:
    kinds = [(one, *_divider(facts, one)) for one in divisions]
    careless = [(one, kind) for one, kind, _ in kinds if kind in _SET.ignores_groups]
    for division, kind in careless:
        place = division.place
        if not isinstance(place, ast.Call):
            continue
        given = facts.argument(place, "groups", 2 if is_call(place, "split") else None)
        nothing = given is None or is_none(given) or _alike(given, facts.argument(place, "y", 1))
        if not nothing and facts.values.one(given) is None:
            yield finding("groups-across-folds", place, "ignored", kind=kind, fix=_fix(division.kind))
            return
    column = "" if any("Group" in kind for _, kind, _ in kinds) else group_column(facts)
    for division, kind in careless if column else ():
        rows = division.contents.rows
        one_each = rows and all(any(step.grouped for step in one.line()) for one in rows)
        if one_each or _of_time(facts, division):
            continue
        direct = division.kind in ("train_test_split", "random_split", *_SET.by_parameter)
        place = division.place if direct or division.maker is None else division.maker
        yield finding("groups-across-folds", place, "rows", column=column, kind=kind, fix=_fix(division.kind))
        return


def _fix(kind: str) -> str:
    if "Fold" not in kind:
        return "GroupShuffleSplit(n_splits=1, test_size=0.2).split(X, y, groups)"
    return f"{'Stratified' if 'Stratified' in kind else ''}GroupKFold(n_splits=5).split(X, y, groups)"


def held_out_rules(facts: Facts) -> Iterator[Finding]:
    """judged-on-training-rows."""
    folders = [c for c in facts.script.called("ImageFolder") if not facts.argument(c, "is_valid_file", 4)]
    roots = [(c, root) for c in folders if (root := facts.argument(c, "root", 0))]
    for at, (later, root) in enumerate(roots if not facts.script.called(*_SET.divides) else ()):
        named = ast.unparse(getattr(facts.script.statement(later), "targets", [root])[0])
        if any(_alike(one, root) for _, one in roots[:at]) and _RE.held_out.search(named):
            yield finding("judged-on-training-rows", later, "folder", root=ast.unparse(root))
    for fit in facts.training.fits:
        if fit.args:
            yield from _part_of_fitted(facts, fit)
            yield from _fitted_alone(facts, fit)


def _part_of_fitted(facts: Facts, fit: ast.Call) -> Iterator[Finding]:
    """`model.fit(X, y)`, judged by a part that was divided from X or y."""
    order = facts.script.order
    given = facts.argument(fit, "validation_data")
    pair = next(iter(facts.values.sources(given)), given) if isinstance(given, ast.Name) else given
    judged = [(fit, one) for one in getattr(pair, "elts", [])[:2]]
    fits = [one for one in facts.training.fits if _alike(receiver(one), receiver(fit))]
    until = min((order[one] for one in fits if order[one] > order[fit]), default=order[fit] + 10**6)
    for call in facts.script.called("score", "evaluate", "predict", "predict_proba"):
        near = facts.script.function(call) is facts.script.function(fit) and order[fit] < order[call] < until
        rows = ast.unparse(call.args[0]) if call.args else ""
        named = is_call(call, "score", "evaluate") or _RE.held_out.search(rows)
        if near and named and _alike(receiver(call), receiver(fit)):
            judged += [(call, one) for one in call.args[:1]]
    pairs = ((place, part, whole) for place, part in judged for whole in fit.args[:2])
    for place, part, whole in islice((p for p in pairs if _divided(facts, p[1], p[2], fit)), 1):
        of = {"part": ast.unparse(part), "whole": ast.unparse(whole)}
        yield finding("judged-on-training-rows", place, "part", **of)


def _divided(facts: Facts, part: ast.AST, whole: ast.AST, fit: ast.Call) -> bool:
    """`part` is last set from rows of `whole`, which stays what it was until the fit."""
    script = facts.script
    if not isinstance(part, ast.Name) or not isinstance(whole, ast.Name):
        return False
    here = script.function(fit)
    before = [n for n in script.set_in.get((here, part.id), ()) if script.order[n] < script.order[fit]]
    if not before:
        return False
    last, to = before[-1], before[-1].targets[0]
    value: ast.AST = last.value
    if isinstance(to, ast.Tuple) and isinstance(value, ast.Tuple) and len(to.elts) == len(value.elts):
        value = next((v for t, v in zip(to.elts, value.elts, strict=True) if _alike(t, part)), value)
    cut = isinstance(value, ast.Subscript) and _alike(value.value, whole)
    split = is_call(value, "train_test_split") and any(_alike(one, whole) for one in value.args)
    changed = (n for n in script.set_in.get((here, whole.id), ()) if script.order[n] >= script.order[last])
    return (cut or split) and not any(script.order[n] < script.order[fit] for n in changed)


def _fitted_alone(facts: Facts, fit: ast.Call) -> Iterator[Finding]:
    """`model.fit(X, y)`, then `model.score(X, y)`, and no other rows of the file are judged."""
    model, script = receiver(fit), facts.script
    if script.called(*_SET.divides) or keyword_names(fit) & _SET.validates:
        return
    judged = [call for call in script.called("score", "evaluate") if call.args and receiver(call) is not None]
    judged = [call for call in judged if _alike(receiver(call), model)]
    predicted = [call for call in script.called("predict", "predict_proba") if _alike(receiver(call), model)]
    others = any(call.args and not _alike(call.args[0], fit.args[0]) for call in predicted)
    by_hand = any(isinstance(receiver(call), ast.Compare) for call in script.called("mean"))
    scores = by_hand or any(map(_RE.scores.search, script.calls_by_name))
    submits = script.called("to_csv") and not scores
    alone = len(fit.args) > 1 and "oob_score" not in script.text and (submits or not others)
    if alone and judged and all(_alike(call.args[0], fit.args[0]) for call in judged):
        yield finding("judged-on-training-rows", judged[0], "alone", rows=ast.unparse(fit.args[0]))


def _alike(one: ast.AST | None, other: ast.AST | None) -> bool:
    return one is not None and other is not None and ast.unparse(one) == ast.unparse(other)


recoded = partial(finding, "labels-reencoded")


def code_rules(facts: Facts) -> Iterator[Finding]:
    """labels-reencoded and refitted-on-test: classes in two orders, codes or scales of other rows alone."""
    yield from [*_listed_twice(facts), *_listed_unordered(facts)] or _recoded(facts)
    certain = (fit for fit in facts.walk.fitted if fit.unconditional and fit.rows)
    fits = [fit for fit in certain if fit.what not in _SET.only_shown]
    for at, later in enumerate(fits):
        if any(one.what == later.what and _is_later(one.rows, later.rows) for one in fits[:at]):
            yield finding("refitted-on-test", later.place, what=later.what)


def _recoded(facts: Facts) -> Iterator[Finding]:
    """The first place that numbers rows of prediction after those of training."""
    script = facts.script
    lists = [ast.dump(n.slice) for n in script.all(ast.Subscript) if getattr(n.slice, "elts", [])[2:]]
    chosen = len(lists) > len({*lists})  # the same columns, by their names
    aligned = chosen or script.called("reindex", "align", "Categorical") or _RE.aligned.search(script.text)
    certain = [coding for coding in facts.walk.codings if coding.unconditional and coding.rows]
    kinds = grouped((c.what, c) for c in certain if not (c.what == "get_dummies" and aligned))
    for what, codings in kinds.items():
        for at, later in enumerate(codings):
            columns = {later.columns} - (set() if what == "get_dummies" else {None})
            before = (one for one in codings[:at] if one.place is later.place or one.columns in columns)
            if any(_is_anew(facts, one, later) for one in before):
                yield recoded(later.place, "columns" if what == "get_dummies" else "rows", what=what)
                return


def _is_anew(facts: Facts, one: Coding, later: Coding) -> bool:
    """The later coding is of rows of prediction, or another encoder for the same column beside the first."""
    if _is_later(one.rows, later.rows):
        return True
    if later.present or _roots(one.rows) & _roots(later.rows):
        return False
    home, coders = facts.script.function, (one.coder, later.coder)
    fitted = coders[0] is not coders[1] and None not in coders and home(one.place) is home(later.place)
    named = all("." in root.name for root in _roots(one.rows) | _roots(later.rows))  # tables of other things
    return fitted or (one.place is later.place and not named)


def _is_later(first: frozenset[Rows], later: frozenset[Rows]) -> bool:
    """Rows of validation beside those of training, or a file of prediction beside theirs."""
    roots = _roots(first), _roots(later)
    if roots[0] & roots[1]:
        parts = {rows.part for rows in first}, {rows.part for rows in later}
        parents = {rows.parent for rows in first}, {rows.parent for rows in later}
        return parts == ({"train"}, {"valid"}) and parents[0] == parents[1]
    named = [any(_RE.later.search(root.name) for root in side) for side in roots]
    return named == [False, True]


def _roots(rows: frozenset[Rows]) -> set[Rows]:
    return {list(one.line())[-1] for one in rows}


def _listed_unordered(facts: Facts) -> Iterator[Finding]:
    """Classes numbered by walking a set, in what is made once for training and once more for validation."""
    script = facts.script
    for comp in script.all(ast.DictComp):
        over = comp.generators[0].iter
        listed = over.args[0] if is_call(over, "enumerate") and over.args else None
        maker = getattr(script.class_of(comp) or script.function(comp), "name", "")
        made = script.called(maker) if maker else []
        if listed is None or len({ast.dump(call) for call in made}) < 2:
            continue
        sources = facts.values.sources(listed) or [listed]
        if len(sources) == 1 and _order_of(sources[0]) in ("set", "unique"):
            yield recoded(comp, "unordered", maker=maker)
            return


def _listed_twice(facts: Facts) -> Iterator[Finding]:
    """Classes listed by set() or unique() in one place and by another order in another."""
    script = facts.script
    classes = (node for node in script.all(ast.Assign) if _RE.classes.search(last_name(node.targets[0])))
    listed = [(node, kind) for node in classes if (kind := _order_of(node.value))]
    # `pd.factorize(df[c])[0]` counts classes as they come; `sorted(df[c].unique())` names them otherwise
    counted = [c for c in script.called("factorize") if "sort" not in keyword_names(c)]
    counted = [call for call in counted if isinstance(script.parents[call], ast.Subscript)]
    columns = {column_of(facts.values, n) for call in counted for n in ast.walk(call)} - {None}
    for place in (node for node, kind in listed if kind == "sorted"):
        if columns & {column_of(facts.values, n) for n in ast.walk(place.value)}:
            yield recoded(place, "factorized")
    for place, kind in listed:
        function = script.function(place)
        other = {k for p, k in listed if script.function(p) is not function}
        predicts = function is None or bool(_RE.predicts.search(function.name))
        if kind != "sorted" and other and (kind == "set" or (predicts and other != {kind})):
            yield recoded(place, "twice", kind=kind)
            return


def _order_of(node: ast.AST) -> str:
    """How a list of classes is ordered: "sorted", "set", "unique", or "" for what is no such list."""
    if not isinstance(node, ast.Call | ast.ListComp | ast.DictComp | ast.Subscript | ast.Attribute):
        return ""
    names = {last_name(call.func) for call in calls_in(node)}
    of_numpy = any(receiver_name(c) in ("np", "numpy") for c in calls_in(node) if is_call(c, "unique"))
    if names & {"sorted", "sort"} or of_numpy:
        return "sorted"
    return "set" if "set" in names else "unique" if names & {"unique", "drop_duplicates"} else ""
