"""Are notebooks read cell by cell, as Jupyter runs them, and do findings name the cell?"""

from __future__ import annotations

import json
from typing import Any

import pytest

from memory_service.review.findings import sarif
from memory_service.review.source.project import notebook_of, without_outputs
from memory_service.services.review.review import review_script

AMP = "from torch.cuda.amp import autocast"


def notebook(*cells: str | dict[str, Any], **metadata: Any) -> str:
    """Code cells of texts; others as they are given."""
    made = [
        cell if isinstance(cell, dict)
        else {"cell_type": "code", "source": cell.splitlines(keepends=True), "outputs": [],
              "execution_count": None}
        for cell in cells
    ]  # fmt: skip
    return json.dumps({"cells": made, "metadata": metadata, "nbformat": 4, "nbformat_minor": 5})


def findings(text: str | bytes) -> list[dict[str, Any]]:
    return list(review_script(None, {"script": text})["findings"])


def text_cell(text: str) -> dict[str, Any]:
    return {"cell_type": "markdown", "source": [text]}


def test_a_finding_names_the_cell_among_all_and_the_line_in_it() -> None:
    (found,) = findings(notebook(text_cell("# title"), "import torch", f"\n{AMP}\n"))
    assert (found["rule"], found["cell"], found["line"], found["end_line"]) == ("deprecated-amp", 3, 2, 2)


def test_lines_that_a_message_names_are_those_of_cells() -> None:
    (found,) = (
        one for one in findings(notebook(
            "import pandas as pd\nfrom sklearn.preprocessing import StandardScaler\n"
            "from sklearn.model_selection import train_test_split\ntable = pd.read_csv('train.csv')",
            text_cell("scaling"),
            "x = StandardScaler().fit_transform(table)",
            "\na, b = train_test_split(x, random_state=1)",
        )) if one["rule"] == "fit-before-split"
    )  # fmt: skip
    assert (found["cell"], found["line"]) == (3, 1)
    assert "line 2 of cell 4" in found["message"]


@pytest.mark.parametrize(
    "cell",
    [
        " import torch\n from torch.cuda.amp import autocast",
        f"%%time\n{AMP}",
        f"!pip install timm \\\n  torch\n%matplotlib inline\n{AMP}",
        f"%load_ext autoreload\nfiles = !ls\n?print\n{AMP}",
        f"%time x = 1\n{AMP}",
        f"%%writefile train.py\n{AMP}",
    ],
)
def test_a_cell_is_read_as_jupyter_runs_it(cell: str) -> None:
    assert [one["rule"] for one in findings(notebook("import torch", cell))] == ["deprecated-amp"]


@pytest.mark.parametrize("head", ["%%bash", "%%html", "%%writefile config.yaml", "%%R"])
def test_cells_of_another_language_are_left_out(head: str) -> None:
    assert findings(notebook("import torch", f"{head}\nfor f in *.py; do echo $f; done", "x = 1")) == []


def test_a_broken_cell_does_not_stop_the_others() -> None:
    found = findings(notebook("import torch", "for x in (1, 2:\n    print(x)", AMP))
    assert [(one["rule"], one["severity"], one["cell"], one["line"]) for one in found] == [
        ("syntax-error", "error", 2, 1), ("deprecated-amp", "warning", 3, 1),
    ]  # fmt: skip


def test_a_broken_cell_of_a_notebook_that_has_run_is_a_warning() -> None:
    ran = {"cell_type": "code", "source": "import torch", "execution_count": 1, "outputs": []}
    (found,) = findings(notebook(ran, "for x in (1, 2:"))
    assert (found["rule"], found["severity"]) == ("syntax-error", "warning")


def test_a_notebook_of_another_language_is_named_and_not_judged() -> None:
    answer = review_script(None, {"script": notebook("x <- 1", language_info={"name": "R"})})
    assert answer["findings"] == []
    assert answer["not_checked"] == ["every rule: the notebook is of r"]


def test_sheets_of_the_third_format_are_read() -> None:
    cells = [{"cell_type": "code", "input": ["import torch\n", AMP], "prompt_number": 1}]
    old = json.dumps({"worksheets": [{"cells": cells}], "metadata": {}, "nbformat": 3})
    assert [(one["cell"], one["line"]) for one in findings(old)] == [(1, 2)]


def test_json_that_is_cut_off_is_said() -> None:
    (found,) = findings(notebook("import torch")[:-20])
    assert found["rule"] == "syntax-error"
    assert "JSON is broken" in found["message"]


def test_outputs_of_any_length_are_passed_over_and_can_be_taken_off() -> None:
    long = {"cell_type": "code", "source": AMP, "outputs": [{"text": "x" * 2_000_000}], "execution_count": 1}
    raw = notebook("import torch", long).encode()
    short = without_outputs(raw)
    assert len(short) < 1_000
    assert findings(raw) == findings(short)
    assert without_outputs(b"import torch\n") == b"import torch\n"


@pytest.mark.parametrize("text", ["", "{}", "x = {'cells': 1}", '{"cells": 3, "cell_type": 1}', "[1]"])
def test_what_is_no_notebook_or_has_no_cells_is_no_crash(text: str) -> None:
    read = notebook_of(text)
    assert read is None or not read.text


def test_sarif_names_the_cell() -> None:
    report = sarif(findings(notebook("import torch", AMP)), "a.ipynb", "1")
    (result,) = report["runs"][0]["results"]
    assert result["locations"][0]["logicalLocations"] == [{"name": "cell 2", "kind": "module"}]


def test_outputs_say_how_the_notebook_ran() -> None:
    printed = [
        {"output_type": "stream", "text": ["Epoch 1: loss=0.9 val_acc=0.71 time=30s GPU=7.3GB\n"]},
        {"output_type": "stream", "text": "Epoch 2: loss=0.5 val_acc=0.78 time=34s GPU=7.1GB\n"},
        {"output_type": "display_data", "data": {"image/png": "iVBO"}}, "hostile", {"data": [], "text": 3},
    ]  # fmt: skip
    cell = {"cell_type": "code", "source": "import torch", "outputs": printed, "execution_count": 1}
    read = review_script(None, {"script": notebook(cell)})["read"]
    assert read["run"] == {
        "epochs": 2, "epoch_seconds": 32.0, "peak_memory_gib": 7.3, "metric": 0.78, "metric_name": "val_acc",
    }  # fmt: skip
    assert "run" not in review_script(None, {"script": notebook("import torch")})["read"]
