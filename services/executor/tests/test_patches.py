"""Diffs through policy and git, and candidates through what they may change: what is refused is refused before anything runs."""

import os
from collections.abc import Mapping
from pathlib import Path

import pytest

from autopatch.contract.code import FileChange, Trial
from autopatch.contract.errors import ContractError, Refused, Unavailable
from autopatch.contract.requests import RunTests
from autopatch.repair.diffs import make_diff
from autopatch.repair.proving import for_repair
from autopatch.repair.tree import Files
from services.executor.adapters.runtimes.engine import Engine
from services.executor.adapters.sandbox.container import DockerSandbox
from services.executor.adapters.sandbox.limits import MIB, Limits
from services.executor.adapters.workshop.patches import patched, restored
from services.executor.tests.workshop import Bench, archive, of, outcomes

TREE = Files(
    {
        "calc.py": b"def add(a, b):\r\n    return a - b\r\n", "src/café.txt": b"caf\xe9\nplain\n", "old.py": b"x = 1\n",
        "tests/test_calc.py": b"import calc\n\n\ndef test_add():\n    assert calc.add(1, 2) == 3\n", "run.sh": b"echo\n",
    },
    executable=("run.sh",),
)


COMMAND = "python -m pytest -q"


def diff() -> bytes:
    """The fix, byte by byte."""
    return make_diff(TREE, TREE.changed({"calc.py": TREE["calc.py"].replace(b"a - b", b"a + b")}))


async def test_git_applies_what_the_policy_lets_through_and_no_other_byte_changes() -> None:
    wanted: dict[str, bytes | None] = {
        "calc.py": TREE["calc.py"].replace(b"a - b", b"a + b"), "src/café.txt": b"caf\xe9\nfancy\n", "old.py": None,
        "src/new.py": b"y = 2",
    }
    assert await patched(make_diff(TREE, TREE.changed(wanted)), TREE) == wanted


async def test_git_listens_to_nobodys_configuration(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / ".gitconfig").write_text("[core]\n autocrlf = true\n whitespace = error\n[apply]\n whitespace = error\n")
    for name, value in {"HOME": tmp_path, "XDG_CONFIG_HOME": tmp_path, "GIT_DIR": tmp_path, "GIT_EXEC_PATH": tmp_path}.items():
        monkeypatch.setenv(name, str(value))
    assert (await patched(diff(), TREE))["calc.py"] == b"def add(a, b):\r\n    return a + b\r\n"


async def test_what_proves_something_by_the_command_is_put_back_in_candidates_and_refused_in_diffs() -> None:
    tree = for_repair(TREE, ["sh", "run.sh"])
    changes: dict[str, bytes | None] = {"run.sh": b"true\n", "calc.py": b"x = 1\n"}
    assert set(restored(of("t", changes), tree).changes) == {"calc.py"} < set(restored(of("t", changes), TREE).changes)
    with pytest.raises(Refused, match=r"'run.sh' belongs to the tests"):
        await patched(make_diff(tree, tree.changed({"run.sh": b"true\n"})), tree)


FIX = b"+    return a + b\r\n"
HEAD = b"diff --git a/calc.py b/calc.py\n--- a/calc.py\n+++ b/calc.py\n@@ -1,2 +1,2 @@\n def add(a, b):\r\n-    return a - b\r\n"
TRICKS: dict[str, bytes] = {
    "nothing": b"",
    "prose": b"just change the sign\n",
    "tests": make_diff(TREE, TREE.changed({"tests/test_calc.py": b"def test_add(): pass\n"})),
    "configuration": make_diff(TREE, TREE.changed({"conftest.py": b"x = 1\n"})),
    "another base": HEAD.replace(b"a - b", b"a * b") + FIX,
    "out of the repository": HEAD.replace(b"calc.py", b"../calc.py") + FIX,
    "into git": HEAD.replace(b"calc.py", b".git/hooks/pre-commit") + FIX,
    "a link": b"diff --git a/l b/l\nnew file mode 120000\n--- /dev/null\n+++ b/l\n@@ -0,0 +1 @@\n+/etc/passwd\n",
    "a mode": HEAD.replace(b"\n", b"\nold mode 100644\nnew mode 100755\n", 1) + FIX,
    "an exit": HEAD + b"+    import os; os._exit(0)\r\n",
    "an object that equals everything": HEAD + b"+    return type('A', (int,), {'__eq__': lambda *_: True})(3)\r\n",
}


