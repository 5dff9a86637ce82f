"""A plan as Markdown of at most 700 tokens, 500 without a recipe, for an agent's notes."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from memory_service.domain.common.quoted_text import one_line
from memory_service.domain.recipe.recipe_text import lesson_lines, recipe_lines

MOST_TOKENS, MOST_WITHOUT_RECIPE = 700, 500

CHARACTERS_PER_TOKEN = 3.0
"""On the safe side: common tokenisers take 3.5-4 characters of English, fewer of names and figures."""


def rough_tokens(text: str) -> int:
    """An upper estimate of the tokens of a text."""
    return int(len(text) / CHARACTERS_PER_TOKEN) + 1


def plan_markdown(answer: Mapping[str, Any]) -> str:
    """The answer of /recommend as Markdown: every warning, what to run, to expect, to do if not; then how
    similar competitions were won, and reasons, while they fit."""
    head, *rest = plan_lines(answer, _SHOWN_TROUBLE) if answer["feasible"] else _refusal_lines(answer)
    lines = [head, *(f"- {line}" for line in (*warning_lines(answer), *rest, *open_lines(answer)))]
    recipe = answer.get("recipe")
    most = MOST_TOKENS if recipe else MOST_WITHOUT_RECIPE
    if recipe:
        lines.append(f"How similar ones were won ({recipe['basis']}):")
    lessons = lesson_lines(answer)
    reasons = [one_line(each) for each in answer.get("rationale", ())[:3]]
    text = "\n".join(lines)
    for line in dict.fromkeys((*recipe_lines(answer), *lessons, *reasons)):
        if rough_tokens(f"{text}\n- {line}\n") <= most:
            text += f"\n- {line}"
    return text + "\n"


def warning_lines(answer: Mapping[str, Any]) -> list[str]:
    """Every warning, the serious first; notes on what was assumed in one line."""
    serious = [f"WARNING: {_words(each)}" for each in answer["warnings"] if each["severity"] == "warning"]
    notes = " ".join(_words(each) for each in answer["warnings"] if each["severity"] == "note")
    return [*serious, *([f"note: {notes}"] if notes else [])]


def _words(each: Mapping[str, Any]) -> str:
    line = one_line(each["text"])
    return line if len(line) <= _LONGEST_WARNING else line[: _LONGEST_WARNING - 1] + "…"


_LONGEST_WARNING = 240


def open_lines(answer: Mapping[str, Any]) -> list[str]:
    """What is asked back, with what the answer changes, and what of the data the plan leaves out."""
    lines = []
    for asked in answer.get("questions", ()):
        options = " | ".join(str(each["value"]) for each in asked["options"] if each["value"] is not None)
        changes = f"; {one_line(asked['changes'])[:_MOST_OF_CHANGES]}" if asked["changes"] else ""
        lines.append(f"asked: {asked['field']}? {one_line(options)}{changes}")
    return lines + [f"left out: {one_line(each)}" for each in answer.get("ignores", ())]


_MOST_OF_CHANGES = 120


def plan_lines(answer: Mapping[str, Any], troubles: Collection[str] | None = None) -> list[str]:
    """What to run, to expect and to do on trouble (of these kinds; None: all), a line each."""
    model, expected, loader = answer["model"], answer["expected"], answer["data_loader"]
    size = next((f" at {model[key]}" for key in ("image_size", "seq_len") if key in model), "")
    layout = ", channels_last" if answer["channels_last"] else ""
    stages = ", ".join(_stages(answer["timetable"]))
    checks = answer["checks"]
    batch = [f"batch_size={batch_words(answer)}, {answer['precision']}{layout}"]
    loading = ["DataLoader: " + ", ".join(f"{name}={value}" for name, value in loader.items())]
    warm = answer["warmup_epochs"]
    pace = f"warmup_epochs={warm}" + ("" if warm else " (warmup over a tenth of the steps)")
    trees = expected.get("host_memory_gib")
    if trees is not None:
        batch, loading, pace = [], [], "an epoch is a round"
        if "best_epoch" in expected:
            pace += f", best at about {_rounds(expected['best_epoch'])}"
            if answer["epochs"] < expected["best_epoch"]["high"]:
                pace += f"; the cap of {answer['epochs']} may cut it short"
        figures = f"{_range(trees)} GiB of the host, round {_range(expected['epoch_seconds'])} s, "
        if answer.get("tree_device") == "cuda":
            pace += ", trees grow on the card"
            figures = f"{_range(expected['peak_memory_gib'])} GiB of the card, {figures}"
    else:
        memory = f"{_range(expected['peak_memory_gib'])} GiB = {expected['memory_percent']['value']:.0f} %"
        speed, epoch = _range(expected["samples_per_second"]), _range(expected["epoch_seconds"])
        figures = f"{memory} of the card, {speed} samples/s, epoch {epoch} s, "
    of_run = " this run" if len(answer["portfolio"]) > 1 else ""
    start = ", from its start" if of_run else ""
    figures += f"total{of_run} {_range(expected['total_minutes'])} min, bound by {expected['bound']}"
    seeds = f"seeds={answer['seeds']}, " if answer["seeds"] > 1 else ""
    patience = answer["early_stopping_patience"]
    rate = f"{answer['optimizer']} lr={answer['learning_rate']:g}, {pace}"
    first, every, kill = (checks[n] for n in ("first_after_seconds", "every_seconds", "kill_below_percent"))
    out = [
        f"**{answer['plan_id']}**: {answer['task']} on {card_words(answer)}, {answer['minutes']:g} min",
        f"model: {model['name']}{size}" + (", pretrained" if model["pretrained"] else ""),
        *batch,
        *([tuning] if (tuning := tuning_words(answer)) else []),
        f"folds={answer['folds']}, {seeds}epochs={answer['epochs']}, patience={patience}",
        *([f"judged by {judged_words(answer['metric'])}"] if answer["metric"] else []),
        *([] if answer["optimizer"] == "none" else [rate]),
        *loading,
        f"expect ({_grades(expected)}): {figures}",
        f"over by minute (p90{start}): {stages}; {answer['reserve_minutes']:.1f} min kept after training",
        f"check after {first} s, then every {every} s" + (f"; alarm under {kill} % memory" if kill else ""),
    ]
    out += portfolio_line(answer)
    for entry in answer["on_trouble"]:
        if troubles is None or entry["when"] in troubles:
            changes = ", ".join(f"{name}={value}" for name, value in entry["set"].items())
            out.append(f"if {trouble_words(entry)}: {changes}")
    return out


def _stages(timetable: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """`setup 1.4`, and folds together: `folds 1-5 every 25.0 to 126.4`."""
    folds = [stage for stage in timetable if stage["stage"].startswith("fold ")]
    for stage in timetable:
        if len(folds) > _MOST_FOLDS and stage in folds:
            if stage is folds[0]:
                each = folds[0]["deadline_minute"] - folds[0]["start_minute"]
                yield f"folds 1-{len(folds)} every {each:.1f} to {folds[-1]['deadline_minute']:.1f}"
        else:
            yield f"{stage['stage'].split(':')[0]} {stage['deadline_minute']:.1f}"


_MOST_FOLDS = 2


def trouble_words(entry: Mapping[str, Any]) -> str:
    """When an entry of `on_trouble` holds."""
    further = f" ({entry['only_if']})" if entry.get("only_if") else ""
    return str(entry["when"]).replace("_", " ") + further


def portfolio_line(answer: Mapping[str, Any]) -> list[str]:
    """All runs of the minutes in one line; none where there is but one."""
    runs = answer["portfolio"]
    if len(runs) < 2:
        return []
    each = "; ".join(f"{run['run']}. {run_words(run)} to minute {run['deadline_minute']:.1f}" for run in runs)
    blended = answer["blend"]["runs"]
    end = f"; blend {'+'.join(map(str, blended))} (mean)" if len(blended) > 1 else ""
    return [f"all runs, {answer['used_percent']:.0f} % of the time (run=N: its settings): {each}{end}"]


def tuning_words(answer: Mapping[str, Any]) -> str:
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


def run_words(run: Mapping[str, Any]) -> str:
    """A run of a portfolio in a few words."""
    size = next((f"@{run[key]}" for key in ("image_size", "seq_len") if key in run), "")
    seeds = f" x {run['seeds']} seeds" if run["seeds"] > 1 else ""
    return f"{run['model']}{size}, {run['folds']} x {run['epochs']}{seeds}"


def judged_words(metric: Mapping[str, Any]) -> str:
    """A plan's metric in one line: its name, which way is better, and who says so."""
    name = metric["name"] if len(metric["name"]) <= _LONGEST_NAME else metric["name"][:_LONGEST_NAME] + "…"
    way = {"max": "higher is better, ", "min": "lower is better, "}.get(metric["direction"] or "", "")
    return f"{name} ({way}{'' if metric['from'] == 'as asked' else 'by '}{metric['from']})"


