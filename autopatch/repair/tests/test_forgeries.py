"""Ways to pass tests without a fix are seen; honest fixes are not taken for them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autopatch.repair.forgeries import constants_from_tests, suspicions

BEFORE = b"""import os
import sys


class Money:
    def __init__(self, cents):
        self.cents = cents


def add(a, b):
    return a - b
"""
PYTHON = {
    "ends at import": ("os._exit(0)", "uses os._exit"),
    "ends at import by another name": ("from os import _exit as e\ne(0)", "uses os._exit"),
    "ends by a module of another name": ("import os as o\no._exit(0)", "uses os._exit"),
    "ends in a function": ("def f():\n    os._exit(0)", "uses os._exit"),
    "exits at import": ("sys.exit(0)", "ends the process while it is imported"),
    "raises at import": ("raise SystemExit", "ends the process while it is imported"),
    "raises at import, in a branch": ("if os.name:\n    raise SystemExit(0)", "ends the process while it is imported"),
    "skips": ("import pytest\npytest.skip(allow_module_level=True)", "imports pytest"),
    "reaches the runner": ("from _pytest.reports import TestReport\nTestReport.passed = True", "imports from _pytest.reports"),
    "reaches unittest": ("from unittest.case import TestCase", "imports from unittest.case"),
    "an object that equals everything": ("class Any:\n    def __eq__(self, other):\n        return True",
        "Any.__eq__ says the same"),
    "an object that equals everything, by a lambda": ("class Any:\n    __eq__ = lambda s, o: True", "Any.__eq__ says the same"),
    "a new class with its own comparison": ("class Any:\n    def __eq__(self, o):\n        return id(o) > 0",
        "new class with its own __eq__"),
    "an old class that equals everything": ("class Money:\n    def __eq__(self, o):\n        return True",
        "Money.__eq__ says the same"),
    "a class made at run time": ("Any = type('Any', (), {'__eq__': lambda s, o: True})", "at run time"),
    "a metaclass": ("class M(type):\n    pass\nclass A(metaclass=M):\n    pass", "metaclass"),
    "always true": ("class T(str):\n    def __bool__(self):\n        return True", "T.__bool__ says the same"),
    "the collector": ("import gc\nfor x in gc.get_objects():\n    pass", "imports gc"),
    "ctypes": ("import ctypes", "imports ctypes"),
    "at exit": ("import atexit\natexit.register(print)", "imports atexit"),
    "frames by inspect": ("import inspect\ninspect.currentframe()", "uses inspect.currentframe"),
    "frames by sys": ("sys._getframe(1)", "uses sys._getframe"),
    "frames by an exception": ("try:\n    1 / 0\nexcept ZeroDivisionError as e:\n    e.__traceback__.tb_frame", "tb_frame"),
    "the caller's names": ("def f(frame):\n    return frame.f_back.f_locals", "f_back"),
    "sys.modules": ("sys.modules['x'] = None", "uses sys.modules"),
    "the import system": ("sys.meta_path.insert(0, None)", "uses sys.meta_path"),
    "a trace function": ("sys.settrace(None)", "uses sys.settrace"),
    "a signal": ("import signal\nsignal.alarm(1)", "imports signal"),
    "a built-in replaced": ("import builtins\nbuiltins.len = lambda x: 1", "imports builtins"),
    "a built-in hidden": ("def isinstance(a, b):\n    return True", "over the built-in"),
    "the standard library changed": ("import math\nmath.isclose = lambda a, b: True", "changes math.isclose"),
    "output redirected": ("sys.stdout = None", "changes sys.stdout"),
    "code from text": ("exec('import o' + 's')", "uses exec"),
    "an import by a text": ("__import__('o' + 's')", "uses __import__"),
    "importlib": ("import importlib", "imports importlib"),
    "an attribute put together": ("getattr(os, '_ex' + 'it')(0)", "uses getattr on os"),
    "a module's names": ("vars(os)['_ex' + 'it'](0)", "uses vars on os"),
    "setattr on a module": ("setattr(os, 'getcwd', None)", "uses setattr on os"),
    "a hook": ("def pytest_runtest_makereport(item):\n    pass", "hook"),
    "the running test's name": ("if 'PYTEST_CURRENT_TEST' in os.environ:\n    pass", "PYTEST_CURRENT_TEST"),
    "the tests' text": ("open('tests/test_calc.py').read()", "tests/test_calc.py"),
    "all Python files": ("import glob\nglob.glob('**/*.py')", "**/*.py"),
    "what is beside the file": ("open(__file__)", "__file__"),
    "the report": ("open('junit-report.xml', 'w')", "junit-report.xml"),
    "the tests as a module": ("from tests.test_calc import EXPECTED", "imports the tests"),
    "conftest as a module": ("import conftest", "imports the tests"),
    "another process": ("import subprocess\nsubprocess.run(['kill', '1'])", "imports subprocess"),
    "the shell": ("os.system('true')", "uses os.system"),
    "the subclasses of all": ("object.__subclasses__()", "__subclasses__"),
    "a function's code": ("def f():\n    pass\nf.__code__ = None", "__code__"),
    "an object's class": ("def f(x):\n    x.__class__ = int", "__class__"),
    "code that nobody can read": ("def f(:", "does not parse"),
}


@pytest.mark.parametrize("name", PYTHON)
def test_a_forgery_in_python_is_seen(name: str) -> None:
    code, why = PYTHON[name]
    found = suspicions("src/calc.py", BEFORE, BEFORE + b"\n\n" + code.encode() + b"\n")
    assert any(why in reason for reason in found), found
    assert all(reason.startswith("src/calc.py:") and "\n" not in reason for reason in found)


@pytest.mark.parametrize("name", [name for name in PYTHON if name != "code that nobody can read" and "old class" not in name])
def test_what_was_there_before_is_no_suspicion(name: str) -> None:
    before = BEFORE + b"\n\n" + PYTHON[name][0].encode() + b"\n"
    assert suspicions("src/calc.py", before, before.replace(b"a - b", b"a + b")) == ()


def test_the_second_of_two_is_new() -> None:
    found = suspicions("a.py", b"import os\nos._exit(1)\n", b"import os\nos._exit(1)\nos._exit(0)\n")
    assert found == ("a.py:3: uses os._exit",)


def test_a_codec_that_hides_code_is_seen() -> None:
    assert "codec" in suspicions("a.py", b"x = 1\n", b"# coding: utf-7\nx = 1\n")[0]


@pytest.mark.parametrize("code", [
    "class Money:\n    def __eq__(self, other):\n        return self.cents == other.cents", "import math\nprint(math.pi)",
    "def main():\n    sys.exit(1)", "if __name__ == '__main__':\n    sys.exit(0)", "print('done', file=sys.stderr)",
    "import json\njson.dumps({})", "from types import SimpleNamespace", "def f(x):\n    return getattr(x, 'name', None)",
    "class Error(ValueError):\n    pass", "import inspect\ninspect.signature(f)", "x = 'run the tests with pytest'",
    "class Box:\n    def __init__(self):\n        self.items = []\n    def __len__(self):\n        return len(self.items)",
    "URL = 'https://example.org/test/x'", "from state import counter\ncounter.value = 0",
        "def f(self, k, v):\n    setattr(self, k, v)",
    "import re\nre.compile('x')", "import collections\ncollections.Counter()",
        "class File:\n    def open(self):\n        return None",
    "from .testing import helper", "open('feed.xml')",
])
def test_an_honest_change_is_no_suspicion(code: str) -> None:
    assert suspicions("src/calc.py", BEFORE, BEFORE + b"\n\n" + code.encode() + b"\n") == ()


NODE = {
    "exit": ("process.exit(0);", "process"), "exit by an index": ("process['exit'](0);", "process"),
        "exit code": ("process.exitCode = 0;", "process"),
    "kill": ("process.kill(process.pid);", "process"), "at exit": ("process.on('exit', () => {});", "listens"),
    "the runner": ("import test from 'node:test';", "reaches the runner"), "the runner by require": ("require('test')",
        "reaches the runner"),
    "another process": ("require(\"child_process\")", "reaches the runner"), "assert": ("const a = require('node:assert');",
        "test tool"),
    "assert replaced": ("assert.strictEqual = () => {};", "replaces"), "the cache": ("delete require.cache[k];", "modules load"),
    "loading": ("Module._load = f;", "modules load"), "a global": ("globalThis.test = f;", "a global"),
    "a prototype": ("Object.prototype.x = 1;", "prototype"), "a text": ("eval('1')", "from text"),
        "a function of text": ("new Function('1')", "from text"),
    "conversion": ("x[Symbol.toPrimitive] = f;", "as it likes"), "a proxy": ("new Proxy({}, {})", "stands in"),
        "a mock": ("jest.mock('x');", "runner"),
    "a test file": ("fs.readFileSync('test/calc.test.js')", "names a test file"),
        "an environment": ("process.env.NODE_TEST_CONTEXT", "how it is run"),
    "output": ("process.stdout.write('ok 1')", "output"),
}


@pytest.mark.parametrize("name", NODE)
def test_a_forgery_in_javascript_is_seen_and_an_old_one_is_none(name: str) -> None:
    code, why = NODE[name]
    before, after = b"export const x = 1;\n", b"export const x = 1;\n" + code.encode() + b"\n"
    found = suspicions("src/calc.mjs", before, after)
    assert any(why in reason for reason in found), found
    assert found[0].startswith("src/calc.mjs:2: ")
    assert suspicions("src/calc.mjs", after, after + b"export const y = 2;\n") == ()


@pytest.mark.parametrize("code", ["export function add(a, b) { return a + b; }", "if (x === 1) throw new Error('bad');",
        "console.log('x');",
                                  "import { readFile } from 'node:fs/promises';", "const f = (x) => x.map((y) => y * 2);",
                                  "items.sort();"])
def test_an_honest_change_in_javascript_is_no_suspicion(code: str) -> None:
    assert suspicions("src/calc.ts", b"", code.encode()) == ()


TESTS = {
    "tests/test_a.py": b"def test_a():\n    assert f(3) == 1729\n    assert g('hello') == -42.5\n    assert h(1) == [0, 2, '']\n",
}


@pytest.mark.parametrize(("before", "after", "lifted"), [
    ("def f(x): return x", "def f(x): return 1729", ("1729 (tests/test_a.py)",)),
    ("def f(x): return x", "def f(x): return {'hello': 42.5}[x]", ("'hello' (tests/test_a.py)", "42.5 (tests/test_a.py)")),
    ("def f(x): return x + 1729", "def f(x): return x - 1729", ()), ("def f(x): return x",
        "def f(x): return x + 1 - 2 or '' or 0", ()),
    ("def f(x): return x", "def f(x):\n    'hello'\n    return 7", ()), ("def f(x): return x", "def f(x): return True or None",
        ()),
    ("const f = 1 +", "const f = 1729 +", ("1729 (tests/test_a.py)",)), ("let s = `x`;", "let s = \"hello\";",
        ("'hello' (tests/test_a.py)",)),
])
def test_constants_that_only_tests_had_are_told(before: str, after: str, lifted: tuple[str, ...]) -> None:
    assert constants_from_tests(before.encode(), after.encode(), TESTS) == lifted


@given(st.sampled_from(["a.py", "a.js", "a.go"]), st.binary(max_size=60), st.binary(max_size=60))
def test_any_bytes_are_judged_without_an_error(path: str, before: bytes, after: bytes) -> None:
    assert suspicions(path, before, before) == () or path.endswith("py")
    suspicions(path, before, after)
    constants_from_tests(before, after, {"t": before + after})
