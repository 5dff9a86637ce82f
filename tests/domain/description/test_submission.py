"""Is the form of a submission read from what a page tells or shows of it, and from nothing else?"""

from __future__ import annotations

import pytest

from memory_service.domain.description.phrases import readable
from memory_service.domain.description.stated_facts import submission_in

SHOWN = "## Submission\nThe file looks like this:\n```\nfile,angle\nx.png,3.2\ny.png,-1\n```\n## Metric\nRMSE"


@pytest.mark.parametrize(
    ("text", "form"),
    [
        (SHOWN, "file,angle / x.png,3.2"),
        ("Predict it from train.csv. Submit a CSV with columns `file` and `angle`.", "file,angle"),
        ("Your submission has two columns, `id` and `price`, separated by semicolons.", "id;price"),
        ("Submit files with columns 'who' (the customer) and 'churn' (a chance).", "who,churn"),
        ("The submission must contain two columns: (1) image_id and (2) label.", "image_id,label"),
        (
            "The file should have a header and the following format:\n\nID,y\n1,0.1\n2,0.9\netc.",
            "ID,y / 1,0.1",
        ),
        ("### Submission\n| row | crop |\n|---|---|\n| 1 | rye |\n| 2 | oat |", "row,crop / 1,rye"),
        ("<p>Please submit</p><pre>id;label\n1;cat\n2;dog</pre>", "id;label / 1;cat"),
        (
            "Submissions: each line: the identifier, a tab, the class; no header.",
            "no header / identifier\tclass",
        ),
        ("Upload a file:\n\nimg_01.png,0.3\nimg_02.png,0.4", "no header / img_01.png,0.3"),
        ("Submit one label per line, as test.txt has them, no header.", "no header / answer"),
        ("Submit a single column `yield`, in the order of the test rows.", "yield"),
        (
            "### Submission\nThree codes separated by spaces:\n```\nid,lands\na1,DE CH AT\n```",
            "id,lands / a1,DE CH AT",
        ),
        (
            "**What we want from you.** A file with a line for each row:\n\n    id_num,p\n    17-3,0.07",
            "id_num,p / 17-3,0.07",
        ),
    ],
)
def test_names_marks_and_an_answer_are_read(text: str, form: str) -> None:
    assert submission_in(readable(text))["submission"][0] == form


@pytest.mark.parametrize(
    "text",
    [
        "Submissions are judged by RMSE. Columns: id, rooms, area.",
        "You may submit 5 times a day. train.csv has columns id, a, b.",
        "Submissions have eeg_id and one column for each kind. The submission has id and the columns A, B.",
        "## Submission\nAs below:\nid,wren,..\n0a,0.1,..\n",
        "## Submission\nA file of 32 numbers a line, no header:\n0.01 0.00 0.93 …\n0.20 0.10 0.00 …\n",
    ],
)
def test_columns_of_data_and_parts_of_a_form_are_no_form(text: str) -> None:
    assert not submission_in(readable(text))
