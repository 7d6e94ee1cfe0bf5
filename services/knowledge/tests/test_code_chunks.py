"""Which files are left out, and how the others are cut."""

from pathlib import Path

import pytest

from autopatch.chassis.outline import outline
from autopatch.chassis.redaction import redact
from services.knowledge.adapters.code.chunks import CHUNK, Chunk, chunks
from services.knowledge.adapters.code.files import LARGEST, left_out
from services.knowledge.adapters.stores.words import lexical

SOURCE = '''\
"""Refunds."""

import decimal

RATE = 3


# What a customer gets back.
# Never more than was paid.
@cached
def refund(total):
    def rounded(value):
        return value

    return rounded(total)


class Book:
    """A ledger."""

    rows = ()

    def add(self, row):
        self.rows += (row,)

    class Page:
        size = 3

        def turn(self):
            return self


print(RATE)
'''
KEY = "-----BEGIN RSA PRIVATE KEY-----\n" + "MIIEpAIBAAKCAQEAx3Vd9w0pLqT1u8s7Zk2Jr5Yc\n" * 6 + "-----END RSA PRIVATE KEY-----"


def _cut(text: str, path: str = "pay/refunds.py") -> list[Chunk]:
    return chunks(path, text, outline(path, text.encode()), redact)


def _places(found: list[Chunk]) -> set[tuple[str, str, int, int]]:
    return {(one.form, one.name, one.start, one.end) for one in found}


def test_a_file_is_cut_into_functions_methods_heads_of_classes_and_the_text_around_them() -> None:
    found = _cut(SOURCE)
    assert _places(found) == {
        ("text", "", 1, 5),
        ("function", "refund", 8, 15),
        ("class", "Book", 18, 21),
        ("method", "Book.add", 23, 24),
        ("class", "Book.Page", 26, 27),
        ("method", "Book.Page.turn", 29, 30),
        ("text", "", 33, 33),
    }
    [refund] = [one for one in found if one.name == "refund"]
    assert refund.text.startswith("pay/refunds.py refund\n# What a customer gets back.\n") and "rounded(total)" in refund.text


def test_every_line_that_says_something_is_in_exactly_one_chunk() -> None:
    lines = [line for one in _cut(SOURCE) for line in one.text.split("\n")[1:] if line.strip()]
    assert sorted(lines) == sorted(line for line in SOURCE.split("\n") if line.strip())


def test_a_class_and_its_methods_on_one_line_are_one_chunk() -> None:
    found = _cut("class Shape { area() { return 1; } name() { return 2; } }\n", "shape.js")
    assert _places(found) == {("class", "Shape", 1, 1)} and "name()" in found[0].text


def test_what_only_moved_keeps_its_key_and_what_changed_does_not() -> None:
    before, after = _cut(SOURCE), _cut("import json\n\n" + SOURCE.replace("(row,)", "(row, row)"))
    changed = {one.name for one in after if one.key not in {b.key for b in before}}
    assert changed == {"", "Book.add"} and len({one.key for one in after}) == len(after)


def test_twins_have_different_keys() -> None:
    found = _cut("if a:\n    def f(): return 1\n\nelse:\n    def f(): return 1\n")
    twins = [one.key for one in found if one.name == "f"]
    assert len(twins) == 2 == len(set(twins))


def test_a_long_function_is_cut_at_lines_and_keeps_its_name() -> None:
    body = "".join(f"    value_{n} = compute({n})\n" + ("\n" if n % 9 == 0 else "") for n in range(150))
    found = _cut(f"def long():\n{body}")
    assert len(found) > 2 and {one.name for one in found} == {"long"}
    assert all(len(one.text) <= CHUNK + 60 for one in found)
    assert all(later.start > one.end for one, later in zip(found, found[1:], strict=False))


def test_a_broken_file_a_language_without_grammar_and_prose_are_cut_too() -> None:
    broken = _cut("def fine():\n    return 1\n\ndef broken(:\n  x = [\n")
    assert ("function", "fine", 1, 2) in _places(broken)
    assert _places(_cut("def a\n  1\nend\n", "a.rb")) == {("text", "", 1, 3)}
    assert len(_cut("words and more words\n\n" * 200, "README.md")) >= 3
    assert _cut("\n  \n{\n}\n", "empty.py") == []


