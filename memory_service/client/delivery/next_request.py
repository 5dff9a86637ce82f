"""The next request that a run's spool needs: its beginning, then its events in order, then its end.

Each of the three can be sent again without harm: the run's id is the client's own, an event is known by its
seq, an end sent twice is the same end.
"""

import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from memory_service.client.delivery.http import READ_S, Reply, Wire, one_line
from memory_service.client.delivery.spool import Part, Spool
from memory_service.client.facts import CUSTOM

MOST_EVENTS, MOST_BYTES, LEAST_BYTES = 1_000, 512 * 1024, 8 * 1024
MOST_RESTARTS, MOST_BEGINS = 3, 6
A_RUN = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
NOT_A_NAME = re.compile(r"[^\w.\-/ ]+")


@dataclass(frozen=True, slots=True)
class Step:
    """What one request came to.

    idle      nothing to send now
    progress  something arrived; ask again
    later     the service is away: try again, after `retry_after` seconds if set
    done      everything was sent, the end included
    refused   the service will not take this run; `why`
    """

    outcome: Literal["idle", "progress", "later", "done", "refused"]
    why: str = ""
    retry_after: float | None = None
    reached: bool = True


class Delivery:
    """One spool on its way to one server; every call of `step` makes at most one request."""

    def __init__(
        self, spool: Spool, wire: Wire, on_verdict: Callable[[Any], None], on_trouble: Callable[[str], None]
    ) -> None:
        self._spool, self._wire = spool, wire
        self._on_verdict, self._on_trouble = on_verdict, on_trouble
        self._started = spool.header.get("run") is None
        self._finished = False
        self.run_id = str(spool.header["run_id"])
        """Of the run as the service answers it: of a plan's run it may know an earlier one."""
        self._restarts = self._begins = 0
        self._most_bytes = MOST_BYTES
        self.sent = 0
        """Events that the service acknowledged, new to it or not."""

    def step(self, seconds: float = READ_S) -> Step:
        """The next request, answered within about `seconds`. What cannot be made sense of is no answer."""
        try:
            return self._step(seconds)
        except Exception as error:  # noqa: BLE001 - an answer may hold anything
            return Step("later", one_line(f"its answer cannot be read: {error!r}"))

    def _step(self, seconds: float) -> Step:
        if self._finished:
            return Step("done")
        if not self._started:
            body = json.dumps({"run_id": self._spool.header["run_id"], **self._spool.header["run"]}).encode()
            return self._on_begin(self._wire.post("/runs", body, seconds))
        part = self._spool.unsent(MOST_EVENTS, self._most_bytes)
        if part is not None:
            return self._on_events(part, self._post_events(part.events, seconds))
        if self._spool.finish is not None:
            body = json.dumps(self._spool.finish).encode()
            return self._on_finish(self._wire.post(f"/runs/{self.run_id}/finish", body, seconds))
        return Step("idle")

    def _post_events(self, events: Iterable[bytes], seconds: float = READ_S) -> Reply:
        body = b'{"events":[' + b",".join(events) + b"]}"
        return self._wire.post(f"/runs/{self.run_id}/events", body, seconds)

    def _on_begin(self, reply: Reply) -> Step:
        if reply.status == 409:  # the id is ours: it is this run, and what was first said of it holds
            self._on_trouble(f"the run had begun already, with other facts: {reply.why}")
        if reply.outcome == "done":
            answered, own = str(reply.body.get("run_id")), self._spool.header["run_id"]
            if answered != own and not (self._spool.header["run"].get("join") and A_RUN.fullmatch(answered)):
                return _not_ours(reply)
            self.run_id = answered
        if reply.outcome == "done" or reply.status == 409:
            self._started = True
            self._on_verdict(reply.body.get("verdict"))
            return Step("progress")
        if reply.outcome == "later":
            return _later(reply)
        return self._without_refused_fields(reply) or Step("refused", reply.why)

    def _without_refused_fields(self, reply: Reply) -> Step | None:
        """Drop or replace the fields the service refused; None where nothing can be given up."""
        run = dict(self._spool.header["run"])
        usual = self._spool.header.get("usual") or {}
        refused = {field.split(".")[0] for field in _refused_fields(reply)}
        replaced = {name: usual[name] for name in refused - set(run) if name in usual}
        refused &= set(run)
        if reply.status != 422 or not (refused or replaced) or self._begins >= MOST_BEGINS:
            return None
        self._begins += 1
        for name in refused:
            raw = run.pop(name)
            replacement = _replacement(name, str(raw), usual)
            if replacement is not None:
                replaced[name] = replacement
            elif name in usual:
                return None
        self._spool.change_run(run | replaced)
        pairs = ", ".join(f"{name} {value}" for name, value in sorted(replaced.items()))
        suffix = f"; it is reported as {pairs}" if replaced else ""
        self._on_trouble(f"the run goes on without what the service does not take ({reply.why}){suffix}")
        return Step("progress")

    def _on_events(self, part: Part, reply: Reply) -> Step:
        if reply.outcome == "done":
            if not _takes(reply, len(part.events)):
                return _not_ours(reply)
            self._acknowledge(part, len(part.events))
            self._most_bytes = min(2 * self._most_bytes, MOST_BYTES)
            self._on_verdict(reply.body.get("verdict"))
            for one in {str(each.get("field")): each for each in _dicts(reply.body.get("ignored"))}.values():
                said = f"not counted: {one.get('field')} {one.get('value')} {one.get('why')}"
                self._on_trouble(one_line(said))
            return Step("progress")
        if reply.status == 404 and self._spool.header.get("run") is not None:
            return self._restart(reply)
        if reply.outcome == "later":
            if reply.status == 0 and reply.reached:  # perhaps it was too much for the time
                self._most_bytes = max(LEAST_BYTES, self._most_bytes // 2)
            return _later(reply)
        if reply.status in (400, 413, 422):
            return self._without_refused_events(part, reply)
        return Step("refused", reply.why)

    def _without_refused_events(self, part: Part, reply: Reply) -> Step:
        """Send the rest: one bad event must not hold up those behind it. Where the service does not say which
        it is, halves of them are tried, down to one."""
        matches = (re.match(r"events\.(\d{1,6})\b", field) for field in _refused_fields(reply))
        wrong = {int(match[1]) for match in matches if match} if len(part.events) > 1 else {0}
        taken = tuple(event for place, event in enumerate(part.events) if place not in wrong)
        again = self._post_events(taken) if wrong and taken else None
        if again is not None and again.outcome == "later":
            return _later(again)
        if len(taken) == len(part.events) or (again is not None and not _takes(again, len(taken))):
            self._most_bytes = max(1, sum(map(len, part.events)) // 2)
            return Step("progress")
        refused = tuple(event for place, event in enumerate(part.events) if place in wrong)
        kept = self._spool.keep_refused(refused, reply.why)
        where = f"kept in {kept}" if kept else "left out"
        self._on_trouble(f"{len(refused)} events were refused and {where}: {reply.why}")
        self._acknowledge(part, len(taken))
        return Step("progress")

    def _restart(self, reply: Reply) -> Step:
        """The service does not know the run (its database was restored): begin it anew."""
        self._restarts += 1
        if self._restarts > MOST_RESTARTS:
            return Step("refused", reply.why)
        self._started = False
        return Step("progress")

    def _on_finish(self, reply: Reply) -> Step:
        if reply.outcome == "refused":
            finish = self._spool.finish or {}
            if reply.status == 422 and len(finish) > 1:
                self._on_trouble(f"only the status of the end was taken: {reply.why}")
                self._spool.append((), finish={"status": finish["status"]})
                return Step("progress")
            if reply.status != 409:
                return Step("refused", reply.why)
            self._on_trouble(f"the run has another end already: {reply.why}")
        elif reply.status == 404 and self._spool.header.get("run") is not None:
            return self._restart(reply)
        elif reply.outcome == "later":
            return _later(reply)
        elif reply.body.get("id") != self.run_id:  # the answer is the run's page
            return _not_ours(reply)
        self._finished = True
        return Step("done")

    def _acknowledge(self, part: Part, taken: int) -> None:
        self._spool.acknowledge(part)
        self.sent += taken


def _takes(reply: Reply, n: int) -> bool:
    """Whether an answer says that all n events are stored, now or before: a proxy's page does not."""
    counts = [reply.body.get(name) for name in ("accepted", "duplicates")]
    return reply.outcome == "done" and all(type(count) is int for count in counts) and sum(counts) == n  # type: ignore[arg-type]


def _dicts(value: Any) -> list[dict[str, Any]]:
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []


def _refused_fields(reply: Reply) -> list[str]:
    return [str(error.get("field")) for error in _dicts(reply.body.get("errors"))]


def _not_ours(reply: Reply) -> Step:
    return Step("later", f"{reply.status} is no answer of a memory-service: {reply.why}")


def _later(reply: Reply) -> Step:
    return Step("later", reply.why, reply.retry_after, reached=reply.reached)


def _replacement(name: str, raw: str, usual: Mapping[str, Any]) -> Any:
    """What a required name that the service does not know is replaced by; None for nothing."""
    if name in ("gpu", "model"):
        if name == "gpu" and usual.get(name) not in (None, "cpu", raw):
            return usual[name]  # as the driver names the card
        if raw == CUSTOM:
            return None
        return CUSTOM if raw.casefold().startswith(CUSTOM) else f"{CUSTOM}/{NOT_A_NAME.sub('-', raw)[:120]}"
    return usual[name] if name in usual and usual[name] != raw else None
