"""Runs of tests in real containers: what is told of each test, whatever the tests do."""

import pytest
from docker import DockerClient

from autopatch.repair.judging import expected, judge
from services.executor.adapters.runtimes.engine import Engine
from services.executor.adapters.sandbox.container import DockerSandbox
from services.executor.adapters.sandbox.limits import MIB, Limits
from services.executor.tests.workshop import Bench, of, outcomes, trial

pytestmark = [pytest.mark.docker]

CALC = "def add(a, b):\n    return a - b\n\n\ndef wait(n):\n    while n:\n        pass\n    return n\n"
GOOD = CALC.replace("a - b", "a + b")
TESTS = """
import unittest
import calc
import pytest

def test_add():
    assert calc.add(1, 2) == 3

def test_loop():
    assert calc.wait(True) == 0

def test_zero():
    assert calc.add(0, 0) == 0

@pytest.fixture
def broken():
    raise KeyError("nothing here")

def test_fixture(broken):
    pass

@pytest.mark.skip
def test_skipped():
    pass

@pytest.mark.parametrize("n", [0, 1])
def test_each(n):
    assert calc.add(n, 0) == n

class Unit(unittest.TestCase):
    def test_equal(self):
        self.assertEqual(calc.add(2, 2), 4)
"""
REPOSITORY = {"calc.py": CALC, "tests/test_calc.py": TESTS, "tests/conftest.py": "", "pytest.ini": "[pytest]\npythonpath = .\n"}
T = "tests/test_calc.py::"


@pytest.fixture(params=["runc", pytest.param("runsc", marks=pytest.mark.long)])
def bench(request: pytest.FixtureRequest, client: DockerClient, engine: Engine, image: str, node_image: str) -> Bench:
    """Under one runtime of the engine."""
    if request.param not in client.info()["Runtimes"]:
        pytest.skip(f"the engine has no runtime {request.param}")
    return Bench(DockerSandbox(engine, Limits(output=32 * MIB), runtime=request.param), image, node_image)


async def test_every_test_of_pytest_is_told_with_outcome_values_frames_and_lines(bench: Bench) -> None:
    job = await bench.job(REPOSITORY, test_s=1)
    (report,) = await bench.run(job, unchanged=1, coverage=True)
    assert (report.ended, report.exit_code, report.problem) == ("finished", 1, "")
    assert outcomes(report) == {
        f"{T}test_add": "failed", f"{T}test_loop": "timed_out", f"{T}test_zero": "passed", f"{T}test_fixture": "error",
        f"{T}test_skipped": "skipped", f"{T}test_each[0]": "passed", f"{T}test_each[1]": "passed",
        f"{T}Unit::test_equal": "failed",
    }
    cases = {case.id: case for case in report.cases}
    add, loop, equal = cases[f"{T}test_add"], cases[f"{T}test_loop"], cases[f"{T}Unit::test_equal"]
    assert (add.actual, add.expected, equal.actual, equal.expected) == ("-1", "3", "0", "4")
    assert add.message.startswith("AssertionError: assert -1 == 3")
    assert [(frame.path, frame.function) for frame in loop.frames] == [("tests/test_calc.py", "test_loop"), ("calc.py", "wait")]
    assert "nothing here" in cases[f"{T}test_fixture"].message
    lines = {covered.test: covered.lines for covered in report.covered}
    assert lines[f"{T}test_add"]["calc.py"] == (2,)
    assert lines[f"{T}test_loop"]["calc.py"] == (6, 7)
    assert lines[""]["calc.py"] == (1, 5)


async def test_candidates_are_tried_in_turn_until_enough_have_passed(bench: Bench) -> None:
    job = await bench.job(REPOSITORY, test_s=1)
    exits = CALC.replace("return a - b", "raise SystemExit(0)")
    tries = [trial("same"), trial("import", calc_py="import nothing_like_it"), trial("gone", calc_py=None)]
    tries += [trial("exits", calc_py=exits), *(trial(name, calc_py=GOOD) for name in ("good", "better", "late"))]
    reports = await bench.run(job, tries, only=(f"{T}test_add", f"{T}Unit::test_equal"), enough=2)
    assert [report.trial for report in reports] == ["same", "import", "gone", "exits", "good", "better"]
    same, broken, gone, ending, good, _ = reports
    assert outcomes(same) == {f"{T}test_add": "failed"}, "the first failure is enough"
    assert "nothing_like_it" in broken.problem and "No module named 'calc'" in gone.problem
    assert outcomes(ending) == {f"{T}test_add": "failed"}
    assert outcomes(good) == {f"{T}test_add": "passed", f"{T}Unit::test_equal": "passed"}
    assert bench.answer and bench.answer.tried == 6


