"""Faults that reviewers name in published scripts, each beside the same code without it."""

from __future__ import annotations

import pytest

from memory_service.services.review.review import review_script
from tests.review.test_notebooks import findings, notebook

TORCH = """import torch
from torch import nn
from rows import Rows, build
torch.manual_seed(0)
ACCUM = {count}
net = build().cuda(); opt = torch.optim.AdamW(net.parameters(), lr=1e-3)
loader = torch.utils.data.DataLoader(Rows(), 4, shuffle=True, num_workers=8)
for epoch in range(5):
    net.train(); total = 0.0
    for i, (x, y) in enumerate(loader):
{body}
"""
STEPS = """        loss = net(x.cuda(), y.cuda()){divided}
        loss.backward()
        if (i + 1) % ACCUM == 0:
            opt.step()
            opt.zero_grad()"""


def rules(script: str, *severities: str) -> set[str]:
    found = review_script(None, {"script": script})["findings"]
    return {each["rule"] for each in found if not severities or each["severity"] in severities}


def accumulating(divided: str = " / ACCUM", head: str = "", count: int = 8) -> set[str]:
    return rules(TORCH.format(count=count, body=head + STEPS.format(divided=divided)))


def test_zeroing_in_each_batch_voids_the_accumulation() -> None:
    zeroed = "        opt.zero_grad()\n"
    assert "accumulation-voided" in accumulating(head=zeroed)
    assert "accumulation-voided" not in accumulating(head=zeroed, count=1)
    assert "accumulation-voided" not in accumulating()
    assert "accumulation-voided" not in accumulating(head="        critic.zero_grad()\n")


def test_a_loss_that_is_summed_over_batches_is_divided() -> None:
    assert "accumulation-unscaled" in accumulating(divided="")
    assert "accumulation-unscaled" in accumulating(divided="", head="        total += 1 / len(loader)\n")
    assert "accumulation-unscaled" not in accumulating(divided=" / 8")
    assert "accumulation-unscaled" not in accumulating(divided="", count=1)


@pytest.mark.parametrize(
    ("kept", "expected"),
    [
        ("total += (loss - total) / (i + 1)", True),
        ("total = total * 0.9 + loss * 0.1", True),
        ("total += loss * len(x)", True),
        ("total += loss.item() * len(x)", False),
        ("total = total * 0.9 + loss.item() * 0.1", False),
        ("total = (total + loss).detach()", False),
        ("mean = loss * 2", False),
    ],
)
def test_a_running_mean_of_the_loss_keeps_its_graph(kept: str, expected: bool) -> None:
    step = "        opt.zero_grad(); loss = net(x.cuda(), y.cuda())\n        loss.backward(); opt.step()\n"
    script = TORCH.format(count=1, body=f"{step}        {kept}")
    assert ("loss-keeps-graph" in rules(script)) is expected


FOLDS = """import torch
from sklearn.model_selection import KFold
from rows import Rows, build
torch.manual_seed(0)
{before}
for fold, (a, b) in enumerate(KFold(5).split(rows)):
    {inside}
    loader = torch.utils.data.DataLoader(Rows(a), 64, shuffle=True, num_workers=8)
    for epoch in range(3):
        for x, y in loader:
            opt.zero_grad(); loss = net(x, y); loss.backward(); opt.step()
    torch.save(net.state_dict(), f"fold_{{fold}}.pt")
    {behind}
"""
MADE = "net = build(); opt = torch.optim.AdamW(net.parameters())"


def test_one_model_for_all_folds_has_seen_what_it_is_judged_on() -> None:
    def across(before: str, inside: str, behind: str = "pass") -> bool:
        return "model-across-folds" in rules(FOLDS.format(before=before, inside=inside, behind=behind))

    assert across(MADE, "pass")
    assert not across("pass", MADE)
    assert not across(MADE, "net.load_state_dict(start)")
    assert not across(MADE, "pass", behind="break")


KERAS = """import keras
from sklearn.model_selection import KFold
{}
for fold, (a, b) in enumerate(KFold(5).split(x)):
    {}
    model.fit(x[a], y[a], epochs=3, validation_data=(x[b], y[b]))
    model.save(f"fold_{{fold}}.keras")
"""


