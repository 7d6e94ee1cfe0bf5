"""The Docker engine and the demo service on it."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from autopatch.cli.lab.docker import LABEL, Engine, left
from autopatch.cli.lab.payments import CALM, IMAGE, Payments
from autopatch.contract.errors import Unavailable

pytestmark = [pytest.mark.docker, pytest.mark.slow]


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    found = Engine()
    found.start()
    found.build_images()
    yield found
    found.stop()


def test_an_engine_that_somebody_else_still_uses_is_left_running(engine: Engine) -> None:
    another = Engine()
    another.start()
    assert another.host == engine.host
    another.stop()
    assert engine.docker("version", "--format", "{{.Server.Version}}")


def test_what_docker_complains_about_is_told(engine: Engine) -> None:
    with pytest.raises(Unavailable, match="No such container"):
        engine.docker("stop", "no-such-container-of-ours")


@pytest.mark.long
def test_the_service_breaks_and_is_put_back_and_nothing_stays(engine: Engine, tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    service = Payments(engine, tmp_path / "payments", f"test-{tmp_path.name}")
    try:
        service.start()
        service.load(CALM)
        time.sleep(6)
        calm = service.traffic
        assert calm.requests > 100 and calm.error_ratio == 0 and calm.p95_s < 0.3
        service.release_bad()
        time.sleep(6)
        assert service.release == "2" and service.traffic.error_ratio > 0.05
        service.config.write_text(service.config.read_text().replace("10,", "20,"))
        service.restore()
        assert service.release == "1" and '"pool_size": 10,' in service.config.read_text()
    finally:
        service.stop()
    assert engine.containers(f"test-{tmp_path.name}") == []


def test_a_container_that_a_lab_left_is_told_to_nobody_but_that_lab(engine: Engine, tmp_path: Path) -> None:
    lab = f"test-{tmp_path.name}"
    made = engine.docker("create", "--network", "none", "--label", f"{LABEL}={lab}", f"{IMAGE}:1")
    try:
        assert left(engine.host, lab) == [f"container {made[:12]}"]
        assert left(engine.host, f"{lab}-2") == []
    finally:
        engine.remove([made])
    assert left(engine.host, lab) == []
