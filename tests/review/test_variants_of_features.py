"""Are answers among the features, and codes made anew, found in the other ways that people write them?

A case is a right script and one replacement that makes it wrong.
"""

from __future__ import annotations

import pytest

from tests.review.variants import check

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
LOOP = """
for part in (train, test):
    part["c"] = part["c"].astype("category").cat.codes
model ="""
DIFFERENCE = WHOLE.replace('y = df["price"]', 'df["x"] = 1\ny = df.price')
TWICE = WHOLE.replace("\nprint", "\ntable = table.drop(columns=['a'])\nprint")
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
STACKED = """
import numpy as np, pandas as pd
from sklearn.model_selection import train_test_split
df = pd.read_csv("a.csv")
y = df["ill"].to_numpy()
X = np.hstack([np.load("genes.npy"), df[["age", "sex"]].to_numpy()])
a, b, ya, yb = train_test_split(X, y, random_state=0)
"""
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
X, y = df.drop(columns=["id", "town", "rent"]), df["rent"]
a, b, ya, yb = train_test_split(X, y, random_state=0)
print(RandomForestRegressor(random_state=0).fit(a, ya).score(b, yb))
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
CASES = (
    ("target-in-features", ROLLED, "s.shift(7)", "s"),
    ("target-in-features", ROLLED, ' - df["sold"]', ""),
    ("target-in-features", ROLLED, ', closed="left"', ""),
    ("target-in-features", KINDS, 'df["plan"].map', 'df["churn"].map'),
    ("target-in-features", ALIASED, ', "log_price")]', ")]"),
    ("target-statistics-before-split", ALIASED, 'pl.col("area")', 'pl.col("price")'),
    ("target-in-features", NARROWED, "pop('price')", "pop('rooms')"),
    ("target-in-features", LISTED, 'discard("price")', 'discard("rooms")'),
    ("target-in-features", MATCHED, 'df.filter(regex="^size")', "df.fillna(0)"),
    ("target-in-features", TAKEN, 'df.pop("price")', 'df["price"]'),
    ("target-in-features", STACKED, '"sex"]', '"sex", "ill"]'),
    ("target-in-features", SUMMED, '"town", "rent"', '"town"'),
    ("target-in-features", NUMERIC, '"id", "price"', '"id"'),
    ("labels-reencoded", ARRIVED, 'frame[["ward"]].apply(lambda c: c.str.len())',
     'OrdinalEncoder().fit_transform(frame[["ward"]])'),
    ("fit-before-split", BUILT, '= raw["a"]', '= PCA(1).fit_transform(raw[["a", "b"]])[:, 0]'),
    ("target-statistics-before-split", BUILT, '= raw["a"]',
     '= raw["s"].map(raw.pivot_table(index="s", values="use")["use"])'),
    ("target-in-features", BUILT, '("id", "use")', '("id",)'),
    ("labels-reencoded", VISITS, 'd["ward"] = d["ward"].str.len()', 'd["ward"], _ = pd.factorize(d["ward"])'),
    ("target-statistics-before-split", POLARS, 'pl.col("area")', 'pl.col("price")'),
    ("target-statistics-before-split", POLARS.replace("X = df.drop", "df = df\nX = df.drop"), "df = df\n",
     'df = df.join(df.group_by("city").agg(pl.col("price").mean().alias("m")), on="city")\n'),
    ("labels-reencoded", PREPARED, ", one.coder)", ")"),
    ("target-in-features", PREPARED, '/ d["rooms"]', '/ d["rent"]'),
    ("labels-reencoded", PARTS, 'df["cabin"].str.len()', 'df["cabin"].astype("category").cat.codes'),
    ("labels-reencoded", PARTS, 'df["cabin"].str.len()', 'pd.factorize(df["cabin"])[0]'),
    ("labels-reencoded", PARTS, "model =", LOOP),
    ("target-in-features", PARTS, 'train[["cabin"]], train["survived"]', 'train, train["survived"]'),
    ("target-in-features", TWICE, ', "price"]', "]"),
    ("target-in-features", WHOLE, '["id", "price"]', '["id"]'),
    ("target-in-features", DIFFERENCE, '"x"] = 1', '"x"] = df["price"] - df["cost"]'),
)  # fmt: skip


@pytest.mark.parametrize(("rule", "script", "good", "bad"), CASES, ids=[case[0] for case in CASES])
def test_a_fault_in_other_words_is_found_and_the_right_thing_left_alone(
    rule: str, script: str, good: str, bad: str
) -> None:
    check(rule, script, good, bad)
