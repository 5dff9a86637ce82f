"""Callback for PyTorch Lightning: `Trainer(callbacks=[WatchCallback(task=...)])`.

Works with `lightning` and with `pytorch_lightning`, whichever the script has loaded.
"""

# ruff: noqa: ARG002 - a hook gets what the framework passes
import contextlib
import importlib
import sys
from typing import TYPE_CHECKING, Any

from memory_service.client.training_callback import TrainingCallback, never_raise

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


class WatchCallback(TrainingCallback, _Callback):  # type: ignore[misc]
    """As `TrainingCallback` says; and how a fit failed."""

    @never_raise
    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        if self.run is None and trainer.is_global_zero:
            facts = {
                "epochs": trainer.max_epochs if (trainer.max_epochs or 0) > 0 else None,
                "precision": PRECISIONS.get(str(getattr(trainer, "precision", "")).split("-")[0]),
                "grad_accumulation": getattr(trainer, "accumulate_grad_batches", None),
                "metric": self._metric,
            }
            self._begin_run(pl_module, facts | _data_facts(trainer))

    on_train_epoch_start = TrainingCallback._begin_epoch
    on_train_batch_start = TrainingCallback._begin_step
    on_train_batch_end = TrainingCallback._end_step
    on_validation_start = TrainingCallback._begin_validation

    def on_validation_end(self, trainer: Any, pl_module: Any) -> None:
        if not trainer.sanity_checking:
            self._end_validation()

    @never_raise
    def on_train_epoch_end(self, trainer: Any, pl_module: Any) -> None:
        logged = {str(name): value for name, value in trainer.callback_metrics.items()}
        name = self._score_of(logged)
        stop = self._end_epoch(
            trainer.current_epoch,
            name,
            logged.get(name),
            _monitored(trainer, name),
            train_loss=_first(logged, "train_loss_epoch", "train_loss", "train/loss", "loss"),
            valid_loss=_first(logged, "val_loss", "valid_loss", "val/loss", "valid/loss", "validation_loss"),
        )
        if stop:
            trainer.should_stop = True

    @never_raise
    def on_exception(self, trainer: Any, pl_module: Any, exception: BaseException) -> None:
        if self.run is not None and self._owns_run:
            self.run.finish_by(exception)

    on_fit_end = TrainingCallback._end_run


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


def _monitored(trainer: Any, name: str) -> str | None:
    """max | min, where early stopping or a checkpoint watches this score."""
    watching = (each for each in trainer.callbacks if getattr(each, "monitor", "") == name)
    return next((each.mode for each in watching if getattr(each, "mode", "") in ("max", "min")), None)
