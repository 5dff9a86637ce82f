"""A plan in words: one view of an answer of /recommend, which terminal, Markdown, page, notebook and the head
of its script format."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any, NamedTuple

from memory_service.domain.common.quoted_text import as_markdown, one_line
from memory_service.domain.common.tables import shipped_table
from memory_service.domain.common.units import figures, interval, minutes, plural
from memory_service.domain.recipe.recipe_text import (
    WAYS,
    lesson_lines,
    recipe_lines,
    split_setting,
    undone_lines,
)

MOST_TOKENS, MOST_WITHOUT_RECIPE = 740, 500
NEXT_TOKENS = 66  # of what an agent is told to do next, which stands behind a plan's text

CHARACTERS_PER_TOKEN = 2.4
"""Word pieces of MiniLM's tokenizer take 2.3 to 2.8 characters of such texts, of names and figures fewest; a
space costs none."""


def rough_tokens(text: str) -> int:
    """An upper estimate of the tokens of a text."""
    return int(len("".join(text.split())) / CHARACTERS_PER_TOKEN) + 1


class Figure(NamedTuple):
    """An expected figure, `most`: its limit; room: 0 where each form says it, 1 not a terminal, 2 only a
    page."""

    name: str
    estimate: Mapping[str, Any]
    unit: str
    most: float | None = None
    room: int = 0

    def words(self) -> str:
        """`140 (114–184) s`; of a share the median alone."""
        if self.unit == "%":
            return f"{figures(self.estimate['value'], 2)} %"
        return interval(self.estimate, self.unit)


class Setting(NamedTuple):
    """What a training script copies, and what lines say of it: "" for what is usual, or told with another."""

    name: str
    value: Any
    words: str

    @property
    def short(self) -> str:
        """Of the data loader the workers alone."""
        return self.words.partition(", ")[0] if self.name == "data_loader" else self.words


@dataclass(frozen=True, slots=True)
class PlanView:
    """What each form of an answer says, in its order.

    title      which plan, for what, on which card, in how many minutes; or that there is none
    warnings   what may make the plan wrong
    notes      what was read or assumed
    further    what is asked back, and what of the data is left out
    won        the heading of `recipe`: how similar competitions were won, first the split
    undone     what of it the script does not do, with how to do it
    refusal    why there is no plan, and what would fit; of a plan empty
    model      name, size, weights, licence
    settings   what a training script copies
    figures    what to expect; grades: what these figures are worth; bound: what limits the speed
    clock      by when each stage is over, and when to look (`check`); "" without a plan
    runs       all runs of the minutes, where they are several
    stages     (name, from minute, to minute, key of the drawing) of all runs, this one's in its parts
    end        the minute until which its script goes on through other models; None of others
    over       the minute by which all is over, nine times in ten
    passes     folds, epochs and seeds of this run
    trouble    (when, what to set, by which rule)
    """

    title: str
    warnings: tuple[str, ...]
    notes: tuple[str, ...]
    further: tuple[str, ...]
    won: str
    recipe: tuple[str, ...]
    undone: tuple[str, ...]
    refusal: tuple[str, ...] = ()
    model: str = ""
    settings: tuple[Setting, ...] = ()
    figures: tuple[Figure, ...] = ()
    grades: str = ""
    bound: str = ""
    clock: str = ""
    check: str = ""
    runs: str = ""
    stages: tuple[tuple[str, float, float, str], ...] = ()
    end: float | None = None
    over: float = 0.0
    passes: str = ""
    trouble: tuple[tuple[str, str, str], ...] = ()

    def lines(self, room: int = 1) -> list[str]:
        """All but title, trouble and recipe, a line each, warnings first; figures for which there is room."""
        set_to = ", ".join(each.words if room else each.short for each in self.settings if each.words)
        expected = ", ".join(f"{n.name} {n.words()}" for n in self.figures if n.room <= room)
        told = {
            "note": "; ".join(map(_cut, self.notes)),
            "model": self.model and f"{self.model}; {set_to}",
            f"expect (80 %, {self.grades})": expected and f"{expected}, {self.bound}-bound; {self.clock}",
            "runs (run=N), over by": self.runs,
        }
        warned = (f"WARNING: {_cut(each)}" for each in self.warnings)
        shown = (f"{name}: {words}" for name, words in told.items() if words)
        return [*self.refusal, *warned, *shown, *self.further]

    def trouble_lines(self) -> list[str]:
        """What to do on trouble, a line each."""
        return [f"if {when}: {changes}" for when, changes, _ in self.trouble]


def plan_view(answer: Mapping[str, Any]) -> PlanView:
    """The view of an answer, whole or short."""
    licence, recipe = "", answer.get("recipe")
    told: dict[str, list[str]] = {"warning": [], "note": []}
    for each in answer["warnings"]:
        if each["code"] == "licence":
            licence = f", licence {each['values']['name']}"
        else:
            told[each["severity"]].append(each["text"])
    asked = f"{answer['task']} on {card_words(answer)}, {minutes(answer['minutes'])}" if answer["gpu"] else ""
    view = PlanView(
        title=f"{answer['plan_id']}: {asked}",
        warnings=tuple(told["warning"]),
        notes=tuple(told["note"]),
        further=tuple(_further(answer)),
        won=f"How similar ones were won ({recipe['basis'] if recipe else 'scores of this one'})",
        recipe=tuple(dict.fromkeys((*recipe_lines(answer), *lesson_lines(answer)))),
        undone=tuple(undone_lines(answer)),
    )
    if not answer["feasible"]:
        title = f"No plan: {answer['why']}" if answer.get("detail") else f"No plan fits: {asked}"
        return replace(view, title=title, refusal=tuple(_refusal(answer)))
    return replace(
        view,
        model=model_words(answer["model"]) + licence,
        settings=tuple(_settings(answer)),
        figures=tuple(_figures(answer)),
        grades=_grades(answer["expected"]),
        bound=answer["expected"]["bound"],
        clock=f"{_clock(answer)}; check after {_check(answer)}",
        check=_check(answer),
        runs=_all_runs(answer),
        stages=tuple(_drawn(answer)),
        end=end_of_search(answer),
        over=over_by(answer),
        passes=_passes(answer),
        trouble=tuple(_trouble(answer)),
    )


def plan_markdown(answer: Mapping[str, Any]) -> str:
    """The answer as Markdown for an agent's notes: every warning, what to run, to expect, to do if not; then
    how similar competitions were won, and reasons, while they fit `MOST_TOKENS`."""
    view = plan_view(answer)
    told = (*view.lines(), *view.trouble_lines())
    lines = ["**" + view.title.replace(":", "**:", 1), *(f"- {line}" for line in told)]
    if answer.get("recipe"):
        lines.append(f"{view.won}:")
    text = "\n".join(lines)
    most = (MOST_TOKENS if answer.get("recipe") else MOST_WITHOUT_RECIPE) - NEXT_TOKENS
    for line in (*map(as_markdown, view.recipe), *map(one_line, answer.get("rationale", ())[:3])):
        if rough_tokens(f"{text}\n- {line}\n") <= most:
            text += f"\n- {line}"
    return text + "\n"


def plan_lines(answer: Mapping[str, Any], *, why: bool = False, everything: bool = False) -> list[str]:
    """The answer for a terminal: what to mind, to run, to expect, to do on trouble; with `why` its reasons,
    with `everything` stages, runs and how similar competitions were won, too."""
    view, whole = plan_view(answer), everything or not answer["feasible"]
    lines = [view.title, *view.lines(room=0)]
    if view.trouble:
        more = "" if why or whole else " (more: --why, --all, --script DIR)"
        lines.append("; ".join(view.trouble_lines()).replace("; if ", "; ") + more)
    if everything and view.model:
        lines += [f"{n.name}: {n.words()}" for n in view.figures if n.room]
        lines.append("Timetable (over by then nine times in ten):")
        lines += [f"- {name}: {minutes(start)} to {minutes(at)}" for name, start, at, _ in view.stages]
        lines += [
            f"- run {run['run']}, {run_words(run)}: {run['expected_gain']:+.2f} points"
            for run in answer["portfolio"]
            if len(answer["portfolio"]) > 1
        ]
    if whole and view.recipe:
        lines += [f"{view.won}:", *(f"- {line}" for line in view.recipe)]
    return [*lines, *(f"because {each}" for each in answer.get("rationale", ()) if why or everything)]


def _cut(text: str) -> str:
    line = one_line(text).rstrip(".")
    return line if len(line) <= _LONGEST_WARNING else line[: _LONGEST_WARNING - 1] + "…"


_LONGEST_WARNING = 240


def _further(answer: Mapping[str, Any]) -> Iterator[str]:
    for asked in answer.get("questions", ()):
        options = " | ".join(str(each["value"]) for each in asked["options"] if each["value"] is not None)
        parts = one_line(asked["changes"] or "").split(", ")
        while len(parts) > 1 and len(", ".join(parts)) > _MOST_OF_CHANGES:
            parts.pop()
        changes = f"; {', '.join(parts)}" if parts[0] else ""
        yield f"asked: {asked['field']}? {one_line(options)}{changes}"
    yield from (f"left out: {one_line(each)}" for each in answer.get("ignores", ()))


_MOST_OF_CHANGES = 120


_COPIED = (
    "plan_id", "model", "image_size", "seq_len", "n_features", "batch_size", "grad_accumulation", "precision",
    "channels_last", "compile", "method", "lora_rank", "trainer", "gradient_checkpointing", "texts_per_row",
    "n_gpus", "sharding", "folds", "seeds", "epochs", "early_stopping_patience", "tree_device", "sample_rows",
    "optimizer", "learning_rate", "warmup_epochs", "data_loader", "split", "group_by", "metric",
)  # fmt: skip


_OF_EPOCHS = frozenset({"epochs", "early_stopping_patience", "learning_rate"})
_OF_NETWORKS = frozenset({
    "batch_size", "grad_accumulation", "precision", "channels_last", "compile", "gradient_checkpointing",
    "warmup_epochs",
})  # fmt: skip


def end_of_search(answer: Mapping[str, Any]) -> float | None:
    """The minute until which the plan's script goes on through other models, and so repeats none with other
    seeds; None where it trains the plan alone."""
    said = (each["values"]["end"] for each in answer["warnings"] if each["code"] == "script-uses-all")
    return next(said, None)


def over_by(answer: Mapping[str, Any]) -> float:
    """The minute by which all runs of the minutes, or the search of the script, are over."""
    ends = answer["portfolio"] or answer["timetable"]
    return end_of_search(answer) or float(ends[-1]["deadline_minute"])


def own_run(answer: Mapping[str, Any]) -> Mapping[str, Any]:
    """The run of the portfolio that the plan's settings are of; empty where there is none."""
    asked = [run for run in answer["portfolio"] if run["run"] == answer.get("run")]
    return next(reversed(asked or [run for run in answer["portfolio"] if is_run(run, answer)]), {})


