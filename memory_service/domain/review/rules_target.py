"""Does the model see its own answer?"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from memory_service.domain.review.facts import Facts
from memory_service.domain.review.findings import Finding, finding
from memory_service.domain.review.frames import Frames, column_of
from memory_service.domain.review.outputs import last_assigned
from memory_service.domain.review.rules_features import told_features
from memory_service.domain.review.script import last_name, roots, words, words_in

__all__ = ["LATER", "target_rules"]

_FEATURES = re.compile(r"^(X|x|feats?|features?|data_x|inputs?|train_x|X_\w+|x_\w+|predictors)$")
LATER = re.compile(
    r"(^|_)(test|valid|val|va|vl|infer|inference|submission|sub|pred|new|holdout|dev|unseen|future|score|"
    r"fresh|today|week)(_|\d|$)|^(x|X)(te|va|_te|_va)$|^te(_|\d|$)|^va$",
    re.IGNORECASE,
)


def target_rules(facts: Facts) -> Iterator[Finding]:
    """target-in-features."""
    found = list(told_features(facts))
    yield from found or _target_inside(facts, Frames(facts))


def _target_inside(facts: Facts, frames: Frames) -> Iterator[Finding]:
    targets = frames.targets
    if not targets or not (facts.training.trains or facts.training.offers or frames.splits):
        return
    copies = _copies(facts, targets)
    for call, column in _whole_table_and_its_column(facts):
        yield finding(
            "target-in-features",
            call,
            f"The features hold {column!r}, which is the target: the score is perfect and worth nothing.",
            f"X = df.drop(columns=[{column!r}])",
        )
        return
    reported: set[int] = set()
    for place, table, expression in _inputs(facts):
        if id(place) in reported:
            continue
        made = {name for name, at in copies.items() if at < facts.script.order[place]}
        inside = _target_of(facts, table, expression, targets, made, place)
        if inside:
            reported.add(id(place))
            yield finding(
                "target-in-features",
                place,
                f"The features hold {inside!r}, which is "
                f"{'the target' if inside in targets else 'made from the target'}: "
                "the score is perfect and worth nothing.",
                f"X = df.drop(columns=[{', '.join(repr(t) for t in sorted(targets | {inside}))}])",
            )
            return


def _whole_table_and_its_column(facts: Facts) -> Iterator[tuple[ast.Call, str]]:
    """`model.fit(train, train["price"])`: a table, and as the answer a column of the same."""
    for call in facts.script.called("fit", "Dataset", "DMatrix", "Pool", *_SCORING):
        at = 1 if last_name(call.func) in _SCORING else 0
        table = call.args[at] if len(call.args) > at else None
        if not isinstance(table, ast.Name):
            continue
        answer = call.args[at + 1] if len(call.args) > at + 1 else facts.values.argument(call, "label")
        if answer is None or (last_name(call.func) == "fit" and _selects_columns(facts, call)):
            continue
        core = _core(answer)
        column = column_of(facts, core)
        same = isinstance(core, ast.Subscript | ast.Attribute) and isinstance(core.value, ast.Name)
        if column and same and _table(core) == table.id and not isinstance(core, ast.Call):
            if facts.script.called("ColumnTransformer", "make_column_transformer", "make_column_selector"):
                continue  # the pipeline may take its own columns
            if not re.search(
                r"Classifier$|Regressor$|Regression$|^Dataset$|^DMatrix$|^Pool$|^Ridge$|^Lasso$|SV[CR]$",
                _learner(facts, call),
            ):
                continue
            if column not in _dropped_before(facts, table.id, call):
                yield call, column


def _learner(facts: Facts, call: ast.Call) -> str:
    name = last_name(call.func)
    if name in _SCORING:
        return facts.training.made_by(call.args[0])
    return (
        facts.training.made_by(call.func.value)
        if isinstance(call.func, ast.Attribute) and name == "fit"
        else name
    )


def _inputs(facts: Facts) -> Iterator[tuple[ast.AST, str, ast.AST]]:
    """(where, table, expression) of what becomes features."""
    yield from _named_features(facts)
    yield from _handed_features(facts)


def _named_features(facts: Facts) -> Iterator[tuple[ast.AST, str, ast.AST]]:
    for node in facts.script.all(ast.Assign):
        pairs: list[tuple[str, ast.AST]] = []
        for target in node.targets:
            if (
                isinstance(target, ast.Tuple)
                and isinstance(node.value, ast.Tuple)
                and len(target.elts) == len(node.value.elts)
            ):
                pairs += [(last_name(t), v) for t, v in zip(target.elts, node.value.elts, strict=True)]
            else:
                pairs.append((last_name(target), node.value))
        for name, value in pairs:
            if _FEATURES.match(name):
                core = _core(value)
                if _selects_columns(facts, core):
                    continue
                for inner in _candidates(core):
                    yield node, _table(inner), inner


def _handed_features(facts: Facts) -> Iterator[tuple[ast.AST, str, ast.AST]]:
    for call in facts.script.calls:
        if (
            last_name(call.func)
            in (
                "fit",
                "train_test_split",
                "Dataset",
                "DMatrix",
                "Pool",
                *_SCORING,
                "fit_transform",
                "TensorDataset",
            )
            and call.args
        ):
            position = 1 if last_name(call.func) in _SCORING else 0
            if _selects_columns(facts, call):
                continue
            if last_name(call.func) == "fit_transform" and not _FEATURES.match(_assigned_name(facts, call)):
                continue
            if last_name(call.func) == "train_test_split" and len(call.args) < 2:
                continue  # rows of the whole table are divided, target and all
            if len(call.args) > position:
                for inner in _candidates(_core(call.args[position])):
                    if isinstance(inner, ast.Subscript | ast.Call):
                        yield call, _table(inner), inner
                    elif isinstance(inner, ast.Name) and not _FEATURES.match(inner.id):
                        given = last_assigned(facts, inner)
                        made = _core(given) if given is not None else None
                        if isinstance(made, ast.Subscript | ast.Call) and not _selects_columns(facts, made):
                            yield call, _table(made), made


_SCORING = ("cross_val_score", "cross_validate", "cross_val_predict")
_PICKS = re.compile(
    r"^(make_column_transformer|ColumnTransformer|(make_)?pipeline|FeatureUnion|DataFrameMapper)$",
    re.IGNORECASE,
)


def _selects_columns(facts: Facts, node: ast.AST) -> bool:
    """What takes its own columns out of a whole table: `ColumnTransformer(...).fit_transform(df)`."""
    return (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in ("fit_transform", "transform", "fit")
        and bool(_PICKS.match(facts.training.made_by(node.func.value)))
    )


def _assigned_name(facts: Facts, call: ast.Call) -> str:
    statement = facts.script.statement(call)
    return last_name(statement.targets[0]) if isinstance(statement, ast.Assign) else ""


def _candidates(core: ast.AST) -> list[ast.AST]:
    """The expression, and the tables handed to a conversion: `torch.tensor(df[cols].values)`."""
    out = [core]
    if (
        isinstance(core, ast.Call)
        and last_name(core.func)
        in (
            "tensor",
            "from_numpy",
            "as_tensor",
            "FloatTensor",
            "array",
            "asarray",
            "fit_transform",
            "ascontiguousarray",
        )
        and core.args
    ):
        out = [_core(core.args[0])]
    return out


def _core(node: ast.AST) -> ast.AST:
    """Without conversions behind it: `.values`, `.to_numpy()`, `.astype(...)`, `.fillna(0)`."""
    while True:
        if isinstance(node, ast.Attribute) and node.attr == "values":
            node = node.value
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in (
            "to_numpy", "astype", "copy", "fillna", "reset_index", "float", "to", "cuda", "toarray", "tocsr"
        ):  # fmt: skip
            node = node.func.value
        elif isinstance(node, ast.Subscript) and _picks_rows(node):
            node = node.value.value  # type: ignore[attr-defined]
        else:
            return node


def _picks_rows(node: ast.Subscript) -> bool:
    """`df.iloc[rows]`, `df.loc[mask]`: every column stays."""
    return (
        isinstance(node.value, ast.Attribute)
        and node.value.attr in ("iloc", "loc")
        and not isinstance(node.slice, ast.Tuple)
    )


def _table(node: ast.AST) -> str:
    """The table that features are taken from."""
    while isinstance(node, ast.Subscript | ast.Attribute | ast.Call):
        node = node.func if isinstance(node, ast.Call) else node.value
    return node.id if isinstance(node, ast.Name) else ""


def _target_of(
    facts: Facts, table: str, node: ast.AST, targets: set[str], copies: set[str], place: ast.AST
) -> str:
    """The target's column (or a copy of it) among features, "" where there is none or it cannot be told."""
    if not table or not _holds_target(facts, table, targets, place):
        return ""
    kept = _columns_kept(facts, node, place)
    if kept is None:
        return ""
    named, left_out = kept
    if named is not None:
        return next((c for c in sorted((targets | copies)) if c in named), "")
    gone = left_out | _dropped_before(facts, table, place)
    inside = [c for c in sorted(targets) if c not in gone]
    if len(inside) == len(targets) and targets:
        return inside[0]
    return next((c for c in sorted(copies) if c not in gone), "") if not inside else ""


