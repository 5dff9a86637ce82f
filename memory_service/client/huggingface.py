"""Callback for the Hugging Face `Trainer`: `Trainer(callbacks=[WatchCallback(task=...)])`."""

# ruff: noqa: ARG002 - a hook gets what the framework passes
import time
from typing import TYPE_CHECKING, Any

from memory_service.client.training_callback import TrainingCallback, never_raise

if TYPE_CHECKING:
    _Callback: Any = object
else:
    from transformers import TrainerCallback as _Callback

NO_SCORES = ("loss", "runtime", "per_second", "epoch", "model_preparation_time", "num_", "gen_len", "jit")


class WatchCallback(TrainingCallback, _Callback):  # type: ignore[misc]
    """As `TrainingCallback` says; the metric without `eval_`, else `metric_for_best_model`, else the first.

    An exception in training ends the run when the script exits: the Trainer does not report it to callbacks.
    """

    _train_loss: Any = None
    _ended: dict[str, Any] | None = None

    @never_raise
    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if self.run is None and state.is_world_process_zero:
            facts: dict[str, Any] = {
                "batch_size": args.per_device_train_batch_size * max(1, getattr(args, "n_gpu", 1) or 1),
                "epochs": round(state.num_train_epochs) or None if state.num_train_epochs < 10**6 else None,
                "precision": "bf16" if args.bf16 else "fp16" if args.fp16 else None,
                "grad_accumulation": args.gradient_accumulation_steps,
                "learning_rate": args.learning_rate,
                "num_workers": args.dataloader_num_workers,
                "metric": _no_loss(self._metric or args.metric_for_best_model),
                "n_train": _length(getattr(kwargs.get("train_dataloader"), "dataset", None)),
            }
            self._begin_run(kwargs.get("model"), facts)

    @never_raise
    def on_epoch_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self._record_epoch(control, {})
        self._begin_epoch()

    @never_raise
    def on_step_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self._record_epoch(control, {})
        self._begin_step()

    on_step_end = on_substep_end = TrainingCallback._end_step

    @never_raise
    def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **kwargs: Any) -> None:
        loss = (logs or {}).get("loss")
        self._train_loss = self._train_loss if loss is None else loss

    @never_raise
    def on_epoch_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        now = time.perf_counter()
        number = max(0, round(state.epoch or 1) - 1)
        self._ended = {"epoch": number, "now": now, "seconds": now - self._epoch_began}
        if not (control.should_evaluate or control.should_log):
            self._record_epoch(control, {})

    @never_raise
    def on_evaluate(self, args: Any, state: Any, control: Any, metrics: Any = None, **kwargs: Any) -> None:
        found = dict(metrics or {})
        name = self._metric or args.metric_for_best_model
        named = next((k for k in (f"eval_{name}", name) if k in found), None) if _no_loss(name) else None
        if named is None:
            named = next((k for k in found if not any(word in k for word in NO_SCORES)), None)
        if self._ended is not None:
            valid = time.perf_counter() - self._ended["now"]
            self._ended["seconds"] += valid
            scores = {"valid_loss": found.get("eval_loss"), "valid_seconds": valid}
            if named is not None:
                chosen_by = named.endswith(str(args.metric_for_best_model))
                way = {True: "max", False: "min"}.get(args.greater_is_better) if chosen_by else None
                scores |= {"name": named, "score": found[named], "direction": way}
            self._record_epoch(control, scores)

    @never_raise
    def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self._record_epoch(control, {})
        self._end_run()

    def _record_epoch(self, control: Any, scores: dict[str, Any]) -> None:
        ended, self._ended = self._ended, None
        scores = {"name": "", "score": None, "direction": None, "train_loss": self._train_loss, **scores}
        if ended and self._end_epoch(ended["epoch"], seconds=ended["seconds"], **scores):
            control.should_training_stop = True


def _no_loss(name: Any) -> str | None:
    """The name of a score: of a loss another one is reported."""
    return str(name) if name and "loss" not in str(name) else None


def _length(dataset: Any) -> int | None:
    try:
        return len(dataset)
    except TypeError:
        return None
