"""Are rows that were used before they were split found in the other ways that people write it?

A case is a right script and one replacement that makes it wrong.
"""

from __future__ import annotations

import pytest

from tests.review.variants import check, rules_of

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
FRESH = """
import pandas as pd
from sklearn.linear_model import Ridge
from sklearn.model_selection import cross_val_score
def clean(rows):
    return rows
table = clean(pd.read_csv("a.csv"))
print(cross_val_score(Ridge(), table[["a"]], table["y"], cv=5))
"""
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
CASES = (
    ("groups-across-folds", SNIPPETS, "StratifiedGroupKFold(5).split", "StratifiedKFold(5).split"),
    ("fit-before-split", POOLED, "x.mean(axis=1, keepdims=True), x.std(axis=1, keepdims=True)",
     "x.mean(axis=(0, 1)), x.std(axis=(0, 1))"),
    ("fit-before-split", PICTURED, "np.stack(kept)",
     "np.stack(kept)\nkept = (kept - kept.mean(0)) / kept.std(0)"),
    ("shuffled-time-series", CUT, "len(level), 24)", "len(level))"),
    ("groups-across-folds", NOTED, ": one scan per patient", ""),
    ("fit-before-split", CLIPPED, "0.0, 9.0",
     "np.nanpercentile(x, 1, axis=0), np.nanpercentile(x, 99, axis=0)"),
    ("fit-before-split", LOADED, "    return X, y", "    return StandardScaler().fit_transform(X), y"),
    ("wrong-loss", LOADED, "model.predict_proba(b)[:, 1]", "model.predict(b)"),
    ("wrong-loss", LOADED, "(b)[:, 1]", "(b)[:, 1] > 0.5"),
    ("fit-before-split", METHODS, "rows, df", "SimpleImputer().fit_transform(rows), df"),
    ("fit-before-split", WINDOWS, "= level0", "= StandardScaler().fit_transform(level0)"),
    ("shuffled-time-series", WINDOWS, "shuffle=False", "random_state=0"),
    ("groups-across-folds", USERS, ', groups=g, cv=GroupKFold(5)', ", cv=5"),
    ("groups-across-folds", USERS, "cv=GroupKFold(5)", "cv=5"),
    ("groups-across-folds", FILES, '"week"', '"patient"'),
    ("fit-before-split", WALKED, "folds(held):\n    mean", "folds(scaled(held)):\n    mean"),
    ("fit-before-split", WALKED, "xa.mean(axis=0), xa.std", "held['x'].mean(axis=0), held['x'].std"),
    ("fit-before-split", HELD_IN_A_DATA_SET, "0.0, 1.0", "values.mean(0), values.std(0)"),
    ("shuffled-time-series", HELD_IN_A_DATA_SET, "values[i]", "values[i : i + self.length]"),
    ("fit-before-split", FRESH, "rows\n", "StandardScaler().fit_transform(rows)\n"),
)  # fmt: skip


@pytest.mark.parametrize(("rule", "script", "good", "bad"), CASES, ids=[case[0] for case in CASES])
def test_a_fault_in_other_words_is_found_and_the_right_thing_left_alone(
    rule: str, script: str, good: str, bad: str
) -> None:
    check(rule, script, good, bad)


@pytest.mark.parametrize("each", ["x.max(axis=0)", "x.max(0)", "np.max(x, 0)", "np.abs(x).max(axis=0)"])
def test_the_largest_value_of_each_column_is_fitted(each: str) -> None:
    check("fit-before-split", CLIPPED, "(np.clip(x, low, high) - low) / (high - low)", f"x / {each}")


@pytest.mark.parametrize("unit", ["x.max()", "np.max(x)", "max(y)", "x[:, 0].max()"])
def test_one_largest_value_is_a_unit(unit: str) -> None:
    script = CLIPPED.replace("(np.clip(x, low, high) - low) / (high - low)", f"x / {unit}")
    assert "fit-before-split" not in rules_of(script)