def _columns_kept(
    facts: Facts, node: ast.AST, place: ast.AST, deep: int = 0
) -> tuple[set[str] | None, set[str]] | None:
    """(columns named, columns left out of all); None where it cannot be told."""
    values = facts.values
    if deep > 4:
        return None
    if isinstance(node, ast.Name):
        return (None, set()) if deep == 0 and _is_table(facts, node) else None
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "drop":
        if values.one(values.argument(node, "axis", 1)) in (0, "index"):
            return None
        given = values.argument(node, "columns") or values.argument(node, "labels", 0)
        dropped = _listed(facts, given)
        if dropped is not None and len(node.args) > 1:  # polars: drop("id", "price")
            dropped |= {text for other in node.args[1:] if (text := values.text(other))}
        inner = _core(node.func.value)
        if dropped is None:
            return None
        if isinstance(inner, ast.Name):
            return None, dropped
        before = _columns_kept(facts, inner, place, deep + 1)
        return (
            None
            if before is None
            else (before[0] - dropped if before[0] is not None else None, before[1] | dropped)
        )
    if (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and (node.func.attr == "select_dtypes" or _selects_numbers(node))
    ):
        if re.search(r"exclude", " ".join(k.arg or "" for k in node.keywords)):
            return None
        if not _is_number(facts):
            return None  # the target may be text, which a selection of numbers leaves out
        inner = _core(node.func.value)
        return (None, set()) if isinstance(inner, ast.Name) else _columns_kept(facts, inner, place, deep + 1)
    if isinstance(node, ast.Subscript):
        inner = node.slice
        if isinstance(inner, ast.Tuple) and len(inner.elts) == 2:
            inner = inner.elts[1]
        listed = _listed(facts, inner)
        if listed is not None and not isinstance(inner, ast.Constant):
            return listed, set()
        return _all_but(facts, inner, 0)
    return None