SEEDS = """
import os, random, time
def test_it():
    with open("/work/repository/seen", "x") as file:
        file.write("x")
    print(os.environ["PYTHONHASHSEED"], hash("autopatch"), time.strftime("%z"), random.random())
    assert False
"""


async def test_runs_of_the_unchanged_copy_have_other_hashes_zones_and_random_numbers_which_repeat(bench: Bench) -> None:
    job = await bench.job({"test_it.py": SEEDS})

    async def seen() -> list[str]:
        return [report.output.partition("stdout call")[2].splitlines()[1] for report in await bench.run(job, unchanged=3)]

    first = await seen()
    for part in zip(*(line.split() for line in first), strict=True):
        assert len(set(part)) == 3, first
    assert await seen() == first


UNIT = """
import unittest, calc
class A(unittest.TestCase):
    def test_add(self):
        self.assertEqual(calc.add(1, 2), 3)
    def test_zero(self):
        self.assertEqual(calc.add(0, 0), 0)
    def test_loop(self):
        calc.wait(True)
    @unittest.skip("no")
    def test_skipped(self):
        pass
    def test_parts(self):
        for n in (0, 1):
            with self.subTest(n=n):
                self.assertEqual(calc.add(0, n), n)
if __name__ == "__main__":
    unittest.main()
"""


@pytest.mark.parametrize(
    ("command", "prefix"),
    [
        ("python -m unittest", "test_unit.A."), ("python3 -m unittest test_unit.py", "test_unit.A."),
        ("python test_unit.py", "__main__.A."),
    ],
)
async def test_unittest_is_told_in_the_same_words(bench: Bench, command: str, prefix: str) -> None:
    job = await bench.job({"calc.py": CALC, "test_unit.py": UNIT}, command, test_s=1, suite_s=4)
    only = (f"{prefix}test_add", f"{prefix}test_zero")
    plain, good = await bench.run(job, [trial("good", calc_py=GOOD)], unchanged=1, only=only)
    assert outcomes(plain) == {f"{prefix}test_add": "failed", f"{prefix}test_zero": "passed"}
    assert (plain.cases[0].expected, plain.cases[0].frames[-1].line) == ("3", 5)
    assert outcomes(good) == {f"{prefix}test_add": "passed", f"{prefix}test_zero": "passed"}
    if "-m" in command:
        (whole,) = await bench.run(job, unchanged=1)
        assert {name.removeprefix(prefix): outcome for name, outcome in outcomes(whole).items()} == {
            "test_add": "failed", "test_loop": "timed_out", "test_parts": "failed", "test_skipped": "skipped",
            "test_zero": "passed",
        }


async def test_a_class_whose_tests_could_not_be_set_up_is_cured_when_all_of_them_pass(bench: Bench) -> None:
    setup = "class T(unittest.TestCase):\n    @classmethod\n    def setUpClass(cls): assert calc.add(1, 2) == 3\n"
    test = f"import unittest, calc\n{setup}    def test_zero(self): self.assertEqual(calc.add(0, 0), 0)\n"
    job = await bench.job({"calc.py": CALC, "test_t.py": test}, "python -m unittest")
    plain, good = await bench.run(job, [trial("good", calc_py=GOOD)], unchanged=1, only=("test_t.T",), enough=1)
    assert (outcomes(plain), plain.cases[0].frames[-1].path) == ({"test_t.T": "error"}, "test_t.py")
    assert outcomes(good) == {"test_t.T.test_zero": "passed"}
    assert judge(expected([plain]), good).ok