def test_a_secret_over_several_lines_is_taken_out_and_the_lines_behind_it_keep_their_numbers() -> None:
    found = _cut(f'def a():\n    return 1\n\n\nKEY = """{KEY}"""\n\n\ndef b():\n    password = "hunter2-hunter2"\n    return 2\n')
    text = "\n".join(one.text for one in found)
    assert "MIIE" not in text and "hunter2" not in text and "[redacted:" in text
    assert {("function", "a", 1, 2), ("function", "b", 15, 17)} <= _places(found)
    assert "return 2" in next(one.text for one in found if one.name == "b")


def test_a_secret_in_a_name_is_taken_out() -> None:
    token = "ghp_" + "a1B2c3D4e5F6g7H8i9J0" * 2
    found = _cut(f'const keys = {{\n  "{token[:40]}": () => 1,\n}};\n', "keys.js")
    assert token[:40] not in str(found)


def test_carriage_returns_are_not_kept() -> None:
    [one] = _cut("def f():\r\n    return 1\r\n")
    assert one.text == "pay/refunds.py f\ndef f():\n    return 1" and (one.start, one.end) == (1, 2)


@pytest.mark.parametrize(
    ("path", "data", "why"),
    [
        ("src/app.py", b"import os\n", ""),
        ("src/caf\u00e9.py", "# caf\u00e9\n".encode(), ""),
        ("src/builder/dist.py", b"x = 1\n", ""),
        ("docs/notes.md", b"Never write DO NOT EDIT into a file by hand.\n", ""),
        ("web/node_modules/x/index.js", b"x\n", "vendored"),
        ("vendor/x.go", b"x\n", "vendored"),
        ("a/third_party/x.c", b"x\n", "vendored"),
        (".venv/lib/x.py", b"x\n", "vendored"),
        ("dist/x.js", b"x\n", "vendored"),
        ("build/x.js", b"x\n", "vendored"),
        ("api/pay_pb2.py", b"# -*- coding: utf-8 -*-\n# Generated by the compiler.  DO NOT EDIT!\nx = 1\n", "generated"),
        ("api/mock.go", b"// Code generated by MockGen. DO NOT EDIT.\n\npackage api\n", "generated"),
        ("api/Model.java", b"/**\n * @generated\n */\nclass A {}\n", "generated"),
        ("shop/bills.py", b'"""Invoices, generated by the nightly job."""\n', ""),
        ("shop/0001_initial.py", b"# Generated by Django 4.2 on 2024-01-01\nx = 1\n", "generated"),
        ("web/app.min.js", b"x\n", "generated"),
        ("web/app.js", b"var a=1;" * 1000, "generated"),
        ("package-lock.json", b"{}\n", "generated"),
        ("poetry.lock", b"x\n", "generated"),
        ("go.sum", b"x\n", "generated"),
        ("data.json", b"[1],\n" * (LARGEST // 5 + 1), "huge"),
        ("logo.png", b"\x89PNG\r\n\x1a\n\0\0", "binary"),
        ("old.py", b"# caf\xe9\n", ""),
        ("older.py", b"# coding: cp1252\nPRICE = '\x80'\n", ""),
        ("key.der", b"0\x82\x01\x0a\x02\x82\x01\x01\xe9", "binary"),
        ("utf16.txt", "text".encode("utf-16"), "binary"),
    ],
)
def test_files_that_nobody_wrote_or_can_read_are_left_out(path: str, data: bytes, why: str) -> None:
    assert left_out(path, data) == why


def test_our_own_sources_are_all_worth_finding() -> None:
    root = Path(__file__).parents[3]
    files = list((root / "services" / "knowledge").rglob("*.py"))
    assert [str(path) for path in files if left_out(str(path.relative_to(root)), path.read_bytes())] == []


def test_mixed_case_names_are_words_too() -> None:
    assert lexical("refundTotal of HTTPServer2 in a_pool") == "refundTotal of HTTPServer2 in a_pool refund Total HTTP Server"
    assert lexical("plain words, CONSTANT and snake_case") == "plain words, CONSTANT and snake_case"
