"""Requests of lists: pages of rows, or all of them as a file."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal, get_args

from pydantic import Field, StringConstraints, create_model

from memory_service.schemas import fields as f
from memory_service.schemas.base import FromText, Request

DEFAULT_LIMIT, MAX_LIMIT = 50, 500

FileFormat = Literal["csv", "xlsx", "jsonl", "parquet"]
PageFormat = Literal["json", "csv", "xlsx", "jsonl", "parquet"]
FORMATS: tuple[str, ...] = get_args(FileFormat)

_REACH: Mapping[type[Any], float] = {int: 2**31 - 1, float: 10**15}


class ListQuery(FromText, Request):
    """A page of a list."""

    limit: Annotated[int, Field(ge=1, le=MAX_LIMIT)] = Field(DEFAULT_LIMIT, description="Rows of one page.")
    cursor: Annotated[str, StringConstraints(min_length=1, max_length=4_000)] | None = f.optional(
        "`next` of the page before, with the same filters and sort."
    )
    format: PageFormat = Field("json", description="All rows as a file instead of a page.")

    def filters(self) -> dict[str, Any]:
        """What narrows the list."""
        page = {*ListQuery.model_fields, "sort", "total"}
        return {name: value for name, value in self.explicit().items() if name not in page}


class ConflictsQuery(ListQuery):
    """Which disagreements, in which order."""

    gpu: f.Word120 | None = f.optional("Only what is about this GPU model (slug).")
    device: f.Word120 | None = f.optional("Only what was measured on this registered device.")
    model: f.Text200 | None = f.optional("Only what is about this model.")
    quantity: f.Word120 | None = f.optional("Only what is about this quantity.")
    sort: Literal["-apart", "apart", "id", "-id"] = Field(
        "-apart", description="Widest disagreement first, or by id."
    )


class HistoryQuery(FromText, Request):
    """How much of a row's history."""

    limit: Annotated[int, Field(ge=1, le=MAX_LIMIT)] = Field(100, description="How many entries.")


def list_query(
    table: str, filters: Mapping[str, type[Any]], sorts: Sequence[str], **particular: Any
) -> type[ListQuery]:
    """The query of a table's list. filters: name -> type; particular: types of filters with words of their
    own."""
    fields: dict[str, Any] = {
        name: (particular.get(name, _filter(kind)) | None, f.optional(_about(name, kind)))
        for name, kind in filters.items()
    }
    words = Literal[(*sorts, *(f"-{name}" for name in sorts))]  # type: ignore[valid-type]
    fields["sort"] = (words | None, f.optional("Column to sort by, `-` for descending."))
    total = Annotated[int, Field(ge=0, le=1)] | None
    about = "1: also count the rows that match."
    fields["total"] = (total, f.optional(about))
    return create_model(f"{table.capitalize()}Query", __base__=ListQuery, **fields)


def _filter(kind: type[Any]) -> Any:
    if kind is bool:
        return bool
    if kind in _REACH:
        return Annotated[kind, Field(ge=-_REACH[kind], le=_REACH[kind])]
    return f.Filter


def _about(name: str, kind: type[Any]) -> str:
    base, _, how = name.rpartition("_")
    if how in ("min", "max") and kind in _REACH:
        return f"`{base}` at {'least' if how == 'min' else 'most'} this."
    return f"Only rows with this `{name}`."
