"""Does every rule find the words that it asks for in `tables.toml`, and is each entry there asked for?"""

from __future__ import annotations

import re
from pathlib import Path

from memory_service import review
from memory_service.domain.common.tables import shipped_table

_OPENED = re.compile(r'^([\w, ]+)(?:, \*_)? = words_of\("(\w+)"\)$', re.MULTILINE)
_NAMED = re.compile(r'PATTERNS\["(\w+)"\]\["(\w+)"\]')
_KINDS = ("patterns", "sets", "lists", "maps")
_ALL_OF = ("each_has",)  # patterns that are gone through by how their names begin


def test_what_is_asked_for_is_in_the_tables_and_nothing_else() -> None:
    tables = shipped_table(review.__name__, "tables.toml")
    every = [(kind, of, one) for kind in {*tables} - {"kinds"} for of, one in tables[kind].items()]
    there = {(kind, of, key) for kind, of, one in every for key in one}
    asked = {entry for entry in there if entry[2].startswith(_ALL_OF)}
    for path in Path(review.__file__).parent.rglob("*.py"):
        code = path.read_text("utf-8")
        asked |= {("patterns", section, key) for section, key in _NAMED.findall(code)}
        for names, section in _OPENED.findall(code):
            for kind, name in zip(_KINDS, names.split(", "), strict=False):
                keys = re.findall(rf"(?<![\w.]){name}\.(\w+)", code)
                asked |= {(kind, section, key) for key in keys}
    for kind, of, key in there:  # parts of another pattern
        asked |= {(kind, of, part) for part in re.findall(r"\{([a-z]\w*)\}", str(tables[kind][of][key]))}
    assert asked - there == set()
    assert there - asked == set()