async def test_tests_that_have_one_id_are_one_test_and_no_error(bench: Bench) -> None:
    base = "import unittest\nclass Base(unittest.TestCase):\n    def test_ok(self): pass\n"
    more = "from tests.test_base import Base\nclass More(Base):\n    pass\n"
    files = {"tests/__init__.py": "", "tests/test_base.py": base, "tests/test_more.py": more}
    loop = "for (const n of [1, 2]) require('node:test')('works', () => { if (n > %d) throw Error('no'); });\n"
    (unit,) = await bench.run(await bench.job(files, "python -m unittest"), unchanged=1)
    assert outcomes(unit) == {"tests.test_base.Base.test_ok": "passed", "tests.test_more.More.test_ok": "passed"}
    for most, outcome in ((2, "passed"), (1, "failed")):
        job = await bench.job({"test/a.test.js": loop % most}, "node --test", toolchain="node")
        (node,) = await bench.run(job, unchanged=1)
        assert outcomes(node) == {"test/a.test.js > works": outcome}


async def test_a_script_is_one_test(bench: Bench) -> None:
    files = {"calc.py": CALC, "check.py": "import sys, calc\nassert calc.add(1, 2) == 3, 'wrong'\nsys.exit(len(sys.argv) - 1)\n"}
    red, green = await bench.run(await bench.job(files, "python check.py"), [trial("good", calc_py=GOOD)], unchanged=1)
    assert (red.cases[0].id, red.cases[0].outcome, red.cases[0].message) == ("command", "failed", "AssertionError: wrong")
    assert [(frame.path, frame.line) for frame in red.cases[0].frames] == [("check.py", 2)]
    assert (outcomes(green), green.exit_code) == ({"command": "passed"}, 0)
    (other,) = await bench.run(await bench.job(files | {"calc.py": GOOD}, "python check.py a b"), unchanged=1)
    assert (outcomes(other), other.exit_code, other.cases[0].message) == ({"command": "failed"}, 2, "exit code 2")


async def test_any_other_command_is_one_test_by_its_exit_code(bench: Bench) -> None:
    files = {"check.sh": "grep -q good state && echo fine\n", "state": "bad"}
    red, green = await bench.run(await bench.job(files, "sh check.sh"), [of("good", {"state": "good"})], unchanged=1)
    assert (outcomes(red), red.exit_code) == ({"command": "failed"}, 1)
    assert (outcomes(green), green.output) == ({"command": "passed"}, "fine\n")
    (missing,) = await bench.run(await bench.job(files, "no-such-program x"), unchanged=1)
    assert (missing.problem, missing.cases) == ("cannot run no-such-program: No such file or directory", ())
    (slow,) = await bench.run(await bench.job(files, "sleep 60", suite_s=1), unchanged=1)
    assert (slow.ended, outcomes(slow)) == ("timed_out", {"command": "timed_out"})


NODE = {
    "sum.js": "exports.add = (a, b) => a - b;\nexports.wait = (n) => { while (n); };\n",
    "test/sum.test.js": """
const test = require('node:test');
const assert = require('node:assert');
const { add } = require('../sum');
test('adds', () => { assert.strictEqual(add(1, 2), 3); });
test('zero', async (t) => {
  await t.test('inner', () => { assert.strictEqual(add(0, 0), 0); });
  await t.test('bad', () => { add.nothing(); });
});
test('left out', { skip: true }, () => {});
test.describe?.('group', () => { test.it('member', () => {}); });
""",
    "test/loop.test.js": "require('node:test')('loops', () => { require('../sum').wait(true); });\n",
    "test/broken.test.js": "require('./nothing-there');\n",
}
S = "test/sum.test.js > "


async def test_nodes_tests_are_told_in_the_same_words(bench: Bench) -> None:
    job = await bench.job(NODE, "node --test", toolchain="node", test_s=3, suite_s=30)
    (report,) = await bench.run(job, unchanged=1)
    found = outcomes(report)
    assert found.pop("test/loop.test.js", "") + found.pop("test/loop.test.js > loops", "") == "timed_out"
    found.pop(f"{S}group > member", "")
    assert found == {
        f"{S}adds": "failed", f"{S}zero": "failed", f"{S}zero > inner": "passed", f"{S}zero > bad": "failed",
        f"{S}left out": "skipped", "test/broken.test.js": "error",
    }
    adds = next(case for case in report.cases if case.id == f"{S}adds")
    assert (adds.expected, adds.actual) == ("3", "-1")
    assert (adds.frames[-1].path, adds.frames[-1].line) == ("test/sum.test.js", 5)


