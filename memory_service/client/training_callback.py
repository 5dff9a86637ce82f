"""What the callbacks of frameworks have in common: one training reported, and no error of a callback raised
into it."""

import functools
import logging
import time
from collections.abc import Callable
from typing import Any, TypeVar

from memory_service.client.begin import watch as begin
from memory_service.client.facts import custom_model
from memory_service.client.run import Run
from memory_service.client.verdict import NOT_YET, Verdict

log = logging.getLogger("memory_service.client")

Hook = TypeVar("Hook", bound=Callable[..., Any])

_logged: set[str] = set()


def never_raise(hook: Hook) -> Hook:
    """The hook; an exception is logged once and None returned."""

    @functools.wraps(hook)
    def never_raises(*args: Any, **kwargs: Any) -> Any:
        try:
            return hook(*args, **kwargs)
        except Exception as error:  # noqa: BLE001 - never the training's problem
            if hook.__qualname__ not in _logged:
                _logged.add(hook.__qualname__)
                log.warning("memory-service: %s failed: %r", hook.__qualname__, error)
            return None

    return never_raises  # type: ignore[return-value]


class TrainingCallback:
    """Reports one training: steps, waiting for the loader, epochs with losses and score, and the end.

    run         one made by `watch`, which its maker ends; else one is begun with `facts` (task=, model=, ...)
                when training begins, and ended with it
    metric      name of the validation metric, as the framework logs it; else the first that is no loss
    obey_stop   let a verdict `stop_and_predict` end the training after the epoch
    """

    def __init__(
        self, run: Run | None = None, *, metric: str | None = None, obey_stop: bool = False, **facts: Any
    ) -> None:
        super().__init__()
        self.run, self._owns_run = run, run is None
        self.verdict: Verdict = NOT_YET
        self._facts, self._metric, self._obey = facts, metric, obey_stop
        self._wait_began = self._epoch_began = self._valid_began = 0.0
        self._valid_seconds: float | None = None

    def _begin_run(self, model: Any, facts: dict[str, Any]) -> None:
        self.run = begin(**{"model": custom_model(model, self._facts), **facts, **self._facts})

    @never_raise
    def _begin_epoch(self, *_: Any, **__: Any) -> None:
        self._epoch_began = self._wait_began = time.perf_counter()
        self._valid_seconds = None
        if self.run is not None:
            self.run._step_timer.start_iteration()

    @never_raise
    def _begin_step(self, *_: Any, **__: Any) -> None:
        if self.run is not None and self._wait_began:
            self.run._step_timer.add_wait(time.perf_counter() - self._wait_began)

    @never_raise
    def _end_step(self, *_: Any, **__: Any) -> None:
        if self.run is not None:
            self.run.batch()
        self._wait_began = time.perf_counter()

    def _begin_validation(self, *_: Any, **__: Any) -> None:
        self._valid_began = time.perf_counter()

    def _end_validation(self, *_: Any, **__: Any) -> None:
        self._valid_seconds = (self._valid_seconds or 0.0) + time.perf_counter() - self._valid_began

    def _score_of(self, logged: dict[str, Any]) -> str:
        """The name of the validation metric in what was logged; "" where there is none."""
        return self._metric or next((n for n in logged if n.startswith("val") and "loss" not in n), "")

    def _end_epoch(self, epoch: int, name: str, score: Any, direction: str | None, **figures: Any) -> bool:
        """Whether the training should end. direction: max | min, where the score's name does not say it."""
        if self.run is None:
            return False
        if score is not None:
            self.run.score(name, score, epoch, direction=self._facts.get("metric_direction") or direction)
        seconds = time.perf_counter() - self._epoch_began
        times = {"seconds": seconds, "valid_seconds": self._valid_seconds}
        self.verdict = self.run.epoch(epoch, metric=score, **{**times, **figures})
        return self._obey and self.verdict.action == "stop_and_predict"

    @never_raise
    def _end_run(self, *_: Any, **__: Any) -> None:
        if self.run is not None and self._owns_run:
            self.run.finish()
