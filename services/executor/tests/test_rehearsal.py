"""The rehearsal: red unchanged, green changed, without secrets; scripted first, then in a real sandbox."""

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from autopatch.chassis.redaction import redact
from autopatch.contract import events as ev
from autopatch.contract.errors import OperatorError, Unavailable
from autopatch.contract.evidence import Measurement, Rehearsal
from autopatch.contract.lifecycle import Incident
from autopatch.contract.model import digest
from services.executor import agent
from services.executor.adapters.editors.edit import REPLACED
from services.executor.adapters.runtimes.engine import Engine
from services.executor.adapters.sandbox.container import DockerSandbox
from services.executor.adapters.sandbox.job import Job, Outcome
from services.executor.adapters.sandbox.rehearsal import SandboxRehearsal, figures_of
from services.executor.tests.given import CONFIG, NOW, RELEASE, a_plan, a_target, add, pool

CHECK = """
import json, re, sys
text = open(sys.argv[1]).read()
size = int(re.search(r'"pool_size": (\\d+)', text)[1])
print("a line"); print(text, file=sys.stderr)
print(json.dumps({"p95_s": 2.0 / size, "name": "x", "ok": True}))
sys.exit(0 if size >= 20 else 1)
"""


@dataclass
class ScriptedSandbox:
    """Answers in turn, and remembers what it was given."""

    answers: list[Any]
    jobs: list[Job] = field(default_factory=list)

    async def run(self, job: Job) -> Outcome:
        self.jobs.append(job)
        answer = self.answers[len(self.jobs) - 1]
        if isinstance(answer, Exception):
            raise answer
        return answer if isinstance(answer, Outcome) else Outcome(answer, '{"p95_s": 0.5}\n', "", 1.0, "runc")


async def rehearse(
    folder: Path,
    sandbox: Any,
    *actions: Any,
    command: tuple[str, ...] = ("check", "{release}", "{config:main}"),
    image: str = "i:{release}",
) -> Rehearsal:
    (folder / "config.json").write_bytes(CONFIG)
    target = a_target(folder, rehearse={"command": list(command), "image": image, "timeout_s": 20})
    return await SandboxRehearsal(sandbox)(target, a_plan(*actions, digest=digest(CONFIG)), "r1")


async def test_red_then_green_has_passed(tmp_path: Path) -> None:
    sandbox = ScriptedSandbox([1, 0])
    told = await rehearse(tmp_path, sandbox, pool(), RELEASE)
    assert told.passed
    assert [(run.label, run.outcome, run.figures) for run in told.runs] == [
        ("unchanged", "red", {"p95_s": 0.5}),
        ("changed", "green", {"p95_s": 0.5}),
    ]
    before, after = sandbox.jobs
    assert (before.image, after.image) == ("i:r1", "i:r2")
    assert before.command == ("check", "r1", "/work/config/0-config.json")
    assert after.command == ("check", "r2", "/work/config/0-config.json")
    assert before.files["config/0-config.json"] == CONFIG.replace(b"hunter2-secret", REPLACED.encode())
    assert after.files["config/0-config.json"] == before.files["config/0-config.json"].replace(b"10", b"20")
    assert "release r1 -> r2" in told.diff
    assert '+    "pool_size": 20,' in told.diff


@pytest.mark.parametrize(
    ("answers", "says", "runs"),
    [
        ([0], "the fault does not show in the rehearsal", 1),
        ([1, 1, 1], r"the changed copy is still red \(p95_s 0.5\)", 3),
        ([1, 1, Outcome(2, "", "", 1, "runc")], "the changed copy is still red", 3),
        ([Outcome(2, "", "no such module", 1, "runc")], "unchanged copy ended by an error: exit code 2: no such module", 1),
        (
            [1, Outcome(None, "", "", 1, "runc", "it took longer than 9 s")],
            "changed copy ended by an error: no exit code: it took longer than 9 s",
            2,
        ),
        ([Outcome(127, "", "", 1, "runc")], "exit code 127: no output", 1),
    ],
)
async def test_anything_else_has_not_passed_and_says_why(tmp_path: Path, answers: list[Any], says: str, runs: int) -> None:
    told = await rehearse(tmp_path, ScriptedSandbox(answers), pool())
    assert not told.passed
    assert len(told.runs) == runs
    with pytest.raises(AssertionError, match=says):
        raise AssertionError(told.reason)


