"""Answers of /recommend as JSON, by knowledge revision and question."""

import os
import re
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import nullcontext, suppress
from contextvars import copy_context
from hashlib import blake2b
from pathlib import Path
from time import monotonic

from cachetools import LRUCache

from memory_service.child_processes import ASIDE
from memory_service.domain.common.vocabulary import MODES, Mode

MOST_BYTES = 32 * 2**20
MOST_NAMES = 4_096
PRUNED_EVERY = 256
LONGEST_QUERY = 4_096
"""A longer query string is not worth its memory."""

MOST_RENEWALS, RENEWALS_SECONDS = 3, 30.0
"""Where the knowledge changed so often since a plan was the latest, so many seconds ago at most, or a
question was planned anew so often, that plan answers while a new one takes longer than `PATIENCE_SECONDS`."""
PATIENCE_SECONDS = 0.2

Key = tuple[int, str]

View = str | None

EVERYBODYS: View = ""
"""The view of askers of whom nobody told anything: what one key told counts there within bounds."""

Query = tuple[Mode, View, bytes]
"""The most of memory that its asker may use, the asker's view, and a query string."""

_PLAN_ID = re.compile(r"plan-[0-9a-f]+(?:\.\d{1,3})?@[a-z]+")
_ASKED = ".asked"
"""Ending of the file beside a shared plan that holds its question."""


