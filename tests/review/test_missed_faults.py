"""Faults that reviewers name in published scripts, each beside the same code without it."""

from __future__ import annotations

from typing import Any

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
    assert "model-across-folds" in rules(KERAS.format(made, "model.compile('adam', 'mse')"))
    assert "model-across-folds" not in rules(KERAS.format(made, "model.set_weights(start)"))


@pytest.mark.parametrize("last", ["out", "keras.layers.Dense(9, activation='softmax')(given)"])
@pytest.mark.parametrize(("logits", "wrong"), [(True, True), (False, False)])
def test_a_functional_model_that_is_compiled_twice_has_a_last_layer(
    last: str, logits: bool, wrong: bool
) -> None:
    compiled = f"net.compile('adam', keras.losses.SparseCategoricalCrossentropy(from_logits={logits}))\n"
    script = f"""import keras
given = keras.Input((4,))
out = keras.layers.Dense(9, activation="softmax")(given)
net = keras.Model(given, {last})
{2 * (compiled + "net.fit(x, y, epochs=3)" + chr(10))}"""
    assert ("wrong-loss" in rules(script)) == wrong


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


def messages(script: str) -> str:
    return " ".join(each["message"] for each in review_script(None, {"script": script})["findings"])


HELD_OUT = """import keras, numpy as np
from sklearn.model_selection import StratifiedShuffleSplit
rows, answers = np.load("rows.npy"), np.load("answers.npy")
learn, judge = next(StratifiedShuffleSplit(1, random_state=0).split(rows, answers))
x_learn, x_judge = rows[learn], rows[judge]
a_learn, a_judge = answers[learn], answers[judge]
net = keras.Sequential([keras.layers.Dense(9, activation="softmax")])
net.compile("adam", "sparse_categorical_crossentropy")
net.fit({}, epochs=3, validation_data=(x_judge, a_judge))
"""


def test_rows_that_are_judged_are_none_of_those_that_were_fitted() -> None:
    assert "judged-on-training-rows" in rules(HELD_OUT.format("rows, answers"))
    assert "judged-on-training-rows" not in rules(HELD_OUT.format("x_learn, a_learn"))
    shortened = HELD_OUT.replace("net = ", "rows, answers = x_learn, a_learn\nnet = ", 1)
    assert "judged-on-training-rows" not in rules(shortened.format("rows, answers"))


ALONE = """import pandas as pd
from sklearn.ensemble import RandomForestRegressor
rows = pd.read_csv("rents.csv")
forest = RandomForestRegressor(random_state=0)
forest.fit(rows[["area"]], rows["rent"])
print({})
"""


def test_a_score_of_the_rows_that_were_fitted_is_no_score() -> None:
    own = 'forest.score(rows[["area"]], rows["rent"])'
    assert "judged-on-training-rows" in rules(ALONE.format(own))
    assert "judged-on-training-rows" not in rules(ALONE.format(f"{own}, forest.score(others, rents)"))
    folders = "from torchvision.datasets import ImageFolder\nlearn = ImageFolder('birds')\n"
    assert "judged-on-training-rows" in rules(f"{folders}valid = ImageFolder('birds')")
    assert "judged-on-training-rows" not in rules(f"{folders}valid = ImageFolder('birds_valid')")


@pytest.mark.parametrize(
    ("bad", "good", "said"),
    [
        ("        opt = torch.optim.SGD(net.parameters(), lr=0.1)\n", "", "made anew for every batch"),
        (
            "        total += (2 * loss + loss)\n",
            "        total += 2 * loss.item()\n",
            "keeps its graph|kept as",
        ),
    ],
)
def test_what_a_batch_makes_or_keeps(bad: str, good: str, said: str) -> None:
    step = (
        "        opt.zero_grad(); loss = net(x.cuda(), y.cuda())\n        (2 * loss).backward(); opt.step()"
    )
    found = [messages(TORCH.format(count=1, body=head + step)) for head in (bad, good)]
    assert [any(part in one for part in said.split("|")) for one in found] == [True, False]


HUB = """from datasets import load_dataset
from transformers import AutoModelForSequenceClassification, AutoTokenizer, Trainer, TrainingArguments
words = AutoTokenizer.from_pretrained("roberta-base")
def ids(rows):
    return words(rows["review"]{cut})
rows = load_dataset("reviews").map(ids, batched=True)
net = AutoModelForSequenceClassification.from_pretrained("roberta-base")
how = TrainingArguments("out", num_train_epochs=2{judged})
Trainer(net, how, train_dataset=rows["train"], eval_dataset=rows["dev"]).train()
"""


