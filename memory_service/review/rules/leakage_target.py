"""The target, or a column made from it, among the features: by names, where the walk says nothing."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from memory_service.review.columns import columns_kept, core_of, names_listed
from memory_service.review.facts import Facts
from memory_service.review.findings import Finding, finding
from memory_service.review.frames import Frames, column_of
from memory_service.review.outputs import last_assigned
from memory_service.review.rules.leakage_target_flow import told_features
from memory_service.review.script import last_name, roots, words

__all__ = ["target_rules"]

_FEATURES = re.compile(r"^(X|x|feats?|features?|data_x|inputs?|train_x|X_\w+|x_\w+|predictors)$")


def target_rules(facts: Facts) -> Iterator[Finding]:
    """target-in-features."""
    found = list(told_features(facts))
    yield from found or _target_inside(facts, Frames(facts))


def _target_inside(facts: Facts, frames: Frames) -> Iterator[Finding]:
    targets = frames.targets
    if not targets or not (facts.training.trains or facts.training.offers or frames.splits):
        return
    copies = _copies(facts, targets)
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
                core = core_of(value)
                if _selects_columns(facts, core) or _narrowed_later(facts, name, node):
                    continue
                for inner in _candidates(core):
                    yield node, _table(inner), inner


_NARROWS = words("drop pop filter select_dtypes reindex get difference")


def _narrowed_later(facts: Facts, name: str, place: ast.Assign) -> bool:
    """`X = X.drop(columns="price")`, `X.pop("price")`, `del X["price"]` further down in the same scope."""
    script = facts.script
    scope, after = script.scope(place), script.order[place]
    for call in script.called(*_NARROWS):
        own = isinstance(call.func, ast.Attribute) and name in roots(call.func)
        if own and script.order[call] > after and script.scope(call) is scope:
            return True
    later: list[ast.Assign | ast.Delete] = [*script.all(ast.Assign), *script.all(ast.Delete)]
    for node in later:
        if script.order[node] <= after or script.scope(node) is not scope:
            continue
        if isinstance(node, ast.Delete) and any(_table(target) == name for target in node.targets):
            return True
        if isinstance(node, ast.Assign) and any(last_name(target) == name for target in node.targets):
            cuts = (n for n in ast.walk(node.value) if isinstance(n, ast.Subscript))
            if any(_table(cut) == name for cut in cuts):
                return True
    return False


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
                for inner in _candidates(core_of(call.args[position])):
                    if isinstance(inner, ast.Subscript | ast.Call):
                        yield call, _table(inner), inner
                    elif isinstance(inner, ast.Name) and not _FEATURES.match(inner.id):
                        given = last_assigned(facts, inner)
                        made = core_of(given) if given is not None else None
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
        out = [core_of(core.args[0])]
    return out


def _table(node: ast.AST) -> str:
    """The table that features are taken from."""
    while isinstance(node, ast.Subscript | ast.Attribute | ast.Call):
        node = node.func if isinstance(node, ast.Call) else node.value
    return node.id if isinstance(node, ast.Name) else ""


def _target_of(
    facts: Facts, table: str, node: ast.AST, targets: set[str], copies: set[str], place: ast.AST
) -> str:
    """The target's column (or a copy of it) among features, "" where there is none or it cannot be told."""
    if not table or not _holds_target(facts, table, targets):
        return ""
    kept = columns_kept(facts, node, place)
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


def _holds_target(facts: Facts, table: str, targets: set[str]) -> bool:
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
                names_listed(
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
