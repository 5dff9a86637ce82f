"""Why each run of a portfolio is there, and why it stops where it stops, in sentences."""

from __future__ import annotations

from math import ceil, isfinite

from memory_service.domain.planning.plan_search import PRICE
from memory_service.domain.portfolio.portfolio import Portfolio, Run
from memory_service.domain.portfolio.run_sets import EARLY_WORTH, FIRST_SHARE, LEAST_GAIN

NOTHING_MORE = 0.25
"""Points: what a doubling of the minutes must buy to be called a gain. A tenth of an index's interval."""


def why_run(portfolio: Portfolio, run: Run) -> str:
    """One sentence; of several seeds one more."""
    early = run is portfolio.runs[0] and run.first <= FIRST_SHARE * portfolio.minutes
    by = f"a first submission is there by minute {run.first:.1f}"
    if run.role == "first":
        return f"One split early: {by}, within {FIRST_SHARE:.0%} of the time. Not part of the blend."
    folds = run.candidate.candidates.grid.folds[run.candidate.pick.fold]
    if run.role == "main":
        text = f"The highest expected quality of one run: index {run.quality:.1f}."
    else:
        text = f"Another family than {portfolio.main.model}, so other errors: index {run.quality:.1f}."
    if run.seeds > 1:
        text += f" {run.seeds} seeds x {folds} folds average {run.seeds * folds} models."
    return text + (f" After its first fold {by}." if early and not portfolio.done else "")


def why_it_stops(portfolio: Portfolio) -> tuple[str, ...]:
    """What the minutes are for, and what more of them would buy."""
    runs, price = len(portfolio.runs), PRICE[portfolio.objective]
    count = "One run takes" if runs == 1 else f"{runs} runs take"
    text = f"{count} {portfolio.used_percent:.0f} % of the minutes at p90"
    if runs > 1:
        gained = portfolio.quality - portfolio.main.quality
        text += f" and blend to an expected index of {portfolio.quality:.1f}, {gained:.1f} over the main run"
    out = [text + "."]
    if portfolio.objective != "quality":
        more = f"; all of the minutes would buy {portfolio.unused:.2f}" * (portfolio.unused >= LEAST_GAIN)
        out.append(
            f"Objective {portfolio.objective}: a doubling of the time must buy at least {price:g} index "
            f"points (R32){more}."
        )
    limit = max(NOTHING_MORE, price)
    if portfolio.doubling <= limit:
        out.append(f"Nothing more to gain: doubling the time buys {portfolio.doubling:.2f} points.")
    else:
        text = f"Doubling the time would buy {portfolio.doubling:.2f} points"
        if portfolio.unused < LEAST_GAIN and isfinite(portfolio.next_needed):
            text += (
                f"; nothing more to gain within these minutes: the next better plan needs "
                f"{ceil(10 * portfolio.next_needed) / 10:.1f}"
            )
        elif portfolio.unused <= limit:
            text += f"; nothing more to gain within these minutes: they would buy {portfolio.unused:.2f}"
        out.append(f"{text}.")
    first, cost = portfolio.runs[0], EARLY_WORTH[portfolio.objective]
    if not portfolio.done and first.first > FIRST_SHARE * portfolio.minutes:
        out.append(
            f"No first submission within {FIRST_SHARE:.0%} of the time: no run of one split is over by then "
            f"beside the others, and room for one would cost more than {cost:g} index points; it is "
            f"there by minute {first.first:.1f}."
        )
    return tuple(out)
