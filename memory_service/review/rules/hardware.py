"""Data loaders and batch size, precision, and readings of the GPU's memory."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

from memory_service.review.facts import Facts
from memory_service.review.findings import Finding, finding, told
from memory_service.review.interpretation.state import Value, flat
from memory_service.review.source.script import (
    Function,
    all_parameters,
    bases_of,
    calls_in,
    grouped,
    is_call,
    last_name,
    name_of,
    names_in,
    parameters_of,
    receiver,
    roots,
    unpacked,
    words_in,
)
from memory_service.review.tables import words_of
from memory_service.review.training import LIGHTNING, Loop, guards_of

_RE, _SET, _LIST, _MAP = words_of("hardware")
Role = Literal["train", "valid", "test", ""]
MOST_CALLERS = 8  # callers of a function that makes loaders, each looked at by itself


@dataclass(frozen=True)
class Loader:
    """One loader. Values are lists of what is possible, None for "unknown", [] for "not given"."""

    call: ast.Call
    place: ast.Call  # its call, or the call of the function that makes it
    role: Role
    batch: ast.AST | None
    workers: list[Any] | None
    pinned: list[Any] | None
    persistent: list[Any] | None
    in_memory: bool
    on_card: bool
    open_ended: bool


def loaders_of(facts: Facts) -> list[Loader]:
    """Every loader that the file makes, in its order; of a function that makes them one for each caller."""
    if (known := facts.cache.get("loaders")) is not None:
        return known  # type: ignore[no-any-return]
    script, values = facts.script, facts.values
    found: list[Loader] = []
    used = script.uses("torch", "lightning", "pytorch_lightning", "accelerate") or "torch" in script.text
    calls = script.called("DataLoader", *(heir.name for heir in script.heirs.get("DataLoader", ())))
    for call in calls if used else ():
        function = script.function(call)
        callers = values.callers(function)[0] if function is not None and _depends(call, function) else []
        callers = [c for c in callers if script.function(c) is not function and script.runs(c)]
        if not 1 < len(callers) <= MOST_CALLERS:
            found.append(_loader(facts, call, call))
            continue
        for caller in callers:
            with values.called_by(function, caller):  # type: ignore[arg-type]
                found.append(_loader(facts, call, caller))
    facts.cache["loaders"] = found
    return found


def _depends(call: ast.Call, function: Function | None) -> bool:
    """Whether what a loader gets comes from the parameters of the function around."""
    return function is not None and bool(roots(call) & {p.arg for p in all_parameters(function)})


def _loader(facts: Facts, call: ast.Call, place: ast.Call) -> Loader:
    values = facts.values

    def known(name: str, position: int | None = None) -> list[Any] | None:
        node = values.argument(call, name, position)
        return [] if node is None else values.all(node)

    dataset, batch = values.argument(call, "dataset", 0), values.argument(call, "batch_size", 1)
    batch = values.origin(batch) if batch is not None else None  # as the one caller looked at gives it
    number = values.number(batch)
    if batch is not None and number is not None and not isinstance(batch, ast.Constant):
        batch = ast.copy_location(ast.Constant(number), batch)
    data = facts.walk.loaders.get(call, [])
    return Loader(
        call, place, _role(facts, call, dataset, place), batch,
        known("num_workers", 5), known("pin_memory", 7), known("persistent_workers"),
        bool(data) and all(_in_memory(one) for one in data),
        bool(data) and all(flat(one).on_card for one in data), values.open_ended(call),
    )  # fmt: skip


def _in_memory(data: Value) -> bool:
    """Tensors that lie in memory already: workers only cost there."""
    inner = data.attrs.get("0")
    parts = inner.items if inner is not None and inner.items else [inner] if inner is not None else []
    if data.made in ("Subset", "ConcatDataset"):
        return bool(parts) and all(_in_memory(one) for one in parts)
    return data.made in ("TensorDataset", "ArrayDataset")


def _role(facts: Facts, call: ast.Call, dataset: ast.AST | None, place: ast.Call) -> Role:
    script = facts.script
    names: list[str] = []
    for made in dict.fromkeys((place, call)):
        statement = script.statement(made)
        targets = own_targets(statement, made) if isinstance(statement, ast.Assign) else []
        names += [last_name(t) for target in targets for t in ast.walk(target) if last_name(t) != "self"]
        given = dataset if made is call else None
        names += sorted(words_in(given)) if given is not None else []
        names += sorted(w for a in made.args for w in words_in(a)) if made is not call else []
        names.append(getattr(script.function(made), "name", ""))
    known = _MAP.small_words.items()
    roles = (role for name in names for role, said in known if re.search(said, name.lower()))
    if role := next(roles, None):
        return role  # type: ignore[return-value]
    if facts.values.one(facts.values.argument(call, "shuffle", 2)) is True:
        return "train"
    if dataset is not None and (place is call or not _depends(call, script.function(call))):
        return "test" if _test_files(dataset) else ""
    return "test" if any(_test_files(a) for a in place.args) and place is not call else ""


def own_targets(statement: ast.Assign, made: ast.Call) -> list[ast.AST]:
    """What a call is assigned to: of `train, valid = make(a), make(b)` the one at its place."""
    pairs = (pair for target in statement.targets for pair in unpacked(target, statement.value))
    return [one for one, value in pairs if value is None or made in set(ast.walk(value))]


def _test_files(node: ast.AST) -> list[str]:
    """Texts of a data set that name files to predict."""
    constants = (str(n.value) for n in ast.walk(node) if isinstance(n, ast.Constant))
    return [text for text in constants if _RE.test_file.search(text)]


LEAST_WORKERS = 4  # without `cpu_count`; with it R08's 8, bounded by the cores
WANTED_WORKERS = 8
NEVER_WITHOUT_REASON = 32
LEAST_ROWS = 4096
LARGE_INPUT = 384
SHORT_TEXT = 128  # tokens
DEFAULT_BATCH = 8  # of transformers' TrainingArguments


def loader_rules(facts: Facts) -> Iterator[Finding]:
    """loader-workers, loader-pin-memory and loader-persistent-workers."""
    training = facts.training
    loaders = loaders_of(facts) if training.offers or training.trains else []
    judged = (loader for loader in loaders if loader.role != "test" or training.trains)
    for made in grouped((loader.call, loader) for loader in judged).values():
        if not any(any(loader.persistent or ()) for loader in made):
            yield from _shown(made, [_persistent(facts, loader) for loader in made], same=True)
        for rule, given in ((_workers, "workers"), (_pinned, "pinned")):
            same = len({str(getattr(loader, given)) for loader in made}) == 1
            yield from _shown(made, [rule(facts, loader) for loader in made], same=same)
    for call in training.arguments if training.trains else ():
        if not facts.values.open_ended(call):
            yield from _arguments(facts, call)
    for fit in training.fits_of("ultralytics") if facts.context.cpu_count != 1 else ():
        if facts.value(fit, "workers") == 0:
            yield finding("loader-workers", fit, "ultralytics")


def _shown(made: list[Loader], found: list[Iterator[Finding]], *, same: bool) -> Iterator[Finding]:
    """What does not depend on the caller of a function is shown in it, else at the callers that it is of."""
    for loader, items in zip(made, found, strict=True):
        for item in items:
            yield item if same else told(item.rule, loader.place, item.message, item.fix)


def _workers(facts: Facts, loader: Loader) -> Iterator[Finding]:
    cores = facts.context.cpu_count
    if loader.workers is None or loader.in_memory or (not loader.workers and loader.open_ended):
        return
    given = max([w for w in loader.workers if isinstance(w, int)] or [0])
    least = LEAST_WORKERS if cores is None else min(WANTED_WORKERS, cores)
    if loader.role in ("valid", "test") and cores is not None:
        least = max(1, least // 2)
    place = facts.argument(loader.call, "num_workers", 5)
    if given < least and cores != 1 and not has_reason(facts, loader.call, place):
        wanted = min(WANTED_WORKERS, cores) if cores else "min(8, os.cpu_count() or 1)"
        set_to = f"num_workers={given}" if loader.workers else "no num_workers, which means 0"
        beside = f" beside {cores} cores" if cores else ""
        yield finding("loader-workers", loader.call, "loader", given=set_to, beside=beside, wanted=wanted)


def _pinned(facts: Facts, loader: Loader) -> Iterator[Finding]:
    by_helper = loader.open_ended or facts.script.called("Fabric", "Accelerator")
    off = loader.pinned is not None and not any(loader.pinned) and bool(loader.pinned or not by_helper)
    if off and facts.for_card and not (loader.in_memory and loader.on_card):
        has = "has pin_memory=False" if loader.pinned else "does not set pin_memory"
        yield finding("loader-pin-memory", loader.call, "loader", has=has)


def _persistent(facts: Facts, loader: Loader) -> Iterator[Finding]:
    unknown = loader.persistent is None or (loader.open_ended and not loader.persistent)
    if loader.role == "test" or unknown or (loader.workers is not None and not any(loader.workers)):
        return
    function = facts.script.function(loader.call)
    single_pass = any(loader.call in calls_in(up.iter) for up in facts.script.around(loader.call, ast.For))
    if not single_pass and not (function is not None and _RE.predicting.search(function.name)):
        yield finding("loader-persistent-workers", loader.call, name="persistent_workers")


def _arguments(facts: Facts, call: ast.Call) -> Iterator[Finding]:
    """The same of transformers' TrainingArguments, whose defaults are 0 workers and pinned memory."""
    names = ("num_workers", "persistent_workers", "pin_memory")
    node, persistent, pinned = (facts.argument(call, f"dataloader_{name}") for name in names)
    workers = 0 if node is None else facts.values.one(node)
    least = min(LEAST_WORKERS, facts.context.cpu_count or LEAST_WORKERS)
    if isinstance(workers, int) and workers < least and not has_reason(facts, node or call, node):
        shown = f"{workers}{'' if node else ', its default'}"
        yield finding("loader-workers", node or call, "arguments", shown=shown)
    elif workers != 0 and (persistent is None or facts.values.one(persistent) is False):
        yield finding("loader-persistent-workers", persistent or call, name="dataloader_persistent_workers")
    if pinned is not None and facts.values.one(pinned) is False and facts.for_card:
        yield finding("loader-pin-memory", pinned, "arguments")