def _drawn(answer: Mapping[str, Any]) -> Iterator[tuple[str, float, float, str]]:
    table, end, start = answer["timetable"], end_of_search(answer), 0.0
    ends, own = [(each["stage"], each["deadline_minute"]) for each in table], own_run(answer)
    if end is not None:
        fitted = max((at for name, at in ends if name.startswith(("fold", "all rows", "fit"))), default=end)
        ends = [ends[0], (f"fit of {answer['model']['name']}", fitted), ("search through other models", end)]
    for run in answer["portfolio"] if len(answer["portfolio"]) > 1 and end is None else ({},):
        of_run, at = (f"run {run['run']}, ", run["start_minute"]) if run else ("", 0.0)
        stages = ends if not run or run is own else [(run["model"], run["deadline_minute"] - at)]
        for name, after in stages:
            key = _KEYS.get(name.split()[0], "s3") if stages is ends else "s4"
            yield of_run + name, start, at + after, key
            start = at + after


_KEYS = {"setup": "s0", "fold": "s1", "fit": "s1", "inference": "s2", "search": "s4"}


def _settings(answer: Mapping[str, Any]) -> Iterator[Setting]:
    model, metric, trees = answer["model"], answer["metric"], "host_memory_gib" in answer["expected"]
    split, by = split_setting(answer)
    loader = {} if trees else {n: v for n, v in answer["data_loader"].items() if v not in (False, None)}
    values = {**answer, **{n: model[n] for n in ("image_size", "seq_len", "n_features") if n in model}}
    values |= {"model": model["name"], "data_loader": loader, "split": split, "group_by": by}
    values["metric"] = metric and metric["name"]
    warm, n_gpus = answer["warmup_epochs"], answer.get("n_gpus") or 1
    at_once = answer["optimizer"] == "none"
    pace = "" if trees else f", warmup_epochs={warm}" if warm else ", warmup over a tenth of the steps"
    rank = f" of rank {answer['lora_rank']}" if answer.get("lora_rank") else ""
    is_cut = trees and answer["epochs"] < answer["expected"].get("best_epoch", {"high": 0})["high"]
    cut = f"; the cap of {answer['epochs']} may cut it short" if is_cut else ""
    patience = f"patience={answer['early_stopping_patience']}{', an epoch is a round' * trees}{cut}"
    words = {
        "batch_size": "" if trees else f"batch_size={batch_words(answer)}",
        "precision": "" if trees else answer["precision"],
        "channels_last": "channels_last" if answer["channels_last"] and not trees else "",
        "method": f"{answer.get('method')}{rank}",
        "trainer": f"by {answer.get('trainer')}",
        "gradient_checkpointing": "gradient checkpointing" if answer["gradient_checkpointing"] else "",
        "texts_per_row": f"{answer.get('texts_per_row') or 0:.1f} texts packed a row",
        "n_gpus": f"{n_gpus} cards over {answer.get('interconnect', 'pcie')}" if n_gpus > 1 else "",
        "sharding": "weights spread over them (FSDP)",
        "folds": f"folds={answer['folds']}",
        "seeds": f"seeds={answer['seeds']}" if answer["seeds"] > 1 else "",
        "epochs": f"epochs={answer['epochs']}",
        "early_stopping_patience": patience,
        "tree_device": "trees grow on the card" if answer.get("tree_device") == "cuda" else "",
        "optimizer": f"{answer['optimizer']} lr={answer['learning_rate']:g}{pace}",
        "data_loader": _assigned(loader.items()),
        "split": f"split={split}{f' by {by}' if by else ''}",
        "metric": metric and f"judged by {judged_words(metric)}",
    }
    left = _OF_NETWORKS if trees else frozenset[str]()
    left |= {"seeds"} if end_of_search(answer) else set()
    left |= _OF_EPOCHS if at_once else set()
    for name in _COPIED:
        if values.get(name) not in (None, {}, "none") and name not in left:
            yield Setting(name, values[name], words.get(name, ""))


