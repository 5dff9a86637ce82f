"""Do the image, the compose file and the manifests agree with the program and with one another?"""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import httpx2
import pytest
import yaml
from typer.core import TyperGroup
from typer.main import get_command

from memory_service import __version__
from memory_service.app import create_app
from memory_service.cli import app
from memory_service.settings import Settings, load_settings
from tests.conftest import Servers
from tests.mcp.conftest import serving

ROOT = Path(__file__).resolve().parent.parent
DOCKERFILE = (ROOT / "Dockerfile").read_text(encoding="utf-8").replace("\\\n", " ")
COMPOSE: dict[str, Any] = yaml.safe_load((ROOT / "compose.yaml").read_text(encoding="utf-8"))
OURS = [name for name, service in COMPOSE["services"].items() if "build" in service]
KUBERNETES = ROOT / "deploy" / "kubernetes"
MANIFESTS: list[dict[str, Any]] = [
    document
    for file in sorted(KUBERNETES.glob("*.yaml"))
    for document in yaml.safe_load_all(file.read_text(encoding="utf-8"))
]
FILES = [ROOT / "Dockerfile", ROOT / "compose.yaml", *sorted((ROOT / "deploy").rglob("*.*"))]


def of_dockerfile(instruction: str) -> str:
    """What the last such instruction says."""
    return str(re.findall(rf"^{instruction} +(.*)$", DOCKERFILE, re.MULTILINE)[-1])


def of_kind(kind: str) -> dict[str, Any]:
    (found,) = (manifest for manifest in MANIFESTS if manifest["kind"] == kind)
    return found


def pods(node: Any) -> Iterator[dict[str, Any]]:
    """Every description of a pod."""
    if isinstance(node, dict):
        if "containers" in node:
            yield node
        for value in node.values():
            yield from pods(value)
    elif isinstance(node, list):
        for value in node:
            yield from pods(value)


PORT = int(re.findall(r"MEMORY_PORT=(\d+)", DOCKERFILE)[0])
UID = int(of_dockerfile("USER").split(":")[0])
HEALTHCHECK: list[str] = json.loads(of_dockerfile("HEALTHCHECK").partition(" CMD ")[2])


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_every_variable_is_a_setting(file: Path) -> None:
    known = {f"MEMORY_{name.upper()}" for name in Settings.model_fields}
    assert set(re.findall(r"MEMORY_[A-Z_]+", file.read_text(encoding="utf-8"))) <= known


def test_the_settings_of_the_image_are_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    given = dict(re.findall(r"(MEMORY_[A-Z_]+)=(\S+)", of_dockerfile("ENV")))
    given |= {name: value for name, value in of_kind("ConfigMap")["data"].items() if "MEMORY" in name}
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    settings = load_settings()
    assert (settings.host, settings.port, settings.require_keys) == ("0.0.0.0", PORT, True)
    assert settings.database_url.startswith("postgresql://memory@")
    assert not settings.calibrate


def test_one_port_is_meant_everywhere() -> None:
    assert of_dockerfile("EXPOSE") == str(PORT)
    assert [port.rpartition(":")[2] for port in COMPOSE["services"]["server"]["ports"]] == [str(PORT)]
    (container,) = next(pods(of_kind("Deployment")))["containers"]
    assert {port["name"]: port["containerPort"] for port in container["ports"]} == {"http": PORT}
    assert of_kind("Service")["spec"]["ports"][0]["targetPort"] == "http"
    assert of_kind("ServiceMonitor")["spec"]["endpoints"][0]["port"] == "http"
    assert of_kind("NetworkPolicy")["spec"]["ingress"][0]["ports"] == [{"port": "http"}]
    scraped = yaml.safe_load((ROOT / "deploy" / "prometheus.yml").read_text(encoding="utf-8"))
    assert scraped["scrape_configs"][0]["static_configs"] == [{"targets": [f"server:{PORT}"]}]


def test_the_image_of_this_version_is_started() -> None:
    image = f"memory-service:{__version__}"
    assert {COMPOSE["services"][name]["image"] for name in OURS} == {image}
    (renamed,) = of_kind("Kustomization")["images"]
    assert (renamed["name"], renamed["newTag"]) == ("memory-service", __version__)
    images = {c["image"] for m in MANIFESTS for pod in pods(m) for c in pod["containers"]}
    assert images == {"memory-service", image}


def test_what_is_built_is_an_extra_that_exists() -> None:
    with (ROOT / "pyproject.toml").open("rb") as file:
        extras = tomllib.load(file)["project"]["optional-dependencies"]
    assert set(re.findall(r"^ARG EXTRA=(\w+)", DOCKERFILE, re.MULTILINE)) <= extras.keys()
    assert {"server", "otel"} <= extras.keys()


def test_what_the_dockerfile_copies_is_there_and_sent_to_the_builder() -> None:
    copied = re.findall(r"^COPY (?!--from)(.*) \S+$", DOCKERFILE, re.MULTILINE)
    names = {name for line in copied for name in line.split()}
    lines = (ROOT / ".dockerignore").read_text(encoding="utf-8").split("\n")
    sent = {line[1:] for line in lines if line.startswith("!")}
    assert sent == names
    assert all((ROOT / name).exists() for name in names)
    excluded = [line for line in lines if line.startswith("**")]
    assert not [name for name in names if any(fnmatch(name, line[3:]) for line in excluded)]


