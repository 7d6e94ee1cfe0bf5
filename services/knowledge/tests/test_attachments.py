"""Tests that runbooks bring, and the mistakes that people make with them."""

from pathlib import Path

import pytest

from autopatch.contract.errors import OperatorError
from services.knowledge.adapters.sources.attachments import LARGEST
from services.knowledge.adapters.sources.attachments import sent
from services.knowledge.adapters.sources.documents import Document, read, read_folder

TEST = "def test_it():\n    assert False\n"
GIVEN = "patch_code:\n  tests: {tests/test_it.py: it/test_it.py}\n"


def a_folder(folder: Path, front: str = GIVEN, test: bytes = TEST.encode()) -> Path:
    """One runbook with what it says of code, and a file beside it."""
    (folder / "books" / "it").mkdir(parents=True)
    (folder / "books" / "it" / "test_it.py").write_bytes(test)
    (folder / "secret.py").write_text("outside")
    (folder / "books" / "code.md").write_text(f"---\ncauses: [bad_release]\n{front}---\n# Code\n")
    return folder / "books"


def only(folder: Path) -> Document:
    [document] = read_folder(folder)
    return document


def test_attached_tests_travel_with_the_runbook_whose_action_is_to_patch_the_code(tmp_path: Path) -> None:
    book = only(a_folder(tmp_path)).runbook
    assert book and book.actions == ({"kind": "patch_code"},) and book.attached == {"tests/test_it.py": TEST}


def test_another_attached_test_is_another_document_so_that_it_is_read_anew(tmp_path: Path) -> None:
    folder = a_folder(tmp_path)
    before = only(folder)
    (folder / "it" / "test_it.py").write_text(TEST + "\n")
    assert only(folder).digest != before.digest


@pytest.mark.parametrize("front", ["actions:\n  - {kind: patch_code}\n", "patch_code: {}\n"])
def test_code_may_be_patched_by_the_repositorys_own_tests_alone(tmp_path: Path, front: str) -> None:
    book = only(a_folder(tmp_path, front)).runbook
    assert book and book.actions == ({"kind": "patch_code"},) and book.attached == {}


@pytest.mark.parametrize(("front", "message"), [
    ("patch_code:\n  tests:\n    tests/test_it.py: it/gone.py\n", "line 5: patch_code.tests: it/gone.py: No such file"),
    ("patch_code:\n  tests: {tests/test_it.py: ../secret.py}\n", "lies outside of"),
    ("patch_code:\n  tests: {tests/test_it.py: it}\n", "Is a directory"),
    ("patch_code:\n  tests: {../tests/test_it.py: it/test_it.py}\n", "leads out of the repository"),
    ("patch_code:\n  tests: {payments/it.py: it/test_it.py}\n", "is no test"),
    ("patch_code: {test: {}}\n", "line 3: patch_code.test"),
    (GIVEN + "actions:\n  - {kind: restart}\n", "line 3: patch_code: code is patched alone"),
    ("actions:\n  - {kind: patch_code}\n  - {kind: restart}\n", "line 3: actions: code is patched alone"),
    ("actions:\n  - {kind: patch_code, diff: abc}\n", "line 4: actions.0.diff: the change is found"),
])
def test_a_mistake_names_file_line_and_field(tmp_path: Path, front: str, message: str) -> None:
    folder = a_folder(tmp_path, front)
    with pytest.raises(OperatorError) as error:
        read_folder(folder)
    assert str(folder / "code.md") in str(error.value) and message in str(error.value)


@pytest.mark.parametrize(("test", "message"), [(b"#" * (LARGEST + 1), "more than"), (b"\xff", "not UTF-8")])
def test_a_file_that_cannot_travel_is_refused(tmp_path: Path, test: bytes, message: str) -> None:
    folder = a_folder(tmp_path, test=test)
    with pytest.raises(OperatorError, match=message):
        read_folder(folder)


def test_a_link_out_of_the_folder_of_runbooks_is_not_followed(tmp_path: Path) -> None:
    folder = a_folder(tmp_path)
    (folder / "it" / "test_it.py").unlink()
    (folder / "it" / "test_it.py").symlink_to(tmp_path / "secret.py")
    with pytest.raises(OperatorError, match="outside"):
        read_folder(folder)


def test_to_a_runbook_that_is_sent_only_what_was_sent_with_it_is_attached() -> None:
    text = f"---\n{GIVEN}---\n# Code\n"
    with pytest.raises(OperatorError, match=r"it/test_it\.py: was not sent with it"):
        read("sent.md", text)
    found = read("sent.md", text, sent({"it/test_it.py": "def test_it(): ..."}))
    assert found.runbook and found.runbook.attached == {"tests/test_it.py": "def test_it(): ..."}
