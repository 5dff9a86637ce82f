"""A plan in words: one view of an answer of /recommend, which terminal, Markdown, page, notebook format."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from memory_service.domain.common.quoted_text import one_line
from memory_service.domain.common.tables import shipped_table
from memory_service.domain.recipe.recipe_text import WAYS, lesson_lines, recipe_lines, split_setting

MOST_TOKENS, MOST_WITHOUT_RECIPE = 700, 500
NEXT_TOKENS = 34  # of what an agent is told to do next, which stands behind a plan's text

CHARACTERS_PER_TOKEN = 2.75
"""Word pieces of MiniLM's tokenizer take 2.7 to 3.1 characters of such texts, of names and figures fewest."""


def rough_tokens(text: str) -> int:
    """An upper estimate of the tokens of a text."""
    return int(len(text) / CHARACTERS_PER_TOKEN) + 1


@dataclass(frozen=True, slots=True)
class Figure:
    """An expected figure: its name, the estimate as the answer has it, and its unit."""

    name: str
    estimate: Mapping[str, Any]
    unit: str

    def words(self) -> str:
        """`140 (114-184) s`; of a share the median alone."""
        n = self.estimate
        if self.unit == "%":
            return f"{n['value']:.0f} %"
        of = ".0f" if abs(n["high"]) >= _MOST_EXACT else ".3g"
        return f"{n['value']:{of}} ({n['low']:{of}}-{n['high']:{of}}) {self.unit}".rstrip()


_MOST_EXACT = 1_000


@dataclass(frozen=True, slots=True)
class PlanView:
    """What each form of an answer says, in its order.

    title      which plan, for what, on which card, in how many minutes; or that there is none
    warnings   what may make the plan wrong
    notes      what was read or assumed
    further    what is asked back, and what of the data is left out
    recipe     how similar competitions were won, first the split
    refusal    why there is no plan, and what would fit; of a plan empty
    model      name, size, weights, licence
    settings   (name, words) of what a training script copies
    figures    what to expect; grades: what these figures are worth; bound: what limits the speed
    clock      by when each stage is over, and when to look; "" without a plan
    runs       all runs of the minutes, where they are several
    trouble    (when, what to set, by which rule)
    """

    title: str
    warnings: tuple[str, ...]
    notes: tuple[str, ...]
    further: tuple[str, ...]
    recipe: tuple[str, ...]
    refusal: tuple[str, ...] = ()
    model: str = ""
    settings: tuple[tuple[str, str], ...] = ()
    figures: tuple[Figure, ...] = ()
    grades: str = ""
    bound: str = ""
    clock: str = ""
    runs: str = ""
    trouble: tuple[tuple[str, str, str], ...] = ()

    def lines(self) -> list[str]:
        """All but title, trouble and recipe, a line each, warnings first."""
        set_to = ", ".join(words for _, words in self.settings)
        figures = ", ".join(f"{n.name} {n.words()}" for n in self.figures)
        told = {
            "note": "; ".join(self.notes),
            "model": self.model and f"{self.model}; {set_to}",
            f"expect (80 %, {self.grades})": figures and f"{figures}, {self.bound}-bound; {self.clock}",
            "runs (run=N) by minute": self.runs,
        }
        warned = (f"WARNING: {each}" for each in self.warnings)
        shown = (f"{name}: {words}" for name, words in told.items() if words)
        return [*self.refusal, *warned, *shown, *self.further]


