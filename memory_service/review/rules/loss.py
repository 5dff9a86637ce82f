"""Does the loss match what the model puts out, and what predictions are judged by?"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from memory_service.domain.common.metrics import metric_named
from memory_service.review.facts import Facts
from memory_service.review.findings import Finding, finding
from memory_service.review.outputs import SHAPES, activation_of, last_assigned, units_of
from memory_service.review.script import last_name

__all__ = ["VALUE_FAMILIES", "loss_rules"]

_LOSSES = {
    "CrossEntropyLoss": "ce",
    "cross_entropy": "ce",
    "BCEWithLogitsLoss": "bce-logits",
    "binary_cross_entropy_with_logits": "bce-logits",
    "BCELoss": "bce",
    "binary_cross_entropy": "bce",
    "NLLLoss": "nll",
    "nll_loss": "nll",
    "MSELoss": "mse",
    "mse_loss": "mse",
    "L1Loss": "l1",
    "l1_loss": "l1",
    "SmoothL1Loss": "mse",
    "HuberLoss": "mse",
    "LabelSmoothingCrossEntropy": "ce",
}
_CLASS_FAMILIES = frozenset(("auc", "log-loss", "accuracy", "f-score", "mcc"))
VALUE_FAMILIES = frozenset(("error-regression",))


def loss_rules(facts: Facts) -> Iterator[Finding]:
    """wrong-loss."""
    if facts.script.uses("torch", "lightning", "pytorch_lightning"):
        yield from _torch(facts)


def _torch(facts: Facts) -> Iterator[Finding]:
    script = facts.script
    made: set[ast.AST] = set()
    for call in script.calls:
        kind, maker = _loss_of(facts, call)
        if kind is None or not call.args:
            continue
        place = maker or call
        if place in made:
            continue
        activation = activation_of(facts, call.args[0])
        wrong = _mismatch(kind, activation)
        if wrong is None and kind == "ce" and _one_output(facts, call.args[0]):
            wrong = (
                "The model has one output: cross entropy over one class is always zero.",
                "nn.BCEWithLogitsLoss()  # or num_classes=2",
            )
        if wrong is None and kind == "ce" and _predicts_by_sigmoid(facts):
            wrong = (
                (
                    "Predictions are taken by sigmoid, label by label, while cross entropy trains one class "
                    "against the others."
                ),
                "nn.BCEWithLogitsLoss()  # targets as floats",
            )
        if wrong is None and kind in ("mse", "l1") and _judged_by_argmax(facts, call):
            wrong = (
                "Predictions are taken by argmax and judged as classes; this loss fits values.",
                "nn.CrossEntropyLoss()",
            )
        if wrong is None:
            wrong = _against_metric(facts, kind)
        if wrong is not None:
            made.add(place)
            yield finding("wrong-loss", place, *wrong)
    yield from _segmentation(facts)


def _loss_of(facts: Facts, call: ast.Call) -> tuple[str | None, ast.Call | None]:
    """(kind of loss that a call computes, the call that made the loss object)."""
    name = last_name(call.func)
    if name in _LOSSES and name[0].islower():
        return (
            (_LOSSES[name], None)
            if facts.script.qualified(call.func).startswith(("torch.", "F."))
            else (None, None)
        )
    sources: list[ast.AST] = []
    if isinstance(call.func, ast.Call):
        sources = [call.func]
    elif isinstance(call.func, ast.Name):
        sources = facts.values.assigned(call.func.id, call)
        function = facts.script.function(call)
        if not sources and function is not None and call.func.id in {a.arg for a in function.args.args}:
            position = [a.arg for a in function.args.args].index(call.func.id)
            for outer in facts.script.calls_by_name.get(function.name, ()):
                given = facts.values.argument(outer, call.func.id, position)
                if isinstance(given, ast.Name):
                    sources += facts.values.assigned(given.id, given)
                elif given is not None:
                    sources.append(given)
    elif isinstance(call.func, ast.Attribute):
        sources = facts.values.sources(call.func)
    elif isinstance(call.func, ast.Subscript):
        key = facts.values.text(call.func.slice)
        held = facts.values.mapping(call.func.value) or {}
        sources = [held[key]] if key in held else []
    for source in sources:
        while (
            isinstance(source, ast.Call)
            and last_name(source.func) in ("to", "cuda")
            and isinstance(source.func, ast.Attribute)
        ):
            source = source.func.value  # noqa: PLW2901
        if isinstance(source, ast.Call) and last_name(source.func) in _LOSSES:
            return _LOSSES[last_name(source.func)], source
    return None, None


def _mismatch(kind: str, activation: str | None) -> tuple[str, str] | None:
    if kind == "ce" and activation in ("softmax", "sigmoid"):
        return (
            (
                f"Cross entropy takes logits; here it gets what {activation} has squashed, and learns slowly "
                "and badly."
            ),
            f"return logits; {activation} only at prediction",
        )
    if kind == "bce-logits" and activation in ("sigmoid", "softmax"):
        return (
            f"BCEWithLogitsLoss applies sigmoid itself; the output went through {activation} already.",
            "return logits; sigmoid only at prediction",
        )
    if kind == "bce" and activation in ("none", "log_softmax"):
        return (
            "BCELoss takes probabilities; here it gets logits, and fails or saturates.",
            "nn.BCEWithLogitsLoss()",
        )
    if kind == "nll" and activation in ("none", "softmax", "sigmoid"):
        return "NLLLoss takes log probabilities, which nothing here makes.", "nn.CrossEntropyLoss()"
    return None


def _one_output(facts: Facts, node: ast.AST) -> bool:
    """The model behind an output has one: num_classes=1, or a last Linear(..., 1)."""
    source = last_assigned(facts, node) if isinstance(node, ast.Name) else node
    while (
        isinstance(source, ast.Call)
        and isinstance(source.func, ast.Attribute)
        and last_name(source.func) in SHAPES
    ):
        source = source.func.value
    if not isinstance(source, ast.Call):
        return False
    if units_of(facts, source) == 1:
        return True
    for made in (
        facts.values.assigned(last_name(source.func), source) if isinstance(source.func, ast.Name) else ()
    ):
        while (
            isinstance(made, ast.Call)
            and last_name(made.func) in ("to", "cuda")
            and isinstance(made.func, ast.Attribute)
        ):
            made = made.func.value  # noqa: PLW2901
        if (
            isinstance(made, ast.Call)
            and facts.values.number(facts.values.argument(made, "num_classes")) == 1
        ):
            return True
    return False


def _predicts_by_sigmoid(facts: Facts) -> bool:
    """The model's outputs go through sigmoid at prediction, and never through softmax or argmax."""
    script = facts.script
    text = script.text
    if re.search(r"softmax|argmax|\.topk|\.max\(\s*(dim=)?(1|-1)|bcewithlogits|binary_cross_entropy", text):
        return False
    for call in script.called("sigmoid"):
        inner = (
            call.args[0] if call.args else call.func.value if isinstance(call.func, ast.Attribute) else None
        )
        while (
            isinstance(inner, ast.Call)
            and isinstance(inner.func, ast.Attribute)
            and last_name(inner.func) in SHAPES
        ):
            inner = inner.func.value
        source = last_assigned(facts, inner) if isinstance(inner, ast.Name) else inner
        if isinstance(source, ast.Call) and (
            re.search(r"model|net", last_name(source.func), re.IGNORECASE)
            or last_name(source.func) in _switched(facts)
        ):
            return True
    return _label_by_label(facts)


