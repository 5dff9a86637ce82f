"""`memory-service db thin` thins now, by the setting or by what is said."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from memory_service.cli import app
from memory_service.services.database.transactions import Database


@pytest.mark.parametrize("kind", ["sqlite"])
def test_it_says_what_it_did(database: Database) -> None:
    url = database.engine.url.render_as_string(hide_password=False).replace("+pysqlite", "")
    done = CliRunner().invoke(app, ["db", "thin", "--database", url, "--keep-days", "7", "--json"])
    assert done.exit_code == 0, done.output
    assert json.loads(done.output) == {"runs": 0, "events": 0}