def training_batches(facts: Facts) -> list[tuple[ast.AST, int]]:
    """(where, batch size) of what feeds the training."""
    pairs = ((at, number) for at in _batch_places(facts) if at for number in facts.values.all(at) or ())
    return [(place, number) for place, number in pairs if type(number) is int and number > 0]


def _batch_places(facts: Facts) -> Iterator[ast.AST | None]:
    script = facts.script
    loaders = [x for x in loaders_of(facts) if x.role in ("train", "") and x.batch is not None]
    yield from (x.batch for x in [x for x in loaders if x.role == "train"] or loaders)
    yield from _slices(facts)
    for call in facts.training.arguments:
        given = facts.argument(call, "per_device_train_batch_size")
        if given is None and not facts.values.open_ended(call):
            given = ast.copy_location(ast.Constant(DEFAULT_BATCH), call)
        yield given
    yield from (facts.argument(fit, "batch_size") for fit in facts.training.fits_of("keras"))
    for fit in facts.training.fits_of("ultralytics"):
        given, usual = facts.argument(fit, "batch"), facts.training.set_for(fit, "batch")
        yield given or (ast.copy_location(ast.Constant(int(usual)), fit) if usual else None)
    readers = (call for call in script.called(*_LIST.readers) if _for_training(facts, call))
    yield from (facts.argument(call, "batch_size") for call in readers)
    for call in script.called("batch") if script.uses("tensorflow") else ():
        if isinstance(call.func, ast.Attribute) and call.args and _for_training(facts, call):
            yield call.args[0]
    for call in script.called(*_LIST.fastai) if script.uses("fastai") else ():
        yield facts.argument(call, "bs")


