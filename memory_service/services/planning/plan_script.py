"""The training script of a plan, put together from `scripts/`: one file, or a folder of a few.

The parts are Python with a few lines for Jinja (`#% if labels`); each begins with its own imports. They are
joined by task and library. What all scripts share are the modules of `memory_service.train`.
"""

import re
import textwrap
from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import jinja2

from memory_service import __version__
from memory_service.domain.common.optimizers import PAGED_ADAMW
from memory_service.domain.description.stated_facts import BETWEEN, NO_HEADER
from memory_service.domain.planning.explanation.plan_text import plan_view
from memory_service.domain.planning.policy import RESERVE_SHARE
from memory_service.domain.recipe.recipe_text import split_setting
from memory_service.services.planning.script_choice import TECHNIQUES, blend_of, facts_of, judged_by, kind_of
from memory_service.services.planning.script_kinds import HUB_NAMES, NETS, PRETRAINED_FROM, WIDTHS, Kind
from memory_service.services.planning.script_text import beside, joined, literal, plain, standalone

_ORDER_ONLY = ("auc", "gini", "average_precision", "spearman", "precision_top", "recall_top", "lift_top")
"""Functions of scores that no rising change of the answers moves."""

_FETCHED = ("timm", "smp", "transformers", "torchvision", "ultralytics")
"""Libraries of networks that have pretrained weights."""

_STOP_SHARE = 0.70  # R15
_ENDING = 'import sys\n\n{}\nif __name__ == "__main__":\n    {}\n'
_TRAIN = Path(__file__).parents[2] / "train"

_MODULES: dict[str, tuple[str, ...]] = {
    "network": ("torch_loop",),
    "files": ("inputs", "media_files"),
    "tokens": ("inputs",),
    "keypoints": ("points",),
    "frames": ("columns", "engine"),
    "media": ("inputs", "pictures", "sounds"),
    "joined": ("media",),
    "items": ("recommend",),
}
"""Word of the parts -> modules of `memory_service.train` that such scripts use, beside what these import."""


def plan_script(plan: Mapping[str, Any], server: str = "", *, single: bool = False) -> str:
    """The script of an answer of /recommend. NoScript where nothing fits or there is none for its model.

    server   address of the service that it came from and reports to, where that is known
    single   one file that needs no other; else it imports `memory_service.train`
    """
    head, parts, ending, modules = _pieces(plan, server)
    if single:
        return standalone(head, parts, modules.values(), ending)
    return joined(head, [*parts, ending], {f"memory_service.train.{name}": modules[name] for name in modules})


def plan_files(plan: Mapping[str, Any], server: str = "") -> dict[str, str]:
    """The same as a folder's files, by name: train.py has what the plan decides, and imports what all scripts
    share, which is the same text for every plan."""
    head, parts, ending, modules = _pieces(plan, server)
    files = {"train.py": joined(head, [*parts, ending], modules)}
    return files | {f"{name}.py": beside(text) for name, text in modules.items()}


def _pieces(plan: Mapping[str, Any], server: str = "") -> tuple[str, list[str], str, dict[str, str]]:
    """(docstring, parts of train.py, its end, modules that it imports by name)."""
    kind = kind_of(plan)
    words = _words(plan, kind) | {"server": server}
    parts = [_rendered(part, words) for part in ("settings", "read_data")]
    chosen = _MODULES
    if kind.words["frames"] and (kind.words["masks"] or kind.words["boxes"]):
        chosen = {"frames": ("inputs",)}
    if kind.words["items"]:
        chosen = {"items": _MODULES["items"]}
    roots = [
        "answers",
        "runtime",
        *(name for word, names in chosen.items() if words[word] for name in names),
        *kind.modules,
    ]
    ending = _ENDING.format(_rendered("answers", words), "main(sys.modules[__name__])")
    return _rendered("head", words), parts, ending, {name: _module(name) for name in with_imports(roots)}


_BUNDLE = '''"""memory_service.train {version}, for a machine without pip: `python memory_train.py` writes it.

The folder memory_service lies beside this file then, and a train.py that lies there finds it."""

from pathlib import Path

FILES = {files}

for name, text in FILES.items():
    path = Path(__file__).parent / "memory_service" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
print(f"{{len(FILES)}} files written to {{Path(__file__).parent / 'memory_service'}}")
'''


@cache
def bundle_script() -> str:
    """The modules that scripts import as one file, which writes them where it lies."""
    texts = {path.name: path.read_text(encoding="utf-8") for path in sorted(_TRAIN.glob("*.py"))}
    rows = [f"    {('train/' + name)!r}: {text!r},\n" for name, text in texts.items()]
    package = f"    '__init__.py': {f'__version__ = {__version__!r}{chr(10)}'!r},\n"
    return _BUNDLE.format(version=__version__, files="{\n" + package + "".join(rows) + "}")


def blend_script(plan: Mapping[str, Any]) -> str:
    """The script that joins the runs of an answer of /recommend: a portfolio's last stage. NoScript as of
    `blend_of`."""
    kind = blend_of(plan)
    words = _words(plan, kind) | {"files": False, "network": False, "blend": True}
    words["ranks"] = words["score"] in _ORDER_ONLY
    if words["masks"]:
        words |= {} if words["score"] else {"score": "dice", "metric": "Dice", "upwards": True}
    joins = "blend_masks" if words["masks"] else "blending"
    texts = [_rendered(part, words) for part in ("blend_settings", "blend_folders", joins)]
    ending = _ENDING.format(_rendered("answers", words), "blend_runs()")
    shared = [_module(name) for name in with_imports(("folds", "metrics", "answers"))]
    return standalone(_rendered("blend_head", words), texts, shared, ending)


