"""Reasons of a plan: each choice as a sentence with its figure, and the rows behind them."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from math import inf
from typing import Any

from memory_service.domain.common.estimate import Estimate
from memory_service.domain.common.optimizers import optimizer_or_adam
from memory_service.domain.common.sentences import Sentence, sentence
from memory_service.domain.common.units import interval, percent, plural
from memory_service.domain.common.vocabulary import modality_of
from memory_service.domain.cost.boosted_trees import CARD_BYTES
from memory_service.domain.cost.multi_gpu import exchange_seconds_of, exchanged_params
from memory_service.domain.cost.step_config import StepConfig, precision_class
from memory_service.domain.cost.tree_seconds import TREE_LAWS
from memory_service.domain.planning.boosting_plan import kind_of, memory_on_card
from memory_service.domain.planning.candidates import Candidate, CandidateSet, CandidateSets, Rival
from memory_service.domain.planning.cost_table import with_memory
from memory_service.domain.planning.option import Option
from memory_service.domain.planning.plan import Expected
from memory_service.domain.planning.problem import CostProvider, PlanningProblem
from memory_service.domain.prediction.device_memory import observed_bounds
from memory_service.domain.quality.boosting_rounds import MOST_ROUNDS
from memory_service.domain.recipe.preferences import (
    DECODER_POINTS,
    DECODERS,
    FAMILY_YEARS,
    MOST_FAMILY_POINTS,
)
from memory_service.domain.recipe.vocabulary import families_of

MOSTLY = 0.3
"""Share of winners from which a plan says what decoders are worth."""


def rationale(
    candidate: Candidate,
    settings: Mapping[str, Any],
    expected: Expected,
    spare_folds: int | None,
    all_sets: CandidateSets,
    planned: Collection[str],
    rival: Rival | None,
) -> tuple[Sentence, ...]:
    """One sentence per decision, in the order the decisions were made. planned: models of all runs."""
    problem, option = candidate.problem, candidate.option
    total, peak = expected.total_minutes, expected.peak_memory_gib
    out = [_model_reason(candidate, sum(len(each.table.options) for each in all_sets.sets))]
    out += _memory_reasons(candidate, settings)
    out += _winners_reason(candidate, all_sets, planned, rival)
    if option.is_trees:
        out += _boosting_reasons(candidate, settings, expected)
    else:
        out.append(_batch_reason(candidate, settings))
        out += tuning_reasons(candidate, settings)
        out.append(_precision_reason(candidate, settings))
    passes = plural(settings["epochs"], "epoch")
    if expected.best_epoch is not None and settings["optimizer"] != "none":
        trained = min(settings["epochs"], expected.best_epoch.value + settings["early_stopping_patience"])
        passes = f"about {plural(f'{trained:.0f}', 'round')}"
    if settings["seeds"] > 1 and not candidate.fits().by_time:
        passes += f" x {settings['seeds']} seeds"
    figures = {"median": total.value, "p90": total.high, "minutes": problem.question.minutes}
    out.append(sentence("time", folds=plural(settings["folds"], "fold"), passes=passes, **figures))
    out.append(_fold_reason(candidate, spare_folds))
    if not option.is_trees:
        out.append(_rate_reason(option.defaults, settings, problem.policy.patience[1]))
        if problem.on_gpu:
            out.append(_fill_reason(candidate, expected))
        usable = candidate.candidates.table.usable_gib
        of_card = sentence("peak", gib=peak.high, usable=usable)
        out += [of_card if problem.on_gpu else sentence("on-processor"), sentence("no-compile")]
    if expected.bound == "loader":
        out.append(sentence("loader-bound"))
    if problem.question.mode == "blind":
        out.append(sentence("blind"))
    return tuple(out)


def _boosting_reasons(
    candidate: Candidate, settings: Mapping[str, Any], expected: Expected
) -> Iterator[Sentence]:
    """When boosting is expected to be best, and why not at a lower learning rate."""
    best, grid, question = expected.best_epoch, candidate.grid, candidate.problem.question
    if best is None:
        return
    if settings["optimizer"] == "none":
        yield sentence("fitted-once")
        return
    yield from _device_reasons(candidate)
    interval = {"best": best.value, "low": best.low, "high": best.high}
    ends = {"patience": settings["early_stopping_patience"], "most": settings["epochs"]}
    yield sentence("rounds", rate=settings["learning_rate"], **interval, **ends)
    lower = grid.next_rate(candidate.pick.epoch)
    cut = is_cut_short(settings, best) and settings["epochs"] < MOST_ROUNDS
    if cut or lower is None:
        return
    slower = replace(candidate, pick=candidate.pick._replace(epoch=lower))
    minutes, gain = slower.minutes, slower.quality - candidate.quality
    why = "minutes" if minutes > question.minutes else "nothing" if gain < 0.05 else "gain"
    yield sentence("lower-rate", rate=float(grid.learning_rates[lower]), why=why, minutes=minutes, gain=gain)


def _device_reasons(candidate: Candidate) -> Iterator[Sentence]:
    """Where the trees grow, with the budgets of both places."""
    problem, minutes_on = candidate.problem, candidate.grid.minutes_on
    if minutes_on is None or not problem.on_gpu:
        return
    option, n, pick = candidate.option, problem.together.n, candidate.pick
    name = option.model.name
    cores, card = (float(minutes) for minutes in minutes_on[:, *pick])
    if card < inf:
        side = "card" if card < cores else "processor"
        one = f" One of the {n} cards is used." if n > 1 and card < cores else ""
        if not TREE_LAWS[kind_of(option)].card_power:
            one += " Public figures tell no card from another here: which one it is does not enter."
        budgets = {"card": card, "cores": cores, "cpu_count": problem.cpu_count}
        yield sentence("trees-place", model=name, place=side, **budgets, more=one)
    elif kind_of(option) not in CARD_BYTES:
        yield sentence("trees-on-processor", model=name, why="no-cuda")
    elif memory_on_card(problem, option) is None:
        yield sentence("trees-on-processor", model=name, why=_why_not_on_card(problem))


def _why_not_on_card(problem: PlanningProblem) -> str:
    """Of a library that could grow its trees on NVIDIA's cards."""
    if any(card.kind == "cpu" for card in problem.cards):
        return "processor-asked"
    other = [card.key for card in problem.cards if card.compute_capability is None]
    return f"{other[0]} is not NVIDIA's" if other else "no-room"