def test_probes_ask_for_routes_that_exist(tmp_path: Path) -> None:
    made = create_app(load_settings(database_url=f"sqlite:///{tmp_path}/x.sqlite3"))
    routes = {route.path for route in made.state.routes}
    (container,) = next(pods(of_kind("Deployment")))["containers"]
    probes = {kind: container[f"{kind}Probe"]["httpGet"] for kind in ("startup", "liveness", "readiness")}
    assert {kind: probe["path"] for kind, probe in probes.items()} == {
        "startup": "/healthz", "liveness": "/healthz", "readiness": "/readyz",
    }  # fmt: skip
    assert {probe["port"] for probe in probes.values()} == {"http"}
    asked = set(re.findall(r"'GET', '([^']+)'", HEALTHCHECK[-1]))
    asked |= {of_kind("ServiceMonitor")["spec"]["endpoints"][0]["path"]}
    assert asked | {"/healthz"} <= routes


def commands() -> Iterator[list[str]]:
    entry, shell = json.loads(of_dockerfile("ENTRYPOINT")), []
    assert entry == ["memory-service"]
    yield json.loads(of_dockerfile("CMD"))
    for name in OURS:
        service = COMPOSE["services"][name]
        if "entrypoint" in service:
            shell += service["command"]
        else:
            yield [word for word in service["command"] if "$" not in word]
    for container in (c for m in MANIFESTS for pod in pods(m) for c in pod["containers"]):
        if "command" in container:
            shell += container.get("args", [])
        else:
            yield container["args"]
    for line in re.findall(r"memory-service ([a-z ]+)", "\n".join(shell)):
        yield line.split()


def test_the_commands_that_containers_run_exist() -> None:
    every = list(commands())
    assert ["db", "upgrade"] in every
    assert every.count(["db", "backup"]) == 2
    for words in every:
        command, left = get_command(app), list(words)
        while left and isinstance(command, TyperGroup):
            command = command.commands[left.pop(0)]
        known = {option for param in command.params for option in param.opts}
        assert set(left) <= known, words


def test_no_container_can_write_its_files_or_gain_rights() -> None:
    for name, service in COMPOSE["services"].items():
        assert service["read_only"], name
        assert service["cap_drop"] == ["ALL"], name
        assert service["security_opt"] == ["no-new-privileges:true"], name
    for name in OURS:
        assert f"/data:uid={UID},gid={UID},mode=0700" in COMPOSE["services"][name]["tmpfs"]
    found = [pod for manifest in MANIFESTS for pod in pods(manifest)]
    assert len(found) == 4
    for pod in found:
        rights = pod["securityContext"]
        assert (rights["runAsNonRoot"], rights["runAsUser"], rights["fsGroup"]) == (True, UID, UID)
        for container in pod["containers"]:
            assert container["securityContext"] == {
                "allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True,
                "capabilities": {"drop": ["ALL"]},
            }  # fmt: skip
            assert {"/tmp", "/data"} <= {mount["mountPath"] for mount in container["volumeMounts"]}


def test_what_can_be_set_is_listed_and_no_secret_is_there() -> None:
    used = re.findall(r"(?<!\$)\$\{([A-Z_]+)", (ROOT / "compose.yaml").read_text(encoding="utf-8"))
    example = (ROOT / "deploy" / "compose.env.example").read_text(encoding="utf-8")
    listed = dict(re.findall(r"^([A-Z_]+)=(.*)$", example, re.MULTILINE))
    assert listed.keys() == set(used)
    assert listed["POSTGRES_PASSWORD"] == ""
    assert of_kind("Secret")["stringData"] == {"PGPASSWORD": ""}
    ignored = (ROOT / ".gitignore").read_text(encoding="utf-8").split("\n")
    assert {"/.env", "/deploy/metrics_key"} <= set(ignored)


def test_the_kustomization_names_what_can_be_applied() -> None:
    optional = {"kustomization.yaml", "secret.example.yaml", "servicemonitor.yaml", "toolbox.yaml"}
    every = {file.name for file in KUBERNETES.glob("*.yaml")}
    assert set(of_kind("Kustomization")["resources"]) == every - optional


@pytest.fixture(scope="module")
def site(servers: Servers) -> Iterator[str]:
    url = servers.new("sqlite", "seeded")
    with serving(url) as address:
        yield address
    servers.drop(url)


def health(port: int) -> int:
    assert HEALTHCHECK[0] == "python"
    environment = os.environ | {"MEMORY_PORT": str(port)}
    return subprocess.run(
        [sys.executable, *HEALTHCHECK[1:]], env=environment, stderr=subprocess.DEVNULL
    ).returncode


def test_the_health_check_passes_on_a_ready_server_and_fails_without(site: str, tmp_path: Path) -> None:
    assert health(int(site.rpartition(":")[2])) == 0
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        assert health(nobody.getsockname()[1]) == 1


def test_the_health_check_fails_where_the_server_is_not_ready(
    monkeypatch: pytest.MonkeyPatch, site: str
) -> None:
    from memory_service.services.operations.readiness import Preparation, State

    monkeypatch.setattr(Preparation, "checked", lambda _: State())
    assert httpx2.get(f"{site}/readyz").status_code == 503
    assert health(int(site.rpartition(":")[2])) == 1


def test_alarms_are_about_figures_that_the_service_gives(site: str) -> None:
    rules = yaml.safe_load((ROOT / "deploy" / "alerts.yml").read_text(encoding="utf-8"))["groups"][0]["rules"]
    named = {name for rule in rules for name in re.findall(r"memory_service_\w+", rule["expr"])}
    assert named == {"memory_service_requests_total", "memory_service_rows_left_out"}
    shown = httpx2.get(f"{site}/metrics").text
    assert all(re.search(rf"^{name}[ {{]", shown, re.MULTILINE) for name in named)
