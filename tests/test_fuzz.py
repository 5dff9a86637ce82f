"""The five parsers of texts that others wrote, with texts that nobody would write.

`make test` asks FUZZ_EXAMPLES (450) of scripts and descriptions, a third of the others; `make fuzz` goes
on for an hour.
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import re
from collections.abc import Sequence
from pathlib import Path

import orjson
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from memory_service.client.delivery import sender as sync
from memory_service.client.delivery.http import Reply
from memory_service.domain.common.vocabulary import TASKS
from memory_service.domain.logs.context import Context
from memory_service.domain.logs.parser import Reading, read_log
from memory_service.errors import InvalidInput
from memory_service.review.engine import review_text
from memory_service.schemas.events import fitting, parse_events
from memory_service.services.database.transactions import Database
from memory_service.services.tables import table_rows
from memory_service.services.tables.paging import _check, parse_query, sort_names
from tests.patterns import COMMON, WORDS, at_most
from tests.reading import counts_alone

SCRIPTS = sorted((Path(__file__).parent / "review" / "scripts").glob("*.txt"))
fuzzed = settings(
    max_examples=int(os.environ.get("FUZZ_EXAMPLES", "450")),
    suppress_health_check=[
        HealthCheck.too_slow,
        HealthCheck.function_scoped_fixture,
        HealthCheck.data_too_large,
    ],
)
a_third = settings(fuzzed, max_examples=fuzzed.max_examples // 3)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=30),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=10), inner, max_size=4),
    max_leaves=12,
)
NUMBERS = st.one_of(
    st.integers().map(str),
    st.floats().map(repr),
    st.sampled_from(
        ["nan", "-inf", "1e999", "0x1f", "1_000", "٣", "9" * 400, "9" * 5_000, "1,234.5", "12:34:56"]
    ),
)


def pieces(words: Sequence[str], *more: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    """Texts of words that the parser knows, numbers, and anything else."""
    return st.lists(st.one_of(st.sampled_from(words), NUMBERS, *more), max_size=40).map("".join)


PROCESSOR_SECONDS = 20.0
"""For one text of a few kilobytes: hundreds of times what it takes, so that only an explosion is past it."""


def repeated(*words: str, length: int = 3_000) -> st.SearchStrategy[str]:
    """One to three pieces said again and again up to some length, with something before and behind."""
    piece = st.lists(st.sampled_from((*COMMON, *words)), min_size=1, max_size=3).map("".join)
    ends = st.sampled_from(("", "!", "\n", *words))
    return st.builds(
        lambda before, piece, behind, size: before + (piece * size)[:size] + behind,
        ends,
        piece,
        ends,
        st.sampled_from((100, length)),
    )


LOG_WORDS = (
    "Epoch ", "epoch=", "[", "]", "/", "loss: ", "loss=", "val_loss ", "- ", "%|███   | ", "it/s",
    "s/it", ", ", "\n", "\r", "\r\n", "{'loss': ", "'epoch': ", "}", '{"event": ', '"fold": ',
    "Fold ", "lr ", "GiB", "MiB ", "CUDA out of memory. Tried to allocate ", "2026-01-01 12:00:00",
    "12:00:01,123 ", "INFO ", "\x1b[31m", "\t", "auc ", "train", "valid_0's binary_logloss: ",
    "Trainable params ", "100%", ":", " ", "Traceback", "memory: ",
)  # fmt: skip


@a_third
@given(pieces(LOG_WORDS, st.text(max_size=8)) | repeated(*LOG_WORDS), st.data())
def test_any_log_becomes_events_that_are_taken_however_it_is_cut(text: str, data: st.DataObject):
    raw = text.encode("utf-8", "surrogatepass") + data.draw(st.binary(max_size=4))
    with at_most(PROCESSOR_SECONDS):
        whole = read_log(raw, final=True)
    reported = [
        fitting(seq, one.kind, "2026-01-01T00:00:00Z", one.fields) for seq, one in enumerate(whole.events)
    ]
    body = {"events": [{"seq": seq, "kind": kind, **fields} for seq, kind, fields in reported]}
    assert len(parse_events(orjson.loads(orjson.dumps(body)))) == len(reported)
    at = data.draw(st.integers(0, len(raw)))
    first = read_log(raw[:at])
    second = read_log(
        raw[at:], Context.from_dict(json.loads(json.dumps(first.context.as_dict()))), final=True
    )
    if b"\r" in raw or b"\x08" in raw:
        # A bar redrawn in place: the last frame of each piece is read, so that pieces say more of it.
        assert first.lines + second.lines >= whole.lines
        assert set(_told(first) + _told(second)) >= set(_told(whole))
        return
    assert _told(first) + _told(second) == _told(whole)
    assert first.lines + second.lines == whole.lines


def _told(reading: Reading) -> list[str]:
    return [repr((one.kind, sorted(one.fields.items(), key=str))) for one in reading.events]


SCRIPT_WORDS = (
    "(", "[", "{", ")", "f'{", "lambda: ", "not ", "-", "x.", "x[0]", "x = ", "x + ", "if x:\n ", "@x\n",
    "\\\n", "\"\"\"", "def f():\n", "class A(A): pass\n", "x = f(x)\n", "for x in x: ", "x if x else ", "\0",
    "import torch\n", "model = model(model)\n", "x = [*x, *x]\n", "x += x\n", "try:\n pass\n", "\t", "\f",
)  # fmt: skip


@st.composite
def scripts(draw: st.DrawFn) -> bytes:
    """A script of the corpus with some of its lines moved, doubled, cut and replaced."""
    lines = draw(st.sampled_from(SCRIPTS)).read_bytes().splitlines()
    for _ in range(draw(st.integers(1, 6))):
        at, other = draw(st.integers(0, len(lines) - 1)), draw(st.integers(0, len(lines) - 1))
        line = lines[at]
        cut = draw(st.integers(0, len(line)))
        lines[at] = draw(
            st.sampled_from(
                [
                    lines[other],
                    line + lines[other].strip(),
                    line[:cut],
                    line[cut:],
                    b"    " + line,
                    line.strip(),
                ]
            )
            | st.sampled_from(
                [b"if True:", b"class A(A): pass", b"x = x = f(*x, **x)", b"del model", b"async def f():"]
            )
            | st.builds(lambda junk, keep=line[:cut]: keep + junk, st.binary(max_size=6))
        )
    return b"\n".join(lines)


@a_third
@given(scripts() | st.binary(max_size=200) | repeated(*SCRIPT_WORDS, length=600).map(str.encode))
def test_any_script_is_reviewed_or_said_not_to_be(script: bytes):
    with at_most(PROCESSOR_SECONDS):
        reviewed = review_text(script)
    lines = script.count(b"\n") + script.count(b"\r") + script.count(b"\f") + 1
    for finding in reviewed.findings:
        json.dumps(finding.as_dict())
        assert 0 <= finding.line <= lines
    assert reviewed.facts is not None or reviewed.not_checked or reviewed.findings


TEXT_WORDS = (
    "classify ", "images ", "of ", "predict ", "the ", "probability ", "AUC ", "log loss ",
    "Macro F1", "rows ", "columns ", "10,000 ", "csv ", "audio ", "512x512 ", "k", "million ",
    "segment ", "labels ", "\n", ". ", "## ", "evaluated ", "on ", "RMSE ",
    "mean average precision @ ", "IoU ", "train.csv ", "classes ", "- ", "|", "not ",
)  # fmt: skip


@fuzzed
@given(pieces(TEXT_WORDS, st.text(max_size=10)) | repeated(*WORDS, *TEXT_WORDS))
def test_any_description_gives_known_tasks_and_possible_figures(text: str):
    with at_most(PROCESSOR_SECONDS):
        facts = counts_alone(text)
    assert facts.task is None or facts.task in TASKS
    assert 0.0 <= facts.confidence <= 1.0
    assert facts == counts_alone(text)
    for name in ("n_train", "n_classes", "n_features"):
        value = getattr(facts, name, None)
        assert value is None or 0 <= value < 2**63, name


@a_third
@given(st.sampled_from(["competitions", "models", "gpus", "runs", "history"]), st.data())
def test_any_cursor_is_followed_or_refused(seeded_sqlite: Database, table: str, data: st.DataObject):
    sort = data.draw(st.sampled_from(sort_names(table))) if table != "history" else "id"
    question = parse_query(table, None, sort)
    value = JSON | repeated("[", '{"', "\\", "\0")
    forged = json.dumps([question._digest(), data.draw(value), data.draw(value)]).encode()
    many = repeated("[", '{"', "=", "%").map(str.encode)
    raw = data.draw(st.sampled_from([_check(forged) + forged, forged]) | st.binary(max_size=60) | many)
    whole = st.just(base64.urlsafe_b64encode(raw).decode().rstrip("="))
    cursor = data.draw(whole | st.text(max_size=40) | repeated("=", "AAAA", "%"))
    with seeded_sqlite.read() as transaction, contextlib.suppress(InvalidInput):
        page = table_rows.list_rows(transaction, table, sort=sort, cursor=cursor)
        assert isinstance(page.items, list)


SEQS = st.integers(-5, 50) | JSON
RUN_IDS = st.sampled_from(["a-run", "../../keys?", "x/../keys"]) | JSON
RECORDS = st.one_of(
    st.fixed_dictionaries(
        {"seq": st.integers(-5, 50) | JSON, "kind": st.sampled_from(["epoch", "gpu"]) | JSON}
    ),
    st.fixed_dictionaries(
        {"run": st.none() | st.just({"gpu": "a100"}) | JSON, "run_id": st.just("a-run") | JSON}
    ),
    st.fixed_dictionaries({"acked": st.integers(-5, 50) | JSON}),
    st.fixed_dictionaries({"finish": st.just({"status": "completed"}) | JSON}),
    JSON,
).map(lambda record: json.dumps(record, separators=(",", ":")).encode())
LINES = RECORDS | st.binary(max_size=20) | st.sampled_from([b'{"seq":' + b"9" * 5_000 + b"}", b"[" * 20_000])
EVENTS = st.builds(b'{"seq":%d,"kind":"epoch"}'.__mod__, st.integers(0, 50))
MANY = st.builds(lambda line, times: [line] * times, EVENTS | LINES, st.sampled_from((20, 100)))
WORN = repeated('{"seq":', "[", "{", '"', "9", "null,", "\0").map(lambda text: [text.encode()])
SPOOLS = st.lists(EVENTS, min_size=1, max_size=8) | st.lists(EVENTS | LINES, max_size=8) | MANY | WORN
"""Half of them can be sent: one line that cannot be read leaves all behind it."""

LIKELY = [
    Reply("done", 201, {}),
    Reply("refused", 422, {"errors": [{"field": "gpu"}]}),
    Reply("refused", 422, {"errors": [{"field": "events.0"}]}),
]
REPLIES = st.sampled_from(LIKELY) | st.builds(
    Reply,
    st.sampled_from(["done", "later", "refused"]),
    st.sampled_from([0, 200, 201, 400, 404, 409, 413, 422, 429, 500]),
    st.just({"errors": [{"field": "events.0"}, {"field": "gpu"}]})
    | st.dictionaries(st.text(), JSON, max_size=2),
)


@a_third
@given(SPOOLS, st.lists(REPLIES, max_size=8), st.booleans())
def test_any_spool_is_sent_or_left_with_its_reason(
    tmp_path_factory: pytest.TempPathFactory, lines: list[bytes], replies: list[Reply], begun: bool
):
    folder = tmp_path_factory.mktemp("spool")
    head = b'{"run":{"gpu":"a100"},"run_id":"a-run","server":"http://box"}'
    (folder / "a-run.jsonl").write_bytes(b"\n".join([head, *lines] if begun else lines))

    class Answers:
        def __init__(self, server: str, key: str | None = None) -> None:
            self.left = list(replies)

        def post(self, path: str, body: bytes, seconds: float = 1.0) -> Reply:
            assert re.fullmatch(r"/runs(/[\w-]+/(events|finish))?", path)
            json.loads(body)
            reply = self.left.pop() if self.left else Reply("later", reached=False)
            taken = {"run_id": "a-run", "id": "a-run", "accepted": body.count(b'{"seq"'), "duplicates": 0}
            return Reply("done", 201, taken) if reply in LIKELY[:1] else reply

        def close(self) -> None: ...

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sync, "Wire", Answers)
        for again in (False, True):
            for one in sync.sync(folder=folder, refused=again, sleep=lambda _: None):
                assert one.outcome in ("sent", "away", "refused", "unreadable", "aside")
