"""Right code that looks like a fault: no error without a witness in the code."""

from __future__ import annotations

import pytest

from memory_service.services.database.transactions import Database
from memory_service.services.review.review import review_script


def errors(script: str, **beside: object) -> set[str]:
    found = review_script(None, {"script": script, **beside})["findings"]
    return {each["rule"] for each in found if each["severity"] == "error"}


SIZED = """import timm, torch
from clips import Clips
net = timm.create_model("tf_efficientnet_b6.ns_jft_in1k", in_chans=1).cuda()
opt = torch.optim.AdamW(net.parameters(), lr=1e-3)
loader = torch.utils.data.DataLoader(Clips({}), 256, shuffle=True, num_workers=8)
for epoch in range(4):
    for x, y in loader:
        opt.zero_grad(); loss = net(x.cuda()).mean(); loss.backward(); opt.step()
"""


def test_no_error_rests_on_a_size_that_nobody_tells(seeded_sqlite: Database) -> None:
    untold = review_script(seeded_sqlite, {"script": SIZED.format(""), "gpu": "t4"})
    assert "batch-does-not-fit" not in {each["rule"] for each in untold["findings"]}
    assert "batch-does-not-fit: the input is not told: 528 or another?" in untold["not_checked"]
    told = review_script(seeded_sqlite, {"script": SIZED.format(""), "gpu": "t4", "image_size": 528})
    assert "batch-does-not-fit" in {each["rule"] for each in told["findings"]}


BRANCHES = """import torch
from torch import nn
from losses import SoftF1
class Net(nn.Module):
    def __init__(self, kind):
        super().__init__()
        self.kind, self.body = kind, nn.Linear(4, 3)
        self.criterion = nn.CrossEntropyLoss()
        {}
    def forward(self, x, y):
        return self.criterion(self.body(x).softmax(-1), y)
"""


def test_a_criterion_of_one_branch_is_not_judged_by_the_head_of_another() -> None:
    assert "wrong-loss" in errors(BRANCHES.format("pass"))
    assert "wrong-loss" not in errors(BRANCHES.format("if kind == 'soft': self.criterion = SoftF1()"))


OUTPUT = """import torch
from torch import nn
net = nn.Linear(4, 3)
out = net(x)
if {}:
    out = out.softmax(1)
loss = nn.functional.cross_entropy(out, y)
"""


def test_an_output_that_one_branch_squashes_is_unknown() -> None:
    assert "wrong-loss" not in errors(OUTPUT.format("cfg.soft"))
    assert "wrong-loss" in errors(OUTPUT.replace("if {}:\n    ", ""))


def test_a_class_of_another_module_is_not_the_library_s() -> None:
    def warned(made_by: str) -> bool:
        script = f"import torch\n{made_by}\nrate = OneCycleLR(opt, 1e-3, warmup=3)\n"
        found = review_script(None, {"script": script})["findings"]
        return any(each["rule"] == "wrong-parameter" for each in found)

    assert warned("from torch.optim.lr_scheduler import OneCycleLR")
    assert not warned("from house.schedules import OneCycleLR")
    assert not warned("class OneCycleLR: ...")


SIDE = """import pandas as pd, lightgbm as lgb
from sklearn.model_selection import StratifiedKFold
def codes(df):
    return pd.get_dummies(df)
people = pd.read_csv("train.csv")
loans = codes(pd.read_csv("loans.csv")).groupby("person").mean()
cards = codes(pd.read_csv("cards.csv")).groupby("person").mean()
{}
for a, b in StratifiedKFold(5, shuffle=True, random_state=1).split(table, people["y"]):
    lgb.LGBMClassifier().fit(table.iloc[a], people["y"].iloc[a], eval_set=[])
"""


def test_tables_that_are_summed_up_and_joined_are_no_groups_of_rows() -> None:
    joined = 'table = people.drop(columns="y").join(loans, on="person").join(cards, on="person")'
    assert not errors(SIDE.format(joined)) & {"labels-reencoded", "groups-across-folds"}
    own = 'counts = people.groupby("person").size()\ntable = people.drop(columns="y")'
    assert "groups-across-folds" in errors(SIDE.format(own))


