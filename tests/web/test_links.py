"""Does every kind of link on the pages lead somewhere?"""

from __future__ import annotations

import html
import re
import urllib.error
import urllib.request
from collections import Counter, deque
from itertools import combinations
from pathlib import Path

import pytest

from tests.web.conftest import Site

ADDRESSES = re.compile(r'href="(/[^"]*)"')
OF_A_KIND = 2
"""Links that differ only in what they name are followed so often."""
FILES = (".csv", ".xlsx", ".json", ".jsonl", ".parquet")
"""They cost all rows: once each is enough, whatever is asked."""


def kind(path: str) -> str:
    """The address of a page without the names in it: `/browse/models/*`."""
    first = path.split("/")[:3]
    names = "/*" * (path.count("/") - 2) if path != "/browse/competitions/map" else "/map"
    ending = Path(path).suffix
    return f"{'/'.join(first)}{names}{ending if ending in FILES else ''}"


def asked(address: str) -> set[tuple[str, ...]]:
    """The kind of page with each field, and each two fields, that the address asks for."""
    path, _, query = address.partition("?")
    fields = sorted({each.partition("=")[0] for each in query.split("&") if each})
    few = 0 if path.endswith(FILES) else 2
    return {(kind(path), *some) for n in range(few + 1) for some in combinations(fields, n)}


@pytest.mark.parametrize("site", ["lived"], indirect=True)
def test_no_link_leads_nowhere(site: Site):
    met: Counter[tuple[str, ...]] = Counter({("/",): 1})
    waiting = deque([("/", "")])
    known, wrong = {"/"}, []
    while waiting:
        address, linked_from = waiting.popleft()
        try:
            with urllib.request.urlopen(site.url + address, timeout=90) as response:
                drawn = response.headers["content-type"].startswith("text/html")
                body = response.read().decode() if drawn else ""
        except urllib.error.HTTPError as refused:
            wrong.append(f"{refused.code} {address} on {linked_from}")
            continue
        for found in ADDRESSES.findall(body):
            target = html.unescape(found).partition("#")[0]
            kinds = asked(target)
            often = 1 if "?" in target or target.endswith(FILES) else OF_A_KIND
            if target in known or target.startswith("/static/") or min(met[each] for each in kinds) >= often:
                continue
            known.add(target)
            met.update(kinds)
            waiting.append((target, address))
    assert wrong == []
    assert {(kind(f"/browse/{page}/x"),) for page in ("models", "runs", "devices", "conflicts")} <= set(met)
