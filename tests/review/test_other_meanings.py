"""Is each fault found in the other ways that people write it, and is what is right next to it left alone?

A case is a right script and one replacement that makes it wrong.
"""

from __future__ import annotations

import pytest

from memory_service.services.review.review import review_script

LOADED = """
import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler
def load():
    X, y = np.load("x.npy"), np.load("y.npy")
    return X, y
X, y = load()
a, b, ya, yb = train_test_split(X, y, random_state=0)
model = LogisticRegression().fit(a, ya)
print(roc_auc_score(yb, model.predict_proba(b)[:, 1]))
"""
METHODS = """
import pandas as pd
from sklearn.ensemble import RandomForestRegressor
from sklearn.impute import SimpleImputer
from sklearn.model_selection import train_test_split
class Study:
    def read(self):
        df = pd.read_csv("a.csv")
        rows = df.drop(columns="price")
        self.X, self.y = rows, df["price"]
    def run(self):
        a, b, ya, yb = train_test_split(self.X, self.y, random_state=0)
        return RandomForestRegressor(random_state=0).fit(a, ya).score(b, yb)
"""
POLARS = """
import lightgbm as lgb, polars as pl
from sklearn.model_selection import KFold
df = pl.read_csv("a.csv")
df = df.with_columns(pl.col("area").mean().over("city").alias("mean_area"))
y = df["price"].to_numpy()
X = df.drop("price").to_numpy()
for k, (a, b) in enumerate(KFold(5, shuffle=True, random_state=0).split(X)):
    m = lgb.LGBMRegressor(random_state=0).fit(X[a], y[a])
    m.booster_.save_model(f"{k}.txt")
"""
WINDOWS = """
import numpy as np
from sklearn.ensemble import RandomForestRegressor
from sklearn.model_selection import train_test_split
level0 = np.load("level.npy")
level = level0
X, y = [], []
for i in range(24, len(level)):
    X.append(level[i - 24:i])
    y.append(level[i])
a, b, ya, yb = train_test_split(np.array(X), np.array(y), shuffle=False)
print(RandomForestRegressor(random_state=0).fit(a, ya).score(b, yb))
"""
USERS = """
import pandas as pd
from sklearn.ensemble import RandomForestClassifier
from sklearn.model_selection import GroupKFold, cross_val_score
log = pd.read_csv("log.csv")
log["mean"] = log.groupby("user_id")["clicks"].transform("mean")
X, g = log.drop(columns=["user_id", "bought"]), log["user_id"]
print(cross_val_score(RandomForestClassifier(), X, log["bought"], groups=g, cv=GroupKFold(5)))
"""
FILES = """
import pandas as pd
from sklearn.ensemble import RandomForestClassifier
from sklearn.model_selection import cross_val_score
df = pd.read_csv("a.csv")
df["week"] = df["file"].str.split("_").str[0]
print(cross_val_score(RandomForestClassifier(random_state=0), df[["a", "b"]], df["ill"], cv=5))
"""
PARTS = """
import pandas as pd
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import OrdinalEncoder
encoder = OrdinalEncoder()
def clean(path):
    df = pd.read_csv(path)
    df["cabin"] = df["cabin"].str.len()
    return df
train, test = clean("train.csv"), clean("test.csv")
model = LogisticRegression().fit(train[["cabin"]], train["survived"])
print(model.predict(test[["cabin"]]))
"""
WHOLE = """
import pandas as pd
from sklearn.ensemble import RandomForestRegressor
from sklearn.model_selection import cross_validate
df = pd.read_csv("a.csv")
y = df["price"]
table = df.drop(columns=["id", "price"])
print(cross_validate(RandomForestRegressor(random_state=0), table, y, cv=5))
"""
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
LOOP = """
for part in (train, test):
    part["c"] = part["c"].astype("category").cat.codes
model ="""
DIFFERENCE = WHOLE.replace('y = df["price"]', 'df["x"] = 1\ny = df.price')
FRESH = """
import pandas as pd
from sklearn.linear_model import Ridge
from sklearn.model_selection import cross_val_score
def clean(rows):
    return rows
table = clean(pd.read_csv("a.csv"))
print(cross_val_score(Ridge(), table[["a"]], table["y"], cv=5))
"""
TWICE = WHOLE.replace("\nprint", "\ntable = table.drop(columns=['a'])\nprint")
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
        t = cv2.imread(s.files[i].replace("/img/", "/mask/"), 0)
        out = s.aug(image=x, mask=t)
        return out["image"], t
