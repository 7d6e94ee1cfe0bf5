"""Which file a model meant, and which files no patch may touch."""

import difflib
import re
import sys
import unicodedata
from collections.abc import Collection, Iterable, Sequence
from fnmatch import fnmatchcase
from pathlib import PurePosixPath

from autopatch.repair.edits import EditError
from autopatch.repair.tree import PROVES, Tree, fixed, unfit_path

NEAR = 0.8
"""Least similarity (difflib ratio, 0 to 1) of a misspelt path to the file that is meant."""
MARGIN = 0.05
"""By how much it must be more similar than the runner-up."""

_TEST_FOLDERS = {"test", "tests", "__tests__", "__mocks__", "__snapshots__", "__fixtures__", "e2e"}
_TEST_FILES = (
    "test_*.py", "*_test.py", "tests.py", "test.py", "*.test.*", "*.spec.*", "*_test.go", "*test.java", "*tests.java",
    "*_spec.rb", "*.snap", *(f"{name}.{end}{kind}" for name in ("test", "test-*", "*-test", "*_test") for end in ("", "c", "m")
    for kind in ("js", "ts", "jsx", "tsx")),
)
_STEERING_FOLDERS = {
    ".github", ".gitlab", ".circleci", ".buildkite", ".husky", ".vscode", ".idea", ".devcontainer", ".cargo", "node_modules",
    "site-packages", "__pycache__", ".venv", "venv", ".tox", ".nox", ".pytest_cache", ".hypothesis", "_pytest", "pluggy",
    "pytest", "sitecustomize", "usercustomize", ".yarn", ".mvn",
}
_STEERING_FILES = (
    # test runners and their plug-ins, and what Python loads at start
    "conftest.py", "pytest.ini", ".pytest.ini", "pytest.toml", ".pytest.toml", "tox.ini", "tox.toml", "setup.cfg", "setup.py",
    "pyproject.toml", "sitecustomize.*", "usercustomize.*", "*.pth", "pyvenv.cfg", "noxfile.py", ".coveragerc", "pytest.py",
    "_pytest.py", "pluggy.py", "*.egg-link", "entry_points.txt", "*.pyc", "*.pyd", "*.so", ".pdbrc", "unittest.cfg", "nose*.cfg",
    # git
    ".gitattributes", ".gitmodules", ".gitignore", ".gitconfig", ".lfsconfig", ".mailmap",
    # CI and tasks
    ".gitlab-ci.y*ml", ".travis.y*ml", "azure-pipelines.y*ml", "jenkinsfile*", ".drone.y*ml", "bitbucket-pipelines.y*ml",
    "appveyor.y*ml", ".appveyor.y*ml", ".pre-commit-config.y*ml", "makefile", "gnumakefile", "*.mk", "justfile", "dockerfile*",
    "docker-compose*.y*ml", "compose.y*ml", ".env", ".env.*", ".envrc", ".python-version", ".node-version", ".nvmrc",
    # what is installed
    "requirements*.txt", "constraints*.txt", "pipfile", "pipfile.lock", "poetry.lock", "uv.lock", "environment.y*ml",
    "package.json", "package-lock.json", "npm-shrinkwrap.json", "yarn.lock", "pnpm-lock.yaml", "pnpm-workspace.yaml",
    "go.mod", "go.sum",
    # Node's tools
    ".npmrc", ".yarnrc", ".yarnrc.y*ml", ".mocharc*", "jest.config.*", "jest.setup.*", "vitest.config.*", "vitest.workspace.*",
    "vite.config.*", "babel.config.*", ".babelrc*", ".swcrc", "karma.conf.*", "ava.config.*", ".nycrc*", ".c8rc*", "*.node",
    "tsconfig*.json", "playwright.config.*", "cypress.config.*", "bunfig.toml", "deno.json*",
)
_TEST_TOOLS = {
    "pytest_asyncio", "pytest_cov", "pytest_timeout", "xdist", "coverage", "hypothesis", "iniconfig", "packaging", "pygments",
    "py",
    "mock", "nose", "attr", "exceptiongroup", "tomli", "colorama", "execnet",
}
_SOURCE_ROOTS = ("", "src/", "lib/", "python/", "test/", "tests/")
"""Folders that tools put on Python's path."""


def resolve(name: str, tree: Tree, shown: Sequence[str] = ()) -> str | None:
    """The one file of the tree that is meant: backslashes, `a/`, an absolute or placeholder folder, a typo. None if unclear.

    Raises EditError("forbidden") for a name that leads out of the repository or into `.git`.
    """
    wanted = _plain(name)
    if wanted in tree:
        return wanted
    _refuse_escapes(name, wanted)
    for known in (tuple(path for path in shown if path in tree), tuple(tree)):
        for same in (_by_end, _by_file_name, _by_form):
            if len(found := same(wanted, known)) == 1:
                return found[0]
            if found:
                return None
    return _near(wanted, tree)


def _plain(name: str) -> str:
    path = name.strip().strip("`\"'*").replace("\\", "/")
    while path.startswith("./"):
        path = path[2:]
    return path


