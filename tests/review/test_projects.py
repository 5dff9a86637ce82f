"""Is a folder read as one project: imports resolved inside it, settings of its files followed?"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import pytest
from typer.testing import CliRunner

from memory_service.cli import app
from memory_service.services.review.review import review_script

ENGINE = """import torch
def one_epoch(net, loader, opt):
    for x, y in loader:
        opt.zero_grad(); loss = net(x.cuda(), y.cuda()); loss.backward(); opt.step()
if __name__ == "__main__":
    for epoch in range(99):
        one_epoch(1, 2, 3)
"""
TRAIN = """import torch, {loader}
from engine import one_epoch as run
import settings as s
from nets.small import Net
{config}
net = Net().cuda(); opt = torch.optim.AdamW(net.parameters())
loader = torch.utils.data.DataLoader(rows, batch_size=s.BATCH, shuffle=True, num_workers=8)
for epoch in range({epochs}):
    run(net, loader, opt)
"""
NET = "import timm\ndef Net():\n    return timm.create_model('resnet50', num_classes=3)\n"


def project(config: str, epochs: str, loader: str = "yaml", **more: str) -> dict[str, str]:
    return {
        "src/train.py": TRAIN.format(loader=loader, config=config, epochs=epochs), "src/engine.py": ENGINE,
        "src/settings.py": "BATCH = 48\n", "src/nets/__init__.py": "", "src/nets/small.py": NET, **more,
    }  # fmt: skip


def reviewed(files: dict[str, str], name: str = "src/train.py") -> dict[str, Any]:
    return dict(review_script(None, {"script": files[name], "filename": name, "files": files}))


def test_imports_of_the_folder_give_batch_model_and_the_loop() -> None:
    read = reviewed(project("EPOCHS = 7", "EPOCHS"))["read"]
    assert [read[name] for name in ("batch_size", "model", "epochs", "trains")] == [48, "resnet50", 7, True]


@pytest.mark.parametrize(
    ("config", "epochs", "loader", "file", "text"),
    [
        ("c = yaml.safe_load(open('../conf/a.yaml'))", "c['train']['epochs']", "yaml", "conf/a.yaml",
         "train:\n  epochs: 9\n"),
        ("with open('a.json') as f:\n    c = json.load(f)", "c['epochs']", "json", "a.json", '{"epochs": 9}'),
        ("c = OmegaConf.load('a.yaml')", "c.train.epochs", "yaml", "a.yaml", "train:\n  epochs: 9\n"),
    ],
)  # fmt: skip
def test_settings_of_a_file_are_followed(config: str, epochs: str, loader: str, file: str, text: str) -> None:
    found = reviewed(project(config, epochs, loader, **{file: text}))
    assert found["read"]["epochs"] == 9
    assert found["read"]["batch_size"] == 48


def test_settings_of_hydra_are_followed_with_their_groups() -> None:
    script = """import hydra, torch
@hydra.main(config_path="conf", config_name="base", version_base=None)
def main(cfg):
    loader = torch.utils.data.DataLoader(rows, batch_size=cfg.data.batch, shuffle=True, num_workers=8)
    for epoch in range(cfg.epochs):
        for x in loader:
            loss = net(x); loss.backward(); opt.step()
main()
"""
    files = {
        "train.py": script, "conf/base.yaml": "defaults:\n  - data: large\nepochs: 11\n",
        "conf/data/large.yaml": "batch: 24\n",
    }  # fmt: skip
    read = reviewed(files, "train.py")["read"]
    assert (read["epochs"], read["batch_size"]) == (11, 24)


def test_a_finding_names_the_module_and_its_line() -> None:
    files = project("EPOCHS = 3", "EPOCHS")
    files["src/engine.py"] = "from torch.cuda.amp import autocast\n" + ENGINE
    (found,) = (one for one in reviewed(files)["findings"] if one["rule"] == "deprecated-amp")
    assert (found["file"], found["line"]) == ("src/engine.py", 1)
    own = next(one for one in reviewed(files)["findings"] if one["rule"] == "no-deadline")
    assert ("file" in own, own["line"]) == (False, 8)


def test_a_folder_is_reviewed_by_its_scripts_that_train(tmp_path: Path) -> None:
    for name, text in project("EPOCHS = 7", "EPOCHS", **{"plot.py": "import torch\nprint(1)\n"}).items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
    cells = [{"cell_type": "code", "source": "x = 1", "outputs": []}]
    (tmp_path / "look.ipynb").write_text(json.dumps({"cells": cells, "metadata": {}, "nbformat": 4}), "utf-8")
    shown = CliRunner().invoke(app, ["review", str(tmp_path), "--json"])
    answer = json.loads(shown.output)
    assert list(answer["scripts"]) == ["src/train.py"]
    assert answer["read"]["epochs"] == 7
    files = {one["file"] for one in answer["findings"]}
    assert files == {"src/train.py", "src/engine.py", "src/nets/small.py"}


def test_a_folder_without_a_script_is_refused(tmp_path: Path) -> None:
    assert CliRunner().invoke(app, ["review", str(tmp_path)]).exit_code != 0


@pytest.mark.parametrize("broken", ["def (", "x = 1\n" * 30_000])
def test_a_module_that_cannot_be_read_does_not_stop_the_script(broken: str) -> None:
    files = project("EPOCHS = 7", "EPOCHS")
    files["src/settings.py"] = broken
    assert reviewed(files)["read"]["epochs"] == 7


def test_modules_that_import_each_other_are_read_once() -> None:
    files = {"a.py": "import b\nx = b.y\n", "b.py": "import a\ny = a.x\n"}
    assert reviewed(files, "a.py")["findings"] == []


@pytest.mark.parametrize("top", ["", "mine/"])
def test_a_zip_archive_is_a_project(tmp_path: Path, top: str) -> None:
    archive = tmp_path / "project.zip"
    with ZipFile(archive, "w") as made:
        for path, text in project("EPOCHS = 7", "EPOCHS").items():
            made.writestr(top + path, text)
    told = CliRunner().invoke(app, ["review", str(archive), "--json", "--fail-on", "error"])
    assert json.loads(told.stdout)["read"]["batch_size"] == 48


def test_an_archive_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    broken = tmp_path / "project.zip"
    broken.write_bytes(b"PK\x03\x04 no archive")
    assert CliRunner().invoke(app, ["review", str(broken)]).exit_code == 1
