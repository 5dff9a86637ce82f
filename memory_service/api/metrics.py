"""Prometheus metrics of the service itself."""

import datetime as dt
import os
from collections import deque
from functools import partial
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector, generate_latest
from prometheus_client.multiprocess import MultiProcessCollector

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
ENCODER_STATES = ("loading", "ready", "degraded")
SLOW_SECONDS, MOST_SLOW = 1.0, 12
_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


class Metrics:
    """Requests and their seconds by route template, the knowledge revision and the encoder's state.

    Each application has its own registry, so that two of them in one process do not mix. Processes that serve
    one address add up their counts in a folder (PROMETHEUS_MULTIPROC_DIR, set before prometheus_client is
    imported); those of the process itself are then left out.
    """

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        about = "Requests by method, route template and status."
        labels = ("method", "route", "status")
        self._requests = Counter("memory_service_requests", about, labels, registry=self.registry)
        name = "memory_service_request_seconds"
        about = "Seconds until the whole answer was handed over, by route template."
        self._seconds = Histogram(name, about, ("route",), buckets=_BUCKETS, registry=self.registry)
        gauge = partial(Gauge, registry=self.registry, multiprocess_mode="mostrecent")
        self.revision = gauge("memory_service_knowledge_revision", "Revision of the knowledge served.")
        self.left_out = gauge("memory_service_rows_left_out", "Rows of knowledge that cannot be used.")
        self.encoder = gauge("memory_service_encoder_state", "1 for the state that holds.", ("state",))
        ProcessCollector(registry=self.registry)
        self._counters: dict[tuple[str, str, int], Counter] = {}
        self._timers: dict[str, Histogram] = {}
        self.slow: deque[dict[str, Any]] = deque(maxlen=MOST_SLOW)

    def observe(self, method: str, route: str, status: int, seconds: float) -> None:
        """Count one answered request."""
        key = (method, route, status)
        counter = self._counters.get(key)
        if counter is None:
            counter = self._counters[key] = self._requests.labels(method, route, str(status))
        timer = self._timers.get(route)
        if timer is None:
            timer = self._timers[route] = self._seconds.labels(route)
        counter.inc()
        timer.observe(seconds)
        if seconds >= SLOW_SECONDS:
            at = dt.datetime.now(dt.UTC).isoformat(timespec="seconds")
            self.slow.append({"at": at, "request": f"{method} {route}", "status": status, "seconds": seconds})

    def slowest(self) -> dict[str, list[dict[str, Any]]]:
        """`slow`: the latest requests of this process that took `SLOW_SECONDS` or more, newest first;
        `routes`: of each route the requests and mean seconds, the slowest first, at most `MOST_SLOW`."""
        sums: dict[str, dict[str, float]] = {}
        for family in self._together().collect():
            for sample in family.samples if family.name == "memory_service_request_seconds" else ():
                sums.setdefault(sample.labels["route"], {})[sample.name.rpartition("_")[2]] = sample.value
        routes: list[dict[str, Any]] = [
            {"route": route, "requests": int(each["count"]), "mean_seconds": each["sum"] / each["count"]}
            for route, each in sums.items()
            if each.get("count")
        ]
        routes.sort(key=lambda each: -each["mean_seconds"])
        return {"slow": [*self.slow][::-1], "routes": routes[:MOST_SLOW]}

    def exposition(self, revision: int | None, encoder: str, left_out: int = 0) -> bytes:
        """The text that Prometheus reads."""
        if revision is not None:
            self.revision.set(revision)
        self.left_out.set(left_out)
        for state in ENCODER_STATES:
            self.encoder.labels(state).set(state == encoder)
        return generate_latest(self._together())

    def _together(self) -> CollectorRegistry:
        """What is counted here, or by all processes that serve the address."""
        folder = os.environ.get("PROMETHEUS_MULTIPROC_DIR")
        if folder is None:
            return self.registry
        together = CollectorRegistry()
        MultiProcessCollector(together, folder)  # type: ignore[no-untyped-call]
        return together