def plan_view(answer: Mapping[str, Any]) -> PlanView:
    """The view of an answer, whole or short."""
    licence = ""
    told: dict[str, list[str]] = {"warning": [], "note": []}
    for each in answer["warnings"]:
        if each["code"] == "licence":
            licence = f", licence {each['values']['name']}"
        else:
            told[each["severity"]].append(_cut(each["text"]))
    asked = f"{answer['task']} on {card_words(answer)}, {answer['minutes']:g} min" if answer["gpu"] else ""
    view = PlanView(
        title=f"{answer['plan_id']}: {asked}",
        warnings=tuple(told["warning"]),
        notes=tuple(told["note"]),
        further=tuple(_further(answer)),
        recipe=tuple(dict.fromkeys((*recipe_lines(answer), *lesson_lines(answer)))),
    )
    if not answer["feasible"]:
        title = f"No plan: {answer['why']}" if answer.get("detail") else f"No plan fits: {asked}"
        return replace(view, title=title, refusal=tuple(_refusal(answer)))
    return replace(
        view,
        model=model_words(answer["model"]) + licence,
        settings=tuple(_settings(answer)),
        figures=tuple(_figures(answer["expected"], answer.get("tree_device") == "cuda")),
        grades=_grades(answer["expected"]),
        bound=answer["expected"]["bound"],
        clock=_clock(answer),
        runs=_all_runs(answer),
        trouble=tuple(_trouble(answer)),
    )


def plan_markdown(answer: Mapping[str, Any]) -> str:
    """The answer as Markdown for an agent's notes: every warning, what to run, to expect, to do if not; then
    how similar competitions were won, and reasons, while they fit `MOST_TOKENS`."""
    view, recipe = plan_view(answer), answer.get("recipe")
    trouble = [f"if {when}: {changes}" for when, changes, _ in view.trouble]
    lines = ["**" + view.title.replace(":", "**:", 1), *(f"- {line}" for line in (*view.lines(), *trouble))]
    if recipe:
        lines.append(f"How similar ones were won ({recipe['basis']}):")
    text = "\n".join(lines)
    most = (MOST_TOKENS if recipe else MOST_WITHOUT_RECIPE) - NEXT_TOKENS
    for line in (*view.recipe, *map(one_line, answer.get("rationale", ())[:3])):
        if rough_tokens(f"{text}\n- {line}\n") <= most:
            text += f"\n- {line}"
    return text + "\n"


def plan_lines(answer: Mapping[str, Any], *, why: bool = False, everything: bool = False) -> list[str]:
    """The answer for a terminal: what to mind, to run, to expect, to do on trouble; with `why` its reasons,
    with `everything` stages, runs and how similar competitions were won, too."""
    view, whole = plan_view(answer), everything or not answer["feasible"]
    lines = [view.title, *view.lines()]
    if view.trouble:
        more = "" if why or whole else " (more: --why, --all, --script DIR)"
        lines.append("if " + "; ".join(f"{when}: {changes}" for when, changes, _ in view.trouble) + more)
    if everything and view.trouble:
        index = Figure("quality index", answer["expected"]["quality_index"], "")
        lines += [f"{index.name}: {index.words()}", "Timetable, minutes (over by nine times in ten):"]
        lines += [f"- {s['stage']}: {_span(s)}" for s in answer["timetable"]]
        lines += [
            f"- run {run['run']}, {run_words(run)}: {_span(run)}, {run['expected_gain']:+.2f} points"
            for run in answer["portfolio"]
        ]
    if whole and view.recipe:
        basis = (answer.get("recipe") or {}).get("basis", "scores of this competition")
        lines += [f"How similar competitions were won ({basis}):", *(f"- {line}" for line in view.recipe)]
    return [*lines, *(f"because {each}" for each in answer.get("rationale", ()) if why or everything)]


def _span(stage: Mapping[str, Any]) -> str:
    return f"{stage['start_minute']:g} to {stage['deadline_minute']:g}"


def _cut(text: str) -> str:
    line = one_line(text).rstrip(".")
    return line if len(line) <= _LONGEST_WARNING else line[: _LONGEST_WARNING - 1] + "…"


_LONGEST_WARNING = 240


def _further(answer: Mapping[str, Any]) -> Iterator[str]:
    for asked in answer.get("questions", ()):
        options = " | ".join(str(each["value"]) for each in asked["options"] if each["value"] is not None)
        changes = f"; {one_line(asked['changes'])[:_MOST_OF_CHANGES]}" if asked["changes"] else ""
        yield f"asked: {asked['field']}? {one_line(options)}{changes}"
    yield from (f"left out: {one_line(each)}" for each in answer.get("ignores", ()))