class PlanCache:
    """Up to 32 MiB of answers; the oldest use goes first. Threads may share it.

    A question goes by its canonical text; query strings that were seen before are known to mean one.
    Processes that serve one address keep plans by id in a folder that all of them read.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._revision, self._asked_at = -1, 0.0
        self._left: LRUCache[int, float] = LRUCache(MOST_NAMES)
        self._answers: LRUCache[Key, bytes] = LRUCache(MOST_BYTES, len)
        self._plans: LRUCache[str, Key] = LRUCache(MOST_NAMES)
        self._asked: LRUCache[str, str] = LRUCache(MOST_NAMES)
        self._questions: LRUCache[Query, str] = LRUCache(MOST_NAMES)
        self._renewals: LRUCache[str, deque[tuple[float, int]]] = LRUCache(MOST_NAMES)
        self._planning: LRUCache[str, tuple[float, Future[bytes]]] = LRUCache(MOST_NAMES)
        self._planner = ThreadPoolExecutor(1, "planning")
        self._folder: Path | None = None
        self._written = 0

    def share(self, folder: Path) -> None:
        """Keep plans by id in this folder, too."""
        self._folder = folder

    def get(self, revision: int, question: str) -> bytes | None:
        """The answer, None where this was not asked of this revision."""
        with self._lock:
            return self._get(revision, question)

    def has_query(self, query: Query) -> bool:
        """Whether a query string is known to mean a question."""
        return query in self._questions

    def get_by_query(self, revision: int, query: Query) -> bytes | None:
        """The same for a query string."""
        with self._lock:
            question = self._questions.get(query)
            return None if question is None else self._get(revision, question)

    def _get(self, revision: int, question: str) -> bytes | None:
        if revision < self._revision:
            # A request that began earlier; or a backup was restored, whose later revisions will be others.
            for key in [key for key in self._answers if key[0] > revision]:
                del self._answers[key]
        if revision != self._revision:
            self._left[self._revision] = self._asked_at
        self._revision, self._asked_at = revision, monotonic()
        return self._answers.get((revision, question))

    def store(
        self,
        revision: int,
        question: str,
        answer: bytes,
        plan_id: str | None,
        mode: Mode = "open",
        view: View = EVERYBODYS,
    ) -> None:
        """Remember an answer, and where it has a plan, its id with what of memory and whose view it rests
        on: with other reports the same settings have other figures."""
        name = f"{plan_id}@{mode}"
        if len(answer) <= MOST_BYTES:
            with self._lock:
                exact = bytes(memoryview(answer))  # orjson's buffer is up to twice as long
                self._answers[revision, question] = exact
                renewals = self._renewals.get(question) or deque(maxlen=MOST_RENEWALS)
                renewals.append((monotonic(), revision))
                self._renewals[question] = renewals
                if plan_id is not None:
                    self._plans[_seen(name, view)] = (revision, question)
                    self._asked[name] = question
            if plan_id is not None and self._folder is not None:
                self._write(self._folder, f"{name}{_ASKED}", question.encode())
                self._write(self._folder, _seen(name, view), answer)

    def store_query(self, query: Query, question: str) -> None:
        """Remember what a query string means."""
        if len(query[2]) <= LONGEST_QUERY:
            with self._lock:
                self._questions[query] = question

    def renewed(self, revision: int, question: str, plan: Callable[[], bytes]) -> bytes:
        """The answer that `plan` makes, and stores. Where the knowledge changes faster than it is made: the
        answer before, while one thread makes the new one."""
        with self._lock:
            before = self._before(revision, question)
            if before is not None:
                began, made = self._begun(question, plan)
        if before is None:
            return plan()
        try:
            return made.result(max(0.0, began + PATIENCE_SECONDS - monotonic()))
        except TimeoutError:
            return before

    def _begun(self, question: str, plan: Callable[[], bytes]) -> tuple[float, Future[bytes]]:
        known = self._planning.get(question)
        if known is None or known[1].done():
            context = copy_context()
            context.run(ASIDE.set, nullcontext)  # the place is the request's, which may end before
            known = self._planning[question] = (monotonic(), self._planner.submit(context.run, plan))
        return known

    def _before(self, revision: int, question: str) -> bytes | None:
        """The latest answer of a question under which the knowledge changes all the while."""
        renewals = self._renewals.get(question)
        if renewals is None:
            return None
        latest, since = renewals[-1][1], monotonic() - RENEWALS_SECONDS
        often = len(renewals) == MOST_RENEWALS and renewals[0][0] > since
        changed = revision - latest >= MOST_RENEWALS and self._left.get(latest, renewals[-1][0]) > since
        return self._answers.get((latest, question)) if often or changed else None

    def with_plan(self, plan_id: str, limit: Mode = "open", view: View = EVERYBODYS) -> bytes | None:
        """The latest answer with this plan in the asker's view or everybody's that rests on no more memory
        than a limit allows, of whatever revision: evidence may have changed while the settings, and with
        them the id, stayed."""
        allowed = MODES[MODES.index(limit) :]
        names = [(f"{plan_id}@{mode}", of) for of in (view, EVERYBODYS) for mode in allowed]
        return next(filter(None, (self._with_name(*name) for name in names)), None)

    def _with_name(self, name: str, view: View) -> bytes | None:
        with self._lock:
            key = self._plans.get(_seen(name, view))
            known = None if key is None else self._answers.get(key)
        if known is None and self._folder is not None and _PLAN_ID.fullmatch(name):
            with suppress(OSError):
                known = (self._folder / _seen(name, view)).read_bytes()
        return known

    def question_of(self, plan_id: str) -> str | None:
        """The canonical text of the question that this plan answered last, in whatever view."""
        for name in (f"{plan_id}@{mode}" for mode in MODES):
            with self._lock:
                asked = self._asked.get(name)
            if asked is not None:
                return asked
            if self._folder is not None and _PLAN_ID.fullmatch(name):
                with suppress(OSError):
                    return (self._folder / f"{name}{_ASKED}").read_text()
        return None

    def _write(self, folder: Path, name: str, answer: bytes) -> None:
        """A file that is there is whole. Of the folder's files the oldest are removed now and then."""
        with suppress(OSError):
            part = folder / f"{os.getpid()}.{threading.get_ident()}.part"
            part.write_bytes(answer)
            part.replace(folder / name)
            self._written += 1
            if self._written % PRUNED_EVERY == 0:
                found = sorted((file.stat().st_mtime, file) for file in folder.glob("plan-*"))
                for _, file in found[: -2 * MOST_NAMES]:
                    file.unlink(missing_ok=True)


def _seen(name: str, view: View) -> str:
    """A plan's name in a view, fit for a file."""
    return name if view == EVERYBODYS else f"{name}.{blake2b(repr(view).encode(), digest_size=8).hexdigest()}"