def _selects_numbers(node: ast.Call) -> bool:
    """polars' `select(cs.numeric())`."""
    return (
        last_name(node.func) == "select"
        and len(node.args) == 1
        and isinstance(node.args[0], ast.Call)
        and last_name(node.args[0].func) in ("numeric", "float")
    )


_NUMBERS = re.compile(
    r"regressor|regression|mean_squared|mean_absolute|r2_score|rmse|mse_?loss|l1_?loss|smooth_l1|huber|"
    r"binary_cross_?entropy|bceloss|bcewithlogits"
)


def _is_number(facts: Facts) -> bool:
    """Whether the target is a number for sure: by the loss or metric, or by how its column is made."""
    if _NUMBERS.search(facts.script.text.replace("logisticregression", "")):
        return True
    targets = Frames(facts).targets
    return any(
        column_of(facts, target) in targets
        and re.search(r"'astype'|'int'|'float'|Compare|BinOp|'log1p'|'log'", ast.dump(node.value)[:3000])
        for node in facts.script.all(ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Subscript)
    )


def _all_but(facts: Facts, node: ast.AST, deep: int) -> tuple[set[str] | None, set[str]] | None:
    """A list of columns made of all columns but some: `[c for c in df.columns if c not in DROP]`."""
    if deep > 4:
        return None
    if isinstance(node, ast.Name):
        sources = facts.values.assigned(node.id, node)
        removed = _removed(facts, node.id)
        if len(sources) != 1 or removed is None:
            return None
        kept = _all_but(facts, sources[0], deep + 1)
        return None if kept is None else (kept[0], kept[1] | removed)
    if isinstance(node, ast.ListComp) and len(node.generators) == 1 and isinstance(node.elt, ast.Name):
        return _filtered(facts, node.generators[0])
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Sub):  # set(df.columns) - {"id"}
        kept, gone = _all_but(facts, node.left, deep + 1), _set_of(facts, node.right)
        return None if kept is None or gone is None else (kept[0], kept[1] | gone)
    if isinstance(node, ast.Attribute) and node.attr == "columns":
        kept_in_self = facts.values.sources(node) if last_name(node.value) == "self" else []
        if kept_in_self:  # a list that the object keeps, no table's columns
            return _all_but(facts, kept_in_self[0], deep + 1) if len(kept_in_self) == 1 else None
        inner = _core(node.value)
        if isinstance(inner, ast.Name):
            return None if LATER.search(inner.id) else (None, set())
        return _columns_kept(facts, inner, node, 1)
    if isinstance(node, ast.Call) and last_name(node.func) in ("list", "set", "tolist", "sorted", "to_list"):
        inner_node = (
            node.args[0] if node.args else node.func.value if isinstance(node.func, ast.Attribute) else None
        )
        return _all_but(facts, inner_node, deep + 1) if inner_node is not None else None
    if (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in ("drop", "difference")
        and _is_columns(node.func.value)
    ):
        listed = _listed(facts, node.args[0]) if node.args else None
        return None if listed is None else (None, listed)
    return None


