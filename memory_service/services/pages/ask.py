"""Page that asks: the question with its facts, the plan, what else would fit, and links to each part.

`schemas.recommend` makes the form a question; this shows what came of it.
"""

import re
from collections.abc import Callable, Mapping, Sized
from typing import Any, get_args
from urllib.parse import quote

from memory_service.domain.common.vocabulary import MODES, OBJECTIVES, PRECISIONS, SIZES, TASKS, Split
from memory_service.domain.description.resources import resources_in
from memory_service.domain.hardware.gpu_spec import counted
from memory_service.domain.planning.candidates import CandidateSets
from memory_service.domain.planning.explanation.plan_text import end_of_search, is_run, over_by
from memory_service.domain.planning.plan_search import PRICE
from memory_service.domain.planning.plan_settings import epochs_of
from memory_service.domain.planning.problem import PlanningProblem
from memory_service.domain.planning.request import MOST_MINUTES, PINS
from memory_service.domain.portfolio.portfolio import best_by_budget, best_of_models, choose_portfolio
from memory_service.domain.portfolio.run_sets import RunSets, run_sets
from memory_service.domain.recipe.recipe_text import split_setting
from memory_service.errors import FieldError, InvalidInput, NotFound
from memory_service.schemas.recommend import plan_request
from memory_service.services.database.transactions import Database
from memory_service.services.knowledge.snapshot import Knowledge
from memory_service.services.planning.memory import split_read
from memory_service.services.planning.plan_script import blend_script, plan_script
from memory_service.services.planning.recommend import evaluate_request, recommend
from memory_service.services.planning.request_text import RequestText
from memory_service.services.planning.script_choice import optional_techniques, tried, why_no_script

_WHOLE = ("n_train", "n_test", "n_classes", "n_features", "cpu_count", "image_size", "seq_len", "batch_size")
_GROUPED = re.compile(r"\d{1,3}(?:[ ,_'\u00a0\u202f]\d{3})+")
_SPAN = re.compile(
    r"(?:(\d{1,9}(?:\.\d{1,9})?)\s?h(?:ours?|rs?)?)?\s?(?:(\d{1,9}(?:\.\d{1,9})?)\s?(?:m|min|mins|minutes?)?)?",
    re.IGNORECASE,
)
_FOR_EXAMPLE = "for example t4, a100, h100, rtx4090 or cpu; all of them are under Devices"


