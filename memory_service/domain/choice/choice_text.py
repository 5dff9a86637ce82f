"""A choice among offers, and trainings beside each other, in words: a line for each."""

from collections.abc import Mapping
from typing import Any

from memory_service.domain.common.quoted_text import one_line
from memory_service.domain.common.sentences import figures
from memory_service.domain.monitoring.verdict import spread


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
            f"{pair[what]} {word} with {100 * pair[f'p_{what}']:.0f} %"
            for what, word in (("better", "scores higher"), ("sooner", "is done sooner"))
            if pair[what]
        ]
        lines.append(one_line(", ".join(said) or f"{pair['first']} and {pair['second']}: cannot be told"))
    return "\n".join(lines)