def _set_of(facts: Facts, node: ast.AST) -> set[str] | None:
    """`{"id"}`, `set(DROP)`."""
    inner = (
        node.args[0] if isinstance(node, ast.Call) and last_name(node.func) == "set" and node.args else node
    )
    return _listed(facts, inner)


def _filtered(facts: Facts, over: ast.comprehension) -> tuple[None, set[str]] | None:
    """`for c in df.columns if c not in DROP and c != "id"`: the columns left out."""
    if not _is_columns(over.iter) or any(LATER.search(w) for w in words_in(over.iter)):
        return None
    gone: set[str] = set()
    tests = [
        part
        for test in over.ifs
        for part in (test.values if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And) else [test])
    ]
    for test in tests:
        if not isinstance(test, ast.Compare):
            return None
        if isinstance(test.left, ast.Name) and isinstance(test.ops[0], ast.NotIn | ast.NotEq):
            listed = _listed(facts, test.comparators[0])
            if listed is None:
                return None
            gone |= listed
        elif "dtype" not in words_in(test):
            return None
    return None, gone


def _is_columns(node: ast.AST) -> bool:
    if isinstance(node, ast.Call) and node.args:
        node = node.args[0]
    return (isinstance(node, ast.Attribute) and node.attr == "columns") or (
        isinstance(node, ast.Name) and node.id in ("df", "train", "data", "train_df")
    )


