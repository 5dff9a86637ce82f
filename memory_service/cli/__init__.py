"""The command `memory-service`. Each module here is a command: its function or group of the same name, or
what its `register(app)` adds."""

import pkgutil
import sys
from importlib import import_module
from typing import Any

import typer
from typer.core import TyperGroup

from memory_service import __version__
from memory_service.errors import MemoryServiceError, NotInstalled

_NEEDS = (
    "This command needs more than the light package: pip install 'memory-service[planner]', or "
    "'memory-service[server]' to trace and calibrate as well"
)


class _Refusing(TyperGroup):
    """A refusal of the service becomes exit code 1 with the words of HTTP."""

    def invoke(self, ctx: Any) -> Any:
        from memory_service.cli.common.output import fail

        try:
            return super().invoke(ctx)
        except MemoryServiceError as error:
            fail(error, json="--json" in sys.argv)
        except ModuleNotFoundError as error:
            if (error.name or "").startswith("memory_service"):
                raise
            fail(NotInstalled(f"{_NEEDS} ({error.name} is not installed)"), json="--json" in sys.argv)


app = typer.Typer(
    name="memory-service",
    cls=_Refusing,
    help="One explicit training plan for this task, this data, this card, these minutes.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(__version__)
        raise typer.Exit


@app.callback()
def _root(
    version: bool = typer.Option(
        False, "--version", callback=_show_version, is_eager=True, help="Print the version."
    ),
) -> None:
    """One explicit training plan for this task, this data, this card, these minutes."""


_SPINNING = ("brief", "profile", "recommend", "review")
"""Commands that work silently, then print."""


def _mount() -> None:
    from memory_service.cli.common.output import spinning

    for module in sorted(info.name for info in pkgutil.iter_modules(__path__)):
        found = import_module(f"{__name__}.{module}")
        command = getattr(found, module, None)
        if isinstance(command, typer.Typer):
            app.add_typer(command, name=module)
        elif command is not None:
            app.command(module)(spinning(command) if module in _SPINNING else command)
        elif hasattr(found, "register"):
            found.register(app)


_mount()


def main() -> None:
    """Exit 0 good, 1 refused or failed, 2 wrong usage."""
    app(prog_name="memory-service")
