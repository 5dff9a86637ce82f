"""Where does the script train? Loops over batches, epochs and folds; fits of the frameworks; the clock in
them.

A loop over epochs is found from the backward pass outwards, through functions of the file; what an imported
helper does (`train_one_epoch(...)`) is believed.
"""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice
from typing import Literal

from memory_service.domain.review.script import Script, last_name, roots, words, words_in
from memory_service.domain.review.values import Values

__all__ = ["Fit", "Loop", "Training", "guards_of"]

Kind = Literal["torch", "lightning", "transformers", "keras", "fastai", "boosting", "sklearn"]
AnyLoop = ast.For | ast.While

_HELPER = re.compile(
    r"(train|fit)(_?one)?_?(epoch|step|loop|fn|batch|func)?$|^train|^fit_|run_epoch|_train$", re.IGNORECASE
)
_NOT_HELPER = re.compile(
    r"split|load|data|dir|path|transform|aug|csv|encod|token|scal|index|idx", re.IGNORECASE
)
_DRAWN = re.compile(
    r"^next$|^(get|next|sample|draw|fetch|make)_?(\w+_)?batch|^(randint|choice|randperm|sample)$"
)
_EPOCH = re.compile(r"epoch|^ep$|^e$|^_?ep?$", re.IGNORECASE)
_COUNTED = words("range trange count")
_FOLD = re.compile(r"fold|\bkf\b|skf|gkf|splitter|\bcv\b", re.IGNORECASE)
_FOLDS_NAMED = re.compile(r"^(n|num|k|all|cv)?_?(folds?|splits|folds_list|split_list)$", re.IGNORECASE)
_CLOCK_CALLS = words(
    "time monotonic perf_counter process_time now utcnow time_ns alarm monotonic_ns perf_counter_ns"
)
_CLOCK_WORDS = re.compile(
    r"deadline|elapsed|time_?(left|limit|out|up|over|remaining|budget|is_up|guard|s_up)|budget|"
    r"out_of_time|minutes|"
    r"over_?time|start_?time|max_?(time|second|minute|hour)|remaining|seconds_left|late\b|clock|timer|"
    r"time_to_stop|"
    r"should_stop_for_time|hours|expired",
    re.IGNORECASE,
)
_OTHER_STOPS = re.compile(
    r"debug|dry_?run|smoke|isnan|isfinite|isinf|\bnan\b|max_steps|max_batches|limit_|sanity|quick|overfit",
    re.IGNORECASE,
)
_BOOSTERS = ("lightgbm", "xgboost", "catboost")
_BOOSTED = re.compile(r"^(LGBM|XGB|CatBoost)\w*|^CatBoost$")
_KERAS = ("keras", "tensorflow", "tf_keras")
_LIGHTNING = ("lightning", "pytorch_lightning")


@dataclass(frozen=True)
class Loop:
    """A loop in which a network of plain PyTorch is trained.

    batch   the loop over batches, None where an imported helper has it
    epoch   the loop over epochs, None where there is none in the file
    """

    backward: ast.AST
    batch: AnyLoop | None
    epoch: AnyLoop | None


@dataclass(frozen=True)
class Fit:
    """A call that trains: `trainer.fit(...)`, `model.fit(...)`, `lgb.train(...)`."""

    kind: Kind
    call: ast.Call