def test_a_keras_model_learns_on_from_fold_to_fold() -> None:
    made = "model = keras.Sequential(layers); model.compile('adam', 'mse')"
    assert "model-across-folds" in rules(KERAS.format(made, "pass"))
    assert "model-across-folds" not in rules(KERAS.format("pass", made))


FITTED = """import pandas as pd
from sklearn.preprocessing import StandardScaler
train, test = pd.read_csv("train.csv"), pd.read_csv("test.csv")
scaler = StandardScaler()
a = scaler.fit_transform(train)
b = {}
"""


def test_a_scaler_is_not_fitted_anew_on_the_rows_to_predict() -> None:
    assert "refitted-on-test" in rules(FITTED.format("scaler.fit_transform(test)"), "error")
    assert "refitted-on-test" in rules(FITTED.format("StandardScaler().fit_transform(test)"))
    assert "refitted-on-test" not in rules(FITTED.format("scaler.transform(test)"))
    other = FITTED.replace("test.csv", "stores.csv").format("StandardScaler().fit_transform(test)")
    assert "refitted-on-test" not in rules(other)


@pytest.mark.parametrize(
    ("setting", "epochs"),
    [
        ("if args.debug:\n    args.epochs = 2", 40),
        ("if not args.debug:\n    pass\nelse:\n    args.epochs = 2", 40),
        ("args.debug = True\nif args.debug:\n    args.epochs = 2", 2),
        ("if args.long:\n    args.epochs = 2", 2),
    ],
)
def test_epochs_of_a_trial_are_not_those_of_the_run(setting: str, epochs: int) -> None:
    script = f"""import argparse, torch
p = argparse.ArgumentParser()
p.add_argument("--epochs", type=int, default=40)
p.add_argument("--debug", action="store_true")
args = p.parse_args()
{setting}
for epoch in range(args.epochs):
    for x in loader:
        loss = net(x); loss.backward(); opt.step()
"""
    assert review_script(None, {"script": script})["read"]["epochs"] == epochs


def test_a_choice_by_debug_is_that_of_the_run() -> None:
    script = "import torch\nEPOCHS = 1 if DEBUG else 12\nfor epoch in range(EPOCHS):\n    loss.backward()\n"
    assert review_script(None, {"script": script})["read"]["epochs"] == 12


def test_a_result_that_nobody_keeps_is_named() -> None:
    image = 'from PIL import Image\ndef load(path):\n    img = Image.open(path)\n    {}img.convert("RGB")\n'
    image += "    return img\n"
    assert "result-thrown-away" in rules(image.format(""))
    assert "result-thrown-away" not in rules(image.format("img = "))
    table = 'import pandas as pd\ndf = pd.read_csv("a.csv")\ndf.dropna({})\nprint(df)\n'
    assert "result-thrown-away" in rules(table.format(""))
    assert "result-thrown-away" not in rules(table.format("inplace=True"))
    shown = notebook('import pandas as pd\ndf = pd.read_csv("a.csv")\ndf.dropna()', "print(df)")
    assert "result-thrown-away" not in {each["rule"] for each in findings(shown)}


def test_deterministic_beside_benchmark_contradicts_itself() -> None:
    script = "import torch\ntorch.backends.cudnn.deterministic = True\ntorch.backends.cudnn.benchmark = {}\n"
    assert "wrong-parameter" in rules(script.format(True))
    assert "wrong-parameter" not in rules(script.format(False))


@pytest.mark.parametrize(
    ("model", "loss", "wrong"),
    [
        ("classes=3", 'DiceLoss("binary")', True),
        ("classes=1", 'JaccardLoss(mode="multiclass")', True),
        ('classes=1, activation="sigmoid"', 'DiceLoss("binary")', True),
        ('classes=1, activation="sigmoid"', 'DiceLoss("binary", from_logits=False)', False),
        ("classes=3", 'DiceLoss("multilabel")', False),
    ],
)
def test_a_loss_of_segmentation_models_fits_the_classes_and_the_activation(
    model: str, loss: str, wrong: bool
) -> None:
    script = f'import torch\nimport segmentation_models_pytorch as smp\nnet = smp.Unet("resnet34", {model})\n'
    assert ("wrong-loss" in rules(f"{script}loss = smp.losses.{loss}\n")) is wrong
