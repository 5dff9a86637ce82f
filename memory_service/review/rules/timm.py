"""Which traps of timm does the script walk into?"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from memory_service.review.facts import Facts
from memory_service.review.findings import Finding, finding
from memory_service.review.script import last_name, words, words_in

__all__ = ["timm_rules"]

_TIMM_LOSSES = words(
    "AsymmetricLossMultiLabel AsymmetricLossSingleLabel BinaryCrossEntropy JsdCrossEntropy "
    "LabelSmoothingCrossEntropy SoftTargetCrossEntropy PolyCrossEntropy PolyBinaryCrossEntropy "
    "TwoWayLoss ZlprLoss DistributionBalancedLoss asymmetric_loss binary_cross_entropy "
    "cross_entropy jsd"
)


_LOSS_PARAMETERS = {
    "LabelSmoothingCrossEntropy": "smoothing",
    "JsdCrossEntropy": "smoothing num_splits alpha",
    "BinaryCrossEntropy": "smoothing target_threshold weight reduction sum_classes pos_weight smooth_dense",
    "AsymmetricLossMultiLabel": "gamma_neg gamma_pos clip eps disable_torch_grad_focal_loss smoothing "
    "reduction weight pos_weight",
}
_PARTS = re.compile(r"^timm\.(loss|scheduler|optim)(?=\.|$)")
"""Parts that are not there after `import timm` alone."""

_HEADS = (
    (
        re.compile(
            r"^(tf_)?(efficientnet|mobilenet|mixnet|densenet|mnasnet|fbnet|ghostnet|hardcorenas|tinynet|lcnet)|^hrnet"
        ),
        "classifier",
    ),
    (
        re.compile(
            r"^(resnet|resnext|seresnet|seresnext|wide_resnet|ecaresnet|skresnet|res2net|gluon_resnet|resnest|inception|xception)(?!v2)"
        ),
        "fc",
    ),
    (
        re.compile(
            r"^(vit|deit|beit|eva|xcit|cait|mixer|levit|pit|convnext|swin|regnet|nfnet|maxvit|coatnet|tiny_vit)"
        ),
        "head",
    ),
)


_HEAD_NAMES = ("fc", "classifier", "head", "last_linear")


_FIXED_SIZE = re.compile(
    r"^(vit|deit|beit|swin|eva|cait|mixer|volo|xcit|crossvit|twins|tnt|gmlp|resmlp|maxvit|"
    r"coatnet)\w*?_(\d{3})(\.|$)"
)


_PREDICTS = re.compile(r"^(predict|infer|inference|submit|submission|test|tta)(_|$)", re.IGNORECASE)


def timm_rules(facts: Facts) -> Iterator[Finding]:
    """timm-trap."""
    if facts.script.uses("timm"):
        yield from _not_loaded(facts)
        yield from _timm_losses(facts)
        yield from _timm_models(facts)
        yield from _timm_schedules(facts)


def _timm_losses(facts: Facts) -> Iterator[Finding]:
    script = facts.script
    for node in script.all(ast.ImportFrom):
        module = node.module or ""
        if module == "timm.models.layers" or module.startswith("timm.models.layers."):
            yield finding(
                "timm-trap",
                node,
                "timm.models.layers has moved and goes away.",
                f"from timm.layers import {', '.join(a.name for a in node.names)}",
            )
        if module == "timm.loss":
            for alias in node.names:
                if alias.name not in _TIMM_LOSSES and alias.name.endswith(("Loss", "Entropy", "loss")):
                    yield finding(
                        "timm-trap",
                        node,
                        f"timm.loss has no {alias.name}.",
                        f"one of {', '.join(sorted(n for n in _TIMM_LOSSES if n[0].isupper()))}, or torch.nn",
                    )
    mixes = [
        c
        for c in script.called("Mixup", "FastCollateMixup", "CutMix", "MixUp")
        if script.qualified(c.func).startswith(("timm.", "torchvision."))
    ]
    mixed = bool(mixes) or bool(re.search(r"mixup|cutmix", script.text))
    for call in script.called("LabelSmoothingCrossEntropy", "SoftTargetCrossEntropy"):
        if not script.qualified(call.func).startswith("timm."):
            continue
        name = last_name(call.func)
        if name == "LabelSmoothingCrossEntropy" and mixes and not _for_validation(facts, call):
            yield finding(
                "timm-trap",
                call,
                "LabelSmoothingCrossEntropy takes class numbers; Mixup hands out soft targets (and "
                "smooths them itself).",
                "SoftTargetCrossEntropy()  # in training; nn.CrossEntropyLoss() in validation",
            )
        if (
            name == "SoftTargetCrossEntropy"
            and not mixed
            and not re.search(
                r"one_hot|soft(?!max)|distil|teacher|eye\(", script.text.replace("softtargetcrossentropy", "")
            )
        ):
            yield finding(
                "timm-trap",
                call,
                "SoftTargetCrossEntropy takes a distribution over classes; nothing here makes one of "
                "class numbers.",
                "nn.CrossEntropyLoss(label_smoothing=0.1)",
            )


def _not_loaded(facts: Facts) -> Iterator[Finding]:
    """Parts of timm that are not there, and parameters that its losses have not."""
    script = facts.script
    loaded = {m for m in script.modules if m.startswith("timm.")}
    for named in script.all(ast.Attribute):
        part = _PARTS.match(script.qualified(named))
        if part and not any(m == part[0] or m.startswith(part[0] + ".") for m in loaded):
            yield finding(
                "timm-trap",
                named,
                f"import timm does not load {part[0]}: it has no attribute {part[1]}.",
                f"import {part[0]}",
            )
    for call in script.calls:
        name, known = last_name(call.func), _LOSS_PARAMETERS.get(last_name(call.func), "").split()
        if not known or not script.qualified(call.func).startswith("timm."):
            continue
        for keyword in call.keywords:
            if keyword.arg and keyword.arg not in known:
                yield finding(
                    "timm-trap", call, f"timm's {name} has no {keyword.arg}.", f"{name}({known[0]}=0.1)"
                )


def _for_validation(facts: Facts, call: ast.Call) -> bool:
    return any(re.search(r"val|test|eval", w, re.IGNORECASE) for w in words_in(facts.script.statement(call)))


def _timm_models(facts: Facts) -> Iterator[Finding]:
    script, values = facts.script, facts.values
    calls = [
        c
        for c in script.called("create_model")
        if script.qualified(c.func).startswith(("timm.", "create_model"))
        or (script.uses("timm") and not script.qualified(c.func).startswith("segmentation_models_pytorch."))
    ]
    names = {n for c in calls if (n := values.text(values.argument(c, "model_name", 0)))}
    if len(names) == 1:
        yield from _wrong_head(facts, next(iter(names)))
    for call in calls:
        name = values.text(values.argument(call, "model_name", 0))
        if values.open_ended(call) or _only_asked(facts, call):
            continue
        if name is not None:
            yield from _wrong_size(facts, call, name)
        if not (facts.training.trains or facts.training.offers):
            continue
        given = {k.arg for k in call.keywords}
        if (
            values.argument(call, "pretrained", 1) is None
            and not _weights_follow(facts, call, calls)
            and "checkpoint_path" not in given
        ):
            yield finding(
                "timm-trap",
                call,
                "create_model starts from random weights unless told otherwise.",
                "timm.create_model(name, pretrained=True, num_classes=N)",
            )
        if not {"num_classes", "features_only"} & given and not _head_handled(facts):
            yield finding(
                "timm-trap",
                call,
                "Without num_classes the head keeps the 1000 classes (or so) of its pretraining.",
                "timm.create_model(name, pretrained=True, num_classes=N_CLASSES)",
            )


_TELLS = words(
    "resolve_data_config resolve_model_data_config pretrained_cfg default_cfg num_features feature_info"
)


MOST_READ = 60
"""Uses of a name that are looked at; a probe has one or two."""


def _only_asked(facts: Facts, call: ast.Call) -> bool:
    """A network that is asked for its settings, never trained: `resolve_data_config({}, model=probe)`."""
    script = facts.script
    up = script.parents.get(call)
    if not isinstance(up, ast.Assign):
        return _asks(facts, call)
    names = {t.id for t in up.targets if isinstance(t, ast.Name)}
    if len(names) != len(up.targets):
        return False
    read = [n for n in script.all(ast.Name) if n.id in names and isinstance(n.ctx, ast.Load)]
    if len(read) > MOST_READ:
        return False
    read = [node for node in read if call in facts.values.assigned(node.id, node)]
    return bool(read) and all(_asks(facts, node) for node in read)


def _asks(facts: Facts, node: ast.AST) -> bool:
    above = facts.script.parents.get(node)
    if isinstance(above, ast.keyword):
        above = facts.script.parents.get(above)
    return isinstance(above, ast.Call | ast.Attribute) and (
        last_name(above.func if isinstance(above, ast.Call) else above) in _TELLS
    )


def _weights_follow(facts: Facts, call: ast.Call, networks: list[ast.Call]) -> bool:
    """Whether weights are loaded into the network, not only into one like it that predicts what this one
    learned."""
    script, order = facts.script, facts.script.order
    loads = script.called("load_state_dict", "load_checkpoint")
    if loads and any(facts.values.argument(c, "pretrained", 1) is not None for c in networks):
        return True
    for load in loads:
        held = load.func.value if isinstance(load.func, ast.Attribute) else None
        into = facts.training.makers(held) if held is not None else []
        if into and call not in into and all(c in networks for c in into):
            continue
        function = script.function(load)
        trained = [order[b] for b in facts.training.backwards if script.function(b) is function]
        if function is script.function(call):
            if order[call] < order[load] and not any(order[call] < t < order[load] for t in trained):
                return True
        elif trained:
            if order[load] < min(trained):
                return True
        elif function is None or not _PREDICTS.search(function.name):
            return True
    return False


def _head_handled(facts: Facts) -> bool:
    script = facts.script
    if script.called("reset_classifier", "forward_features", "get_classifier") or "1000" in script.text:
        return True
    if re.search(r"lazylinear|adaptiveavgpool|adaptive_avg_pool", script.text):
        return True
    return any(
        isinstance(t, ast.Attribute) and t.attr in _HEAD_NAMES and last_name(t.value) != "self"
        for n in script.all(ast.Assign)
        for t in n.targets
    )


def _wrong_head(facts: Facts, name: str) -> Iterator[Finding]:
    """`model.fc = nn.Linear(...)` on a network whose head has another name does nothing."""
    right = next((head for pattern, head in _HEADS if pattern.match(name)), None)
    if right is None:
        return
    for node in facts.script.all(ast.Assign):
        for target in node.targets:
            if (
                not isinstance(target, ast.Attribute)
                or target.attr not in _HEAD_NAMES
                or target.attr == right
            ):
                continue
            if last_name(target.value) == "self" or facts.training.made_by(target.value) != "create_model":
                continue
            yield finding(
                "timm-trap",
                node,
                f"The head of {name} is .{right}; a new .{target.attr} is never called and the old head "
                "stays.",
                "timm.create_model(name, pretrained=True, num_classes=N_CLASSES)  # or "
                "model.reset_classifier(N_CLASSES)",
            )


def _wrong_size(facts: Facts, call: ast.Call, name: str) -> Iterator[Finding]:
    fixed = _FIXED_SIZE.match(name)
    if fixed is None or any(k.arg in ("img_size", "dynamic_img_size") for k in call.keywords):
        return
    size, wanted = facts.image_size, int(fixed.group(2))
    if (
        facts.asked.image_size is not None
        and size == facts.asked.image_size
        and not facts.script.called("Resize", "RandomResizedCrop", "CenterCrop")
    ):
        return
    if size is not None and size != wanted and 128 <= wanted <= 1024:
        yield finding(
            "timm-trap",
            call,
            f"{name} takes {wanted} pixels; the script feeds {size}.",
            f"timm.create_model({name!r}, pretrained=True, img_size={size}, num_classes=N_CLASSES)",
        )


def _timm_schedules(facts: Facts) -> Iterator[Finding]:
    built = _from_factory(facts)
    for call in facts.script.called("step"):
        if call.args or call.keywords or not isinstance(call.func, ast.Attribute):
            continue
        made = facts.training.made_by(call.func.value)
        imported = facts.script.imports.get(made, "").startswith("timm.scheduler")
        if last_name(call.func.value) in built or (made.endswith("LRScheduler") and imported):
            yield finding(
                "timm-trap",
                call,
                f"step() of timm's {made or 'schedules'} wants the epoch; without it it fails.",
                "scheduler.step(epoch + 1)",
            )


def _from_factory(facts: Facts) -> set[str]:
    """Names of schedules made by `scheduler, epochs = create_scheduler_v2(optimizer)`."""
    out: set[str] = set()
    for node in facts.script.all(ast.Assign):
        made = node.value.value if isinstance(node.value, ast.Subscript) else node.value
        if isinstance(made, ast.Call) and re.match(
            r"timm\.scheduler\.(\w+\.)?create_scheduler(_v2)?$", facts.script.qualified(made.func)
        ):
            firsts = [
                t.elts[0] if isinstance(t, ast.Tuple | ast.List) and t.elts else t for t in node.targets
            ]
            out |= {last_name(first) for first in firsts}
    return out
