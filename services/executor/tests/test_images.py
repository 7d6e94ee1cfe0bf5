"""Dependencies: what is needed, what an image lacks, and one installation that is kept, from an index of the test's own."""

import functools
import hashlib
import json
import subprocess
import sys
import threading
import zipfile
from collections.abc import Callable, Iterator, Mapping
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, cast

import pytest
from docker import DockerClient

from autopatch.contract.code import CodeJob
from autopatch.contract.evidence import BlobRef
from autopatch.repair.tree import Tree
from services.executor.adapters.images import alone
from services.executor.adapters.images.dependencies import lacking, node_needs, python_needs
from services.executor.adapters.images.prepare import REPOSITORY, CannotPrepare, Images, settings_of_this_machine
from services.executor.adapters.runtimes.engine import Engine
from services.executor.adapters.sandbox.container import DockerSandbox
from services.executor.adapters.sandbox.job import Job, Outcome
from services.executor.adapters.sandbox.limits import MIB, Limits
from services.executor.adapters.sandbox.owner import OWNER, myself
from services.executor.adapters.workshop.responder import Workshop
from services.executor.tests.workshop import Bench, archive, outcomes

PYPROJECT = b"""
[project]
name = "mine"
dependencies = ["six>=1"]
[project.optional-dependencies]
test = ["pytest>=7", "mine[extra]"]
docs = ["sphinx"]
[dependency-groups]
dev = ["toolz", {include-group = "test"}]
"""


def test_needs_are_read_from_every_file_that_says_so() -> None:
    tree = {
        "requirements.txt": b"# ours\nsix==1.16 # why\n-r requirements/test.txt\n-e .\n--index-url https://x\n./here\n",
        "requirements/test.txt": b"pytest \\\n  >=7 --hash=sha256:1\n", "docs-requirements.txt": b"sphinx\n",
        "deep/requirements.txt": b"x", "pyproject.toml": PYPROJECT,
    }
    assert python_needs(tree).lines == ("six==1.16", "pytest>=7", "six>=1", "toolz")
    assert python_needs({"a.py": b""}).lines == ()
    assert node_needs({"package.json": b'{"devDependencies": {"left-pad": "1"}}'}).lines == ("npm",)
    assert node_needs({"package.json": b'{"name": "x"}'}).lines == node_needs({}).lines == ()


@pytest.mark.parametrize(("path", "needs"), [("pyproject.toml", python_needs), ("package.json", node_needs)])
def test_a_file_that_cannot_be_read_is_named(path: str, needs: Callable[[Tree], object]) -> None:
    with pytest.raises(ValueError, match=path):
        needs({path: b"{[="})


@pytest.mark.parametrize(("text", "says"), [
    ('project = "x"', "project is no table"),
    ("[project]\noptional-dependencies = []", "project.optional-dependencies is no table"),
    ('dependency-groups = ["pytest"]', "dependency-groups is no table"),
    ("[project]\ndependencies = 5", "project.dependencies is no list"),
    ('[project]\ndependencies = "six"', "project.dependencies is no list"),
    ('[project.optional-dependencies]\ntest = "pytest"', "project.optional-dependencies.test is no list"),
    ('[dependency-groups]\ndev = "toolz"', "dependency-groups.dev is no list"),
    (f"x = {'[' * 5000}", "nested too deeply"),
])
async def test_a_pyproject_of_another_shape_is_the_environments_fault_and_named(text: str, says: str) -> None:
    images = Images(Engine("unix:///nowhere"), cast(DockerSandbox, None), "none", "none")
    with pytest.raises(CannotPrepare, match=rf"^pyproject\.toml: {says} \(--image"):
        await images.image_for(a_job(), {"pyproject.toml": text.encode()})


async def test_an_image_that_does_not_answer_in_time_is_no_image_without_packages() -> None:
    class Answering(Engine):
        async def do(self, work: Any, *, timeout_s: float | None = None) -> Any:
            return "id"

    class Slow:
        async def run(self, job: Job) -> Outcome:
            return Outcome(None, "", "", 30, "runc", "it took longer than 30 s")

    with pytest.raises(CannotPrepare, match="Python of the image i cannot be asked: it took longer than 30 s"):
        await Images(Answering("unix:///nowhere"), Slow(), "i", "none").image_for(a_job(), {"requirements.txt": b"six\n"})


