"""Tracebacks in the log: which exceptions come from the target's own source, and where from."""

import json

import pytest

from services.diagnosis.adapters.logs.raised import raised

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
