"""The five editors: the wanted bytes change, no others do, and everything doubtful is refused."""

import json
import tomllib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ruamel.yaml import YAML

from autopatch.contract.actions import Scalar
from autopatch.contract.errors import OperatorError, Refused
from services.executor.adapters.editors import edit, format_of, locate, masked, read_values
from services.executor.adapters.editors.edit import REPLACED
from services.executor.adapters.editors.formats import Malformed, Name, flatten

JSON = b"""\xef\xbb\xbf{\r
\t// pool_size: how many\r
\t"database": {\r
\t\t"password": "hunter2-secret", /* "pool_size": 99 */\r
\t\t"pool_size": 10, // "pool_size": 3\r
\t\t"ratio": 1.50,\r
\t\t"on": true,\r
\t\t"nothing": null,\r
\t\t"hosts": ["a", "b\xc3\xa9",],\r
\t},\r
\t"name": "p\\u00e9",\r
}"""

YAML_TEXT = b"""# settings
database:
  pool_size: 10   # connections
  password: 'hunter2-secret'
  name: "quoted \xc3\xa9"
  plain: some words here
  on: yes
  shared: &x 5
  other: *x
  key: |
    line one
    line two
list:
- port: 1
  name: a
"""

TOML_TEXT = b"""title = 'lit'\r
[database]\r
pool_size = 1_0  # connections\r
password = "hunter2-secret"\r
ratio = 0.5\r
on = true\r
inline = { a = 1, b = "x" }\r
[[servers]]\r
port = 1\r
[[servers]]\r
port = 2"""

INI_TEXT = b"""top = 1
; comment
[database]
pool_size = 10 ; connections
password: hunter2-secret
long = one
    two
url = http://h/#x
[other]
pool_size=3"""

ENV_TEXT = b"""# settings
export POOL_SIZE=10 # connections
PASSWORD='hunter2-secret'
QUOTED="a \\"b\\" c"  # d
PLAIN=some words
EMPTY=
"""

FILES: dict[Name, bytes] = {"json": JSON, "yaml": YAML_TEXT, "toml": TOML_TEXT, "ini": INI_TEXT, "env": ENV_TEXT}


@pytest.mark.parametrize(
    ("name", "key", "value", "old", "new"),
    [
        ("json", "database.pool_size", 20, b'"pool_size": 10, // ', b'"pool_size": 20, // '),
        ("json", "database.ratio", 2.25, b'"ratio": 1.50,', b'"ratio": 2.25,'),
        ("json", "database.on", False, b'"on": true', b'"on": false'),
        ("json", "database.hosts.1", "c", b'"b\xc3\xa9",', b'"c",'),
        ("json", "name", 'q"\n', b'"p\\u00e9"', b'"q\\"\\n"'),
        ("yaml", "database.pool_size", 20, b"pool_size: 10   #", b"pool_size: 20   #"),
        ("yaml", "database.name", "x: y", b'"quoted \xc3\xa9"', b'"x: y"'),
        ("yaml", "database.plain", "other words", b"plain: some words here", b"plain: other words"),
        ("yaml", "database.plain", "10", b"plain: some words here", b'plain: "10"'),
        ("yaml", "list.0.port", 7, b"port: 1", b"port: 7"),
        ("toml", "database.pool_size", 20, b"1_0  #", b"20  #"),
        ("toml", "title", "it's", b"'lit'", b'"it\'s"'),
        ("toml", "servers.1.port", 9, b"port = 2", b"port = 9"),
        ("toml", "database.inline.a", 2, b"a = 1", b"a = 2"),
        ("ini", "database.pool_size", 20, b"pool_size = 10 ;", b"pool_size = 20 ;"),
        ("ini", "other.pool_size", 4, b"pool_size=3", b"pool_size=4"),
        ("ini", "top", 2, b"top = 1", b"top = 2"),
        ("ini", "database.url", "http://i/#y", b"http://h/#x", b"http://i/#y"),
        ("env", "POOL_SIZE", 20, b"POOL_SIZE=10 #", b"POOL_SIZE=20 #"),
        ("env", "QUOTED", "z", b'"a \\"b\\" c"', b'"z"'),
        ("env", "PLAIN", "more words", b"PLAIN=some words", b"PLAIN='more words'"),
    ],
)
def test_only_the_wanted_bytes_change(name: Name, key: str, value: Scalar, old: bytes, new: bytes) -> None:
    made = edit(FILES[name], format_of(name), key, value, "f")
    assert made.after == FILES[name].replace(old, new, 1)
    assert made.before[: made.offset] + made.new + made.before[made.offset + len(made.old) :] == made.after
    assert locate(made.after, format_of(name), key, "f").old == made.new


