"""Are faults of loops, loaders and prediction found in the other ways that people write them?

A case is a right script and one replacement that makes it wrong.
"""

from __future__ import annotations

import pytest

from memory_service.services.database.transactions import Database
from tests.review.test_rules import NETWORK, TABLE
from tests.review.variants import check

STEPS = """
import time, torch
from torchvision.models import resnet50
from data import loader, other
torch.manual_seed(1)
settings = {"batch_size": 128}
settings.update(num_workers=8, pin_memory=True, persistent_workers=True)
END, waited, best = time.monotonic() + 60, 0, 0
net = resnet50().cuda()
def train():
    for x, y in loader:
        with torch.autocast("cuda"):
            loss = torch.nn.functional.cross_entropy(net(x.cuda()), y.cuda())
        loss.backward()
def look():
    net.eval()
    with torch.no_grad():
        for a, b in other:
            print(net(a.cuda()).argmax(1) == b)
epoch = 0
while epoch < 30 and waited < 3:
    net.train()
    train()
    look()
    waited = 0 if gain() else waited + 1
    epoch += 1
    if time.monotonic() > END:
        break
"""
FEED = (
    "from torch.utils.data import DataLoader\nfeed = DataLoader(rows, shuffle=True, **settings)\nepoch = 0\n"
)
YAML = 'import yaml\nCFG = yaml.safe_load("""\nbs: 256  # rows\nnet:\n  name: resnet50\n""")\n'
IN_YAML = YAML + NETWORK.replace("BATCH_SIZE, shuffle", "CFG['bs'], shuffle").replace(
    '"resnet50"', 'CFG["net"]["name"]'
)
BY_NAME = NETWORK.replace("import timm", "import torchvision").replace(
    'timm.create_model("resnet50", pretrained=True, num_classes=5)',
    'torchvision.models.get_model("resnet50")',
)
PREDICTING = """
import torch
from data import dl, paths, Net
nets = []
for fd in [0, 1, 2]:
    if fd.exists():
        net = Net().cuda().eval()
        net.load_state_dict(torch.load(f"runs/{fd}/best.pth"))
        nets.append(net)
with torch.no_grad():
    for x in dl:
        for net in nets:
            print(net(x.cuda()))
"""
PHASES = """
import torch
from data import Net, parts
net = Net()
for epoch in range(3):
    for part, rows in parts.items():
        net.train(part == "fit")
        for x, y in rows:
            loss = torch.nn.functional.cross_entropy(net(x), y)
            if part == "fit":
                loss.backward()
"""
OWN_METHOD = """
import torch
from data import rows, others
class Net(torch.nn.Module):
    def step(self, batch):
        return torch.nn.functional.cross_entropy(self(batch[0]), batch[1])
model = Net()
for epoch in range(3):
    model.train()
    for batch in rows:
        model.step(batch).backward()
    model.eval()
    with torch.no_grad():
        for batch in others:
            print(model.step(batch))
"""
LISTED = """
import torch
from data import Net
PATHS = [OUT / f"fold{n}.pt" for n in range(4)]
for p in PATHS:
    if p.exists():
        Net().load_state_dict(torch.load(p))
"""
SHARED = """
import torch
from data import Net, rows, others
net = Net()
def go_through(part, opt=None):
    for x, y in part:
        loss = torch.nn.functional.cross_entropy(net(x), y)
        if opt:
            loss.backward()
for epoch in range(3):
    net.train()
    go_through(rows, opt)
    net.eval()
    with torch.no_grad():
        go_through(others)
"""
HELD_OUT = """
import torch
from sklearn.model_selection import train_test_split
a, b, c, d = train_test_split(rows, answers, random_state=1)
net = torch.nn.Sequential(torch.nn.Linear(9, 2))
for epoch in range(3):
    net.train()
    for part in a.split(512):
        net(part).mean().backward()
    net.eval()
    with torch.no_grad():
        print(net(b))
"""
BY_CLICK = """
import click, torch
from torchvision.models import resnet50
from torch.utils.data import DataLoader
@click.command()
@click.option("--rows", default=64)
def main(rows):
    loader = DataLoader(pictures, rows, shuffle=True)
    for epoch in range(3):
        for x, y in loader:
            torch.nn.functional.cross_entropy(resnet50()(x), y).backward()
main()
"""
BY_FASTAI = """
import timm
from fastai.vision.all import *
learn = Learner(loaders, timm.create_model("resnet50", pretrained=True, num_classes=9)).to_fp16()
learn.fit_one_cycle(30)
"""
ALL_OF_THEM = PREDICTING.replace(
    "for net in nets:\n            print(net(x.cuda()))", "print([u(x) for u in nets])"
)
OTHER_WORDS = (
    ("eval-mode-missing", STEPS, "    net.eval()\n", ""),
    ("no-grad-missing", STEPS, "with torch.no_grad():", "if True:"),
    ("no-early-stopping", STEPS, " and waited < 3", ""),
    ("loader-pin-memory", STEPS.replace("epoch = 0\n", FEED), "pin_memory=True", "drop_last=True"),
    ("loader-persistent-workers", STEPS.replace("epoch = 0\n", FEED), ", persistent_workers=True", ""),
    ("batch-too-small", STEPS.replace("epoch = 0\n", FEED), '{"batch_size": 128}', "dict(batch_size=8)"),
    (
        "no-early-stopping",
        TABLE.replace("num_boost_round=3000", "3000"),
        "lgb.early_stopping(100)",
        "lgb.log_evaluation(100)",
    ),
    ("eval-mode-missing", PREDICTING, ".cuda().eval()", ".cuda()"),
    ("no-grad-missing", PREDICTING, "with torch.no_grad():", "if True:"),
    ("prediction-needs-all-folds", PREDICTING, "if fd.exists():", "if True:"),
    ("eval-mode-missing", PHASES, 'net.train(part == "fit")', "net.train()"),
    ("no-grad-missing", OWN_METHOD, "with torch.no_grad():", "if True:"),
    ("no-grad-missing", ALL_OF_THEM, "with torch.no_grad():", "if True:"),
    ("prediction-needs-all-folds", LISTED, "if p.exists():", "if True:"),
    ("eval-mode-missing", SHARED, "    net.eval()\n", ""),
    ("eval-mode-missing", HELD_OUT, "    net.eval()\n", ""),
    ("batch-too-small", BY_CLICK, "default=64", "default=8"),
    ("no-mixed-precision", BY_FASTAI, ".to_fp16()", ""),
    ("batch-does-not-fit", IN_YAML, "bs: 256", "bs: 4096"),
    ("batch-does-not-fit", BY_NAME, "PATIENCE = 256", "PATIENCE = 4096"),
)


@pytest.mark.parametrize(
    ("rule", "script", "good", "bad"), OTHER_WORDS, ids=[case[0] for case in OTHER_WORDS]
)
def test_a_fault_in_other_words_is_found(
    seeded_sqlite: Database, rule: str, script: str, good: str, bad: str
) -> None:
    context = {"gpu": "a100"} if rule == "batch-does-not-fit" else {}
    check(rule, script, good, bad, seeded_sqlite, **context)
