"""`/`: ask, and see the plan; its training script as a file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import urlencode

from fastapi import Request
from starlette.responses import Response

from memory_service.api.service import database_of
from memory_service.domain.planning.plan_text import plan_markdown
from memory_service.services.knowledge.snapshot import knowledge_of
from memory_service.services.pages.ask import ask_page, ask_script
from memory_service.web.charts.ask import quality_over_minutes
from memory_service.web.site import HEADERS, Pages, answer, query_of

router = Pages()


@router.page("/")
def ask(request: Request) -> Response:
    database, query = database_of(request), query_of(request)
    data = ask_page(database, knowledge_of(database), query)
    plan = data["plan"]
    status = data.pop("status", 200)
    url = f"{str(request.base_url).rstrip('/')}/recommend?{urlencode(query, safe='/,:@')}"
    return answer(
        request,
        "ask/page.html",
        data,
        title="Ask" if plan is None else f"Plan for {plan['task']}",
        status=status,
        command=f"curl '{url}'",
        script_command=f"curl -o train.py -H 'Accept: text/x-python' '{url}'" if data["script"] else None,
        text=plan_markdown(plan) if plan else None,
        text_of_settings=_settings(plan) if plan and plan["feasible"] else None,
        charts={"quality": quality_over_minutes(data["points"])} if data["points"] else {},
    )


@router.get("/browse/script.py")
def script(request: Request) -> Response:
    """The plan's training script as `train.py`: a link cannot send the Accept header of /recommend."""
    server = str(request.base_url).rstrip("/")
    text = ask_script(database_of(request), query_of(request), server)
    return Response(text, headers={**HEADERS, **_AS_FILE}, media_type="text/x-python")


_AS_FILE = {"Content-Disposition": 'attachment; filename="train.py"'}

_COPIED = (
    "batch_size", "grad_accumulation", "precision", "channels_last", "compile", "gradient_checkpointing",
    "folds", "epochs", "early_stopping_patience", "optimizer", "learning_rate", "warmup_epochs",
)  # fmt: skip


def _settings(plan: Mapping[str, Any]) -> str:
    """The settings as lines of Python."""
    model = plan["model"]
    settings = {"plan_id": plan["plan_id"], "model": model["name"]}
    settings |= {name: model[name] for name in ("image_size", "seq_len", "n_features") if name in model}
    settings |= {name: plan[name] for name in _COPIED if name in plan}
    lines = [f"{name} = {value!r}" for name, value in settings.items()]
    loader = ", ".join(f"{name}={value!r}" for name, value in plan["data_loader"].items())
    return "\n".join([*lines, f"data_loader = dict({loader})"])
