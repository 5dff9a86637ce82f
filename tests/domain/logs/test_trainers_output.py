"""Logs as trainers print them: epochs, scores, steps, times and memory come out right."""

import re
from typing import Any

import pytest

from memory_service.domain.logs.parser import ParsedEvent, read_log
from tests.domain.logs.trainers_output import ANSWERS


def outcome(events: tuple[ParsedEvent, ...]) -> dict[str, Any]:
    """What the events of a whole log say, in the words of `ANSWERS`."""
    epochs: dict[tuple[int, int], dict[str, Any]] = {}
    found: dict[str, Any] = {"submission": False}
    folds: set[int] = set()
    for event in events:
        fields = dict(event.fields)
        folds |= {fields["fold"]} if "fold" in fields else set()
        if event.kind == "epoch":
            epochs.setdefault((fields.get("fold", 1), fields["epoch"]), {}).update(fields)
        if event.kind == "batch" and "step" in fields:
            found["step"] = (fields["step"], fields.get("of"))
        if fields.get("seconds") and fields.get("steps"):
            found["step_seconds"] = fields["seconds"] / fields["steps"]
        if fields.get("seconds") and fields.get("samples"):
            found["samples_per_second"] = fields["samples"] / fields["seconds"]
        for name in ("peak_allocated_gib", "peak_reserved_gib", "reserved_gib", "used_gib", "memory_gib"):
            if name in fields:
                found["memory_gib"] = max(found.get("memory_gib", 0.0), fields[name])
                break
        for name in ("eta_seconds", "metric_name"):
            if fields.get(name) is not None:
                found[name] = fields[name]
        found["submission"] |= fields.get("submission") is True
    return found | {
        "folds": len(folds),
        "epochs": len(epochs),
        "last": list(epochs.values())[-1] if epochs else {},
    }


def differences(name: str) -> dict[str, Any]:
    """{what: (right, read)} of the log `name`; a figure may be off by half a percent."""
    text, right = ANSWERS[name]
    read = outcome(read_log(text, final=True).events)
    pairs = {what: (value, read.get(what)) for what, value in right.items() if what != "last"}
    pairs |= {what: (value, read["last"].get(what)) for what, value in right.get("last", {}).items()}
    return {what: pair for what, pair in pairs.items() if not _same(what, *pair)}


def _same(what: str, right: Any, read: Any) -> bool:
    if what == "metric_name":
        plain = [
            re.sub(r"\W+|_+", "_", str(name).lower()).removeprefix("val_").removeprefix("eval_")
            for name in (right, read)
        ]
        return plain[0] == plain[1]
    return bool(
        right == (pytest.approx(read, rel=0.005) if isinstance(right, float) and read is not None else read)
    )


@pytest.mark.parametrize("name", ANSWERS)
def test_log_of_a_trainer_is_read_right(name: str) -> None:
    assert differences(name) == {}
