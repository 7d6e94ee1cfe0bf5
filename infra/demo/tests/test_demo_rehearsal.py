"""The demo target's own rehearsal as the executor runs it, in its sandbox: a wrong fix is refused, the runbook's passes."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from autopatch.chassis.targets import load_target
from autopatch.cli.lab import docker
from autopatch.cli.lab.payments import RAISED
from autopatch.contract import events as ev
from autopatch.contract.actions import Reload, SetConfig
from autopatch.contract.evidence import Measurement, Rehearsal
from autopatch.contract.lifecycle import Incident
from autopatch.contract.model import digest
from autopatch.contract.plan import Basis, Plan, Precondition, Step, SuccessCheck
from autopatch.contract.target import Target
from services.executor import agent
from services.executor.adapters.delivery.start import rehearsal_for
from services.executor.adapters.runtimes.engine import Engine
from services.executor.settings import Settings
from services.executor.tests.given import NOW, add

pytestmark = [pytest.mark.docker, pytest.mark.slow, pytest.mark.quiet, pytest.mark.timeout(240)]
ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(scope="module")
def host() -> Iterator[str]:
    engine = docker.Engine()
    engine.start()
    engine.build_images()
    yield engine.host
    engine.stop()


def the_target(folder: Path) -> Target:
    """The shipped example, with the configuration that is shipped where it says."""
    config = folder / ".autopatch/payments/config.json"
    config.parent.mkdir(parents=True)
    config.write_bytes((ROOT / "infra/demo/config.json").read_bytes())
    (folder / "targets").mkdir()
    (folder / "targets/payments.yaml").write_bytes((ROOT / "targets/payments.yaml").read_bytes())
    return load_target(folder / "targets/payments.yaml")


async def rehearsed(folder: Path, host: str, pool_size: int) -> Rehearsal:
    """Of that size, under the load of the demo's fault."""
    target = the_target(folder)
    shipped = digest(Path(target.configs[0].path).read_bytes())
    plan = Plan(
        target=target.name, summary=f"a pool of {pool_size}", cause="pool_exhausted",
        steps=(
            Step(
                action=SetConfig(file="config", key="database.pool_size", value=pool_size),
                precondition=Precondition(config_digest=shipped),
            ),
            Step(action=Reload(), precondition=Precondition(instance="one", release="1")),
        ),
        success=SuccessCheck(signal="latency_p95", settle_s=30, soak_s=20),
        basis=Basis(kind="person", ref="a test", why="scripted"),
    )
    seen = Measurement(signal="traffic", query="q", start=NOW, end=NOW, status="value", last=RAISED)
    opened = add(Incident("one"), ev.Opened(target=target.name, title="slow"))
    incident = add(opened, ev.Reproduced(signal="latency_p95", checks=(seen,)))
    rehearse = rehearsal_for(Settings(docker_host=host), Engine(host))
    return await rehearse(agent.under_load(target, incident), plan, "1")


async def test_a_pool_that_is_made_smaller_is_refused_by_its_rehearsal(tmp_path: Path, host: str) -> None:
    told = await rehearsed(tmp_path, host, 9)
    assert not told.passed and "the changed copy is still red" in told.reason
    assert [(run.label, run.outcome) for run in told.runs] == [("unchanged", "red"), ("changed", "red"), ("changed", "red")]
    assert [run.figures["pool_size"] for run in told.runs] == [10, 9, 9]
    assert all(run.figures["p95_s"] > 0.2 for run in told.runs)


@pytest.mark.long
async def test_a_pool_of_the_size_that_the_runbook_names_passes(tmp_path: Path, host: str) -> None:
    told = await rehearsed(tmp_path, host, 20)
    assert told.passed, told.reason
    assert [(run.label, run.outcome, run.figures["pool_size"]) for run in told.runs] == [
        ("unchanged", "red", 10), ("changed", "green", 20),
    ]
