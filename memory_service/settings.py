"""Settings: every `MEMORY_*` variable with its default and meaning (docs/settings.md is made from this)."""

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any, Literal

import platformdirs
from pydantic import Field, ValidationError
from pydantic_settings import BaseSettings, SettingsConfigDict

from memory_service.client.config import CLIENT_SETTINGS
from memory_service.domain.common.vocabulary import Mode
from memory_service.errors import FieldError, InvalidInput, unknown_name
from memory_service.schemas.validation_errors import refusal

LogLevel = Literal["DEBUG", "INFO", "WARNING", "ERROR"]


def _home() -> Path:
    return Path(platformdirs.user_data_dir("memory-service", appauthor=False))


def _embedded(values: dict[str, Any]) -> str:
    return f"sqlite:///{Path(values.get('home', _home())).expanduser() / 'memory.sqlite3'}"


class Settings(BaseSettings):
    """Settings of one process, from the environment; a wrong value is refused at start, with its name."""

    model_config = SettingsConfigDict(
        env_prefix="MEMORY_", frozen=True, extra="ignore", env_ignore_empty=True
    )

    home: Path = Field(
        default_factory=_home,
        description="Folder of the database and the spool; by default the platform's folder for user data.",
    )
    database_url: str = Field(
        default_factory=_embedded,
        repr=False,
        description=(
            "`sqlite:///file` (embedded, the default: `memory.sqlite3` in MEMORY_HOME) or "
            "`postgresql://user:password@host/name` (needs the extension pgvector)."
        ),
    )
    host: str = Field("127.0.0.1", min_length=1, max_length=255, description="Address to listen on.")
    port: Annotated[int, Field(ge=0, le=65_535)] = Field(
        8000, description="Port to listen on; 0 chooses a free one."
    )
    public_url: Annotated[str, Field(pattern=r"^(https?://[^\s/?#@\"'\\]+/?)?$", max_length=300)] = Field(
        "",
        description=(
            "Address that scripts and commands name: set it behind a proxy, in a container or for a name. "
            "Empty: this machine's own, as asked."
        ),
    )
    embedding_model: str = Field(
        "",
        max_length=4_096,
        description=(
            "Folder of a sentence-transformers model with 384 dimensions; empty means the packaged "
            "all-MiniLM-L6-v2. If none can be loaded, search uses words only and says so."
        ),
    )
    max_body_bytes: Annotated[int, Field(ge=1_024, le=2**31)] = Field(
        4 * 2**20, description="Largest request body; a larger one is refused with 413."
    )
    calibrate: bool = Field(
        True,
        description=(
            "Whether `POST /gpus` may measure the devices of the server's host. If not, the answer names the "
            "command to run."
        ),
    )
    keep_raw_days: Annotated[float, Field(ge=0, le=36_500, allow_inf_nan=False)] = Field(
        30.0,
        description=(
            "Days after the end of a run until its raw samples (GPU readings, step counts) are thinned to "
            "one of each per epoch; epochs and summary stay. 0 keeps all of them."
        ),
    )
    require_keys: bool = Field(
        False,
        description=(
            "Whether a key is also required over loopback: set it behind a proxy on this machine, or if "
            "others work on it. Over any other address a key is always required (docs/security.md)."
        ),
    )
    mode_limit: Mode = Field(
        "open",
        description=(
            "The most that questions may use of memory: `open`, `family` or `blind`, for benchmarks that "
            "forbid others' solutions; past competitions are not shown then. Keys have such scopes, too."
        ),
    )
    rate_limit: Annotated[int, Field(ge=0, le=10**9)] = Field(
        12_000,
        description=(
            "Requests a minute for each key, in bursts of up to as many; above it 429 says when to try "
            "again. 0 means no limit. Counted in each server; requests over loopback "
            "without a key are not counted."
        ),
    )
    daily_events: Annotated[int, Field(ge=0, le=10**12)] = Field(
        5_000_000,
        description=(
            "Events a day (UTC) that each key may send to be stored; above it 429 until the next day. "
            "0 means no limit. One event takes about 0.15 KiB."
        ),
    )
    daily_bytes: Annotated[int, Field(ge=0, le=2**50)] = Field(
        4 * 2**30,
        description="Bytes a day (UTC) that each key may send to be stored, as MEMORY_DAILY_EVENTS.",
    )
    notice: Annotated[str, Field(max_length=300)] = Field(
        "", description="A sentence that stands on top of every page: whose server it is, what is made up."
    )
    log_level: LogLevel = Field("INFO", description="Lowest level that is logged.")
    otel: bool | None = Field(
        None,
        description=(
            "Whether requests give OpenTelemetry spans and metrics (extra `[otel]`). Not set: where "
            "`OTEL_EXPORTER_OTLP_ENDPOINT` is. They go to that endpoint and nowhere else."
        ),
    )
    seed_on_start: bool = Field(
        True, description="Whether `serve` loads the shipped seeds if they differ from those loaded last."
    )


def load_settings(**given: Any) -> Settings:
    """Settings from the environment, `given` (not None) first; InvalidInput names the variable that is
    wrong."""
    try:
        return Settings(**{name: value for name, value in given.items() if value is not None})
    except ValidationError as error:
        problems = [
            FieldError(f"MEMORY_{each.field.upper()}", each.message, str(each.given)[:80])
            for each in refusal(error.errors(include_url=False), None).errors
        ]
        detail = "; ".join(f"{problem.field}: {problem.message}" for problem in problems)
        raise InvalidInput(f"A setting cannot be used: {detail}", problems) from None


def unread(names: Iterable[str]) -> list[str]:
    """What to say of variables that look like settings and are none: misspelt, they would be missed in
    silence."""
    known = {f"MEMORY_{name.upper()}" for name in Settings.model_fields} | CLIENT_SETTINGS.keys()
    odd = sorted({name.upper() for name in names if name.upper().startswith("MEMORY_")} - known)
    return [f"{unknown_name('setting', name, sorted(known)).detail}; it is not read" for name in odd]
