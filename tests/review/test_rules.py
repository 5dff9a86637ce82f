"""Does each rule find its one fault in a script that is fine otherwise, and nothing in the fine one?

A case is a script without a finding and one replacement in it: the good and the bad example of a rule.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from memory_service.review.findings import RULES
from memory_service.review.tables import KINDS
from memory_service.services.database.transactions import Database
from memory_service.services.review.review import review_script
from tests.review.variants import rules_of

NETWORK = """
import time
from pathlib import Path

import albumentations as A
import cv2
import numpy as np
import pandas as pd
import timm
import torch
from albumentations.pytorch import ToTensorV2
from sklearn.model_selection import StratifiedGroupKFold
from torch import nn
from torch.utils.data import DataLoader, Dataset

STARTED, MINUTES = time.monotonic(), 30
BATCH_SIZE, EPOCHS, FOLDS, PATIENCE = 256, 12, 3, 3
OUT = Path("out")
torch.manual_seed(42)
tfm = A.Compose([A.Resize(224, 224), A.HorizontalFlip(p=0.5), A.Normalize(), ToTensorV2()])


class Photos(Dataset):
    def __init__(self, df):
        self.df = df

    def __len__(self):
        return len(self.df)

    def __getitem__(self, i):
        row = self.df.iloc[i]
        image = cv2.imread(row.path)
        return tfm(image=image)["image"], row.label


def loader(df, train):
    return DataLoader(
        Photos(df), BATCH_SIZE, shuffle=train, num_workers=8, pin_memory=True, persistent_workers=True
    )


def build():
    return timm.create_model("resnet50", pretrained=True, num_classes=5).cuda()


def validate(model, valid):
    model.eval()
    right = n = 0
    with torch.no_grad():
        for images, labels in valid:
            with torch.amp.autocast("cuda", dtype=torch.bfloat16):
                outputs = model(images.cuda())
            right += (outputs.argmax(1).cpu() == labels).sum().item()
            n += len(labels)
    return right / n


def train_fold(fold, train_df, valid_df):
    model = build()
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-4)
    criterion = nn.CrossEntropyLoss()
    train, valid = loader(train_df, True), loader(valid_df, False)
    best, bad = 0.0, 0
    for epoch in range(EPOCHS):
        model.train()
        for step, (images, labels) in enumerate(train):
            with torch.amp.autocast("cuda", dtype=torch.bfloat16):
                loss = criterion(model(images.cuda()), labels.cuda())
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            if epoch == 0 and step == 0:
                print(f"first batch: {torch.cuda.max_memory_allocated() / 2**30:.1f}GB", flush=True)
        score = validate(model, valid)
        print(f"Epoch {epoch}: GPU={torch.cuda.max_memory_allocated() / 2**30:.1f}GB", flush=True)
        if score > best:
            best, bad = score, 0
            torch.save(model.state_dict(), OUT / f"fold_{fold}.pt")
        else:
            bad += 1
            if bad >= PATIENCE:
                break
        if time.monotonic() - STARTED > MINUTES * 60 * 0.8:
            break


def predict(test):
    answers = []
    for path in sorted(OUT.glob("fold_*.pt")):
        model = build()
        model.load_state_dict(torch.load(path))
        model.eval()
        with torch.inference_mode():
            answers.append(np.concatenate([model(x.cuda()).softmax(1).cpu().numpy() for x, _ in test]))
    return np.mean(answers, axis=0)


df = pd.read_csv("train.csv")
groups = df["patient_id"]
for fold, (tr, va) in enumerate(StratifiedGroupKFold(FOLDS).split(df, df["label"], groups)):
    train_fold(fold, df.iloc[tr], df.iloc[va])
np.save("answers.npy", predict(loader(pd.read_csv("test.csv"), False)))
"""

TABLE = """
import lightgbm as lgb
import numpy as np
import pandas as pd
from sklearn.model_selection import KFold
from sklearn.preprocessing import LabelEncoder, StandardScaler

train, test = pd.read_csv("train.csv"), pd.read_csv("test.csv")
encoder = LabelEncoder().fit(train["city"])
train["city"] = encoder.transform(train["city"])
test["city"] = encoder.transform(test["city"])
y = train["price"]
X = train.drop(columns=["id", "price"])
kfold = KFold(5, shuffle=True, random_state=42)
answers = []
for fold, (tr, va) in enumerate(kfold.split(X, y)):
    scaler = StandardScaler().fit(X.iloc[tr])
    means = y.iloc[tr].groupby(X.iloc[tr]["city"]).mean()
    x_tr, x_va = scaler.transform(X.iloc[tr]), scaler.transform(X.iloc[va])
    params = {"objective": "regression", "metric": "rmse", "learning_rate": 0.05, "seed": 42}
    model = lgb.train(
        params, lgb.Dataset(x_tr, y.iloc[tr]), num_boost_round=3000,
        valid_sets=[lgb.Dataset(x_va, y.iloc[va])], callbacks=[lgb.early_stopping(100)],
    )
    model.save_model(f"fold_{fold}.txt")
    answers.append(model.predict(scaler.transform(test[X.columns])))
