"""Attacks on the sandbox, each a file: contained under every runtime, and under runc successful once their guard is gone."""

import re
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

import pytest
from docker import DockerClient

from autopatch.contract.code import Report
from services.executor.adapters.inside.watch import OUTPUT, all_passed
from services.executor.adapters.runtimes.engine import Engine
from services.executor.adapters.sandbox.container import DockerSandbox
from services.executor.adapters.sandbox.job import Job, Outcome
from services.executor.adapters.sandbox.limits import MIB, Limits
from services.executor.tests.workshop import Bench, dulled

pytestmark = [pytest.mark.docker]
T = TypeVar("T")
FOLDER = Path(__file__).parent / "attacks"
SUITE_S = 3
LIMITS = Limits(output=32 * MIB)
ENDED = "the container ended during the run"


@dataclass(frozen=True)
class Attack:
    """A file of the folder; its comments say which guard stops it, and where it is no attack."""

    name: str
    code: str

    def says(self, what: str) -> str:
        """The rest of the line that begins so."""
        found = re.search(rf"^# {what}: (.+)$", self.code, re.M)
        return found.group(1) if found else ""

    def runs(self) -> list[tuple[str, dict[str, bytes]]]:
        """One run, or two of which the second looks for traces of the first."""
        parts = range(1, int(self.says("parts") or 1) + 1)
        return [(f"{self.name}.{part}", {"attack.py": self.code.encode(), "part": str(part).encode()}) for part in parts]


TOOLS = (FOLDER / "tools.py.txt").read_text()
_NAMES = sorted(path.name.removesuffix(".py.txt") for path in FOLDER.glob("*.py.txt"))
ATTACKS = {name: Attack(name, (FOLDER / f"{name}.py.txt").read_text()) for name in _NAMES if name != "tools"}


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    """Of a server of the machine, which also listens on a socket without a file."""
    with socket.create_server(("127.0.0.1", 0)) as server, socket.socket(socket.AF_UNIX) as nameless:
        found: int = server.getsockname()[1]
        nameless.bind(f"\0autopatch-canary-{found}")
        nameless.listen()
        yield found


async def fight(
    bench: Bench, attacks: list[Attack], port: int, limit_s: float = 300, suite_s: float = SUITE_S
) -> dict[str, list[Report]]:
    """All of them in turn, in as few containers as they leave alive."""
    files = {"tools.py": TOOLS, "attack.py": "", "part": "", "port": str(port)}
    job = await bench.job(files, "python attack.py", suite_s=suite_s)
    told: dict[str, list[Report]] = {attack.name: [] for attack in attacks}
    for report in await bench.unread(job, [run for attack in attacks for run in attack.runs()], limit_s):
        told[report.trial.rpartition(".")[0]].append(report)
    return told


def successful(attack: Attack, reports: list[Report]) -> bool:
    """Did it reach what it was after?"""
    guard = attack.says("guard")
    if guard == "output":
        return any(len(report.output) > 2 * OUTPUT + 100 for report in reports)
    if guard in ("first", "reports", "limit"):
        return any(report.problem.startswith(ENDED) for report in reports)
    return any("REACHED" in report.output for report in reports)


def attacks_under(runtime: str, *, slow: bool) -> list[Attack]:
    """Those that are attacks there, and end in time."""
    return [
        attack for attack in ATTACKS.values()
        if not attack.says("not under").startswith(runtime)
        and slow is (attack.says("slow").startswith(runtime) or attack.says("stalls").startswith(runtime))
    ]


@pytest.mark.parametrize(
    ("runtime", "slow"), [("runc", False), ("runsc", False), pytest.param("runsc", True, marks=pytest.mark.long)]
)
@pytest.mark.timeout(400)
async def test_every_attack_is_contained_and_the_runs_after_it_go_on(
    runtime: str, slow: bool, client: DockerClient, engine: Engine, image: str, port: int
) -> None:
    if runtime not in client.info()["Runtimes"]:
        pytest.skip(f"the engine has no runtime {runtime}")
    bench = Bench(DockerSandbox(engine, LIMITS, runtime=runtime), image)
    attacks = attacks_under(runtime, slow=slow)
    for stalling in [attack for attack in attacks if attack.says("stalls").startswith(runtime)]:
        attacks.remove(stalling)
        told = await fight(bench, [stalling], port, limit_s=3)
        assert told[stalling.name][0].ended == "lost"
    told = await fight(bench, attacks, port)
    for attack in attacks:
        reports = told[attack.name]
        assert len(reports) == len(attack.runs()), f"{attack.name} was not run"
        ends = runtime == "runsc" and attack.says("guard") in ("first", "reports")
        assert ends or not successful(attack, reports), f"{attack.name}: {reports}"
        if attack.says("guard") in ("reports", "limit", "memory"):
            whole = attack.name != "memory_of_many_processes"
            assert not (whole and all_passed(reports[0].model_dump(), ())), f"{attack.name}: {reports}"


class Unmasked(Engine):
    """Its containers see every file of the kernel, as the engine does not have it by default."""

    async def do(self, work: Callable[[DockerClient], T], *, timeout_s: float | None = None) -> T:
        def unmasked(client: DockerClient) -> T:
            api: Any = client.api
            masked = api.create_container_from_config

            def create(config: dict[str, Any], *rest: Any) -> Any:
                config["HostConfig"] |= {"MaskedPaths": [], "ReadonlyPaths": []}
                return masked(config, *rest)

            api.create_container_from_config = create
            return work(client)

        return await super().do(unmasked, timeout_s=timeout_s)