def test_columns_of_one_type_may_leave_the_target_out() -> None:
    script = """import numpy as np, pandas as pd
from sklearn.ensemble import {0}
from sklearn.model_selection import train_test_split
table = pd.read_csv("train.csv")
y = table["won"]{1}
names = [n for n in table.columns if table[n].dtype in [np.int64]]
{0}().fit(table[names], y)
"""
    assert "target-in-features" not in errors(script.format("RandomForestClassifier", ' == "Yes"'))
    assert "target-in-features" in errors(script.format("RandomForestRegressor", ""))


def test_answers_given_as_groups_are_no_groups() -> None:
    script = """import pandas as pd
from sklearn.model_selection import StratifiedKFold
rows = pd.read_csv("rows.csv")
X, y = rows.drop(columns=["kind"]), rows["kind"]
for a, b in StratifiedKFold(5).split(X, y, groups={}):
    pass
"""
    assert "groups-across-folds" not in errors(script.format("y"))
    assert "groups-across-folds" in errors(script.format("rows.patient"))


def test_a_meter_of_the_peak_reads_where_it_begins_too() -> None:
    script = """import torch
class Meter:
    def __enter__(self):
        self.start = torch.cuda.memory_allocated()
    def __exit__(self, *_):
        self.most = torch.cuda.{}()
with Meter():
    for x, y in loader:
        opt.zero_grad(); net(x.cuda(), y).backward(); opt.step()
"""

    def found(read: str) -> set[str]:
        answer = review_script(None, {"script": script.format(read)})
        return {each["rule"] for each in answer["findings"]}

    assert "memory-read-between-steps" not in found("max_memory_allocated")
    assert "memory-read-between-steps" in found("memory_allocated")


@pytest.mark.parametrize(
    "script",
    [
        (
            "import pandas as pd\ntrain = pd.get_dummies(pd.read_csv('train.csv'))\n"
            "test = pd.get_dummies(pd.read_csv('test.csv'))\ntest = test[train.columns]"
        ),
        "import numpy as np\nmask = np.zeros(4, dtype=np.bool)",
        (
            "from sklearn.ensemble import RandomForestClassifier\n"
            "from sklearn.metrics import accuracy_score\n"
            "m = RandomForestClassifier()\nm.fit(x_train, y_train)\nprint(m.score(x_train, y_train))\n"
            "print(accuracy_score(y_test, m.predict(x_test)))"
        ),
        "from sklearn.mixture import GaussianMixture\nm = GaussianMixture(3)\nm.fit(x)\nprint(m.score(x))",
    ],
)
def test_aligned_columns_and_judged_rows_are_no_fault(script: str) -> None:
    said = {finding["rule"] for finding in review_script(None, {"script": script})["findings"]}
    assert not said & {"labels-reencoded", "wrong-parameter", "judged-on-training-rows"}


TABLES = """import numpy as np, pandas as pd
from sklearn.linear_model import LogisticRegression
train, test = pd.read_csv("train.csv"), pd.read_csv("test.csv")
y = train["won"]
{}
LogisticRegression().fit(X, y)
"""


@pytest.mark.parametrize(
    "shared",
    [
        "train.columns.intersection(test.columns)",
        "[c for c in train.columns if c in test.columns]",
        "[c for c in train if c in test]",
        "list(set(train) & set(test))",
        "np.intersect1d(train.columns, test.columns)",
    ],
)
def test_columns_that_both_tables_have_are_aligned_and_hold_no_target(shared: str) -> None:
    assert not errors(TABLES.format(f"X = train[{shared}]"))
    made = f"train = pd.get_dummies(train)\ntest = pd.get_dummies(test)\nX = train[{shared}]\ntest[{shared}]"
    assert not errors(TABLES.format(made))
    alone = made.replace(
        f"X = train[{shared}]\ntest[{shared}]", "for c in train.columns: print(c)\nX = train[['a']]"
    )
    assert "labels-reencoded" in errors(TABLES.format(alone))


def test_files_of_one_folder_that_a_function_divides() -> None:
    script = """from torchvision.datasets import ImageFolder
train_set = ImageFolder("images"{})
valid_set = ImageFolder("images"{})
"""

    def said(*kept: str) -> set[str]:
        answer = review_script(None, {"script": script.format(*kept)})
        return {each["rule"] for each in answer["findings"]}

    assert "judged-on-training-rows" in said("", "")
    assert "judged-on-training-rows" not in said(*(f", is_valid_file={name}" for name in ("seen", "held")))


