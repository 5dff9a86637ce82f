"""What 24 public scripts and notebooks showed: faults that were missed, and figures told as tensors."""

import pytest

from memory_service.services.review.review import review_script

TABLES = "import pandas as pd\ntrain, test = pd.read_csv('train.csv'), pd.read_csv('test.csv')\n"
LOOP = """import torch
from rows import Rows, build
net = build().cuda(); opt = torch.optim.AdamW(net.parameters(), lr=1e-3)
loader = torch.utils.data.DataLoader(Rows(), 256, shuffle=True, num_workers=8)
shares = []; seen = 0.0
for epoch in range(3):
    for x, y in loader:
        opt.zero_grad()
        share = {}
        (share * net(x.cuda()).mean() + 1).backward()
        opt.step()
        shares.append(share); seen += share{}
torch.save(net.state_dict(), "net.pt")
"""
KERAS = """from tensorflow.keras.preprocessing.image import ImageDataGenerator
from net import net
rows = ImageDataGenerator(validation_split=0.2, {})
train = rows.flow_from_directory("images", subset="training")
valid = rows.flow_from_directory("images", subset="validation")
net.fit(train, validation_data=valid)
"""
ANSWERS = """from tensorflow.keras.preprocessing.image import ImageDataGenerator
from net import net
rows = ImageDataGenerator(rescale=1 / 255)
print(net.predict(rows.flow_from_directory("images"{})))
"""
ONE_UNIT = """from tensorflow.keras import Sequential, layers
from tensorflow.keras.preprocessing.image import ImageDataGenerator
rows = ImageDataGenerator(rescale=1 / 255).flow_from_directory("images"{})
net = Sequential([layers.Flatten(), layers.Dense(1, activation="sigmoid")])
net.compile("adam", loss="binary_crossentropy")
net.fit(rows)
"""
PADDED = """from transformers import AutoTokenizer, Trainer
from net import net, rows
tokenizer = AutoTokenizer.from_pretrained("gpt2")
def tokens(batch):
    read = tokenizer(batch["text"]{})
    read["labels"] = read["input_ids"].copy()
    return read
Trainer(net, train_dataset=rows.map(tokens)).train()
"""
HELD_OUT = """from sklearn.model_selection import train_test_split
from rows import x, y, net
x_train, x_test, y_train, y_test = train_test_split(x, y)
x_test = x_test / 255
net.fit(x_train, y_train)
{}
"""
DUMMIES = (
    TABLES
    + """train = pd.get_dummies(train){0}
test = pd.get_dummies(test){0}
"""
)
SPLIT = """import copy
from torch.utils.data import random_split
from rows import rows, plain
train, valid = random_split(rows, [900, 100])
{}valid.dataset.transform = plain
"""
SUMMED = """def judge(net, loader):
    total = 0.0
    for x, y in loader:
        total {}= (net(x) - y).mean().item()
    return total / len(loader)
"""
SEARCH = """from sklearn.ensemble import RandomForestClassifier
from sklearn.model_selection import GridSearchCV
GridSearchCV(RandomForestClassifier(), {{"max_features": ["{}", "log2"]}}).fit(x, y)
"""
TUNED = """from peft import LoraConfig, get_peft_model
from trl import SFTTrainer
from rows import rows, model
{}
SFTTrainer(model=model, train_dataset=rows, peft_config=LoraConfig()).train()
"""
SHORT = """import {}
from trl import SFTTrainer
from rows import rows, model
SFTTrainer(model=model, train_dataset=rows, max_seq_length=512).train()
"""
STOPS = """from tensorflow.keras.callbacks import EarlyStopping
from net import model, x, y
stop = EarlyStopping(patience=3)
model.fit(x, y, epochs=9, callbacks=[{}])
"""
ENCODED = """import pandas as pd
from sklearn.preprocessing import LabelEncoder
places = pd.read_csv("places.csv")
train = pd.merge(pd.read_csv("train.csv"), places)
test = pd.merge(pd.read_csv("test.csv"), places)
coder = LabelEncoder()
train["a"] = coder.fit_transform(train["a"])
test["a"] = coder.{}(test["a"])
"""


def rules(script: str) -> set[str]:
    return {each["rule"] for each in review_script(None, {"script": script})["findings"]}


@pytest.mark.parametrize(
    ("rule", "wrong", "right"),
    [
        ("result-thrown-away", "train[train.a > 1]['b'] = 0", "train.loc[train.a > 1, 'b'] = 0"),
        ("result-thrown-away", "train['a'].fillna(0, inplace=True)", "train.fillna({'a': 0}, inplace=True)"),
    ],
)
def test_a_copy_is_changed(rule: str, wrong: str, right: str) -> None:
    assert rule in rules(TABLES + wrong)
    assert rule not in rules(TABLES + right)


