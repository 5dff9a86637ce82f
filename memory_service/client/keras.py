"""Callback for Keras 3: `model.fit(..., callbacks=[WatchCallback(task=..., batch_size=32, n_train=...)])`."""

# ruff: noqa: ARG002 - a hook gets what the framework passes
import contextlib
from typing import TYPE_CHECKING, Any

from memory_service.client.training_callback import TrainingCallback, never_raise

if TYPE_CHECKING:
    _Callback: Any = object
else:
    from keras.callbacks import Callback as _Callback

PRECISIONS = {"mixed_float16": "fp16", "mixed_bfloat16": "bf16", "float32": "fp32"}


class WatchCallback(TrainingCallback, _Callback):  # type: ignore[misc]
    """As `TrainingCallback` says. Keras tells callbacks no batch size, no number of rows and no exception in
    training: that ends the run when the script exits."""

    _step = 0

    @never_raise
    def on_train_begin(self, logs: Any = None) -> None:
        if self.run is None:
            policy = getattr(getattr(self.model, "dtype_policy", None), "name", "")
            facts = {"epochs": (self.params or {}).get("epochs"), "precision": PRECISIONS.get(policy)}
            with contextlib.suppress(AttributeError, TypeError, ValueError):
                facts["learning_rate"] = float(self.model.optimizer.learning_rate)
            self._begin_run(self.model, {**facts, "metric": self._metric})

    on_epoch_begin = TrainingCallback._begin_epoch

    def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
        self._step = batch
        self._begin_step()

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        for _ in range(self._step, batch + 1):  # several with steps_per_execution
            self._end_step()

    on_test_begin = TrainingCallback._begin_validation
    on_test_end = TrainingCallback._end_validation

    @never_raise
    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        logged = dict(logs or {})
        name, losses = self._score_of(logged), (logged.get("loss"), logged.get("val_loss"))
        if self._end_epoch(epoch, name, logged.get(name), None, train_loss=losses[0], valid_loss=losses[1]):
            self.model.stop_training = True

    on_train_end = TrainingCallback._end_run
