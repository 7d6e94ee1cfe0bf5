"""Tools are run as commands; what they say is compared with what they leave."""

import json
import socket
import sys
import threading
import time
from pathlib import Path

import httpx2
import pytest
from pydantic import SecretStr

from autopatch.chassis.llm.endpoint import Endpoint
from autopatch.contract.code import RepairVerdict
from autopatch.contract.errors import Unavailable
from autopatch.contract.evidence import ModelUse
from bench.repair import micro
from bench.repair.box import ProcessBox
from bench.repair.case import Case
from bench.repair.judge import judge
from bench.repair.proc import run
from bench.repair.proxy import Proxy
from bench.repair.tests.scripted import KEY, OUTPUT, PROMPT, scripted
from bench.repair.tests.test_repair_judge import CASE
from bench.repair.tools.autopatch import AutoPatch, applied
from bench.repair.tools.mini import Mini
from bench.repair.tools.plain import Plain, spliced

MICRO = {case.id: case for case in micro.load()}
BOX = ProcessBox()
DIFF = "--- a/calc.py\n+++ b/calc.py\n@@ -1,2 +1,2 @@\n def add(a, b):\n-    return a - b\n+    return a + b\n"


def command(folder: Path, text: str, code: int = 0) -> tuple[str, ...]:
    """A program that writes down how it was called, prints `text` and ends with `code`."""
    program = folder / "program"
    lines = ["#!/bin/sh", f"cd '{folder}'", "env > env", "printf '%s\\n' \"$@\" > arguments", "cat text", f"exit {code}", ""]
    program.write_text("\n".join(lines))
    program.chmod(0o755)
    (folder / "text").write_text(text)
    return (str(program),)


def said(**fields: object) -> str:
    base = {"verdict": "fixed", "reason": "", "incident": "i", "repository": "one"}
    return RepairVerdict.model_validate({**base, **fields}).model_dump_json() + "\n"


def test_a_verdict_is_taken_with_its_diff_and_its_figures(tmp_path: Path) -> None:
    use = ModelUse(mode="local", calls=3, input_tokens=900, output_tokens=80)
    tool = AutoPatch("local", "http://127.0.0.1:1", command=command(tmp_path, said(diff=DIFF, attempts=2, model=use)))
    found = tool.repair(CASE, tmp_path / "work", 60)
    assert (found.verdict, found.attempts, found.calls, found.prompt_tokens, found.output_tokens) == ("fixed", 2, 3, 900, 80)
    assert judge(CASE, found.tree, BOX, 60).solved
    arguments = (tmp_path / "arguments").read_text().splitlines()
    assert arguments[:3] == ["--url", "http://127.0.0.1:1", "repair"]
    assert arguments[4:6] == ["--test", "python3 -m pytest -q"] and arguments[-1] == "--json"
    assert "--model" not in arguments


def test_each_case_begins_without_lessons_but_with_the_model(tmp_path: Path) -> None:
    tool = AutoPatch("local", seed=11, host="unix:///engine", command=command(tmp_path, said(verdict="no_fix_found"), 1))
    tool.repair(CASE, tmp_path / "work", 60)
    arguments = (tmp_path / "arguments").read_text().splitlines()
    assert arguments[0] == "repair" and arguments[arguments.index("--model") + 1] == "local"
    env = dict(line.split("=", 1) for line in (tmp_path / "env").read_text().splitlines() if "=" in line)
    assert env["XDG_CACHE_HOME"] == str(tmp_path / "work" / "cache")
    assert not env["AUTOPATCH_LLM_MODEL_DIR"].startswith(str(tmp_path)) and env["AUTOPATCH_LLM_SEED"] == "11"
    assert env["AUTOPATCH_EXECUTOR_DOCKER_HOST"] == env["DOCKER_HOST"] == "unix:///engine" and "AUTOPATCH_URL" not in env


def test_calls_of_the_local_model_are_counted_on_the_way_and_no_setting_of_the_caller_s_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AUTOPATCH_PLANNER_TEMPLATES_S", "1")
    program = command(tmp_path, said(verdict="cancelled", model=None), 1)
    asks = [
        "import httpx2, json, os, pathlib",
        "served = json.loads((pathlib.Path(os.environ['AUTOPATCH_LLM_RUN_DIR']) / 'scripted.json').read_text())",
        "httpx2.post(served['base_url'] + '/v1/chat/completions', json={'messages': []}, trust_env=False).raise_for_status()",
    ]
    (tmp_path / "asks.py").write_text("\n".join(asks))
    script = (tmp_path / "program").read_text().replace("cat text", f"'{sys.executable}' asks.py\ncat text")
    (tmp_path / "program").write_text(script)
    with scripted("anything") as server:
        tool = AutoPatch("local", counting=lambda: Proxy(server.endpoint), command=program)
        found = tool.repair(CASE, tmp_path / "work", 60)
    assert (found.verdict, found.calls, found.prompt_tokens, found.output_tokens) == ("cancelled", 1, PROMPT, OUTPUT)
    env = (tmp_path / "env").read_text()
    assert "AUTOPATCH_PLANNER_TEMPLATES_S" not in env


