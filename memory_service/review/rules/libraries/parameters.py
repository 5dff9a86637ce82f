"""Arguments, values and names that libraries have removed or never had, or that contradict each other.

`signatures.txt` has one call a line with its parameters, read from the installed libraries (scikit-learn 1.9,
torch 2.15, lightgbm 4.7, xgboost 3.2, lightning 2.6, transformers 5.23, accelerate 1.15; losses of timm)."""

from __future__ import annotations

import ast
import builtins
import re
from collections.abc import Iterator
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

from memory_service.review.facts import Facts
from memory_service.review.findings import Finding, finding, told, wrong
from memory_service.review.source.script import (
    Script,
    bound_names,
    calls_in,
    is_call,
    is_none,
    keyword_names,
    last_name,
    names_in,
    receiver,
    receiver_name,
    targets_of,
)
from memory_service.review.tables import KINDS, PATTERNS, words_of
from memory_service.review.training import KERAS, LIGHTNING

_RE, _SET, _, _MAP = words_of("parameters")
GROWS = PATTERNS["stopping_and_schedules"]["grows"]
MOST_COPIES = 3  # of copies of a table
LARGEST_RATE = 0.05  # of Adam; no recipe has more
FINE_TUNING_RATE = 5e-3  # no pretrained transformer is trained at more
ENCODER_RATE = 5e-4  # of an encoder of text as a whole: papers of BERT to DeBERTa search 5e-6 to 3e-4


def largest_tuning_rate(script: Script) -> float:
    """For the pretrained transformer of a script, whose every layer learns at one rate."""
    whole = not _RE.adapted.search(script.text)
    return ENCODER_RATE if whole and any(map(_RE.encoder.search, script.strings)) else FINE_TUNING_RATE


def parameter_rules(facts: Facts) -> Iterator[Finding]:
    """wrong-parameter, result-thrown-away and undefined-name."""
    for about in (_thrown_away, _assigned, _never_judged, _linear_layers, _names, _undefined, _by_kinds):
        yield from about(facts)
    for call in facts.script.calls:
        yield from _contradictions(facts, call)
        yield from _of_keras(facts, call) if facts.script.uses(*KERAS) else ()
        yield from _rates(facts, call)
        yield from _unknown_arguments(facts, call)
        yield from _removed(facts, call)


def _thrown_away(facts: Facts) -> Iterator[Finding]:
    """`img.convert("RGB")`, `df.dropna()` as a statement of its own; the last of a cell is shown."""
    script = facts.script
    for node in script.all(ast.Expr):
        call = node.value
        if not is_call(call, *_SET.gives) or not isinstance(receiver(call), ast.Name):
            continue
        behind = script.lines[(node.end_lineno or node.lineno) :]
        following = next((line for line in behind if line.strip()), "#%%")
        if not _RE.last.match(following.lstrip()) and not _changes(facts, call, last_name(call.func)):
            what = ast.unparse(call.func)
            yield finding("result-thrown-away", node, what=what, name=what.split(".")[0])
    read = {node.id for node in script.all(ast.Name) if isinstance(node.ctx, ast.Load)}
    yield from _never_read(facts) if facts.training.trains else ()
    for made in script.all(ast.Assign) if facts.training.trains else ():
        to = made.targets[0] if is_call(made.value, *_SET.acts) else None
        if isinstance(to, ast.Name) and to.id not in read:
            yield finding("result-thrown-away", made, "unused", name=to.id)
    copies = [t for made in script.all(ast.Assign) for t in made.targets if _is_copy(facts, t)]
    inplace = [c for c in script.calls if facts.value(c, "inplace") is True and _is_copy(facts, receiver(c))]
    for place in [*copies, *inplace]:
        what = ast.unparse(place.func if isinstance(place, ast.Call) else place)
        yield finding("result-thrown-away", place, "copy", what=what, name=what.split("[")[0])


