"""Where the script trains: loops over batches, epochs and folds, what ends them; fits of frameworks."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice, takewhile

from memory_service.review.source.script import (
    Script,
    bases_of,
    calls_in,
    is_call,
    keyword_names,
    last_name,
    name_of,
    names_in,
    receiver,
    receiver_name,
    roots,
    words_in,
)
from memory_service.review.tables import words_of
from memory_service.review.values.values import Values

_RE, _SET, _LIST, *_ = words_of("training")
AnyLoop = ast.For | ast.While
_ENDS = ast.Break | ast.Return | ast.Raise


def guards_of(script: Script, node: ast.AST, until: ast.AST) -> list[ast.AST]:
    """Conditions between a node and a loop around it."""
    between = takewhile(lambda up: up is not until, script.above(node))
    return [up.test for up in between if isinstance(up, ast.If)]


def _changes_course(node: ast.If) -> bool:
    """Whether a condition leads to an end: break, return, raise, continue, or a flag set to true."""
    for inner in (n for statement in node.body for n in ast.walk(statement)):
        if isinstance(inner, _ENDS | ast.Continue):
            return True
        flag = inner.value if isinstance(inner, ast.Assign) else None
        if isinstance(flag, ast.Constant) and isinstance(flag.value, bool):
            return True
        if isinstance(inner, ast.Call) and last_name(inner.func) in _SET.ends:
            return True
    return "should_training_stop" in roots(node.test)


def _splits(node: ast.AST) -> Iterator[tuple[ast.expr, ast.Call]]:
    """(splitter, call) of `splitter.split(...)` under a node."""
    calls = ((receiver(call), call) for call in islice(calls_in(node), 200) if is_call(call, "split"))
    return ((splitter, call) for splitter, call in calls if splitter is not None)


_USUAL = {"epochs": 100.0, "batch": 16.0, "imgsz": 640.0, "workers": 8.0, "patience": 100.0}

BOOSTERS = ("lightgbm", "xgboost", "catboost")
BOOSTED, TRAINS_TREES = _RE.boosted, _RE.trains_trees
KERAS = ("keras", "tensorflow", "tf_keras")
LIGHTNING = ("lightning", "pytorch_lightning")
STOPS = _SET.stops


@dataclass(frozen=True)
class Loop:
    """A loop in which a network of plain PyTorch is trained."""

    backward: ast.AST
    batch: AnyLoop | None  # over batches, None where an imported helper has it
    epoch: AnyLoop | None  # over epochs, None where there is none in the file


@dataclass
class Training:
    """What the file trains, as far as it does."""

    script: Script
    values: Values
    _folds: dict[ast.AST, bool] = field(default_factory=dict)

    @cached_property
    def backwards(self) -> list[ast.Call]:
        """Backward passes, `tape.gradient(loss, weights)` too; not of an autograd Function."""
        calls = [c for c in self.script.called("backward", "manual_backward") if receiver(c) is not None]
        opened = (one for one in self.script.all(ast.withitem) if is_call(one.context_expr, "GradientTape"))
        tapes = {last_name(one.optional_vars) for one in opened if one.optional_vars is not None}
        calls += [c for c in self.script.called("gradient") if receiver_name(c) in tapes]
        calls = [c for c in calls if not any("Function" in b for b in bases_of(self.script.class_of(c)))]
        return [call for call in calls if not self._attacks(call)]

    def _attacks(self, call: ast.Call) -> bool:
        """Steps of an attack: the gradient of an input, `delta.grad` of `zeros_like(x)`; no optimizer."""
        around = next(iter(self.script.loops(call)), self.script.function(call))
        inside = [*ast.walk(around)] if around is not None else []
        if any(is_call(node, "step") for node in inside):
            return False
        taken = (n.value for n in inside if isinstance(n, ast.Attribute) and n.attr == "grad")
        makers = (last_name(maker.func) for one in taken for maker in self.values.makers(one))
        return any(name.endswith("_like") or name in ("clone", "detach") for name in makers)

    @cached_property
    def lightning_classes(self) -> list[ast.ClassDef]:
        return [c for c in self.script.classes.values() if "LightningModule" in bases_of(c)]

    @cached_property
    def loops(self) -> list[Loop]:
        """Training loops of plain PyTorch (accelerate, fabric too)."""
        out: list[Loop] = []
        for call in self.backwards:
            if self.script.class_of(call) in self.lightning_classes:
                continue
            around, callers = self.script.loops(call), self._caller_loops(call)
            for more in callers if around else callers[:1]:
                around += [loop for loop in more if loop not in around]
            again = around[1:2] if around[1:] and self._goes_again(*around[:2]) else around[:1]
            batch = next((p for p in again if not self._is_over_epochs(p)), None)
            rest = [p for p in around if p not in (batch, *around[: around.index(again[0]) if again else 0])]
            epoch = next((p for p in rest if not self.is_fold(p)), None)
            if epoch is None and batch is not None:  # one pass over a loader is all of the training
                learns = (is_call(c, "step", "apply_gradients") for c in self.script.within_calls(batch.body))
                single = isinstance(batch, ast.For) and self.script.runs(batch) and any(learns)
                epoch = batch if self._counts_steps(batch) or single else None
            out.append(Loop(call, batch, epoch))
        known = {loop.epoch for loop in out}
        return out + [Loop(epoch, None, epoch) for epoch in self._helper_loops if epoch not in known]

    def _goes_again(self, inner: AnyLoop, outer: AnyLoop) -> bool:
        """`for k in range(7)` over one batch that the loop around it gives."""
        if not (isinstance(inner, ast.For) and isinstance(outer, ast.For)) or self._counts_steps(inner):
            return False
        counted = is_call(inner.iter, "range", "trange") and len(inner.iter.args) == 1
        given = names_in(outer.target) & {name for one in inner.body for name in names_in(one)}
        rows = any(_RE.loader.search(name) for name in words_in(outer.iter))
        return counted and rows and bool(given) and not self._is_over_epochs(inner)

    def _counts_steps(self, loop: AnyLoop) -> bool:
        """`while step < N`, `for step in range(N)` with a batch drawn in each: all of the training."""
        called = {last_name(c.func): c for c in calls_in(loop.iter)} if isinstance(loop, ast.For) else {}
        if isinstance(loop, ast.While) or called.keys() & {"cycle", "islice", "count"}:
            return True
        counted = called.get("range", called.get("trange"))
        drawn = (_RE.drawn.search(last_name(call.func)) for call in self.script.within_calls(loop.body))
        return counted is not None and len(counted.args) != 3 and any(drawn)

    def _caller_loops(
        self, node: ast.AST, deep: int = 0, seen: frozenset[ast.AST] = frozenset()
    ) -> list[list[AnyLoop]]:
        """Loops around each place that leads to the function of a node, the innermost first."""
        function = self.script.function(node)
        if function is None or deep > 6 or function in seen:
            return []
        owner = self.script.class_of(function)
        of_object = function.name in ("__call__", "forward") and owner is not None
        out: list[list[AnyLoop]] = []
        for place in self.script.calls_by_name.get(owner.name if of_object and owner else function.name, ()):
            if self.script.function(place) is function:
                continue
            here, further = self.script.loops(place), self._caller_loops(place, deep + 1, seen | {function})
            if further or here:
                out += [[*here, *more] for more in further[:4]] or [here]
        return out

    @cached_property
    def _helper_loops(self) -> list[AnyLoop]:
        """Loops over epochs that leave the training to a helper from elsewhere."""
        if not self.script.uses("torch", "accelerate", "timm"):
            return []
        names = {*filter(_RE.helper.search, self.script.calls_by_name)} - {
            *self.script.functions,
            "train",
            "fit",
        }
        calls = self.script.called(*(name for name in names if not _RE.not_helper.search(name)))
        around = {loop for call in calls for loop in self.script.loops(call)[:1]}
        return [loop for loop in self.script.all(ast.For) if loop in around and self._is_over_epochs(loop)]

    def _is_over_epochs(self, loop: AnyLoop) -> bool:
        """`for epoch in range(...)`; a range with a step walks over batches."""
        if isinstance(loop, ast.While):
            return any(map(_RE.epoch.search, words_in(loop.test)))
        over = words_in(loop.iter)
        counted = isinstance(loop.target, ast.Name) or bool(over & _SET.counted)
        named = any(_RE.epoch.search(name) for name in names_in(loop.target) if counted or len(name) > 2)
        text = " ".join(over).lower()
        return named or ("epochs" in text and "loader" not in text)

    @cached_property
    def batches(self) -> set[AnyLoop]:
        """Loops over batches that something is learned from."""
        return {loop.batch for loop in self.loops if loop.batch is not None}

    @cached_property
    def epoch_loops(self) -> list[AnyLoop]:
        """Loops over epochs that the file itself runs, each once."""
        found = [loop.epoch for loop in self.loops if loop.epoch is not None and self.script.runs(loop.epoch)]
        return list(dict.fromkeys(found))

    @cached_property
    def fits(self) -> dict[ast.Call, str]:
        """Fits of frameworks that the file itself runs: `trainer.fit(...)`, `lgb.train(...)`."""
        kinds = ((call, self._kind_of(call)) for call in self.script.called(*_LIST.fits))
        return {call: kind for call, kind in kinds if kind is not None and self.script.runs(call)}

    @cached_property
    def stops(self) -> set[frozenset[ast.AST]]:
        """Fits, and what made their models, around each setting that stops boosting early."""
        script = self.script
        fitted = {n for fit in self.fits for n in (fit, *self.values.makers(receiver(fit)))}
        around = [(stop, *script.above(stop)) for stop in script.called("early_stopping", "EarlyStopping")]
        around += [(script.parents.get(k, k),) for k in script.all(ast.keyword) if k.arg in STOPS]
        around += [()] * any(name in STOPS for name in script.strings)
        return {frozenset(fitted.intersection(nodes)) for nodes in around}

    def fits_of(self, *kinds: str) -> list[ast.Call]:
        return [call for call, kind in self.fits.items() if kind in kinds]

    def _kind_of(self, call: ast.Call) -> str | None:
        name, base, uses, given = last_name(call.func), receiver(call), self.script.uses, keyword_names(call)
        made_by, named = self.values.made_by(base), last_name(base or call).lower()
        bases = (made_by, *bases_of(self.script.classes.get(made_by)))
        trainer = any(b.endswith("Trainer") for b in bases) or (not made_by and named.endswith("trainer"))
        of_file, mm = made_by in self.script.functions, uses(*_LIST.of_openmmlab)
        compiled = named and any(receiver_name(c).lower() == named for c in self.script.called("compile"))
        lightning, keras = uses(*LIGHTNING), bool(_SET.of_keras & given or compiled)
        yolo = made_by in _SET.ultralytics or (not of_file and bool(_SET.of_ultralytics & given))
        rows = (  # names of calls, what trains, whether it does
            ("LightningCLI", "lightning", True),
            ("run_training", "nnunet", uses("nnunetv2", "nnunet")),
            ("train_detector train_segmentor", "openmmlab", mm),
            ("train", "openmmlab", base and mm and (trainer or named == "runner")),
            ("train", "transformers", base and uses(*_LIST.of_hub) and trainer),
            ("train", "ultralytics", base and uses("ultralytics") and yolo),
            ("train_model", "transformers", base and uses("simpletransformers")),
            ("fit", "lightning", lightning and (made_by == "Trainer" or (trainer and made_by == ""))),
            ("fit", "autogluon", uses("autogluon") and made_by.endswith("Predictor")),
            ("fit", "boosting", BOOSTED.match(made_by)),
            ("fit", "keras", uses(*KERAS) and keras),
            ("fit", "fastai", made_by.endswith("earner") and uses("fastai")),
            ("fit", "boosting", uses(*BOOSTERS) and _SET.of_boosting & given),
            ("fit", "transformers", uses("sentence_transformers") and "train_objectives" in given),
            ("fit", "sklearn", uses("sklearn")),
            ("fit_one_cycle fine_tune fit_flat_cos", "fastai", base and uses("fastai")),
        )
        if TRAINS_TREES.match(self.script.qualified(call.func)):
            return "boosting"
        asked = (row for row in rows if name.removesuffix("_generator") in row[0].split() and row[2])
        return next((kind for names, kind, _ in asked if base is not None or names != "fit"), None)

    @cached_property
    def kinds(self) -> set[str]:
        """What is trained when the file runs."""
        found: set[str] = {*self.fits.values()}
        own = "torch" if self.script.uses("torch") or not self.script.uses(*KERAS) else "tensorflow"
        return found | {own} if self.epoch_loops else found

    @cached_property
    def arguments(self) -> list[ast.Call]:
        """transformers' TrainingArguments that something is trained with, not of a Trainer that predicts."""
        made = [c for c in self.script.calls if _RE.arguments.search(last_name(c.func))]
        made = made if self.script.uses(*_LIST.of_hub) else []
        calls, values = self.script.calls if made else (), self.values
        trainers = [c for c in calls if last_name(c.func).endswith("Trainer") and not values.open_ended(c)]
        without = (t for t in trainers if values.argument(t, "train_dataset") is None)
        idle = [values.argument(t, "args", 1) for t in without]
        predicting = {node for given in idle if given for node in (given, *values.sources(given)[:1])}
        return [call for call in made if call not in predicting] or made

    @cached_property
    def trains(self) -> bool:
        own = self.script.called("main", "run", "train_members", "fit")
        return bool(self.kinds) or (bool(own) and self.script.uses("memory_service.train"))

    @cached_property
    def is_engine(self) -> bool:
        """A loop that learns is offered to another file, which runs it."""
        looped = any(loop.batch is not None or loop.epoch is not None for loop in self.loops)
        return looped and bool(self.script.called("step"))

    @cached_property
    def place(self) -> ast.AST | None:
        """The first loop over epochs, else the first fit."""
        return next(iter([*self.epoch_loops, *self.fits]), None)

    @cached_property
    def offers(self) -> bool:
        """Whether the file holds training code of PyTorch at all, run here or not."""
        return bool(self.loops) or bool(self.fits) or bool(self.lightning_classes)

    @cached_property
    def on_card(self) -> bool:
        uses = self.script.uses
        if _RE.of_ours.search(self.script.text):
            return True
        if uses("torch", "torchvision", "timm", "accelerate", *LIGHTNING):
            by_itself = uses("accelerate", "fastai", *LIGHTNING) or "transformers" in self.kinds
            return by_itself or bool(_RE.to_card.search(self.script.text))
        return uses(*KERAS, "fastai", "transformers", "ultralytics")

    @cached_property
    def fold_loops(self) -> list[ast.For]:
        """Loops over folds in which something is trained."""
        trained: set[ast.AST] = {*self.backwards, *self._helper_loops}
        trained |= {*self.fits} - {*self.fits_of("sklearn")}
        return [
            loop for loop in self.script.all(ast.For)
            if self.is_fold(loop) and self.script.runs(loop) and any(
                node in trained or self.trains_elsewhere(node) for node in self.script.within(loop.body)
            )
        ]  # fmt: skip

    def trains_elsewhere(self, node: ast.AST) -> bool:
        """A call of an imported helper that trains: `train_fold(fold)`, `run_training(...)`."""
        name = node.func.id if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) else ""
        imported = name in self.script.imports and name not in self.script.functions
        return imported and bool(_RE.helper_of_fold.search(name)) and not _RE.not_helper.search(name)

    def epochs(self, loop: AnyLoop) -> int | None:
        """How many epochs a loop runs at most, where the text says."""
        number = self.values.number
        if isinstance(loop, ast.For) and loop in self.batches and not self._counts_steps(loop):
            return 1
        if isinstance(loop, ast.While):
            nodes = (n for n in ast.walk(loop.test) if isinstance(n, ast.Name | ast.Attribute | ast.Constant))
            known = [bound for n in nodes if (bound := number(n)) is not None and bound > 1]
            return int(known[0]) if len(known) == 1 else None
        counted = next((call for call in calls_in(loop.iter) if is_call(call, "range", "trange")), None)
        ends = [number(a) for a in counted.args[:2]] if counted is not None else []
        known = [end for end in ends if end is not None]
        return int(known[-1] - (known[0] if len(known) == 2 else 0)) if known and None not in ends else None

    def set_for(self, call: ast.Call, name: str) -> float | None:
        """A number that ultralytics' `train` is given, else its default; None where unknown."""
        given = self.values.argument(call, name)
        if given is None:
            return None if self.values.open_ended(call) else _USUAL[name]
        found = self.values.one(given)
        return float(found[0] if isinstance(found, list) and found else found) if found else None

    def framework_epochs(self, kind: str) -> float | None:
        """The epochs that a framework is set to train; None where that is unknown."""
        given, number = self.values.argument, self.values.number
        if kind == "lightning":
            certain = (given(call, "max_epochs") for call in self.script.called("Trainer"))
            return next((number(epochs) for epochs in certain if epochs is not None), None)
        if kind == "transformers":
            for call in self.arguments[:1]:
                epochs = given(call, "num_train_epochs")
                if epochs is not None or given(call, "max_steps") is not None:
                    return number(epochs) if given(call, "max_steps") is None else None
            return 3.0
        calls = self.fits_of(kind)
        if kind == "ultralytics":
            return self.set_for(calls[0], "epochs")
        name, position = ("n_epoch", 0) if kind == "fastai" else ("epochs", None)
        stated = [given(call, "epochs") or given(call, name, position) for call in calls]
        found = [1.0 if one is None and kind == "keras" else number(one) for one in stated]
        known = [epochs for epochs in found if epochs is not None]
        return max(known) if known and (kind == "fastai" or len(known) == len(found)) else None

    def is_fold(self, loop: AnyLoop) -> bool:
        if loop not in self._folds:
            self._folds[loop] = isinstance(loop, ast.For) and self._goes_over_folds(loop)
        return self._folds[loop]

    def _goes_over_folds(self, loop: ast.For) -> bool:
        for splitter, call in _splits(loop.iter):
            stated = bool(_RE.fold.search(last_name(splitter)))
            first = call.args[0] if call.args else None
            rows = isinstance(loop.target, ast.Tuple) and first is not None  # not batches of a tensor
            rows = rows and self.values.number(first) is None
            if stated or "Fold" in self.values.made_by(splitter) or rows:
                return stated or not isinstance(first, ast.Constant)
        if any(re.search(r"fold|^cv_", name, re.IGNORECASE) for name in names_in(loop.target)):
            return True
        over = names_in(loop.iter) | {n.attr for n in ast.walk(loop.iter) if isinstance(n, ast.Attribute)}
        listed = any("Fold" in self.values.made_by(splitter) for splitter in self._splitters(loop.iter))
        return listed or any(_RE.folds_named.search(name) for name in over)

    def fold_count(self, loop: ast.For) -> int | None:
        """How many folds a loop trains, where the text says."""
        for splitter in self._splitters(loop.iter):
            makers = (m for m in self.values.makers(splitter) if re.search("Fold|Split", last_name(m.func)))
            given = [self.values.argument(maker, "n_splits", 0) for maker in islice(makers, 1)]
            numbers = (5 if node is None else self.values.number(node) for node in given)
            if number := next(numbers, None):
                return int(number)
        found = self.values.one(loop.iter)
        return len(found) if isinstance(found, list) else None

    def _splitters(self, node: ast.AST) -> Iterator[ast.expr]:
        """What splits under an expression, or under what its names are set to: `list(KFold(5).split(X))`."""
        names = (n for n in ast.walk(node) if isinstance(n, ast.Name))
        sources = (source for name in names for source in self.values.assigned(name.id, name)[:4])
        return (splitter for place in (node, *sources) for splitter, _ in _splits(place))

    def clocked(self, place: ast.AST | list[ast.stmt]) -> bool:
        """Whether something under a place (functions of the file included) stops by the clock."""
        for node in self.script.within(place):
            match node:
                case ast.If(test=test) if _changes_course(node) and self.is_clock(test):
                    return True
                case ast.While(test=test) | ast.IfExp(test=test) | ast.Return(value=ast.Compare() as test):
                    if self.is_clock(test):
                        return True
        return False

    def is_clock(self, test: ast.AST) -> bool:
        """Whether a condition asks the time: directly, by a name that says so, or by a function that does."""
        for node in ast.walk(test):
            if isinstance(node, ast.Call):
                inside = self.script.resolve(node.func)
                called = [node, *(call for target in inside for call in calls_in(target))]
                if any(last_name(call.func) in _SET.clock_calls for call in called):
                    return True
            if isinstance(node, ast.Name | ast.Attribute) and _RE.clock_words.search(last_name(node)):
                return True
        return False

    def stops_early(self, loop: AnyLoop) -> bool:
        """Whether a loop over epochs ends for another reason than the clock, a NaN or a trial run."""
        if isinstance(loop, ast.While):  # `while epoch < EPOCHS` does not; `while bad < PATIENCE` does
            counts = isinstance(loop.test, ast.Compare | ast.Constant) or self.is_clock(loop.test)
            if not counts or any(map(_RE.early.search, words_in(loop.test))):
                return True
        return any(self._ends(node, loop) for node in self.script.within(loop.body, follow=False))

    def _ends(self, node: ast.AST, loop: AnyLoop) -> bool:
        inner = isinstance(node, ast.Break) and loop in self.script.loops(node)[1:]
        if not isinstance(node, _ENDS) or inner:
            return bool(_RE.stopper.search(name_of(node))) if isinstance(node, ast.Call) else False
        between = [*takewhile(lambda up: up is not loop, self.script.above(node))]
        guards = [up.test for up in between if isinstance(up, ast.If)]
        caught = any(isinstance(up, ast.ExceptHandler) for up in between)
        return bool(guards) and not caught and not any(map(self._other_stop, guards))

    def _other_stop(self, test: ast.AST) -> bool:
        if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.Or):
            return all(self._other_stop(part) for part in test.values)
        stated = words_in(test) - _SET.clock_calls
        if any(_RE.early.search(word) for word in stated):
            return False
        if any(map(_RE.other_stops.search, stated)):
            return True
        inside = (target for call in calls_in(test) for target in self.script.resolve(call.func))
        counts = any(_RE.counts_gains.search(word) for target in inside for word in words_in(target))
        return not counts and self.is_clock(test)