def _figures(answer: Mapping[str, Any]) -> Iterator[Figure]:
    n, trees = answer["expected"], "host_memory_gib" in answer["expected"]
    alone = end_of_search(answer) or answer.get("run")  # no run before it takes of the minutes
    left = answer["minutes"] - (0.0 if alone else own_run(answer).get("start_minute", 0.0))
    whole = "best round" if trees else "best epoch"
    at_once = answer["optimizer"] == "none"
    if n["peak_memory_gib"]["value"] or not trees:
        yield Figure("memory", n["peak_memory_gib"], "GiB", answer["gpu"]["usable_gib"])
    if trees:
        yield Figure("host memory", n["host_memory_gib"], "GiB")
        yield Figure("fit" if at_once else "round", n["epoch_seconds"], "s", room=1)
    else:
        yield Figure("fill", n["memory_percent"], "%")
        yield Figure("speed", n["samples_per_second"], "samples/s", room=1)
        yield Figure("epoch", n["epoch_seconds"], "s", room=1)
    if "best_epoch" in n and not at_once:
        yield Figure(whole, n["best_epoch"], "", room=1)
    if n["inference_minutes"]["high"] >= 1e-3:  # less: a forecaster predicts as it is fitted
        yield Figure("inference", n["inference_minutes"], "min", room=2)
    total = "planned model in all" if end_of_search(answer) else "total"
    yield Figure(total, n["total_minutes"], "min", left)
    blended = ", runs averaged" if len(answer["blend"]["runs"]) > 1 and not answer.get("run") else ""
    yield Figure(f"quality index{blended}", n["quality_index"], "", 100.0, room=2)