def _never_read(facts: Facts) -> Iterator[Finding]:
    """Rows or loaders that are held out, and predictions, that nothing in the file looks at again."""
    script, home = facts.script, facts.script.function
    stated = ((made.value, last_name(made.targets[0])) for made in script.all(ast.Assign))
    own = {n for value, to in stated for n in ast.walk(value) if last_name(n) == to}  # `x = x / 255`
    loaded = [n for n in script.all(ast.Name) if isinstance(n.ctx, ast.Load) and n not in own]
    read = {(up, n.id) for n in loaded for up in script.around(n, ast.FunctionDef, ast.AsyncFunctionDef)}
    anywhere = {n.id for n in loaded}
    shared = {name for node in script.all(ast.Global) for name in node.names}
    for node in script.all(ast.Assign, ast.AugAssign):
        first = getattr(node.value, "left", node.value)
        names = sorted(names_in(*targets_of(node))) if isinstance(first, ast.Call) else []
        if is_call(first, "predict", "predict_proba", "transform", "fit_transform"):
            names = names if isinstance(targets_of(node)[0], ast.Name) else []
        elif is_call(first, "DataLoader") or len(names) > 1:
            held = [name for name in names if _RE.held_out.search(name) and "train" not in name]
            names = held if len(held) > 1 or is_call(first, "DataLoader") else []
        else:
            continue
        function = home(node)
        open_to = [n for n in names if n == "_" or (n in anywhere and (function is None or n in shared))]
        if names and not open_to and not any((function, name) in read for name in names):
            yield finding("result-thrown-away", node, "never-read", name=", ".join(names))


def _is_copy(facts: Facts, part: ast.AST | None) -> bool:
    """`df[df.a > 0]["b"]`, or a column that is to be changed in place: from pandas 3 on both are copies."""
    if not isinstance(part, ast.Subscript) or not facts.script.uses("pandas"):
        return False
    inner, base, keys = part.value, part.value, [part.slice]
    if isinstance(inner, ast.Subscript):
        base, keys = inner.value, [inner.slice, part.slice]
    elif not isinstance(facts.script.parents[part], ast.Attribute):
        return False
    masks = sum(isinstance(key, ast.Compare | ast.BinOp) for key in keys)
    named = sum(isinstance(facts.values.one(key), str) for key in keys)
    return named == 1 and masks == len(keys) - 1 and _is_table(facts, base)


def _is_table(facts: Facts, base: ast.AST | None, deep: int = 0) -> bool:
    """Whether pandas makes it, or a part of it; a dict has a `copy`, too, and a file its own `read_rows`."""
    for maker in facts.values.makers(base.value if isinstance(base, ast.Subscript) else base):
        name, of = last_name(maker.func), facts.script.qualified(maker.func)
        copied = name in _SET.gives and deep < MOST_COPIES and _is_table(facts, receiver(maker), deep + 1)
        if copied or name == "merge" or _RE.table.match(of):
            return True
    return False


def _changes(facts: Facts, call: ast.Call, name: str) -> bool:
    """Whether the object may be another, which changes in place."""
    script, base = facts.script, receiver(call) or call
    if any(keyword.arg in ("inplace", None) for keyword in call.keywords) or name in script.functions:
        return True
    made = [last_name(maker.func) for maker in facts.values.makers(base)]
    if name in ("convert", "resize"):
        return not any(one == "open" and script.uses("PIL") for one in made)
    return not (script.uses("pandas") and _is_table(facts, base))


def _assigned(facts: Facts) -> Iterator[Finding]:
    """A part of random_split whose data set is changed."""
    script, every = facts.script, facts.script.all(ast.Assign)
    stated = [(node, to, getattr(to, "value", to)) for node in every for to in node.targets]
    held = [each for each in stated if isinstance(each[2], ast.Attribute) and each[2].attr == "dataset"]
    values = {ast.unparse(to): ast.unparse(node.value) for node, to, _ in held}
    for node, to, rows in held:
        made = script.set_in.get((script.function(node), last_name(getattr(rows, "value", rows))), ())
        targets = [m.targets[0] for m in made if is_call(m.value, "random_split")]
        parts = [ast.unparse(part) for target in targets for part in getattr(target, "elts", [])]
        alike = len({values.get(f"{part}.dataset.{last_name(to)}") for part in parts}) < 2
        anew = any(ast.unparse(t) == ast.unparse(rows) for one in made for t in one.targets)
        if not alike and not anew and not script.loops(node):  # there each may set its own before its turn
            yield wrong(node, "shared", what=ast.unparse(to))


