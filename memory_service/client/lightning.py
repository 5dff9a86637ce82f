"""Callback for PyTorch Lightning: `Trainer(callbacks=[WatchCallback(task=...)])`.

Works with `lightning` and with `pytorch_lightning`, whichever the script has loaded.
"""

# ruff: noqa: ARG002 - a hook gets what the framework passes
import contextlib
import importlib
import sys
import time
from typing import TYPE_CHECKING, Any

from memory_service.client.begin import watch as begin
from memory_service.client.callback_errors import never_raise
from memory_service.client.ending import status_of
from memory_service.client.facts import custom_model
from memory_service.client.run import Run
from memory_service.client.verdict import NOT_YET, Verdict

PRECISIONS = {"16": "fp16", "bf16": "bf16", "32": "fp32", "64": "fp32"}


def _callback_class() -> Any:
    loaded = [name for name in ("lightning.pytorch", "pytorch_lightning") if name in sys.modules]
    for name in (*loaded, "lightning.pytorch", "pytorch_lightning"):
        try:
            return importlib.import_module(name).Callback
        except ImportError:
            continue
    raise ImportError("neither lightning nor pytorch_lightning is installed")


_Callback: Any = object if TYPE_CHECKING else _callback_class()


class WatchCallback(_Callback):  # type: ignore[misc]
    """Reports a fit: steps, waiting for the loader, epochs with their losses, and how it ended.

    run         one made by `watch`, which its maker ends; else one is begun with `facts` (task=, model=, ...)
                when training begins, and ended with it
    metric      name in the logged metrics of the validation metric; else the first that is no loss
    obey_stop   let a verdict `stop_and_predict` end the fit after the epoch
    """

    def __init__(
        self, run: Run | None = None, *, metric: str | None = None, obey_stop: bool = False, **facts: Any
    ) -> None:
        super().__init__()
        self.run = run
        self.verdict: Verdict = NOT_YET
        self._owns_run = run is None
        self._facts, self._metric, self._obey = facts, metric, obey_stop
        self._wait_began: float | None = None
        self._epoch_began = self._valid_began = 0.0
        self._valid_seconds: float | None = None

    @never_raise
    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        if self.run is None and trainer.is_global_zero:
            facts = {
                "model": custom_model(pl_module, self._facts),
                "epochs": trainer.max_epochs if (trainer.max_epochs or 0) > 0 else None,
                "precision": PRECISIONS.get(str(getattr(trainer, "precision", "")).split("-")[0]),
                "grad_accumulation": getattr(trainer, "accumulate_grad_batches", None),
                "metric": self._metric,
            }
            self.run = begin(**{**facts, **_data_facts(trainer), **self._facts})

    @never_raise
    def on_train_epoch_start(self, trainer: Any, pl_module: Any) -> None:
        if self.run is not None:
            self._epoch_began = self._wait_began = time.perf_counter()
            self._valid_seconds = None
            self.run._step_timer.start_iteration()

    @never_raise
    def on_train_batch_start(self, trainer: Any, pl_module: Any, batch: Any, batch_idx: int) -> None:
        if self.run is not None and self._wait_began is not None:
            self.run._step_timer.add_wait(time.perf_counter() - self._wait_began)

    @never_raise
    def on_train_batch_end(
        self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        if self.run is not None:
            self.run.batch()
            self._wait_began = time.perf_counter()

    @never_raise
    def on_validation_start(self, trainer: Any, pl_module: Any) -> None:
        self._valid_began = time.perf_counter()

    @never_raise
    def on_validation_end(self, trainer: Any, pl_module: Any) -> None:
        if not trainer.sanity_checking:
            self._valid_seconds = (self._valid_seconds or 0.0) + time.perf_counter() - self._valid_began

    @never_raise
    def on_train_epoch_end(self, trainer: Any, pl_module: Any) -> None:
        if self.run is None:
            return
        logged = {str(name): value for name, value in trainer.callback_metrics.items()}
        self.verdict = self.run.epoch(
            trainer.current_epoch,
            seconds=time.perf_counter() - self._epoch_began,
            valid_seconds=self._valid_seconds,
            train_loss=_first(logged, "train_loss_epoch", "train_loss", "train/loss", "loss"),
            valid_loss=_first(logged, "val_loss", "valid_loss", "val/loss", "valid/loss", "validation_loss"),
            metric=logged.get(self._metric) if self._metric else _metric_of(logged),
        )
        if self._obey and self.verdict.action == "stop_and_predict":
            trainer.should_stop = True

    @never_raise
    def on_exception(self, trainer: Any, pl_module: Any, exception: BaseException) -> None:
        if self.run is not None and self._owns_run:
            self.run.finish_by(exception)

    @never_raise
    def on_fit_end(self, trainer: Any, pl_module: Any) -> None:
        if self.run is not None and self._owns_run:
            self.run.finish(status_of(None))


def _data_facts(trainer: Any) -> dict[str, Any]:
    """Batch size, samples and workers of the training loader, as far as they are known; it may not be made
    yet."""
    loader = getattr(trainer, "train_dataloader", None)
    if loader is None:
        source = getattr(getattr(trainer, "fit_loop", None), "_data_source", None)
        loader = getattr(source, "instance", None)
    said = {name: getattr(loader, name, None) for name in ("batch_size", "num_workers")}
    facts = {name: value for name, value in said.items() if isinstance(value, int)}
    with contextlib.suppress(AttributeError, TypeError):
        facts["n_train"] = len(loader.dataset)  # type: ignore[union-attr]
    return facts


def _first(logged: dict[str, Any], *names: str) -> Any:
    return next((logged[name] for name in names if name in logged), None)


def _metric_of(logged: dict[str, Any]) -> Any:
    named = [name for name in logged if name.startswith(("val", "valid")) and "loss" not in name]
    return logged[named[0]] if named else None
