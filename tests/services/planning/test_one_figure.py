"""Does each form of a plan say the same figures: JSON, terminal, text, brief, agent's tool, pages, script?"""

from __future__ import annotations

import html
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pytest
from starlette.testclient import TestClient

from memory_service.api.answer_text import brief_text
from memory_service.app import create_app
from memory_service.domain.common.units import interval, minutes
from memory_service.domain.planning.explanation.plan_text import plan_lines, plan_markdown
from memory_service.mcp import tools
from memory_service.mcp.tool import Caller
from memory_service.schemas.recommend import plan_request
from memory_service.services.planning.plan_script import plan_script
from memory_service.services.planning.questions import brief
from memory_service.services.planning.recommend import recommend, shown
from memory_service.services.planning.script_choice import has_script
from memory_service.settings import load_settings
from tests.conftest import Servers

BANDS = "Classify land use from satellite images with 12 bands, 64x64 pixels; 27,000 training images."
MOLES = "Melanoma in photos of skin. 33,126 training images of 2,056 patients; test patients are new."
CALLS = "Classify bird calls. 4,000 training clips of 10 s each, 120 species, 600 test clips. Macro F1."
MUSIC = "Tell the genre of music: 1,000 recordings of 30 seconds, 10 genres; accuracy. 200 test recordings."
MOVES = "Classify actions in 10-second clips of video: 5,000 clips, 50 actions, 800 test clips. Accuracy."
RENTS = "Predict the rent from 25 columns and a description text in each row. 74,111 training rows. RMSE."
PETS = "Predict adoption speed from a photo, a text and a table of 20 columns. 14,993 rows; kappa."