def test_no_case_counts_while_the_model_server_is_away() -> None:
    with Proxy(Endpoint("http://127.0.0.1:9/v1", "gone", SecretStr("k"))) as proxy:
        answer = httpx2.post(f"{proxy.address}/chat/completions", json={"messages": []}, trust_env=False)
        assert answer.status_code == 502
        with pytest.raises(Unavailable, match="model server"):
            proxy.reset()


def test_the_diff_in_the_file_goes_before_the_one_in_the_verdict(tmp_path: Path) -> None:
    program = command(tmp_path, said(diff=DIFF.replace("a + b", "a * b")))
    (tmp_path / "right").write_text(DIFF)
    script = (tmp_path / "program").read_text().replace("cat text", 'cat text\ncp right work/fix.diff')
    (tmp_path / "program").write_text(script)
    found = AutoPatch("off", command=program).repair(CASE, tmp_path / "work", 60)
    assert judge(CASE, found.tree, BOX, 60).solved


def test_a_command_that_ends_without_a_verdict_has_none(tmp_path: Path) -> None:
    tool = AutoPatch("off", command=command(tmp_path, "something else\n", 3))
    found = tool.repair(CASE, tmp_path / "work", 60)
    assert (found.verdict, found.reason, dict(found.tree)) == ("", "something else", dict(CASE.repository))


def test_a_diff_that_git_does_not_take_changes_nothing(tmp_path: Path) -> None:
    tool = AutoPatch("off", command=command(tmp_path, said(diff=DIFF.replace("a - b", "a * b"))))
    found = tool.repair(CASE, tmp_path / "work", 60)
    assert (found.verdict, found.reason) == ("fixed", "git does not take its diff")
    assert not judge(CASE, found.tree, BOX, 60).plausible


def test_no_case_counts_against_a_command_that_cannot_be_called(tmp_path: Path) -> None:
    with pytest.raises(Unavailable, match="cannot be called: no such command"):
        AutoPatch("off", command=command(tmp_path, "no such command", 2)).check()
    AutoPatch("off", command=command(tmp_path, "usage")).check()
    with pytest.raises(Unavailable, match="no engine here"):
        text = said(verdict="sandbox_unavailable", reason="no engine here")
        AutoPatch("off", command=command(tmp_path, text, 1)).repair(CASE, tmp_path / "work", 60)


def test_a_program_at_its_limit_is_interrupted_before_it_is_killed(tmp_path: Path) -> None:
    program = "import time\ntry:\n    time.sleep(30)\nexcept KeyboardInterrupt:\n    print('cleaned up')\n"
    ran = run([sys.executable, "-c", program], tmp_path, {}, 1.5, grace_s=10)
    assert (ran.code, ran.stdout) == (None, "cleaned up\n")
    assert ran.seconds < 5


def test_what_ends_in_the_background_is_waited_for(tmp_path: Path) -> None:
    ran = run(["sh", "-c", "(sleep 3; touch done) & exit 0"], tmp_path, {"PATH": "/usr/bin:/bin"}, 10, linger_s=10)
    assert ran.code == 0 and ran.seconds < 2.5 and (tmp_path / "done").exists()


def test_bytes_outside_of_utf8_are_read_from_their_escapes() -> None:
    case = MICRO["invoice"]
    patch = (micro.FOLDER / "invoice" / "fix.patch").read_bytes()
    escaped = "".join(f"\\x{byte:02x}" if byte > 127 else chr(byte) for byte in patch)
    tree, note = applied(case.repository, escaped.encode())
    assert note == "" and judge(case, tree, BOX, 60).solved


def test_a_program_that_takes_too_long_is_ended_with_its_children(tmp_path: Path) -> None:
    began = time.monotonic()
    ran = run(["sh", "-c", "(sleep 2; touch late) & echo begun; sleep 30"], tmp_path, {"PATH": "/usr/bin:/bin"}, 1)
    assert ran.code is None and ran.stdout == "begun\n" and time.monotonic() - began < 10
    time.sleep(2)
    assert not (tmp_path / "late").exists()


def ask(address: str, **body: object) -> httpx2.Response:
    message = {"messages": [{"role": "user", "content": "hello"}], "model": "anything", **body}
    with httpx2.Client(trust_env=False, timeout=30) as client:
        return client.post(f"{address}/chat/completions", json=message)