def test_the_trainer_judges_what_it_is_given_and_texts_are_cut() -> None:
    bad = messages(HUB.format(cut="", judged=""))
    good = messages(HUB.format(cut=", truncation=True", judged=", eval_strategy='epoch'"))
    for said in ("it is never used", "not truncated"):
        assert said in bad
        assert said not in good


def test_a_pretrained_encoder_does_not_learn_at_the_usual_rate() -> None:
    script = """import torch
from transformers import AutoModel
net = AutoModel.from_pretrained("bert-base-uncased")
opt = torch.optim.AdamW(net.parameters(){})
"""
    assert "too much for a pretrained transformer" in messages(script.format(""))
    assert "too much for a pretrained transformer" not in messages(script.format(", lr=2e-5"))


def test_generators_and_patience_of_keras() -> None:
    script = """import keras
from keras.preprocessing.image import ImageDataGenerator
pictures = ImageDataGenerator(featurewise_center=True)
{}
net = keras.Sequential(layers); net.compile("adam", "mse")
net.fit(pictures.flow(x, y), epochs=30, callbacks=[keras.callbacks.EarlyStopping(patience={})])
"""
    bad, good = (messages(script.format(*two)) for two in (("pass", 40), ("pictures.fit(x)", 4)))
    for said in ("calls fit() on the generator", "it never stops"):
        assert said in bad
        assert said not in good


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ("import numpy as np\nx = y.astype(np.int)", "np.int is gone"),
        (
            "import pandas as pd\na = pd.read_csv('a.csv')\nb = a.append(pd.read_csv('b.csv'))",
            "append is gone",
        ),
        ("import tensorflow as tf\ntf.set_random_seed(1)", "tensorflow.set_random_seed is gone"),
        (
            "from fastai.vision import *\nd = ImageDataBunch.from_folder(p)",
            "ImageDataBunch.from_folder is gone",
        ),
        ("from trl import SFTTrainer\nt = SFTTrainer(m, max_seq_length=512)", "takes no max_seq_length"),
    ],
)
def test_names_that_libraries_took_away(script: str, said: str) -> None:
    assert said in messages(script)


DUMMIES = """import pandas as pd, xgboost as xgb
rows = pd.get_dummies(pd.read_csv("train.csv").drop(columns=["Id"]))
trees = xgb.XGBRegressor(n_estimators=90)
trees.fit(rows.drop(columns=["rent"]), rows["rent"])
later = pd.get_dummies(pd.read_csv("test.csv").drop(columns=["Id"])){}
print(trees.predict(later))
"""


def test_indicator_columns_of_a_test_table_are_those_of_training() -> None:
    assert "labels-reencoded" in rules(DUMMIES.format(""))
    assert "labels-reencoded" not in rules(DUMMIES.format(".reindex(columns=rows.columns, fill_value=0)"))


def test_a_loop_beside_which_nothing_is_held_out_says_so() -> None:
    step = "        opt.zero_grad(); net(x.cuda(), y.cuda()).backward(); opt.step()"
    script = TORCH.format(count=1, body=step).replace("range(5)", "range(40)")
    assert "no rows are held out" in messages(script)
    assert "no rows are held out" not in messages(f"{script}    judge(net, valid_loader)")
    assert "not-on-gpu" not in rules(script)
    assert "not-on-gpu" in rules(script.replace(".cuda()", ""))


SPLIT = """{}
y = table["kind"]
X_train, X_test, y_train, y_test = train_test_split({}, y, stratify=y)
LogisticRegression().fit(X_train, y_train)
"""


def test_a_snippet_without_imports_is_read_by_the_names_of_the_libraries() -> None:
    fitted = SPLIT.format('words = TfidfVectorizer().fit_transform(table["text"])', "words")
    assert "fit-before-split" in rules(fitted, "error")
    inside = SPLIT.format("", 'table["text"]') + "TfidfVectorizer().fit_transform(X_train)\n"
    assert "fit-before-split" not in rules(inside)


def test_gaps_are_filled_by_what_training_rows_say() -> None:
    head = """import pandas as pd
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
table = pd.read_csv("rows.csv")
"""
    whole = SPLIT.format(head + 'table["age"] = table["age"].fillna(table["age"].mean())', 'table[["age"]]')
    assert "fit-before-split" in rules(whole, "error")
    after = SPLIT.format(head, 'table[["age"]]') + 'X_test["age"].fillna(X_train["age"].mean())\n'
    assert "fit-before-split" not in rules(after)
    assert "fit-before-split" not in rules(whole.replace('table["age"].mean()', "0"))


