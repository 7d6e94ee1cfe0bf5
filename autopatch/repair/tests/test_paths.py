"""The file that is meant, and the files that are none of a patch's business."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autopatch.repair.edits import EditError
from autopatch.repair.paths import is_test, resolve, steers_tools, untouchable

TREE = dict.fromkeys(
    ["src/calc.py", "src/util/text.py", "pkg/Create Items (1).py", "pkg/__init__.py", "__init__.py", "web/app.js", "a/x.py",
    "b/x.py",
     "step1.py", "docs/R\u00e9sum\u00e9.md", "tests/test_calc.py"], b"")


@pytest.mark.parametrize(("name", "path"), [
    ("src/calc.py", "src/calc.py"), ("./src/calc.py", "src/calc.py"), ("a/src/calc.py", "src/calc.py"),
    ("b/src/calc.py", "src/calc.py"), ("calc.py", "src/calc.py"), ("src\\calc.py", "src/calc.py"), ("`src/calc.py`",
    "src/calc.py"),
    ("/home/me/repo/src/calc.py", "src/calc.py"), ("C:\\repo\\src\\calc.py", "src/calc.py"), ("path/to/calc.py", "src/calc.py"),
    ("src/clac.py", "src/calc.py"), ("scr/calc.py", "src/calc.py"), ("clac.py", "src/calc.py"), ("SRC/Calc.py", "src/calc.py"),
    ("pkg\\Create Items (1).py", "pkg/Create Items (1).py"), ("pkg/CreateItems(1).py", "pkg/Create Items (1).py"),
    ("docs/Re\u0301sume\u0301.md", "docs/R\u00e9sum\u00e9.md"), ("util/text.py", "src/util/text.py"), ("a/x.py", "a/x.py"),
    ("x.py", None), ("other/x.py", None), ("step2.py", None), ("python", None), ("path/to/file.py", None), ("", None),
    ("nothing/like/it.rs", None), ("pkg2/__init__.py", None), ("src/../src/calc.py", "src/calc.py"), (".", None), ("/", None),
])
def test_a_name_leads_to_the_one_file_that_is_meant_or_to_none(name: str, path: str | None) -> None:
    assert resolve(name, TREE) == path


def test_of_two_files_with_one_name_the_one_that_was_shown_is_meant() -> None:
    assert resolve("x.py", TREE, ["b/x.py"]) == "b/x.py"


@pytest.mark.parametrize("name", [
    "../calc.py", "src/../../calc.py", "..\\calc.py", "../../etc/passwd", ".git/config", "sub/.GIT/hooks/x",
])
def test_a_name_that_leads_out_or_into_git_is_refused(name: str) -> None:
    with pytest.raises(EditError) as refused:
        resolve(name, TREE)
    assert refused.value.kind == "forbidden"


@given(st.text(max_size=40))
def test_whatever_the_name_a_file_of_the_tree_or_none_or_a_refusal_comes_of_it(name: str) -> None:
    try:
        assert resolve(name, TREE) in {*TREE, None}
    except EditError as refused:
        assert refused.kind == "forbidden"


@pytest.mark.parametrize("path", [
    "tests/test_calc.py", "test_calc.py", "src/calc_test.py", "a/tests/data/x.json", "web/app.test.ts", "web/app.spec.js",
    "__tests__/x.js", "web/__snapshots__/a.snap", "calc_test.go", "src/CalcTest.java", "TESTS/x.py", "test/x.mjs",
    "spec/x_spec.rb",
])
def test_tests_are_known_by_their_place_or_name(path: str) -> None:
    assert is_test(path)


@pytest.mark.parametrize("path", [
    "src/calc.py", "src/testing.py", "contest.py", "latest/x.py", "attest.py", "web/app.js", "src/protest.java.py",
    "openapi/spec/x.py",
])
def test_what_only_sounds_like_a_test_is_none(path: str) -> None:
    assert not is_test(path)


@pytest.mark.parametrize("path", [
    "conftest.py", "src/conftest.py", "pytest.ini", "tox.ini", "setup.cfg", "pyproject.toml", "sitecustomize.py",
    "usercustomize.py",
    "x.pth", ".gitattributes", "a/.gitmodules", ".github/workflows/ci.yml", ".gitlab-ci.yml", "package.json", ".npmrc",
    "jest.config.js", "vitest.config.mts", ".mocharc.json", "pytest.py", "src/pytest.py", "_pytest/x.py", "json.py",
    "src/unittest.py",
    "random/__init__.py", "x.egg-info/entry_points.txt", "__pycache__/calc.cpython-311.pyc", "calc.so", "CONFTEST.PY",
    "conftest.py ",
    "node_modules/x/index.js", ".env", "Makefile", "requirements-dev.txt", "lib/xdist.py", "coverage.py", "tests/collections.py",
])
def test_files_that_steer_tools_are_known(path: str) -> None:
    assert steers_tools(path)


@pytest.mark.parametrize("path", ["src/calc.py", "src/app/json.py", "src/app/logging.py", "app/types.py", "jsonx.py", "web/a.js"])
def test_ordinary_code_steers_nothing(path: str) -> None:
    assert not steers_tools(path)


def test_a_module_that_was_there_shadows_nothing_new() -> None:
    assert steers_tools("code.py")
    assert not steers_tools("code.py", {"code.py"})
    assert steers_tools("pytest.py", {"pytest.py"})


@pytest.mark.parametrize(("path", "why"), [
    ("src/calc.py", ""), ("src/new.py", ""), ("new.py", ""), ("tests/test_new.py", "tests"), ("setup.cfg", "steers"),
    ("queue.py", "steers"), ("lib/new.py", "folder that"), ("src", "is a folder"), ("src/Calc.py", "by case"),
    ("docs/Re\u0301sume\u0301.md", "Unicode"), ("../x.py", "out of"), (".git/config", ".git"), ("src/calc.py/x.py",
    "folder that"),
])
def test_why_a_path_may_not_be_touched(path: str, why: str) -> None:
    assert (why in untouchable(path, TREE)) if why else untouchable(path, TREE) == ""