np.save("answers.npy", np.mean(answers, axis=0))
"""

PLAIN = """
import pandas as pd
from sklearn.linear_model import Ridge
from sklearn.model_selection import train_test_split

rows = pd.read_csv("rows.csv")
X, y = rows.drop(columns=["price"]), rows["price"]
X_train, X_valid, y_train, y_valid = train_test_split(X, y, random_state=0)
model = Ridge()
model.fit(X_train, y_train)
print(model.score(X_valid, y_valid))
"""
ON_CPU = """
import time
import torch
from rows import batches, build

torch.manual_seed(0)
# a small network, and the CPU is enough
END = time.monotonic() + 1500
net = build()
optimizer = torch.optim.AdamW(net.parameters(), lr=1e-3)
for epoch in range(4):
    for x, y in batches():
        optimizer.zero_grad()
        net(x, y).backward()
        optimizer.step()
    if time.monotonic() > END:
        break
torch.save(net.state_dict(), "net.pt")
"""


@dataclass(frozen=True)
class Case:
    rule: str
    script: str
    good: str
    bad: str
    asked: tuple[tuple[str, Any], ...] = ()


def network(rule: str, good: str, bad: str, **asked: Any) -> Case:
    return Case(rule, NETWORK, good, bad, tuple(asked.items()))


def table(rule: str, good: str, bad: str, **asked: Any) -> Case:
    return Case(rule, TABLE, good, bad, tuple(asked.items()))


AMP = 'torch.amp.autocast("cuda", dtype=torch.bfloat16)'
FIRST_BATCH = """if epoch == 0 and step == 0:
                print(f"first batch: {torch.cuda.max_memory_allocated() / 2**30:.1f}GB", flush=True)"""
STOP = """            if bad >= PATIENCE:
                break
"""
CLOCK = """        if time.monotonic() - STARTED > MINUTES * 60 * 0.8:
            break
"""
GLOB = 'for path in sorted(OUT.glob("fold_*.pt")):'
RANGE = """for fold in range(FOLDS):
        path = OUT / f"fold_{fold}.pt\""""
FEATURES = 'X = train.drop(columns=["id", "price"])'
SCALED = FEATURES + "\nX[:] = StandardScaler().fit_transform(X)"
MEANS = 'X["city_price"] = train.groupby("city")["price"].transform("mean")\nkfold = KFold('

LEARNS = "            loss.backward()\n            optimizer.step()\n"

STEP, ZERO = "            optimizer.step()\n", "            optimizer.zero_grad()\n"
STEPS, OFTEN = STEP + ZERO, f"            if step % 4 == 3:\n    {STEP}"
FOLD = "def train_fold(fold, train_df, valid_df):\n"
MADE = "    model = build()\n    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-4)\n"