def test_a_proxy_counts_bounds_and_keeps_the_key() -> None:
    with scripted("hi") as server, Proxy(server.endpoint, longest=200, seed=5) as proxy:
        assert ask(proxy.address).json()["choices"][0]["message"]["content"] == "hi"
        assert ask(proxy.address, max_tokens=9000, seed=1).status_code == 200
        used = proxy.reset()
        assert (used.calls, used.failed, used.prompt_tokens, used.output_tokens) == (2, 0, 2 * PROMPT, 2 * OUTPUT)
        assert [(a["max_tokens"], a["seed"], a["model"]) for a in server.asked] == [(200, 5, "scripted"), (200, 1, "scripted")]
        assert proxy.reset().calls == 0


def test_a_proxy_refuses_what_it_cannot_count() -> None:
    with scripted("hi") as server, Proxy(server.endpoint) as proxy:
        assert ask(proxy.address, stream=True).status_code == 400
        assert server.asked == []


def test_a_proxy_says_that_the_server_is_away() -> None:
    with scripted("hi") as server:
        gone = server.endpoint
    with Proxy(gone) as proxy:
        assert ask(proxy.address).status_code == 502
        assert (proxy.use.calls, proxy.use.failed) == (1, 1)


def test_a_call_that_nobody_waits_for_is_dropped() -> None:
    held, dropped = threading.Event(), threading.Event()

    with socket.create_server(("127.0.0.1", 0)) as listening:
        def serve() -> None:
            connection, _ = listening.accept()
            with connection:
                connection.settimeout(20)
                connection.recv(65536)
                held.set()
                while connection.recv(65536):
                    pass
                dropped.set()

        thread = threading.Thread(target=serve)
        thread.start()
        upstream = Endpoint(f"http://127.0.0.1:{listening.getsockname()[1]}/v1", "m", SecretStr(KEY))
        with Proxy(upstream) as proxy:
            asking = threading.Thread(target=ask, args=(proxy.address,))
            asking.start()
            assert held.wait(10)
        assert dropped.wait(5)
        thread.join()
        asking.join()


GOOD = "Here it is:\n```python\ndef add(a, b):\n    return a + b\n```\n"
BAD = "```python\ndef add(a, b):\n    return a * b + 1\n```\n"


def plain(case: Case, folder: Path, *answers: str) -> tuple[bool, int, int, list[float]]:
    with scripted(*answers) as server:
        found = Plain(lambda: Proxy(server.endpoint), BOX).repair(case, folder, 120)
        return judge(case, found.tree, BOX, 60).solved, found.calls, found.attempts, [a["temperature"] for a in server.asked]


def test_the_plain_loop_takes_the_first_answer_that_passes(tmp_path: Path) -> None:
    assert plain(CASE, tmp_path, BAD, "no code", GOOD) == (True, 3, 3, [0, 0.8, 0.8])


def test_the_plain_loop_gives_up_after_four(tmp_path: Path) -> None:
    assert plain(CASE, tmp_path, BAD) == (False, 4, 4, [0, 0.8, 0.8, 0.8])


def test_the_plain_loop_asks_nothing_where_tests_pass(tmp_path: Path) -> None:
    assert plain(MICRO["slugs"], tmp_path, BAD)[1:] == (0, 0, [])


def test_a_method_is_spliced_into_its_class_with_its_imports() -> None:
    text = '"""Doc."""\nimport os\n\n\nclass A:\n    def f(self):\n        return 1\n\n    def g(self):\n        return 2\n'
    made = spliced(text, "import math\nimport os\n\ndef g(self):\n    if self:\n        return math.pi\n")
    assert made == (
        '"""Doc."""\nimport os\nimport math\n\n\nclass A:\n    def f(self):\n        return 1\n\n'
        "    def g(self):\n        if self:\n            return math.pi\n"
    )


def test_a_function_that_is_not_there_changes_nothing() -> None:
    assert spliced("def f():\n    return 1\n", "def other():\n    return 2\n") is None


def test_line_ends_are_kept_when_a_function_is_spliced() -> None:
    assert spliced("def f():\r\n    return 1\r\n", "def f():\n    return 2") == "def f():\r\n    return 2\r\n"


def test_shell_commands_of_a_model_are_not_run_without_an_engine(tmp_path: Path) -> None:
    with scripted("x") as server, pytest.raises(Unavailable, match="no engine"):
        Mini(lambda: Proxy(server.endpoint), "", {}).repair(CASE, tmp_path, 10)


def test_the_key_of_the_server_is_in_no_request_body() -> None:
    with scripted("hi") as server, Proxy(server.endpoint) as proxy:
        ask(proxy.address)
        assert KEY not in json.dumps(server.asked)
