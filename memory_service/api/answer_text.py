"""Answers in words for Markdown over HTTP, tools and terminal: a line each, what to do first."""

from collections.abc import Iterator, Mapping
from typing import Any

from memory_service.domain.common.quoted_text import as_markdown, named, one_line, quoted
from memory_service.domain.common.units import figures, percent, plural, spread
from memory_service.domain.cost.throughput_knee import KNEE_GAIN
from memory_service.domain.planning.explanation.plan_text import plan_markdown

_MAX_FINDINGS = 40


def fit_text(answer: Mapping[str, Any], *, curve: bool = False) -> str:
    """Memory, speed and largest batch of a model on a card in some ten lines; with `curve` one for each
    batch, too."""
    n_gpus, instead = answer.get("n_gpus") or 1, answer.get("would_fit") or {}
    most, knee = answer.get("max_batch_size"), answer.get("knee_batch_size")
    cards, of_each = (f"{n_gpus} x ", " a card") if n_gpus > 1 else ("", "")
    size = next((f" at {answer[n]}" for n in ("image_size", "seq_len") if answer.get(n)), "")
    figures_of = {n: answer[n] for n in _OF_A_FIT if answer.get(n) and answer[n]["value"]}
    lines = [
        f"{answer['model']}{size} on {cards}{answer['gpu']}: {'fits' if answer['fits'] else 'does not fit'}",
        f"batch{of_each}: at most {spread(most)}" if most else "",
        f"speeds: {_speeds(answer, n_gpus)}" if knee else "",
        *(f"{_OF_A_FIT[n][0]}: {spread(figure, _OF_A_FIT[n][1])}" for n, figure in figures_of.items()),
        f"would fit: {', '.join(f'{n}={v}' for n, v in instead.items())}" if instead else "",
        *answer.get("warnings", ()),
    ]
    for point in answer["curve"] if curve else ():
        peak, rate = spread(point["peak_memory_gib"], "GiB"), figures(point["samples_per_second"]["value"])
        unfit = "" if point["fits"] else "; does not fit"
        lines.append(f"- batch {point['batch_size']}: {peak}, {rate} samples/s{unfit}")
    return "\n".join(line for line in lines if line)


_OF_A_FIT = {
    "peak_memory_gib": ("peak memory", "GiB"), "host_memory_gib": ("memory of the host", "GiB"),
    "samples_per_second": ("speed", "samples/s"), "epoch_seconds": ("an epoch", "s"),
    "fit_seconds": ("a fit", "s"), "card_fit_seconds": ("a fit on the card", "s"),
}  # fmt: skip


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
    said = [
        f"batch {b} {figures(rates[b])} samples/s ({', '.join(w)})" for b, w in named.items() if b in rates
    ]
    return ", ".join(said) + ("; batches a card" if n_gpus > 1 else "")


def reviewed_text(answer: Mapping[str, Any]) -> str:
    """Findings of a review, a line each."""
    counts = ", ".join(plural(n, severity) for severity, n in answer["counts"].items() if n)
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
    clock = clock_lines(verdict.get("next_minutes"))
    over = any(each["code"] in _OVER for each in verdict.get("reasons", ()))
    lines = [
        f"{verdict['action']}" + (f": set {settings}" if settings else "") + f" ({verdict['severity']})",
        f"why: {verdict['why']} [{verdict['rule']}]",
        f"training ends in {spread(eta, 'min')}" if eta else "",
        f"{used:g} % of the budget used" if used is not None and not clock else "",
        "" if over else f"look again in {verdict['next_check_seconds']:g} s",
        *verdict["notes"],
        *clock,
    ]
    return "\n".join(line for line in lines if line)


_OVER = ("run-ended", "run-ended-at")
"""Reasons with which nothing is to be looked at any more."""