def is_cut_short(settings: Mapping[str, Any], best: Estimate) -> bool:
    """Whether boosting may have to end before its best round: one table in ten or more."""
    return bool(settings["epochs"] < best.high)


def _memory_reasons(candidate: Candidate, settings: Mapping[str, Any]) -> Iterator[Sentence]:
    """What memory said of the model, its size, its folds."""
    problem, option = candidate.problem, candidate.option
    said, question = problem.preferences, problem.question
    preferred = said.models.get(option.model.name)
    if preferred is not None:
        told = {"source": preferred.source, "said": _ended(preferred.text), "points": preferred.points}
        yield sentence("memory-of-model", **told)
    size = {"image_size": said.image_size, "seq_len": said.seq_len}.get(option.model.input_kind)
    if size is not None and option.profile and question.image_size is None and question.seq_len is None:
        yield sentence("input-size", size=option.input_size, why=_ended(size.why))
    if modality_of(problem.task) == "audio":
        yield sentence("frames", frames=option.input_size, seconds=option.input_size / 100)
    if question.folds is None and settings["folds"] in said.folds and settings["folds"] > 1:
        yield sentence("folds-of-memory", folds=settings["folds"])


def _winners_reason(
    candidate: Candidate, all_sets: CandidateSets, planned: Collection[str], rival: Rival | None
) -> Iterator[Sentence]:
    """Whether the families of winners changed which model leads, with the figures of both."""
    said, model = candidate.problem.preferences, candidate.option.model
    if not said.families or candidate.problem.model is not None or model.name in said.models:
        return
    share, options = (
        said.families.get(DECODERS, 0.0),
        (o for each in all_sets.sets for o in each.table.options),
    )
    if share >= MOSTLY and any(option.method for option in options):
        yield sentence("decoders-won", share=share, years=FAMILY_YEARS, points=DECODER_POINTS * share)
    if rival is None:
        return

    def used(families: tuple[str, ...], params_m: float) -> tuple[str, float]:
        points = said.winner_points(families, params_m)
        share = said.family_share(families)
        return f"{families[0]} {percent(share)} ({round(points, 1) + 0.0:+.1f} points)", points

    theirs, option, index = rival
    name, (of_rival, _) = option.model.name, used(theirs, option.model.params_m)
    of_own, own_points = used(families_of(model.name, model.family), model.params_m)
    ahead = index - (candidate.quality - own_points)
    did, way = ("broke a tie", "higher") if ahead > 0.0 else ("overruled nothing", "lower")
    did = "overruled quality" if ahead > MOST_FAMILY_POINTS else did
    kept = f"; {name} is another run" if name in planned else ""
    by_quality = {"did": did, "model": name, "points": abs(ahead), "way": way}
    yield sentence("memory-tie", **by_quality, years=FAMILY_YEARS, own=of_own, rival=of_rival, also=kept)