def _contradictions(facts: Facts, call: ast.Call) -> Iterator[Finding]:
    match name := last_name(call.func):
        case "KFold" | "StratifiedKFold" if facts.script.is_of(call.func, "sklearn"):
            shuffles = facts.argument(call, "shuffle", 1) and facts.value(call, "shuffle", 1) is not False
            if facts.value(call, "random_state", 2) is not None and not shuffles:
                yield wrong(call, "random-state", name=name)
        case "ImageDataGenerator":
            named = [str(k.arg) for k in call.keywords if _RE.statistics.match(k.arg or "")]
            stated = [k for k in named if facts.value(call, k) is True]
            fits = (receiver(fit) for fit in facts.script.called("fit"))
            if stated and not any(call in facts.values.makers(one) for one in fits if one is not None):
                yield wrong(call, "never-fitted", name=stated[0])
        case "flow_from_directory" | "flow_from_dataframe" if facts.text(call, "subset") == "validation":
            makers = facts.values.makers(receiver(call) or call)
            if makers and not any(facts.argument(one, "validation_split") for one in makers):
                yield wrong(call, "no-subset")
        case "SFTTrainer" if given := facts.argument(call, "peft_config"):
            model = facts.argument(call, "model", 0)
            adds = all(isinstance(one, ast.Call) for one in facts.values.sources(given) or [given])
            if adds and any(is_call(m, "get_peft_model") for m in facts.values.makers(model)):
                yield wrong(given, "adapted-twice")
        case "GridSearchCV" | "RandomizedSearchCV":
            yield from _removed_in_grid(facts, call)
        case "map" if facts.script.uses("transformers") and call.args and isinstance(call.args[0], ast.Name):
            for function in facts.script.functions.get(call.args[0].id, ()):
                yield from _not_cut(facts, function)


def _linear_layers(facts: Facts) -> Iterator[Finding]:
    """Two layers without an activation between them are one: `Dense(64)`, then `Dense(1)`."""
    script, made = facts.script, 0
    rows: dict[Any, list[ast.expr]] = {}
    for call in script.called("Sequential", "add"):
        given = call.args[0] if len(call.args) == 1 else None
        if is_call(call, "Sequential"):
            made += 1
            rows[call] = getattr(given, "elts", call.args)
        elif given is not None:
            rows.setdefault((made, script.function(call), receiver_name(call)), []).append(given)
    for row in rows.values():
        for layer, after in pairwise(layer for layer in row if not is_call(layer, "Dropout", "Flatten")):
            linear = is_call(layer, "Linear") and facts.value(layer, "bias", 2) is not False
            linear = linear or (is_call(layer, "Dense") and not facts.argument(layer, "activation", 1))
            if linear and is_call(after, "Linear", "Dense") and not facts.values.open_ended(layer):  # type: ignore[arg-type]
                yield wrong(layer, "linear-layers")


def _of_keras(facts: Facts, call: ast.Call) -> Iterator[Finding]:
    name, activation, script = last_name(call.func), facts.text(call, "activation"), facts.script
    if name in ("LSTM", "GRU") and activation not in (None, "tanh"):
        yield wrong(call, "slow-cells", name=name, activation=activation)
    if learns := name in ("fit", "fit_generator"):
        yield from _steps(facts, call)
    if learns or name in ("predict", "predict_generator"):
        yield from _flows(facts, call, learns=learns)
    if name == "EarlyStopping":
        loads = script.called("ModelCheckpoint", "load_weights", "fit_generator")
        keeps = loads or script.uses("keras_tuner") or facts.values.open_ended(call)
        if not keeps and facts.argument(call, "restore_best_weights", 6) is None and name in script.imports:
            yield wrong(call, "best-left")
        patience, epochs = facts.number(call, "patience", 2), facts.training.framework_epochs("keras")
        if patience and epochs and patience >= epochs:
            yield wrong(call, "patience", patience=patience, epochs=epochs)