def _clock(answer: Mapping[str, Any]) -> str:
    search, stages = end_of_search(answer) is not None, _stages(answer["timetable"])
    if search:
        stages = (f"{name} {minutes(at)}" for name, _, at, _ in _drawn(answer))
    start = ", this run" if len(answer["portfolio"]) > 1 and not search else ""
    left = "" if answer.get("run") else f"; {minutes(answer['minutes'] - over_by(answer))} left"
    return f"over by (p90{start}): {', '.join(stages)}{left}"


def _passes(answer: Mapping[str, Any]) -> str:
    """`5 folds × 8 epochs × 2 seeds = 10 models`; a script that searches repeats none with other seeds."""
    folds, seeds, passes = answer["folds"], answer["seeds"], f" × {plural(answer['epochs'], 'epoch')}"
    if "host_memory_gib" in answer["expected"]:
        passes = f" × at most {answer['epochs']:,} rounds"
    if answer["optimizer"] == "none":
        passes = ", fitted at once"
    if seeds > 1 and not end_of_search(answer):
        passes += f" × {seeds} seeds"
        passes += f" = {folds * seeds} models" * (len(answer["timetable"]) == folds * seeds + 3)
    return plural(folds, "fold") + passes


def _check(answer: Mapping[str, Any]) -> str:
    checks, median = answer["checks"], answer["expected"]["total_minutes"]["value"]
    first, every = checks["first_after_seconds"], checks["every_seconds"]
    begins = f"{first} s" if 15 * median >= first else "a quarter of the run"
    return f"{begins}, then every {every} s" if 60 * median > every else begins