def test_a_branch_that_is_switched_off_switches_no_mode() -> None:
    script = """import torch
from nets import build
TRAIN = {}
net = build().cuda()
if TRAIN:
    for x, y in loader:
        net.train(); opt.zero_grad(); net(x, y).backward(); opt.step()
    net.eval()
net.load_state_dict(torch.load("net.pt"))
with torch.no_grad():
    for x in test_loader:
        net(x.cuda())
"""
    assert "eval-mode-missing" in rules(script.format(False), "error")
    assert "eval-mode-missing" not in rules(script.format(True))


def test_what_keras_and_xgboost_refuse_or_read_otherwise() -> None:
    rows = """from tensorflow.keras.preprocessing.image import ImageDataGenerator
ImageDataGenerator({}).flow_from_directory("pictures", subset="validation")
"""
    assert "wrong-parameter" in rules(rows.format("rescale=0.1"))
    assert "wrong-parameter" not in rules(rows.format("rescale=0.1, validation_split=0.2"))
    trees = """import xgboost as xgb
def score(preds, data):
    return "{}", rate(data.get_label(), preds)
xgb.cv({{"eta": 0.1}}, data, 500, early_stopping_rounds=50, feval=score{})
"""
    assert "wrong-parameter" in rules(trees.format("r2", ""))
    assert "wrong-parameter" not in rules(trees.format("rmse", ""))
    assert "wrong-parameter" not in rules(trees.format("r2", ", maximize=True"))


def test_chance_in_the_pictures_that_are_judged() -> None:
    script = """from torchvision import transforms
{} = transforms.Compose([transforms.RandomHorizontalFlip(), transforms.ToTensor()])
"""
    assert "wrong-parameter" in rules(script.format("test_transforms"))
    assert "wrong-parameter" not in rules(script.format("train_transforms"))


def test_a_threshold_is_put_to_probabilities() -> None:
    script = """import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import f1_score
model = LogisticRegression().fit(X_train, y_train)
found = model.{}
for t in np.arange(0.1, 0.6, 0.01):
    print(t, f1_score(y_valid, found > t))
"""
    assert "wrong-loss" in rules(script.format("predict(X_valid)"), "error")
    assert "wrong-loss" not in rules(script.format("predict_proba(X_valid)[:, 1]"))


def test_a_submission_is_no_score_of_other_rows() -> None:
    script = """from sklearn.ensemble import RandomForestRegressor
model = RandomForestRegressor(random_state=1)
model.fit(X, y)
model.score(X, y)
rows = model.predict(X_test)
{}
"""
    assert "judged-on-training-rows" in rules(script.format('table(rows).to_csv("submission.csv")'))
    assert "judged-on-training-rows" not in rules(
        script.format("table(rows).to_csv('a.csv'); print(r2_score(y_test, rows))")
    )


NETWORK = """import torch
from torch import nn
from transformers import AutoModel
{more}
net = nn.Sequential(nn.Linear(9, 9), nn.ReLU(), nn.Linear(9, {units}))
opt = torch.optim.{optimizer}(net.parameters(), lr={rate}); judge = nn.CrossEntropyLoss()
for x, y in loader:
    opt.zero_grad(); loss = judge(net(x){laid_out}, y); loss.backward(); opt.step()
"""
DENSE = """import keras
from keras.layers import Dense
net = keras.Sequential([Dense(9, activation="relu"), Dense({units}, activation="{last}")])
net.compile("adam", loss="{loss}"); net.fit(x, y, epochs=5, validation_split=0.2)
"""


@pytest.mark.parametrize(
    ("changed", "rule"),
    [
        ({}, ""),
        ({"units": 1}, "wrong-loss"),
        ({"units": 1, "laid_out": ".view(-1, 4)"}, ""),
        ({"rate": 0.5}, "wrong-parameter"),
        ({"rate": 0.01}, ""),
        ({"rate": 0.01, "more": 'body = AutoModel.from_pretrained("bert-base-uncased")'}, "wrong-parameter"),
        ({"rate": 0.5, "optimizer": "SGD"}, ""),
    ],
)
def test_a_network_that_cannot_learn(changed: dict[str, Any], rule: str) -> None:
    usual = {"units": 3, "rate": 1e-3, "optimizer": "AdamW", "more": "", "laid_out": ""}
    assert rules(NETWORK.format_map(usual | changed)) & {"wrong-loss", "wrong-parameter"} == {rule} - {""}


@pytest.mark.parametrize(
    ("units", "last", "loss", "wrong"),
    [
        (1, "sigmoid", "binary_crossentropy", False),
        (1, "softmax", "binary_crossentropy", True),
        (5, "softmax", "binary_crossentropy", True),
        (5, "sigmoid", "binary_crossentropy", False),
        (5, "softmax", "sparse_categorical_crossentropy", False),
    ],
)
def test_softmax_has_several_units_that_exclude_each_other(
    units: int, last: str, loss: str, wrong: bool
) -> None:
    assert ("wrong-loss" in rules(DENSE.format(units=units, last=last, loss=loss))) is wrong