ATTACKED = """import torch
from torch import nn
from rows import Rows, build
torch.manual_seed(1)
net = build().cuda(); opt = torch.optim.AdamW(net.parameters(), lr=1e-3)
loader = torch.utils.data.DataLoader(Rows(), 256, shuffle=True, num_workers=8)
for epoch in range(3):
    for x, y in loader:
        x, y = x.cuda(), y.cuda()
        delta = torch.zeros_like(x, requires_grad=True)
        for k in range(7):
            loss = nn.functional.cross_entropy(net(x + delta), y)
            {zeroed}loss.backward(){stepped}
            delta.data = delta + delta.grad.sign()
            delta.grad.zero_()
        {after}
"""


@pytest.mark.parametrize(
    "parts",
    [
        ("opt.zero_grad(); ", "; opt.step()", "pass"),
        ("", "", "opt.zero_grad(); net(x + delta.detach()).mean().backward(); opt.step()"),
    ],
)
def test_steps_of_an_attack_are_neither_batches_nor_epochs(parts: tuple[str, str, str]) -> None:
    script = ATTACKED.format(**dict(zip(("zeroed", "stepped", "after"), parts, strict=True)))
    answer = review_script(None, {"script": script})
    assert answer["read"]["epochs"] == 3
    late = [each["line"] for each in answer["findings"] if each["rule"] == "no-deadline"]
    assert late == [7]
    assert "gradients-not-zeroed" not in errors(script)


def test_an_attack_in_a_function_trains_nothing() -> None:
    script = """import torch
def attack(net, x, y):
    net.eval()
    delta = {}
    for step in range(20):
        net(x + delta, y).backward()
        delta.data += 0.01 * delta.grad.sign()
        delta.grad.zero_()
    return x + delta.detach()
for x, y in test_loader:
    attack(net, x.cuda(), y.cuda())
"""
    assert not review_script(None, {"script": script.format("torch.zeros_like(x)")})["read"]["trains"]
    learned = script.format("0").replace("delta.data += 0.01 * delta.grad.sign()", "opt.step()")
    assert review_script(None, {"script": learned})["read"]["trains"]


FACTORS = """import numpy as np, torch
from rows import Rows, build
torch.manual_seed(1)
net = build().cuda(); opt = torch.optim.AdamW(net.parameters(), lr=1e-3)
loader = torch.utils.data.DataLoader(Rows(), 256, shuffle=True, num_workers=8)
drawn, total, kept = [], 0.0, 1.0
for epoch in range(3):
    for i, (x, y) in enumerate(loader):
        share = np.random.beta(0.4, 0.4); ramp = min(1.0, i / 100); weight = kept * 0.5
        first, second = net(x.cuda(), y.cuda())
        other = second.mean()
        opt.zero_grad(); (share * first + ramp * other + weight * other).backward(); opt.step()
        {}
"""


@pytest.mark.parametrize(
    "factor", ["drawn.append(share)", "total += ramp", "kept = kept * 0.9 + 0.1 * weight"]
)
def test_a_factor_of_the_loss_has_no_graph(factor: str) -> None:
    def said(kept: str) -> set[str]:
        found = review_script(None, {"script": FACTORS.format(kept)})["findings"]
        return {each["rule"] for each in found}

    assert "loss-keeps-graph" not in said(factor)
    assert "loss-keeps-graph" in said("total += other")


@pytest.mark.parametrize(
    "chosen",
    [
        'names = ["area", "price"]\nnames.remove("price")\nX = df[names]',
        'names = {"area", "price"}\nnames.discard("price")\nX = df[list(names)]',
        'names = ["area", "price"]\nnames.pop()\nX = df[names]',
        'parts = {"x": df}\nparts.update({"x": df.drop(columns=["price"])})\nX = parts["x"]',
        'import numpy as np\nX = df[np.setdiff1d(df.columns, ["price"])]',
    ],
)
def test_what_is_left_of_a_list_that_shrinks_is_unknown(chosen: str) -> None:
    script = """import pandas as pd
from sklearn.linear_model import Ridge
from sklearn.model_selection import train_test_split
df = pd.read_csv("a.csv")
{}
a, b, ya, yb = train_test_split(X, df["price"], random_state=0)
print(Ridge().fit(a, ya).score(b, yb))
"""
    assert "target-in-features" not in errors(script.format(chosen))
    assert "target-in-features" in errors(script.format('X = df[["area", "price"]]'))