def _followed(page: Mapping[str, Any]) -> Iterator[str]:
    """Of a run's page: its status, how far it is, and the verdict while it runs."""
    done, best = page["outcome"]["epochs_done"], page["best_metric"]
    score = "" if best is None else f", best metric {best:g}"
    yield f"run {page['id']}: {page['status']}, {named(page['model'])}, {plural(done, 'epoch')} done{score}"
    if page["status"] == "running":
        yield verdict_text(page["verdict"] and {**page["verdict"], "next_minutes": page["next_minutes"]})
    if page["status"] != "running" or not page["verdict"]:
        yield from clock_lines(page["next_minutes"])
    yield from page["notes"]


def clock_lines(left: Mapping[str, Any] | None) -> list[str]:
    """Minutes left of a run's budget, what they would buy, how to plan them."""
    return [] if left is None else [each["text"] for each in left["says"]]


def run_text(page: Mapping[str, Any]) -> str:
    """A run: where it is, what to do, figures beside the predicted ones, what it taught."""
    return "\n".join([*_followed(page), *compared(page), *page["learned"]])


def begun_text(begun: Mapping[str, Any], *, new: bool) -> str:
    """A run that has begun: its id, and what is expected of it or why nothing is."""
    lines = [f"run_id={begun['run_id']}" + ("" if new else " (it had begun already)")]
    lines += [f"expected {name}: {spread(n)}" for name, n in begun["expected"].items() if n is not None]
    lines += [f"nothing is predicted: {begun['why_not']}"] if begun["why_not"] else []
    return "\n".join([*lines, *begun["notes"]])


def compared(page: Mapping[str, Any]) -> list[str]:
    """What was predicted of a run beside what happened."""
    from memory_service.domain.learning.scoring import error_words  # light terminals lack its numpy

    return [
        f"{c['quantity']}: predicted {spread(c['predicted'])}, was {figures(c['actual'])} "
        f"({error_words(c['error_percent'], c['excluded'])})"
        for c in page["comparison"]
    ]


def similar_text(answer: Mapping[str, Any]) -> str:
    """Competitions like a text; what others stored is quoted, one line each."""
    lines, read = [], answer["inferred"] or {}
    if read.get("task"):
        cues = ", ".join(map(one_line, read["evidence"][:4]))
        lines.append(f"task: {read['task']} ({'; '.join(filter(None, (percent(read['confidence']), cues)))})")
    for n, hit in enumerate(answer["items"], 1):
        about = f"{hit['slug']} ({hit['task'] or 'no task'}, {hit['score']:.2f})"
        lines.append(f"{n}. {about}: {one_line(hit['why'])}")
        lines += [f"   - stored of {hit['slug']}: {quoted(lesson)}" for lesson in hit["lessons"]]
    return "\n".join([*lines, *([answer["reason"]] if answer["reason"] else [])]) or "nothing alike is known"


def brief_text(answer: Mapping[str, Any]) -> str:
    """What a description says and leaves open; the plan, or why there is none, where it was asked for."""
    lines = [f"No plan is made for this kind: {answer['outside']}"] if answer["outside"] else []
    lines.append("## What the description says\n")
    for fact in answer["facts"]:
        words = f": {as_markdown(quoted(fact['words']))}" if fact.get("words") else ""
        lines.append(f"- {fact['name']} = {one_line(str(fact['value']))} ({fact['from']}{words})")
    lines.append("\n## What nobody says, and a plan assumes\n")
    lines += [f"- {each['name']}: {each['assumed'] or 'nothing'}" for each in answer["not_said"]]
    if "plan" in answer or "why_no_plan" in answer:
        plan = (
            plan_markdown(answer["plan"]) if "plan" in answer else f"**No plan**: {answer['why_no_plan']}\n"
        )
        return "\n".join([*lines, f"\n## Plan\n\n{plan}"])
    for asked in answer["questions"]:
        options = " | ".join(str(each["value"]) for each in asked["options"] if each["value"] is not None)
        lines.append(f"- asked: {asked['question']} {one_line(options)}")
    return "\n".join(lines)