def _ended(text: str) -> str:
    return text if text.endswith((".", "!", "?")) else text + "."


def _model_reason(candidate: Candidate, weighed: int) -> Sentence:
    option = candidate.option
    model = option.model
    named = {"model": model.name, "size": f" at {option.input_size}" if not option.is_trees else ""}
    if noted := candidate.problem.noted:
        return sentence("model-noted", **named, noted=_ended(noted))
    if candidate.problem.model is not None:
        return sentence("model-asked", **named)
    weights = "pretrained" if model.pretrained else "trained from scratch"
    return sentence("model-best", **named, weights=weights, score=model.quality_score, options=weighed)


def _batch_reason(candidate: Candidate, settings: Mapping[str, Any]) -> Sentence:
    batch = settings["batch_size"]
    bound = candidate.batch_bound
    refused = ran_out(candidate.candidates, candidate.option)
    names = ("grad_accumulation", "n_gpus", "effective_batch_size")
    steps, cards, effective = (settings.get(name) or 1 for name in names)
    updates = int(candidate.fits().rows // max(effective, 1))
    least = candidate.problem.policy.updates_per_epoch
    why = "ran-out" if bound == "memory" and refused else bound
    told = {"why": why, "least": least, "refused": refused}
    of_each = " a card" if cards > 1 else ""
    more = ""
    if effective > batch:
        of = [f"{steps} accumulation steps (R07)"] * (steps > 1) + [f"{cards} cards"] * (cards > 1)
        more = f"; {' and '.join(of)} make it {effective}"
    if settings["gradient_checkpointing"]:
        more += "; gradient checkpointing makes room for it at about a third more time"
    return sentence("batch", batch=batch, of_each=of_each, updates=updates, more=more, **told)


def _precision_reason(candidate: Candidate, settings: Mapping[str, Any]) -> Sentence:
    precision = settings["precision"]
    if candidate.problem.question.precision:
        return sentence("precision-asked", precision=precision)
    layout = ", channels_last for its convolutions" if settings["channels_last"] else ""
    return sentence("precision", precision=precision, layout=layout, why=precision)


def _fold_reason(candidate: Candidate, spare_folds: int | None) -> Sentence:
    folds, fits = candidate.folds, candidate.fits()
    if fits.by_time:
        last = "a fit to all rows" if fits.refits else "the latest fold"
        return sentence("folds-by-time", folds=plural(folds, "fold"), last=last)
    text = "One split first" if folds == 1 else f"{folds} folds, averaged"
    spare = f"; if time is left after a first submission, go on to {spare_folds} folds" if spare_folds else ""
    return sentence("folds", folds=text, more=spare)


def _rate_reason(defaults: Any, settings: Mapping[str, Any], most: int) -> Sentence:
    law = {"sqrt": "square root", "linear": "linear", "none": "no"}[defaults.scaling]
    warm = settings["warmup_epochs"]
    warmup = f"{plural(warm, 'epoch')} of warmup" if warm else "warmup over the first tenth of the steps"
    base = {"optimizer": defaults.optimizer, "base": defaults.base_lr, "base_batch": defaults.base_batch}
    own = {"rate": settings["learning_rate"], "batch": settings["effective_batch_size"]}
    patience = settings["early_stopping_patience"]
    stop = {"patience": patience, "most": most, "rule": "stated" if patience <= most else "quarter"}
    return sentence("learning-rate", **base, **own, **stop, law=law, warmup=warmup)


def _fill_reason(candidate: Candidate, expected: Expected) -> Sentence:
    fill, (low, high) = expected.memory_percent, candidate.problem.policy.target_percent
    figures = {"percent": fill.value, "low": low, "high": high}
    if fill.value >= low:
        return sentence("fill", **figures)
    faster, bound = candidate.faster_batch(), candidate.batch_bound
    if faster is None:
        return sentence("fill-low", **figures, curve="", why="none-faster")
    own, batch, speed = faster
    curve = f"by the curve it trains {own:.0f} samples/s, and {speed:.0f} at batch {batch}, but "
    return sentence(
        "fill-low", **figures, curve=curve, why=bound if bound in ("updates", "knee") else "pinned"
    )


def ran_out(candidates: CandidateSet, option: Option) -> str:
    """Which batches of an option are known to run out of memory on the cards, in words; "" for none."""
    profile = option.profile.get(precision_class(candidates.precision))
    if profile is None:
        return ""
    seen = []
    config = StepConfig(candidates.precision, optimizer=option.defaults.optimizer)
    vram = candidates.problem.question.vram_gib
    for card in candidates.problem.cards:
        planned = card if vram is None else with_memory(card, vram)
        bounds = observed_bounds(profile, planned, config)
        if bounds.refused is not None:
            times = "" if bounds.out_of_memories == 1 else f", {bounds.out_of_memories} times"
            seen.append(f"{bounds.refused} on {card.key}{times}")
    return ", ".join(seen)


def evidence(candidate: Candidate, expected: Expected, costs: CostProvider) -> tuple[Mapping[str, Any], ...]:
    """The rows the plan rests on: the model's own figures, estimates, and the rules as the tables hold
    them."""
    option = candidate.option
    model = option.model
    figures = ", ".join(f"{name} {value:g}" for name, value in list(model.quality.items())[:3])
    text = f"quality score {model.quality_score:.1f}" + (f" ({figures})" if figures else "")
    peak, speed = expected.peak_memory_gib, expected.samples_per_second
    sizing = f"peak {interval(peak.as_dict(), 'GiB')}, {interval(speed.as_dict(), 'samples/s')}"
    sizing += f", bound by {expected.bound}"
    rows = [
        (f"model:{model.name}", model.grade, text, model.source),
        ("sizing", peak.grade, sizing, f"{peak.basis}; {speed.basis}"),
    ]
    cards = candidate.problem.cards
    rows += [(card.slug, "claimed", f"{card.name}: {card.memory_gib:g} GiB", card.source) for card in cards]
    for card in cards:
        if (told := card.provenance) is not None and told.n:
            source = f"calibration of {told.measured_at[:10]}" if told.measured_at else "calibrations"
            of = f"calibration:{told.calibration or card.key}"
            rows.append((of, "measured", f"rates of {card.key}: {told.basis}", source))
    shown = (dict(zip(("id", "grade", "text", "source"), row, strict=True)) for row in rows)
    return (*shown, *costs.evidence(candidate.problem, model.name, option.input_size))


def tuning_reasons(candidate: Candidate, settings: Mapping[str, Any]) -> Iterator[Sentence]:
    """A sentence for each of them that the plan has."""
    option = candidate.option
    if option.sharded:
        cards, profile = candidate.problem.together, candidate.profile
        seconds = exchange_seconds_of(exchanged_params(profile), cards) if profile else 0.0
        why = "" if candidate.problem.question.sharding else ", for no card holds a copy with what trains it"
        yield sentence("sharded", cards=cards.n, why=why, seconds=seconds, gb_s=cards.gb_s)
    if option.texts_per_row > 1.0:
        yield sentence("packed", texts=option.texts_per_row, tokens=option.input_size)
    if paged := optimizer_or_adam(settings["optimizer"]).paged_bytes:
        host_gib = option.model.params_m * 1e6 * paged / 2**30
        yield sentence("paged-optimizer", optimizer=settings["optimizer"], gib=host_gib)