"""
BUILT = """
import pandas as pd, xgboost as xgb
from sklearn.decomposition import PCA
from sklearn.model_selection import KFold
class Power:
    def build(self, raw):
        raw["a2"] = raw["a"]
        self.columns = [c for c in raw.columns if c not in ("id", "use")]
        return raw
    def fit(self, rows):
        for k, (a, b) in enumerate(KFold(5, shuffle=True, random_state=0).split(rows)):
            left = xgb.DMatrix(rows.loc[a, self.columns], label=rows.loc[a, "use"])
            xgb.train({}, left, 100).save_model(f"{k}.json")
work = Power()
work.fit(work.build(pd.read_csv("a.csv")))
"""
VISITS = """
import pandas as pd
from pathlib import Path
from sklearn.linear_model import LogisticRegression
known = pd.read_csv(Path("in") / "train.csv")
coming = pd.read_csv(Path("in") / "test.csv")
for d in (known, coming):
    d["ward"] = d["ward"].str.len()
model = LogisticRegression().fit(known[["ward"]], known["died"])
print(model.predict(coming[["ward"]]))
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
CLIPPED = """
import numpy as np
from sklearn.linear_model import Ridge
from sklearn.model_selection import train_test_split
x, y = np.load("x.npy"), np.load("y.npy")
low, high = 0.0, 9.0
x = (np.clip(x, low, high) - low) / (high - low)
a, b, ya, yb = train_test_split(x, y, random_state=0)
print(Ridge().fit(a, ya).score(b, yb))
"""
NUMERIC = """
import polars as pl
from polars import selectors as cs
from sklearn.linear_model import Ridge
from sklearn.metrics import mean_squared_error
from sklearn.model_selection import train_test_split
data = pl.read_csv("a.csv")
y = data["price"].to_numpy()
X = data.drop("id", "price").select(cs.numeric()).to_numpy()
a, b, ya, yb = train_test_split(X, y, random_state=0)
print(mean_squared_error(yb, Ridge().fit(a, ya).predict(b)))
"""
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
ARRIVED = """
import pandas as pd
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import OrdinalEncoder
def load():
    return pd.read_csv("a.csv"), pd.read_csv("b.csv")
def to_numbers(frame):
    frame[["ward"]] = frame[["ward"]].apply(lambda c: c.str.len())
    return frame
X, X_new = load()
y = X.pop("died")
X = to_numbers(X)
X_new = to_numbers(X_new)
print(LogisticRegression().fit(X, y).predict(X_new))
"""
WALKED = """
import numpy as np
import pandas as pd
from sklearn.linear_model import Ridge
from sklearn.model_selection import KFold
def read():
    df = pd.read_csv("a.csv")
    return {"x": df[["area", "rooms"]].to_numpy(), "y": df["price"].to_numpy()}
def scaled(held):
    return held | {"x": StandardScaler().fit_transform(held["x"])}
def folds(held):
    for a, b in KFold(5).split(held["x"]):
        yield held["x"][a], held["x"][b], held["y"][a], held["y"][b]
held = read()
for xa, xb, ya, yb in folds(held):
    mean, deviation = xa.mean(axis=0), xa.std(axis=0)
    Ridge().fit((xa - mean) / deviation, ya).score((xb - mean) / deviation, yb)
"""
HELD_IN_A_DATA_SET = """
import numpy as np
from torch.utils.data import Dataset, random_split
class Rows(Dataset):
    def __init__(self, values, length):
        self.values, self.length = values, length
        self.mean, self.deviation = 0.0, 1.0
    def __len__(self):
        return len(self.values) - self.length
    def __getitem__(self, i):
        return (self.values[i] - self.mean) / self.deviation
a, b = random_split(Rows(np.load("x.npy"), 24), [800, 200])
"""
PREPARED = """
import pandas as pd
from sklearn.preprocessing import OrdinalEncoder
from xgboost import XGBRegressor
class Table:
    def __init__(self, path, coder=None):
        self.rows = pd.read_csv(path)
        self.coder = coder
    def coded(self):
        if self.coder is None:
            self.coder = OrdinalEncoder().fit(self.rows[["city"]])
        self.rows["city"] = self.coder.transform(self.rows[["city"]])
        return self.rows
one = Table("flats.csv")
flats = one.coded().assign(size=lambda d: d["area"] / d["rooms"])
wanted = Table("flats_test.csv", one.coder).coded()
y = flats.pop("rent")
XGBRegressor().fit(flats, y)
"""

