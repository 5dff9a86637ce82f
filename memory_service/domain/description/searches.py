"""What a description of a ranking says of its search: queries, documents, candidates that are given."""

from dataclasses import dataclass

from memory_service.domain.description.phrases import patterns
from memory_service.domain.description.quantities import numbers_in, quantities_in

USUAL_DOCUMENTS, FEWEST_DOCUMENTS = 100_000, 200
"""Documents of a collection whose size nobody says; fewer than the second are classes or given candidates."""

_QUERIES = frozenset(
    ("query", "question", "claim", "search", "search-term", "search-query", "request", "topic")
)
_P = patterns("searches")


@dataclass(frozen=True, slots=True)
class Search:
    """What answers a query.

    queries     of training, None where nobody says how many
    documents   that are searched: passages, products, articles; 0 where candidates are given
    candidates  a query that are given to be ordered, None where they are to be found
    words       that say how many documents, "" where nobody does
    """

    queries: int | None
    documents: int
    candidates: int | None = None
    words: str = ""


def search_in(text: str) -> Search | None:
    """The search that a text of a ranking task tells of; None where nothing is searched by queries."""
    if not _P["query"].search(text):
        return None
    found = [q for q in quantities_in(text) if q.role != "test"]
    asked = [q for q in found if q.noun in _QUERIES]
    queries = round(max((q.value for q in asked), default=0.0)) or None
    given = _P["given"].search(text)
    if given is not None and (number := round(numbers_in(given[0])[-1])) > 0:
        return Search(queries, 0, number, given[0])
    things = [q for q in found if q.noun and q.noun not in _QUERIES and q.kind in ("sample", "unknown")]
    most = max((q for q in things if not q.each), key=lambda q: q.value, default=None)
    if most is not None and most.value >= FEWEST_DOCUMENTS:
        return Search(queries, round(most.value), None, most.words)
    return Search(queries, USUAL_DOCUMENTS) if _P["collection"].search(text) else None
