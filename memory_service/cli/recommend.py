"""`memory-service recommend …`: the plan of /recommend in a terminal, as a script, as text, or as JSON."""

import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from enum import StrEnum
from functools import partial
from pathlib import Path
from textwrap import fill
from typing import Annotated, Any

import typer
from rich.console import Group, RenderableType
from rich.text import Text

from memory_service.cli.common import output
from memory_service.cli.common.databases import AnotherUrl, open_ready
from memory_service.cli.common.options import takes_fields_of
from memory_service.cli.common.output import JSON_OPTION, emit, graded, stderr, table
from memory_service.cli.common.remote import ServerUrl, get, server_asked
from memory_service.cli.describe import question_of
from memory_service.domain.planning.explanation import plan_text
from memory_service.domain.recipe.recipe_text import lesson_lines, recipe_lines
from memory_service.schemas.recommend import RecommendRequest, plan_request


class Form(StrEnum):
    """How the plan is written."""

    tables = "tables"
    script = "script"
    blend = "blend"
    text = "text"
    json = "json"


@takes_fields_of(RecommendRequest)
def recommend(
    given: dict[str, str],
    database: AnotherUrl = None,
    server: ServerUrl = None,
    form: Annotated[
        Form, typer.Option(help="Tables, a script, the script that joins its runs, text to paste, or JSON.")
    ] = Form.tables,
    data: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR", help="A folder of data: what `describe` says of it is part of the question."
        ),
    ] = None,
    script: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Write the script to this folder: train.py and what all share."),
    ] = None,
    why: Annotated[bool, typer.Option("--why", help="The reasons, too.")] = False,
    everything: Annotated[
        bool, typer.Option("--all", help="Tables of figures, timetable, runs and recipe, too.")
    ] = False,
    json: bool = JSON_OPTION,
) -> None:
    """One explicit plan for this task, this data, this card, these minutes."""
    given = given if data is None else {**question_of(data), **given}
    asked = server_asked(server, database)
    if asked is None:
        from memory_service.services.planning.recommend import recommend as ask

        ready = open_ready(database)

        def planned(fields: dict[str, Any]) -> dict[str, Any]:
            return ask(ready, plan_request(fields))
    else:

        def planned(fields: dict[str, Any]) -> dict[str, Any]:
            return get(asked, "/recommend", {**fields, "detail": "full"})

    answer = planned(given)
    if answer.get("needs") and not json and sys.stdin.isatty():
        for need in answer["needs"]:
            choices = ", ".join(str(each["value"]) for each in need["options"])
            given[need["field"]] = typer.prompt(f"{need['question']} ({choices})", err=True)
        answer = planned(given)
    if script is not None:
        _write_folder(script, answer, lambda number: planned({**given, "run": number}), asked)
    if form in (Form.script, Form.blend, Form.text) and not json:
        sys.stdout.write(_written(form, answer, single="single" in given, server=asked))
        return
    emit(answer, json or form is Form.json, partial(render_plan, why=why, everything=everything))


def _write_folder(
    folder: Path, answer: Mapping[str, Any], of_run: Callable[[int], Any], server: str | None
) -> None:
    """train.py of the plan, run_N.py of each run of its portfolio, blend.py, and the modules they import."""
    from memory_service.services.planning.plan_script import blend_script, plan_files
    from memory_service.services.planning.script_choice import NoScript

    files = plan_files(answer, server or "")
    for run in answer["portfolio"] if len(answer["portfolio"]) > 1 else ():
        try:
            own = plan_files(of_run(run["run"]), server or "")
            files |= {f"run_{run['run']}.py": own.pop("train.py"), **own}
        except NoScript as error:
            stderr.print(f"run {run['run']}: {error}", highlight=False, markup=False, soft_wrap=True)
    if len(answer["portfolio"]) > 1:
        with suppress(NoScript):
            files["blend.py"] = blend_script(answer)
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / name).write_text(text, encoding="utf-8")
    stderr.print(f"{folder}: {', '.join(sorted(files))}", highlight=False, markup=False, soft_wrap=True)


def _written(form: Form, answer: Mapping[str, Any], *, single: bool, server: str | None) -> str:
    """The plan as a file: a script, or text to paste; a script reports to the server that planned it."""
    if form is Form.text:
        return plan_text.plan_markdown(answer)
    from memory_service.services.planning.plan_script import blend_script, plan_script

    return blend_script(answer) if form is Form.blend else plan_script(answer, server or "", single=single)


def render_plan(answer: Mapping[str, Any], *, why: bool = False, everything: bool = False) -> RenderableType:
    """The answer in some twenty lines: what to run, to expect, to do on trouble, how to validate, what to
    mind; with `why` its reasons, with `everything` as tables. Or why not, and what would fit."""
    if not answer["feasible"]:
        return _refusal(answer)
    if everything:
        return _tables(answer)
    split = next(recipe_lines(answer), None)
    head, *lines = plan_text.plan_lines(answer)
    reasons = [f"because {each}" for each in answer["rationale"]] if why else []
    more = "" if why else "--why: reasons; --all: figures, timetable and recipe; --script DIR: its script"
    shown = [*plan_text.warning_lines(answer), *lines, *([split] if split else []), *reasons]
    width = min(output.stdout.width, 100) - 2
    folded = (fill(each, width, subsequent_indent="    ", **_WHOLE_WORDS) for each in shown)
    return Text("\n".join((head.replace("**", ""), *(f"  {each}" for each in folded), more)).rstrip())