CASES = (
    network("syntax-error", "torch.manual_seed(42)", "torch.manual_seed(42"),
    network("undefined-name", "torch.manual_seed(42)", "torch.manual_seed(SEED)"),
    network("batch-does-not-fit", "PATIENCE = 256", "PATIENCE = 4096", gpu="a100"),
    network("batch-too-small", "PATIENCE = 256", "PATIENCE = 16"),
    network("batch-too-small", "PATIENCE = 256", "PATIENCE = 8", gpu="a100"),
    network(
        "cannot-end-in-budget", "= 256, 12, 3, 3", "= 256, 400, 3, 3", gpu="a100", minutes=30, n_train=60_000
    ),
    network("loader-workers", "num_workers=8", "num_workers=1"),
    network("loader-workers", "num_workers=8", "num_workers=4", cpu_count=16),
    network("loader-pin-memory", "pin_memory=True", "pin_memory=False"),
    network("loader-persistent-workers", ", persistent_workers=True", ""),
    network("no-mixed-precision", AMP, 'torch.amp.autocast("cuda", enabled=False)'),
    network("no-mixed-precision", AMP, 'torch.amp.autocast("cuda", dtype=torch.float16)'),
    network("deprecated-amp", AMP, "torch.cuda.amp.autocast(dtype=torch.bfloat16)"),
    network("memory-read-between-steps", "max_memory_allocated", "memory_allocated"),
    network("no-memory-at-first-batch", FIRST_BATCH, "pass"),
    network("no-memory-every-epoch", "GPU={torch.cuda.max_memory_allocated() / 2**30:.1f}GB", "{score:.3f}"),
    network("no-early-stopping", STOP, ""),
    network("no-deadline", CLOCK, ""),
    network("no-fold-checkpoint", 'OUT / f"fold_{fold}.pt"', 'OUT / "best.pt"'),
    network("prediction-needs-all-folds", GLOB, RANGE),
    table("fit-before-split", FEATURES, SCALED),
    table("target-statistics-before-split", "kfold = KFold(", MEANS),
    table("target-in-features", '"id", "price"', '"id"'),
    table("shuffled-time-series", "kfold = KFold(", 'X["last"] = X["sold"].shift(1)\nkfold = KFold('),
    network("groups-across-folds", "StratifiedGroupKFold", "StratifiedKFold"),
    table(
        "labels-reencoded", 'encoder.transform(test["city"])', 'LabelEncoder().fit_transform(test["city"])'
    ),
    network("timm-trap", ", num_classes=5).cuda()", ").cuda()"),
    network("albumentations-trap", "tfm(image=image)", "tfm(image)"),
    network("wrong-parameter", "lr=5e-4", "learning_rate=5e-4"),
    table("wrong-parameter", "KFold(5, shuffle=True, random_state=42)", "KFold(5, random_state=42)"),
    Case("judged-on-training-rows", PLAIN, "fit(X_train, y_train)", "fit(X, y)"),
    Case("not-on-gpu", ON_CPU, "and the CPU is enough", "of three layers"),
    network("eval-mode-missing", "    model.eval()\n    right", "    right"),
    network("no-grad-missing", "with torch.no_grad():", "if True:"),
    network("gradients-not-zeroed", "            optimizer.zero_grad()\n", ""),
    network("accumulation-voided", STEPS, STEPS.replace(STEP, OFTEN)),
    network("accumulation-unscaled", STEPS, STEPS.replace(STEP, OFTEN).replace(ZERO, f"    {ZERO}")),
    network("model-across-folds", f"{FOLD}{MADE}", f"{dedent(MADE)}\n\n{FOLD}"),
    table("refitted-on-test", "scaler.transform(test", "StandardScaler().fit_transform(test"),
    table("result-thrown-away", 'y = train["price"]', 'train.drop_duplicates()\ny = train["price"]'),
    network("train-not-shuffled", "shuffle=train, ", ""),
    network("loss-keeps-graph", LEARNS, LEARNS + "            model.losses.append(loss)\n"),
    network("no-seed", "torch.manual_seed(42)\n", ""),
    network(
        "wrong-loss",
        "loss = criterion(model(images.cuda())",
        "loss = criterion(model(images.cuda()).softmax(1)",
    ),
    table("wrong-loss", '"metric": "rmse"', '"metric": "auc"'),
)


@pytest.mark.parametrize("script", [NETWORK, TABLE], ids=["network", "table"])
def test_a_fine_script_has_no_finding(seeded_sqlite: Database, script: str) -> None:
    answer = review_script(seeded_sqlite, {"script": script, "gpu": "a100", "minutes": 60, "n_train": 20_000})
    assert answer["findings"] == []
    assert answer["ok"]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.rule)
def test_a_rule_finds_its_fault_and_nothing_else(seeded_sqlite: Database, case: Case) -> None:
    asked = dict(case.asked)
    assert case.good in case.script
    assert rules_of(case.script, seeded_sqlite, **asked) == set()
    assert rules_of(case.script.replace(case.good, case.bad), seeded_sqlite, **asked) == {case.rule}


@pytest.mark.parametrize(("gpu", "kind"), [("t4", "float16"), ("a100", "bfloat16")])
def test_half_precision_is_advised_as_the_card_has_it(seeded_sqlite: Database, gpu: str, kind: str) -> None:
    script = NETWORK.replace(AMP, 'torch.amp.autocast("cuda", enabled=False)')
    found = review_script(seeded_sqlite, {"script": script, "gpu": gpu})["findings"]
    (fix,) = (one["fix"] for one in found if one["rule"] == "no-mixed-precision")
    assert f"torch.{kind})" in fix
    assert ("GradScaler" in fix) == (gpu == "t4")


def test_every_rule_has_a_case() -> None:
    assert {case.rule for case in CASES} == set(RULES)


def test_a_finding_says_where_and_what_to_paste(seeded_sqlite: Database) -> None:
    script = NETWORK.replace("num_workers=8", "num_workers=1")
    (found,) = review_script(seeded_sqlite, {"script": script, "cpu_count": 12})["findings"]
    line = script.splitlines()[found["line"] - 1]
    assert "DataLoader(" in line
    assert "num_workers=1" in found["message"]
    assert found["fix"].startswith("num_workers=8")
    assert (found["severity"], found["source"]) == ("warning", "R08")


