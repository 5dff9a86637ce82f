"""Options of a command from the fields of a request: declared once, in `memory_service.schemas`."""

import inspect
from collections.abc import Callable, Collection
from typing import Annotated, Any

import typer
from pydantic import BaseModel


def takes_fields_of(
    model: type[BaseModel], arguments: Collection[str] = (), without: Collection[str] = ()
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Gives a command an option for each field, and what was given of them as its first parameter, texts by
    name.

    arguments   fields that stand on their own, without `--name`
    """
    fields = {name: field for name, field in model.model_fields.items() if name not in without}

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        signature = inspect.signature(command, eval_str=True)
        own = list(signature.parameters.values())[1:]
        ways = {name: typer.Argument if name in arguments else typer.Option for name in fields}
        options = [
            inspect.Parameter(
                name,
                inspect.Parameter.KEYWORD_ONLY,
                default=inspect.Parameter.empty if field.is_required() else None,
                annotation=Annotated[
                    str if field.is_required() else str | None,
                    ways[name](help=(field.description or "").replace("`", "")),
                ],
            )
            for name, field in sorted(fields.items(), key=lambda item: item[0] not in arguments)
        ]

        def run(**values: Any) -> None:
            given = {name: values.pop(name) for name in fields}
            command({name: value for name, value in given.items() if value is not None}, **values)

        run.__doc__ = command.__doc__
        run.__annotations__ = {each.name: each.annotation for each in (*options, *own)}
        run.__signature__ = signature.replace(  # type: ignore[attr-defined]
            parameters=[*options, *(each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in own)]
        )
        return run

    return decorate