def _slices(facts: Facts) -> Iterator[ast.AST | None]:
    """Batches cut in the loop itself, or by a generator: `range(0, n, size)`, `order.split(size)`."""
    loops = {x.batch: None for x in facts.training.loops if isinstance(x.batch, ast.For)}
    for call in (c for loop in loops for c in calls_in(loop.iter)):
        yield _step_of(facts, call)
        for function in facts.script.functions.get(last_name(call.func), ())[:1]:
            names = parameters_of(function)
            for step in (_step_of(facts, inner) for inner in calls_in(function)):
                own = step.id if isinstance(step, ast.Name) and step.id in names else ""
                yield (facts.argument(call, own, names.index(own)) if own else None) or step


def _step_of(facts: Facts, call: ast.Call) -> ast.AST | None:
    """The size of the parts that a call cuts rows into."""
    name = last_name(call.func)
    if name in ("range", "trange", "arange") and len(call.args) == 3:
        return call.args[2]
    own = facts.script.qualified(call.func) == "torch.split"
    cuts = name == "split" and receiver(call) is not None
    given = facts.argument(call, "split_size", 1 if own else 0) if cuts else None
    return given if facts.values.number(given) is not None else None


def _for_training(facts: Facts, call: ast.Call) -> bool:
    words = words_in(facts.script.statement(call)) | {getattr(facts.script.function(call), "name", "")}
    about = " ".join(words).lower()
    return "train" in about or not re.search(r"val|test|pred|infer", about)