async def test_tests_of_an_es_module_are_told_by_their_path_in_the_repository(bench: Bench) -> None:
    head = "import test from 'node:test';\nimport { add } from '../sum.mjs';\n"
    files = {
        "sum.mjs": "export const add = (a, b) => a - b;\n", "test/bad.test.mjs": "import './no.mjs';\n",
        "test/sum.test.mjs": head + "test('adds', () => { if (add(1, 2) !== 3) throw Error('no'); });\n",
    }
    job = await bench.job(files, "node --test", toolchain="node", test_s=5)
    (report,) = await bench.run(job, unchanged=1)
    assert outcomes(report) == {"test/sum.test.mjs > adds": "failed", "test/bad.test.mjs": "error"}


SHOP = {
    "src/price.mjs": """// what things cost
export class Price {
  constructor(net) {
    this.net = net;
  }

  gross(rate) {
    if (rate > 1) {
      rate = rate / 100;
    }
    return this.net * (1 + rate);
  }
}
export const half = (net) => {
  return net / 2;
};
""",
    "test/price.test.mjs": """import { describe, it, test } from 'node:test';
import { Price, half } from '../src/price.mjs';
test('share', () => { new Price(100).gross(0.2); });
describe('group', () => { it('percent', async () => { await null; new Price(100).gross(20); }); });
test('broken', () => { if (half(4) !== 3) throw Error('no'); });
""",
    "test/old.test.cjs": """const test = require('node:test');
test('common', () => { require('../src/old.cjs').id(1); });
const { readdirSync, writeFileSync } = require('node:fs');
for (const entry of readdirSync('/tmp')) {
  try { writeFileSync(`/tmp/${entry}/0`, '{\\n[]\\nnull\\n{"file":"test/old.test.cjs","name":"common","lines":5}\\n'); } catch {}
}
""",
    "src/old.cjs": "exports.id = (value) => {\n  return value;\n};\n",
}


async def test_of_nodes_tests_it_is_told_which_lines_each_of_them_runs(bench: Bench) -> None:
    job = await bench.job(SHOP, "node --test", toolchain="node", test_s=10)
    (plain,) = await bench.run(job, unchanged=1)
    (report,) = await bench.run(job, unchanged=1, coverage=True)
    assert outcomes(report) == outcomes(plain) and len(report.cases) == 4 and not plain.covered and not report.problem
    at = "test/price.test.mjs > "
    lines = {one.test: one.lines for one in report.covered}
    source = {test: lines[test].get("src/price.mjs") for test in lines if test.startswith(at)}
    assert source == {
        f"{at}share": (3, 4, 7, 8, 11), f"{at}group > percent": (3, 4, 7, 8, 9, 11), f"{at}broken": (14, 15),
    }
    assert lines["test/old.test.cjs > common"]["src/old.cjs"] == (1, 2)


async def test_candidates_of_a_node_repository_are_tried(bench: Bench) -> None:
    files = {name: content for name, content in NODE.items() if name in ("sum.js", "test/sum.test.js")}
    job = await bench.job(files, "node --test test", toolchain="node", test_s=5)
    tries = [of(name, {"sum.js": f"exports.add = (a, b) => a {sign} b;\n"}) for name, sign in (("bad", "*"), ("good", "+"))]
    bad, good = await bench.run(job, tries, only=(f"{S}adds",), enough=1)
    assert (outcomes(bad), outcomes(good)) == ({f"{S}adds": "failed"}, {f"{S}adds": "passed"})


async def test_a_candidate_that_may_not_be_run_has_failed_and_the_others_are_run(bench: Bench) -> None:
    job = await bench.job({"calc.py": CALC, "test_calc.py": "import calc\ndef test(): assert calc.add(1, 2) == 3\n"})
    tries = [of("bad", {"../calc.py": GOOD}), of("good", {"calc.py": GOOD})]
    bad, good = await bench.run(job, tries)
    assert (bad.trial, bad.ended, bad.cases) == ("bad", "finished", ()) and bad.problem.startswith("refused: ")
    assert outcomes(good) == {"test_calc.py::test": "passed"}
