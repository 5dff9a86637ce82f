"""How similar competitions were won, in lines: for a plan's Markdown, tables and script."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from memory_service.domain.common.quoted_text import one_line, quoted
from memory_service.domain.common.units import figures, percent, plural
from memory_service.domain.recipe.validation import usual_split
from memory_service.domain.recipe.vocabulary import STAGES

LONGEST = 150
"""Characters of a sentence in these lines."""

WAYS: Mapping[str | None, str] = {"max": " (higher is better)", "min": " (lower is better)"}
"""Of a metric's direction."""

_LONGEST_COLUMN = 60
_FAMILIES, _TECHNIQUES, _TARGETS = 4, 8, 4
_SENTENCES = {"mattered": 3, "failed": 2, "pitfalls": 2}


def recipe_lines(answer: Mapping[str, Any]) -> Iterator[str]:
    """`what: words` of an answer of /recommend in figures; none where it has no recipe."""
    recipe = answer.get("recipe")
    if recipe:
        yield "validation: " + validation_words(recipe["validation"], answer.get("folds"))
        for what, words in (
            ("families", _family_words(recipe["families"][:_FAMILIES])),
            ("loss", _shares(recipe["loss"])),
            *technique_words(recipe["techniques"][:_TECHNIQUES]),
        ):
            if words:
                yield f"{what}: {words}"
    if answer.get("targets"):
        yield "targets: " + target_words(answer["targets"])


def lesson_lines(answer: Mapping[str, Any]) -> list[str]:
    """The same of what winners said: one sentence of each kind first."""
    recipe = answer.get("recipe") or {}
    return [
        f"{what}: {sentence_words(recipe[what][turn])}"
        for turn in range(max(_SENTENCES.values()))
        for what, most in _SENTENCES.items()
        if recipe and turn < min(most, len(recipe[what]))
    ]


def undone_lines(answer: Mapping[str, Any]) -> list[str]:
    """What a script of the plan does not do by itself, how to, and where it is from."""
    techniques = (answer.get("recipe") or {}).get("techniques", ())
    undone = [each for each in techniques if not each["in_script"]][:_TECHNIQUES]
    return [
        f"{each['name']} {percent(each['share'])}: {each['setting']}" + _from(each["from"][:1])
        for each in undone
    ]


def split_setting(answer: Mapping[str, Any]) -> tuple[str, str | None]:
    """(split, what groups rows) of a plan; of an older one by its recipe, else the task's usual ones."""
    told = (answer.get("recipe") or {}).get("validation") or {}
    split = answer.get("split") or told.get("split") or usual_split(answer["task"])
    by = answer.get("group_by", told.get("by"))
    return split, by and one_line(by)[:_LONGEST_COLUMN]


def validation_words(validation: Mapping[str, Any], planned: int | None = None) -> str:
    """`group by patient, 5 folds. The text says … [a#1]`; with the plan's folds where these are others."""
    by = f" by {validation['by']}" if validation["by"] else ""
    split = f"{validation['split']}{by}, {plural(validation['folds'], 'fold')}"
    split += "" if planned in (None, validation["folds"]) else f" (this plan: {planned})"
    return f"{split}. {shortened(validation['why'])}" + _from(validation["from"][:1])


def technique_words(techniques: Sequence[Mapping[str, Any]]) -> list[tuple[str, str]]:
    """[(stage, `tta 41 %, mean-blend 60 % (in the script)`)], stages in the order in which they come."""
    words: dict[str, list[str]] = {stage: [] for stage in STAGES}
    for each in techniques:
        scripted = " (in the script)" if each["in_script"] else ""
        words.get(each["stage"], []).append(f"{each['name']} {percent(each['share'])}{scripted}")
    return [(stage, ", ".join(named)) for stage, named in words.items()]


def target_words(targets: Mapping[str, Any]) -> str:
    """`quadratic weighted kappa (higher is better): rank 1 0.936, rank 5 0.93 [slug#1]`"""
    way = WAYS.get(targets["direction"], "")
    ranks = ", ".join(f"rank {each['rank']} {each['score']:g}" for each in targets["by_rank"][:_TARGETS])
    return f"{shortened(targets['metric'])}{way}: {ranks}" + _from([targets["by_rank"][0]["from"]])


def sentence_words(lesson: Mapping[str, Any]) -> str:
    return quoted(shortened(lesson["text"])) + _from(lesson["from"])


def shortened(text: str) -> str:
    """One line of at most `LONGEST` characters."""
    line = one_line(text)
    return line if len(line) <= LONGEST else line[: LONGEST - 1].rstrip() + "…"


def _family_words(families: Sequence[Mapping[str, Any]]) -> str:
    shown = [
        f"{each['name']} {percent(each['share'])}"
        + ("" if each["lift"] is None else f" (x{figures(each['lift'], 2)})")
        for each in families
    ]
    return ", ".join(shown) + (_from(families[0]["from"][:2]) if families else "")


def _shares(votes: Sequence[Mapping[str, Any]]) -> str:
    return ", ".join(f"{each['name']} {percent(each['share'])}" for each in votes)


def _from(sources: Sequence[str]) -> str:
    return f" [{', '.join(sources)}]" if sources else ""