def small_batches(facts: Facts) -> Iterator[Finding]:
    """batch-too-small by R28's limits alone, where the model or the card cannot be sized."""
    training, context = facts.training, facts.context
    trains = training.trains or training.offers
    batches = training_batches(facts) if trains and accumulation(facts) in (1, None) else []
    seen = _seen(facts)
    for place, batch in batches if context.card != "cpu" else ():
        case, rows = "", context.n_train
        if seen == "images" and batch <= NEVER_WITHOUT_REASON:
            case = "images" if rows is None or rows >= 50 * batch else ""
        elif seen == "short texts" and batch <= DEFAULT_BATCH:
            case = "texts"
        elif facts.modality == "tabular" and facts.script.uses("torch", "tensorflow", "keras", "fastai"):
            few = batch <= NEVER_WITHOUT_REASON if rows is None else rows >= 50 * LEAST_ROWS
            if few and batch <= LEAST_ROWS // 4:
                case = "table"
        if case and not has_reason(facts, place, place):
            known = {"batch": batch, "tokens": facts.seq_len, "rows": LEAST_ROWS}
            yield finding("batch-too-small", facts.values.origin(place), case, **known)


def _seen(facts: Facts) -> str:
    """ "images" (or spectrograms), or "short texts" on a card with rows enough; "" of large models, too."""
    text, calls = facts.script.text, facts.script.called("create_model", "from_pretrained")
    names = [facts.text(call, "model_name", 0) for call in calls]
    large = (facts.image_size or 0) >= LARGE_INPUT or any(n and _RE.large_model.search(n) for n in names)
    as_image = "spectrogram" in text and re.search(r"conv2d\(|torchvision\.models|create_model\(", text)
    if facts.modality == "image" or (facts.modality == "audio" and as_image):
        return "" if large or facts.dense else "images"
    enough = facts.context.n_train is None or facts.context.n_train >= 50 * 64
    short = facts.seq_len is not None and facts.seq_len <= SHORT_TEXT and facts.context.card is not None
    return "short texts" if short and enough and not large and not _RE.large_text_model.search(text) else ""


def accumulation(facts: Facts) -> int | None:
    """Over how many batches gradients are accumulated (R07); None where nothing says so, 0 where unknown."""
    given = facts.script.given_as("gradient_accumulation_steps", "accumulate_grad_batches")
    numbers = [*map(facts.values.number, given)]
    stated = ((last_name(t), node.value) for node in facts.script.all(ast.Assign) for t in node.targets)
    counted = [facts.values.number(value) or 1 for name, value in stated if "accum" in name.lower()]
    known = (int(number) for number in (*numbers, *counted) if number is not None)
    return 0 if None in numbers else max(known, default=None)


def has_reason(facts: Facts, place: ast.AST, value: ast.AST | None = None) -> bool:
    """Whether a comment at the place, or where its value is set, gives a reason."""
    places = [place]
    for node in ast.walk(value) if value is not None else ():
        places += [node, *facts.values.sources(node)]
    lines = {int(getattr(node, "lineno", 0)) for node in places} - {0}
    comments = map(facts.script.comment_near, lines)
    return any(len(comment.split()) >= 3 and not _RE.no_reason.search(comment) for comment in comments)


