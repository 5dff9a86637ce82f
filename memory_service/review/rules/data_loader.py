"""Is the card fed? Batch by the simple limits of R28, workers, pinned memory, workers that stay."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator

from memory_service.review.facts import Facts
from memory_service.review.findings import Finding, finding
from memory_service.review.loaders import Loader, loaders_of
from memory_service.review.script import last_name, words_in
from memory_service.review.tensors import on_card

__all__ = ["has_reason", "loader_rules", "training_batches"]

LEAST_WORKERS = 4
"""Asked for where nobody says how many cores there are; with `cpu_count` it is R08's 8, bounded by the
cores."""

WANTED_WORKERS = 8
NEVER_WITHOUT_REASON = 32
LEAST_ROWS = 4096
LARGE_INPUT = 384
SHORT_TEXT = 128
"""Tokens."""

DEFAULT_BATCH = 8
"""Of transformers' TrainingArguments."""

_LARGE_MODEL = re.compile(
    r"large|huge|giant|xxl|_xl|b[5-8]\b|b[5-8]_|_l\b|resnet152|resnet200|vit_l|_448|_512|eva02|1b|3b|7b|8b",
    re.IGNORECASE,
)
_PREDICTING = re.compile(r"predict|infer|submit|test", re.IGNORECASE)


def loader_rules(facts: Facts) -> Iterator[Finding]:
    """loader-workers, loader-pin-memory, loader-persistent-workers and the simple limits of batches."""
    training = facts.training
    if training.offers or training.trains:
        loaders: dict[ast.Call, list[Loader]] = defaultdict(list)
        for loader in loaders_of(facts):
            if _serves(facts, loader):
                loaders[loader.call].append(loader)
        for made in loaders.values():
            if not any(any(loader.persistent or ()) for loader in made):
                yield from _shown(made, [_persistent(facts, loader) for loader in made], same=True)
            for rule, given in ((_workers, "workers"), (_pinned, "pinned")):
                same = len({str(getattr(loader, given)) for loader in made}) == 1
                yield from _shown(made, [rule(facts, loader) for loader in made], same=same)
    for call in training.arguments:
        yield from _arguments(facts, call)


def _shown(made: list[Loader], found: list[Iterator[Finding]], *, same: bool) -> Iterator[Finding]:
    """What does not depend on the caller of a function is shown in it, else at the callers that it is of."""
    for loader, items in zip(made, found, strict=True):
        for item in items:
            yield item if same else finding(item.rule, loader.place, item.message, item.fix)


def _serves(facts: Facts, loader: Loader) -> bool:
    """Loaders of training and validation, and those of a script that only trains; not one for a quick
    look."""
    return loader.role in ("train", "valid", "") or facts.training.trains


