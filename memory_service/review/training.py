"""Where does the script train? Loops over batches, epochs and folds; fits of the frameworks; the clock in
them.

A loop over epochs is found from the backward pass outwards, through functions of the file; what an imported
helper does (`train_one_epoch(...)`) is believed.
"""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from memory_service.review.made import Made
from memory_service.review.nodes import names_in
from memory_service.review.script import last_name, words, words_in
from memory_service.review.stopping import AnyLoop

__all__ = ["Fit", "Loop", "Training"]

Kind = Literal["torch", "lightning", "transformers", "keras", "fastai", "boosting", "sklearn"]

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
_BOOSTERS = ("lightgbm", "xgboost", "catboost")
_BOOSTED = re.compile(r"^(LGBM|XGB|CatBoost)\w*|^CatBoost$")
KERAS = ("keras", "tensorflow", "tf_keras")
LIGHTNING = ("lightning", "pytorch_lightning")


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
class Training(Made):
    """What the file trains, as far as it does."""

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
        if any(_EPOCH.search(name) for name in names_in(loop.target) if counted or len(name) > 2):
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
        if made_by == "Trainer" and self.script.uses(*LIGHTNING):
            return "lightning"
        if _BOOSTED.match(made_by):
            return "boosting"
        given = {k.arg for k in call.keywords}
        if self.script.uses(*KERAS) and (
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
        if self.script.uses("torch", "torchvision", "timm", "accelerate", *LIGHTNING):
            words = re.search(
                r"cuda|accelerator|\bgpu|\.to\(\s*(self\.)?(cfg\.|config\.|args\.)?dev|device",
                self.script.text,
            )
            return bool(words) or self.script.uses("transformers", "accelerate", "fastai", *LIGHTNING)
        return self.script.uses(*KERAS, "fastai", "transformers")

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
                if node in trained or node in helpers or self.trains_elsewhere(node):
                    out.append(loop)
                    break
        return out

    def trains_elsewhere(self, node: ast.AST) -> bool:
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