def accuracy_text(answer: Mapping[str, Any], *, groups: bool = False) -> str:
    """How good the predictions were, a line for each quantity; with `groups` of each device, family, age."""
    runs, kinds = answer["runs"], ("device", "family", "age") if groups else ()
    of_groups = [(f"{kind} {g['name']}, ", g["scores"]) for kind in kinds for g in answer[f"by_{kind}"]]
    told = f"{runs['ended']} runs have ended, {runs['without_prediction']} of them without a prediction"
    if not runs["scored"]:
        return f"Nothing to score yet: {told}. Report runs with POST /runs or the client."
    lines = [f"{told}; {runs['scored']} are scored"]
    lines += [score_text(each, of) for of, scores in (("", answer["overall"]), *of_groups) for each in scores]
    return "\n".join(lines)


def score_text(score: Mapping[str, Any], of: str = "") -> str:
    """Errors of one quantity in a line; the naive method's beside them where there is one."""
    naive = score["naive"]
    beside = f"; a naive guess: half within {figures(naive['median_percent'])} %" if naive else ""
    return _SCORE.format_map({**score, "of": of, "beside": beside})


_SCORE = (
    "- {of}{quantity}: half within {median_percent:.3g} %, nine of ten within {p90_percent:.3g} %, bias "
    "{bias_percent:+.1f} %, {inside_percent:.0f} % inside the 80 % interval (n={n}){beside}"
)


def choice_text(answer: Mapping[str, Any]) -> str:
    """The recommended offer with its reasons, then a line for each offer."""
    lines = [f"take {answer['recommended'] or 'none of them'} ({answer['objective']})"]
    lines += [each["text"] for each in answer["reasons"]]
    if more := answer["more"]:
        where = f"{more['model']} on {more['offer']}"
        lines.append(f"{more['costs_more']:.2f} more buys {more['points']:+.1f} points: {where}")
    for row in answer["offers"]:
        lines.append(f"- {one_line(row['name'])}: {_offer_words(row)}")
    for each in answer["scope"]:
        change, held = each["same_hardware"], each["next_offer"]
        there = ", ".join(f"{n}={v}" for n, v in change["set"].items()) if change else "no change found"
        beside = f"as it is on {one_line(held['offer'])}" if held else "no other offer holds it"
        lines.append(f"{one_line(each['offer'])} ({each['why']}): there {there}; {beside}")
    asked = next((row["ask"] for row in answer["offers"] if row["name"] == answer["recommended"]), None)
    if asked:
        lines.append(f"then ask for its plan with {', '.join(f'{n}={v}' for n, v in asked.items())}")
    return "\n".join([*lines, *(each["text"] for each in answer["warnings"])])


def _offer_words(row: Mapping[str, Any]) -> str:
    if not row["fits"]:
        return f"does not fit ({row['why']})"
    plan, cost = row["plan"], row["cost"]
    money = "" if cost is None else f", cost {spread(cost)}, at most {row['most_cost']:.2f}"
    index = figures(plan["expected"]["quality_index"]["value"])
    minutes = f"{spread(row['minutes'], 'min')}, time limit {row['time_limit_minutes']:g}"
    return f"{plan['model']}, index {index}, {minutes}{money}"


def comparison_text(answer: Mapping[str, Any]) -> str:
    """A line for each side and each pair."""
    lines = []
    for side in answer["sides"]:
        parts = [f"index {spread(side['quality'])}"] if side["quality"] else []
        parts += [spread(side["minutes"], "min")] if side["minutes"] else []
        parts += [side["why"]] if side["why"] else []
        lines.append(f"- {one_line(side['name'])}: {'; '.join(parts)}")
    for pair in answer["pairs"]:
        said = [
            f"{pair[what]} {word} with {percent(pair[f'p_{what}'])}"
            for what, word in (("better", "scores higher"), ("sooner", "is done sooner"))
            if pair[what]
        ]
        lines.append(one_line(", ".join(said) or f"{pair['first']} and {pair['second']}: cannot be told"))
    return "\n".join(lines)
