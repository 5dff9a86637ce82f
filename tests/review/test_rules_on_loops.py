"""Are a loop of plain PyTorch and files that leave work to others read as what they are?"""

from __future__ import annotations

import pytest

from memory_service.services.review.review import review_script

LOOP = """
import torch
from torch.utils.data import DataLoader, TensorDataset

train_loader = DataLoader(TensorDataset(x, y), 256, shuffle=True, num_workers=8)
opt = torch.optim.SGD(net.parameters(), 0.1)
sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, T_max=10)
total = 0.0
for epoch in range(10):
    for step, (a, b) in enumerate(train_loader):
        loss = torch.nn.functional.cross_entropy(net(a), b)
        loss.backward()
        opt.step()
        opt.zero_grad(set_to_none=True)
        total += loss.item()
    sched.step()
"""


ZEROES, SUMS = "        opt.zero_grad(set_to_none=True)\n", "total += loss.item()"
OPTIMIZES = "        opt.step()\n" + ZEROES


@pytest.mark.parametrize(
    ("good", "changed", "rule"),
    [
        (ZEROES, "", "gradients-not-zeroed"),
        (OPTIMIZES, "        scaler.step(opt)\n        scaler.update()\n", "gradients-not-zeroed"),
        (ZEROES, "        net.zero_grad()\n", None),
        (ZEROES, "        for p in net.parameters():\n            p.grad = None\n", None),
        (
            OPTIMIZES,
            "        if (step + 1) % 4 == 0:\n            opt.step()\n            net.zero_grad()\n",
            None,
        ),
        (OPTIMIZES, "        opt.step(closure)\n", None),
        (OPTIMIZES, "        finish(loss, opt)\n        opt.step()\n", None),
        ("shuffle=True, ", "", "train-not-shuffled"),
        ("shuffle=True, ", "sampler=WeightedRandomSampler(w, 9), ", None),
        ("TensorDataset(x, y)", "Stream(x)", None),
        (SUMS, "total += loss", "loss-keeps-graph"),
        (SUMS, "total += loss.detach()", None),
        (SUMS, "loss = loss.detach()\n        total += loss", None),
    ],
)
def test_a_loop_of_plain_pytorch(good: str, changed: str, rule: str | None) -> None:
    asked = {"gradients-not-zeroed", "train-not-shuffled", "loss-keeps-graph", "wrong-parameter"}
    assert good in LOOP
    found = review_script(None, {"script": LOOP.replace(good, changed)})["findings"]
    assert {one["rule"] for one in found} & asked == ({rule} if rule else set())


def test_a_loader_is_for_training_where_the_loop_beside_it_learns_whatever_its_name() -> None:
    """But not one that is handed to a function, which may predict by it."""
    loop = LOOP.replace("shuffle=True, ", "").replace("train_loader", "batches")
    of_both = HANDED.replace("SHUFFLE", "shuffle=True, ")
    for script, expected in ((loop, True), (of_both, False)):
        found = review_script(None, {"script": script})["findings"]
        assert ("train-not-shuffled" in {one["rule"] for one in found}) is expected


HANDED = """
import torch
from torch.utils.data import DataLoader, TensorDataset

def one_epoch(loader, learns):
    for a, b in loader:
        loss = torch.nn.functional.cross_entropy(net(a), b)
        if learns:
            opt.zero_grad()
            loss.backward()
            opt.step()

opt = torch.optim.SGD(net.parameters(), 0.1)
first = DataLoader(TensorDataset(x, y), 256, SHUFFLEnum_workers=8)
loader = DataLoader(TensorDataset(u, v), 256, num_workers=8)
for epoch in range(10):
    one_epoch(first, True)
    one_epoch(loader, False)
"""


HELPERS = """
from engine import seed_everything, train_one_epoch, valid_one_epoch, EarlyStopping, over_time, log_gpu_memory
import torch, timm
seed_everything(1)
model = timm.create_model("resnet50", pretrained=True, num_classes=3).cuda()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
stopper = EarlyStopping(patience=3)
for epoch in range(30):
    loss = train_one_epoch(model, optimizer)
    score = valid_one_epoch(model)
    log_gpu_memory(epoch)
    if stopper(score) or over_time():
        break
"""


LIBRARY = """
import torch
from torch.utils.data import DataLoader


def train_one_epoch(model, loader, optimizer, loss_fn, device):
    model.train()
    for x, y in loader:
        loss = loss_fn(model(x.to(device)), y.to(device))
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()


def fit(model, loader, optimizer, loss_fn, epochs, device="cuda"):
    for epoch in range(epochs):
        train_one_epoch(model, loader, optimizer, loss_fn, device)
"""


LOOKING = """
# %%
%matplotlib inline
!pip install -q seaborn
import pandas as pd, seaborn as sns
from sklearn.preprocessing import StandardScaler
df = pd.read_csv("train.csv")
df.groupby("city")["price"].mean().plot()
scaled = StandardScaler().fit_transform(df[["a", "b"]])
"""


@pytest.mark.parametrize("script", [HELPERS, LIBRARY, LOOKING], ids=["helpers", "library", "looking"])
def test_what_a_file_leaves_to_others_is_believed(script: str) -> None:
    assert review_script(None, {"script": script})["findings"] == []