_WHOLE_WORDS: dict[str, Any] = {"initial_indent": "", "break_long_words": False, "break_on_hyphens": False}


def _tables(answer: Mapping[str, Any]) -> RenderableType:
    model, expected, loader = answer["model"], answer["expected"], answer["data_loader"]
    size = next((f" at {model[key]}" for key in ("image_size", "seq_len") if key in model), "")
    trees = expected.get("host_memory_gib")
    passes = "rounds" if trees else "epochs"
    pace = f"{answer['folds']} x {answer['epochs']}, patience {answer['early_stopping_patience']} {passes}"
    warm = answer["warmup_epochs"]
    warmup = f"warmup {warm} epoch{'s' * (warm > 1)}" if warm else "warmup over the first tenth of the steps"
    network = [
        ("batch size", plan_text.batch_words(answer)),
        ("precision", answer["precision"] + (", channels_last" if answer["channels_last"] else "")),
        *([("tuning", tuned)] if (tuned := plan_text.tuning_words(answer)) else []),
        ("optimizer", f"{answer['optimizer']}, learning rate {answer['learning_rate']:g}, {warmup}"),
        ("loader", ", ".join(f"{name}={value}" for name, value in loader.items())),
    ]
    sized = "" if trees else f"{model['params_m']:g} M parameters, "
    settings = [
        ("model", f"{model['name']}{size} ({sized}{model['library']})"),
        (f"folds x {passes}", pace),
        *([("learning rate", f"{answer['learning_rate']:g}")] if trees else network),
        *([("trees grow on", answer["tree_device"])] if "tree_device" in answer else []),
        *([("judged by", plan_text.judged_words(answer["metric"]))] if answer["metric"] else []),
    ]
    costs = [
        ("peak memory", *graded(expected["peak_memory_gib"], "GiB")),
        ("fill", *graded(expected["memory_percent"], "%")),
        (f"speed, bound by {expected['bound']}", *graded(expected["samples_per_second"], "samples/s")),
        ("an epoch", *graded(expected["epoch_seconds"], "s")),
    ]
    if trees:
        costs = [
            ("memory of the host", *graded(trees, "GiB")),
            ("a round", *graded(expected["epoch_seconds"], "s")),
        ]
    if "best_epoch" in expected:
        costs.append((f"best of the {passes}", *graded(expected["best_epoch"], "")))
    figures = [
        *costs,
        (f"total of {answer['minutes']:g} min", *graded(expected["total_minutes"], "min")),
        ("reserve", f"{answer['reserve_minutes']:g} min", ""),
        ("quality index", *graded(expected["quality_index"])),
    ]
    runs = [
        (
            run["run"],
            plan_text.run_words(run),
            run["start_minute"],
            run["deadline_minute"],
            f"{run['expected_gain']:+.2f}",
        )
        for run in answer["portfolio"]
    ]
    used = f"All runs, {answer['used_percent']:g} % of the minutes"
    times = [(s["stage"], s["start_minute"], s["deadline_minute"]) for s in answer["timetable"]]
    parts: list[RenderableType] = [
        Text(f"{answer['plan_id']}  {answer['task']} on {plan_text.card_words(answer)}", style="bold"),
        table("Run this", ("setting", "value"), settings),
        table("Expect", ("figure", "median (80 % interval)", "grade"), figures),
        table("Timetable, minutes", ("stage", ">from", ">over by"), times),
        table(used, ("run", "model, folds x passes", ">from", ">over by", ">points"), runs),
        *_recipe(answer),
        *_lines("Because", answer["rationale"]),
        *_lines("Mind", [each["text"] for each in answer["warnings"]]),
    ]
    trouble = [(plan_text.trouble_words(entry), _words(entry["set"])) for entry in answer["on_trouble"]]
    parts.append(table("If", ("when", "set"), trouble))
    return Group(*parts)


def _refusal(answer: Mapping[str, Any]) -> RenderableType:
    said = answer.get("detail") or "Nothing fits. " + answer["why"]
    parts: list[RenderableType] = [Text(said, style="bold"), *_lines("Open", plan_text.open_lines(answer))]
    closest = answer["closest"]
    if closest:
        rows = [(_words(c["set"]), c["why"], c["plan"]["model"]) for c in (closest, *closest.get("or", ()))]
        parts.append(table("What would fit, smallest change first", ("change", "why", "model"), rows))
    return Group(*parts, *_recipe(answer), *_lines("Mind", [each["text"] for each in answer["warnings"]]))


def _recipe(answer: Mapping[str, Any]) -> list[RenderableType]:
    """How similar competitions were won, where they are known."""
    rows = [line.split(": ", 1) for line in (*recipe_lines(answer), *lesson_lines(answer))]
    basis = (answer.get("recipe") or {}).get("basis", "scores of this competition")
    return [table(f"How similar competitions were won: {basis}", ("what", "how"), rows)] if rows else []


def _words(changes: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} left open" if to is None else f"{name}={to}" for name, to in changes.items())


def _lines(title: str, sentences: list[str]) -> list[Text]:
    return [Text("\n".join([title, *(f"  {sentence}" for sentence in sentences)]))] if sentences else []