_MOST_OF_CHANGES = 120


def _settings(answer: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """(name, words) of what is set: batch, schedule, optimizer, loader."""
    trees = "host_memory_gib" in answer["expected"]
    if not trees:
        layout = ", channels_last" if answer["channels_last"] else ""
        yield "batch", f"batch_size={batch_words(answer)}, {answer['precision']}{layout}"
    if tuning := _tuning(answer):
        yield "tuning", tuning
    seeds = f"seeds={answer['seeds']}, " if answer["seeds"] > 1 else ""
    patience = answer["early_stopping_patience"]
    yield "schedule", f"folds={answer['folds']}, {seeds}epochs={answer['epochs']}, patience={patience}"
    if trees:
        yield "rounds", _rounds(answer)
    if answer["optimizer"] != "none":
        warm = answer["warmup_epochs"]
        pace = f", warmup_epochs={warm}" if warm else ", warmup over a tenth of the steps"
        yield "optimizer", f"{answer['optimizer']} lr={answer['learning_rate']:g}{'' if trees else pace}"
    if not trees:
        loader = answer["data_loader"].items()
        yield "loader", _assigned((name, value) for name, value in loader if value not in (False, None))
    split, by = split_setting(answer)
    yield "split", f"split={split}{f' by {by}' if by else ''}"
    if answer["metric"]:
        yield "metric", f"judged by {judged_words(answer['metric'])}"


def _rounds(answer: Mapping[str, Any]) -> str:
    words, best = "an epoch is a round", answer["expected"].get("best_epoch")
    if best and answer["epochs"] < best["high"]:
        words += f"; the cap of {answer['epochs']} may cut it short"
    return words + (", trees grow on the card" if answer.get("tree_device") == "cuda" else "")


def _figures(expected: Mapping[str, Any], on_card: bool) -> Iterator[Figure]:
    trees = "host_memory_gib" in expected
    if not trees or on_card:
        yield Figure("memory", expected["peak_memory_gib"], "GiB")
    if trees:
        yield Figure("host memory", expected["host_memory_gib"], "GiB")
        yield Figure("round", expected["epoch_seconds"], "s")
    else:
        yield Figure("fill", expected["memory_percent"], "%")
        yield Figure("speed", expected["samples_per_second"], "samples/s")
        yield Figure("epoch", expected["epoch_seconds"], "s")
    if "best_epoch" in expected:
        yield Figure("best round" if trees else "best epoch", expected["best_epoch"], "")
    yield Figure("total", expected["total_minutes"], "min")


def _clock(answer: Mapping[str, Any]) -> str:
    checks = answer["checks"]
    start = ", this run" if len(answer["portfolio"]) > 1 else ""
    stages = ", ".join(_stages(answer["timetable"]))
    look = f"check after {checks['first_after_seconds']} s, each {checks['every_seconds']} s"
    return f"over by minute (p90{start}): {stages}; {answer['reserve_minutes']:.1f} min kept; {look}"


def _stages(timetable: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """`setup 1.4`, and folds together: `folds 1-5 every 25.0 to 126.4`."""
    folds = [stage for stage in timetable if stage["stage"].startswith("fold ")]
    for stage in timetable:
        if len(folds) > _MOST_FOLDS and stage in folds:
            if stage is folds[0]:
                each = folds[0]["deadline_minute"] - folds[0]["start_minute"]
                yield f"folds 1-{len(folds)} every {each:.1f} to {folds[-1]['deadline_minute']:.1f}"
        else:
            name = stage["stage"].split(":")[0].split(" of ")[0]
            yield _STAGES.get(name.split()[0], f"{name} {{:.1f}}").format(stage["deadline_minute"])


_MOST_FOLDS = 2
_STAGES = {"inference": "inference {:.1f}", "write": "submission {:.1f}"}


def _trouble(answer: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    """(when, what to set, by which rule) of `on_trouble`; a second out-of-memory is told with the first."""
    ladder = {entry["when"]: entry for entry in answer["on_trouble"]}
    for when, entry in ladder.items():
        if when != _AGAIN:
            changes = _set(entry["set"], answer)
            if when == "out_of_memory" and _AGAIN in ladder:
                changes += f"; again: {_set(ladder[_AGAIN]['set'], answer)}"
            words = _WORDS.get(when, {"text": when.replace("_", " "), "usual": 0})
            over, fill = entry.get("over_percent", words.get("usual")), answer["checks"]["kill_below_percent"]
            yield words["text"].format(over=over, fill=fill), changes, entry["rule"]


_AGAIN = "out_of_memory_again"
_WORDS = shipped_table(__package__, "trouble.toml")
"""`when` -> words with the plan's own percentage, and the usual one."""


def _set(changes: Mapping[str, Any], answer: Mapping[str, Any]) -> str:
    """The changes, less those that the plan has already."""
    return _assigned((name, value) for name, value in changes.items() if answer.get(name) != value)


def _assigned(settings: Iterable[tuple[str, Any]]) -> str:
    """`num_workers=8, pin_memory`: what is true by its name alone."""
    return ", ".join(name if value is True else f"{name}={value}" for name, value in settings)


def _all_runs(answer: Mapping[str, Any]) -> str:
    """All runs of the minutes in one line; "" where there is but one."""
    runs = answer["portfolio"]
    if len(runs) < 2:
        return ""
    each = "; ".join(
        f"{run['run']}. {'this' if is_run(run, answer) else run_words(run)} to {run['deadline_minute']:.1f}"
        for run in runs
    )
    blended = answer["blend"]["runs"]
    end = f"; mean of {'+'.join(map(str, blended))}" if len(blended) > 1 else ""
    return f"{each}{end}; {answer['used_percent']:.0f} % used"


def is_run(run: Mapping[str, Any], answer: Mapping[str, Any]) -> bool:
    """Whether a run of the portfolio, or an alternative, has the settings of the plan that is shown."""
    model = answer["model"]
    sizes = (name for name in ("image_size", "seq_len", "n_features") if name in run)
    same = run["model"] == model["name"] and all(run[name] == model.get(name) for name in sizes)
    return bool(same and all(run[name] == answer[name] for name in ("batch_size", "folds", "epochs")))


def _tuning(answer: Mapping[str, Any]) -> str:
    """How a decoder is tuned, and what else the memory rests on, in a few words; "" for what is usual."""
    parts = []
    if answer.get("method"):
        rank = f" of rank {answer['lora_rank']}" if answer.get("lora_rank") else ""
        parts.append(f"{answer['method']}{rank}")
    if answer["gradient_checkpointing"]:
        parts.append("gradient checkpointing")
    if answer.get("texts_per_row"):
        parts.append(f"{answer['texts_per_row']:.1f} texts packed a row")
    if (answer.get("n_gpus") or 1) > 1:
        spread = ", weights spread over them (FSDP)" if answer.get("sharding") else ""
        parts.append(f"{answer['n_gpus']} cards over {answer['interconnect']}{spread}")
    return ", ".join(parts)


def model_words(model: Mapping[str, Any]) -> str:
    """`resnet50 at 224, pretrained`"""
    sizes = () if model["library"] == "sklearn" else ("image_size", "seq_len")
    size = next((f" at {model[key]}" for key in sizes if model.get(key)), "")
    return f"{model['name']}{size}" + (", pretrained" if model.get("pretrained") else "")


def run_words(run: Mapping[str, Any]) -> str:
    """A run of a portfolio in a few words."""
    size = next((f"@{run[key]}" for key in ("image_size", "seq_len") if key in run), "")
    seeds = f" x {run['seeds']} seeds" if run["seeds"] > 1 else ""
    return f"{run['model']}{size}, {run['folds']} x {run['epochs']}{seeds}"


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
