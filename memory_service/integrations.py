"""Hooks for an agent that writes code blocks and has them executed, as AIDE does: docs/integrations.md.

prompt += plan_text(description, minutes=60)
exec_callback = watched_exec(interpreter.run, minutes=60)
"""

import contextlib
import json
import logging
from collections.abc import Callable, Mapping
from typing import Any

from memory_service.client.ask import ask
from memory_service.client.begin import watch
from memory_service.client.config import load_config
from memory_service.client.delivery.http import Wire
from memory_service.client.facts import guessed_task
from memory_service.client.log_follower import LogReader
from memory_service.client.run import Run
from memory_service.client.training_callback import never_raise

log = logging.getLogger("memory_service.client")

_FINDING = "review, line {line}, {severity} {rule}: {message} {fix}\n"
_READ = ("model", "batch_size", "epochs", "folds", "image_size", "seq_len")
"""What a review reads in a script and a run may say."""


def plan_text(
    description: str, minutes: float | None = None, gpu: str = "auto", mode: str = "blind", **more: Any
) -> str:
    """The plan as Markdown for a prompt; "" where there is none, which is logged. more: as `ask` takes it."""
    try:
        return ask(description=description, minutes=minutes, gpu=gpu, mode=mode, **more).markdown
    except Exception as error:  # noqa: BLE001 - the agent works without a plan
        log.warning("memory-service: no plan for the prompt: %s", error)
        return ""


def watched_exec(
    exec_callback: Callable[..., Any],
    plan: Mapping[str, Any] | None = None,
    *,
    server: str | None = None,
    seconds: float = 5.0,
    **facts: Any,
) -> Callable[..., Any]:
    """`exec_callback(code) -> result`, with a review before it and a run reported about it.

    The result's `term_out` (a list of texts) begins with the review's errors and warnings and ends with the
    verdict. Nothing here raises; the server may take `seconds` for each of the review and the report.

    facts   of the runs: minutes=, task=, competition= ...; the model and its sizes are read from the code
    """

    def run_watched(code: str, *args: Any, **kwargs: Any) -> Any:
        findings, read = _review(code, plan, server, seconds) or ([], {})
        run = watch(server=server, **{"model": "custom", **read, **facts})
        try:
            result = exec_callback(code, *args, **kwargs)
        except BaseException as error:
            run.finish_by(error)
            raise
        _report(run, result, findings, seconds)
        run.finish(flush_seconds=seconds)  # where the result is of another shape
        return result

    return run_watched


@never_raise
def _review(code: str, plan: Any, server: str | None, seconds: float) -> Any:
    """(errors and warnings, facts of a run); none where the server does not answer in time."""
    config = load_config(server=server)
    body = {"script": code, **({"plan": plan} if plan else {})}
    with contextlib.closing(Wire(config.server, config.key)) as wire:
        answer = wire.post("/review", json.dumps(body).encode(), seconds).body
    read = {name: value for name, value in answer.get("read", {}).items() if name in _READ}
    findings = [each for each in answer.get("findings", ()) if each["severity"] != "note"]
    return [_FINDING.format_map(each) for each in findings], {"task": guessed_task(code), **read}


@never_raise
def _report(run: Run, result: Any, findings: list[str], seconds: float) -> None:
    """The output's epochs, the end and the verdict."""
    lines = result.term_out
    reader, error = LogReader(run), getattr(result, "exc_type", None)
    reader.read("".join(map(str, lines)).encode("utf-8", "replace"), final=True)
    reader.send_counts()
    named = {"TimeoutError": "timed_out", "KeyboardInterrupt": "stopped", "MemoryError": "out_of_memory"}
    failed = "out_of_memory" if reader.out_of_memory else named.get(str(error), "crashed")
    run.finish(failed if error else "completed", flush_seconds=seconds)
    lines[:0] = findings
    if run.verdict.known:
        lines.append(f"\nverdict: {run.verdict}\n")