SCHEDULED = (
    HEAD.replace("import timm,", "import timm.scheduler,")
    .replace(
        "torch.optim.lr_scheduler.OneCycleLR(opt, 1e-3, epochs=epochs, steps_per_epoch=len(loader))",
        "timm.scheduler.create_scheduler_v2(opt, num_epochs=epochs)[0]",
    )
    .replace("            sched.step()\n", "        sched.step(epoch + 1)\n")
)
STACKED = """
import numpy as np, pandas as pd
from sklearn.model_selection import train_test_split
df = pd.read_csv("a.csv")
y = df["ill"].to_numpy()
X = np.hstack([np.load("genes.npy"), df[["age", "sex"]].to_numpy()])
a, b, ya, yb = train_test_split(X, y, random_state=0)
"""
CUT = """
import numpy as np
from sklearn.model_selection import train_test_split
def pairs(level):
    X, y = [], []
    for i in range(24, len(level), 24):
        X.append(level[i - 24:i])
        y.append(level[i])
    return np.array(X), np.array(y)
parts, truth = pairs(np.load("level.npy"))
a, b, ya, yb = train_test_split(parts, truth, random_state=0)
"""
NOTED = """
import pandas as pd
from sklearn.model_selection import train_test_split
df = pd.read_csv("a.csv")  # file, patient_id, ill: one scan per patient
a, b = train_test_split(df, random_state=0)
"""
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
GONE = WHOLE.replace('columns=["id", "price"]', "columns=gone").replace(
    "table =", 'gone = ["id"]\ngone.append("price")\ntable ='
)
NARROWED = WHOLE.replace(', "price"])', "])\ntable.pop('price')")
LISTED = WHOLE.replace(
    'table = df.drop(columns=["id", "price"])',
    ('names = set(df.columns)\nnames.discard("price")\ntable = df[sorted(names)]'),
)
MATCHED = WHOLE.replace('df.drop(columns=["id", "price"])', 'df.filter(regex="^size")')
TAKEN = WHOLE.replace('y = df["price"]\n', 'df = df[["area", "price"]]\ny = df.pop("price")\n').replace(
    'table = df.drop(columns=["id", "price"])', "table = df"
)
SUMMED = """
import pandas as pd
from sklearn.ensemble import RandomForestRegressor
from sklearn.model_selection import train_test_split
def shares(table, weight):
    sums, seen = {}, {}
    for row in table.itertuples():
        sums[row.town] = sums.get(row.town, 0.0) + weight
        seen[row.town] = seen.get(row.town, 0) + 1
    return {town: sums[town] / seen[town] for town in seen}
df = pd.read_csv("a.csv")
df["share"] = df["town"].map(shares(df, 1.0))
X, y = df.loc[:, ~df.columns.isin(["id", "town", "rent"])], df["rent"]
a, b, ya, yb = train_test_split(X, y, random_state=0)
print(RandomForestRegressor(random_state=0).fit(a, ya).score(b, yb))
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
POOLED = """
import librosa, numpy as np, pandas as pd
from concurrent.futures import ProcessPoolExecutor
from sklearn.model_selection import train_test_split
def heard(path):
    return librosa.load(path)[0]
table = pd.read_csv("a.csv")
with ProcessPoolExecutor() as pool:
    x = np.stack(list(pool.map(heard, table["file"])))[..., None]
low, wide = x.mean(axis=1, keepdims=True), x.std(axis=1, keepdims=True)
a, b = train_test_split((x - low) / wide, random_state=0)
"""
PICTURED = """
import cv2, numpy as np
from glob import glob
from sklearn.model_selection import train_test_split
kept = []
for path in glob("*.png"):
    picture = cv2.imread(path)
    kept.append((picture - picture.mean()) / picture.std())
