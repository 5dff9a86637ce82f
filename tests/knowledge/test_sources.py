"""Can the source of every shipped row be opened? A line of a shipped note, a row, or a public address."""

from __future__ import annotations

import csv
import gzip
import re

import pytest

from memory_service import resources
from memory_service.services.editorial.seed_files import FILES
from memory_service.services.pages.knowledge import linked
from memory_service.web.environment import environment
from tests.catalogue import shipped_seeds

TABLES = [table for table in FILES if table != "profiles"]
NOTES = {note.name: note for note in resources.path("seeds", "sources").iterdir()}


def opens(address: str) -> bool:
    """Whether the address leads to a row or an existing line; a public address is not asked for."""
    if re.fullmatch(r"https?://[\w.-]+\.[a-z]+(/\S*)?", address):
        return True
    kind, name = re.fullmatch(r"/browse/(\w+)/([^#]+(?:#L\d+)?)", address).groups()  # type: ignore[union-attr]
    if kind == "sources":
        name, _, line = name.partition("#L")
        lines = NOTES[name].read_text("utf-8").splitlines() if name in NOTES else []
        return bool(lines) and (not line or bool(lines[int(line) - 1].strip()))
    table = "claims" if kind == "conflicts" else kind
    return name.replace("%23", "#") in shipped_seeds()[table]


@pytest.mark.parametrize("table", TABLES)
def test_every_source_of_a_row_can_be_opened(table: str) -> None:
    for key, seed in shipped_seeds()[table].items():
        source = seed.values["source"]
        addresses = [address for _, address in linked(source, key) if address]
        assert addresses or seed.values.get("url"), f"{table} {key}: {source}"
        for address in addresses:
            assert opens(address), f"{table} {key}: {address}"
        assert not re.search(r"(?<![\w-])(facts|research)/", source), f"{key}: no such file ships: {source}"


def test_profiles_were_traced_by_a_module_that_ships() -> None:
    sources = {seed.values["source"] for seed in shipped_seeds()["profiles"].values()}
    assert sources == {"traced on the meta device by measure/trace.py"}
    assert resources.path("memory_service", "measure", "trace.py").is_file()


def test_every_claim_and_every_rule_of_the_notes_has_its_line() -> None:
    for key, seed in shipped_seeds()["claims"].items():
        addresses = [address for _, address in linked(seed.values["source"], key)]
        assert any(re.search(r"\.txt#L\d+$", address) for address in addresses), key
    for key, seed in shipped_seeds()["strategies"].items():
        if seed.values["rule"].startswith("R"):
            assert re.search(r"sources/\d{3}_\w+\.txt#L\d+", seed.values["source"]), key


def test_measured_results_are_of_public_repositories() -> None:
    text = gzip.decompress(resources.path("seeds", "evidence.csv.gz").read_bytes()).decode()
    for row in csv.DictReader(text.splitlines()):
        assert re.match(r"[\w.-]+/[\w.-]+", row["source"]), row["source"]


def test_a_source_links_what_it_names_and_escapes_the_rest() -> None:
    sourced = environment().filters["sourced"]
    shown = str(sourced('<b> sources/001_f1a8d03531b4f492.txt#L76, C07; see https://example.org/a?b="c.'))
    assert "&lt;b&gt;" in shown
    assert 'href="/browse/sources/001_f1a8d03531b4f492.txt#L76"' in shown
    assert 'href="/browse/conflicts/C07"' in shown
    assert 'href="https://example.org/a?b=&#34;c"' in shown
    assert "href" not in str(sourced("given by a user, javascript:alert(1)"))
    assert "href" not in str(sourced("replaced by hand"))
