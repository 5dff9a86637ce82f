"""Do the pages say what the program does? They fail here when they do not."""

from __future__ import annotations

import re
from itertools import product
from pathlib import Path

from typer.core import TyperGroup
from typer.main import get_command

from benchmarks.write_docs import QUESTION, settings_page, with_answer, with_table, with_techniques
from memory_service.app import create_app
from memory_service.cli import app
from memory_service.services.database.transactions import Database
from memory_service.services.planning.recommend import recommend
from memory_service.settings import load_settings

ROOT = Path(__file__).resolve().parent.parent
PAGES = (*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"))
OF_TABLE = ("competitions", "solutions", "patterns", "models", "gpus", "strategies", "claims")
"""What `/TABLE` stands for on pages."""


def test_the_settings_page_is_made_from_the_settings():
    assert (ROOT / "docs" / "settings.md").read_text(encoding="utf-8") == settings_page(), "run make docs"


def test_the_table_of_who_may_what_is_made_from_the_program():
    page = (ROOT / "docs" / "security.md").read_text(encoding="utf-8")
    assert page == with_table(page), "run make docs"


def test_the_table_of_techniques_is_made_from_what_scripts_do():
    page = (ROOT / "docs" / "methods" / "scripts.md").read_text(encoding="utf-8")
    assert page == with_techniques(page), "run make docs"


def test_the_http_page_lists_every_route_with_its_methods(tmp_path: Path):
    described = create_app(load_settings(database_url=f"sqlite:///{tmp_path}/x.sqlite3")).openapi()["paths"]
    listed: dict[str, set[str]] = {}
    page = (ROOT / "docs" / "http.md").read_text(encoding="utf-8")
    for paths, methods in re.findall(r"^\| (`/[^|]*) \| ([A-Z, ]+) \|", page, re.MULTILINE):
        for path, table in product(re.findall(r"`([^`]+)`", paths), OF_TABLE):
            listed[path.replace("/TABLE", f"/{table}")] = {method.lower() for method in methods.split(", ")}
    assert listed == {path: set(methods) for path, methods in described.items()}


def headings(page: Path) -> set[str]:
    """The anchors that a page has, as GitHub makes them of its headings."""
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
    found = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in found}


def test_every_local_link_leads_to_a_file_and_a_heading():
    wrong = []
    for page in PAGES:
        for link, anchor in re.findall(r"\]\(([^)#]*)#?([^)]*)\)", page.read_text(encoding="utf-8")):
            target = page.parent / link if link else page
            if "://" in link:
                continue
            if not target.exists() or (anchor and anchor not in headings(target)):
                wrong.append(f"{page.relative_to(ROOT)}: {link}#{anchor}")
    assert wrong == []


def test_the_readme_and_its_pictures_are_small():
    readme = ROOT / "README.md"
    assert len(readme.read_bytes()) <= 6 * 1024
    for picture in re.findall(r"!\[[^]]*\]\(([^)]+)\)", readme.read_text(encoding="utf-8")):
        assert len((ROOT / picture).read_bytes()) <= 150 * 1024, picture
    assert not list(ROOT.glob("docs/**/*.png"))[6:], "make screenshots draws into build/"


def test_pages_to_begin_with_are_short():
    most = {"tutorial.md": 900, "for-*.md": 450, "add-a-*.md": 250}
    for names, words in most.items():
        for page in (ROOT / "docs").glob(names):
            assert len(page.read_text(encoding="utf-8").split()) <= words, page.name


def test_the_commands_shown_exist_with_their_options():
    program = get_command(app)
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        for shown in re.findall(r"(?<![\w/])memory-service ([a-z][^\n`#>]*)", text):
            words, command = shown.partition(" -- ")[0].split(), program
            while words and isinstance(command, TyperGroup) and words[0].strip(",") in command.commands:
                command = command.commands[words.pop(0).strip(",")]
            assert command.name != app.info.name, f"{page.relative_to(ROOT)}: {shown}"
            known = {option for param in command.params for option in param.opts} | {"--help"}
            asked = {word for word in words if re.fullmatch(r"--?[a-z][a-z-]*", word)}
            assert asked <= known, f"{page.relative_to(ROOT)}: {shown}"


def test_the_answer_in_the_readme_is_of_this_service(seeded_sqlite: Database):
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert readme == with_answer(readme, recommend(seeded_sqlite, QUESTION)), "run make docs"


def test_the_changelog_is_short_and_grouped():
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    released = re.findall(r"^## (.+)\n((?:(?!## ).*\n?)*)", text, re.MULTILINE)
    assert released
    for version, body in released:
        assert re.fullmatch(r"\d+\.\d+\.\d+ — \d{4}-\d\d-\d\d|Unreleased", version)
        groups = re.findall(r"^### (.+)$", body, re.MULTILINE)
        assert groups == [name for name in ("Added", "Changed", "Fixed") if name in groups]
        lead, *grouped = re.split(r"^### .+$", body, flags=re.MULTILINE)
        assert not lead.strip()
        for entry in (entry for group in grouped for entry in re.split(r"^- ", group, flags=re.MULTILINE)):
            assert len(entry.split()) <= 20, entry


def test_user_pages_are_short():
    words = sum(len(page.read_text(encoding="utf-8").split()) for page in (ROOT / "docs").glob("*.md"))
    assert words <= 25_000