@pytest.mark.parametrize(
    ("rule", "script", "wrong", "right"),
    [
        ("wrong-parameter", KERAS, "zoom_range=0.2", "rescale=1 / 255"),
        ("wrong-parameter", SPLIT, "", "valid.dataset = copy.copy(rows)\n"),
        ("result-thrown-away", SUMMED, "", "+"),
        ("wrong-parameter", SEARCH, "auto", "sqrt"),
        ("wrong-parameter", TUNED, "model = get_peft_model(model, LoraConfig())", ""),
        ("result-thrown-away", STOPS, "", "stop"),
        ("labels-reencoded", ENCODED, "fit_transform", "transform"),
        ("undefined-name", TABLES + "valid = {}.sample(9)", "tests", "test"),
        ("undefined-name", TABLES + "{}", "print(tests)", "try: print(tests)\nexcept NameError: pass"),
        ("wrong-parameter", ANSWERS, "", ", shuffle=False"),
        ("wrong-loss", ONE_UNIT, "", ", class_mode='binary'"),
        ("wrong-loss", PADDED, ", padding='max_length'", ""),
        ("result-thrown-away", HELD_OUT, "", "net.score(x_test, y_test)"),
        ("labels-reencoded", DUMMIES, "", "[['a', 'b', 'c']]"),
        ("wrong-parameter", SHORT, "trl", "unsloth, trl"),
        ("wrong-parameter", "import torch\ntorch.cuda.get_device_properties(0).{}", "total_mem", "name"),
    ],
)
def test_a_fault_and_its_mended_form(rule: str, script: str, wrong: str, right: str) -> None:
    assert rule in rules(script.format(wrong))
    assert rule not in rules(script.format(right))


@pytest.mark.parametrize("share", ["len(x) / 64", "x.shape[0] / 64", "y.float().mean().item() + 1"])
def test_a_figure_of_a_batch_has_no_graph(share: str) -> None:
    assert "loss-keeps-graph" not in rules(LOOP.format(share, ""))
    assert "loss-keeps-graph" in rules(LOOP.format("net(x.cuda()).mean()", ""))


def test_a_loop_that_ends_after_its_first_batch() -> None:
    assert "result-thrown-away" in rules(LOOP.format("1.0", "\n        break"))
    assert "result-thrown-away" not in rules(LOOP.format("1.0", "\n        if DEBUG: break"))


def test_pixels_learn_at_a_rate_of_their_own() -> None:
    script = "import torch\nx = torch.zeros(3, requires_grad=True)\ntorch.optim.Adam({}, lr=0.1)"
    assert "wrong-parameter" not in rules(script.format("[x]"))
    assert "wrong-parameter" in rules(script.format("net.parameters()"))


def test_a_precision_that_only_a_setting_knows_is_not_told() -> None:
    script = "import lightning as L\nfrom net import net, rows\nL.Trainer(precision={}).fit(net, rows)"
    told = [
        review_script(None, {"script": script.format(one)})["read"].get("precision")
        for one in ("settings.precision", "'bf16-mixed'", "32")
    ]
    assert told == [None, "bf16", "fp32"]


STEP = "import torch\nfrom rows import net, loader, opt\nfor epoch in range(3):\n    for x in loader:\n"
STEP += "        loss = net(x).mean()\n{}\n        opt.step()\ntorch.save(net.state_dict(), 'n')\n"
BACK, CLIP, ZERO = (
    f"        {one}\n"
    for one in ("loss.backward()", "torch.nn.utils.clip_grad_norm_(net.parameters(), 1)", "opt.zero_grad()")
)
MNIST = """import keras
from net import model
(x, y), _ = keras.datasets.mnist.load_data()
model.compile("adam", "mse")
model.fit({})
"""
CHOSEN = """import xgboost
from rows import train, test, valid, y
net = xgboost.train({{}}, train, evals=[({}, "a")], early_stopping_rounds=9)
print(roc_auc_score(y, net.predict(test)))
"""


@pytest.mark.parametrize(
    ("rule", "script", "wrong", "right"),
    [
        ("wrong-parameter", STEP, ZERO + CLIP + BACK, ZERO + BACK + CLIP),
        ("accumulation-voided", STEP, BACK + ZERO, ZERO + BACK),
        ("wrong-parameter", MNIST, "x, y", "x / 255, y"),
        ("judged-on-training-rows", CHOSEN, "test", "valid"),
    ],
)
def test_what_the_words_of_a_script_show(rule: str, script: str, wrong: str, right: str) -> None:
    assert rule in rules(script.format(wrong))
    assert rule not in rules(script.format(right))
