"""Settings come from `MEMORY_*`; a wrong one is named."""

from __future__ import annotations

from pathlib import Path

import pytest

from memory_service.errors import InvalidInput
from memory_service.settings import Settings, load_settings, unread


@pytest.fixture(autouse=True)
def _clean(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in Settings.model_fields:
        monkeypatch.delenv(f"MEMORY_{name.upper()}", raising=False)


def test_the_embedded_database_lies_in_the_home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert load_settings().database_url.startswith("sqlite:////")
    monkeypatch.setenv("MEMORY_HOME", str(tmp_path))
    assert load_settings().database_url == f"sqlite:///{tmp_path}/memory.sqlite3"
    monkeypatch.setenv("MEMORY_DATABASE_URL", "postgresql://ada:secret@db/memory")
    settings = load_settings()
    assert settings.database_url == "postgresql://ada:secret@db/memory"
    assert "secret" not in repr(settings)


def test_what_a_command_gives_goes_before_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MEMORY_PORT", "9000")
    assert load_settings(port=None).port == 9000
    assert load_settings(port=9001).port == 9001


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("PORT", "70000"),
        ("PORT", "http"),
        ("MAX_BODY_BYTES", "-1"),
        ("LOG_LEVEL", "LOUD"),
        ("SEED_ON_START", "?"),
    ],
)
def test_a_wrong_setting_is_named(monkeypatch: pytest.MonkeyPatch, name: str, value: str) -> None:
    monkeypatch.setenv(f"MEMORY_{name}", value)
    with pytest.raises(InvalidInput, match=f"MEMORY_{name}"):
        load_settings()


def test_every_setting_is_described() -> None:
    for name, field in Settings.model_fields.items():
        assert field.description, name


def test_a_misspelt_setting_is_told_of_with_the_right_one() -> None:
    (told,) = unread(["MEMORY_REQUIRE_KEY", "memory_port", "MEMORY_API_KEY", "PATH"])
    assert "'MEMORY_REQUIRE_KEY'; nearest: MEMORY_REQUIRE_KEYS" in told
