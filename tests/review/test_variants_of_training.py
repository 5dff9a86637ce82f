"""Are faults of the training itself, and of single libraries, found in the other ways that people write them?

A case is a right script and one replacement that makes it wrong.
"""

from __future__ import annotations

import pytest

from memory_service.services.review.review import review_script
from tests.review.variants import check

HEAD = """
import timm, torch
from torch import nn
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = timm.create_model("resnet18", pretrained=True, num_classes=0)
        self.head = nn.Linear(self.body.num_features, 5)
    def forward(self, x):
        return self.head(self.body(x))
def train(loader, epochs):
    net = Net().cuda()
    opt = torch.optim.AdamW(net.parameters(), lr=1e-4)
    sched = torch.optim.lr_scheduler.OneCycleLR(opt, 1e-3, epochs=epochs, steps_per_epoch=len(loader))
    for epoch in range(epochs):
        for x, y in loader:
            loss = nn.CrossEntropyLoss()(net(x), y)
            loss.backward()
            opt.step()
            print((net(x).argmax(1) == y).sum())
            sched.step()
"""
PICTURES = """
import albumentations as A, numpy as np
from PIL import Image
tfm = A.Compose([A.Resize(256, 256), A.Normalize(mean=(0.5, 0.5, 0.5), std=(0.2, 0.2, 0.2))])
def read(path):
    picture = np.array(Image.open(path))
    return tfm(image=picture)["image"]
"""
RESNET = """
import torch
from torch import nn
from torchvision import models
net = models.resnet18(weights="DEFAULT")
net.fc = nn.Sequential(nn.Dropout(0.2), nn.Linear(512, 3))
opt = torch.optim.AdamW(net.parameters(), lr=1e-4)
for x, y in loader:
    nn.functional.cross_entropy(net(x), y).backward()
"""
KERAS = """
import keras
from keras import layers
first = keras.Sequential([layers.Dense(10, activation="softmax")])
first.compile("adam", loss=keras.losses.SparseCategoricalCrossentropy())
second = keras.Sequential([layers.Dense(1)])
second.compile("adam", loss="mse")
"""
BOOSTED = """
import xgboost as xgb, lightgbm as lgb
from sklearn.ensemble import RandomForestClassifier
from sklearn.model_selection import GroupKFold
forest = RandomForestClassifier(max_features="sqrt", random_state=0)
model = xgb.XGBRegressor(early_stopping_rounds=50)
model.fit(A, ya, eval_set=[(B, yb)])
booster = lgb.train({"objective": "l2"}, data, valid_sets=[held], callbacks=[lgb.early_stopping(9)])
folds = GroupKFold(5)
"""
SHORT = """
import timm, torch
from torch.utils.data import TensorDataset
from pictures import Pictures
make = torch.utils.data.DataLoader
pack = lambda x, y: TensorDataset(x, y)
net = timm.create_model("resnet18", pretrained=True, num_classes=3).cuda()
loader = make(Pictures(), 256, shuffle=True, num_workers=8)
small = make(pack(torch.zeros(9, 3, 64, 64), torch.zeros(9)), 256)
def infer():
    net.load_state_dict(torch.load("net.pt"))
for round_ in range(3):
    for s, e in loader:
        torch.nn.functional.cross_entropy(net(s.cuda()), e.cuda()).backward()
torch.save(net.state_dict(), "net.pt")
"""
TILES = """
import albumentations as A, cv2
from torch.utils.data import Dataset
moved = A.Compose([A.HorizontalFlip(p=0.5)])
class Tiles(Dataset):
    def __init__(s, files, aug):
        s.files, s.aug = files, aug
    def __getitem__(s, i):
        x = cv2.imread(s.files[i])
        mask = cv2.imread(s.files[i].replace("/img/", "/mask/"), 0)
        out = s.aug(image=x, mask=mask)
        return out["image"], mask
"""
WRAPPED = """
import torch
from torch import nn
from torchvision.models import resnet18
net = resnet18(weights="DEFAULT")
net.fc = nn.Linear(512, 3)
net = nn.Sequential(net, nn.LogSoftmax(dim=1)).cuda()
lossf = nn.NLLLoss()
for x, y in loader:
    out = net(x)
    lossf(out, y).backward()
"""
NAMED = """
import cv2
import albumentations as A
ops = {"train": A.Compose([A.HorizontalFlip()]), "valid": A.Compose([A.Resize(9, 9)])}
image = ops["valid"](image=cv2.imread("a.png"))["image"]
"""
BORDERS = """
import numpy as np
import torch
import albumentations as A
import segmentation_models_pytorch as smp
ops = A.Compose([A.HorizontalFlip()])
class Fields(torch.utils.data.Dataset):
    def __getitem__(self, i):
        pack = np.load(self.files[i])
        out = ops(image=pack["rgb"], mask=pack["border"])
        return out["image"], torch.from_numpy(out["mask"])
"""
KEPT = BORDERS.partition("out = ")[2]
BOARD = """
import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import train_test_split
a, b, ya, yb = train_test_split(np.load("x.npy"), np.load("y.npy"), random_state=0)
for name, model in {"line": LogisticRegression()}.items():
    model.fit(a, ya)
    print(name, roc_auc_score(yb, model.predict_proba(b)[:, 1]))
"""
SCHEDULED = (
    HEAD.replace("import timm,", "import timm.scheduler,")
    .replace(
        "torch.optim.lr_scheduler.OneCycleLR(opt, 1e-3, epochs=epochs, steps_per_epoch=len(loader))",
        "timm.scheduler.create_scheduler_v2(opt, num_epochs=epochs)[0]",
    )
    .replace("            sched.step()\n", "        sched.step(epoch + 1)\n")
)
CLICKS = """
import keras
model = keras.Sequential([keras.layers.Dense(1, activation="sigmoid")])
model.compile("adam", loss="binary_crossentropy", metrics=[keras.metrics.AUC()])
model.fit(x, y, epochs=4)
"""
STEPS = """
import torch
def step(net, opt, batch):
    loss = net(batch.cuda()).mean()
    loss.backward()
    opt.step()
    print(torch.cuda.max_memory_allocated())
    return loss.detach()
for epoch in range(4):
    losses = [step(net, opt, batch) for batch in loader]
"""
BY_FOLD = """
import time, torch
from pathlib import Path
from sklearn.model_selection import KFold
from torch.utils.data import DataLoader, Dataset, Subset, TensorDataset, random_split
from torchvision.models import resnet18
torch.manual_seed(0)
OUT = Path("out")
class Frames(Dataset):
    def __getitem__(self, i):
        return read(i)
whole = TensorDataset(*torch.load("x.pt"))
def accuracy(net, data):
    net.eval()
    with torch.no_grad():
        return sum((net(x.cuda()).argmax(1).cpu() == y).sum().item() for x, y in DataLoader(data, 256))
def one_fold(data, held, target):
    net = resnet18(num_classes=3).cuda()
    opt = torch.optim.AdamW(net.parameters(), lr=1e-3)
    fit, probe = random_split(data, [0.9, 0.1])
    size = 256 if data is not None else 64
    for epoch in range(4):
        net.train()
        for x, y in DataLoader(fit, size, shuffle=True, pin_memory=True):
            with torch.amp.autocast("cuda", dtype=torch.bfloat16):
                loss = torch.nn.functional.cross_entropy(net(x.cuda()), y.cuda())
            loss.backward()
            opt.step()
            opt.zero_grad()
        print(accuracy(net, probe), torch.cuda.max_memory_allocated())
        if time.monotonic() > 3000:
            break
    torch.save(net.state_dict(), target)
    best = resnet18(num_classes=3).cuda()
    best.load_state_dict(torch.load(target))
    best.eval()
    with torch.no_grad():
        for x, y in DataLoader(held, 256):
            print((best(x.cuda()).argmax(1).cpu() == y).sum())
for k, (a, b) in enumerate(KFold(4, shuffle=True, random_state=0).split(whole)):
    one_fold(Subset(whole, a), Subset(whole, b), OUT / f"{k}.pt")
"""
WATCHED = """
import keras
keras.utils.set_random_seed(1)
model = keras.Sequential([keras.layers.Dense(1, activation="sigmoid")])
model.compile("adam", "binary_crossentropy", metrics=[keras.metrics.AUC(name="auc")])
kept = keras.callbacks.ModelCheckpoint("m.keras", monitor="val_auc", mode="max", save_best_only=True)
model.fit(x, y, validation_data=(xv, yv), epochs=3, callbacks=[kept])
"""
TUNED = """
from sklearn.model_selection import KFold
from transformers import Trainer, TrainingArguments
def scored(p):
    return {"macro_f1": 0.5}
for k, (a, b) in enumerate(KFold(3).split(rows)):
    said = TrainingArguments(
        f"fold_{k}", eval_strategy="epoch", load_best_model_at_end=True, greater_is_better=True,
        metric_for_best_model="macro_f1",
        save_strategy="epoch",
    )
    Trainer(net, said, train_dataset=rows[a], eval_dataset=rows[b], compute_metrics=scored).train()
"""
MEASURED = """
import lightning, torch
class Net(lightning.LightningModule):
    def training_step(self, batch, at):
        x, y = batch
        loss = torch.nn.functional.mse_loss(self.body(x), y)
        print(torch.cuda.memory_allocated())
        return loss
lightning.Trainer(max_epochs=3).fit(Net(), rows)
"""
SHARED = """
import numpy as np
from sklearn.model_selection import KFold
from sklearn.svm import SVC
X, y, T = np.load("x.npy"), np.load("y.npy"), np.load("t.npy")
cut, p = KFold(5), np.zeros(900)
for a, b in cut.split(X, y):
    p += SVC().fit(X[a], y[a]).decision_function(T) / cut.get_n_splits()
"""
PROBED = """
import timm, torch
from timm.data import create_transform, resolve_data_config
probe = timm.create_model("vit_base_patch16_224")
settings = resolve_data_config({"input_size": (3, 224, 224)}, model=probe)
del probe
look = create_transform(**settings, is_training=True)
net = timm.create_model("vit_base_patch16_224", pretrained=True, num_classes=5).cuda()
rule = torch.optim.AdamW(net.parameters())
for epoch in range(3):
    for x, y in rows(look):
        torch.nn.functional.cross_entropy(net(x), y).backward()
        rule.step()
"""
PLATEAU = """
import pytorch_lightning as pl, torch
class Net(pl.LightningModule):
    def training_step(self, batch, at):
        if at == 0:
            print(torch.cuda.max_memory_allocated())
        return self(batch).mean()
    def validation_step(self, batch, at):
        self.log("val_loss", self(batch).mean())
    def configure_optimizers(self):
        rule = torch.optim.AdamW(self.parameters())
        slower = torch.optim.lr_scheduler.ReduceLROnPlateau(rule)
        return [rule], [dict(scheduler=slower, monitor="val_loss")]
pl.Trainer(max_epochs=3).fit(Net(), loader)
"""
CASES = (
    ("wrong-parameter", PLATEAU, 'monitor="val_loss"', 'monitor="valid_loss"'),
    ("no-memory-every-epoch", PLATEAU, "at == 0", "at == 0 and self.current_epoch == 0"),
    ("prediction-needs-all-folds", SHARED, "    p +=", "    if late(): break\n    p +="),
    ("timm-trap", PROBED, "(3, 224, 224)", "(3, 384, 384)"),
    ("timm-trap", PROBED, "del probe", "probe(one)"),
    ("wrong-parameter", TUNED, '"macro_f1",', '"f1",'),
    ("no-fold-checkpoint", TUNED, 'save_strategy="epoch"', 'save_strategy="no"'),
    ("memory-read-between-steps", MEASURED, "        print",
     "        return loss\n    def on_train_batch_end(self, *rest):\n        print"),
    ("wrong-parameter", WATCHED, '"val_auc"', '"val_roc_auc"'),
    ("wrong-parameter", WATCHED, 'mode="max"', 'mode="min"'),
    ("timm-trap", SCHEDULED, "step(epoch + 1)", "step()"),
    ("wrong-loss", CLICKS, "binary_crossentropy", "mse"),
    ("wrong-parameter", CLICKS, "epochs=4", "epochs=4, workers=8"),
    ("no-memory-at-first-batch", STEPS, "    print(torch.cuda.max_memory_allocated())\n", ""),
    ("albumentations-trap", NAMED, "[A.Resize(9, 9)]", "[A.Resize(9, 9), A.RandomBrightnessContrast()]"),
    ("albumentations-trap", BORDERS, KEPT,
     KEPT.replace(', mask=pack["border"]', "").replace("out[\"mask", "pack[\"border")),
    ("eval-mode-missing", BY_FOLD, "    best.eval()\n", ""),
    ("no-fold-checkpoint", BY_FOLD, 'f"{k}.pt"', '"best.pt"'),
    ("loader-workers", BY_FOLD, 'TensorDataset(*torch.load("x.pt"))', "Frames()"),
    ("wrong-loss", BOARD, "model.predict_proba(b)[:, 1]", "model.predict(b)"),
    ("loader-workers", SHORT, ", num_workers=8", ""),
    ("loader-workers", SHORT, "pack(torch.zeros(9, 3, 64, 64), torch.zeros(9))", "Pictures()"),
    ("timm-trap", SHORT, "pretrained=True, ", ""),
    ("no-early-stopping", SHORT, "range(3)", "range(30)"),
    ("albumentations-trap", TILES, ", mask=mask", ""),
    ("wrong-loss", WRAPPED, "LogSoftmax", "Softmax"),
    ("timm-trap", HEAD, ", num_classes=0", ""),
    ("wrong-loss", RESNET, "nn.Linear(512, 3))", "nn.Linear(512, 3), nn.Softmax(dim=1))"),
    ("wrong-loss", KERAS, "Crossentropy()", "Crossentropy(from_logits=True)"),
    ("wrong-parameter", BOOSTED, '"sqrt"', '"auto"'),
    ("wrong-parameter", BOOSTED, ", eval_set=[(B, yb)]", ""),
    ("wrong-parameter", BOOSTED, "valid_sets=[held], ", ""),
    ("wrong-parameter", BOOSTED, "eval_set=[(B, yb)]", 'eval_set=[(B, yb)], eval_metric="mae"'),
    ("wrong-parameter", BOOSTED, "import xgboost", "from transformers import AdamW\nimport xgboost"),
)  # fmt: skip


@pytest.mark.parametrize(("rule", "script", "good", "bad"), CASES, ids=[case[0] for case in CASES])
def test_a_fault_in_other_words_is_found_and_the_right_thing_left_alone(
    rule: str, script: str, good: str, bad: str
) -> None:
    check(rule, script, good, bad)


def test_a_missing_checkpoint_is_shown_where_saving_is_switched_off() -> None:
    script = TUNED.replace('save_strategy="epoch"', 'save_strategy="no"')
    found = review_script(None, {"script": script})["findings"]
    line = next(item["line"] for item in found if item["rule"] == "no-fold-checkpoint")
    assert "save_strategy" in script.split("\n")[line - 1]