def precision_rules(facts: Facts) -> Iterator[Finding]:
    """no-mixed-precision and deprecated-amp."""
    yield from _deprecated(facts)
    if facts.for_card and facts.context.tensor_cores is not False:
        yield from [*_torch(facts), *_unscaled(facts)] if "torch" in facts.training.kinds else ()
        yield from _by_trainer(facts)
        yield from _by_fit(facts)


def _deprecated(facts: Facts) -> Iterator[Finding]:
    script = facts.script
    for node in script.all(ast.ImportFrom):
        for alias in node.names:
            full = f"{node.module}.{alias.name}"
            if full == "apex.amp" and not any(script.around(node, ast.Try)):
                yield finding("deprecated-amp", node, "apex", paste=_paste(facts, "autocast"))
            if _RE.old.match(full) and not _is_fallback(facts, node):
                names = ", ".join(a.name for a in node.names)
                paste = _paste(facts, alias.name)
                yield finding("deprecated-amp", node, "import", full=full, names=names, paste=paste)
    for named in script.all(ast.Attribute):
        full = script.qualified(named)
        if _RE.old.match(full) and not _is_fallback(facts, named):
            yield finding("deprecated-amp", named, "name", full=full, paste=_paste(facts, named.attr))


def _paste(facts: Facts, name: str) -> str:
    """The interface of now, in fp16 on a card without bf16."""
    return _MAP.paste[name].replace("bfloat16", "float16" if facts.context.bf16 is False else "bfloat16")


def _is_fallback(facts: Facts, node: ast.AST) -> bool:
    """Within the `except ImportError` or the test of the version that old versions of torch need."""
    tests = (ast.dump(up.test)[:2000] for up in facts.script.around(node, ast.If, ast.IfExp))
    return any(facts.script.around(node, ast.ExceptHandler)) or any(map(_RE.tests_version.search, tests))


def _torch(facts: Facts) -> Iterator[Finding]:
    script = facts.script
    loops = [x for x in facts.training.loops if x.batch is not None]
    for loop in [x for x in loops if x.epoch is None or script.runs(x.epoch)][:1]:
        place = loop.batch or loop.backward
        comment = script.comment_near(getattr(place, "lineno", 0))
        reason = has_reason(facts, place) and re.search(r"fp32|precision|float32|amp", comment)
        if reason or not script.runs(loop.backward) or switched_on(facts):
            continue
        scaled = _MAP.paste["scaled"] if facts.context.bf16 is False else ""
        shown = loop.backward if place in script.loops(loop.backward) else place
        case = "accelerate" if script.called("Accelerator") else "loop"
        paste = _paste(facts, "autocast")
        yield finding("no-mixed-precision", shown, case, place, paste=paste, scaled=scaled)


def switched_on(facts: Facts) -> bool:
    """Whether autocast, half weights or a trainer's setting is there; what is switched off does not count."""
    script = facts.script
    on = (call for call in script.called("autocast") if facts.value(call, "enabled") is not False)
    kinds = (last_name(facts.argument(call, "dtype", 1) or call) for call in on)
    typed = [*script.given_as(*_LIST.types), *(given for call in script.called("to") for given in call.args)]
    contexts = (name_of(item.context_expr) for item in script.all(ast.withitem))
    return (
        any(kind not in ("float32", "float", "float64") for kind in kinds)
        or any(_asks_for_half(facts, call) for call in script.called("Accelerator", "Fabric", "initialize"))
        or any(receiver(call) is not None for call in script.called("half", "bfloat16"))
        or any(re.search(r"'(float16|bfloat16|half)'", ast.dump(node)[:400]) for node in typed)
        or any(re.search(r"autocast|amp_ctx|amp_context|precision_context", name) for name in script.imports)
        or any(re.search(r".autocast|autocast.|amp_", name) for name in contexts)
    )