_LONGEST_NAME = 80

_SHOWN_TROUBLE = (
    "out_of_memory",
    "first_fold_over_20_percent_of_budget",
    "over_70_percent_of_budget_used_and_training_not_done",
)


def _refusal_lines(answer: Mapping[str, Any]) -> list[str]:
    if answer.get("detail"):
        return [f"**No plan: {answer['why']}**\n{answer['detail']}"]
    asked = f"{answer['task']} on {card_words(answer)} in {answer['minutes']:g} min"
    out, closest = [f"**No plan fits** {asked}\n{answer['why']}"], answer["closest"]
    for change in (closest, *closest.get("or", ())) if closest else ():
        given = change["set"].items()
        changes = ", ".join(f"{n} left open" if value is None else f"{n}={value}" for n, value in given)
        out.append(f"would fit: {changes} ({change['why']}): {change['plan']['model']}")
    return out


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
    """What the figures are worth: `80 % intervals, estimated`."""
    memory = (expected.get("host_memory_gib") or expected["peak_memory_gib"])["grade"]
    time = expected["total_minutes"]["grade"]
    return f"80 % intervals, {time if memory == time else f'memory {memory}, time {time}'}"


def _rounds(estimate: Mapping[str, Any]) -> str:
    return f"{estimate['value']:.0f} ({estimate['low']:.0f}-{estimate['high']:.0f})"


def _range(estimate: Mapping[str, Any]) -> str:
    return f"{estimate['value']:.3g} ({estimate['low']:.3g}-{estimate['high']:.3g})"