@dataclass
class Training:
    """What the file trains, as far as it does."""

    script: Script
    values: Values
    _fold_cache: dict[ast.AST, bool] = field(default_factory=dict)

    @cached_property
    def backwards(self) -> list[ast.Call]:
        """Backward passes: `loss.backward()`, `accelerator.backward(loss)`."""
        found = self.script.called("backward", "manual_backward")
        return [c for c in found if isinstance(c.func, ast.Attribute) and not self._is_autograd(c)]

    def _is_autograd(self, call: ast.Call) -> bool:
        owner = self.script.class_of(call)
        return owner is not None and any("Function" in last_name(b) for b in owner.bases)

    @cached_property
    def lightning_classes(self) -> list[ast.ClassDef]:
        return [
            c for c in self.script.classes.values() if any(last_name(b) == "LightningModule" for b in c.bases)
        ]

    @cached_property
    def loops(self) -> list[Loop]:
        """Training loops of plain PyTorch (accelerate, fabric too)."""
        out: list[Loop] = []
        for call in self.backwards:
            if self.script.class_of(call) in self.lightning_classes:
                continue
            inner = self.script.loops(call)
            places: list[AnyLoop] = list(inner)
            batch = places[0] if places and not self._is_over_epochs(places[0]) else None
            rest = [p for p in places if p is not batch]
            if batch is None and not places:
                callers = self._caller_loops(call)
                first = callers[0] if callers else []
                batch = next((p for p in first[:1] if not self._is_over_epochs(p)), None)
                rest = [p for p in first if p is not batch]
            else:
                for more in self._caller_loops(call):
                    rest += [p for p in more if p not in rest]
            epoch = next((p for p in rest if not self.is_fold(p)), None)
            if epoch is None and batch is not None and self._counts_steps(batch):
                epoch = batch
            out.append(Loop(call, batch, epoch))
        known = {loop.epoch for loop in out}
        out += [Loop(epoch, None, epoch) for epoch in self._helper_loops() if epoch not in known]
        return out

    def _counts_steps(self, loop: AnyLoop) -> bool:
        """`while step < N`, `for step in range(N)` with a batch drawn in each: the loop is the whole
        training."""
        if isinstance(loop, ast.While):
            return True
        named = {last_name(n.func) for n in ast.walk(loop.iter) if isinstance(n, ast.Call)}
        if named & {"cycle", "islice", "count"}:
            return True
        stepped = any(
            isinstance(n, ast.Call) and last_name(n.func) in ("range", "trange") and len(n.args) == 3
            for n in ast.walk(loop.iter)
        )
        if not named & {"range", "trange"} or stepped:
            return False
        return any(_DRAWN.search(last_name(call.func)) for call in self.script.within_calls(loop.body))

    def _caller_loops(
        self, node: ast.AST, deep: int = 0, seen: frozenset[ast.AST] = frozenset()
    ) -> list[list[AnyLoop]]:
        """Loops around each place that leads to the function of a node, the innermost first."""
        function = self.script.function(node)
        if function is None or deep > 6 or function in seen:
            return []
        out: list[list[AnyLoop]] = []
        places: list[ast.AST] = list(self.script.calls_by_name.get(function.name, ()))
        owner = self.script.class_of(function)
        if function.name in ("__call__", "forward") and owner is not None:
            places = list(self.script.calls_by_name.get(owner.name, ()))
        for place in places:
            if self.script.function(place) is function:
                continue
            here = self.script.loops(place)
            further = self._caller_loops(place, deep + 1, seen | {function})
            if further:
                out += [[*here, *more] for more in further[:4]]
            elif here:
                out.append(list(here))
        return out

    def _helper_loops(self) -> list[AnyLoop]:
        """Loops over epochs that leave the training to a helper from elsewhere."""
        out: list[AnyLoop] = []
        if not self.script.uses("torch", "accelerate", "timm"):
            return out
        for loop in self.script.all(ast.For):
            if not self._is_over_epochs(loop):
                continue
            for call in self.script.within_calls(loop.body, follow=False):
                name = last_name(call.func)
                if (
                    _HELPER.search(name)
                    and not _NOT_HELPER.search(name)
                    and name not in self.script.functions
                    and name not in ("train", "fit")
                    and self.script.loops(call)[:1] == [loop]
                ):
                    out.append(loop)
                    break
        return out

    def _is_over_epochs(self, loop: AnyLoop) -> bool:
        """`for epoch in range(...)`; a range with a step walks over batches."""
        if isinstance(loop, ast.While):
            return any(_EPOCH.search(word) for word in words_in(loop.test))
        counted = isinstance(loop.target, ast.Name) or bool(words_in(loop.iter) & _COUNTED)
        if any(_EPOCH.search(name) for name in _targets(loop.target) if counted or len(name) > 2):
            return True
        return any(re.search(r"epochs", word, re.IGNORECASE) for word in words_in(loop.iter)) and not any(
            "loader" in word.lower() for word in words_in(loop.iter)
        )

    @cached_property
    def epoch_loops(self) -> list[AnyLoop]:
        """Loops over epochs that the file itself runs, each once."""
        found = [loop.epoch for loop in self.loops if loop.epoch is not None and self.script.runs(loop.epoch)]
        return list(dict.fromkeys(found))

    @cached_property
    def fits(self) -> list[Fit]:
        """Fits of frameworks that the file itself runs."""
        out: list[Fit] = []
        for call in self.script.called(
            "fit",
            "train",
            "fit_one_cycle",
            "fine_tune",
            "fit_generator",
            "train_and_evaluate",
            "cv",
            "fit_flat_cos",
        ):
            kind = self._kind_of(call)
            if kind is not None and self.script.runs(call):
                out.append(Fit(kind, call))
        return out

    def _kind_of(self, call: ast.Call) -> Kind | None:
        name, qualified = last_name(call.func), self.script.qualified(call.func)
        if not isinstance(call.func, ast.Attribute):
            return "boosting" if qualified.startswith(("lightgbm.", "xgboost.")) and name == "train" else None
        made_by = self.made_by(call.func.value)
        if qualified.startswith(("lightgbm.train", "xgboost.train", "lightgbm.cv", "xgboost.cv")):
            return "boosting"
        if name in ("fit_one_cycle", "fine_tune", "fit_flat_cos"):
            return "fastai" if self.script.uses("fastai") else None
        if name == "train":
            trainer = made_by.endswith("Trainer") or self._is_trainer_class(made_by)
            return (
                "transformers"
                if trainer and self.script.uses("transformers", "trl", "setfit", "sentence_transformers")
                else None
            )
        if name not in ("fit", "fit_generator"):
            return None
        if made_by == "Trainer" and self.script.uses(*_LIGHTNING):
            return "lightning"
        if _BOOSTED.match(made_by):
            return "boosting"
        given = {k.arg for k in call.keywords}
        if self.script.uses(*_KERAS) and (
            {"epochs", "validation_data", "callbacks", "steps_per_epoch", "validation_split"} & given
        ):
            return "keras"
        if made_by.endswith("earner") and self.script.uses("fastai"):
            return "fastai"
        if self.script.uses(*_BOOSTERS) and ({"eval_set", "callbacks", "early_stopping_rounds"} & given):
            return "boosting"
        return "sklearn" if self.script.uses("sklearn") else None

    def _is_trainer_class(self, name: str) -> bool:
        owner = self.script.classes.get(name)
        return owner is not None and any(last_name(b).endswith("Trainer") for b in owner.bases)

    def made_by(self, node: ast.AST, deep: int = 0) -> str:
        """The class or function whose call a name holds: `m = LGBMClassifier(...)` -> "LGBMClassifier"."""
        if deep > 5:
            return ""
        if isinstance(node, ast.Call):
            name = last_name(node.func)
            returned = self._given_back(node.func) if isinstance(node.func, ast.Name) else None
            inner = self.made_by(returned, deep + 1) if returned is not None else ""
            if inner:
                return inner
            if name in ("to", "cuda", "compile", "prepare", "DataParallel", "clone", "deepcopy"):
                inner_node = (
                    node.func.value
                    if isinstance(node.func, ast.Attribute) and name in ("to", "cuda")
                    else (node.args[0] if node.args else None)
                )
                return self.made_by(inner_node, deep + 1) if inner_node is not None else name
            return name
        if isinstance(node, ast.Name):
            for source in self.values.assigned(node.id, node):
                found = self.made_by(source, deep + 1)
                if found:
                    return found
        if isinstance(node, ast.Attribute) and last_name(node.value) == "self":
            for source in self.values.sources(node):
                found = self.made_by(source, deep + 1)
                if found:
                    return found
        return ""

    def _given_back(self, name: ast.Name) -> ast.AST | None:
        """What a function of the file returns last, or a lambda: `pack = lambda a: TensorDataset(a)`."""
        for function in self.script.functions.get(name.id, [])[:1]:
            returned = [n.value for n in ast.walk(function) if isinstance(n, ast.Return)]
            return next((value for value in reversed(returned) if value is not None), None)
        held = self.values.assigned(name.id, name)
        return next((source.body for source in held if isinstance(source, ast.Lambda)), None)

    def makers(self, node: ast.AST, deep: int = 0) -> list[ast.Call]:
        """Calls of constructors that an object may come from, through names, attributes and helpers of the
        file: `m = model(); m.fit(X)` with `def model(): return LGBMRegressor(...)`."""
        if deep > 5:
            return []
        if isinstance(node, ast.Name):
            return [m for s in self.values.assigned(node.id, node) for m in self.makers(s, deep + 1)]
        if isinstance(node, ast.Attribute):
            return [m for s in self.values.sources(node) for m in self.makers(s, deep + 1)]
        if not isinstance(node, ast.Call):
            return []
        name = last_name(node.func)
        if name in ("clone", "deepcopy") and node.args:
            return self.makers(node.args[0], deep + 1)
        if name in self.script.functions and name not in self.script.classes and name != "fit":
            given = [
                n.value for n in ast.walk(self.script.functions[name][0])
                if isinstance(n, ast.Return) and n.value is not None
            ]  # fmt: skip
            return [m for g in given[:4] for m in self.makers(g, deep + 1)]
        return [node]

    @cached_property
    def kinds(self) -> set[str]:
        """What is trained when the file runs."""
        found: set[str] = {fit.kind for fit in self.fits}
        return found | {"torch"} if self.epoch_loops else found

    @cached_property
    def arguments(self) -> list[ast.Call]:
        """transformers' TrainingArguments that something is trained with, not those of a Trainer that only
        predicts."""
        script = self.script
        made = script.called("TrainingArguments", "Seq2SeqTrainingArguments")
        only: set[ast.Call] = set()
        for trainer in script.calls:
            given = (
                self.values.argument(trainer, "args", 1)
                if last_name(trainer.func).endswith("Trainer")
                else None
            )
            if given is None or self.values.argument(trainer, "train_dataset") is not None:
                continue
            given = (
                next(iter(self.values.assigned(given.id, given)), given)
                if isinstance(given, ast.Name)
                else given
            )
            if isinstance(given, ast.Call) and given in made and not self.values.open_ended(trainer):
                only.add(given)
        return [call for call in made if call not in only] if len(made) > len(only) else made

    @cached_property
    def trains(self) -> bool:
        """Whether the file itself trains something."""
        return bool(self.kinds)

    @cached_property
    def offers(self) -> bool:
        """Whether the file holds training code of PyTorch at all, run here or not."""
        return bool(self.loops) or bool(self.fits) or bool(self.lightning_classes)

    @cached_property
    def on_card(self) -> bool:
        """Whether the script means to train on a card."""
        if self.script.uses("torch", "torchvision", "timm", "accelerate", *_LIGHTNING):
            words = re.search(
                r"cuda|accelerator|\bgpu|\.to\(\s*(self\.)?(cfg\.|config\.|args\.)?dev|device",
                self.script.text,
            )
            return bool(words) or self.script.uses("transformers", "accelerate", "fastai", *_LIGHTNING)
        return self.script.uses(*_KERAS, "fastai", "transformers")

    def is_fold(self, loop: AnyLoop) -> bool:
        """Whether a loop goes over folds of a cross-validation."""
        if loop not in self._fold_cache:
            self._fold_cache[loop] = isinstance(loop, ast.For) and self._goes_over_folds(loop)
        return self._fold_cache[loop]

    def _goes_over_folds(self, loop: ast.For) -> bool:
        for node in ast.walk(loop.iter):
            if (
                isinstance(node, ast.Call)
                and last_name(node.func) == "split"
                and isinstance(node.func, ast.Attribute)
            ) and (
                _FOLD.search(last_name(node.func.value))
                or "Fold" in self.made_by(node.func.value)
                or (len(node.args) >= 1 and self.values.number(node.args[0]) is None)
            ):
                return not isinstance(node.args[0] if node.args else None, ast.Constant) or bool(
                    _FOLD.search(last_name(node.func.value))
                )
        if any(re.search(r"fold|^cv_", name, re.IGNORECASE) for name in _targets(loop.target)):
            return True
        over = {n.id for n in ast.walk(loop.iter) if isinstance(n, ast.Name)}
        over |= {n.attr for n in ast.walk(loop.iter) if isinstance(n, ast.Attribute)}
        return any(_FOLDS_NAMED.search(name) or self._holds_splits(name, loop) for name in over)

    def _holds_splits(self, name: str, at: ast.AST) -> bool:
        """Whether a name is a list of splits: `parts = list(KFold(5).split(X))`."""
        return any(
            isinstance(node, ast.Call)
            and last_name(node.func) == "split"
            and isinstance(node.func, ast.Attribute)
            and "Fold" in self.made_by(node.func.value)
            for source in self.values.assigned(name, at)[:4]
            for node in islice(ast.walk(source), 200)
        )

    @cached_property
    def fold_loops(self) -> list[ast.For]:
        """Loops over folds in which something is trained."""
        out = []
        trained: set[ast.AST] = set(self.backwards) | {f.call for f in self.fits if f.kind != "sklearn"}
        helpers = set(self._helper_loops())
        for loop in self.script.all(ast.For):
            if not self.is_fold(loop) or not self.script.runs(loop):
                continue
            for node in self.script.within(loop.body):
                if node in trained or node in helpers or self._trains_elsewhere(node):
                    out.append(loop)
                    break
        return out

    def _trains_elsewhere(self, node: ast.AST) -> bool:
        """A call of an imported helper that trains: `train_fold(fold)`, `run_training(...)`."""
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
            return False
        name = node.func.id
        return bool(
            re.search(r"^(train|run_train|run_fold|fit)_?\w*$", name)
            and not _NOT_HELPER.search(name)
            and name not in self.script.functions
            and name in self.script.imports
        )

    def fold_count(self, loop: ast.For) -> int | None:
        """How many folds a loop trains, where the text says."""
        for node in ast.walk(loop.iter):
            if (
                isinstance(node, ast.Call)
                and last_name(node.func) == "split"
                and isinstance(node.func, ast.Attribute)
            ):
                return self._splits_of(node.func.value)
        found = self.values.one(loop.iter)
        if isinstance(found, list):
            return len(found)
        for node in ast.walk(loop.iter):
            for source in self.values.assigned(node.id, loop)[:4] if isinstance(node, ast.Name) else ():
                for made in islice(ast.walk(source), 200):
                    if isinstance(made, ast.Call) and last_name(made.func) == "split":
                        counted = (
                            self._splits_of(made.func.value) if isinstance(made.func, ast.Attribute) else None
                        )
                        if counted is not None:
                            return counted
        return None

    def _splits_of(self, splitter: ast.AST) -> int | None:
        sources = [splitter] if isinstance(splitter, ast.Call) else (
            self.values.assigned(splitter.id, splitter) if isinstance(splitter, ast.Name) else []
        )  # fmt: skip
        for source in sources:
            if isinstance(source, ast.Call) and re.search(r"Fold|Split", last_name(source.func)):
                given = self.values.argument(source, "n_splits", 0)
                if given is None:
                    return 5
                number = self.values.number(given)
                return int(number) if number is not None else None
        return None

    def epochs(self, loop: AnyLoop) -> int | None:
        """How many epochs a loop runs at most, where the text says."""
        if isinstance(loop, ast.While):
            bounds = [
                self.values.number(n)
                for n in ast.walk(loop.test)
                if isinstance(n, ast.Name | ast.Attribute | ast.Constant)
            ]
            known = [b for b in bounds if b is not None and b > 1]
            return int(known[0]) if len(known) == 1 else None
        for node in ast.walk(loop.iter):
            if isinstance(node, ast.Call) and last_name(node.func) in ("range", "trange"):
                ends = [self.values.number(a) for a in node.args[:2]]
                if any(e is None for e in ends) or not ends:
                    return None
                first, last = (0.0, ends[0]) if len(ends) == 1 else (ends[0], ends[1])
                return int((last or 0) - (first or 0))
        return None

    def clocked(self, place: ast.AST | list[ast.stmt]) -> bool:
        """Whether something under a place (functions of the file included) stops by the clock."""
        for node in self.script.within(place):
            if isinstance(node, ast.If | ast.While | ast.IfExp) and self.is_clock(node.test):
                if not isinstance(node, ast.If) or _changes_course(node):
                    return True
            elif (
                isinstance(node, ast.Return)
                and node.value is not None
                and isinstance(node.value, ast.Compare)
                and self.is_clock(node.value)
            ):
                return True
        return False

    def is_clock(self, test: ast.AST, deep: int = 0) -> bool:
        """Whether a condition asks the time: directly, by a name that says so, or by a function that does."""
        for node in ast.walk(test):
            if isinstance(node, ast.Call):
                if last_name(node.func) in _CLOCK_CALLS:
                    return True
                if deep < 3:
                    for target in (
                        self.script.meant(node.func)
                        if isinstance(node.func, ast.Name | ast.Attribute)
                        else ()
                    ):
                        if any(
                            isinstance(n, ast.Call) and last_name(n.func) in _CLOCK_CALLS
                            for n in ast.walk(target)
                        ):
                            return True
            if isinstance(node, ast.Name | ast.Attribute):
                if _CLOCK_WORDS.search(last_name(node)):
                    return True
                if isinstance(node, ast.Name) and deep < 3:
                    for source in self.values.assigned(node.id, node):
                        if not isinstance(source, ast.Constant) and self.is_clock(source, deep + 1):
                            return True
        return False

    def stops_early(self, loop: AnyLoop) -> bool:
        """Whether a loop over epochs ends for another reason than the clock, a NaN or a trial run."""
        if isinstance(loop, ast.While) and not self._plain_count(loop.test, self._reset_in(loop)):
            return True
        for node in self.script.within(loop.body, follow=False):
            if isinstance(node, ast.Break | ast.Return | ast.Raise):
                inner = [up for up in self.script.loops(node) if up is not loop]
                if (
                    isinstance(node, ast.Break)
                    and inner
                    and inner[0] is not loop
                    and loop in self.script.loops(node)[1:]
                ):
                    continue
                guards = guards_of(self.script, node, loop)
                if any(isinstance(up, ast.ExceptHandler) for up in _until(self.script, node, loop)):
                    continue
                if guards and not any(self._other_stop(test) for test in guards):
                    return True
            if isinstance(node, ast.Call) and re.search(
                r"early_?stop|stopper", last_name(node.func), re.IGNORECASE
            ):
                return True
        return False

    def _plain_count(self, test: ast.AST, reset: set[str]) -> bool:
        """`while epoch < EPOCHS`, `while True`, `while time.time() < end`; not `while bad < PATIENCE`."""
        if isinstance(test, ast.Constant):
            return True
        if isinstance(test, ast.BoolOp):
            return all(self._plain_count(part, reset) for part in test.values)
        if self.is_clock(test):
            return True
        return (
            isinstance(test, ast.Compare)
            and isinstance(test.ops[0], ast.Lt | ast.LtE | ast.NotEq)
            and not words_in(test) & reset
        )

    def _reset_in(self, loop: AnyLoop) -> set[str]:
        """Names that a loop sets to a number again: a count of epochs without gain."""
        return {
            name.id
            for node in self.script.within(loop.body)
            if isinstance(node, ast.Assign)
            for name, value in _set_by(node)
            if isinstance(value, ast.Constant)
            or (isinstance(value, ast.IfExp) and isinstance(value.body, ast.Constant))
        }

    def _other_stop(self, test: ast.AST) -> bool:
        if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.Or):
            return all(self._other_stop(part) for part in test.values)
        words = words_in(test) - _CLOCK_CALLS
        early = any(
            re.search(r"patien|early|improv|bad_|stale|best|wait|counter|since", w, re.IGNORECASE)
            for w in words
        )
        if early:
            return False
        if any(_OTHER_STOPS.search(w) for w in words):
            return True
        for node in ast.walk(test):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name | ast.Attribute):
                for target in self.script.meant(node.func):
                    inner = words_in(target)
                    if any(re.search(r"patien|improv|bad_|best", w, re.IGNORECASE) for w in inner):
                        return False
        return self.is_clock(test)