kept = np.stack(kept)
a, b = train_test_split(kept, random_state=0)
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
SAMPLED = """
from lightgbm import LGBMRegressor
from sklearn.preprocessing import QuantileTransformer
x = QuantileTransformer(subsample=200_000).fit_transform(a)
LGBMRegressor(subsample=0.8).fit(x, y)
"""
KINDS = """
import lightgbm as lgb, pandas as pd
from sklearn.compose import ColumnTransformer
from sklearn.impute import SimpleImputer
from sklearn.model_selection import train_test_split
df = pd.read_csv("a.csv")
df["said"] = df["plan"].map({0: "stayed", 1: "left"})
num = df.select_dtypes("number").columns.drop(["churn"]).tolist()
text = df.select_dtypes("object").columns.tolist()
X = df[num + text]
y = df["churn"].to_numpy()
X = ColumnTransformer([("n", SimpleImputer(), num), ("t", SimpleImputer(), text)]).fit_transform(X)
a, b, ya, yb = train_test_split(X, y, random_state=0)
model = lgb.LGBMClassifier(random_state=0).fit(a, ya)
"""
ALIASED = """
from dataclasses import dataclass
import lightgbm as lgb, polars as pl, polars.selectors as cs
from sklearn.model_selection import train_test_split
@dataclass
class Config:
    target: str = "price"
cfg = Config()
df = pl.read_csv("a.csv")
df = df.with_columns(
    pl.col("price").log1p().alias("log_price"), pl.col("area").mean().over("zip").alias("of_zip"),
)
features = [c for c in df.select(cs.numeric()).columns if c not in ("id", cfg.target, "log_price")]
a, b, ya, yb = train_test_split(df.select(features).to_numpy(), df["log_price"].to_numpy(), random_state=0)
model = lgb.LGBMRegressor(random_state=0).fit(a, ya)
"""
SNIPPETS = """
# We cut each recording into 5 s clips
import numpy as np, pandas as pd
from sklearn.ensemble import RandomForestClassifier
from sklearn.model_selection import StratifiedGroupKFold, StratifiedKFold
df = pd.read_csv("a.csv")  # clip, recording_id, species
codes = {name: at for at, name in enumerate(sorted(df["species"].unique()))}
y, X = df["species"].map(codes).to_numpy(), np.load("x.npy")
a, b = next(iter(StratifiedGroupKFold(5).split(X, y, df["recording_id"])))
print(RandomForestClassifier(random_state=0).fit(X[a], y[a]).score(X[b], y[b]))
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
ROLLED = """
import lightgbm as lgb
import pandas as pd
df = pd.read_csv("sales.csv").sort_values("day")
by_shop = df.groupby("shop")["sold"]
df["week"] = by_shop.transform(lambda s: s.shift(7).rolling(7).mean())
df["so_far"] = (by_shop.cumsum() - df["sold"]) / by_shop.cumcount()
df["open"] = df["sold"].rolling(7, closed="left").max()
feats = [c for c in df.columns if c.startswith(("week", "so_", "open"))]
old, new = df[df["day"] < 300], df[df["day"] >= 300]
lgb.LGBMRegressor().fit(old[feats], old["sold"])
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
    ("target-in-features", ROLLED, "s.shift(7)", "s"),
    ("target-in-features", ROLLED, ' - df["sold"]', ""),
    ("target-in-features", ROLLED, ', closed="left"', ""),
    ("wrong-parameter", PLATEAU, 'monitor="val_loss"', 'monitor="valid_loss"'),
    ("no-memory-every-epoch", PLATEAU, "at == 0", "at == 0 and self.current_epoch == 0"),
    ("target-in-features", KINDS, 'df["plan"].map', 'df["churn"].map'),
    ("target-in-features", ALIASED, ', "log_price")]', ")]"),
    ("target-statistics-before-split", ALIASED, 'pl.col("area")', 'pl.col("price")'),
    ("groups-across-folds", SNIPPETS, "StratifiedGroupKFold(5).split", "StratifiedKFold(5).split"),
    ("prediction-needs-all-folds", SHARED, "    p +=", "    if late(): break\n    p +="),
    ("timm-trap", PROBED, "(3, 224, 224)", "(3, 384, 384)"),
    ("timm-trap", PROBED, "del probe", "probe(one)"),
    ("fit-before-split", POOLED, "x.mean(axis=1, keepdims=True), x.std(axis=1, keepdims=True)",
     "x.mean(axis=(0, 1)), x.std(axis=(0, 1))"),
    ("fit-before-split", PICTURED, "np.stack(kept)",
     "np.stack(kept)\nkept = (kept - kept.mean(0)) / kept.std(0)"),
    ("wrong-parameter", TUNED, '"macro_f1",', '"f1",'),
    ("no-fold-checkpoint", TUNED, 'save_strategy="epoch"', 'save_strategy="no"'),
    ("memory-read-between-steps", MEASURED, "        print",
     "        return loss\n    def on_train_batch_end(self, *rest):\n        print"),
    ("wrong-parameter", SAMPLED, "0.8", "80"),
    ("wrong-parameter", WATCHED, '"val_auc"', '"val_roc_auc"'),
    ("target-in-features", GONE, 'append("price")', 'append("rooms")'),
    ("target-in-features", NARROWED, "pop('price')", "pop('rooms')"),
    ("target-in-features", LISTED, 'discard("price")', 'discard("rooms")'),
    ("target-in-features", MATCHED, 'df.filter(regex="^size")', "df.fillna(0)"),
    ("target-in-features", TAKEN, 'df.pop("price")', 'df["price"]'),
    ("timm-trap", SCHEDULED, "step(epoch + 1)", "step()"),
    ("target-in-features", STACKED, '"sex"]', '"sex", "ill"]'),
    ("shuffled-time-series", CUT, "len(level), 24)", "len(level))"),
    ("groups-across-folds", NOTED, ": one scan per patient", ""),
    ("wrong-loss", CLICKS, "binary_crossentropy", "mse"),
    ("wrong-parameter", CLICKS, "epochs=4", "epochs=4, workers=8"),
    ("no-memory-at-first-batch", STEPS, "    print(torch.cuda.max_memory_allocated())\n", ""),
    ("albumentations-trap", NAMED, "[A.Resize(9, 9)]", "[A.Resize(9, 9), A.RandomBrightnessContrast()]"),
    ("albumentations-trap", BORDERS, KEPT,
     KEPT.replace(', mask=pack["border"]', "").replace("out[\"mask", "pack[\"border")),
    ("target-statistics-before-split", SUMMED, "0.0) + weight", "0.0) + row.rent"),
    ("target-in-features", SUMMED, '"town", "rent"', '"town"'),
    ("eval-mode-missing", BY_FOLD, "    best.eval()\n", ""),
    ("no-fold-checkpoint", BY_FOLD, 'f"{k}.pt"', '"best.pt"'),
    ("loader-workers", BY_FOLD, 'TensorDataset(*torch.load("x.pt"))', "Frames()"),
    ("wrong-parameter", WATCHED, 'mode="max"', 'mode="min"'),
    ("fit-before-split", CLIPPED, "0.0, 9.0",
     "np.nanpercentile(x, 1, axis=0), np.nanpercentile(x, 99, axis=0)"),
    ("target-in-features", NUMERIC, '"id", "price"', '"id"'),
    ("wrong-loss", BOARD, "model.predict_proba(b)[:, 1]", "model.predict(b)"),
    ("labels-reencoded", ARRIVED, 'frame[["ward"]].apply(lambda c: c.str.len())',
     'OrdinalEncoder().fit_transform(frame[["ward"]])'),
    ("loader-workers", SHORT, ", num_workers=8", ""),
    ("loader-workers", SHORT, "pack(torch.zeros(9, 3, 64, 64), torch.zeros(9))", "Pictures()"),
    ("timm-trap", SHORT, "pretrained=True, ", ""),
    ("no-early-stopping", SHORT, "range(3)", "range(30)"),
    ("albumentations-trap", TILES, ", mask=t", ""),
    ("fit-before-split", BUILT, '= raw["a"]', '= PCA(1).fit_transform(raw[["a", "b"]])[:, 0]'),
    ("target-statistics-before-split", BUILT, '= raw["a"]',
     '= raw["s"].map(raw.pivot_table(index="s", values="use")["use"])'),
    ("target-in-features", BUILT, '("id", "use")', '("id",)'),
    ("labels-reencoded", VISITS, 'd["ward"] = d["ward"].str.len()', 'd["ward"], _ = pd.factorize(d["ward"])'),
    ("wrong-loss", WRAPPED, "LogSoftmax", "Softmax"),
    ("fit-before-split", LOADED, "    return X, y", "    return StandardScaler().fit_transform(X), y"),
    ("fit-before-split", METHODS, "rows, df", "SimpleImputer().fit_transform(rows), df"),
    ("fit-before-split", WINDOWS, "= level0", "= StandardScaler().fit_transform(level0)"),
    ("target-statistics-before-split", POLARS, 'pl.col("area")', 'pl.col("price")'),
    ("target-statistics-before-split", POLARS.replace("X = df.drop", "df = df\nX = df.drop"), "df = df\n",
     'df = df.join(df.group_by("city").agg(pl.col("price").mean().alias("m")), on="city")\n'),
    ("shuffled-time-series", WINDOWS, "shuffle=False", "random_state=0"),
    ("groups-across-folds", USERS, ', groups=g, cv=GroupKFold(5)', ", cv=5"),
    ("groups-across-folds", USERS, "cv=GroupKFold(5)", "cv=5"),
    ("groups-across-folds", FILES, '"week"', '"patient"'),
    ("fit-before-split", WALKED, "folds(held):\n    mean", "folds(scaled(held)):\n    mean"),
    ("fit-before-split", WALKED, "xa.mean(axis=0), xa.std", "held['x'].mean(axis=0), held['x'].std"),
    ("fit-before-split", HELD_IN_A_DATA_SET, "0.0, 1.0", "values.mean(0), values.std(0)"),
    ("shuffled-time-series", HELD_IN_A_DATA_SET, "values[i]", "values[i : i + self.length]"),
    ("labels-reencoded", PREPARED, ", one.coder)", ")"),
    ("target-in-features", PREPARED, '/ d["rooms"]', '/ d["rent"]'),
    ("labels-reencoded", PARTS, 'df["cabin"].str.len()', 'df["cabin"].astype("category").cat.codes'),
    ("labels-reencoded", PARTS, 'df["cabin"].str.len()', 'pd.factorize(df["cabin"])[0]'),
    ("labels-reencoded", PARTS, "model =", LOOP),
    ("fit-before-split", FRESH, "rows\n", "StandardScaler().fit_transform(rows)\n"),
    ("target-in-features", TWICE, ', "price"]', "]"),
    ("target-in-features", WHOLE, '["id", "price"]', '["id"]'),
    ("target-in-features", PARTS, 'train[["cabin"]], train["survived"]', 'train, train["survived"]'),
    ("target-in-features", DIFFERENCE, '"x"] = 1', '"x"] = df["price"] - df["cost"]'),
    ("timm-trap", HEAD, ", num_classes=0", ""),
    ("wrong-parameter", HEAD, "            sched.step()\n", "        sched.step()\n"),
    ("wrong-loss", HEAD, "nn.CrossEntropyLoss()", "nn.MSELoss()"),
    ("wrong-loss", RESNET, "nn.Linear(512, 3))", "nn.Linear(512, 3), nn.Softmax(dim=1))"),
    ("wrong-loss", KERAS, "Crossentropy()", "Crossentropy(from_logits=True)"),
    ("wrong-loss", LOADED, "model.predict_proba(b)[:, 1]", "model.predict(b)"),
    ("wrong-loss", LOADED, "(b)[:, 1]", "(b)[:, 1] > 0.5"),
    ("albumentations-trap", PICTURES, 'np.array(Image.open(path))', "Image.open(path)"),
    ("albumentations-trap", PICTURES, "mean=(0.5, 0.5, 0.5)", "mean=(123.7, 116.3, 103.5)"),
    ("wrong-parameter", BOOSTED, '"sqrt"', '"auto"'),
    ("wrong-parameter", BOOSTED, ", eval_set=[(B, yb)]", ""),
    ("wrong-parameter", BOOSTED, "valid_sets=[held], ", ""),
    ("wrong-parameter", BOOSTED, "eval_set=[(B, yb)]", 'eval_set=[(B, yb)], eval_metric="mae"'),
    ("wrong-parameter", BOOSTED, "GroupKFold(5)", "GroupKFold(5, random_state=1)"),
    ("wrong-parameter", BOOSTED, "import xgboost", "from transformers import AdamW\nimport xgboost"),
)  # fmt: skip


def rules_of(script: str) -> set[str]:
    return {item["rule"] for item in review_script(None, {"script": script})["findings"]}


@pytest.mark.parametrize(("rule", "script", "good", "bad"), CASES, ids=[case[0] for case in CASES])
def test_a_fault_in_other_words_is_found_and_the_right_thing_left_alone(
    rule: str, script: str, good: str, bad: str
) -> None:
    assert good in script
    if "StandardScaler" in bad and "import StandardScaler" not in script:
        script = "from sklearn.preprocessing import StandardScaler\n" + script
    assert rule not in rules_of(script)
    assert rule in rules_of(script.replace(good, bad))


def test_a_missing_checkpoint_is_shown_where_saving_is_switched_off() -> None:
    script = TUNED.replace('save_strategy="epoch"', 'save_strategy="no"')
    found = review_script(None, {"script": script})["findings"]
    line = next(item["line"] for item in found if item["rule"] == "no-fold-checkpoint")
    assert "save_strategy" in script.split("\n")[line - 1]