def _stages(timetable: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """`setup 1.4 min`, and stages that differ by a number together: `folds 1-5 every 5 min to 26.4 min`."""
    for stage in folded_stages(timetable):
        name, end = _short_stage(stage), stage["deadline_minute"]
        folded, _, n = name.rpartition(" 1-")
        each = f" every {minutes((end - stage['start_minute']) / int(n))} to" if folded else ""
        yield f"{_STAGES.get(name.split()[0], name + each)} {minutes(end)}"


def folded_stages(timetable: Sequence[Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
    """The stages, many that differ by a number as one: `folds 1-5`."""
    for (name, numbered), alike in groupby(timetable, _kind_of_stage):
        first, *others = alike
        if numbered and len(others) >= _MOST_FOLDS:
            stage = f"{name}s 1-{1 + len(others)}"
            yield {**others[-1], "stage": stage, "start_minute": first["start_minute"]}
        else:
            yield from (first, *others)


def _kind_of_stage(stage: Mapping[str, Any]) -> tuple[str, bool]:
    """A stage's name without its number, and whether it has one."""
    name = _short_stage(stage)
    kind, _, number = name.rpartition(" ")
    return (kind, True) if number.isdigit() else (name, False)


def _short_stage(stage: Mapping[str, Any]) -> str:
    return str(stage["stage"].split(":")[0].split(" of ")[0])


_MOST_FOLDS = 2
_STAGES = {"inference": "inference", "write": "submission"}


def _trouble(answer: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    """(when, what to set, by which rule) of `on_trouble`; a second out-of-memory is told with the first."""
    ladder = {entry["when"]: entry for entry in answer["on_trouble"]}
    for when, entry in ladder.items():
        if when != _AGAIN and not (when == _LATE and end_of_search(answer)):
            words = _WORDS.get(when, {"text": when.replace("_", " "), "usual": 0})
            changes = words.get("do") or _set(entry["set"], answer)
            if when == "out_of_memory" and _AGAIN in ladder:
                changes += f"; again: {_set(ladder[_AGAIN]['set'], answer)}"
            over, fill = entry.get("over_percent", words.get("usual")), answer["checks"]["kill_below_percent"]
            yield words["text"].format(over=over, fill=fill), changes, entry["rule"]


_AGAIN, _LATE = "out_of_memory_again", "over_70_percent_of_budget_used_and_training_not_done"
_WORDS = shipped_table(__package__, "trouble.toml")
"""`when` -> words with the plan's own percentage, what to do, and the usual percentage."""


def _set(changes: Mapping[str, Any], answer: Mapping[str, Any]) -> str:
    """The changes, less those that the plan has already."""
    return _assigned((name, value) for name, value in changes.items() if answer.get(name) != value)


def _assigned(settings: Iterable[tuple[str, Any]]) -> str:
    """`num_workers=8, pin_memory`: what is true by its name alone."""
    return ", ".join(name if value is True else f"{name}={value}" for name, value in settings)


def _all_runs(answer: Mapping[str, Any]) -> str:
    """All runs of the minutes in one line; "" where there is but one, or a script that searches."""
    runs = answer["portfolio"]
    if len(runs) < 2 or end_of_search(answer):
        return ""
    own = own_run(answer)
    named = ((run, "this" if run is own else run_words(run)) for run in runs)
    each = "; ".join(f"{run['run']}. {name} to {minutes(run['deadline_minute'])}" for run, name in named)
    blended = answer["blend"]["runs"]
    end = f"; mean of {'+'.join(map(str, blended))}" if len(blended) > 1 else ""
    return f"{each}{end}; {answer['used_percent']:.0f} % used"


def is_run(run: Mapping[str, Any], answer: Mapping[str, Any]) -> bool:
    """Whether a run of the portfolio, or an alternative, has the settings of the plan that is shown."""
    model = answer["model"]
    sizes = (name for name in ("image_size", "seq_len", "n_features") if name in run)
    same = run["model"] == model["name"] and all(run[name] == model.get(name) for name in sizes)
    return bool(same and all(run[name] == answer[name] for name in ("batch_size", "folds", "epochs")))


def model_words(model: Mapping[str, Any]) -> str:
    """`resnet50 at 224, 12 bands, pretrained`"""
    sizes = () if model["library"] == "sklearn" else ("image_size", "seq_len")
    size = next((f" at {model[key]}" for key in sizes if model.get(key)), "")
    bands = f", {plural(model['bands'], 'band')}" if model.get("bands") else ""
    return f"{model['name']}{size}{bands}" + (", pretrained" if model.get("pretrained") else "")


def run_words(run: Mapping[str, Any]) -> str:
    """A run of a portfolio in a few words."""
    size = next((f"@{run[key]}" for key in ("image_size", "seq_len") if key in run), "")
    seeds = f" x {run['seeds']} seeds" if run["seeds"] > 1 else ""
    words = f"{run['model']}{size}, {run['folds']} x {run['epochs']}{seeds}"
    if (stage := run.get("stage")) is None:
        return words
    keeps = f", keeps {stage['kept']}" if stage["kept"] else ""
    memory = interval(stage["peak_memory_gib"], "GiB")
    return f"{stage['name']} {words}, batch {run['batch_size']}{keeps}, {memory}"


def judged_words(metric: Mapping[str, Any]) -> str:
    """A plan's metric in a few words: its name and which way is better; who says so is in its facts."""
    name = metric["name"] if len(metric["name"]) <= _LONGEST_NAME else metric["name"][:_LONGEST_NAME] + "…"
    return f"{name}{WAYS.get(metric['direction'], '')}"


_LONGEST_NAME = 80


def _refusal(answer: Mapping[str, Any]) -> Iterator[str]:
    yield answer.get("detail") or answer["why"]
    closest = answer.get("closest")
    for change in (closest, *closest.get("or", ())) if closest else ():
        yield f"would fit: {change_words(change['set'])} ({change['why']}): {change['plan']['model']}"


def change_words(changes: Mapping[str, Any]) -> str:
    """`minutes=40, folds left open`"""
    return ", ".join(f"{n} left open" if value is None else f"{n}={value}" for n, value in changes.items())


def card_words(answer: Mapping[str, Any]) -> str:
    """The card of an answer, with how many of it train together."""
    gpu, n = answer["gpu"], answer.get("n_gpus") or 1
    name = f"{gpu['device']} ({gpu['name']})" if "device" in gpu else str(gpu["name"])
    return f"{n} x {name}" if n > 1 else name


def batch_words(answer: Mapping[str, Any]) -> str:
    """`12 x 4 accumulation x 2 cards = 96`: a card's batch, and what makes an update of it."""
    steps, n = answer["grad_accumulation"], answer.get("n_gpus") or 1
    more = [f"{steps} accumulation"] * (steps > 1) + [f"{n} cards"] * (n > 1)
    parts = [str(answer["batch_size"]), *more]
    return " x ".join(parts) + (f" = {answer['effective_batch_size']}" if len(parts) > 1 else "")


def _grades(expected: Mapping[str, Any]) -> str:
    """What the figures are worth: `estimated`, or of each."""
    memory = (expected.get("host_memory_gib") or expected["peak_memory_gib"])["grade"]
    time = expected["total_minutes"]["grade"]
    return str(time) if memory == time else f"memory {memory}, time {time}"
