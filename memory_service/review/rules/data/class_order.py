"""Rule: the list of classes has the same order wherever it is made."""

import ast
import re
from collections.abc import Iterator
from functools import partial

from memory_service.review.facts import Facts
from memory_service.review.findings import Finding, finding
from memory_service.review.interpretation.targets import column_of
from memory_service.review.source.nodes import last_name

recoded = partial(finding, "labels-reencoded")
_PREDICTS = re.compile(r"predict|infer|submit|test|main", re.IGNORECASE)


def classes_listed(facts: Facts) -> Iterator[Finding]:
    """labels-reencoded: classes numbered in one order here and in another there."""
    yield from _listed_twice(facts)
    yield from _listed_unordered(facts)


def _listed_unordered(facts: Facts) -> Iterator[Finding]:
    """Classes numbered by walking a set, in what is made once for training and once more for validation."""
    script = facts.script
    for comp in script.all(ast.DictComp):
        over = comp.generators[0].iter
        if not (isinstance(over, ast.Call) and last_name(over.func) == "enumerate" and over.args):
            continue
        owner, function = script.class_of(comp), script.function(comp)
        maker = owner.name if owner is not None else function.name if function is not None else ""
        if not maker or len({ast.dump(c) for c in script.calls_by_name.get(maker, ())}) < 2:
            continue
        listed = over.args[0]
        sources = facts.values.sources(listed) or [listed]
        if len(sources) == 1 and _without_order(sources[0]):
            message = f"Each {maker} numbers the classes anew, in an order that differs from part to part."
            yield recoded(
                comp, message, "classes = sorted(...)  # of the training rows, once, handed to both"
            )
            return


def _without_order(node: ast.AST) -> bool:
    """A set, what a folder happens to list first, or values in the order of the rows."""
    if isinstance(node, ast.Set | ast.SetComp):
        return True
    if not isinstance(node, ast.Call):
        return False
    name = last_name(node.func)
    if name in ("list", "tuple", "tolist") and (node.args or isinstance(node.func, ast.Attribute)):
        inner = node.args[0] if node.args else node.func.value  # type: ignore[attr-defined]
        return _without_order(inner)
    of_numpy = isinstance(node.func, ast.Attribute) and last_name(node.func.value) in ("np", "numpy")
    return name in ("set", "listdir", "iterdir", "glob") or (name == "unique" and not of_numpy)


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
        function = script.function(place)
        other = {k for p, k, _ in listed if p is not place and script.function(p) is not function}
        predicts = function is None or bool(_PREDICTS.search(function.name))
        if other and (kind == "set" or (predicts and other != {kind})):
            message = (
                f"The order of classes is made anew by {kind}(): index 3 is another class than in training."
            )
            yield recoded(
                place, message, "classes = sorted(train[label].unique())  # once, saved with the checkpoint"
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
        if (column := column_of(facts.values, n))
    }
    for place, kind, value in listed:
        if kind == "sorted" and columns & {column_of(facts.values, n) for n in ast.walk(value)}:
            message = (
                "Training counted the classes as they come (factorize); sorted, index 3 is another class."
            )
            yield recoded(
                place, message, "codes, classes = pd.factorize(train[label])  # keep the second, names by it"
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
