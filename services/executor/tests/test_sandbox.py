"""The sandbox on a real engine, under each of its runtimes: every attack is contained, and nothing is left."""

import asyncio
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from docker import DockerClient

from autopatch.contract.errors import Unavailable
from services.executor.adapters.runtimes.engine import Engine
from services.executor.adapters.runtimes.process import start_ticks
from services.executor.adapters.sandbox.container import DockerSandbox
from services.executor.adapters.sandbox.job import Job, Outcome
from services.executor.adapters.sandbox.limits import ENVIRONMENT, Limits
from services.executor.adapters.sandbox.owner import EXPIRES, OWNER, RUN, myself, reap, reaping

pytestmark = [pytest.mark.docker]


@pytest.fixture(params=["runc", pytest.param("runsc", marks=pytest.mark.long)])
def sandbox(request: pytest.FixtureRequest, client: DockerClient, engine: Engine) -> DockerSandbox:
    """Under one runtime of the engine."""
    if request.param not in client.info()["Runtimes"]:
        pytest.skip(f"the engine has no runtime {request.param}")
    return DockerSandbox(engine, runtime=request.param)


def left(client: DockerClient) -> list[str]:
    """What this process left on the engine."""
    mine = {"label": f"{OWNER}={myself()}"}
    containers = [str(found["Names"][0]).lstrip("/") for found in client.api.containers(all=True, filters=mine)]
    return containers + [v.name or "" for v in client.volumes.list(filters=mine)]


async def python(sandbox: DockerSandbox, image: str, code: str, timeout_s: float = 20, **files: bytes) -> Outcome:
    return await sandbox.run(
        Job(image, ("python3", "-c", code), timeout_s, {name.replace("__", "/"): data for name, data in files.items()})
    )


async def test_files_go_in_and_exit_code_and_output_come_out(sandbox: DockerSandbox, image: str, client: DockerClient) -> None:
    code = "import sys; print(open('in/a').read()); print('err', file=sys.stderr); sys.exit(3)"
    outcome = await python(sandbox, image, code, in__a=b"hello")
    assert (outcome.exit_code, outcome.stdout, outcome.stderr, outcome.why) == (3, "hello\n", "err\n", "")
    assert outcome.runtime in ("runc", "runsc")
    assert left(client) == []


CONTAINED: dict[str, tuple[str, Callable[[Outcome], bool]]] = {
    "no network but loopback": (
        "import socket\nfor a in [('127.0.0.1', 9), ('169.254.169.254', 80), ('8.8.8.8', 53)]:\n"
        " s = socket.socket(); s.settimeout(2)\n try:\n  s.connect(a); print('reached')\n"
        " except OSError as e: print(type(e).__name__)",
        lambda o: "reached" not in o.stdout,
    ),
    "loopback works": (
        "import socket\ns = socket.create_server(('127.0.0.1', 0)); c = socket.create_connection(s.getsockname()); print('ok')",
        lambda o: o.stdout == "ok\n",
    ),
    "threads and processes work": (
        "import threading, subprocess\nt = threading.Thread(target=print, args=('a',)); t.start(); "
        "t.join()\nprint(subprocess.run(['echo', 'b'], capture_output=True).stdout)",
        lambda o: o.stdout == "a\nb'b\\n'\n",
    ),
    "nobody, without capabilities or new privileges": (
        "import os\nprint(os.getuid(), [l.split()[1] for l in open('/proc/self/status') if l.startswith('CapEff')])",
        lambda o: o.stdout.startswith("65534 ['0000000000000000']"),
    ),
    "the root is read-only": (
        "for p in ('/x', '/usr/x', '/etc/passwd', '/var/x'):\n try:\n  open(p, 'a'); print('wrote', p)\n except OSError: pass",
        lambda o: "wrote" not in o.stdout and o.exit_code == 0,
    ),
    "memory ends": ("x = bytearray(1024**3)\nprint('got it', len(x))", lambda o: "got it" not in o.stdout and o.exit_code != 0),
    "work and scratch folders are sized": (
        "n = 0\nfor p in ('/work/f', '/tmp/f', '/dev/shm/f'):\n for i in range(9):\n  try:\n   with open(f'{p}{i}', 'wb') as f:\n"
        "    for _ in range(16): n += f.write(bytes(1024 * 1024))\n  except OSError: pass\nprint(n // 2**20)",
        lambda o: o.exit_code is None or o.exit_code != 0 or int(o.stdout) <= 64 + 64 + 8 + 3,
    ),
    "files do not grow for ever": (
        "import resource; print(*(resource.getrlimit(getattr(resource, f'RLIMIT_{n}'))[1] for n in ('FSIZE', 'CORE', 'NOFILE')))",
        lambda o: o.stdout == f"{64 * 2**20} 0 1024\n",
    ),
    "no secrets in the environment": (
        "import os; print(*sorted(os.environ))",
        lambda o: set(o.stdout.split()) <= {*ENVIRONMENT, "HOSTNAME", "PWD", "PYTHONUNBUFFERED"},
    ),
}


