"""A plan that a run brings along: what of an answer of /recommend is used, the rest is passed over."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, create_model

from memory_service.domain.common.estimate import Grade
from memory_service.schemas.fields import Amount, Count, Line, Word


class _Part(BaseModel):
    model_config = ConfigDict(extra="ignore", strict=True)


def _part(*optional: tuple[Any, str], **fields: Any) -> Any:
    """A part of a plan. optional: a type and the names of what may be left out; fields: (type, default)."""
    named = {name: (form | None, None) for form, names in optional for name in names.split()}
    return create_model("Part", __base__=_Part, **named, **fields)  # type: ignore[call-overload]


def _made(part: Any) -> tuple[Any, Any]:
    """A part, or a list, that is empty where it is left out."""
    return part, Field(default_factory=part)


_NUMBER = _part(
    **dict.fromkeys(("value", "low", "high"), (Amount, ...)),
    grade=(Grade, ...), n=(Count, ...), basis=(str, ...),
)  # fmt: skip
_EXPECTED = _part(
    (_NUMBER, "peak_memory_gib samples_per_second epoch_seconds total_minutes inference_minutes best_epoch"),
    bound=(Literal["gpu", "loader", "host"], "gpu"),
)
_CHECKS = _part(
    (Literal["small", "large"], "model_class"), (list[Amount], "target_percent"),
    first_after_seconds=(Amount, 60), every_seconds=(Amount, 150), not_before_steps=(Count, 20),
)  # fmt: skip
_FACTS = _part((Count, "n_train n_test n_classes cpu_count"))


def _by_name(facts: Any) -> Any:
    """The counts among the facts of a plan that nobody assumed; plans of before have a mapping of them."""
    if not isinstance(facts, list):
        return facts
    known = [fact for fact in facts if isinstance(fact, dict) and fact.get("from") != "usual"]
    return {fact.get("name"): fact.get("value") for fact in known if fact.get("name") in _FACTS.model_fields}


_RECIPE = _part(
    validation=_made(_part((Word, "split"))),
    families=_made(list[_part(name=(Line, ...))]),  # type: ignore[misc]
    techniques=_made(list[_part(name=(Line, ...), in_script=(bool, False))]),  # type: ignore[misc]
)
BroughtPlan: type[BaseModel] = _part(
    (Word, "task split precision optimizer"),
    (Count, "batch_size grad_accumulation folds seeds epochs early_stopping_patience"),
    (Amount, "learning_rate minutes"), (bool, "channels_last compile gradient_checkpointing"),
    (Literal["cpu", "cuda"], "tree_device"), (_RECIPE, "recipe"),
    plan_id=(Word, ...), feasible=(Literal[True], ...),
    model=(_part((Count, "image_size seq_len n_features"), name=(Line, ...)), ...),
    gpu=_made(_part((Line, "slug device"), (Amount, "memory_gib"))),
    data_loader=_made(_part((Count, "num_workers"))),
    expected=_made(_EXPECTED), checks=_made(_CHECKS),
    on_trouble=_made(list[_part((Amount, "planned_percent over_percent"), when=(Line, ...))]),  # type: ignore[misc]
    alternatives=_made(list[dict[str, Any]]),
    evidence=_made(list[_part(id=(Line, ...), demoted=(bool, False))]),  # type: ignore[misc]
    facts=(Annotated[_FACTS, BeforeValidator(_by_name)], Field(default_factory=_FACTS)),
)  # fmt: skip
"""What of a plan that a run brings along is used: for what it should show, and what it was advised."""
