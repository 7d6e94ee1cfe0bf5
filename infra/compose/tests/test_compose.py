"""compose.yaml is not run here; what can be checked without an engine is."""

import asyncio
import re
import shutil
import subprocess
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from nats.aio.client import Client
from nats.errors import Error as NatsError
from ruamel.yaml import YAML

from autopatch.chassis.llm.settings import LlmSettings
from autopatch.chassis.settings import Common
from autopatch.cli.lab import nats
from autopatch.contract.catalogue import ROOMS
from infra.nats import keys

INFRA = Path(__file__).parents[2]
SERVICE_KEYS = {
    "build", "cap_add", "cap_drop", "command", "depends_on", "environment", "healthcheck", "image", "init", "ports", "read_only",
    "restart", "security_opt", "tmpfs", "user", "volumes",
}
"""Of the compose specification, those that are used here."""
HOME, APP, OWNER = "/home/autopatch", "/app", "10001"
"""Of the image: where its user lives, where it starts, and who owns what is on the volumes."""
READ_ONLY = {
    "AUTOPATCH_TARGETS", "AUTOPATCH_NKEY_FOLDER", "AUTOPATCH_EXECUTOR_POLICY", "AUTOPATCH_EXECUTOR_PROCESS_PATH",
    "AUTOPATCH_KNOWLEDGE_RUNBOOKS",
}
"""Settings whose values have a slash in them and are not written to."""


def load(name: str) -> Any:
    """With anchors and merges resolved."""
    return YAML(typ="safe").load((INFRA / name).read_text())


@pytest.fixture(scope="module")
def services() -> dict[str, Any]:
    found: dict[str, Any] = load("compose.yaml")["services"]
    return found


def defaults(*rooms: str) -> dict[str, Any]:
    """Every variable that a setting of these rooms reads, with what it is when it is not there."""
    found: list[Any] = [Common, *(import_module(f"services.{room}.settings").Settings for room in rooms)]
    found += [LlmSettings] if any("llm" in cls.model_fields for cls in found) else []
    return {
        f"{cls.model_config['env_prefix']}{name}".upper(): field.get_default(call_default_factory=True)
        for cls in found for name, field in cls.model_fields.items()
    }


def written(service: dict[str, Any], room: str, monkeypatch: pytest.MonkeyPatch) -> dict[str, Path]:
    """What this room's settings say of files and folders that it writes to, in its container."""
    monkeypatch.setenv("HOME", HOME)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    known = {**defaults(room), **service["environment"]}
    paths = {name: value for name, value in known.items() if isinstance(value, str | Path) and "/" in str(value)}
    return {name: Path(APP, value) for name, value in paths.items() if "://" not in str(value) and name not in READ_ONLY}


def mounts(service: dict[str, Any]) -> list[tuple[str, str, bool]]:
    """(source, where, may it be written to). Of a volume's folder the source is VOLUME/FOLDER."""
    found = []
    for mount in service.get("volumes", []):
        if isinstance(mount, dict):
            found.append((f"{mount['source']}/{mount['volume']['subpath']}", mount["target"], not mount["read_only"]))
        else:
            source, target, *mode = mount.split(":")
            found.append((source, target, mode != ["ro"]))
    return found


def test_every_room_is_a_service_that_starts_itself(services: dict[str, Any]) -> None:
    for room in ROOMS:
        assert services[room]["command"] == ["python", "-m", f"services.{room}"]
        assert services[room]["healthcheck"]["test"][0] == "CMD"


def test_only_keys_of_the_specification_are_used(services: dict[str, Any]) -> None:
    assert {name: set(service) - SERVICE_KEYS for name, service in services.items() if set(service) - SERVICE_KEYS} == {}


def test_every_variable_is_a_setting(services: dict[str, Any]) -> None:
    used = {v for service in services.values() for v in service.get("environment", {}) if v.startswith("AUTOPATCH_")}
    assert used - set(defaults(*ROOMS)) == set()


def test_what_a_service_waits_for_is_there(services: dict[str, Any]) -> None:
    for name, service in services.items():
        assert set(service.get("depends_on", {})) <= set(services), name


def test_every_mounted_file_and_volume_is_there(services: dict[str, Any]) -> None:
    volumes = set(load("compose.yaml")["volumes"])
    of_the_operator = ("../targets", "../runbooks", "../secrets")
    for name, service in services.items():
        for source, _, _ in mounts(service):
            if source.startswith("."):
                assert source.startswith(of_the_operator) or (INFRA / source).exists(), f"{name}: {source}"
            elif not source.startswith("/"):
                assert source.split("/")[0] in volumes, f"{name}: {source}"


