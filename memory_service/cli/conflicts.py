"""`memory-service conflicts`: list claims, estimates and measurements that disagree."""

from typing import Any

from memory_service.cli.common.databases import AnotherUrl, open_ready
from memory_service.cli.common.output import JSON_OPTION, emit, table
from memory_service.domain.common.units import figures


def conflicts(database: AnotherUrl = None, json: bool = JSON_OPTION) -> None:
    """Claims, estimates and measurements of one thing whose intervals do not meet, the widest apart first."""
    from memory_service.services.conflicts.conflicts import conflicts as find

    store = open_ready(database)
    emit({"items": find(store)}, json, _render)


def _render(answer: dict[str, Any]) -> Any:
    from memory_service.services.pages.conflicts import row_of

    rows = []
    for item in answer["items"]:
        batch = f", batch {item['batch_size']}" if item["batch_size"] else ""
        named = (item["model"], item["device"] or item["gpu"])
        about = " on ".join(str(part) for part in named if part) + batch
        said, apart = row_of(item)["said"], figures(item["apart"], 2)
        rows.append((item["id"], about, item["quantity"], said, item["used"], f"{apart}x"))
    columns = ("id", "about", "quantity", "sides", "used", ">apart")
    return table("Claims, estimates and measurements that disagree", columns, rows)