@pytest.mark.parametrize("what", list(TRICKS))
async def test_a_trick_is_refused(what: str) -> None:
    with pytest.raises(Refused) as refused:
        await patched(TRICKS[what], TREE)
    assert str(refused.value)


async def test_without_git_the_work_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "defpath", "/nowhere")
    with pytest.raises(Unavailable, match="git: there is no git command"):
        await patched(diff(), TREE)


def test_a_candidate_keeps_the_snapshots_own_tests_and_configuration() -> None:
    changes: Mapping[str, str | None] = {
        "calc.py": "x = 1\n", "tests/test_calc.py": "", "conftest.py": "x", "setup.cfg": "y", "test_other.py": "z",
        "old.py": None,
    }
    run = restored(of("t", changes), TREE)
    assert (run.refused, dict(run.changes)) == ("", {"calc.py": b"x = 1\n", "old.py": None})


@pytest.mark.parametrize(
    ("path", "content"),
    [
        ("/etc/passwd", "eA=="), ("../calc.py", "eA=="), (".git/config", "eA=="), ("calc.py/x", "eA=="), ("src", "eA=="),
        ("calc.py", "no base64!"), ("calc.py", "aW1wb3J0IGdjCmdjLmdldF9vYmplY3RzKCkK"), ("a\0b.py", "eA=="),
    ],
)
def test_a_candidate_that_leads_out_or_forges_is_not_run(path: str, content: str) -> None:
    assert restored(Trial(id="t", changes=(FileChange(path=path, content=content),)), TREE).refused.startswith("refused: ")


@pytest.fixture
def bench(engine: Engine, image: str) -> Bench:
    """Under runc."""
    return Bench(DockerSandbox(engine, Limits(output=32 * MIB), runtime="runc"), image)


@pytest.mark.docker
async def test_a_diff_is_red_before_and_green_after(bench: Bench) -> None:
    job = await bench.job(TREE, COMMAND)
    before, after = await bench.run(job, unchanged=1, diff=await bench.blobs.put(diff()))
    assert (before.trial, outcomes(before)) == ("", {"tests/test_calc.py::test_add": "failed"})
    assert (after.trial, outcomes(after)) == ("diff", {"tests/test_calc.py::test_add": "passed"})
    with pytest.raises(Refused):
        await bench.run(job, diff=await bench.blobs.put(TRICKS["an exit"]))


@pytest.mark.docker
async def test_what_is_not_run_is_told_in_its_place(bench: Bench) -> None:
    job = await bench.job(TREE, COMMAND)
    tries = [
        of("out", {"../x": "y"}), of("same", {}), of("forges", {"calc.py": "import os\nos._exit(0)\n"}), of("off", {"/x": "y"}),
        of("good", {"calc.py": "def add(a, b):\n    return a + b\n"}), of("end", {"/x": "y"}),
    ]
    reports = await bench.run(job, tries)
    assert [report.trial for report in reports] == ["out", "same", "forges", "off", "good", "end"]
    assert [bool(report.problem) for report in reports] == [True, False, True, True, False, True]


async def test_a_snapshot_or_candidates_that_are_none_are_told_as_such() -> None:
    bench = Bench(DockerSandbox(Engine("unix:///nowhere")), "none")
    job = await bench.job(TREE)
    broken = job.model_copy(update={"snapshot": await bench.blobs.put(archive({"../x": "y"}))})
    with pytest.raises(ContractError, match="leads out of the repository"):
        await bench.run(broken, unchanged=1)
    with pytest.raises(ContractError, match="candidates cannot be read"):
        await bench.workshop.run_tests(RunTests(incident_id="one", job=job, trials=await bench.blobs.put(b"{}")))
    with pytest.raises(Unavailable, match="docker: .* does not answer"):
        await bench.run(job, unchanged=1)
