"""Tracebacks in the log: which exceptions come from the target's own source, and where from."""

import json
import time

import pytest

from services.diagnosis.adapters.logs.raised import _HEAD, raised

PYTHON = """Traceback (most recent call last):
  File "/app/shop/http.py", line 41, in answer
    return handle(request)
  File "/app/shop/totals.py", line 17, in last_of
    return rows[len(rows)]
           ~~~~^^^^^^^^^^^
  File "/usr/lib/python3/dist-packages/tables/rows.py", line 5, in __getitem__
    raise IndexError("no such row")
IndexError: no such row"""
NODE = """TypeError: Cannot read properties of undefined (reading 'id')
    at Object.get (/app/node_modules/rows/index.js:5:3)
    at lastOf (/app/src/totals.js:17:12)
    at process.processTicksAndRejections (node:internal/process/task_queues:95:5)"""


def places(text: str, calm: str = "", source: str = "/app", calm_s: float = 60) -> list[tuple[str, int, str]]:
    return [(r.path, r.line, r.function) for r in raised(text.splitlines(), calm.splitlines(), source, 60, calm_s)]


@pytest.mark.parametrize("text", [PYTHON, json.dumps({"level": "error", "message": "failed", "traceback": PYTHON})])
def test_of_python_the_last_frame_of_its_own_counts(text: str) -> None:
    assert places(f"before\n{text}\nafter") == [("shop/totals.py", 17, "last_of")]


def test_a_json_line_whose_middle_was_left_out_is_read_to_its_end() -> None:
    head, error = PYTHON.split("\n", 1)
    outer = '  File "/usr/lib/python3/dist-packages/web.py", line 7, in call\n    next(call)\n' * 90
    line = json.dumps({"level": "error", "traceback": f"{head}\n{outer}{error}", "at": 1})
    assert places(f"{line[:2000]} … {line[-2000:]}") == places(PYTHON)
    line = json.dumps({"around": list(range(2000)), "traceback": PYTHON})
    assert places(f"{line[:2000]} … {line[-2000:]}") == places(PYTHON)


@pytest.mark.parametrize("text", [NODE, json.dumps({"level": "error", "err": NODE})])
def test_of_node_the_first_frame_of_its_own_counts(text: str) -> None:
    assert places(f"before\n{text}\nafter") == [("src/totals.js", 17, "lastOf")]


@pytest.mark.parametrize("text", [
    "", "IndexError: no such row", "{" * 3000, '{"traceback": "IndexError: x"}', "  File \"/app/a.py\", line 3, in f",
    PYTHON.replace("/app/", "/opt/venv/lib/"), PYTHON.replace("/app/shop/", "/app/lib/site-packages/"), "Error: x\nnot a frame",
    PYTHON.replace("/app/shop", "/application/shop"), PYTHON.replace("/app/", "/app/../"),
    PYTHON.replace("line 17", "line " + "9" * 5000).replace("line 41", "line " + "9" * 5000),
])
def test_what_does_not_lead_into_its_own_source_is_not_found(text: str) -> None:
    assert places(text) == []


GROUP = """  + Exception Group Traceback (most recent call last):
  |   File "/app/shop/all.py", line 9, in run
  |     async with asyncio.TaskGroup() as group:
  | ExceptionGroup: unhandled errors in a TaskGroup (1 sub-exception)
  +-+---------------- 1 ----------------
    | Traceback (most recent call last):
    |   File "/app/shop/totals.py", line 17, in last_of
    |     return rows[len(rows)]
    | IndexError: list index out of range
    +------------------------------------"""
SYNTAX = """Traceback (most recent call last):
  File "/app/main.py", line 1, in <module>
    import shop
  File "/app/shop/x.py", line 3
    def f(
         ^
SyntaxError: '(' was never closed"""
ASSERTION = """AssertionError [ERR_ASSERTION]: Expected values to be strictly equal:

1 !== 2

    at JSON.parse (<anonymous>)
    at Array.map (<anonymous>)
    at node:internal/main/run_main_module:28:49
    at async file:///app/src/totals.js:17:12
    at async Promise.all (index 0) {
  code: 'ERR_ASSERTION'"""


