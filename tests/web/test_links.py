"""Does every kind of link on the pages lead somewhere?"""

from __future__ import annotations

import html
import re
import urllib.error
import urllib.request
from collections import Counter, deque

import pytest

from tests.web.conftest import Site

ADDRESSES = re.compile(r'href="(/[^"]*)"')
OF_A_KIND = 2
"""Links that differ only in what they name are followed so often; those that ask for something, once."""


def kind(address: str) -> str:
    """The address without the names in it: `/browse/models/*?sort`."""
    path, _, query = address.partition("?")
    first = path.split("/")[:3]
    names = "/*" * (path.count("/") - 2) if path != "/browse/competitions/map" else "/map"
    ending = re.search(r"\.(csv|xlsx|json|jsonl|parquet)$", path)
    fields = "&".join(sorted(each.partition("=")[0] for each in query.split("&") if each))
    if ending:  # a file costs all rows; once each is enough
        return f"{'/'.join(first)}{names}{ending[0]}"
    return f"{'/'.join(first)}{names}?{fields}"


def often(address: str) -> int:
    return 1 if "?" in address else OF_A_KIND


@pytest.mark.parametrize("site", ["lived"], indirect=True)
def test_no_link_leads_nowhere(site: Site):
    met: Counter[str] = Counter({"/": 1})
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
            if target in known or target.startswith("/static/") or met[kind(target)] >= often(target):
                continue
            known.add(target)
            met[kind(target)] += 1
            waiting.append((target, address))
    assert wrong == []
    assert {kind(f"/browse/{page}/x") for page in ("models", "runs", "devices", "conflicts")} <= set(met)
