"""Callback for Keras 3: `model.fit(..., callbacks=[WatchCallback(task=..., batch_size=32)])`."""

# ruff: noqa: ARG002 - a hook gets what the framework passes
import contextlib
import time
from typing import TYPE_CHECKING, Any

from memory_service.client.callback_errors import never_raise
from memory_service.client.training_callback import TrainingCallback

if TYPE_CHECKING:
    _Callback: Any = object
else:
    from keras.callbacks import Callback as _Callback

PRECISIONS = {"mixed_float16": "fp16", "mixed_bfloat16": "bf16", "float32": "fp32"}


class WatchCallback(TrainingCallback, _Callback):  # type: ignore[misc]
    """As `TrainingCallback` says. Keras tells a callback neither the batch size nor the number of rows: say
    `batch_size=` and `n_train=`.

    An exception in training ends the run when the script exits: Keras does not report it to callbacks.
    """

    _step = 0

    @never_raise
    def on_train_begin(self, logs: Any = None) -> None:
        if self.run is None:
            policy = getattr(getattr(self.model, "dtype_policy", None), "name", "")
            facts = {
                "epochs": (self.params or {}).get("epochs"),
                "precision": PRECISIONS.get(policy),
                "metric": self._metric,
            }
            with contextlib.suppress(AttributeError, TypeError, ValueError):  # a schedule's is not always one
                facts["learning_rate"] = float(self.model.optimizer.learning_rate)
            self._begin_run(self.model, facts)

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        self._begin_epoch()

    def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
        self._step = batch
        self._begin_step()

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        for _ in range(self._step, batch + 1):  # several with steps_per_execution
            self._end_step()

    def on_test_begin(self, logs: Any = None) -> None:
        self._valid_began = time.perf_counter()

    def on_test_end(self, logs: Any = None) -> None:
        self._end_validation()

    @never_raise
    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        logged = dict(logs or {})
        scores = (name for name in logged if name.startswith("val_") and "loss" not in name)
        name = self._metric or next(scores, "")
        figures = {"train_loss": logged.get("loss"), "valid_loss": logged.get("val_loss")}
        figures |= {"seconds": time.perf_counter() - self._epoch_began, "valid_seconds": self._valid_seconds}
        if self._end_epoch(epoch, name, logged.get(name), None, **figures):
            self.model.stop_training = True

    @never_raise
    def on_train_end(self, logs: Any = None) -> None:
        if self.run is not None and self._owns_run:
            self.run.finish()