def test_ports_are_published_on_the_loopback_only_and_none_twice(services: dict[str, Any]) -> None:
    published = [port for service in services.values() for port in service.get("ports", [])]
    assert all(port.startswith("127.0.0.1:") for port in published)
    assert len({port.split(":")[1] for port in published}) == len(published)


def test_only_the_executor_gets_the_engine(services: dict[str, Any]) -> None:
    assert [name for name, service in services.items() if "docker.sock" in str(service.get("volumes"))] == ["executor"]


@pytest.mark.parametrize("room", ROOMS)
def test_what_a_room_writes_to_lies_on_a_mount(services: dict[str, Any], room: str, monkeypatch: pytest.MonkeyPatch) -> None:
    service = services[room]
    writable = [*service["tmpfs"], *(where for _, where, may in mounts(service) if may)]
    paths = written(service, room, monkeypatch)
    assert service["read_only"] and "AUTOPATCH_STATE" in paths
    assert {name: path for name, path in paths.items() if not any(path.is_relative_to(mount) for mount in writable)} == {}


def test_nobody_has_the_seed_of_another(services: dict[str, Any]) -> None:
    folders = {name: [m for m in mounts(service) if m[0].startswith("keys")] for name, service in services.items()}
    assert folders.pop("keys") == [("keys", "/keys", True)], "it makes them"
    assert folders.pop("nats") == [("keys/server", "/etc/nats/keys", False)]
    assert folders.pop("streams") == [("keys/admin", "/keys/admin", False)]
    assert {name: found for name, found in folders.items() if found} == {
        room: [(f"keys/{room}", f"/keys/{room}", False)] for room in ROOMS
    }


def test_a_room_that_is_not_the_owner_of_the_volumes_may_pass_over_their_modes(services: dict[str, Any]) -> None:
    assert f"chown -R {OWNER} /keys" in services["keys"]["command"][-1]
    for room in ROOMS:
        assert services[room].get("cap_add", []) == (["DAC_OVERRIDE"] if "user" in services[room] else [])
        assert services[room]["cap_drop"] == ["ALL"]


def test_the_gateway_and_nobody_else_knows_the_token_of_the_knowledge_room(services: dict[str, Any]) -> None:
    environments = {name: service.get("environment", {}) for name, service in services.items()}
    knowing = {name: v for name, values in environments.items() for key, v in values.items() if "KNOWLEDGE_TOKEN" in key}
    assert set(knowing) == {"gateway", "knowledge"} and len(set(knowing.values())) == 1 and ":?" in knowing["gateway"]


def test_images_have_a_version(services: dict[str, Any]) -> None:
    for name, service in services.items():
        assert "build" in service or re.fullmatch(r"[\w./-]+:v?\d+\.\d+[\w.-]*", service["image"]), name


@pytest.mark.skipif(not shutil.which("promtool"), reason="no promtool here")
def test_prometheus_accepts_its_configuration(tmp_path: Path) -> None:
    text = (INFRA / "compose" / "prometheus.yml").read_text().replace("/etc/prometheus/rules", str(INFRA / "prometheus"))
    file = tmp_path / "prometheus.yml"
    file.write_text(text)
    done = subprocess.run(["promtool", "check", "config", file], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.skipif(not shutil.which("amtool"), reason="no amtool here")
def test_alertmanager_accepts_its_configuration() -> None:
    file = INFRA / "compose" / "alertmanager.yml"
    done = subprocess.run(["amtool", "check-config", file], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_nats_accepts_the_generated_users_and_turns_others_away(tmp_path: Path) -> None:
    keys.main(tmp_path / "keys")
    server = nats.start(tmp_path, authorization='include "keys/server/accounts.conf"')

    async def connect(seed: str | None) -> None:
        found = Client()
        try:
            await found.connect(server.url, allow_reconnect=False, connect_timeout=2, error_cb=_quiet, nkeys_seed=seed)
        finally:
            await found.close()

    try:
        asyncio.run(connect(str(tmp_path / "keys" / "monitor" / "seed.nk")))
        with pytest.raises(NatsError):
            asyncio.run(connect(None))
    finally:
        server.stop()


async def _quiet(_: Exception) -> None:
    """The refusal is what is looked for."""


def test_nats_syncs_every_write_and_knows_the_rooms() -> None:
    text = (INFRA / "nats" / "server.conf").read_text()
    assert "sync_interval: always" in text and 'include "keys/accounts.conf"' in text