@pytest.mark.parametrize(
    ("name", "key", "value", "says"),
    [
        ("json", "database.pool_size", "20", "is a number, '20' is a text"),
        ("json", "database.on", 1, "is a boolean"),
        ("yaml", "database.pool_size", True, "is a number"),
        ("toml", "database.on", "true", "is a boolean"),
        ("ini", "database.pool_size", "20 ; x", "more than its value"),
        ("ini", "database.pool_size", "20\nother = 1", "more than its value"),
        ("ini", "database.pool_size", " 20", "more than its value"),
        ("env", "PASSWORD", "it's", "more than its value"),
        ("env", "POOL_SIZE", "1\nX=2", "more than its value"),
    ],
)
def test_a_value_of_another_kind_or_that_would_spill_is_refused(name: Name, key: str, value: Scalar, says: str) -> None:
    with pytest.raises(Refused, match=says):
        edit(FILES[name], format_of(name), key, value, "f")


@pytest.mark.parametrize(
    ("name", "data", "key", "says"),
    [
        ("json", JSON, "database.pol_size", r"f: there is no key 'database.pol_size' \(the nearest is 'database.pool_size'\)"),
        ("json", JSON, "database", "is a section"),
        ("json", JSON, "database.nothing", "is null"),
        ("json", b'{"a": 1,\n "b": 2,\n "a": 3}', "a", "lines 1, 3"),
        ("json", b'{"a": {"x": 1},\n "a": {"y": 1}}', "a.x", "a is there more than once, in lines 1, 2"),
        ("json", b'{"a": 1\n "b": 2}', "a", "f:2: column 2"),
        ("json", b"[1]", "a", "one object"),
        ("json", b'{"a": "\xff"}', "a", "UTF-8"),
        ("yaml", YAML_TEXT, "database.shared", "anchor"),
        ("yaml", YAML_TEXT, "database.other", "anchor"),
        ("yaml", YAML_TEXT, "database.key", "several lines"),
        ("yaml", b"a: 1\nb: 2\na: 3\n", "a", "lines 1, 3"),
        ("yaml", b"a: 1\n b: 2\n", "a", "f:2:"),
        ("yaml", b"a: &a\n  b: *a\n", "a.b", "refers to itself"),
        ("toml", b"a = 1\na = 2\n", "a", "f:2: Cannot overwrite"),
        ("toml", TOML_TEXT, "database.pool", "nearest is 'database.pool_size'"),
        ("ini", b"[a]\nx=1\n[b]\n[a]\nx=2\n", "a.x", "lines 2, 5"),
        ("ini", INI_TEXT, "database.long", "several lines"),
        ("ini", b"[a]\n=\n", "a.x", "f:2: neither"),
        ("env", b"A=1\nB=2\nexport A=3\n", "A", "lines 1, 3"),
        ("env", b"A=1\n=oops\n", "A", "f:2: neither"),
        ("env", ENV_TEXT, "EMPTY", "is empty"),
    ],
)
def test_what_cannot_be_edited_names_file_line_and_remedy(name: Name, data: bytes, key: str, says: str) -> None:
    with pytest.raises(OperatorError, match=says):
        edit(data, format_of(name), key, 5, "f")


def test_values_are_read_with_their_types() -> None:
    assert read_values(JSON, format_of("json"), ["database.pool_size", "database.on", "name", "no"], "f") == {
        "database.pool_size": 10,
        "database.on": True,
        "name": "p\u00e9",
    }
    assert read_values(INI_TEXT, format_of("ini"), ["database.pool_size", "database.url", "top"], "f") == {
        "database.pool_size": 10,
        "database.url": "http://h/#x",
        "top": 1,
    }
    assert read_values(ENV_TEXT, format_of("env"), ["POOL_SIZE", "PLAIN"], "f") == {"POOL_SIZE": 10, "PLAIN": "some words"}


@pytest.mark.parametrize("name", list(FILES))
def test_secrets_are_replaced_and_nothing_else(name: Name) -> None:
    clean, secrets = masked(FILES[name], format_of(name), "f")
    assert "hunter2-secret" in secrets
    assert b"hunter2" not in clean
    before, after = (flatten(format_of(name).parse(d.decode().removeprefix("\ufeff"))) for d in (FILES[name], clean))
    assert {k for k in before if before[k] != after[k]} == {k for k in before if "password" in k.lower()}
    assert all(after[k] == REPLACED for k in before if "password" in k.lower())


