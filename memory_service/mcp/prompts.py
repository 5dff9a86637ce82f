"""The MCP prompt that walks an agent from the question to the finished run."""

from __future__ import annotations

from collections.abc import Mapping

import mcp_types as wire
from mcp.shared.exceptions import MCPError

_NAME = "train_within_budget"

PROMPTS = (
    wire.Prompt(
        name=_NAME,
        title="Train within a budget",
        description="Ask, review, launch, check at 60 s, watch, finish: one training on one card that ends "
        "in time with a submission.",
        arguments=[
            wire.PromptArgument(
                name="description", description="What is predicted, from what data.", required=True
            ),
            wire.PromptArgument(name="gpu", description="The card, e.g. a100, t4, cpu.", required=True),
            wire.PromptArgument(
                name="minutes", description="Minutes for everything; 30 if left out.", required=False
            ),
        ],
    ),
)

_STEPS = """\
Train for this task on {gpu} within {minutes} minutes, and end with a submission whatever happens.

Task: {description}

1. Ask. Call recommend_plan(description=<the task above and what you know of the data>, gpu="{gpu}",
   minutes={minutes}); say n_train, n_test and cpu_count if you know them. Take its numbers as they are:
   ONE batch size, not a range (R01). If feasible is false, choose from `closest` and ask again.
2. Write. Call recommend_plan again with form="script", save it as train.py, fill in the one place where
   the data are read. If you write your own script, print GPU memory at the start, after the first batch
   and EVERY epoch (R21), save a checkpoint per fold, and predict with whatever folds exist (R19).
3. Review BEFORE launching (R28). Call review_script(script=<the whole file>, gpu="{gpu}",
   minutes={minutes}). Correct every error and every warning, review again until ok is true.
4. Launch. Call start_run(plan_id=<of the plan>), with what you changed of it, and keep its run_id; start
   the script in the background with MEMORY_MODE=disabled (you tell of this run: its own client would begin
   a second one) and its output in a file; note the time.
5. Check at 60 s (R20). Read the log, call report_progress with what it shows: kind="epoch" if an epoch
   has ended, else kind="gpu" or kind="batch". No GPU reading in the log: stop it, add the prints, launch
   again. The verdict names the action and the settings (`set`): raise_batch or relaunch means stop and
   start again with them NOW; after this it costs too much.
6. Watch (R21). Look every 120-180 s, or when the verdict says (next_check_seconds). Call report_progress
   for each epoch that ended. Obey:
   continue - do nothing; lower_batch - after out of memory, restart with `set`; reduce_folds,
   reduce_epochs - change the settings and go on; stop_and_predict - stop training, run `python train.py
   predict`; add_monitoring - print GPU memory; investigate - read `why`, look into it.
   Never change what the verdict does not ask for. A driver's utilisation of 99 % proves nothing; the
   memory's fill is an alarm, not the aim.
7. Finish. When 70 % of the minutes are used and training goes on, stop and predict (R15); 15 % belong to
   inference and writing (R14). Check that the submission is there and has a row for each test sample.
   Call finish_run(run_id, status, best_metric, submission=true), also after a crash: later plans learn
   from it."""


def render(name: str, raw: Mapping[str, str] | None) -> wire.GetPromptResult:
    """The prompt, filled in. MCPError (invalid params) for an unknown or incomplete one."""
    prompt = next((prompt for prompt in PROMPTS if prompt.name == name), None)
    if prompt is None:
        raise MCPError(wire.INVALID_PARAMS, f"There is no prompt {name[:80]!r}; there is {_NAME}")
    arguments = prompt.arguments or []
    filled = {key: text.strip() for key, text in (raw or {}).items() if text.strip()}
    missing = [each.name for each in arguments if each.required and each.name not in filled]
    unknown = sorted(filled.keys() - {each.name for each in arguments})
    if missing or unknown:
        wrong = [f"{key} is required" for key in missing] + [f"{key} is no argument" for key in unknown]
        known = ", ".join(each.name for each in arguments)
        raise MCPError(wire.INVALID_PARAMS, f"{'; '.join(wrong)}; {name} takes {known}")
    text = _STEPS.format(**{"minutes": "30", **filled})
    message = wire.PromptMessage(role="user", content=wire.TextContent(type="text", text=text))
    return wire.GetPromptResult(description=prompt.description, messages=[message])