def _refuse_escapes(name: str, path: str) -> None:
    depth = 0
    for part in path.split("/"):
        depth += {"..": -1, ".": 0, "": 0}.get(part, 1)
        if depth < 0:
            raise EditError("forbidden", f"{name!r} leads out of the repository")
    if unfit_path(path) == "lies in .git":
        raise EditError("forbidden", f"{name!r} lies in .git, which no patch may touch")


def _by_end(wanted: str, known: Iterable[str]) -> list[str]:
    """`a/src/x.py` and `/home/me/repo/src/x.py` both end in `src/x.py`: the longest end that is a file."""
    files, parts = set(known), [part for part in wanted.split("/") if part not in ("", ".")]
    ends = ("/".join(parts[at:]) for at in range(len(parts) - 1))
    return [end for end in ends if end in files][:1]


def _by_file_name(wanted: str, known: Iterable[str]) -> list[str]:
    """Files that end in what is wanted, else files with its last part as their name."""
    known = tuple(known)
    longer = [path for path in known if path.endswith("/" + wanted.lstrip("/"))]
    last = wanted.rpartition("/")[2]
    return longer or [path for path in known if path.rpartition("/")[2] == last and last]


def _by_form(wanted: str, known: Iterable[str]) -> list[str]:
    """Equal but for case, Unicode form and blanks."""
    def form(path: str) -> str:
        return re.sub(r"\s+", "", fold(path))

    return [path for path in known if form(path) == form(wanted) or form(path).endswith("/" + form(wanted))]


def _near(wanted: str, tree: Tree) -> str | None:
    """One name is for another only where no digit differs: `step1.py` is no typo of `step2.py`."""
    suffix, digits = PurePosixPath(wanted).suffix, re.findall(r"\d+", wanted)
    scored: list[tuple[float, str]] = []
    for path in tree:
        seen = path if "/" in wanted else path.rpartition("/")[2]
        if PurePosixPath(path).suffix != suffix or not suffix or re.findall(r"\d+", seen) != digits:
            continue
        matcher = difflib.SequenceMatcher(None, seen, wanted, autojunk=False)
        if matcher.real_quick_ratio() >= NEAR and matcher.quick_ratio() >= NEAR:
            scored.append((matcher.ratio(), path))
    best = sorted(scored, reverse=True)[:2]
    if not best or best[0][0] < NEAR or (len(best) > 1 and best[0][0] - best[1][0] < MARGIN):
        return None
    return best[0][1]


def fold(path: str) -> str:
    """Equal for paths that some file system takes for one: case, Unicode form, and blanks or dots at a name's end."""
    plain = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", path).casefold())
    return "/".join(part.rstrip(" .") or part for part in plain.split("/"))


def is_test(path: str) -> bool:
    """Is it a test, or made for tests only (fixtures, snapshots of outputs)?"""
    *folders, name = fold(path).split("/")
    return not _TEST_FOLDERS.isdisjoint(folders) or (folders[:1] in (["spec"], ["specs"])) or _matches(name, _TEST_FILES)


def steers_tools(path: str, known: Collection[str] = ()) -> bool:
    """Could it change what the test runner, git, an installer or CI does?

    Module names of the standard library count where Python would find them first, unless the path is in `known`, the
    snapshot's files: what was there already shadows nothing new.
    """
    *folders, name = fold(path).split("/")
    if not _STEERING_FOLDERS.isdisjoint(folders) or any(f.endswith((".egg-info", ".dist-info")) for f in folders):
        return True
    return _matches(name, _STEERING_FILES) or (path not in known and _shadows(fold(path)))


def _matches(name: str, patterns: Iterable[str]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)


def _shadows(path: str) -> bool:
    """`json.py` or `json/__init__.py` in a folder that is on Python's path."""
    for root in _SOURCE_ROOTS:
        first, slash, rest = path.removeprefix(root).partition("/")
        if path.startswith(root) and (not slash and path.endswith(".py") or rest.startswith("__init__.")):
            return first.removesuffix(".py") in sys.stdlib_module_names | _TEST_TOOLS
    return False


def untouchable(path: str, tree: Tree) -> str:
    """Why a patch may not touch this path, in a few words; '' when it may. `tree` is the snapshot."""
    return unfit_path(path) or guarded(path, tree) or ("" if path in tree else _unfit_new(path, tree))


def guarded(path: str, tree: Tree) -> str:
    """Why a patch is judged by the snapshot's own content of this path, in a few words; '' when it is not."""
    if proves(path, tree):
        return PROVES
    return "steers the tools that judge the patch" if steers_tools(path, tree) else fixed(tree).get(path, "")


def proves(path: str, tree: Tree) -> bool:
    """Is it a test by its name, or because the test command or its runner's settings say so?"""
    return is_test(path) or fixed(tree).get(path) == PROVES


def _unfit_new(path: str, tree: Tree) -> str:
    folder = path.rpartition("/")[0]
    if any(known.startswith(path + "/") for known in tree):
        return "is a folder"
    if folder and not any(known.startswith(folder + "/") for known in tree):
        return "lies in a folder that the snapshot does not have"
    if any(fold(known) == fold(path) for known in tree):
        return "differs from a file of the snapshot by case or Unicode form only"
    return ""