def _asks_for_half(facts: Facts, call: ast.Call) -> bool:
    """Accelerator, Fabric or apex with half precision, or with an unknown one."""
    if facts.script.qualified(call.func).endswith("amp.initialize"):
        return True
    given = facts.argument(call, "mixed_precision") or facts.argument(call, "precision")
    if given is None:  # `accelerate launch` may say it
        return last_name(call.func) == "Accelerator" and facts.values.open_ended(call)
    return facts.values.one(given) not in ("no", "32", 32, "32-true")


def _unscaled(facts: Facts) -> Iterator[Finding]:
    """fp16, the default of autocast on a card, in a loop that learns, and nothing scales the loss."""
    loops = [x.batch for x in facts.training.loops if x.batch is not None and facts.script.runs(x.backward)]
    for call in facts.script.within_calls(loops) if not _RE.scales.search(facts.script.text) else ():
        given = facts.argument(call, "dtype")
        half = last_name(given) in ("float16", "half") if given is not None else len(call.args) < 2
        on = facts.value(call, "enabled") is not False and facts.text(call, "device_type", 0) != "cpu"
        if is_call(call, "autocast") and half and on and not facts.values.open_ended(call):
            yield finding("no-mixed-precision", call, "unscaled")
            return


def _by_trainer(facts: Facts) -> Iterator[Finding]:
    script, kinds = facts.script, facts.training.kinds
    lightning = "lightning" in kinds and script.uses(*LIGHTNING)
    for trainer in script.called("Trainer") if lightning else ():
        given = facts.argument(trainer, "precision")
        value, on_cpu = facts.values.one(given), facts.text(trainer, "accelerator") == "cpu"
        if given is None and not on_cpu and not facts.values.open_ended(trainer):
            yield finding("no-mixed-precision", trainer, "trainer-default")
        elif given is not None and not on_cpu and value in (32, "32", "32-true"):
            yield finding("no-mixed-precision", given, "trainer", value=value)
    for call in facts.training.arguments if "transformers" in kinds else ():
        switches = [facts.argument(call, name) for name in ("fp16", "bf16", "half_precision_backend")]
        trl = is_call(call, "SFTConfig", "DPOConfig") and switches[1] is None  # bf16, unless fp16 is on
        on = trl or any(node is not None and facts.values.one(node) is not False for node in switches)
        if not on and not facts.values.open_ended(call) and facts.value(call, "use_cpu") is not True:
            yield finding("no-mixed-precision", call, "arguments")


def _by_fit(facts: Facts) -> Iterator[Finding]:
    """Keras, fastai and ultralytics, whose fits tell nothing of the precision, or that it is full."""
    script, fits = facts.script, facts.training.fits_of
    calls = script.called("set_global_policy", "set_policy", "set_dtype_policy", "Policy")
    policies = [facts.values.text(call.args[0] if call.args else None) for call in calls]
    half = script.called("to_fp16", "to_bf16", "MixedPrecision") or script.uses("fastai.tabular")
    mixed = any(name is None or "float16" in name or "mixed" in name for name in policies)
    full = [*(() if mixed else fits("keras")[:1]), *(() if half else fits("fastai")[:1])]
    full = full if facts.modality != "tabular" else []
    full += [fit for fit in fits("ultralytics") if facts.value(fit, "amp") is False]
    for fit in full:
        yield finding("no-mixed-precision", facts.argument(fit, "amp") or fit, facts.training.fits[fit])


_ANY = _SET.peak | {"memory_allocated", "memory_stats", "get_memory_info", "get_memory_usage"}
MOST_NAMES = 4
MOST_HELPERS = 2
MOST_READINGS = 20


def memory_rules(facts: Facts) -> Iterator[Finding]:
    """memory-read-between-steps, no-memory-at-first-batch, no-memory-every-epoch."""
    if facts.training.offers:
        yield from _between_steps(facts)
    uses, tracked = facts.script.uses, facts.script.called("watch_gpu", "log_system_metrics")
    logged = uses("memory_service") or (tracked and uses("wandb", "neptune", "comet_ml", "clearml"))
    if not facts.for_card or logged or "tensorflow" in facts.training.kinds:
        return
    for loop in facts.training.loops:
        if loop.epoch is not None and facts.script.runs(loop.epoch):
            yield from _of_loop(facts, loop, loop.epoch)
            return
    for fit in facts.training.fits_of("lightning", "transformers", "keras")[:1]:
        yield from _of_callbacks(facts, fit)