def _flows(facts: Facts, call: ast.Call, *, learns: bool) -> Iterator[Finding]:
    """Pictures of an ImageDataGenerator: judged changed at random, or predicted in an order that is lost."""
    judged = facts.argument(call, "validation_data") if learns else facts.argument(call, "x", 0)
    for flow in facts.values.makers(judged):
        base = receiver(flow)
        made = facts.values.last(base) if isinstance(base, ast.Name) else [base]
        for by in (one for one in made if is_call(one, "ImageDataGenerator")):
            changed = any(facts.values.one(k.value) for k in by.keywords if _RE.at_random.search(str(k.arg)))
            if changed or not (learns or facts.argument(flow, "shuffle")):
                yield wrong(flow, "random-validation" if changed else "order-lost")


def _steps(facts: Facts, fit: ast.Call) -> Iterator[Finding]:
    """`steps_per_epoch=n // 40` of a generator whose batches are of 10."""
    steps = facts.argument(fit, "steps_per_epoch")
    rows = facts.argument(fit, "x", 0) or facts.argument(fit, "generator")
    made = {facts.number(maker, "batch_size") for maker in facts.values.makers(rows)} - {None}
    nodes = [n for one in (steps, *facts.values.sources(steps)) for n in ast.walk(one)] if steps else []
    parts = [n for n in nodes if isinstance(n, ast.BinOp) and isinstance(n.op, ast.FloorDiv)]
    counted = {facts.values.number(part.right): part for part in parts}
    if len(made) == 1 and not made & counted.keys():  # `n // 32 // 2` means half an epoch
        for of in counted.keys() - {None}:
            yield wrong(counted[of], "other-steps", of=of, made=next(iter(made)))


def _removed_in_grid(facts: Facts, call: ast.Call) -> Iterator[Finding]:
    """Values of a search that its estimator does not take any more."""
    estimator = facts.values.made_by(facts.argument(call, "estimator", 0))
    grid = facts.argument(call, "param_grid") or facts.argument(call, "param_distributions", 1)
    for name, values in facts.values.entries(grid).known.items() if estimator else ():
        for removed in removed_of(estimator):
            given = getattr(values, "elts", [])
            gone = (one for one in given if removed.value and facts.values.text(one) == removed.value)
            if removed.argument == name.rpartition("__")[2] and (one := next(gone, None)) is not None:
                message = f"{estimator} takes no {removed.argument}={removed.value!r}."
                yield told("wrong-parameter", one, message, removed.instead)


def _minimised(facts: Facts, call: ast.Call) -> Iterator[Finding]:
    """Early stopping by a score of the file's own that is better when greater, and nobody says so."""
    given = facts.argument(call, "feval") or facts.argument(call, "custom_metric")
    stops = facts.argument(call, "early_stopping_rounds") and not facts.argument(call, "maximize")
    for function in facts.script.functions.get(last_name(given), ()) if given and stops else ():
        returned = (one.elts[0] for one in facts.script.returned(function) if isinstance(one, ast.Tuple))
        for name in filter(None, map(facts.values.text, returned)):
            if GROWS.search(name.lower()):
                yield wrong(given or call, "minimised", name=name)


def _not_cut(facts: Facts, function: ast.AST) -> Iterator[Finding]:
    """Texts that a pretrained tokenizer makes tokens of, for a network that learns from all of them."""
    trained = "transformers" in facts.training.kinds and not _RE.cut.search(facts.script.text)
    for call in calls_in(function) if trained else ():
        loaded = [m for m in facts.values.makers(call.func) if is_call(m, "from_pretrained")]
        cut = keyword_names(call) & {"truncation", "max_length"} or facts.values.open_ended(call)
        if not cut and any("Tokenizer" in ast.unparse(one.func) for one in loaded):
            yield wrong(call, "not-cut")


