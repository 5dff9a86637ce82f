"""Do codes of labels and categories mean the same at prediction as in training?"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from memory_service.domain.review.facts import Facts
from memory_service.domain.review.findings import Finding, finding
from memory_service.domain.review.frames import column_of
from memory_service.domain.review.rules_target import LATER
from memory_service.domain.review.script import last_name, roots

__all__ = ["code_rules"]

_ENCODERS = frozenset(
    ("LabelEncoder", "OrdinalEncoder", "OneHotEncoder", "LabelBinarizer", "MultiLabelBinarizer")
)


_SCALERS = re.compile(r"Scaler$|^(Tfidf|Count)Vectorizer$|^PCA$|Imputer$")


_FIRST = re.compile(r"(^|_)(train|trn|tr|fit|history|old)(_|\d|$)|^(x|X)tr$", re.IGNORECASE)


def code_rules(facts: Facts) -> Iterator[Finding]:
    """labels-reencoded: an encoder fitted again for rows of validation or prediction, or codes made of them
    alone."""
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
    yield from _codes(facts)
    yield from _listed_twice(facts)


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


def _codes(facts: Facts) -> Iterator[Finding]:
    """`pd.factorize(test[c])`, `test[c].astype("category").cat.codes`, get_dummies of each part by itself."""
    script = facts.script
    made: list[tuple[ast.AST, str, set[str]]] = []
    for call in script.called("factorize", "get_dummies"):
        base = call.args[0] if call.args and script.qualified(call.func).startswith("pandas") else call.func
        made.append((call, last_name(call.func), roots(base)))
    for node in script.all(ast.Attribute):
        if node.attr == "codes" and last_name(node.value) == "cat":
            made += [(node, "cat.codes", roots(node))]
    for place, name, names in made:
        if (
            not any(LATER.search(n) and not _FIRST.search(n) for n in names)
            or "concat" in ast.dump(script.statement(place))[:3000]
        ):
            continue
        if not any(
            other != place and n == name and not any(LATER.search(x) for x in o) for other, n, o in made
        ):
            continue
        if name == "get_dummies" and script.called("reindex", "align"):
            continue
        if name == "cat.codes" and script.called("CategoricalDtype", "set_categories", "union_categoricals"):
            continue
        yield finding(
            "labels-reencoded",
            place,
            f"{name} of each part by itself: the same code stands for another category there.",
            "categories = train[c].astype('category').cat.categories; pd.Categorical(test[c], "
            "categories=categories).codes",
        )


def _listed_twice(facts: Facts) -> Iterator[Finding]:
    """Classes listed by set() or unique() in one place and by another order in another."""
    script = facts.script
    if not facts.training.trains and not facts.training.offers:
        return
    listed: list[tuple[ast.AST, str, ast.AST]] = []
    for node in script.all(ast.Assign):
        name = last_name(node.targets[0])
        if not re.search(
            r"class|label|categor|vocab|names|idx|id2|mapping|lookup|encode", name, re.IGNORECASE
        ):
            continue
        kind = _order_of(node.value)
        if kind:
            listed.append((node, kind, node.value))
    yield from _factorized(facts, listed)
    for place, kind, _ in listed:
        if kind == "sorted":
            continue
        other = [
            k for p, k, _ in listed if p is not place and script.function(p) is not script.function(place)
        ]
        if not other:
            continue
        function = script.function(place)
        if (kind == "set" or any(k != kind for k in other)) and (
            (
                function is not None
                and re.search(r"predict|infer|submit|test|main", function.name, re.IGNORECASE)
            )
            or kind == "set"
            or script.function(place) is None
        ):
            yield finding(
                "labels-reencoded",
                place,
                f"The order of classes is made anew by {kind}(): index 3 is another class than in training.",
                "classes = sorted(train[label].unique())  # once, saved with the checkpoint",
            )
            return


def _factorized(facts: Facts, listed: list[tuple[ast.AST, str, ast.AST]]) -> Iterator[Finding]:
    """`pd.factorize(df[c])[0]` counts classes as they come; `sorted(df[c].unique())` names them otherwise."""
    columns = {
        column
        for call in facts.script.called("factorize")
        if isinstance(facts.script.parents.get(call), ast.Subscript)
        and "sort" not in {k.arg for k in call.keywords}
        for n in ast.walk(call)
        if (column := column_of(facts, n))
    }
    for place, kind, value in listed:
        if kind == "sorted" and columns & {column_of(facts, n) for n in ast.walk(value)}:
            yield finding(
                "labels-reencoded",
                place,
                "Training counted the classes as they come (factorize); sorted, index 3 is another class.",
                "codes, classes = pd.factorize(train[label])  # keep the second, names by it",
            )


def _order_of(node: ast.AST) -> str:
    """How a list of classes is ordered: "sorted", "set", "unique", or "" for what is no such list."""
    names = {last_name(n.func) for n in ast.walk(node) if isinstance(n, ast.Call)}
    if isinstance(node, ast.Call | ast.ListComp | ast.DictComp | ast.Subscript | ast.Attribute):
        if names & {"sorted", "sort"} or (names & {"unique"} and any(
            isinstance(n, ast.Attribute) and n.attr == "unique" and last_name(n.value) in ("np", "numpy")
            for n in ast.walk(node)
        )):  # fmt: skip
            return "sorted"
        if "set" in names:
            return "set"
        if names & {"unique", "drop_duplicates"}:
            return "unique"
    return ""