@pytest.mark.parametrize("what", list(CONTAINED))
async def test_contained(sandbox: DockerSandbox, image: str, what: str) -> None:
    code, holds = CONTAINED[what]
    outcome = await python(sandbox, image, code)
    assert holds(outcome), outcome


@pytest.mark.parametrize("family", ["AF_VSOCK", "AF_NETLINK", "AF_PACKET", "AF_ALG"])
async def test_other_socket_families_cannot_be_opened(sandbox: DockerSandbox, image: str, family: str) -> None:
    if sandbox._wanted == "runsc" and family == "AF_NETLINK":
        pytest.skip("gVisor has a netlink of its own, that knows only its own loopback")
    code = (
        f"import socket\ntry:\n"
        f" socket.socket(socket.{family}, socket.SOCK_RAW if '{family}' != 'AF_VSOCK' else socket.SOCK_STREAM); "
        f"print('opened')\nexcept OSError as e: print(e.errno)"
    )
    assert "opened" not in (await python(sandbox, image, code)).stdout


@pytest.mark.parametrize(
    ("call", "number"),
    [
        ("io_uring_setup", 425),
        ("ptrace", 101),
        ("unshare", 272),
        ("mount", 165),
        ("bpf", 321),
        ("keyctl", 250),
        ("userfaultfd", 323),
        ("setns", 308),
    ],
)
async def test_dangerous_system_calls_are_refused(image: str, engine: Engine, call: str, number: int) -> None:
    code = (
        f"import ctypes\nl = ctypes.CDLL(None, use_errno=True)\n"
        f"r = l.syscall({number}, 0, 0, 0, 0, 0)\nprint(r, ctypes.get_errno())"
    )
    assert (await python(DockerSandbox(engine, runtime="runc"), image, code)).stdout == "-1 1\n", call


async def test_a_fork_bomb_is_bounded(sandbox: DockerSandbox, image: str, client: DockerClient) -> None:
    code = (
        "import os, time\nn = 0\ntry:\n for _ in range(3000):\n  if os.fork() == 0:\n"
        "   time.sleep(3); os._exit(0)\n  n += 1\nexcept OSError: pass\nprint(n)"
    )
    outcome = await python(sandbox, image, code)
    assert outcome.stdout == "" or int(outcome.stdout) < 130
    assert left(client) == []


async def test_inodes_are_bounded(image: str, engine: Engine) -> None:
    code = "n = 0\ntry:\n for i in range(9999): open(f'/work/{i}', 'w').close(); n += 1\nexcept OSError: pass\nprint(n)"
    assert int((await python(DockerSandbox(engine, runtime="runc"), image, code)).stdout) < 4096


async def test_output_is_capped_to_head_and_tail_while_it_is_drained(sandbox: DockerSandbox, image: str) -> None:
    code = "import sys\nprint('first')\nfor _ in range(200): sys.stdout.write('x' * 100_000)\nprint('last')"
    outcome = await python(sandbox, image, code)
    assert outcome.exit_code == 0
    assert outcome.stdout.startswith("first\nxxx")
    assert outcome.stdout.endswith("xlast\n")
    assert "bytes left out]" in outcome.stdout
    assert len(outcome.stdout) <= 2 * Limits().output + 60


async def test_a_command_that_ignores_the_polite_signal_ends_at_its_limit(sandbox: DockerSandbox, image: str) -> None:
    code = (
        "import signal, time\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\nprint('in', flush=True)\nwhile True: time.sleep(0.1)"
    )
    outcome = await python(sandbox, image, code, timeout_s=1)
    assert outcome.exit_code is None
    assert outcome.why == "it took longer than 1 s"
    assert outcome.stdout == "in\n"
    assert outcome.seconds < 6