def _rates(facts: Facts, call: ast.Call) -> Iterator[Finding]:
    """Adam at a rate at which training diverges; a pretrained encoder of text at Adam's usual rate."""
    name, called = last_name(call.func), facts.script.called
    of_torch = facts.script.qualified(call.func).startswith(("torch.", "optim.", "transformers."))
    if not name.startswith("Adam") or not of_torch or facts.values.open_ended(call):
        return
    if given := facts.argument(call, "lr", 1):
        most = FINE_TUNING_RATE if called("from_pretrained") else LARGEST_RATE
        rate = facts.values.number(given)
        own = getattr(call.args[0], "elts", []) if call.args else []  # tensors, as pixels are
        if rate is not None and rate > most and not (own and all(isinstance(one, ast.Name) for one in own)):
            yield wrong(given, "rate", rate=rate, name=name)
        return
    whole = [is_call(one, "parameters") for one in call.args] == [True] and called("from_pretrained")
    encoder = whole and largest_tuning_rate(facts.script) == ENCODER_RATE
    if encoder and not called("OneCycleLR", "CyclicLR"):
        yield wrong(call, "usual-rate", name=name)


_OWNERS = {"keras": "Keras' ", "xgboost": "xgboost's ", "lightgbm": "lightgbm."}  # before the name of a call


@dataclass(frozen=True, slots=True)
class Removed:
    """One line of removed.txt. argument, value: "" where the call itself, or any value, is gone."""

    library: str
    argument: str
    value: str
    instead: str


def parameters_of(qualified: str) -> list[str]:
    """Parameters by the dotted name of what is called; none for a call that is not known."""
    return _signatures().get(
        re.sub(r"^(pytorch_)?lightning\.(pytorch\.)?", "lightning.pytorch.", qualified), []
    )


def removed_of(name: str) -> list[Removed]:
    """What is gone of a call by its last name, or of an import by its dotted name."""
    return _gone().get(name, [])


@cache
def _signatures() -> dict[str, list[str]]:
    parts = (line.partition(": ") for line in _lines("signatures.txt"))
    return {name: parameters.split() for names, _, parameters in parts for name in names.split()}


@cache
def _gone() -> dict[str, list[Removed]]:
    out: dict[str, list[Removed]] = {}
    groups: dict[str, str] = {}
    for line in _lines("removed.txt"):
        if " | " not in line:
            group, _, members = line.partition(" = ")
            groups[group] = members
            continue
        library, called, argument, instead = (part.strip() for part in line.split("|", 3))
        argument, _, value = argument.partition("=")
        names = groups.get(called, called).split()
        if called == "name":
            names, argument = [f"name {one}" for one in argument.split()], ""
        each = [(argument, one) for one in value.split()] or [(one, "") for one in argument.split() or ("",)]
        for name in names:
            out.setdefault(name, []).extend(Removed(library, *one, instead) for one in each)
    return out


def _lines(file: str) -> Iterator[str]:
    text = (Path(__file__).parent / file).read_text(encoding="utf-8")
    return (line for line in text.splitlines() if line and not line.startswith("#"))