def ask_page(database: Database, knowledge: Knowledge, requested: Mapping[str, str]) -> dict[str, Any]:
    """The page as plain values, among them:

    asked    the fields as they were given; read: the GPU and the minutes that only the description states
    errors   field -> what is wrong with it; `refused`: the sentence, None when the question can be answered
    facts    what the plan rests on: `[{"field", "value", "from", "words", "why", "record", "assumed"}]`,
             `from` and `words` as in the plan's own facts, `why` what the plan says of it
    closest  changes that make a plan feasible, the smallest first
    plan     the answer of /recommend; None for what was refused, and before a task is asked about
    sources  what the recipe names -> its page
    others   the alternatives that are not the plan itself, before them what is planned without fixed ones;
             `whole`: when all its runs are over, their quality, the main one's seeds; `alone`: of one run
    main     the number of the plan's run in the portfolio
    points   `{"front", "models", "picks", "objective", "budget_minutes", "steps"}`: minutes and quality of
             plans; steps: what would be planned for less and more minutes
    techniques   those that the script can do or leave: `[{"name", "how", "done"}]`
    fitting  family -> the best model of it that fits in the minutes
    tried    families that the plan's script fits as well; joined: whether a script blends the plan's runs
    script   whether there is a training script for the plan (`ask_script`)
    """
    requested = plain_numbers(requested)
    page: dict[str, Any] = {"asked": requested, "read": {}, "choices": _choices(knowledge)}
    page |= {"known": _known(knowledge), "errors": {}, "refused": None, "facts": [], "plan": None}
    page |= {"sources": {}, "others": [], "main": None, "points": None, "closest": [], "script": False}
    page |= {"techniques": [], "fitting": {}, "tried": (), "joined": False}
    only_a_card = requested.keys() == {"gpu"} and requested["gpu"] in knowledge.cards.all
    no_card = requested.keys() == {"competition"} and requested["competition"] in knowledge.competitions
    if not requested or only_a_card or no_card:
        return page
    page["read"] = resources_of(knowledge, requested)
    try:
        answer, weighed = evaluate_request(database, plan_request(requested))
    except (InvalidInput, NotFound) as refusal:
        errors = all_wrong(knowledge, requested, refusal)
        return page | {"errors": errors, "refused": refusal.detail, "status": refusal.status}
    if weighed is None:
        return page | {"plan": answer}
    known, memory, case, candidate_sets = weighed
    points = _points(candidate_sets, answer)
    others = [*_without_pins(database, requested, answer)]
    if (end := end_of_search(answer)) is not None:  # whatever is planned, its script uses the minutes
        points["picks"] = {name: pick | {"over": end} for name, pick in points["picks"].items()}
    others += _alternatives(answer, points)
    mains = [run["run"] for run in answer.get("portfolio", ()) if is_run(run, answer)]
    page |= {"others": others, "main": mains[-1] if mains else None, "plan": linked(answer, known)}
    page |= {
        "sources": _sources(answer.get("recipe"), known),
        "facts": _facts(case, memory) + _split_facts(case, memory, answer),
    }
    page |= {"techniques": optional_techniques(answer), "tried": tried(answer)}
    page |= {"joined": not why_no_script(answer, blend=True), "script": not why_no_script(answer)}
    page |= {"fitting": candidate_sets.best_of_families(case.question.minutes)}
    return page | {"points": points, "closest": _closest(answer, requested)}


