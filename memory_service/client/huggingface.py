"""Callback for the Hugging Face `Trainer`: `Trainer(callbacks=[WatchCallback(task=...)])`."""

# ruff: noqa: ARG002 - a hook gets what the framework passes
import time
from typing import TYPE_CHECKING, Any

from memory_service.client.begin import watch as begin
from memory_service.client.callback_errors import never_raise
from memory_service.client.facts import custom_model
from memory_service.client.run import Run
from memory_service.client.verdict import NOT_YET, Verdict

if TYPE_CHECKING:
    _Callback: Any = object
else:
    from transformers import TrainerCallback as _Callback

NO_SCORES = ("loss", "runtime", "per_second", "epoch", "model_preparation_time", "num_", "gen_len", "jit")


class WatchCallback(_Callback):  # type: ignore[misc]
    """Reports `Trainer.train`: steps, waiting for the loader, epochs with what was evaluated, and the end.

    run         one made by `watch`, which its maker ends; else one is begun with `facts` (task=, model=, ...)
                when training begins, and ended with it
    metric      name of the validation metric without `eval_`; else `metric_for_best_model`, else the first
    obey_stop   let a verdict `stop_and_predict` end the training after the epoch

    An exception in training ends the run when the script exits: the Trainer does not report it to callbacks.
    """

    def __init__(
        self, run: Run | None = None, *, metric: str | None = None, obey_stop: bool = False, **facts: Any
    ) -> None:
        self.run = run
        self.verdict: Verdict = NOT_YET
        self._owns_run = run is None
        self._facts, self._metric, self._obey = facts, metric, obey_stop
        self._wait_began = self._epoch_began = 0.0
        self._train_loss: Any = None
        self._ended: dict[str, Any] | None = None

    @never_raise
    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if self.run is None and state.is_world_process_zero:
            model = kwargs.get("model")
            facts: dict[str, Any] = {
                "model": custom_model(model, self._facts),
                "batch_size": args.per_device_train_batch_size * max(1, getattr(args, "n_gpu", 1) or 1),
                "epochs": round(state.num_train_epochs) or None if state.num_train_epochs < 10**6 else None,
                "precision": "bf16" if args.bf16 else "fp16" if args.fp16 else None,
                "grad_accumulation": args.gradient_accumulation_steps,
                "learning_rate": args.learning_rate,
                "num_workers": args.dataloader_num_workers,
                "metric": _no_loss(self._metric or args.metric_for_best_model),
                "n_train": _length(getattr(kwargs.get("train_dataloader"), "dataset", None)),
            }
            self.run = begin(**{**facts, **self._facts})

    @never_raise
    def on_epoch_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self._record_epoch(control, {})
        self._epoch_began = self._wait_began = time.perf_counter()
        if self.run is not None:
            self.run._step_timer.start_iteration()

    @never_raise
    def on_step_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self._record_epoch(control, {})
        if self.run is not None:
            self.run._step_timer.add_wait(time.perf_counter() - self._wait_began)

    @never_raise
    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if self.run is not None:
            self.run.batch()
        self._wait_began = time.perf_counter()

    on_substep_end = on_step_end

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
        score = found.get(f"eval_{name}", found.get(name)) if _no_loss(name) else None
        if score is None:
            score = next((v for k, v in found.items() if not any(word in k for word in NO_SCORES)), None)
        if self._ended is not None:
            valid = time.perf_counter() - self._ended["now"]
            self._ended["seconds"] += valid
            scores = {"valid_loss": found.get("eval_loss"), "metric": score, "valid_seconds": valid}
            self._record_epoch(control, scores)

    @never_raise
    def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self._record_epoch(control, {})
        if self.run is not None and self._owns_run:
            done = {"best_metric": getattr(state, "best_metric", None)}
            self.run.finish(**{name: value for name, value in done.items() if value is not None})

    def _record_epoch(self, control: Any, scores: dict[str, Any]) -> None:
        ended, self._ended = self._ended, None
        if ended is None or self.run is None:
            return
        scores = {"train_loss": self._train_loss, **scores}
        self.verdict = self.run.epoch(ended["epoch"], seconds=ended["seconds"], **scores)
        if self._obey and self.verdict.action == "stop_and_predict":
            control.should_training_stop = True


def _no_loss(name: Any) -> str | None:
    """The name of a score: of a loss another one is reported."""
    return str(name) if name and "loss" not in str(name) else None


def _length(dataset: Any) -> int | None:
    try:
        return len(dataset)
    except TypeError:
        return None
