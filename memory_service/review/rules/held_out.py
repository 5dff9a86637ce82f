"""Scores of rows that the model learned from: judged-on-training-rows."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from memory_service.review.facts import Facts
from memory_service.review.findings import Finding, finding
from memory_service.review.source.nodes import is_call, keyword_names, receiver
from memory_service.review.tables import name_sets

_SET = name_sets("held_out")
_SCORES = re.compile(r"_(score|error|loss|report|matrix|curve)$|^(rmse|mae|mse|accuracy)|metric")
_HELD_OUT = re.compile(r"(?i)test|val|hold")


def held_out_rules(facts: Facts) -> Iterator[Finding]:
    """judged-on-training-rows."""
    folders = [c for c in facts.script.called("ImageFolder") if not facts.argument(c, "is_valid_file", 4)]
    for at, later in enumerate(folders if not facts.script.called(*_SET.divides) else ()):
        root = facts.argument(later, "root", 0)
        same = (one for one in folders[:at] if _alike(facts.argument(one, "root", 0), root))
        named = ast.unparse(getattr(facts.script.statement(later), "targets", [root])[0]) if root else ""
        if any(same) and root is not None and _HELD_OUT.search(named):
            yield finding("judged-on-training-rows", later, "folder", root=ast.unparse(root))
    for fit in facts.training.fits:
        if fit.call.args:
            yield from _part_of_fitted(facts, fit.call)
            yield from _fitted_alone(facts, fit.call)


def _part_of_fitted(facts: Facts, fit: ast.Call) -> Iterator[Finding]:
    """`model.fit(X, y)`, judged by a part that was divided from X or y."""
    order = facts.script.order
    given = facts.argument(fit, "validation_data")
    pair = next(iter(facts.values.sources(given)), given) if isinstance(given, ast.Name) else given
    judged = [(fit, one) for one in getattr(pair, "elts", [])[:2]]
    fits = [one.call for one in facts.training.fits if _alike(receiver(one.call), receiver(fit))]
    until = min((order[one] for one in fits if order[one] > order[fit]), default=order[fit] + 10**6)
    for call in facts.script.called("score", "evaluate", "predict", "predict_proba"):
        near = facts.script.function(call) is facts.script.function(fit) and order[fit] < order[call] < until
        named = is_call(call, "score", "evaluate") or _HELD_OUT.search(
            ast.unparse(call.args[0] if call.args else call)
        )
        if near and named and _alike(receiver(call), receiver(fit)):
            judged += [(call, one) for one in call.args[:1]]
    for place, part in judged:
        whole = next((one for one in fit.args[:2] if _divided(facts, part, one, fit)), None)
        if whole is not None:
            of = {"part": ast.unparse(part), "whole": ast.unparse(whole)}
            yield finding("judged-on-training-rows", place, "part", **of)
            return


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
    scores = by_hand or any(map(_SCORES.search, script.calls_by_name))
    submits = script.called("to_csv") and not scores
    if len(fit.args) < 2 or "oob_score" in script.text or (others and not submits):
        return
    if judged and all(_alike(call.args[0], fit.args[0]) for call in judged):
        yield finding("judged-on-training-rows", judged[0], "alone", rows=ast.unparse(fit.args[0]))


def _alike(one: ast.AST | None, other: ast.AST | None) -> bool:
    return one is not None and other is not None and ast.unparse(one) == ast.unparse(other)