def _alternatives(plan: Mapping[str, Any], points: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Other plans than the one shown; none called faster or better that is hardly so, once all runs count."""
    picks, out = points["picks"], []
    mine = picks.get(points["objective"])
    for each in plan.get("alternatives", ()):
        whole = picks.get(each["objective"])
        better = {"fast": ("over", -1), "quality": ("quality_index", 1)}.get(each["objective"])
        least = PRICE["balanced"] if each["objective"] == "quality" else 0.0
        kept = not (mine and whole and better) or better[1] * (whole[better[0]] - mine[better[0]]) > least
        if kept and not is_run(each, plan):
            out.append({**each, "whole": whole or _alone(each["expected"], end_of_search(plan))})
    return out


def _alone(expected: Mapping[str, Any], end: float | None) -> dict[str, Any]:
    """Of one run, where all that would be planned with it are not known."""
    over, quality = end or expected["total_minutes"]["high"], expected["quality_index"]["value"]
    return {"over": over, "quality_index": quality, "seeds": 1, "alone": True}


def _whole(plan: Mapping[str, Any]) -> dict[str, Any]:
    quality = plan["expected"]["quality_index"]["value"]
    return {"over": over_by(plan), "quality_index": quality, "seeds": plan["seeds"]}


def _without_pins(
    database: Database, requested: Mapping[str, str], plan: Mapping[str, Any]
) -> list[dict[str, Any]]:
    """What would be planned if the asker had fixed nothing, as an alternative; none where it is the same."""
    left = {name: value for name, value in requested.items() if name not in PINS}
    if len(left) == len(requested) or not plan["feasible"]:
        return []
    free = recommend(database, left)
    if not free["feasible"] or is_run({**free, **free["model"], "model": free["model"]["name"]}, plan):
        return []
    settings = {name: free[name] for name in ("batch_size", "folds", "epochs", "expected")}
    model = {**free["model"], "model": free["model"]["name"]}
    return [{"objective": "unpinned", **model, **settings, "whole": _whole(free)}]


def understood(database: Database, knowledge: Knowledge, requested: Mapping[str, str]) -> dict[str, Any]:
    """`ask_page` of a question that is being written: without a GPU its facts alone, read as for an A100;
    without the fields that are wrong."""
    lacks_gpu = "gpu" not in {**resources_of(knowledge, requested), **requested}
    page = ask_page(database, knowledge, {**requested, "gpu": "a100"} if lacks_gpu else requested)
    left = {name: value for name, value in requested.items() if name not in page["errors"]}
    if left and len(left) < len(requested):
        return understood(database, knowledge, left) | {"errors": page["errors"]}
    if lacks_gpu:
        left_out = ("gpu",) if "minutes" in {**page["asked"], **page["read"]} else ("gpu", "minutes")
        facts = [fact for fact in page["facts"] if fact["field"] not in left_out]
        asked = {name: value for name, value in page["asked"].items() if name != "gpu"}
        page |= {"plan": None, "facts": facts, "asked": asked}
    return page


def resources_of(knowledge: Knowledge, requested: Mapping[str, str]) -> dict[str, str]:
    """GPU and minutes that the description states and no field says."""
    found = resources_in(requested.get("description", ""), knowledge.cards.models)
    unsaid = {name: value for name, value in found.items() if name not in requested}
    return {name: f"{value:g}" if name == "minutes" else value for name, value in unsaid.items()}


def ask_script(database: Database, requested: Mapping[str, str], server: str = "") -> str:
    """The training script of the plan that the page shows for the same fields, `single=true` one that needs
    no package, `blend=true` what joins its runs. InvalidInput, NotFound; NoScript where nothing fits or there
    is none for the model."""
    asked = plain_numbers(requested)
    joins = asked.pop("blend", "") == "true"
    plan = recommend(database, asked)
    if joins:
        return blend_script(plan)
    return plan_script(plan, server, single=requested.get("single") == "true")


def _choices(knowledge: Knowledge) -> dict[str, list[Any]]:
    devices = [[name, f"{name} (registered here)"] for name in sorted(knowledge.cards.devices)]
    sheets = [[slug, gpu.name] for slug, gpu in knowledge.cards.sheets.items()]
    cards = [*devices, *sorted(sheets)]
    lists: dict[str, list[Any]] = {"task": list(TASKS), "size": list(SIZES), "gpu": cards}
    lists |= {"split": list(get_args(Split))}
    return lists | {"objective": list(OBJECTIVES), "mode": list(MODES), "precision": list(PRECISIONS)}


def _known(knowledge: Knowledge) -> dict[str, int]:
    cards = knowledge.cards
    tables: dict[str, Sized] = {"competitions": knowledge.competitions, "models": knowledge.models}
    tables |= {"gpus": cards.sheets, "strategies": knowledge.strategies, "patterns": knowledge.patterns}
    return {name: len(rows) for name, rows in (tables | {"devices": cards.devices}).items()}


_SHOWN = (
    "task", "n_train", "n_test", "n_classes", "n_features", "model", "image_size", "gpu", "cpu_count",
    "minutes", "metric", "weights",
)  # fmt: skip


def _facts(case: PlanningProblem, memory: RequestText) -> list[dict[str, Any]]:
    """The plan's facts that a person may correct, each with where it came from."""
    count = case.question.n_gpus or 1
    named = (
        "CPU" if card.kind == "cpu" and not card.device else card.name for card in case.cards
    )  # no size of it
    times = f"{count}x" if count > 1 else ""
    cards = (f"{count} × " if count > 1 else "") + ", ".join(named)
    facts = {fact.name: fact for fact in case.facts}
    slug = case.question.competition or memory.described
    out: list[dict[str, Any]] = []
    pinned = case.question.pinned
    for fact in (facts[name] for name in _SHOWN if name in facts and (name not in PINS or name in pinned)):
        why = next(iter(fact.notes), None)
        record = f"{slug}, which the text is of" if memory.described else slug
        value = int(fact.value) if fact.name == "minutes" and fact.value == int(fact.value) else fact.value
        out.append(
            {"field": fact.name, "value": cards if fact.name == "gpu" else value, "from": fact.source}
            | {"words": fact.words, "why": why, "assumed": fact.source == "usual"}
            | ({"fill": ", ".join(times + name for name in case.question.gpus)} if fact.name == "gpu" else {})
            | {"record": record if fact.source == "record" and fact.name != "cpu_count" else None}
        )
    return out


def _split_facts(case: PlanningProblem, memory: RequestText, plan: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The split of the plan and what its groups are, as facts that a person may correct."""
    question, read = case.question, split_read(memory.said) if memory.said else None
    told = (plan.get("recipe") or {}).get("validation") or {"why": None, "from": ()}
    slug = question.competition or memory.described
    split, by = split_setting(plan)
    kind = next((name for name in ("group", "time") if name in split), "random")
    asked = question.split or question.group_by or question.n_groups
    resolved = next((fact.source for fact in case.facts if fact.name == "split"), "usual")
    origin = "text" if read and read.split == kind else "record" if slug in told["from"] else resolved
    about = {"from": "asked" if asked else origin, "words": None, "why": told["why"]}
    about |= {"assumed": not asked and origin == "usual", "record": slug if origin == "record" else None}
    known = {"split": (split, kind), "group_by": (by, by)}
    return [
        {"field": name, "value": value, "fill": fill} | about
        for name, (value, fill) in known.items() if value and plan["feasible"]
    ]  # fmt: skip


def _closest(plan: Mapping[str, Any], requested: Mapping[str, str]) -> list[dict[str, Any]]:
    """The changes that make a plan feasible, without giving up what nobody fixed; each once."""
    first = plan.get("closest")
    found: list[dict[str, Any]] = []
    for change in [first, *first.get("or", ())] if first else ():
        changed = {k: v for k, v in change["set"].items() if v is not None or k in requested}
        if changed and changed not in [each["set"] for each in found]:
            found.append({**change, "set": changed})
    return found


def _points(candidate_sets: CandidateSets, plan: Mapping[str, Any]) -> dict[str, Any]:
    case, minutes = candidate_sets.problem, candidate_sets.problem.question.minutes
    picks = {}
    budgets = _budgets(minutes) if case.question.after is None else (minutes,)
    sets = run_sets(candidate_sets, budgets[-1]) if plan["feasible"] else None
    for objective in OBJECTIVES:
        chosen = choose_portfolio(sets, objective, minutes) if sets is not None else None
        if chosen is not None:
            quality, over = round(chosen.quality, 2), round(chosen.runs[-1].deadline, 2)
            pick = {"model": chosen.main.model, "minutes": round(chosen.needed, 3), "quality_index": quality}
            picks[objective] = pick | {"over": over, "seeds": chosen.main.seeds}
    front, models = best_by_budget(candidate_sets), best_of_models(candidate_sets, minutes)
    found = {"front": front, "models": models, "picks": picks}
    steps = [_step(sets, case.question.objective, budget) for budget in budgets] if sets is not None else []
    return found | {"objective": case.question.objective, "budget_minutes": minutes, "steps": steps}


def _budgets(minutes: float) -> tuple[float, ...]:
    """Budgets around this one, as people say them: a quarter, half, twice and four times as much."""
    parts = {float(f"{minutes * factor:.2g}") for factor in (0.25, 0.5, 2.0, 4.0)}
    return tuple(sorted(b for b in (*parts, minutes) if LEAST_MINUTES <= b <= MOST_MINUTES or b == minutes))


LEAST_MINUTES = 2.0


def _step(sets: RunSets, objective: str, minutes: float) -> dict[str, Any]:
    """What would be planned for other minutes; `model` None: nothing fits."""
    chosen = choose_portfolio(sets, objective, minutes)
    if chosen is None:
        return {"minutes": minutes, "model": None}
    main = chosen.main.candidate
    return {
        "minutes": minutes, "model": chosen.main.model, main.option.model.input_kind: main.option.input_size,
        "folds": main.folds, "epochs": epochs_of(main), "runs": len(chosen.runs),
        "quality_index": round(chosen.quality, 2), "over": round(chosen.runs[-1].deadline, 2),
    }  # fmt: skip


def _sources(recipe: Mapping[str, Any] | None, knowledge: Knowledge) -> dict[str, str]:
    """Each source that a recipe names -> its page: a solution, a pattern, else a competition."""
    patterns = {str(row["id"]) for row in knowledge.patterns}
    rows = [row for part in (recipe or {}).values() if isinstance(part, list) for row in part]
    named = {source for row in (*rows, *([recipe["validation"]] if recipe else ())) for source in row["from"]}
    rooms = {
        source: "patterns" if source in patterns else "solutions" if "#" in source else "competitions"
        for source in named
    }
    return {source: f"/browse/{room}/{quote(source)}" for source, room in sorted(rooms.items())}


def linked(plan: Mapping[str, Any], knowledge: Knowledge) -> dict[str, Any]:
    """The plan, each evidence with the page that shows it (`href`, None where there is none)."""
    pages = {str(row["id"]): f"/browse/strategies/{row['id']}" for row in knowledge.strategies}
    pages |= {str(row["id"]): f"/browse/patterns/{row['id']}" for row in knowledge.patterns}
    pages |= {str(row["id"]): f"/browse/conflicts/{row['id']}" for row in knowledge.claims}
    pages |= {name: f"/browse/devices/{name}" for name in knowledge.gpus}
    if plan["feasible"]:
        model = plan["model"]
        sized = next((f"?{key}={model[key]}" for key in ("image_size", "seq_len") if key in model), "")
        card = plan["gpu"].get("device") or plan["gpu"]["slug"]
        pages["sizing"] = f"/browse/sizing/{card}/{model['name']}{sized}"
    evidence = []
    for row in plan["evidence"]:
        kind, _, name = str(row["id"]).partition(":")
        href = f"/browse/models/{name}" if kind == "model" and name in knowledge.models else None
        evidence.append({**row, "href": href or pages.get(str(row["id"]))})
    return {**plan, "evidence": evidence}


def plain_numbers(form: Mapping[str, str]) -> dict[str, str]:
    """The form with "21,367" and "40 000" as digits, and "1 h", "90 min" as minutes; all else as it is."""
    out = dict(form)
    for name in _WHOLE:
        if _GROUPED.fullmatch(out.get(name, "")):
            out[name] = re.sub(r"\D", "", out[name])
    span = _SPAN.fullmatch(out.get("minutes", "").strip())
    if span and any(span.groups()):
        hours, minutes = (float(part or 0) for part in span.groups())
        out["minutes"] = f"{60 * hours + minutes:g}"
    return out


def all_wrong(
    knowledge: Knowledge, form: Mapping[str, str], refusal: InvalidInput | NotFound
) -> dict[str, str]:
    """Field -> what is wrong with it: what was refused first, and each name that nothing has."""
    errors: list[FieldError] = list(refusal.errors)
    look_up: Mapping[str, Callable[[str], Any]] = {
        "gpu": lambda name: knowledge.gpu(counted(name)[1]),
        "plan_for": lambda name: knowledge.gpu(counted(name)[1]),
        "competition": knowledge.competition,
    }
    refused = {error.field for error in errors}
    for field, known in look_up.items():
        for name in form[field].split(",") if field in form and field not in refused else ():
            try:
                known(name.strip())
            except (InvalidInput, NotFound) as wrong:
                errors += [FieldError(field, one.message, one.given, one.nearest) for one in wrong.errors]
                break
    return {error.field: _sentence(error) for error in errors}


def _sentence(error: FieldError) -> str:
    if error.message.startswith("unknown") and error.field == "task" and not error.nearest:
        return f"{error.message}; one of {', '.join(TASKS)}"
    if error.message.startswith("unknown") and error.field in ("gpu", "plan_for") and not error.nearest:
        return f"{error.message}; {_FOR_EXAMPLE}"
    if error.message.startswith("unknown") and error.field == "model" and not error.nearest:
        return f"{error.message}; all of them are under Models"
    named = not error.nearest or error.nearest[0] in error.message
    return error.message if named else f"{error.message}; nearest: {', '.join(error.nearest)}"