PARTS = """from torch.utils.data import random_split
from rows import rows, plain
train, valid, test = random_split(rows, [800, 100, 100])
train.dataset.transform = plain
"""
MEMORY = """import torch
class Watch:
    def __init__(self):
        self.total_mem = {}
    def free(self):
        return self.total_mem
"""
TUNER = """import lightning as L
from study import make, net, rows
def tune(trial):
    return L.Trainer(max_epochs=3).fit(net, rows)
tune(None)
study = {}
study.tune(net)
"""
ADAPTED = """from peft import LoraConfig, get_peft_model
from trl import SFTTrainer
from rows import rows, model
model = get_peft_model(model, LoraConfig())
more = None if rows else LoraConfig()
SFTTrainer(model=model, train_dataset=rows, peft_config={}).train()
"""
SEARCHED = """from rows import rates, net
found = 0
for rate, share in zip(*rates):
    {}
print(found / 2)
"""
STEPS = """import torch
from rows import Rows, build
net = build().cuda(); opt = torch.optim.AdamW(net.parameters(), lr=1e-3)
loader = torch.utils.data.DataLoader(Rows(), 256, shuffle=True, num_workers=8)
steps = 0
for x, y in loader:
    opt.zero_grad(); net(x.cuda()).mean().backward(); opt.step()
    steps += 1
    {}
    break
torch.save(net.state_dict(), "net.pt")
"""
COPIED = """import numpy as np, pandas as pd
from rows import read_rows, rows
whole = pd.read_csv("train.csv")
kept = {}
kept["a"][kept["b"] > 2] = 0
"""


@pytest.mark.parametrize(
    ("script", "right", "wrong", "rule"),
    [
        (MEMORY, "torch.cuda.mem_get_info()[1]", "torch.cuda.get_device_properties(0).total_mem", ""),
        (TUNER, "make()", "L.Trainer(max_epochs=3)", ""),
        (ADAPTED, "None", "LoraConfig()", ""),
        (ADAPTED, "more", "LoraConfig()", ""),
        (PARTS + "{}", "test.dataset.transform = valid.dataset.transform = plain", "", ""),
        (
            SEARCHED,
            "if rate > 9: found = share.item(); break",
            "found = share.item()",
            "result-thrown-away",
        ),
        (SEARCHED, "if rate > 0.9: found = share.item()", "found = share.item()", "result-thrown-away"),
        (STEPS, "if steps < 1000: continue", "steps += 1", "result-thrown-away"),
        (COPIED, "rows.copy()", "whole.copy()", "result-thrown-away"),
        (COPIED, "np.concat(rows)", "pd.concat(rows)", "result-thrown-away"),
        (COPIED, "read_rows()", "whole[whole.c > 0].copy()", "result-thrown-away"),
    ],
)
def test_right_code_beside_its_wrong_form(script: str, right: str, wrong: str, rule: str) -> None:
    def said(form: str) -> set[str]:
        return {each["rule"] for each in review_script(None, {"script": script.format(form)})["findings"]}

    rule = rule or "wrong-parameter"
    assert rule not in said(right)
    assert rule in said(wrong)


READ = """import numpy as np, pandas as pd
from sklearn.linear_model import Ridge
from sklearn.model_selection import KFold, train_test_split
from sklearn.preprocessing import StandardScaler
df = pd.read_csv("rows.csv")
cols = ["a", "b"]
{}
"""
TAKEN = """y = df["y"]
{}
X, Xv, y, yv = train_test_split(df, y); print(Ridge().fit(X, y).score(Xv, yv))"""
APART = "print(Ridge().fit(a[cols], a.y).score(b[cols], b.y))"
PEOPLE = "print(df.person.value_counts())\n{}\n" + APART
SERIES = """df["gap"] = df.groupby("person").day.shift(1)
{}
X, Xv, y, yv = train_test_split(rows[["gap"]], rows["y"]); print(Ridge().fit(X, y).score(Xv, yv))"""
BY_NAMES = """one, two = train_test_split(df.person{})
a, b = df[df.person.isin(one)], df[df.person.isin(two)]"""
ORDER = "at = {}\na, b = df.iloc[at[:800]], df.iloc[at[800:]]"