def test_what_is_installed_is_not_lacking_and_what_is_for_other_machines_is_not_needed() -> None:
    lines = b"Six>=1.10\nPyTest<9\ntoolz\nold @ https://x/o.whl ; python_version < '3'\nsix[extra]\nsix==99\n"
    installed = {"six": "1.16.0", "pytest": "7.2.1"}
    assert lacking(python_needs({"requirements.txt": lines}), installed) == ["toolz", "six[extra]", "six==99"]


@pytest.mark.parametrize(("data", "lines"), [
    (b"\xef\xbb\xbfsix==1 \\\r\n  --hash=sha256:1 \\\r\n  --hash=sha256:2\r\ntoolz\t# why\r\n", ("six==1", "toolz")),
    (b"-r base.txt\n-c limits.txt\n--index-url https://x/s\n-f https://x\n-e .[test]\n.\n./lib\ntoolz --pre\n", ("toolz",)),
    (b"six>=1,<3 ; python_version >= '3' and extra != 'x'\n", ('six<3,>=1; python_version >= "3" and extra != "x"',)),
])
def test_hashes_comments_markers_and_options_of_the_installer_are_no_hindrance(data: bytes, lines: tuple[str, ...]) -> None:
    assert python_needs({"requirements.txt": data}).lines == lines


BUILT = [
    "x @ https://evil/x.tar.gz", "x[a] @ git+https://evil/x.git ; python_version > '3'", "https://evil/x.tar.gz", "vendor/x",
    "git+https://u:p@evil/x.git", "-e git+https://evil/x.git#egg=x", "--editable=git+https://evil/x", "file:///x", "C:\\x",
    "x===a/../../prepare", "x \\ # and", "${X}",
]


@pytest.mark.parametrize("line", BUILT)
async def test_what_would_be_built_with_network_is_refused_by_file_and_line(line: str) -> None:
    tree = {"requirements.txt": b"six==1 \\\n  --hash=sha256:1\n", "requirements/test.txt": f"pytest\n\n{line}\n".encode()}
    with pytest.raises(CannotPrepare, match=r"requirements/test\.txt, line 3: .* is no .*--image") as raised:
        await Images(Engine("unix:///nowhere"), cast(DockerSandbox, None), "none", "none").image_for(a_job(), tree)
    assert "u:p@" not in str(raised.value)


@pytest.mark.parametrize("where", ["project]\ndependencies", "project.optional-dependencies]\ntest", "dependency-groups]\ndev"])
def test_pyprojects_own_are_refused_too(where: str) -> None:
    with pytest.raises(ValueError, match=r"pyproject\.toml: 'x @ git\+https://evil/x'"):
        python_needs({"pyproject.toml": f'[{where} = ["six", "x @ git+https://evil/x"]\n'.encode()})


def test_pip_unpacks_what_is_ready_made_and_can_start_nothing(tmp_path: Path) -> None:
    wheel(tmp_path)
    (tmp_path / "setup.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w').close()\n")
    options = ["--no-index", "--only-binary", ":all:", "--target", str(tmp_path / "site")]
    command = [sys.executable, alone.__file__, "install", *options]
    built, ready = (
        subprocess.run([*command, str(what)], capture_output=True, text=True, timeout=60, check=False)
        for what in (tmp_path, *tmp_path.glob("simple/*/*.whl"))
    )
    assert (built.returncode, ready.returncode) == (1, 0), ready.stderr
    assert "nothing is run while dependencies are installed" in built.stderr
    assert not (tmp_path / "ran").exists() and (tmp_path / "site" / "autopatch_seven.py").exists()


WHEEL = "Wheel-Version: 1.0\nGenerator: x\nRoot-Is-Purelib: true\nTag: py3-none-any\n"


def wheel(folder: Path, name: str = "seven", metadata: str = "") -> None:
    """A package `autopatch-NAME` in a simple index."""
    full = f"autopatch_{name}-1.0"
    place = folder / "simple" / f"autopatch-{name}"
    place.mkdir(parents=True)
    with zipfile.ZipFile(place / f"{full}-py3-none-any.whl", "w") as made:
        made.writestr(f"autopatch_{name}.py", "SEVEN = 7\n")
        made.writestr(f"{full}.dist-info/METADATA", f"Metadata-Version: 2.1\nName: autopatch-{name}\nVersion: 1.0\n{metadata}")
        made.writestr(f"{full}.dist-info/WHEEL", WHEEL)
        made.writestr(f"{full}.dist-info/RECORD", "")
    (place / "index.html").write_text(f'<a href="{full}-py3-none-any.whl">{full}-py3-none-any.whl</a>')


