"""Fields that several requests have, with their bounds and words: declared here once."""

import datetime as dt
import json
import math
import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field, StringConstraints, WithJsonSchema

from memory_service.domain.common.optimizers import optimizer_name
from memory_service.domain.common.quoted_text import one_line, scripts_of
from memory_service.domain.common.unpriced_models import MOST_OF_A_NAME
from memory_service.domain.common.vocabulary import (
    MODES,
    OBJECTIVES,
    PRECISIONS,
    SIZES,
    Licence,
    Mode,
    Objective,
    Split,
    Subtask,
    Weights,
    parse_language,
    parse_precision,
    parse_size,
    parse_task,
    parse_task_or_modality,
)
from memory_service.domain.hardware.device_names import MOST_CARDS, several
from memory_service.domain.planning.answer_view import parse_parts
from memory_service.domain.planning.request import MOST_MINUTES
from memory_service.domain.recipe.vocabulary import (
    parse_family,
    parse_loss,
    parse_technique,
    parse_techniques,
)
from memory_service.schemas.validation_errors import vocabulary

MAX_JSON_BYTES = 64_000
MAX_JSON_DEPTH = 8
MOST_NAMES = 16
MOST_CHARACTERS = 100_000
"""Of a description that is asked about."""

UUID_FORM = r"^[0-9a-fA-F]{8}-?[0-9a-fA-F]{4}-?[0-9a-fA-F]{4}-?[0-9a-fA-F]{4}-?[0-9a-fA-F]{12}$"

_BREAK = re.compile(r" ?[\n\r\t\x0b\x0c\x85\u2028\u2029]\s*")
_UNPRINTABLE = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]|[\ud800-\udfff]")


def clean_text(value: str) -> str:
    """The text, when it can be stored and shown: no control characters but tab and newline, no half
    characters."""
    if _UNPRINTABLE.search(value):
        raise ValueError("holds control characters or half of a surrogate pair")
    return value


def key_text(given: str) -> str:
    """The key of a row; for a text that cannot be stored "", which no row has."""
    return "" if _UNPRINTABLE.search(given) else given


def utc_text(given: str) -> str:
    """The moment in UTC with a Z behind it; one without a zone is UTC already. ValueError for all else."""
    try:
        moment = dt.datetime.fromisoformat(given)
        if not given.endswith("Z"):
            moment = moment.replace(tzinfo=dt.UTC) if moment.tzinfo is None else moment.astimezone(dt.UTC)
            given = moment.replace(tzinfo=None).isoformat() + "Z"
    except (ValueError, OverflowError):
        raise ValueError("must be a time in ISO 8601, e.g. 2026-01-31T12:00:00Z") from None
    if not 1970 <= moment.year <= 2200:
        raise ValueError("must be a time between 1970 and 2200")
    return given


def _one_line(value: str) -> str:
    """Names and titles stand in lines of plans that programs read: a break in one would begin another."""
    return _BREAK.sub(" ", value)


def _clean_json(value: Any) -> Any:
    _walk(value, 0)
    if len(json.dumps(value)) > MAX_JSON_BYTES:
        raise ValueError(f"is longer than {MAX_JSON_BYTES} bytes as JSON")
    return value


def _walk(value: Any, depth: int) -> None:
    if depth > MAX_JSON_DEPTH:
        raise ValueError(f"is nested deeper than {MAX_JSON_DEPTH} levels")
    if isinstance(value, Mapping):
        for key, item in value.items():
            clean_text(str(key))
            _walk(item, depth + 1)
    elif isinstance(value, list | tuple):
        for item in value:
            _walk(item, depth + 1)
    elif isinstance(value, str):
        clean_text(value)
    elif isinstance(value, bool) or value is None:
        return
    elif isinstance(value, int | float):
        if not math.isfinite(value) or abs(value) > 1e18:
            raise ValueError("holds a number that is not finite or beyond 10^18")
    else:
        raise ValueError(f"holds a {type(value).__name__}, which JSON has not")