def _switched(facts: Facts) -> set[str]:
    """Names that are put into a mode: `m.eval()`."""
    called = (call.func for call in facts.script.called("eval", "train"))
    return {last_name(func.value) for func in called if isinstance(func, ast.Attribute)}


def _label_by_label(facts: Facts) -> bool:
    """Outputs of the Trainer are compared with a threshold and judged over several labels."""
    if not facts.script.called("f1_score", "average_precision_score", "roc_auc_score", "fbeta_score"):
        return False
    for compared in facts.script.all(ast.Compare):
        outputs = {n.attr for n in ast.walk(compared.left) if isinstance(n, ast.Attribute)}
        over = isinstance(compared.ops[0], ast.Gt | ast.GtE)
        if over and "predictions" in outputs and facts.values.number(compared.comparators[0]) is not None:
            several = {
                facts.values.text(k.value) for k in facts.script.all(ast.keyword) if k.arg == "average"
            }
            return bool(several & {"micro", "macro", "samples", "weighted"})
    return False


def _judged_by_argmax(facts: Facts, call: ast.Call) -> bool:
    """The output that a loss of values gets is compared as classes, by argmax, and no other loss is there."""
    script = facts.script
    kinds = {_LOSSES[n] for n in _LOSSES if script.called(n)}
    if kinds - {"mse", "l1"} or re.search(r"one_hot|distil|teacher|reconstruct|q_value|kappa", script.text):
        return False
    fitted = _model_behind(facts, call.args[0])
    for picked in script.called("argmax"):
        base = picked.func.value if isinstance(picked.func, ast.Attribute) else picked
        inner = picked.args[0] if picked.args and last_name(base) == "torch" else base
        if fitted and inner is not picked and _model_behind(facts, inner) == fitted:
            return True
    return False