def test_a_secret_that_also_stands_in_a_comment_or_an_address_is_replaced_there_too() -> None:
    data = b"# old: s3cr3t-value\npassword: s3cr3t-value\ndsn: pg://u:s3cr3t-value@h/db\nprivate_key: |\n  abc\n  def\nlast: 1\n"
    clean, _ = masked(data, format_of("yaml"), "f")
    assert b"s3cr3t" not in clean
    assert YAML(typ="safe", pure=True).load(clean.decode())["last"] == 1
    assert b"abc" not in clean


WORDS = st.text(st.characters(codec="utf-8", exclude_categories=["Cs", "Cc", "Cn", "Co"]), max_size=12)
SCALARS = st.one_of(st.booleans(), st.integers(-(10**12), 10**12), st.floats(allow_nan=False, allow_infinity=False), WORDS)
TREES = st.dictionaries(
    st.from_regex(r"[a-z_]{1,8}", fullmatch=True),
    st.one_of(SCALARS, st.dictionaries(st.from_regex(r"[a-z_]{1,8}", fullmatch=True), SCALARS, min_size=1, max_size=4)),
    min_size=1,
    max_size=5,
)
NOISE = st.sampled_from(["", " ", "\t", "  "])


def _render(name: Name, tree: dict[str, object], newline: str, pad: str, last: bool) -> str:
    comment = {"json": "// c", "yaml": "# c", "toml": "# c", "ini": "; c", "env": "# c"}[name]
    form = format_of(name)
    lines: list[str] = []
    flat = {k: v for k, v in tree.items() if not isinstance(v, dict)}
    nested = {k: v for k, v in tree.items() if isinstance(v, dict)}
    if name == "json":
        rows = [f'"{k}"{pad}: {json.dumps(v)}, {comment}' for k, v in flat.items()]
        rows += [
            f'"{k}": {{{newline}' + newline.join(f'\t"{i}":{pad}{json.dumps(w)},' for i, w in v.items()) + "},"
            for k, v in nested.items()
        ]
        lines = ["{", *rows, "}"]
    elif name == "yaml":
        lines = [f"{k}: {pad.replace(chr(9), '')}{form.render(v, '')} {comment}" for k, v in flat.items()]  # type: ignore[arg-type]
        for k, v in nested.items():
            lines += [f"{k}:", *(f"   {i}: {form.render(w, '')}" for i, w in v.items())]
    else:
        mark = "=" if name == "env" else f"{pad}={pad}"
        lines = [f"{k}{mark}{form.render(v, '')} {comment}" for k, v in flat.items()]  # type: ignore[arg-type]
        for k, v in nested.items() if name != "env" else ():
            lines += [f"[{k}]", *(f"{i}{mark}{form.render(w, '')}" for i, w in v.items())]
    return newline.join(lines) + (newline if last else "")


@given(
    name=st.sampled_from(["json", "yaml", "toml", "ini", "env"]),
    tree=TREES,
    value=SCALARS,
    newline=st.sampled_from(["\n", "\r\n"]),
    pad=NOISE,
    last=st.booleans(),
    bom=st.booleans(),
    pick=st.integers(0, 99),
)
@settings(max_examples=400, deadline=None, database=None)
def test_splicing_and_splicing_back_is_the_identity(
    name: Name, tree: dict[str, object], value: Scalar, newline: str, pad: str, last: bool, bom: bool, pick: int
) -> None:
    text = _render(name, tree, newline, pad, last)
    data = (b"\xef\xbb\xbf" if bom else b"") + text.encode()
    form = format_of(name)
    try:
        before = flatten(form.parse(text))
        key = sorted(before or {"none": 0})[pick % max(1, len(before))]
        made = edit(data, form, key, value, "f")
    except (OperatorError, Refused, Malformed):
        return
    assert made.after[: made.offset] == data[: made.offset]
    assert made.after[made.offset + len(made.new) :] == data[made.offset + len(made.old) :]
    assert made.after[: made.offset] + made.old + made.after[made.offset + len(made.new) :] == data
    after = flatten(form.parse(made.after.decode().removeprefix("\ufeff")))
    assert {k for k in {*before, *after} if before.get(k) != after.get(k)} <= {key}


@given(tree=TREES, pick=st.integers(0, 99), value=st.integers(-(10**9), 10**9))
@settings(max_examples=100, deadline=None, database=None)
def test_numbers_in_well_formed_files_are_always_editable(tree: dict[str, object], pick: int, value: int) -> None:
    numbers = {**{k: v for k, v in tree.items() if not isinstance(v, dict)}, "wanted": pick}
    for name in ("json", "yaml", "toml"):
        made = edit(_render(name, numbers, "\n", " ", True).encode(), format_of(name), "wanted", value, "f")
        assert made.new == str(value).encode()
    assert tomllib.loads(made.after.decode())["wanted"] == value
