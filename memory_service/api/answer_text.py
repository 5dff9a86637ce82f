"""Answers in words: Markdown over HTTP, text of the tools. A line each, the thing to do first."""

from collections.abc import Iterator, Mapping
from typing import Any

from memory_service.domain.common.quoted_text import one_line, quoted
from memory_service.domain.common.sentences import figures
from memory_service.domain.cost.throughput_knee import KNEE_GAIN
from memory_service.domain.learning.scoring import error_words
from memory_service.domain.monitoring.verdict import spread

_MAX_FINDINGS = 40


def fit_text(answer: Mapping[str, Any]) -> str:
    """Memory, speed and largest batch of a model on a card, in at most eight lines."""
    n_gpus, instead = answer.get("n_gpus") or 1, answer.get("would_fit") or {}
    most, knee = answer.get("max_batch_size"), answer.get("knee_batch_size")
    cards, of_each = (f"{n_gpus} x ", " a card") if n_gpus > 1 else ("", "")
    measured = {"peak_memory_gib": ("peak memory", "GiB"), "samples_per_second": ("speed", "samples/s")}
    lines = [
        f"{answer['model']} on {cards}{answer['gpu']}: {'fits' if answer['fits'] else 'does not fit'}",
        f"batch{of_each}: at most {spread(most)}" if most else "",
        f"speeds: {_speeds(answer, n_gpus)}" if knee else "",
        *(f"{about}: {spread(answer[n], unit)}" for n, (about, unit) in measured.items() if answer.get(n)),
        f"would fit: {', '.join(f'{n}={v}' for n, v in instead.items() if n != 'why')}" if instead else "",
        *answer.get("warnings", ()),
    ]
    return "\n".join(line for line in lines if line)


def _speeds(answer: Mapping[str, Any], n_gpus: int) -> str:
    """Of the largest batch that fits safely, of the smallest within a tenth of the fastest, of the one
    answered."""
    rates = {
        point["batch_size"]: point["samples_per_second"]["value"]
        for point in answer["curve"]
        if point["samples_per_second"] and point["batch_size"] <= (answer["safe_batch_size"] or 0)
    }
    if not rates:
        return f"knee of throughput at batch {answer['knee_batch_size']}"
    best = next(batch for batch in sorted(rates) if KNEE_GAIN * rates[batch] >= max(rates.values()))
    named: dict[int, list[str]] = {}
    for what, batch in (("largest", max(rates)), ("best", best), ("answered", answer["batch_size"])):
        named.setdefault(batch, []).append(what)
    said = [f"batch {b} {rates[b]:.0f} samples/s ({', '.join(w)})" for b, w in named.items() if b in rates]
    return ", ".join(said) + ("; batches a card" if n_gpus > 1 else "")


def reviewed_text(answer: Mapping[str, Any]) -> str:
    """Findings of a review, a line each."""
    counts = ", ".join(f"{n} {severity}{'s' * (n != 1)}" for severity, n in answer["counts"].items() if n)
    lines = [counts or "ok: nothing to correct"]
    lines += [
        ("cell {cell} " if each.get("cell") else "").format_map(each) + f"line {each['line']}: "
        f"{each['severity']} {each['rule']}: {each['message']} Fix: {each['fix']}"
        for each in answer["findings"][:_MAX_FINDINGS]
    ]
    if len(answer["findings"]) > _MAX_FINDINGS:
        lines.append(f"and {len(answer['findings']) - _MAX_FINDINGS} more; correct these first")
    return "\n".join(lines)


def verdict_text(verdict: Mapping[str, Any] | None) -> str:
    """What to do now, why, and when to look again."""
    if verdict is None:
        return "It is kept. No verdict: the run's figures cannot be judged together; go on by the plan."
    settings = ", ".join(f"{name}={value}" for name, value in verdict["set"].items())
    eta, used = verdict["eta_minutes"], verdict["budget_used_percent"]
    lines = [
        f"{verdict['action']}" + (f": set {settings}" if settings else "") + f" ({verdict['severity']})",
        f"why: {verdict['why']} [{verdict['rule']}]",
        f"training ends in {spread(eta, 'min')}" if eta else "",
        f"{used:g} % of the budget used" if used is not None else "",
        f"look again in {verdict['next_check_seconds']:g} s",
        *verdict["notes"],
        *clock_lines(verdict.get("next_minutes")),
    ]
    return "\n".join(line for line in lines if line)


def _followed(page: Mapping[str, Any]) -> Iterator[str]:
    """Of a run's page: its status, how far it is, and the verdict while it runs."""
    done, best = page["outcome"]["epochs_done"], page["best_metric"]
    score = "" if best is None else f", best metric {best:g}"
    yield f"run {page['id']}: {page['status']}, {page['model']}, {done} epochs done{score}"
    yield from clock_lines(page["next_minutes"])
    if page["status"] == "running":
        yield verdict_text(page["verdict"])
    yield from page["notes"]


def clock_lines(left: Mapping[str, Any] | None) -> list[str]:
    """Minutes left of a run's budget, what they would buy, how to plan them."""
    return [] if left is None else [each["text"] for each in left["says"]]


def run_text(page: Mapping[str, Any]) -> str:
    """A run: where it is, what to do, figures beside the predicted ones, what it taught."""
    return "\n".join([*_followed(page), *compared(page), *page["learned"]])


def compared(page: Mapping[str, Any]) -> list[str]:
    """What was predicted of a run beside what happened."""
    return [
        f"{c['quantity']}: predicted {spread(c['predicted'])}, was {figures(c['actual'])} "
        f"({error_words(c['error_percent'], c['excluded'])})"
        for c in page["comparison"]
    ]


def similar_text(answer: Mapping[str, Any]) -> str:
    """Competitions like a text; what others stored is quoted, one line each."""
    lines = [f"task of the text: {answer['inferred_task']}"] if answer["inferred_task"] else []
    for n, hit in enumerate(answer["items"], 1):
        lines.append(f"{n}. {hit['slug']} ({hit['task'] or 'no task'}): {one_line(hit['why'])}")
        lines += [f"   - stored of {hit['slug']}: {quoted(lesson)}" for lesson in hit["lessons"]]
    return "\n".join([*lines, *([answer["reason"]] if answer["reason"] else [])]) or "nothing alike is known"


def brief_text(answer: Mapping[str, Any]) -> str:
    """What a description says and leaves open."""
    lines = [f"No plan is made for this kind: {answer['outside']}"] if answer["outside"] else []
    for fact in answer["facts"]:
        words = f", by {quoted(fact['words'])}" if fact.get("words") else ""
        lines.append(f"- {fact['name']}: {one_line(str(fact['value']))} ({fact['from']}{words})")
    lines += [f"- not said: {each['name']} (assumed: {each['assumed']})" for each in answer["not_said"]]
    for asked in answer["questions"]:
        options = " | ".join(str(each["value"]) for each in asked["options"])
        lines.append(f"- asked: {asked['question']} {one_line(options)}")
    return "\n".join(lines)


def accuracy_text(answer: Mapping[str, Any]) -> str:
    """How good the predictions were, a line for each quantity."""
    runs = answer["runs"]
    lines = [f"{runs['ended']} runs have ended, {runs['scored']} of them are scored"]
    lines += [_SCORE.format_map(score) for score in answer["overall"]]
    return "\n".join(lines)


_SCORE = (
    "- {quantity}: half within {median_percent:.3g} %, nine of ten within {p90_percent:.3g} %, "
    "{inside_percent:.0f} % inside the 80 % interval (n={n})"
)