def test_what_is_not_known_is_said_and_not_guessed(seeded_sqlite: Database) -> None:
    unknown_card = review_script(seeded_sqlite, {"script": NETWORK, "gpu": "abacus", "minutes": 30})
    assert any("abacus" in line for line in unknown_card["not_checked"])
    unknown_model = NETWORK.replace('"resnet50"', "best_name()")
    answer = review_script(seeded_sqlite, {"script": unknown_model, "gpu": "a100", "minutes": 30})
    assert any(line.startswith("batch-does-not-fit: the model") for line in answer["not_checked"])
    assert any("no card" in line for line in review_script(None, {"script": NETWORK})["not_checked"])


def test_a_reason_beside_a_small_batch_counts(seeded_sqlite: Database) -> None:
    small = NETWORK.replace("PATIENCE = 256", "PATIENCE = 16")
    reasoned = small.replace("= 16, 12, 3, 3", "= 16, 12, 3, 3  # four jobs share this card")
    assert rules_of(small, seeded_sqlite) == {"batch-too-small"}
    assert rules_of(reasoned, seeded_sqlite) == set()


BY_STEPS = """
import torch
from torchvision.models import resnet50
from torch.utils.data import DataLoader
net = resnet50().cuda()
batches = iter(DataLoader(rows, 16, shuffle=True, num_workers=8, pin_memory=True, persistent_workers=True))
for step in range(40_000):
    x, y = next(batches)
    torch.nn.functional.cross_entropy(net(x.cuda()), y.cuda()).backward()
"""
BY_HAND = """
import pandas as pd, torch
table = torch.tensor(pd.read_csv("rows.csv").to_numpy()).cuda()
net = torch.nn.Sequential(torch.nn.Linear(9, 64), torch.nn.ReLU(), torch.nn.Linear(64, 1)).cuda()
def parts(rows, size):
    for start in range(0, len(rows), size):
        yield rows[start:start + size]
for epoch in range(30):
    for part in parts(table, 64):
        net(part[:, 1:]).sub(part[:, :1]).square().mean().backward()
"""


def test_a_loader_made_for_one_pass_need_not_keep_its_workers() -> None:
    one_pass = BY_STEPS.replace(
        "iter(DataLoader(rows, 16, shuffle=True", "rows_of(1)\nfor x in DataLoader(rows, 64"
    )
    one_pass = one_pass.replace(", persistent_workers=True))", "):\n    print(x)")
    assert "DataLoader(rows, 64, num_workers=8, pin_memory=True)" in one_pass
    assert "loader-persistent-workers" not in rules_of(one_pass)


def test_training_by_steps_and_batches_cut_by_hand_are_training_too(seeded_sqlite: Database) -> None:
    by_steps = rules_of(BY_STEPS, seeded_sqlite)
    assert by_steps >= {
        "no-early-stopping",
        "no-deadline",
        "no-mixed-precision",
        "no-seed",
        "batch-too-small",
    }
    assert "batch-too-small" in rules_of(BY_HAND, seeded_sqlite, n_train=500_000)
    large = BY_HAND.replace("parts(table, 64)", "parts(table, 8192)")
    assert "batch-too-small" not in rules_of(large, seeded_sqlite, n_train=500_000)


def test_every_message_of_a_rule_is_said_somewhere() -> None:
    """A case that no rule names any more would stay in `rules.toml` for ever."""
    package = Path(__file__).parents[2] / "memory_service"
    folders = ("review", "services/review")
    code = "".join(path.read_text("utf-8") for name in folders for path in (package / name).rglob("*.py"))
    code += " ".join(f'"{case.partition("_")[0]}"' for case in KINDS)
    for rule in RULES.values():
        assert not rule.says or f'"{rule.id}"' in code, rule.id
        assert [case for case in rule.says if case != "it" and f'"{case}"' not in code] == [], rule.id


def test_the_page_lists_every_rule_as_it_is() -> None:
    docs = Path(__file__).parents[2] / "docs"
    page = (docs / "review.md").read_text(encoding="utf-8")
    listed = re.findall(r"^\| `([a-z-]+)` \| (error|warning|note) \|.*\| (\w+) \|$", page, re.MULTILINE)
    assert listed == [(rule.id, rule.severity, rule.source) for rule in RULES.values()]
    methods = (docs / "methods" / "review.md").read_text(encoding="utf-8")
    assert re.findall(r"^\| `([a-z-]+)` \| (?:error|warning|note) \|", methods, re.MULTILINE) == list(RULES)
    examples = re.findall(r"^\| `([a-z-]+)` \| [^|]+ \| [^|]+ \|$", methods, re.MULTILINE)
    assert examples[-len(RULES) :] == list(RULES)