def guards_of(script: Script, node: ast.AST, until: ast.AST) -> list[ast.AST]:
    """Conditions between a node and a loop around it."""
    return [up.test for up in _until(script, node, until) if isinstance(up, ast.If)]


def _until(script: Script, node: ast.AST, until: ast.AST) -> list[ast.AST]:
    out = []
    for up in script.above(node):
        if up is until:
            break
        out.append(up)
    return out


def _set_by(node: ast.Assign) -> list[tuple[ast.Name, ast.AST]]:
    """Names that an assignment sets, each with all that it may get: `best, bad = (x, 0) if gain else ...`."""
    values = [node.value.body, node.value.orelse] if isinstance(node.value, ast.IfExp) else [node.value]
    out: list[tuple[ast.Name, ast.AST]] = []
    for target in node.targets:
        if isinstance(target, ast.Name):
            out.append((target, node.value))
        elif isinstance(target, ast.Tuple):
            for value in values:
                if isinstance(value, ast.Tuple) and len(value.elts) == len(target.elts):
                    pairs = zip(target.elts, value.elts, strict=True)
                    out += [(item, given) for item, given in pairs if isinstance(item, ast.Name)]
    return out


def _targets(target: ast.AST) -> set[str]:
    return {n.id for n in ast.walk(target) if isinstance(n, ast.Name)}


def _changes_course(node: ast.If) -> bool:
    """Whether a condition leads to an end: break, return, raise, continue, or a flag set to true."""
    for inner in (n for statement in node.body for n in ast.walk(statement)):
        if isinstance(inner, ast.Break | ast.Return | ast.Raise | ast.Continue):
            return True
        if (
            isinstance(inner, ast.Assign)
            and isinstance(inner.value, ast.Constant)
            and isinstance(inner.value.value, bool)
        ):
            return True
        if isinstance(inner, ast.Call) and last_name(inner.func) in (
            "exit",
            "_exit",
            "stop",
            "set",
            "predict",
        ):
            return True
    return bool(roots(node.test) & {"should_training_stop"})