QUESTIONS: dict[str, dict[str, Any]] = {
    "image": {"task": "image", "size": "medium", "gpu": "a100"},
    "few": {"task": "image", "n_train": 1_200, "n_classes": 5, "gpu": "t4", "minutes": 60},
    "two cards": {"task": "image", "size": "large", "gpu": "2xt4", "minutes": 500},
    "two minutes": {"task": "image", "n_train": 900, "gpu": "t4", "minutes": 2},
    "nothing fits": {"task": "image", "size": "large", "gpu": "t4", "minutes": 1},
    "processor": {"task": "image", "n_train": 3_000, "gpu": "cpu", "minutes": 45},
    "classes": {
        "task": "image",
        "n_train": 8_000,
        "gpu": "a100",
        "minutes": 60,
        "folds": 5,
        "n_classes": 1_000,
    },
    "model": {"task": "image", "n_train": 8_000, "gpu": "rtx3090", "minutes": 90, "model": "efficientnet_b4"},
    "batch": {
        "task": "image",
        "n_train": 8_000,
        "gpu": "rtx3090",
        "minutes": 90,
        "model": "resnet50",
        "batch_size": 512,
    },
    "seeds": {"task": "image", "n_train": 2_000, "gpu": "a100", "minutes": 300, "n_classes": 12},
    "second run": {
        "task": "image",
        "n_train": 2_000,
        "gpu": "a100",
        "minutes": 300,
        "n_classes": 12,
        "run": 2,
    },
    "tta": {"task": "image", "n_train": 2_000, "gpu": "l4", "minutes": 37.4, "techniques": "tta"},
    "bands": {"description": BANDS, "gpu": "l4", "minutes": 40},
    "groups": {"description": MOLES, "gpu": "a10", "minutes": 120},
    "masks": {"task": "segmentation", "n_train": 1_500, "gpu": "v100", "minutes": 75},
    "boxes": {"task": "detection", "n_train": 3_400, "gpu": "rtx4090", "minutes": 180},
    "retrieval": {"task": "retrieval", "n_train": 20_000, "gpu": "a100", "minutes": 100},
    "text": {
        "task": "text",
        "size": "medium",
        "gpu": "l4",
        "minutes": 45,
        "metric": "quadratic weighted kappa",
    },
    "long text": {"task": "text", "n_train": 23_000, "gpu": "rtx3060", "minutes": 200, "seq_len": 1024},
    "adapters": {"task": "text", "n_train": 5_000, "gpu": "h100", "minutes": 240, "model": "qwen2.5-7b"},
    "four cards": {"task": "text", "n_train": 40_000, "gpu": "4xh100", "minutes": 240},
    "words": {"task": "ner", "n_train": 6_800, "gpu": "t4", "minutes": 300},
    "table": {"task": "tabular", "n_train": 60_000, "n_features": 200, "gpu": "cpu", "minutes": 30},
    "network": {"task": "tabular", "n_train": 500_000, "n_features": 60, "gpu": "a100", "minutes": 60},
    "huge": {
        "task": "tabular-regression",
        "n_train": 200_000_000,
        "n_features": 20,
        "gpu": "t4",
        "minutes": 30,
    },
    "sampled": {"task": "tabular", "n_train": 30_000_000, "n_features": 20, "gpu": "cpu", "minutes": 60},
    "sixty rows": {"task": "tabular", "n_train": 60, "n_features": 200, "gpu": "cpu", "minutes": 10},
    "at once": {"task": "tabular-regression", "n_train": 40_000, "n_features": 30, "gpu": "t4", "minutes": 2},
    "patients": {
        "task": "tabular",
        "n_train": 40_000,
        "gpu": "cpu",
        "minutes": 60,
        "group_by": "patient",
        "folds": 5,
    },
    "trees": {
        "task": "tabular",
        "n_train": 900_000,
        "n_features": 300,
        "gpu": "cpu",
        "minutes": 60,
        "model": "lightgbm",
    },
    "text in rows": {"description": RENTS, "gpu": "a10", "minutes": 60},
    "series": {"task": "forecasting", "n_train": 900_000, "gpu": "cpu", "minutes": 30},
    "horizon": {"task": "forecasting", "n_train": 300_000, "gpu": "t4", "minutes": 60, "horizon": 28},
    "sound": {"description": CALLS, "gpu": "t4", "minutes": 90},
    "music": {"description": MUSIC, "gpu": "l4", "minutes": 50},
    "video": {"description": MOVES, "gpu": "a100", "minutes": 200},
    "speech": {"task": "asr", "n_train": 8_000, "gpu": "a100", "minutes": 200},
    "parts": {"description": PETS, "gpu": "a100", "minutes": 120},
    "purchases": {"task": "recommendation", "n_train": 5_000_000, "gpu": "t4", "minutes": 60},
    "blind": {"task": "image", "n_train": 21_000, "gpu": "p100", "minutes": 540, "mode": "blind"},
    "competition": {"competition": "cassava-leaf-disease-classification", "gpu": "p100", "minutes": 540},
    "best": {"task": "image", "n_train": 5_000, "gpu": "t4", "minutes": 120, "objective": "quality"},
    "fastest": {"task": "tabular", "n_train": 100_000, "gpu": "cpu", "minutes": 120, "objective": "fast"},
    "points": {"task": "point-cloud", "n_train": 9_800, "gpu": "rtx3090", "minutes": 60},
    "written": {"task": "seq2seq", "n_train": 12_000, "gpu": "a100", "minutes": 240},
}


@dataclass(frozen=True)
class Told:
    """A plan, and each form of it as text."""

    plan: dict[str, Any]
    forms: dict[str, str]


@pytest.fixture(scope="module")
def told(servers: Servers) -> Iterator[dict[str, Told]]:
    url = servers.new("sqlite", "seeded")
    app = create_app(load_settings(database_url=url, seed_on_start=False, calibrate=False))
    with TestClient(app) as client:
        service = app.state.service
        assert service.preparation.wait(600).ready
        database, out = service.preparation.require_knowledge(), {}
        for name, asked in QUESTIONS.items():
            plan, query = recommend(database, asked), {key: str(value) for key, value in asked.items()}
            forms = {
                "terminal": "\n".join(plan_lines(plan, everything=True)),
                "markdown": plan_markdown(plan),
                "brief": brief_text({**brief(database, plan_request(asked)), "plan": shown(plan, ())}),
                "tool": tools.plan(service, dict(asked), Caller()).text,
                "page": _words(client.get("/", params=query).text),
                "beside": _words(client.post("/browse/understand", data=query).text),
            }
            if plan["feasible"]:
                forms["plan"] = _words(client.get(f"/browse/plans/{plan['plan_id']}").text)
            if has_script(plan):
                forms["script"] = plan_script(plan)
            out[name] = Told(plan, forms)
        yield out
    servers.drop(url)


_BLOCK = r"</(?:p|li|tr|h\d|dt|dd|div|section|summary|t[hd]|nav|[uo]l|pre|dl|table)>"