_SCHEDULE = ("folds", "seeds", "epochs", "early_stopping_patience")


def _words(plan: Mapping[str, Any], kind: Kind) -> dict[str, Any]:
    """What the parts are told."""
    model = plan["model"]
    words = {**kind.words, "plan": plan, **judged_by(plan, kind)}
    view = plan_view(plan)
    if kind.words["frames"]:  # members fit as often as the minutes allow
        settings = tuple(each for each in view.settings if each.name not in _SCHEDULE)
        view = replace(view, settings=settings)
    undone = ["What this script leaves to you:", *view.undone] if view.undone else []
    won = [f"{view.won}:", *view.recipe, *undone]
    words |= _shares(plan) | {
        "model": plain(view.model),
        "title": plain(view.title),
        "told": _wrapped((*view.lines(), *view.trouble_lines()), "- ", "  "),
        "split": [told and plain(told) for told in split_setting(plan)],
        "recipe": ["", *_wrapped(won, "# ", "#   ")] if plan.get("recipe") else [],
        "pretrained_from": PRETRAINED_FROM.get(model["library"], ""),
        "fetched": kind.words["network"] and bool(model["pretrained"]) and model["library"] in _FETCHED,
        "encoder": kind.words["joined"] and model["library"] == "timm",
        "learned": kind.words["frames"] and model["name"] in NETS,
        "widths": kind.words["network"] and WIDTHS.get(model["name"]),
    }
    told = next((each["value"] for each in plan.get("facts", ()) if each["name"] == "submission"), "")
    words["submission"] = ["" if line == NO_HEADER else line for line in told.split(BETWEEN) if line]
    words |= {"method": plan.get("method"), "n_gpus": plan.get("n_gpus") or 1}
    words["sharded"] = bool(plan.get("sharding"))
    words["paged"] = plan["optimizer"] == PAGED_ADAMW
    if words["paged"]:
        words["needs"] += ", bitsandbytes"
    words["checkpointing"] = model["library"] in ("timm", "smp", "transformers")
    facts = facts_of(plan, kind)
    done = (each.settings.strip() for each in TECHNIQUES.values() if each.applies(plan, facts))
    words["settings"] = [line for lines in done for line in lines.splitlines()]
    words["hub_name"] = HUB_NAMES.get(model["name"], model["name"]) if kind.words["tokens"] else ""
    if model["library"] in ("chronos", "timesfm", "toto"):
        words["hub_name"] = HUB_NAMES.get(model["name"], f"amazon/{model['name']}")
    if model.get("bands") and kind.words["files"]:
        words["needs"] += ", tifffile (for .tif)"
        if model["bands"] > 1:
            words["layout"] = words["layout"].replace(".jpg", ".npy")  # or .tif, or what Pillow reads
    if "deberta-v" in words["hub_name"]:
        words["needs"] += ", sentencepiece, protobuf"  # its tokenizer is made from spm.model
    return words


def _shares(plan: Mapping[str, Any]) -> dict[str, float]:
    """Shares of the budget: kept for prediction (R14, more where the plan needs more), and where training
    stops (R15, later where the plan itself trains longer)."""
    minutes = float(plan["minutes"])
    stages = plan.get("timetable") or ()
    ends = [stage["start_minute"] for stage in stages if stage["stage"].startswith("inference")]
    inference = plan.get("expected", {}).get("inference_minutes", {}).get("high", 0.0)
    least = plan["checks"].get("reserve_percent", 100.0 * RESERVE_SHARE) / 100.0
    reserve = min(max(0.5, least), max(least, inference / minutes))
    stop = max(_STOP_SHARE, max(ends, default=0.0) / minutes)
    return {"reserve_share": round(reserve, 3), "stop_share": round(min(stop, 1 - reserve), 3)}


def _wrapped(lines: Iterable[str], first: str, others: str) -> list[str]:
    """These, each begun so, no longer than a script's lines may be."""
    fold = textwrap.TextWrapper(108, initial_indent=first, subsequent_indent=others, break_on_hyphens=False)
    return [line for each in lines for line in fold.wrap(plain(each))]


@cache
def _templates() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parents[2] / "scripts"),
        line_statement_prefix="#%",
        undefined=jinja2.StrictUndefined,
        autoescape=False,  # noqa: S701 - it is Python; texts go in by repr
        keep_trailing_newline=True,
    )
    environment.filters["python"] = literal
    return environment


def _rendered(part: str, words: Mapping[str, Any]) -> str:
    return _templates().get_template(f"{part}.py.txt").render(words)


def with_imports(roots: Iterable[str]) -> list[str]:
    """These modules of `memory_service.train` and those that they import, each behind what it imports."""
    found: dict[str, None] = {}
    for name in roots:
        if name not in found:
            imported = re.findall(r"^from memory_service\.train\.(\w+) import", _module(name), re.MULTILINE)
            found |= dict.fromkeys([*with_imports(sorted(imported)), name])
    return list(found)


@cache
def _module(name: str) -> str:
    """The text of a module of `memory_service.train`."""
    return (_TRAIN / f"{name}.py").read_text(encoding="utf-8")