def _model_behind(facts: Facts, node: ast.AST) -> str:
    """The name of the model whose call an output is."""
    for _ in range(4):
        if isinstance(node, ast.Name):
            source = last_assigned(facts, node)
            if source is None:
                return ""
            node = source
        elif (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and last_name(node.func) in (*SHAPES, "softmax", "sigmoid")
        ):
            node = node.func.value
        else:
            break
    return last_name(node.func) if isinstance(node, ast.Call) else ""


def _against_metric(facts: Facts, kind: str) -> tuple[str, str] | None:
    """The loss of values for a metric of classes, and the other way round."""
    metric = metric_named(facts.asked.metric) if facts.asked.metric else None
    if metric is not None and kind in ("mse", "l1") and metric.family in _CLASS_FAMILIES:
        return (
            f"{metric.name} judges classes; this loss fits values.",
            "nn.CrossEntropyLoss()  # or nn.BCEWithLogitsLoss()",
        )
    if metric is not None and kind in ("ce", "nll") and metric.family in VALUE_FAMILIES:
        return f"{metric.name} judges values; this loss fits classes.", "nn.MSELoss()"
    if (
        metric is not None
        and metric.name == "RMSLE"
        and kind == "mse"
        and not re.search(r"log1p|\blog\(", facts.script.text)
    ):
        return (
            "RMSLE judges logarithms; squared error of plain values follows the largest ones.",
            "y = np.log1p(y)  # and np.expm1 of predictions",
        )
    if (
        facts.asked.task in ("image-regression", "tabular-regression", "text-regression")
        and kind
        in (
            "ce",
            "nll",
        )
        and (metric is None or metric.family != "kappa")
    ):
        return "The task is a regression; this loss fits classes.", "nn.MSELoss()"
    if (
        facts.asked.task
        in (
            "image-classification",
            "text-classification",
            "tabular-classification",
            "audio-classification",
        )
        and kind in ("mse", "l1")
        and (metric is None or metric.family not in ("kappa", "correlation"))
    ):
        return "The task is a classification; this loss fits values.", "nn.CrossEntropyLoss()"
    return None


def _segmentation(facts: Facts) -> Iterator[Finding]:
    """smp's losses: the mode against the classes, logits against an activation."""
    script, values = facts.script, facts.values
    if not script.uses("segmentation_models_pytorch"):
        return
    models = [
        c
        for c in script.calls
        if script.qualified(c.func).startswith("segmentation_models_pytorch.")
        and any(k.arg in ("classes", "encoder_name", "encoder_weights") for k in c.keywords)
    ]
    classes = {values.number(values.argument(c, "classes")) for c in models}
    activated = [c for c in models if isinstance(values.one(values.argument(c, "activation")), str)]
    for call in script.called("DiceLoss", "JaccardLoss", "FocalLoss", "TverskyLoss", "LovaszLoss"):
        mode = values.text(values.argument(call, "mode", 0))
        count = next(iter(classes)) if len(classes) == 1 else None
        if mode == "multiclass" and count == 1:
            yield finding("wrong-loss", call, "A multiclass loss over one class.", 'mode="binary"')
        if mode == "binary" and count is not None and count > 1:
            yield finding(
                "wrong-loss",
                call,
                f"A binary loss over {count:g} classes.",
                'mode="multiclass"  # or "multilabel"',
            )
        if (
            activated
            and last_name(call.func) != "FocalLoss"
            and values.one(values.argument(call, "from_logits")) is not False
            and values.argument(call, "from_logits") is None
        ):
            yield finding(
                "wrong-loss",
                call,
                f"{last_name(call.func)} takes logits; the model has an activation already.",
                "no activation in the model, or from_logits=False",
            )