def _words(page: str) -> str:
    """The text of a page, a line for each block; without the form, and what opens on a click and says the
    same again."""
    page = re.sub(
        r"(?s)<(script|style|head|form)\b.*?</\1>|<span class=\"origin\".*?(?:</a>|\n)</span>", "", page
    )
    text = html.unescape(re.sub(r"<[^>]+>", "", re.sub(_BLOCK, "\n", page)))
    return "\n".join(" ".join(line.split()) for line in text.splitlines() if line.strip())


AMOUNT = r"[\d.,]+(?: \([^)]*\))?"
LASTING = r"(?:[\d,]+ h \d\d min|[\d.,]+ (?:min|ms|s))"
SPAN = rf"{LASTING}(?: \([^)]*\))?"
OF_TEXT = {
    "minutes": rf"^\S+: [^;]+ on .*, ({LASTING})$",
    "model": r"^model: ([^\s,;]+)",
    "batch": r"^model: .*?\bbatch_size=(\d+)",
    "folds": r"^model: .*?\bfolds=(\d+)",
    "seeds": r"^model: .*?\bseeds=(\d+)",
    "epochs": r"^model: .*?\bepochs=(\d+)",
    "patience": r"^model: .*?\bpatience=(\d+)",
    "rate": r"^model: .*?\blr=([\d.e-]+)",
    "memory": rf"^expect .*?(?<!host )memory ({AMOUNT}) GiB",
    "host memory": rf"^expect .*?host memory ({AMOUNT}) GiB",
    "speed": rf"^(?:expect .*?)?speed:? ({AMOUNT}) samples/s",
    "epoch": rf"^(?:expect .*?)?\b(?:epoch|round|fit):? ({SPAN})",
    "total": rf"^expect .*?(?:total|planned model in all) ({SPAN})",
    "left": rf"^expect .*?; ({LASTING}) left",
}
OF_PAGE = {
    "minutes": rf"^(?:Train |All runs end|It ends).* of ({LASTING})(?:\.|, nine times in ten)",
    "model": r"^Train ([^\s,]+).*, for ",
    "batch": r"^Train .*?batch_size=(\d+)|^batch_size = (\d+)$",
    "folds": r"^Train .*?(\d+) folds?\b|^folds = (\d+)$",
    "seeds": r"^Train .*? × (\d+) seeds",
    "epochs": r"^Train .*?× (?:at most )?([\d,]+) (?:epoch|round)|^epochs = (\d+)$",
    "patience": r"^early_stopping_patience = (\d+)$",
    "rate": r"^learning_rate = ([\d.e-]+)$",
    "memory": rf"^(?:Memory|memory)\s+({AMOUNT}) GiB",
    "host memory": rf"^Host memory\n({AMOUNT}) GiB",
    "speed": rf"^Speed at batch .*\n({AMOUNT}) samples/s",
    "epoch": rf"^(?:Epoch, .*|Round|Fit)\n({SPAN})",
    "total": rf"^(?:Total|Planned model in all)\n({SPAN})|^(?:ends at|takes)\s+({SPAN})",
    "left": rf"^({LASTING}) left for delays",
}
OF_SCRIPT = {
    "minutes": r"^MINUTES = .*, ([\d.]+)\)\)$",
    "model": r"^MODEL = \"(.*)\"$",
    "batch": r"^BATCH_SIZE = (\d+)",
    "folds": r"^FOLDS = (\d+)",
    "seeds": r"^SEEDS = (\d+)",
    "epochs": r"^EPOCHS = (\d+)",
    "patience": r"^PATIENCE = (\d+)",
    "rate": r"^LEARNING_RATE = ([\d.e-]+)",
}
BESIDE = ("model", "folds", "total", "memory", "batch", "epochs")
SCHEDULE = ("folds", "epochs", "patience", "batch", "rate")
LEAST = {
    "terminal": 480, "markdown": 480, "brief": 480, "tool": 480, "head": 410, "page": 480, "plan": 150,
    "beside": 230, "script": 215,
}  # fmt: skip
"""Figures found by name in all plans, at least: a pattern that finds nothing agrees with everything."""