@pytest.mark.parametrize(
    ("script", "right", "wrong", "rule"),
    [
        (TAKEN, 'del df["y"]', "df = df.copy()", "target-in-features"),
        (
            TAKEN,
            'df["x"] = y * 2; del df["x"], df["y"]',
            'df["x"] = y * 2; del df["y"]',
            "target-in-features",
        ),
        (PEOPLE, BY_NAMES.format(".unique()"), "a, b = train_test_split(df)", "groups-across-folds"),
        (
            SERIES,
            'rows = df.groupby("person").agg({"gap": "mean", "y": "max"})',
            "rows = df",
            "shuffled-time-series",
        ),
    ],
)
def test_rows_and_columns_that_are_gone_or_one_each(script: str, right: str, wrong: str, rule: str) -> None:
    assert rule not in errors(READ.format(script.format(right)))
    assert rule in errors(READ.format(script.format(wrong)))


@pytest.mark.parametrize(
    "parts",
    [
        "a = df.sample(frac=0.8, random_state=1); b = df.drop(a.index)",
        ORDER.format("np.random.permutation(len(df))"),
        ORDER.format("np.arange(len(df)); np.random.shuffle(at)"),
        'kept = pd.read_csv("kept.csv").id\na, b = df[~df.id.isin(kept)], df[df.id.isin(kept)]',
        "try: a, b = train_test_split(df, stratify=df.y)\nexcept ValueError: a, b = train_test_split(df)",
    ],
)
def test_rows_are_divided_by_positions_and_names(parts: str) -> None:
    scaled = "df[cols] = StandardScaler().fit_transform(df[cols])"
    assert "fit-before-split" in errors(READ.format(f"{scaled}\n{parts}\n{APART}"))
    assert "fit-before-split" not in errors(READ.format(f"{parts}\nb = b[b.y > 0]\n{APART}"))


@pytest.mark.parametrize(
    ("made", "rule"),
    [
        (
            "X = df[cols]; stats = df.describe(); X = (X - stats.loc['mean']) / stats.loc['std']",
            "fit-before-split",
        ),
        (
            "scaler = None; scaler = scaler or StandardScaler(); X = scaler.fit_transform(df[cols])",
            "fit-before-split",
        ),
        (
            "X = pd.DataFrame(); X['a'] = df.a; X['b'] = df.b; X = StandardScaler().fit_transform(X)",
            "fit-before-split",
        ),
        ("df[['p', 'q']] = df[['y', 'y']]; X = df.drop(columns='y')", "target-in-features"),
        (
            "try: from x import rows\nexcept ImportError: df['p'] = df.y * 2\nX = df.drop(columns='y')",
            "target-in-features",
        ),
    ],
)
def test_what_is_made_before_the_split_is_followed(made: str, rule: str) -> None:
    split = "X, Xv, y, yv = train_test_split(X, df.y); print(Ridge().fit(X, y).score(Xv, yv))"
    assert errors(READ.format(f"{made}\n{split}")) == {rule}
    assert not errors(READ.format(f"X = df[cols]\n{split}"))


LEARNING = """import torch
from rows import net, dataset, loader
opt = torch.optim.SGD(net.parameters(), lr=1e-3); total = 0.0
def judge(out):
    return out.{}()
for epoch in range(3):
    for x in {}:
        opt.zero_grad(); loss = judge(net(x)); loss.backward(); opt.step()
        total += loss.item()
print(total / len({}))
{}
"""


@pytest.mark.parametrize(
    ("right", "wrong", "said"),
    [
        (("sum", "loader", "loader.dataset", ""), ("mean", "loader", "loader.dataset", ""), "is a mean"),
        (("mean", "dataset", "dataset", ""), ("mean", "loader", "loader.dataset", ""), "is a mean"),
        (
            ("mean", "loader", "loader", "torch.save(net, 'net.pt')"),
            ("mean", "loader", "loader", ""),
            "saves the network",
        ),
    ],
)
def test_sums_single_rows_and_plots_are_no_faults(
    right: tuple[str, ...], wrong: tuple[str, ...], said: str
) -> None:
    def told(form: tuple[str, ...]) -> bool:
        script = LEARNING.format(*form).replace("return", "yield" if "network" in said else "return")
        found = review_script(None, {"script": script})["findings"]
        return any(said in each["message"] for each in found)

    assert (told(right), told(wrong)) == (False, True)