def _names(facts: Facts) -> Iterator[Finding]:
    """Imports and `np.int`, gone without a call; `series.append(more)`, whose result somebody uses."""
    script = facts.script
    stated = (n for n in script.all(ast.ImportFrom) if not any(script.around(n, ast.Try)))
    for named, module in ((node, node.module or "") for node in stated):
        for removed in (one for one in removed_of(module) if one.library == "module"):
            yield wrong(named, "module-gone", module=module, instead=removed.instead)
        pairs = ((alias.name, one) for alias in named.names for one in removed_of(f"{module}.{alias.name}"))
        for name, removed in (pair for pair in pairs if not pair[1].argument):
            yield wrong(named, "name-gone", module=module, name=name, instead=removed.instead)
    for node in script.all(ast.Attribute):
        made = facts.values.makers(node.value) if node.attr in _SET.made_without else []
        of = {f"{script.qualified(maker.func)}.{node.attr}" for maker in made} or {script.qualified(node)}
        any_of = (f".{node.attr}", f".{last_name(node.value)}.{node.attr}")  # of whatever object
        for known in (*(of if len(of) == 1 else ()), *any_of):
            for removed in removed_of(f"name {known}"):
                if known not in any_of or script.uses(removed.library):
                    name = ast.unparse(node)
                    yield told(
                        "wrong-parameter", node, f"{name} is gone from {removed.library}.", removed.instead
                    )
    for call in script.called("append") if script.uses("pandas") else ():
        base: ast.AST | None = receiver(call)
        base = next(iter(facts.values.sources(base)), base) if base is not None else None
        used = not isinstance(script.parents.get(call), ast.Expr) and len(call.args) == 1
        if used and _is_table(facts, base):
            gone = "append is gone from pandas' tables and columns."
            yield told("wrong-parameter", call, gone, "pd.concat([one, other])")


def _undefined(facts: Facts) -> Iterator[Finding]:
    """Names that nothing binds; `import *`, magics (read as `pass`) and exec may bind any."""
    script, home = facts.script, facts.script.function
    unseen = facts.cache.get("broken") or any(isinstance(node, ast.Pass) for node in script.tree.body)
    given, nodes = {*_SET.given, *dir(builtins)}, [*ast.walk(script.tree)]
    known = given.union(*bound_names(nodes))
    outside = given.union(*bound_names([node for node in nodes if home(node) is None]))
    outside |= {name for node in script.all(ast.Global) for name in node.names}
    for node in () if unseen or _RE.unseen.search(script.text) else script.all(ast.Name):
        if node.id not in (known if home(node) else outside) and not any(script.around(node, ast.Try)):
            known.add(node.id)
            outside.add(node.id)
            yield finding("undefined-name", node, name=node.id)


def _by_kinds(facts: Facts) -> Iterator[Finding]:
    """Kinds of faults that the words of a script show (`[kinds]` of tables.toml), at their last line."""
    text = "\n".join(line.partition(" #")[0] for line in facts.script.lines)
    for case, kind in KINDS.items():
        trains = not kind["kinds"] or facts.training.kinds & {*kind["kinds"].split()}
        meant = trains and re.search(kind["needs"], text) and not re.search(kind["without"], text)
        if meant and (shown := re.search(kind["at"], text)):
            name = shown.groupdict().get("n") or shown["at"].rstrip("(")
            line = text.count("\n", 0, shown.start("at")) + 1
            yield finding(kind["rule"], line, case.partition("_")[0], name=name)


def _never_judged(facts: Facts) -> Iterator[Finding]:
    """transformers' Trainer without rows to judge by, that nothing asks to judge, or by its loss alone."""
    script, argument = facts.script, facts.argument
    trainers = [t for t in script.calls if last_name(t.func).endswith("Trainer")]
    if len(facts.training.arguments) != 1 or any(map(facts.values.open_ended, trainers)):
        return
    call, used = facts.training.arguments[0], script.called(*_SET.uses)
    given = [rows for t in trainers if (rows := argument(t, "eval_dataset")) and not is_none(rows)]
    asked = keyword_names(call) & _SET.asks or facts.values.open_ended(call)
    if given and not asked and not script.called("evaluate", "predict"):
        yield wrong(call, "never-judged")
    read = trainers and script.called("load_dataset", "read_csv", "read_parquet")
    if read and not (given or asked or used) and (rows := argument(trainers[0], "train_dataset")):
        yield wrong(rows, "no-rows-to-judge")
    made = (maker for t in trainers for maker in facts.values.makers(argument(t, "model", 0)))
    classes = any(_RE.of_classes.search(last_name(receiver(maker) or maker)) for maker in made)
    computed = script.called("predict", "compute") or any(argument(t, "compute_metrics") for t in trainers)
    for place in script.called("evaluate")[:1] if classes and not computed else ():
        yield wrong(place, "no-metric")


