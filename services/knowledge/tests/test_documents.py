"""Runbooks as people write them, and the mistakes that they make."""

import pytest

from autopatch.contract.errors import OperatorError
from services.knowledge.adapters.sources.documents import read

RUNBOOK = """---
alert: PaymentLatencyHigh
service: payments
severity: page
owner: payments-team
causes: [pool_exhausted]
actions:
  - kind: set_config
    file: main
    key: database.pool_size
    value: 20
  - {kind: reload}
  - {kind: rollback_release, release: previous}
---
# Pool exhausted

Requests wait for a connection.

## What to do

Raise the pool.

```yaml
# not a heading
```
"""


def test_front_matter_becomes_a_runbook_and_sections_become_chunks_with_their_titles() -> None:
    document = read("books/pool.md", RUNBOOK)
    assert document.runbook and document.kind == "runbook" and document.title == "Pool exhausted"
    assert document.runbook.name == "pool" and document.runbook.causes == ("pool_exhausted",)
    assert document.runbook.alerts == ("PaymentLatencyHigh",) and document.runbook.actions[0]["value"] == 20
    assert document.chunks[0] == "Pool exhausted\nRequests wait for a connection."
    assert (
        document.chunks[1].startswith("Pool exhausted > What to do\nRaise the pool.") and "# not a heading" in document.chunks[1]
    )


def test_a_text_without_front_matter_is_a_document() -> None:
    document = read("notes/a.txt", "just words\r\n")
    assert (document.kind, document.title, document.chunks) == ("document", "a.txt", ("a.txt\njust words",))


def test_an_empty_file_is_still_found_by_its_name() -> None:
    assert read("empty.md", "").chunks == ("empty.md",)


def test_long_sections_are_cut_at_paragraphs_and_nothing_is_lost() -> None:
    body = "\n\n".join(f"paragraph {n} " + "word " * 60 for n in range(20)) + "\n\n" + "x" * 5000
    chunks = read("long.md", f"# Long\n{body}").chunks
    assert all(len(chunk) < 1300 for chunk in chunks)
    assert (
        all(any(f"paragraph {n} " in chunk for chunk in chunks) for n in range(20)) and sum(c.count("x") for c in chunks) == 5000
    )


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("kind: set_config", "kind: shell", "pool.md: line 8: actions.0.kind: 'shell' is no kind of action"),
        ("{kind: reload}", "{nothing: here}", "pool.md: line 12: actions.1.kind: None is no kind"),
        ("    value: 20\n", "", "pool.md: line 8: actions.0.value: Field required"),
        ("value: 20", "vlaue: 20", "pool.md: line 11: actions.0.vlaue: set_config has no such field (did you mean value?)"),
        ("value: 20", "value: [20]", "pool.md: line 11: actions.0.value"),
        ("    file: main", "    file: 7", "pool.md: line 9: actions.0.file: Input should be a valid string"),
        ("causes:", "cause:", "pool.md: line 6: cause: Extra inputs are not permitted (did you mean causes?)"),
        ("owner: payments-team", "owner: [a, b]", "pool.md: line 5: owner"),
        ("severity: page", "severity: {page", "pool.md: line"),
        ("severity: page", "alert: twice", "pool.md: line 4: not YAML: found duplicate key"),
        ("---\n# Pool", "# Pool", "pool.md: line 1: the front matter does not end"),
        ("service: payments", "service: !!python/object:os.system x", "pool.md: line 3"),
    ],
)
def test_a_mistake_names_file_line_and_field(old: str, new: str, message: str) -> None:
    with pytest.raises(OperatorError) as caught:
        read("pool.md", RUNBOOK.replace(old, new, 1))
    assert message in str(caught.value) and "\n" not in str(caught.value)


def test_front_matter_that_is_no_mapping_or_too_large_is_refused() -> None:
    for text, message in (("---\n- a\n---\n", "line 2"), ("---\n" + "a: b\n" * 9000 + "---\n", "line 1")):
        with pytest.raises(OperatorError, match=message):
            read("pool.md", text)
