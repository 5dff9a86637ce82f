"""An agent without any library that reads Markdown alone: a plan, which names its script; it runs that,
reports its log, reads the verdict. `python agent.py "description" DATA_DIR [gpu] [minutes]`, with
MEMORY_SERVER set; in place of gpu a file of offers (docs/choose.md), of which /choose takes one."""

import json
import os
import subprocess
import sys
from pathlib import Path
from urllib.request import Request, urlopen

SERVER = os.environ.get("MEMORY_SERVER", "http://127.0.0.1:8000")


def ask(path, body=None, accept="application/json", media="application/json"):
    """POST (GET without a body), and the answer as text."""
    data = body.encode() if isinstance(body, str) else body and json.dumps(body).encode()
    request = Request(SERVER + path, data, {"Accept": accept, "Content-Type": media})
    if "MEMORY_API_KEY" in os.environ:
        request.add_header("Authorization", "Bearer " + os.environ["MEMORY_API_KEY"])
    with urlopen(request, timeout=120) as answer:
        return answer.read().decode()


def main(description, data_dir, gpu="cpu", minutes=10.0):
    question = {"description": description, "minutes": float(minutes)}
    question |= {} if gpu.endswith(".json") else {"gpu": gpu}
    if gpu.endswith(".json"):
        choice = json.loads(ask("/choose", question | {"offers": json.loads(Path(gpu).read_text())}))
        taken = next(row for row in choice["offers"] if row["name"] == choice["recommended"])
        print(f"order {taken['name']} for {taken['time_limit_minutes']:g} minutes")
        question |= taken["ask"]
    plan = ask("/recommend", question, accept="text/markdown")
    print(plan)  # a model would read this; its first words are the plan's id, its last what to do next
    plan_id = plan.split("**")[1]
    script = Path("train.py")
    script.write_text(ask(plan.partition("script GET ")[2].partition(";")[0], accept="text/x-python"))

    run_id = json.loads(ask("/runs", {"plan_id": plan_id}))["run_id"]
    told = {
        "DATA_DIR": data_dir,
        "OUT_DIR": ".",
        "MINUTES": str(question["minutes"]),
        "MEMORY_MODE": "disabled",
    }
    training = subprocess.Popen(
        [sys.executable, str(script)], env=os.environ | told, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip
    for line in training.stdout:  # MEMORY_MODE: this agent reports the log, the script nothing by itself
        ask(f"/runs/{run_id}/log", line, media="text/plain")
    status = "completed" if training.wait() == 0 else "crashed"
    print(f"{status}; verdict: {ask(f'/runs/{run_id}/verdict', accept='text/markdown')}")
    ask(f"/runs/{run_id}/finish", {"status": status, "submission": Path("submission.csv").exists()})
    return status


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]) != "completed")