def _unknown_arguments(facts: Facts, call: ast.Call) -> Iterator[Finding]:
    qualified, name = facts.script.qualified(call.func), last_name(call.func)
    allowed = parameters_of(qualified)
    removed = {one.argument for known in (name, qualified) for one in removed_of(known)}
    known = {None, *allowed, *removed}
    for keyword in (k for k in call.keywords if allowed and k.arg not in known):
        near = get_close_matches(str(keyword.arg), allowed, n=1, cutoff=0.4)
        near = ["lr"] if keyword.arg == "learning_rate" and "lr" in allowed else near
        inside = facts.script.statement(keyword.value) is facts.script.statement(call)
        same_line = call.lineno == keyword.value.lineno
        rule = "timm-trap" if qualified.startswith("timm.") else "wrong-parameter"
        place = call if inside and not same_line else keyword.value
        fix = f"{near[0]}=..." if near else f"leave it out; there are {', '.join(allowed[:6])} ..."
        yield told(rule, place, f"{name} has no parameter {keyword.arg}.", fix)


def _removed(facts: Facts, call: ast.Call) -> Iterator[Finding]:
    """The call itself, an argument of it, or a value of an argument is removed."""
    name, qualified = last_name(call.func), facts.script.qualified(call.func)
    made = facts.values.made_by(receiver(call)) if name == "fit" else ""
    fit = next((f"{family}.fit" for family in ("LGBM", "XGB") if made.startswith(family)), "")
    gone_of = (one for known in (name, qualified, fit, "*") for one in removed_of(known))
    for removed in (one for one in gone_of if _is_of(facts, name, qualified, one.library)):
        library = removed.library
        rule = "albumentations-trap" if library == "albumentations" else "wrong-parameter"
        shown = f"fit() of {made}" if fit else _OWNERS.get(library, "") + name
        if not removed.argument:
            gone = f"{name} is gone from {library.replace('keras', 'Keras')}."
            gone = gone if name in _gone() else f"{qualified} is gone."
            yield told(rule, call, gone, removed.instead)
        for keyword in (k for k in call.keywords if removed.argument and k.arg == removed.argument):
            if not removed.value:
                message = f"{shown} takes no {keyword.arg} any more."
                yield told(rule, keyword.value, message, removed.instead.replace("MODEL", made))
            elif facts.values.text(keyword.value) == removed.value:
                message = f"{shown} takes no {keyword.arg}={removed.value!r}."
                yield told(rule, keyword.value, message, removed.instead)


def _is_of(facts: Facts, name: str, qualified: str, library: str) -> bool:
    """Whether a call of this name is one of the library; several have an `Adam` or a `Trainer`."""
    uses = facts.script.uses
    if library == "keras":
        return uses(*KERAS) and not qualified.startswith("torch.")
    if library == "lightning":
        return uses(*LIGHTNING) and not qualified.startswith("transformers.")
    if library == "albumentations":
        return qualified.startswith("albumentations.")
    other = (name == "Trainer" and uses(*LIGHTNING)) or (library == "trl" and uses("unsloth"))
    return uses(library) and not other  # unsloth hands on what trl's trainers took before


_LIBRARIES = {"lightgbm": _RE.of_lightgbm, "xgboost": _RE.of_xgboost, "catboost": _RE.of_catboost}