def _between_steps(facts: Facts) -> Iterator[Finding]:
    script = facts.script
    read = [node for node in script.all(ast.Attribute, ast.Name) if last_name(node) in _SET.peak]
    peaks, meters = {_where(facts, one) for one in read}, {_meter(facts, one) for one in read} - {None}
    if "nvidia-smi" in script.text or re.search(r"\[['\"]peak['\"]\]", script.text):
        return
    for at, call in enumerate(script.called("memory_allocated")):
        followed = at < MOST_READINGS and _between_forward_and_backward(facts, call)
        if not followed and _where(facts, call) not in peaks and _meter(facts, call) not in meters:
            yield finding("memory-read-between-steps", call)


def _where(facts: Facts, node: ast.AST) -> tuple[ast.AST | None, ast.AST | None]:
    """The function and the innermost loop of a reading: what is read there beside it is shown beside it."""
    return facts.script.function(node), next(iter(facts.script.loops(node)), None)


def _meter(facts: Facts, node: ast.AST) -> ast.ClassDef | None:
    """A class that reads memory where it is entered or left."""
    function = facts.script.function(node)
    return facts.script.class_of(node) if getattr(function, "name", "") in ("__enter__", "__exit__") else None


def _between_forward_and_backward(facts: Facts, call: ast.Call, deep: int = 0) -> bool:
    """Read between what computes the loss and its backward pass, here or around the calls of the helper."""
    script, order = facts.script, facts.script.order
    here, (home, loop) = order[call], _where(facts, call)

    def beside(node: ast.AST) -> bool:
        return script.function(node) is home and (loop is None or loop in script.loops(node))

    backward = [c for c in facts.training.backwards if beside(c)]
    since = max((order[c] for c in backward if order[c] < here), default=-1)
    ends: list[ast.AST] = [c for c in backward if order[c] > here]
    if isinstance(home, ast.FunctionDef) and _leaves_backward(facts, home):
        ends += [n for n in script.all(ast.Return) if beside(n) and order[n] > here]
    if not ends and not backward and deep < MOST_HELPERS:
        callers = script.callers(call)
        followed = 0 < len(callers) <= MOST_CALLERS
        return followed and all(_between_forward_and_backward(facts, one, deep + 1) for one in callers)
    names = names_in(*ends)
    for _ in range(MOST_NAMES):
        leading = [n for name in names for n in script.set_in.get((home, name), ()) if beside(n)]
        between = [call for node in leading if since < order[node] < here for call in calls_in(node.value)]
        if any(name_of(call) not in _SET.moves for call in between):  # a network, or a loss
            return True
        names = names_in(*(node.value for node in leading))
    return False


def _leaves_backward(facts: Facts, function: Function) -> bool:
    """A step that returns the loss, whose backward pass the framework makes."""
    bases = bases_of(facts.script.class_of(function))
    trainer = any(base.endswith("Trainer") for base in bases)
    return bool(bases) and function.name in (("compute_loss",) if trainer else ("training_step", "forward"))


def _reads(facts: Facts, node: ast.AST) -> bool:
    """Whether a node reads memory itself, or calls a helper from elsewhere that says so."""
    if isinstance(node, ast.Call):
        return bool(_RE.helper.search(name_of(node))) and name_of(node) not in facts.script.functions
    return last_name(node) in _ANY or (isinstance(node, ast.Constant) and "nvidia-smi" in str(node.value))


def _reads_within(facts: Facts, place: ast.AST | list[ast.stmt]) -> bool:
    return any(_reads(facts, node) for node in facts.script.within(place))