def _expected(plan: Mapping[str, Any], form: str) -> dict[str, str]:
    """Name of a figure -> how every form says it; without what the form leaves out."""
    n, trees, at_once = plan["expected"], "host_memory_gib" in plan["expected"], plan["optimizer"] == "none"
    search = [each["values"]["end"] for each in plan["warnings"] if each["code"] == "script-uses-all"]
    over = [*search, *(run["deadline_minute"] for run in reversed(plan["portfolio"]))][0]
    out = {
        "minutes": minutes(plan["minutes"]), "model": plan["model"]["name"], "folds": str(plan["folds"]),
        "total": interval(n["total_minutes"], "min"), "epoch": interval(n["epoch_seconds"], "s"),
    }  # fmt: skip
    if not trees:
        out |= {"batch": str(plan["batch_size"]), "speed": interval(n["samples_per_second"])}
    if not trees or n["peak_memory_gib"]["value"]:
        out["memory"] = interval(n["peak_memory_gib"])
    if trees:
        out["host memory"] = interval(n["host_memory_gib"])
    if not at_once:
        out |= {"epochs": str(plan["epochs"]), "rate": f"{plan['learning_rate']:g}"}
        out["patience"] = str(plan["early_stopping_patience"])
    if plan["seeds"] > 1 and not search:
        out["seeds"] = str(plan["seeds"])
    if plan["run"] is None:
        out["left"] = minutes(plan["minutes"] - over)
    elif form in ("page", "beside"):  # has the minutes of all runs
        del out["minutes"]
    if form == "plan":  # of the main run, whichever run was asked about
        out = {name: out[name] for name in ("model", "batch", "folds", "epochs", "seeds") if name in out}
        out = out if plan["run"] is None else {}
    if form == "beside":
        out = {name: out[name] for name in BESIDE if name in out}
    if search and form in ("head", "script"):  # the minutes decide how often its members are fitted
        out = {name: words for name, words in out.items() if name not in SCHEDULE}
    if form == "script":
        out = {name: words for name, words in out.items() if name in OF_SCRIPT}
        out["minutes"] = str(float(plan["minutes"]))
    return out


def _found(patterns: Mapping[str, str], text: str) -> dict[str, set[str]]:
    """Name -> what its pattern finds, without marks between thousands."""
    out: dict[str, set[str]] = {}
    for name, pattern in patterns.items():
        for match in re.finditer(pattern, text, re.MULTILINE):
            said = next(group for group in match.groups() if group)
            out.setdefault(name, set()).add(re.sub(r"(?<=\d),(?=\d{3})", "", said))
    return out


def _forms(told: Told) -> Iterator[tuple[str, dict[str, str], str]]:
    """(form, its patterns, its text with a line for each line of the plan's words)."""
    for form, text in told.forms.items():
        if form == "script":
            head, _, code = text.partition("# The plan\n")
            yield "head", OF_TEXT, _plain(re.sub(r"\n  (?=\S)", " ", head.partition("The script of ")[2]))
            yield form, OF_SCRIPT, code
        elif form in ("page", "plan", "beside"):
            yield form, OF_PAGE, text
        else:
            yield form, OF_TEXT, _plain(text)


def _plain(text: str) -> str:
    return re.sub(r"(?m)^- ", "", text).replace("**", "")


def test_each_form_says_each_figure_as_the_answer_does(told: dict[str, Told]):
    counts: dict[str, int] = {}
    wrong = []
    for name, each in told.items():
        if not each.plan["feasible"]:
            continue
        for form, patterns, text in _forms(each):
            found, expected = _found(patterns, text), _expected(each.plan, form)
            for figure, words in expected.items():
                counts[form] = counts.get(form, 0) + len(found.get(figure, ()))
                same = {words} if form != "head" else {words.replace("–", "-")}
                if found.get(figure, set()) != same:
                    wrong.append(f"{name}, {form}: {figure} {found.get(figure)}, not {words}")
    assert not wrong, "\n".join(wrong)
    assert all(counts[form] >= least for form, least in LEAST.items()), counts


def test_the_length_of_clips_is_read_or_said_not_to_be(told: dict[str, Told]):
    ignored = {name: " ".join(told[name].plan["ignores"]) for name in ("sound", "music", "video")}
    assert told["sound"].plan["model"]["seq_len"] >= 1_000
    assert "clips of" not in ignored["sound"]
    assert "clips of 30 s" in ignored["music"]
    assert "clips of 10 s" in ignored["video"]
