"""Codes of labels and categories that mean something else at prediction than in training."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from memory_service.review.columns import LATER
from memory_service.review.facts import Facts
from memory_service.review.findings import Finding, finding
from memory_service.review.frames import column_of
from memory_service.review.rules.class_order import classes_listed
from memory_service.review.rules.label_encoding_flow import recoded
from memory_service.review.script import Function, last_name, roots

__all__ = ["code_rules"]

_ENCODERS = frozenset(
    ("LabelEncoder", "OrdinalEncoder", "OneHotEncoder", "LabelBinarizer", "MultiLabelBinarizer")
)
_SCALERS = re.compile(r"Scaler$|^(Tfidf|Count)Vectorizer$|^PCA$|Imputer$")
_FIRST = re.compile(r"(^|_)(train|trn|tr|fit|history|old)(_|\d|$)|^(x|X)tr$", re.IGNORECASE)


def code_rules(facts: Facts) -> Iterator[Finding]:
    """labels-reencoded: an encoder fitted again for other rows, or codes made of them alone."""
    found = list(_by_names(facts))
    yield from found or recoded(facts)


def _by_names(facts: Facts) -> Iterator[Finding]:
    script = facts.script
    fits: list[tuple[ast.Call, str, set[str]]] = []
    for call in script.called("fit", "fit_transform"):
        if not isinstance(call.func, ast.Attribute) or not call.args:
            continue
        made = facts.training.made_by(call.func.value)
        held = _held_class(facts, call.func.value) or made
        if held in _ENCODERS or _SCALERS.search(held or ""):
            fits.append((call, held, roots(call.args[0])))
    shown: set[ast.AST] = set()
    for first, second in _same_column(facts, fits):
        shown.add(second)
        yield finding(
            "labels-reencoded",
            second,
            f"The encoder of line {first.lineno} is fitted anew on other rows: its codes differ there.",
            f"{_owner(first) or 'encoder'}.transform(...)  # the one fitted in training, kept with the model",
        )
    for call, held, names in fits:
        if call in shown:
            continue
        later = [n for n in names if LATER.search(n) and not _FIRST.search(n)]
        if not later or _together(call):
            continue
        shown.add(call)
        others = [
            o
            for o, h, n in fits
            if o is not call and h == held and not any(LATER.search(x) and not _FIRST.search(x) for x in n)
        ]
        if not others and held not in _ENCODERS:
            continue
        if not others and not _predicts(facts, call):
            continue
        yield finding(
            "labels-reencoded",
            call,
            f"{held} is fitted again on {later[0]!r}: the same code (or scale) means something else than "
            "in training.",
            f"{_owner(call) or 'encoder'}.transform({later[0]})  "
            "# the one fitted in training, kept with the model",
        )
    yield from _each_part_by_itself(facts, shown)
    yield from classes_listed(facts)


def _same_column(
    facts: Facts, fits: list[tuple[ast.Call, str, set[str]]]
) -> Iterator[tuple[ast.Call, ast.Call]]:
    """Two fits of one kind of encoder to the same named column of two tables."""
    first: dict[tuple[str, str], tuple[ast.Call, set[str]]] = {}
    for call, held, names in sorted(fits, key=lambda fit: facts.script.order[fit[0]]):
        column = column_of(facts, call.args[0])
        if held not in _ENCODERS or column is None or not names or _together(call):
            continue
        before, tables = first.setdefault((held, column), (call, names))
        same_place = facts.script.function(before) is facts.script.function(call)
        if before is not call and not names & tables and same_place:
            yield before, call


def _owner(call: ast.Call) -> str:
    return last_name(call.func.value) if isinstance(call.func, ast.Attribute) else ""


def _held_class(facts: Facts, node: ast.AST) -> str:
    """The class of an encoder held in a dict or made in a loop: `encoders[col]`."""
    if isinstance(node, ast.Subscript):
        base = last_name(node.value)
        for assigned in facts.script.all(ast.Assign):
            for target in assigned.targets:
                if (
                    isinstance(target, ast.Subscript)
                    and last_name(target.value) == base
                    and isinstance(assigned.value, ast.Call)
                ):
                    return last_name(assigned.value.func)
    return ""


def _together(call: ast.Call) -> bool:
    """Fitted on both at once: `le.fit(pd.concat([train[c], test[c]]))`."""
    text = ast.dump(call.args[0])[:3000]
    return "concat" in text or "append" in text or any(_FIRST.search(n) for n in roots(call.args[0]))


def _predicts(facts: Facts, call: ast.Call) -> bool:
    """In a function or a file that loads a model and predicts."""
    function = facts.script.function(call)
    if function is not None and re.search(r"predict|infer|submit|test", function.name, re.IGNORECASE):
        return True
    return bool(
        facts.script.called(
            "load", "load_model", "load_state_dict", "from_pretrained", "Booster", "load_from_checkpoint"
        )
    ) or bool(facts.script.called("predict"))


def _each_part_by_itself(facts: Facts, shown: set[ast.AST]) -> Iterator[Finding]:
    """Codes made in a function, or in a loop, that sees rows of training and of prediction one after the
    other: `train = clean("train.csv"); test = clean("test.csv")`."""
    script = facts.script
    if script.called("CategoricalDtype", "set_categories", "union_categoricals"):
        return
    seen: set[ast.AST] = set()
    for place, what, data in _coding(facts):
        function = script.function(place)
        loops = [up for up in script.loops(place) if isinstance(up, ast.For)]
        by_loop = next((up for up in loops if _over_parts(facts, up)), None)
        if by_loop is not None:
            fresh = {
                n for n in data if n in {m.id for m in ast.walk(by_loop.target) if isinstance(m, ast.Name)}
            }
            apart = bool(fresh) and not _guarded(facts, place, by_loop)
        elif function is not None and script.class_of(function) is None:
            apart = _called_by_parts(facts, function, data) and not _guarded(facts, place, function)
        else:
            apart = False
        owner = by_loop or function
        if not apart or place in shown or owner in seen:
            continue
        seen.add(owner)  # type: ignore[arg-type]
        yield finding(
            "labels-reencoded",
            place,
            f"{what} runs for rows of training and of prediction by themselves: the same code stands for "
            "another category there.",
            "fit it on the training rows once; transform both",
        )


def _coding(facts: Facts) -> Iterator[tuple[ast.AST, str, set[str]]]:
    """(where, what, names) of everything that numbers categories anew."""
    script = facts.script
    for call in script.called("fit_transform"):
        if not isinstance(call.func, ast.Attribute) or not call.args:
            continue
        made = facts.training.made_by(call.func.value)
        if made in _ENCODERS and not _together(call):
            yield call, f"{made}.fit_transform", roots(call.args[0])
    for call in script.called("factorize"):
        base = call.args[0] if call.args and script.qualified(call.func).startswith("pandas") else call.func
        yield call, "factorize", roots(base)
    for node in script.all(ast.Attribute):
        if node.attr == "codes" and last_name(node.value) == "cat":
            yield node, "cat.codes", roots(node)
    if not script.called("reindex", "align"):
        for call in script.called("get_dummies"):
            if call.args and script.qualified(call.func).startswith("pandas"):
                yield call, "get_dummies", roots(call.args[0])


def _is_later(name: str) -> bool:
    return bool(LATER.search(name)) and not _FIRST.search(name)


def _over_parts(facts: Facts, loop: ast.For) -> bool:
    """`for df in (train, test)`, or under other names of what was read from such files."""
    if not isinstance(loop.iter, ast.Tuple | ast.List):
        return False
    names = [n.id for n in loop.iter.elts if isinstance(n, ast.Name)]
    if not len(names) == len(loop.iter.elts) >= 2:
        return False
    said = [[name, *_files_of(facts, name, loop)] for name in names]
    return any(_is_later(n) for part in said for n in part) and any(
        _FIRST.search(n) for part in said for n in part
    )


def _files_of(facts: Facts, name: str, at: ast.AST) -> Iterator[str]:
    """`read_csv(IN / "train.csv")` -> "train"."""
    for source in facts.values.assigned(name, at):
        for n in ast.walk(source):
            if isinstance(n, ast.Constant) and isinstance(n.value, str) and "." in n.value:
                yield n.value.rsplit("/", 1)[-1].rsplit(".", 1)[0]


def _called_by_parts(facts: Facts, function: Function, data: set[str]) -> bool:
    """A function that is called for training and again for prediction, codes among what it makes of each."""
    script = facts.script
    parameters = {p.arg for p in function.args.args}
    local = {
        last_name(t) for a in script.all(ast.Assign) if script.function(a) is function for t in a.targets
    }
    if not data & (parameters | local):
        return False
    parts: list[tuple[bool, bool]] = []
    heard: list[set[str]] = []
    for call in script.calls_by_name.get(function.name, ()):
        statement = script.statement(call)
        said = [*_written_by(statement, call), *(n for a in call.args for n in roots(a))]
        said += [v.rsplit("/", 1)[-1].removesuffix(".csv") for a in call.args if (v := facts.values.text(a))]
        heard.append({n for a in call.args for n in roots(a)})
        parts.append((any(_is_later(n) for n in said), any(_FIRST.search(n) for n in said)))
    stems = {n.rsplit("_", 1)[0] for names in heard for n in names if _is_later(n)}
    for number, names in enumerate(heard):  # beside `X_test`, `X` is what is trained on
        if not parts[number][0] and names & stems:
            parts[number] = (False, True)
    return any(later and not first for later, first in parts) and any(first for _, first in parts)


def _written_by(statement: ast.AST, call: ast.Call) -> list[str]:
    """Names that get what a call gives: of `train, test = clean(a), clean(b)` the one at its place."""
    if not isinstance(statement, ast.Assign):
        return []
    places: list[ast.AST] = []
    for target in statement.targets:
        given = statement.value
        same = isinstance(target, ast.Tuple) and isinstance(given, ast.Tuple)
        if same and call in given.elts and len(given.elts) == len(target.elts):  # type: ignore[attr-defined]
            places.append(target.elts[given.elts.index(call)])  # type: ignore[attr-defined]
        else:
            places.append(target)
    return [n.id for t in places for n in ast.walk(t) if isinstance(n, ast.Name)]


def _guarded(facts: Facts, place: ast.AST, until: ast.AST) -> bool:
    """Under a condition (`if fit:`), or beside a lookup that is kept."""
    for up in facts.script.above(place):
        if up is until:
            break
        if isinstance(up, ast.If | ast.IfExp | ast.Try):
            return True
    return any(
        isinstance(n, ast.Attribute) and n.attr in ("transform", "categories", "concat")
        for n in ast.walk(until)
    )