def package(folder: Path, address: str) -> None:
    """A package `autopatch-eight` in a registry of npm."""
    (folder / "npm").mkdir()
    (folder / "npm" / "eight.tgz").write_bytes(archive({
        "package/package.json": '{"name": "autopatch-eight", "version": "1.0.0", "scripts": {"install": "touch /ran"}}',
        "package/index.js": "module.exports = 8;\n",
    }))
    digest = hashlib.sha1((folder / "npm" / "eight.tgz").read_bytes()).hexdigest()
    version = {"name": "autopatch-eight", "version": "1.0.0", "dist": {"tarball": f"{address}/npm/eight.tgz", "shasum": digest}}
    told = {"name": "autopatch-eight", "dist-tags": {"latest": "1.0.0"}, "versions": {"1.0.0": version}}
    (folder / "autopatch-eight").write_text(json.dumps(told))


@pytest.fixture
def index(tmp_path: Path) -> Iterator[str]:
    """Address of a server with one Python and one Node package."""
    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            return

    with ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=str(tmp_path))) as server:
        address = f"http://127.0.0.1:{server.server_address[1]}"
        wheel(tmp_path)
        wheel(tmp_path, "nine", f"Requires-Dist: ten @ {address}/ten-1.0.tar.gz\n")
        (tmp_path / "ten-1.0.tar.gz").write_bytes(archive({"ten-1.0/setup.py": "open('/ran', 'w')\n"}))
        package(tmp_path, address)
        serving = threading.Thread(target=server.serve_forever, args=(0.05,))
        serving.start()
        yield address
        server.shutdown()
        serving.join()


def settings(address: str) -> Callable[[], Mapping[str, bytes]]:
    """Of a machine that knows that index only."""
    exports = {
        "PIP_CONFIG_FILE": "/dev/null", "PIP_INDEX_URL": f"{address}/simple", "PIP_RETRIES": "0", "npm_config_registry": address,
        "npm_config_fetch_retries": "0", "HOME": "/prepare",
    }
    return lambda: {"environment": "".join(f"export {name}={value}\n" for name, value in exports.items()).encode()}


@pytest.fixture
def sandbox(engine: Engine) -> DockerSandbox:
    """Under runc."""
    return DockerSandbox(engine, Limits(output=32 * MIB), runtime="runc")


@pytest.fixture
def no_images_left(client: DockerClient) -> Iterator[None]:
    """Prepared images of this test are removed."""
    before = {image.id for image in client.images.list(REPOSITORY)}
    yield
    for image in client.images.list(REPOSITORY):
        if image.id not in before:
            client.images.remove(str(image.id), force=True)


def a_job(**fields: str) -> CodeJob:
    return CodeJob.model_validate(
        {"repository": "r", "snapshot": BlobRef(name="x", size=0, digest="x"), "tree": "t", "command": ("pytest",)} | fields
    )


@pytest.mark.docker
async def test_what_a_repository_lacks_is_installed_once_and_its_tests_run_without_network(
    engine: Engine, sandbox: DockerSandbox, image: str, index: str, client: DockerClient, no_images_left: None
) -> None:
    images = Images(engine, sandbox, image, "none", settings=settings(index), network="host")
    bench = Bench(sandbox, image)
    bench.workshop = Workshop(sandbox, bench.blobs, images)
    files = {
        "requirements.txt": "autopatch-seven==1.0\npytest\n", "pyproject.toml": "[project]\nname = 'mine'\n",
        "src/mine/__init__.py": "from autopatch_seven import SEVEN\n",
        "tests/test_it.py": "import mine\ndef test_it():\n    assert mine.SEVEN == 8\n",
    }
    (report,) = await bench.run(await bench.job(files), unchanged=1)
    assert outcomes(report) == {"tests/test_it.py::test_it": "failed"}, report
    assert (report.cases[0].actual, report.cases[0].expected) == ("7", "8")
    made = {str(found.id) for found in client.images.list(REPOSITORY)}
    again = await Images(engine, sandbox, image, "none", settings=settings("http://127.0.0.1:9"), network="host").image_for(
        a_job(), {name: content.encode() for name, content in files.items()}
    )
    assert again.startswith(f"{REPOSITORY}:")
    assert {str(found.id) for found in client.images.list(REPOSITORY)} == made
    assert not client.api.containers(all=True, filters={"label": f"{OWNER}={myself()}"})