class Unguarded(DockerSandbox):
    """A sandbox under runc without one of its guards."""

    def __init__(self, engine: Engine, guard: str, folder: Path) -> None:
        super().__init__(Unmasked(engine.host) if guard == "root" else engine, LIMITS, runtime="runc")
        self._guard, self._folder = guard, folder

    async def run(self, job: Job) -> Outcome:
        return await super().run(replace(job, first=job.first and self._guard != "first"))

    def options(self, limits: Limits, name: str, runtime: str, job: Job) -> tuple[dict[str, Any], dict[str, str]]:
        options, volume = super().options(limits, name, runtime, job)
        if self._guard == "volume":
            volume["o"] = re.sub(r"size=\d+,|,nr_inodes=\d+", "", volume["o"])
            options["mem_limit"] = options["memswap_limit"] = 1024 * MIB
        if self._guard == "root":
            options["volumes"] = [*options["volumes"], "/sys/fs/cgroup:/sys/fs/cgroup"]
        if self._guard == "mounts":
            options["volumes"] = [*options["volumes"], f"{self._folder}:/host:ro"]
        if self._guard == "environment":
            options["environment"] = {**options["environment"], "AUTOPATCH_NATS_PASSWORD": "x"}
        options.update(_WITHOUT.get(self._guard, {}))
        return options, volume


_WITHOUT: dict[str, dict[str, Any]] = {
    "processes": {"pids_limit": 2000, "mem_limit": 1024 * MIB, "memswap_limit": 1024 * MIB},
    "memory": {"mem_limit": 2048 * MIB, "memswap_limit": 2048 * MIB},
    "shm": {"shm_size": 128 * MIB},
    "scratch": {"tmpfs": {"/tmp": "rw"}, "mem_limit": 1024 * MIB, "memswap_limit": 1024 * MIB},
    "ulimits": {"ulimits": []},
    "network": {"network_mode": "host"},
    "seccomp": {"security_opt": ["no-new-privileges", "seccomp=unconfined"]},
    "seal and seccomp": {"security_opt": ["no-new-privileges", "seccomp=unconfined"]},
    "root": {
        "user": "0:0", "read_only": False, "cap_drop": [], "security_opt": ["seccomp=unconfined"],
        "cap_add": [
            "SYS_ADMIN", "NET_RAW", "MKNOD", "SYS_CHROOT", "SYS_MODULE", "SYS_RAWIO", "SYS_PTRACE", "SYSLOG",
        ],
    },
}
_SEAL = ("child.py", "prctl(4, int(not closed), 0, 0, 0)", "prctl(4, 1, 0, 0, 0)")
_DULLED: dict[str, list[tuple[str, str, str]]] = {
    "seal": [_SEAL],
    "seal and seccomp": [_SEAL],
    "kill": [("copies.py", "    patience = time.monotonic() + _PATIENCE_S\n", "    return True\n")],
    "clean": [
        ("copies.py", "            _remove(os.path.join(folder, name))\n", "            pass\n"),
        ("copies.py", "return not any(os.listdir(folder) for folder in _WRITABLE)", "return True"),
        ("copies.py", "os.makedirs(ROOT)", "os.makedirs(ROOT, exist_ok=True)"),
    ],
    "output": [("watch.py", "OUTPUT = 8 * 1024", "OUTPUT = 8 * 1024 * 1024")],
    "reports": [
        ("watch.py", "REPORTS = 16 * 1024 * 1024", "REPORTS = 1 << 60"),
        ("watch.py", "(ValueError, KeyError, TypeError, AttributeError, RecursionError)", "ZeroDivisionError"),
    ],
    "limit": [("watch.py", "if now >= self._deadline or (", "if False and (")],
}
"""Files that run inside, and what is taken out of them."""


def works_outside(attack: Attack, folder: Path) -> bool:
    """On this very machine, in no sandbox at all: some kernels do not have what it is after. It only opens and looks."""
    (folder / "tools.py").write_text(TOOLS)
    (folder / "attack.py").write_text(attack.code)
    done = subprocess.run([sys.executable, folder / "attack.py"], capture_output=True, text=True, check=False)
    return "REACHED" in done.stdout


GUARDS = sorted({attack.says("guard") for attack in ATTACKS.values()})


@pytest.mark.parametrize("guard", [pytest.param(g, marks=pytest.mark.long) if g == "limit" else g for g in GUARDS])
async def test_an_attack_succeeds_once_its_guard_is_gone(
    guard: str, engine: Engine, image: str, port: int, tmp_path: Path
) -> None:
    bench = Bench(Unguarded(engine, guard, tmp_path), image, inside=dulled(_DULLED.get(guard, [])))
    attacks = [attack for attack in ATTACKS.values() if attack.says("guard") == guard and not attack.says("stalls")]
    attacks = [attack for attack in attacks if not attack.says("needs") or works_outside(attack, tmp_path)]
    times = (2.0, SUITE_S) if guard == "limit" else (60.0, 20.0)  # what no guard stops must not fail for want of time
    told = await fight(bench, attacks, port, *times)
    assert [attack.name for attack in attacks if not successful(attack, told[attack.name])] == []


def test_there_are_at_least_forty_attacks_and_each_names_its_guard() -> None:
    assert len(ATTACKS) >= 40
    assert all(attack.says("guard") for attack in ATTACKS.values())


def test_every_guard_that_is_taken_away_stops_something() -> None:
    taken: set[str] = {*_WITHOUT, *_DULLED, "volume", "mounts", "environment", "first"}
    assert taken == set(GUARDS)