def _of_loop(facts: Facts, loop: Loop, epoch: ast.For | ast.While) -> Iterator[Finding]:
    step = facts.script.function(loop.backward) if loop.batch is None else None
    comps = (n for n in facts.script.within(epoch.body) if isinstance(n, ast.ListComp | ast.GeneratorExp))
    whole = comps if step is not None and facts.script.function(epoch) is not step else ()
    of_step = (c for c in whole if any(is_call(call, step.name) for call in calls_in(c.elt)))  # type: ignore[union-attr]
    steps = next(of_step, None)  # `[train_step(batch) for batch in loader]`
    batches = loop.batch.body if loop.batch is not None else steps
    # an imported helper that has the batches may read there
    first = batches is None or _reads_within(facts, batches)
    trials = [f for name, found in facts.script.functions.items() if _RE.trial.search(name) for f in found]
    if not first and not any(_reads_within(facts, trial) for trial in trials):  # of a batch before the epochs
        place = loop.batch or steps or epoch
        yield finding("no-memory-at-first-batch", place, "loop")
    if batches is not None and not _every_epoch(facts, loop.batch, epoch):
        yield finding("no-memory-every-epoch", epoch, "loop")


def _every_epoch(facts: Facts, batch: ast.For | ast.While | None, epoch: ast.For | ast.While) -> bool:
    script = facts.script
    inner = set(script.within(batch.body)) if batch is not None else set()
    steps = _SET.of_each_batch | (names_in(batch.target) if isinstance(batch, ast.For) else set())
    epochs = names_in(epoch.target) if isinstance(epoch, ast.For) else set()

    def again(node: ast.AST) -> bool:
        if batch is not None and node in inner:
            return all(words_in(test) <= steps for test in guards_of(script, node, batch))
        tests = [n for test in guards_of(script, node, epoch) for n in ast.walk(test)]
        compared = [n for n in tests if isinstance(n, ast.Compare) and isinstance(n.ops[0], ast.Eq)]
        return not any(words_in(n.left) & epochs for n in compared)  # `if epoch == 0`: only once

    return any(_reads(facts, node) and again(node) for node in script.within(epoch.body))


def _of_callbacks(facts: Facts, fit: ast.Call) -> Iterator[Finding]:
    """Frameworks with their own loop: a callback, or a hook of the module, reads memory."""
    script = facts.script
    made = {*script.imports, *script.calls_by_name} - {*script.classes}
    if any(name[:1].isupper() and _RE.callbacks.search(name) for name in made):
        return
    first = every = False
    for function in (f for functions in script.functions.values() for f in functions if script.runs(f)):
        each = bool(_RE.epoch_hooks.search(function.name))
        own = script.within(function, follow=False) if each or script.class_of(function) is not None else ()
        if any(_reads(facts, n) or _helper_reads(facts, n) for n in own):
            first = first or bool(_RE.batch_hooks.search(function.name))
            every = every or each or _again(facts, function)
    for keyword in (k for c in script.called("LambdaCallback") for k in c.keywords if k.arg):
        if _reads_within(facts, keyword.value):
            first = first or "batch" in str(keyword.arg)
            every = every or "epoch" in str(keyword.arg)
    if not first:
        yield finding("no-memory-at-first-batch", fit, "callbacks")
    if not every:
        yield finding("no-memory-every-epoch", fit, "callbacks")


def _again(facts: Facts, function: Function) -> bool:
    """Whether a hook of batches reads memory in each epoch anew: `if batch_idx == 0`, whatever the epoch."""
    if not _RE.batch_hooks.search(function.name):
        return False
    steps = {*parameters_of(function)} | _SET.of_each_epoch

    def holds(test: ast.AST) -> bool:
        return words_in(test) <= steps

    ends = [s.test for s in function.body if isinstance(s, ast.If) and isinstance(s.body[-1], ast.Return)]
    reads = (n for n in ast.walk(function) if _reads(facts, n) or _helper_reads(facts, n))
    return all(map(holds, ends)) and any(all(map(holds, guards_of(facts.script, n, function))) for n in reads)


def _helper_reads(facts: Facts, node: ast.AST) -> bool:
    """A helper of the file that reads memory; each is looked through once."""
    if not isinstance(node, ast.Name | ast.Attribute) or not isinstance(node.ctx, ast.Load):
        return False
    known: dict[ast.AST, bool] = facts.cache.setdefault("helpers_that_read", {})
    helpers = facts.script.resolve(node)
    known |= {helper: _reads_within(facts, helper) for helper in helpers if helper not in known}
    return any(known[helper] for helper in helpers)