@pytest.mark.docker
async def test_nodes_packages_are_installed_and_their_scripts_do_not_run(
    engine: Engine, sandbox: DockerSandbox, npm_image: str, index: str, no_images_left: None
) -> None:
    images = Images(engine, sandbox, "none", npm_image, settings=settings(index), network="host")
    bench = Bench(sandbox, "none")
    bench.workshop = Workshop(sandbox, bench.blobs, images)
    test = (
        "const assert = require('assert');\n"
        "require('node:test')('eight', () => {\n"
        "  assert.ok(!require('fs').existsSync('/ran'));\n  assert.strictEqual(require('autopatch-eight'), 8);\n});\n"
    )
    files = {"package.json": '{"dependencies": {"autopatch-eight": "1"}}', "test/eight.test.js": test}
    (report,) = await bench.run(await bench.job(files, "node --test", toolchain="node"), unchanged=1)
    assert outcomes(report) == {"test/eight.test.js > eight": "passed"}, report


@pytest.mark.docker
@pytest.mark.parametrize(("toolchain", "path", "asked"), [
    ("python", "requirements.txt", b"autopatch-nine\n"),
    ("node", "package.json", b'{"dependencies": {"x": "git+http://127.0.0.1:9/x.git"}}'),
])
async def test_nothing_is_built_whoever_asks_for_it(
    request: pytest.FixtureRequest, engine: Engine, sandbox: DockerSandbox, image: str, index: str, toolchain: str, path: str,
    asked: bytes,
) -> None:
    node_image = request.getfixturevalue("npm_image") if toolchain == "node" else "none"
    images = Images(engine, sandbox, image, node_image, settings=settings(index), network="host")
    with pytest.raises(CannotPrepare, match="nothing is run while dependencies are installed"):
        await images.image_for(a_job(toolchain=toolchain), {path: asked})


@pytest.mark.docker
async def test_with_nothing_missing_the_toolchains_own_image_is_taken(engine: Engine, sandbox: DockerSandbox, image: str) -> None:
    images = Images(engine, sandbox, image, "none", settings=settings("http://127.0.0.1:9"))
    assert await images.image_for(a_job(), {"requirements.txt": b"pytest>=6\n"}) == image
    assert await images.image_for(a_job(), {}) == image
    assert await images.image_for(a_job(image="mine:1"), {"requirements.txt": b"nothing-like-it\n"}) == "mine:1"


@pytest.mark.docker
async def test_without_network_the_environment_is_to_blame(
    engine: Engine, sandbox: DockerSandbox, image: str, client: DockerClient
) -> None:
    bench = Bench(sandbox, image)
    images = Images(engine, sandbox, image, "none", settings=settings("http://127.0.0.1:9"), network="host")
    bench.workshop = Workshop(sandbox, bench.blobs, images)
    (report,) = await bench.run(await bench.job({"requirements.txt": "autopatch-seven==1.0\n", "test_a.py": ""}), unchanged=1)
    assert report.ended == "lost"
    assert "the dependencies cannot be installed" in report.problem and "autopatch-seven" in report.problem, report.problem
    assert "package index must be reachable" in report.problem
    assert not client.api.containers(all=True, filters={"label": f"{OWNER}={myself()}"})
    with pytest.raises(CannotPrepare, match=r"pyproject\.toml"):
        await images.image_for(a_job(), {"pyproject.toml": b"[="})


def test_what_this_machines_installers_are_told_is_handed_on_without_its_folders() -> None:
    told = settings_of_this_machine()
    assert told["pip.conf"].startswith(b"[global]") and b"file:" not in told["pip.conf"]
    assert b"export PIP_CONFIG_FILE=/prepare/pip.conf\n" in told["environment"]