def _workers(facts: Facts, loader: Loader) -> Iterator[Finding]:
    if loader.workers is None or loader.in_memory or (not loader.workers and loader.open_ended):
        return
    if facts.asked.cpu_count is not None and facts.asked.cpu_count <= 1:
        return
    place = facts.values.argument(loader.call, "num_workers", 5)
    given = [w for w in loader.workers if isinstance(w, int)] or [0]
    least = LEAST_WORKERS if facts.asked.cpu_count is None else min(WANTED_WORKERS, facts.asked.cpu_count)
    if loader.role in ("valid", "test") and facts.asked.cpu_count is not None:
        least = max(1, least // 2)
    if max(given) >= least or has_reason(facts, loader.call, place):
        return
    said = f"num_workers={max(given)}" if loader.workers else "no num_workers, which means 0"
    cores = facts.asked.cpu_count
    beside = f" beside {cores} cores" if cores else ""
    yield finding(
        "loader-workers",
        loader.call,
        f"The loader has {said}{beside}: the step waits while the main process reads and prepares each "
        "batch.",
        f"num_workers={min(WANTED_WORKERS, cores) if cores else 'min(8, os.cpu_count() or 1)'}, "
        "pin_memory=True, "
        "persistent_workers=True, prefetch_factor=4",
    )


def _pinned(facts: Facts, loader: Loader) -> Iterator[Finding]:
    if not facts.for_card or loader.pinned is None or (not loader.pinned and loader.open_ended):
        return
    if any(loader.pinned):
        return
    if facts.script.called("Fabric", "Accelerator") and not loader.pinned:
        return
    if loader.in_memory and on_card(facts, facts.values.argument(loader.call, "dataset", 0)):
        return
    yield finding(
        "loader-pin-memory",
        loader.call,
        f"The loader {'has pin_memory=False' if loader.pinned else 'does not set pin_memory'}: copies to "
        "the "
        "card wait for pageable memory.",
        "pin_memory=True  # and .to(device, non_blocking=True)",
    )


def _persistent(facts: Facts, loader: Loader) -> Iterator[Finding]:
    if loader.role == "test" or loader.workers == [] or loader.persistent is None:
        return
    if loader.workers is not None and not any(w for w in loader.workers):
        return
    if any(loader.persistent) or (not loader.persistent and loader.open_ended):
        return
    if any(
        isinstance(up, ast.For) and loader.call in set(ast.walk(up.iter))
        for up in facts.script.above(loader.call)
    ):
        return  # made for this one pass
    function = facts.script.function(loader.call)
    if function is not None and _PREDICTING.search(function.name):
        return
    yield finding(
        "loader-persistent-workers",
        loader.call,
        "persistent_workers is not on: every epoch starts the workers anew.",
        "persistent_workers=True",
    )


def _arguments(facts: Facts, call: ast.Call) -> Iterator[Finding]:
    """The same of transformers' TrainingArguments, whose defaults are 0 workers and pinned memory."""
    values = facts.values
    if values.open_ended(call) or not facts.training.trains:
        return
    node = values.argument(call, "dataloader_num_workers")
    workers = 0 if node is None else values.one(node)
    least = LEAST_WORKERS if facts.asked.cpu_count is None else min(LEAST_WORKERS, facts.asked.cpu_count)
    if isinstance(workers, int) and workers < least and not has_reason(facts, node or call, node):
        yield finding(
            "loader-workers",
            node or call,
            f"dataloader_num_workers is {workers}{'' if node else ', its default'}: the main process "
            "makes every "
            "batch itself.",
            "dataloader_num_workers=8, dataloader_persistent_workers=True",
        )
    elif workers != 0:
        kept = values.argument(call, "dataloader_persistent_workers")
        if kept is None or values.one(kept) is False:
            yield finding(
                "loader-persistent-workers",
                kept or call,
                "dataloader_persistent_workers is not on: every epoch starts the workers anew.",
                "dataloader_persistent_workers=True",
            )
    pinned = values.argument(call, "dataloader_pin_memory")
    if pinned is not None and values.one(pinned) is False and facts.for_card:
        yield finding(
            "loader-pin-memory",
            pinned,
            "dataloader_pin_memory=False: copies to the card wait for pageable memory.",
            "dataloader_pin_memory=True",
        )


def training_batches(facts: Facts) -> list[tuple[ast.AST, int]]:
    """(where, batch size) of what feeds the training."""
    return [
        (place, number)
        for place in _batch_places(facts)
        if place is not None
        for number in facts.values.all(place) or ()
        if isinstance(number, int) and not isinstance(number, bool) and number > 0
    ]


def _batch_places(facts: Facts) -> Iterator[ast.AST | None]:
    """Expressions that are the batch size of training."""
    script, values = facts.script, facts.values
    loaders = [x for x in loaders_of(facts) if x.role in ("train", "") and x.batch is not None]
    named = [x for x in loaders if x.role == "train"]
    yield from (loader.batch for loader in named or loaders)
    yield from _by_hand(facts)
    for call in facts.training.arguments:
        given = values.argument(call, "per_device_train_batch_size")
        if given is None and not values.open_ended(call):
            given = ast.copy_location(ast.Constant(DEFAULT_BATCH), call)
        yield given
    for fit in facts.training.fits:
        if fit.kind == "keras":
            yield values.argument(fit.call, "batch_size")
    for call in script.called(*_READERS):
        if _for_training(facts, call):
            yield values.argument(call, "batch_size")
    for call in script.called("batch") if script.uses("tensorflow") else ():
        if isinstance(call.func, ast.Attribute) and call.args and _for_training(facts, call):
            yield call.args[0]
    for call in script.called(*_FASTAI) if script.uses("fastai") else ():
        yield values.argument(call, "bs")


def _by_hand(facts: Facts) -> Iterator[ast.AST | None]:
    """Batches cut from tensors in the loop itself: `range(0, n, size)`, `order.split(size)`, a generator of
    the file that steps so."""
    loops = {x.batch: None for x in facts.training.loops if isinstance(x.batch, ast.For)}
    for loop in loops:
        for call in ast.walk(loop.iter):
            if not isinstance(call, ast.Call):
                continue
            yield _step_of(facts, call)
            for function in facts.script.functions.get(last_name(call.func), ())[:1]:
                for inner in ast.walk(function):
                    step = _step_of(facts, inner) if isinstance(inner, ast.Call) else None
                    names = [a.arg for a in function.args.args]
                    if isinstance(step, ast.Name) and step.id in names:
                        yield facts.values.argument(call, step.id, names.index(step.id)) or step
                    elif step is not None:
                        yield step


def _step_of(facts: Facts, call: ast.Call) -> ast.AST | None:
    """The size of the parts that a call cuts rows into."""
    name = last_name(call.func)
    if name in ("range", "trange", "arange") and len(call.args) == 3:
        return call.args[2]
    if name == "split" and isinstance(call.func, ast.Attribute):
        own = facts.script.qualified(call.func) == "torch.split"
        given = facts.values.argument(call, "split_size", 1 if own else 0)
        return given if facts.values.number(given) is not None else None
    return None


_READERS = ("image_dataset_from_directory", "flow_from_directory", "flow_from_dataframe")
_FASTAI = (
    "dataloaders", "from_folder", "from_df", "from_csv", "from_name_func", "from_name_re", "from_path_func",
)  # fmt: skip


def _for_training(facts: Facts, call: ast.Call) -> bool:
    words = words_in(facts.script.statement(call)) | {getattr(facts.script.function(call), "name", "")}
    return not any(re.search(r"val|test|pred|infer", w, re.IGNORECASE) for w in words) or any(
        "train" in w.lower() for w in words
    )


def small_batches(facts: Facts) -> Iterator[Finding]:
    """batch-too-small by R28's limits alone, where the model or the card cannot be sized."""
    if not facts.training.trains and not facts.training.offers:
        return
    for place, batch in training_batches(facts):
        if has_reason(facts, place, place) or _accumulates(facts) or facts.asked.card == "cpu":
            continue
        if (
            _sees_pictures(facts)
            and not facts.dense
            and batch <= NEVER_WITHOUT_REASON
            and not _is_large(facts)
        ):
            if facts.asked.n_train is not None and facts.asked.n_train < 50 * batch:
                continue
            yield finding(
                "batch-too-small",
                facts.values.origin(place),
                f"Batch {batch} of images, without a reason: most of the card stays idle.",
                "BATCH_SIZE = 128  # halve it on out-of-memory and accumulate over 2 steps",
            )
        elif _is_short_text(facts, batch):
            yield finding(
                "batch-too-small",
                facts.values.origin(place),
                f"Batch {batch} of texts of at most {facts.seq_len} tokens: most of the card stays idle.",
                "64  # halve it on out-of-memory and accumulate over 2 steps",
            )
        elif facts.modality == "tabular" and batch <= LEAST_ROWS // 4 and _is_network(facts):
            n_train = facts.asked.n_train
            if batch > NEVER_WITHOUT_REASON if n_train is None else n_train < 50 * LEAST_ROWS:
                continue
            yield finding(
                "batch-too-small",
                facts.values.origin(place),
                f"Batch {batch} of table rows: launching kernels takes longer than computing them.",
                f"BATCH_SIZE = {LEAST_ROWS}",
            )


def _sees_pictures(facts: Facts) -> bool:
    """Images, or sound that a network for images gets as a spectrogram."""
    return facts.modality == "image" or (
        facts.modality == "audio"
        and "spectrogram" in facts.script.text
        and bool(re.search(r"conv2d\(|torchvision\.models|create_model\(", facts.script.text))
    )


def _is_short_text(facts: Facts, batch: int) -> bool:
    """A batch that no card needs to be so small for: few short texts, and rows enough for larger ones."""
    known = facts.seq_len is not None and facts.seq_len <= SHORT_TEXT and facts.asked.card is not None
    enough = facts.asked.n_train is None or facts.asked.n_train >= 50 * 64
    return (
        known
        and enough
        and batch <= DEFAULT_BATCH
        and not _is_large(facts)
        and not re.search(r"causallm|seq2seq|multiplechoice|peft|lora\b|-xl\b|\db\b", facts.script.text)
    )


def _is_network(facts: Facts) -> bool:
    return facts.script.uses("torch", "tensorflow", "keras", "fastai")


def _is_large(facts: Facts) -> bool:
    size = facts.image_size
    if size is not None and size >= LARGE_INPUT:
        return True
    calls = facts.script.called("create_model", "from_pretrained")
    names = [facts.values.text(facts.values.argument(c, "model_name", 0)) for c in calls]
    return any(name and _LARGE_MODEL.search(name) for name in names)


def _accumulates(facts: Facts) -> bool:
    """Gradients are accumulated: memory is the reason for a small batch (R07)."""
    for keyword in facts.script.all(ast.keyword):
        if keyword.arg in ("gradient_accumulation_steps", "accumulate_grad_batches"):
            number = facts.values.number(keyword.value)
            if number is None or number > 1:
                return True
    for node in facts.script.all(ast.Assign):
        for target in node.targets:
            if re.search(r"accum", last_name(target), re.IGNORECASE):
                number = facts.values.number(node.value)
                if number is not None and number > 1:
                    return True
    return False


_NO_REASON = re.compile(
    r"todo|fixme|xxx|batch size$|type:|noqa|fmt:|pylint|default$|^batch(es)?( size)?$", re.IGNORECASE
)


def has_reason(facts: Facts, place: ast.AST, value: ast.AST | None = None) -> bool:
    """Whether a comment at the place, or where its value is set, gives a reason."""
    lines = {int(getattr(place, "lineno", 0))}
    for node in ast.walk(value) if value is not None else ():
        lines.add(int(getattr(node, "lineno", 0)))
        if isinstance(node, ast.Name | ast.Attribute):
            sources = (
                facts.values.assigned(node.id, node)
                if isinstance(node, ast.Name)
                else facts.values.sources(node)
            )
            lines |= {int(getattr(s, "lineno", 0)) for s in sources}
        if isinstance(node, ast.Subscript):
            held = facts.values.mapping(node.value) or {}
            key = facts.values.text(node.slice)
            if key in held:
                lines.add(int(getattr(held[key], "lineno", 0)))
    for line in lines:
        said = facts.script.comment_near(line) if line else ""
        if len(said.split()) >= 3 and not _NO_REASON.search(said):
            return True
    return False
