"""`memory-service conflicts`: list claims, estimates and measurements that disagree."""

from collections.abc import Mapping
from typing import Any

from memory_service.cli.common.databases import AnotherUrl, open_ready
from memory_service.cli.common.output import JSON_OPTION, emit, table


def conflicts(database: AnotherUrl = None, json: bool = JSON_OPTION) -> None:
    """Claims, estimates and measurements of one thing whose intervals do not meet, the widest apart first."""
    from memory_service.services.conflicts.conflicts import conflicts as find

    store = open_ready(database)
    emit({"items": find(store)}, json, _render)


def _render(answer: dict[str, Any]) -> Any:
    rows = []
    for item in answer["items"]:
        batch = f", batch {item['batch_size']}" if item["batch_size"] else ""
        named = (item["model"], item["device"] or item["gpu"])
        about = " on ".join(str(part) for part in named if part) + batch
        sides = "; ".join(_side(side) for side in item["sides"])
        rows.append((item["id"], about, item["quantity"], sides, item["used"], f"{item['apart']:.2g}x"))
    columns = ("id", "about", "quantity", "sides", "used", ">apart")
    return table("Claims, estimates and measurements that disagree", columns, rows)


def _side(side: Mapping[str, Any]) -> str:
    upper = "" if side["high"] == side["low"] else "+" if side["high"] is None else f"-{side['high']:.4g}"
    aside = " (set aside)" if "set_aside" in side else ""
    return f"{side['grade']} {side['low']:.4g}{upper}{aside}"