def _integral(value: Any) -> Any:
    """128.0 is a whole number, as in JSON Schema."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _no_nul(value: str) -> str:
    if "\x00" in value:
        raise ValueError("must not hold a NUL character")
    return value


def _no_way_out(value: str) -> str:
    """Names become parts of paths and addresses: none may lead elsewhere."""
    if ".." in value or "//" in value or ":/" in value or value.endswith("/"):
        raise ValueError("must hold no .., no // and no address")
    return value


def _latin(value: str) -> str:
    if scripts_of(value) - {"LATIN"} or one_line(value) != value:
        raise ValueError("must be written in Latin letters that are seen")
    return value


def _joined(value: Any) -> Any:
    """Names as one text with commas, however they were given."""
    if isinstance(value, list | tuple):
        if not all(isinstance(name, str) and len(name) <= 200 for name in value):
            raise ValueError(f"must be 1 to {MOST_NAMES} names")
        value = ",".join(value)
    if isinstance(value, str):
        plain = [name.strip().lower() for name in value.split(",") if name.strip()]
        names = several(value) if len(value) <= MOST_OF_A_NAME else [*dict.fromkeys(plain)]
        if not 1 <= len(names) <= MOST_NAMES:
            raise ValueError(f"must be 1 to {MOST_NAMES} names")
        return ",".join(names)
    return value


def _with_commas(value: Any) -> Any:
    return ",".join(map(str, value)) if isinstance(value, list | tuple) else value


def _lower(value: Any) -> Any:
    return value.strip().lower() if isinstance(value, str) else value


_PLAIN = AfterValidator(clean_text)
_IN_LINE = AfterValidator(_one_line)
INTEGRAL = BeforeValidator(_integral)
LOWER = BeforeValidator(_lower)
_STORABLE = AfterValidator(_no_nul)
_TEXT = {"type": "string", "minLength": 1}
_LISTED = {"type": "array", "items": {**_TEXT, "maxLength": 200}, "minItems": 1, "maxItems": MOST_NAMES}


def optional(about: str | None, **more: Any) -> Any:
    """A field that may be left out: null, too, means "not given"."""
    return Field(None, description=about, **more)


def _between(low: int, high: int, **more: Any) -> StringConstraints:
    return StringConstraints(min_length=low, max_length=high, **more)


def _trimmed(longest: int) -> StringConstraints:
    return _between(1, longest, strip_whitespace=True)


ImageSize = Annotated[int, Field(ge=8, le=4096), INTEGRAL]
SeqLen = Annotated[int, Field(ge=1, le=131_072), INTEGRAL]
NFeatures = Annotated[int, Field(ge=1, le=10**6), INTEGRAL]
NClasses = Annotated[int, Field(ge=1, le=10**6), INTEGRAL]
Rows = Annotated[int, Field(ge=1, le=10**9), INTEGRAL]
Rounds = Annotated[int, Field(ge=1, le=10**6), INTEGRAL]
Samples = Annotated[int, Field(ge=1, le=10**10), INTEGRAL]
BatchSize = Annotated[int, Field(ge=1, le=10**9), INTEGRAL]
LoraRank = Annotated[int, Field(ge=1, le=1024), INTEGRAL]
NGpus = Annotated[int, Field(ge=1, le=MOST_CARDS), INTEGRAL]
Sharding = Literal["none", "fsdp"]
CpuCount = Annotated[int, Field(ge=1, le=4096), INTEGRAL]
Year = Annotated[int, Field(ge=1990, le=2200), INTEGRAL]
Folds = Annotated[int, Field(ge=1, le=50), INTEGRAL]
Seeds = Annotated[int, Field(ge=1, le=50), INTEGRAL]
Epochs = Annotated[int, Field(ge=1, le=100_000), INTEGRAL]
Version = Annotated[int, Field(ge=1, le=2**31 - 1), INTEGRAL]
Minutes = Annotated[float, Field(gt=0, le=MOST_MINUTES, allow_inf_nan=False)]
Hours = Annotated[float, Field(gt=0, le=10**7, allow_inf_nan=False)]
Bands = Annotated[int, Field(ge=1, le=512), INTEGRAL]
Aspect = Annotated[float, Field(ge=1, le=100, allow_inf_nan=False)]
RunNumber = Annotated[int, Field(ge=1, le=1000), INTEGRAL]
Score = Annotated[float, Field(ge=-1e12, le=1e12, allow_inf_nan=False)]
VramGib = Annotated[float, Field(gt=0, le=4096, allow_inf_nan=False)]

Filter = Annotated[str, _between(1, 300)]
Word120 = Annotated[str, _trimmed(120), _STORABLE]
Text200 = Annotated[str, _trimmed(200), _STORABLE]
LongReason = Annotated[str, _trimmed(4_000), _STORABLE]
LongText = Annotated[str, _trimmed(MOST_CHARACTERS), _STORABLE]
Names = Annotated[
    str,
    _between(1, 1000),
    BeforeValidator(_joined),
    WithJsonSchema({"anyOf": [{**_TEXT, "maxLength": 1000}, _LISTED]}),
]
"""Names as a text with commas; in JSON also a list of texts."""

AnswerParts = Annotated[
    str, _between(1, 200), BeforeValidator(_with_commas), vocabulary(parse_parts),
    WithJsonSchema({"anyOf": [{**_TEXT, "maxLength": 200}, _LISTED]}),
]  # fmt: skip
"""Parts of an answer as a text with commas; in JSON also a list."""

Task = Annotated[str, _between(1, 100), vocabulary(parse_task)]
TaskOrModality = Annotated[str, _between(1, 100), vocabulary(parse_task_or_modality)]
SizeClass = Annotated[str, _between(1, 100), vocabulary(parse_size)]
Precision = Annotated[str, _between(1, 80), vocabulary(parse_precision)]
Family = Annotated[str, _between(1, 80), vocabulary(parse_family)]
Loss = Annotated[str, _between(1, 80), vocabulary(parse_loss)]
Technique = Annotated[str, _between(1, 80), vocabulary(parse_technique)]
TechniqueNames = Annotated[
    str, _between(1, 1000), BeforeValidator(_with_commas), vocabulary(parse_techniques),
    WithJsonSchema({"anyOf": [{**_TEXT, "maxLength": 1000}, _LISTED]}),
]  # fmt: skip
Optimizer = Annotated[str, _between(1, 80), vocabulary(optimizer_name)]
GoalWord = Annotated[Objective, LOWER]
SubtaskWord = Annotated[Subtask, LOWER]
Language = Annotated[
    str, StringConstraints(pattern=r"^(?:[a-z]{2}|multi)$"), vocabulary(parse_language), LOWER
]
MemoryMode = Annotated[Mode, LOWER]
SplitWord = Annotated[Split, LOWER]
WeightsWord = Annotated[Weights, LOWER]
LicenceWord = Annotated[Licence, LOWER]
Layout = Annotated[Literal["nhwc", "nchw"], LOWER]
Moment = Annotated[str, _between(8, 40), AfterValidator(utc_text)]

Slug = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$", max_length=120)]
_AS_NAME = r"^[A-Za-z0-9][A-Za-z0-9._/+{}-]*$"
RowName = Annotated[
    str, StringConstraints(pattern=_AS_NAME.format("@:"), max_length=160), AfterValidator(_no_way_out)
]
ModelName = Annotated[
    str, StringConstraints(pattern=_AS_NAME.format(""), max_length=160), AfterValidator(_no_way_out)
]
"""Goes into scripts, where libraries take `hub:owner/name` for an address."""

Word = Annotated[str, _trimmed(80), _PLAIN, _IN_LINE]
Url = Annotated[str, StringConstraints(pattern=r"^https?://[^\s\x00-\x1f\x7f]+$", max_length=1_000), _PLAIN]
Line = Annotated[str, _trimmed(300), _PLAIN, _IN_LINE]
ProductName = Annotated[Line, AfterValidator(_latin)]
"""Of a card, a device, a model: "А100" with a Cyrillic letter is no other card."""
Sentences = Annotated[str, _trimmed(20_000), _PLAIN]
Description = Annotated[str, _trimmed(1_000_000), _PLAIN]
JsonObject = Annotated[dict[str, Any], AfterValidator(_clean_json)]

Count = Annotated[int, Field(ge=0, le=10**12)]
Small = Annotated[int, Field(ge=1, le=10**9)]
Pixels = Annotated[int, Field(ge=1, le=100_000)]
PastYear = Annotated[int, Field(ge=1990, le=2100)]
Amount = Annotated[float, Field(ge=0, le=1e12, allow_inf_nan=False)]
Number = Annotated[float, Field(ge=-1e15, le=1e15, allow_inf_nan=False)]

ABOUT_TASK = (
    "A task or its alias: `image`, `text`, `tabular`, `segmentation`, `detection`, `audio`, `time-series` …"
)
ABOUT_GPU = (
    "A card by any name people or drivers use: `a100` (= 40 GB), `a100-80gb`, `rtx3090`, `t4`, `cpu` …"
)
ABOUT_GPUS = f"{ABOUT_GPU} `2xt4`: two of them in one box."


def quoted(names: tuple[str, ...]) -> str:
    """Names for a description."""
    return ", ".join(f"`{name}`" for name in names)


ABOUT_SHARDING = (
    "Of a decoder on several cards: `fsdp` spreads weights, gradients and optimizer state over them; `none`: "
    "each card holds all"
)
ABOUT_TRAINER = (
    "Of a decoder: `liger` (loss in chunks), `unsloth` (also checkpoints on the host), `unsloth-2024` "
    "(as it was, logits kept), `offload` (activations on the host); transformers and peft when not given. "
    "8-bit optimizers are an `optimizer`."
)
ABOUT_PACKING = (
    "Of a language model trained on every token: several texts in each row of `seq_len` tokens. Needs "
    "`text_tokens`"
)
ABOUT_TEXT_TOKENS = "Tokens of a text in the mean, its answer included; `seq_len` is of the longest."
ABOUT_PRECISION, ABOUT_OBJECTIVE, ABOUT_MODE = quoted(PRECISIONS), quoted(OBJECTIVES), quoted(MODES)
ABOUT_SIZE = f"{quoted(SIZES)}: small < 10 000 <= medium < 100 000 <= large training samples."