@pytest.mark.parametrize(("text", "last"), [
    (GROUP, ("shop/totals.py", 17, "last_of")), (SYNTAX, ("shop/x.py", 3, "the module")),
    (ASSERTION, ("src/totals.js", 17, "the module")),
    ("\n".join(f"app-1  | {line}" for line in PYTHON.splitlines()), ("shop/totals.py", 17, "last_of")),
    ("\n".join(f"app-1  | {line}" for line in NODE.splitlines()), ("src/totals.js", 17, "lastOf")),
    (f"2026-03-01 ERROR failed {PYTHON}", ("shop/totals.py", 17, "last_of")),
    (f"request failed {NODE}", ("src/totals.js", 17, "lastOf")),
    (PYTHON.replace("IndexError:", "socket.timeout:"), ("shop/totals.py", 17, "last_of")),
    (json.dumps({"err": {"type": "TypeError", "stack": NODE}}), ("src/totals.js", 17, "lastOf")),
    (json.dumps({"stack": NODE.splitlines()}), ("src/totals.js", 17, "lastOf")),
])
def test_whatever_form_it_is_written_in(text: str, last: tuple[str, int, str]) -> None:
    assert last in places(text)


def test_stacks_of_nothing_that_was_raised_do_not_count_and_a_log_line_counts_once() -> None:
    stack = PYTHON.replace("Traceback (most", "Stack (most").rpartition("\n")[0]
    assert places(f"{stack}\nINFO: 127.0.0.1 200 OK\nReady") == []
    forged = "\n".join(PYTHON.replace("17", str(line)) for line in (1, 2, 3))
    found = places("\n".join([json.dumps({"value": forged}), *[PYTHON] * 2]))
    assert found == [("shop/totals.py", 17, "last_of"), ("shop/totals.py", 3, "last_of")]


def test_what_foreign_code_raises_is_told_apart() -> None:
    own = PYTHON.replace("/usr/lib/python3/dist-packages/tables/rows.py", "/app/shop/rows.py")
    assert [r.foreign for text in (PYTHON, own) for r in raised(text.splitlines(), (), "/app", 60, 60)] == [True, False]


@pytest.mark.parametrize("line", [
    " at " * 50_000, "Error" * 50_000, '  File "' + "/a" * 50_000, "a." * 50_000, " at x (" * 40_000,
])
def test_no_line_takes_long(line: str) -> None:
    began = time.monotonic()
    raised([_HEAD, line, line] * 20, (), "/app", 60, 60)
    assert time.monotonic() - began < 2


def test_without_a_known_source_nothing_is_its_own() -> None:
    assert places(PYTHON, source="") == []


def test_the_same_place_counts_once_with_how_often_and_the_most_frequent_first() -> None:
    other = PYTHON.replace("totals.py", "fees.py").replace("no such row", "no such fee")
    found = raised("\n".join([PYTHON, other, other]).splitlines(), [], "/app", 60, 60)
    assert [(r.path, r.count, r.error) for r in found] == [
        ("shop/fees.py", 2, "IndexError: no such fee"), ("shop/totals.py", 1, "IndexError: no such row"),
    ]


@pytest.mark.parametrize(("times", "calm_s", "novelty"), [(2, 60, None), (6, 60, "grown"), (2, 600, "grown")])
def test_what_was_raised_before_counts_only_when_it_is_raised_more_often(times: int, calm_s: float, novelty: str | None) -> None:
    found = raised("\n".join([PYTHON] * times).splitlines(), PYTHON.splitlines(), "/app", 60, calm_s)
    assert [r.novelty for r in found] == ([novelty] if novelty else [])