async def test_cancelled_and_gone_within_a_second_even_while_it_floods(
    sandbox: DockerSandbox, image: str, client: DockerClient
) -> None:
    code = "import sys\nwhile True: sys.stdout.write('x' * 100_000)"
    task = asyncio.ensure_future(python(sandbox, image, code))
    for _ in range(200):
        await asyncio.sleep(0.05)
        if client.api.containers(filters={"label": f"{OWNER}={myself()}"}):
            break
    await asyncio.sleep(0.3)
    begun = time.monotonic()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert time.monotonic() - begun < 4, "two seconds, and as much again for a busy machine"
    assert left(client) == []


async def test_cancelled_at_any_moment_nothing_is_left(image: str, engine: Engine, client: DockerClient) -> None:
    for delay in (0.0, 0.02, 0.05, 0.1, 0.2, 0.4):
        task = asyncio.ensure_future(python(DockerSandbox(engine), image, "import time; time.sleep(30)"))
        await asyncio.sleep(delay)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert left(client) == []


async def test_what_a_dead_executor_left_is_reaped_and_what_is_not_ours_stays(
    image: str, engine: Engine, client: DockerClient, docker_host: str, name: str
) -> None:
    code = f"""
import asyncio
from services.executor.adapters.runtimes.engine import Engine
from services.executor.adapters.runtimes.process import start_ticks
from services.executor.adapters.sandbox.container import DockerSandbox
from services.executor.adapters.sandbox.job import Job
asyncio.run(DockerSandbox(Engine({docker_host!r})).run(Job({image!r}, ("sleep", "100"), 100)))
"""
    stranger = client.containers.create(image, ["true"], name=name, network_mode="none")
    expired = client.volumes.create(f"{name}-expired", labels={RUN: "x", OWNER: "elsewhere/1/1", EXPIRES: "1000"})
    foreign = client.volumes.create(f"{name}-foreign", labels={RUN: "x", OWNER: "elsewhere/1/1", EXPIRES: "9000000000"})
    with subprocess.Popen([sys.executable, "-c", code]) as dying:
        theirs = {"label": f"{OWNER}={socket.gethostname()}/{dying.pid}/{start_ticks(dying.pid)}"}
        while not client.api.containers(filters=theirs):
            await asyncio.sleep(0.1)
        await reap(engine)  # how many it were is not asked: others use this engine, and reap when they start
        alive = client.api.containers(filters=theirs)
        dying.kill()
    assert alive and expired.name not in [v.name for v in client.volumes.list()]
    await reap(engine)
    assert client.api.containers(all=True, filters=theirs) == []
    assert foreign.name in [v.name for v in client.volumes.list()]
    stranger.reload()
    foreign.remove()


async def test_what_expired_is_removed_while_its_owner_lives(engine: Engine, client: DockerClient, image: str, name: str) -> None:
    def labels(left_s: float) -> dict[str, str]:
        return {RUN: name, OWNER: myself(), EXPIRES: str(int(time.time() + left_s))}

    client.containers.run(image, ["sleep", "100"], name=name, labels=labels(-5), network_mode="none", detach=True)
    client.volumes.create(name, labels=labels(-5))
    kept = client.volumes.create(f"{name}-kept", labels=labels(100))
    loop = asyncio.create_task(reaping(engine, 0.05))
    async with asyncio.timeout(30):
        while name in left(client):
            await asyncio.sleep(0.1)
    loop.cancel()
    assert left(client) == [kept.name]
    kept.remove()


async def test_a_missing_image_names_its_remedy(engine: Engine, client: DockerClient) -> None:
    with pytest.raises(Unavailable, match=r"image autopatch-no-such:1 is not on the engine \(infra/images/build.sh"):
        await DockerSandbox(engine).run(Job("autopatch-no-such:1", ("true",), 5))
    assert left(client) == []


async def test_a_missing_program_is_told_by_its_exit_code(sandbox: DockerSandbox, image: str) -> None:
    outcome = await sandbox.run(Job(image, ("no-such-program",), 5))
    assert outcome.exit_code == 127
    assert "no-such-program" in outcome.stderr


async def test_without_an_engine_nothing_runs(tmp_path: Path) -> None:
    with pytest.raises(Unavailable, match="docker: .* does not answer"):
        await DockerSandbox(Engine(f"unix://{tmp_path}/none.sock")).run(Job("x", ("true",), 5))