async def test_a_changed_copy_that_is_red_once_and_green_once_is_no_verdict(tmp_path: Path) -> None:
    with pytest.raises(Unavailable, match="could not judge: .* red once and green once"):
        await rehearse(tmp_path, ScriptedSandbox([1, 1, 0]), pool())


async def test_a_missing_engine_is_not_a_verdict(tmp_path: Path) -> None:
    with pytest.raises(Unavailable):
        await rehearse(tmp_path, ScriptedSandbox([Unavailable("docker", "gone")]), pool())


async def test_output_is_short_and_redacted(tmp_path: Path) -> None:
    loud = Outcome(1, "x" * 20_000 + " hunter2-secret", "token=abcdefghijklmnop1234567890", 1, "runc")
    told = await rehearse(tmp_path, ScriptedSandbox([loud, 0]), pool())
    assert len(told.runs[0].output) < 7000
    assert "hunter2" not in told.runs[0].output
    assert "abcdefghijklmnop" not in told.runs[0].output


def test_figures_are_the_numbers_of_the_last_json_line() -> None:
    assert figures_of('{"a": 1}\n{"b": 2.5, "c": "x", "d": true, "e": NaN}\ntext\n{broken\n') == {"b": 2.5}
    assert figures_of("no figures\n[1]\n") == {}


@pytest.mark.docker
@pytest.mark.parametrize("runtime", ["runc", "runsc"])
async def test_a_real_rehearsal_in_a_sealed_container(
    tmp_path: Path, engine: Engine, image: str, client: Any, runtime: str
) -> None:
    if runtime not in client.info()["Runtimes"]:
        pytest.skip(f"the engine has no runtime {runtime}")
    sandbox = DockerSandbox(engine, runtime=runtime)
    told = await rehearse(tmp_path, sandbox, pool(), command=("python3", "-c", CHECK, "{config:main}"), image=image)
    assert told.passed, told
    assert [run.figures for run in told.runs] == [{"p95_s": 0.2}, {"p95_s": 0.1}]
    assert all(run.runtime == runtime for run in told.runs)
    assert "hunter2" not in told.model_dump_json()
    assert "a line" in told.runs[0].output
    wrong = await rehearse(tmp_path, sandbox, pool(9), command=("python3", "-c", CHECK, "{config:main}"), image=image)
    assert not wrong.passed
    assert "still red" in wrong.reason
    assert redact(json.dumps(CONFIG.decode())).count("hunter2") == 0


def test_a_rehearsal_has_the_load_that_was_measured_while_red(tmp_path: Path) -> None:
    target = a_target(tmp_path, rehearse={"command": ["load", "--rate", "{signal:traffic}"], "image": "i", "timeout_s": 20})
    seen = Measurement(signal="traffic", query="q", start=NOW, end=NOW, status="value", last=141.52)
    opened = add(Incident("one"), ev.Opened(target=target.name, title="slow"))
    incident = add(opened, ev.Reproduced(signal="p95", checks=(seen,)))
    filled = agent.under_load(target, incident)
    assert filled.rehearse and filled.rehearse.command == ("load", "--rate", "141.5")
    with pytest.raises(OperatorError, match="was not measured while red"):
        agent.under_load(target, opened)


async def test_a_rehearsal_that_could_not_judge_is_waited_for_and_counts_as_nothing(tmp_path: Path) -> None:
    busy = Outcome(75, '{"p95_s": 0.4}\n', "too busy to judge: late", 1.0, "runc")
    with pytest.raises(Unavailable, match="too busy to judge"):
        await rehearse(tmp_path, ScriptedSandbox([1, busy]), pool())