def _removed(facts: Facts, name: str) -> set[str] | None:
    """Columns taken out of a list by `.remove("id")`; None where it is not known which."""
    out: set[str] = set()
    for call in facts.script.called("remove", "pop", "discard"):
        if isinstance(call.func, ast.Attribute) and last_name(call.func.value) == name:
            listed = _listed(facts, call.args[0]) if call.args and call.func.attr == "remove" else None
            if listed is None:
                return None
            out |= listed
    return out


def _listed(facts: Facts, node: ast.AST | None) -> set[str] | None:
    found = facts.values.one(node)
    if isinstance(found, str):
        return {found}
    if isinstance(found, list) and all(isinstance(c, str) for c in found):
        return set(found)
    return None


def _is_table(facts: Facts, node: ast.Name) -> bool:
    """A name that holds a whole table as it was read."""
    sources = facts.values.assigned(node.id, node)
    return bool(sources) and all(
        isinstance(s, ast.Call) and last_name(s.func).startswith("read_") for s in sources
    )


def _holds_target(facts: Facts, table: str, targets: set[str], place: ast.AST) -> bool:
    """Whether the target was ever read from (or written to) this table, or from one it was made of or split
    from."""
    kin = {table}
    for node in facts.script.all(ast.Assign):
        names = {
            n.id
            for t in node.targets
            for n in ast.walk(t)
            if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)
        }
        if names & kin:
            kin |= roots(node.value)
    for loop_or_sub in facts.script.all(ast.Subscript):
        if column_of(facts, loop_or_sub) in targets and _table(loop_or_sub) in kin:
            return True
    for attribute in facts.script.all(ast.Attribute):
        if attribute.attr in targets and last_name(attribute.value) in kin:
            return True
    del place
    return False


def _dropped_before(facts: Facts, table: str, place: ast.AST) -> set[str]:
    """Columns taken out of a table before a place: pop, del, drop(inplace=True), df = df.drop(...)."""
    out: set[str] = set()
    order = facts.script.order
    for call in facts.script.called("pop", "drop"):
        if order[call] > order[place] or not isinstance(call.func, ast.Attribute):
            continue
        if last_name(call.func) == "pop" and call.args:
            found = facts.values.one(call.args[0])
            out |= {found} if isinstance(found, str) else set()
            continue
        inplace = facts.values.one(facts.values.argument(call, "inplace")) is True
        statement = facts.script.statement(call)
        written = {last_name(t) for t in getattr(statement, "targets", ())}
        if inplace or table in written:
            out |= (
                _listed(
                    facts, facts.values.argument(call, "columns") or facts.values.argument(call, "labels", 0)
                )
                or set()
            )
    for deleted in facts.script.all(ast.Delete):
        for target in deleted.targets:
            column = column_of(facts, target)
            if column and order[deleted] < order[place]:
                out.add(column)
    return out


_NOT_ROW_BY_ROW = words(
    "groupby shift rolling expanding map transform KFold qcut cut digitize diff pct_change cumsum"
)


def _copies(facts: Facts, targets: set[str]) -> dict[str, int]:
    """Columns computed row by row with the target, or that the target is computed from, and where.

    `df["log_price"] = np.log1p(df["price"])` copies whichever of the two is predicted; `df["price"] /
    df["area"]` tells the price too.
    """
    order = facts.script.order
    out: dict[str, int] = {}
    for node in facts.script.all(ast.Assign):
        called = {last_name(n.func) for n in ast.walk(node.value) if isinstance(n, ast.Call)}
        if called & _NOT_ROW_BY_ROW:
            continue
        read = {c for n in ast.walk(node.value) if (c := column_of(facts, n))}
        for target in node.targets:
            name = column_of(facts, target) if isinstance(target, ast.Subscript) else None
            if name is None:
                continue
            if name in targets and len(read) == 1 and called & {"log1p", "log", "log10", "sqrt"}:
                out.setdefault(next(iter(read)), order[node])
            elif name not in targets and read & (targets | set(out)):
                out.setdefault(name, order[node])
    return {name: at for name, at in out.items() if name not in targets}