def boosting_rules(facts: Facts) -> Iterator[Finding]:
    """wrong-parameter of boosted trees."""
    for call in facts.script.calls:
        yield from _nothing_to_stop_by(facts, call)
        if facts.script.qualified(call.func) in ("xgboost.cv", "xgboost.train"):
            yield from _minimised(facts, call)
        names = last_name(call.func), facts.script.qualified(call.func)
        library = next((known for known, trains in _LIBRARIES.items() if any(map(trains.match, names))), "")
        if not library or (library == "catboost" and not facts.script.uses("catboost")):
            continue
        params = facts.given(call, 0 if last_name(call.func) in ("train", "cv") else None)
        objective = facts.values.text(params.get("objective"))
        complete = not facts.values.entries(facts.argument(call, "params", 0)).open
        many = complete and _RE.many_classes.match(f"{names[1]} {objective}")
        if many and not {"num_class", "num_classes"} & set(params):
            yield wrong(call, "num-class-missing", objective=objective)
        yield from _values(facts, call, library, params)
        if library == "catboost" and (facts.values.text(params.get("task_type")) or "").upper() == "GPU":
            yield from _refused_on_card(facts, call, params)


def _values(facts: Facts, call: ast.Call, library: str, params: dict[str, ast.AST]) -> Iterator[Finding]:
    """Values that the library does not know, or passes over."""
    values = facts.values
    for gone in removed_of(facts.script.qualified(call.func)):
        if gone.value and values.text(params.get(gone.argument)) == gone.value:
            message = f"{library} knows no {gone.argument} {gone.value!r}."
            yield told("wrong-parameter", params[gone.argument], message, gone.instead)
    share = next((params[name] for name in ("subsample", "bagging_fraction") if name in params), None)
    often = next((params[name] for name in ("subsample_freq", "bagging_freq") if name in params), None)
    never = values.number(often) == 0 or (often is None and not values.open_ended(call))
    if library == "lightgbm" and share is not None and never and (values.number(share) or 1) < 1:
        yield wrong(often or share, "no-bagging")
    for key in _MAP.ignored.keys() & params if library == "xgboost" else ():
        yield wrong(params[key], "ignored", key=key, instead=_MAP.ignored[key])


def _refused_on_card(facts: Facts, call: ast.Call, params: dict[str, ast.AST]) -> Iterator[Finding]:
    """What CatBoost takes on the processor only (its issues 983 and 1792)."""
    pairwise = "Pairwise" in str(facts.values.one(params.get("loss_function")))
    for name in ("rsm", "colsample_bylevel"):
        share = facts.values.number(params.get(name))
        if share is not None and share != 1 and not pairwise:
            yield wrong(params[name], "refused-on-card", name=name)
    for fit in facts.training.fits:
        given = facts.argument(fit, "callbacks")
        if given is not None and call in facts.values.makers(receiver(fit)):
            yield wrong(given, "refused-on-card", name="callbacks")


def _nothing_to_stop_by(facts: Facts, call: ast.Call) -> Iterator[Finding]:
    """Early stopping without rows to judge by is refused."""
    if facts.values.open_ended(call):
        return
    qualified, model = facts.script.qualified(call.func), receiver(call)
    if qualified in ("lightgbm.train", "xgboost.train"):
        rows = "valid_sets" if qualified.startswith("lightgbm") else "evals"
        if facts.argument(call, rows, 3) is None and _stops_early(facts, call):
            fix = "valid_sets=[valid]" if rows == "valid_sets" else 'evals=[(valid, "valid")]'
            yield wrong(call, "no-rows-to-stop-by", rows=rows, fix=fix)
    if last_name(call.func) == "fit" and model is not None and len(call.args) <= 3:
        makers = facts.values.makers(model)
        trees = len(makers) == 1 and _RE.trees.match(last_name(makers[0].func))
        if not trees or any(facts.argument(call, name) is not None for name in ("eval_set", "eval_X")):
            return
        if _stops_early(facts, makers[0]) or _stops_early(facts, call):
            yield wrong(call, "no-rows-to-stop-by", rows="eval_set", fix="eval_set=[(X_valid, y_valid)]")


def _stops_early(facts: Facts, call: ast.Call) -> bool:
    given = facts.given(call, 0)
    if any(facts.values.number(given.get(name)) is not None for name in _SET.stopping):
        return True
    callbacks = [*calls_in(given["callbacks"])] if "callbacks" in given else []
    return any(is_call(one, "early_stopping", "EarlyStopping") for one in callbacks)