TORCH_MEAN = """import torch
from rows import loader, net, judge
opt = torch.optim.AdamW(net.parameters(), lr=1e-3); total = 0.0
for x, y in loader:
    opt.zero_grad(); loss = judge(net(x), y); loss.backward(); opt.step()
    total += loss.item(){}
print(total / {})
{}
"""
LIGHTGBM = """import lightgbm as lgb
from rows import rows, valid
lgb.train({{"objective": "binary", "metric": "{}", {}}}, rows, 300, valid_sets=[valid])
"""
KERAS_ROWS = """import keras
from keras.callbacks import EarlyStopping
from keras.layers import LSTM, Dense
from sklearn.model_selection import train_test_split
from rows import X, y
X_train, X_test, y_train, y_test = train_test_split(X, y)
net = keras.Sequential()
net.add(LSTM(64{})); net.add(Dense(32{})); net.add(Dense(3, activation="softmax"))
net.compile("adam", loss="sparse_categorical_crossentropy", metrics=["accuracy"])
net.fit(X_train, y_train, validation_split=0.2, epochs=50, callbacks=[EarlyStopping(patience=3{})])
{}
"""
HUB_ROWS = """from datasets import load_dataset
from transformers import AutoModelForSequenceClassification, Trainer, TrainingArguments
rows = load_dataset("reviews")
net = AutoModelForSequenceClassification.from_pretrained("distilbert-base-uncased")
trainer = Trainer(net, TrainingArguments("out", num_train_epochs=1), train_dataset=rows["train"]{})
trainer.train()
{}
"""
ON_CPU = """import torch
from rows import net, loader
device = '{}'; net = net.to(device); opt = torch.optim.SGD(net.parameters(), lr=1e-3)
for x, y in loader:
    opt.zero_grad(); net(x).backward(); opt.step()
"""
SAVED, MAX, BEST = "torch.save(net.state_dict(), 'n')", ', activation="relu"', ", restore_best_weights=True"
JUDGED = "net.evaluate(X_test, y_test)"


@pytest.mark.parametrize(
    ("script", "right", "wrong", "said"),
    [
        (
            TORCH_MEAN,
            (" * x.size(0)", "len(loader.dataset)", SAVED),
            ("", "len(loader.dataset)", SAVED),
            "is a mean",
        ),
        (TORCH_MEAN, ("", "len(loader)", SAVED), (" / x.size(0)", "len(loader)", SAVED), "is a mean"),
        (TORCH_MEAN, ("", "len(loader)", SAVED), ("", "len(loader)", ""), "saves the network"),
        (LIGHTGBM, ("auc", ""), ("roc_auc", ""), "knows no metric"),
        (
            LIGHTGBM,
            ("auc", '"subsample": 0.5, "subsample_freq": 1'),
            ("auc", '"subsample": 0.5'),
            "leaves out no rows",
        ),
        (KERAS_ROWS, ("", MAX, BEST, JUDGED), (MAX, MAX, BEST, JUDGED), "leaves cuDNN"),
        (KERAS_ROWS, ("", MAX, BEST, JUDGED), ("", "", BEST, JUDGED), "the next linear one"),
        (KERAS_ROWS, ("", MAX, BEST, JUDGED), ("", MAX, "", JUDGED), "not of the best"),
        (KERAS_ROWS, ("", MAX, BEST, JUDGED), ("", MAX, BEST, ""), "Nothing looks at X_test, y_test"),
        (HUB_ROWS, (', eval_dataset=rows["test"]', "trainer.evaluate()"), ("", ""), "No rows are held out"),
        (
            HUB_ROWS,
            (', eval_dataset=rows["test"], compute_metrics=score', "trainer.evaluate()"),
            (', eval_dataset=rows["test"]', "trainer.evaluate()"),
            "The loss is all that is judged",
        ),
        ("import math\nsnr = {} * math.log{}(2)", (10, "10"), (10, ""), "Decibels"),
        (ON_CPU, ("cuda",), ("cpu",), "moves the network"),
    ],
)
def test_wrong_code_of_public_texts_and_the_right_form(
    script: str, right: tuple[Any, ...], wrong: tuple[Any, ...], said: str
) -> None:
    def told(form: tuple[Any, ...]) -> bool:
        found = review_script(None, {"script": script.format(*form)})["findings"]
        return any(said in each["message"] for each in found)

    assert (told(right), told(wrong)) == (False, True)
