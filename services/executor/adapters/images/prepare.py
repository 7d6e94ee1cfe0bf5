"""Images with a repository's dependencies: installed once, with network, by programs of ours; cached by what they were made of.

Only ready-made packages are unpacked (wheels of an index; npm without scripts), and neither pip nor npm can start a process, so
nothing of a repository or its dependencies runs here: what ran would have network, and the image that judges in its hands.
"""

import asyncio
import json
import shlex
import ssl
import subprocess
import sys
import time
import urllib.request
import uuid
from collections import defaultdict
from collections.abc import Callable, Mapping
from contextlib import suppress
from importlib.resources import files
from pathlib import Path

from docker import DockerClient
from docker.errors import APIError, ImageNotFound, NotFound

from autopatch.chassis.redaction import redact
from autopatch.contract.code import CodeJob
from autopatch.contract.errors import AutoPatchError, Unavailable
from autopatch.contract.model import canonical, digest
from autopatch.repair.tree import Tree
from services.executor.adapters.runtimes.engine import Engine
from services.executor.adapters.sandbox.job import Job, Sandbox
from services.executor.adapters.sandbox.limits import MIB, SITE, archive
from services.executor.adapters.sandbox.owner import EXPIRES, OWNER, RUN, myself, remove
from services.executor.adapters.images.dependencies import LIST, Needs, lacking, node_needs, only, python_needs

PREPARED = "org.autopatch.prepared"
REPOSITORY = "autopatch-prepared"
KEPT = 20
"""Prepared images that outlive the next one, newest first."""
LIMIT_S = 600
_HERE = "/prepare"
_OURS = ("alone.py", "alone.cjs")
_PYTHON = (
    f"python3 {_HERE}/alone.py install --quiet --no-input --only-binary :all: --root-user-action ignore --target {SITE} "
    f"-r {_HERE}/requirements.txt"
)
_NODE = (
    f"cd {_HERE} && export NODE_OPTIONS='--require {_HERE}/alone.cjs' && "
    "npm $(test -e package-lock.json && echo ci || echo install) --ignore-scripts --no-audit --no-fund && mv node_modules /"
)
_PASSED_ON = ("index-url", "extra-index-url", "trusted-host", "proxy", "timeout", "retries")


class CannotPrepare(AutoPatchError):
    """The dependencies cannot be installed: a fault of the environment, said as such."""


class Images:
    """Which image a job's tests run in.

    `settings`: files that tell how package indexes are reached; `network`: the engine's network that leads there.
    """

    def __init__(
        self, engine: Engine, sandbox: Sandbox, python: str, node: str, *,
        settings: Callable[[], Mapping[str, bytes]] | None = None, network: str = "",
    ) -> None:
        self._engine, self._sandbox = engine, sandbox
        self._settings, self._network = settings or settings_of_this_machine, network
        self._own = {"python": python, "node": node}
        self._installed: dict[str, dict[str, str]] = {}
        self._one_at_a_time: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)

    async def image_for(self, job: CodeJob, tree: Tree) -> str:
        """The job's own, else the toolchain's, with what the repository needs. Raises CannotPrepare, Unavailable."""
        if job.image:
            return job.image
        base = self._own[job.toolchain]
        try:
            needs = python_needs(tree) if job.toolchain == "python" else node_needs(tree)
        except ValueError as error:
            raise CannotPrepare(redact(str(error)), tip=_OWN) from error
        if not needs.lines:
            return base
        base_id = await self._engine.do(lambda client: _id(client, base))
        if job.toolchain == "python":
            needs = only(lacking(needs, await self._distributions(base, base_id)))
            if not needs.lines:
                return base
        made_of = digest(canonical([base_id, job.toolchain, {name: digest(data) for name, data in needs.files.items()}]))
        name = f"{REPOSITORY}:{made_of[:16]}"
        async with self._one_at_a_time[name]:
            if not await self._engine.do(lambda client: _has(client, name)):
                await self._make(name, base, job.toolchain, needs, made_of)
        return name

    async def _distributions(self, image: str, image_id: str) -> dict[str, str]:
        if image_id not in self._installed:
            outcome = await self._sandbox.run(Job(image, ("python3", "-c", LIST), 30))
            if outcome.exit_code != 0:
                raise CannotPrepare(f"Python of the image {image} cannot be asked: {outcome.why or outcome.stderr[-300:]}")
            self._installed[image_id] = json.loads(outcome.stdout)
        return self._installed[image_id]

    async def _make(self, name: str, base: str, toolchain: str, needs: Needs, made_of: str) -> None:
        """Installs into a container of the base, and keeps that as an image. Cancelled or failed, nothing is left."""
        container = f"autopatch-prepare-{uuid.uuid4().hex[:12]}"
        ours = {path: files(__package__).joinpath(path).read_bytes() for path in _OURS}
        files_in = {**needs.files, **await asyncio.to_thread(self._settings), **ours}
        content = {f"{_HERE[1:]}/{path}": data for path, data in files_in.items()}
        command = f". {_HERE}/environment; {_PYTHON if toolchain == 'python' else _NODE}; code=$?; rm -rf {_HERE}; exit $code"
        try:
            await self._engine.surely(lambda client: _begin(client, container, base, command, content, self._network))
            code = await self._engine.do(lambda client: int(client.api.wait(container)["StatusCode"]), timeout_s=LIMIT_S)
            if code:
                said = await self._engine.do(lambda client: client.api.logs(container).decode(errors="replace"))
                raise CannotPrepare(f"the dependencies cannot be installed: {redact(_last(said))}", tip=_TIP)
            await self._engine.surely(lambda client: _commit(client, container, name, made_of))
        except APIError as error:
            raise Unavailable("docker", f"the image {name} could not be made: {error.explanation or error}") from error
        finally:
            await asyncio.shield(asyncio.ensure_future(self._engine.do(lambda client: remove(client, container))))


_OWN = "--image names an image of your own, with everything that the tests need"
_TIP = "the package index must be reachable from the machine of the executor; or name an image that has them: --image"


def _id(client: DockerClient, image: str) -> str:
    try:
        return str(client.images.get(image).id)
    except ImageNotFound:
        raise Unavailable("docker", f"image {image} is not on the engine", tip="infra/images/build.sh makes the images") from None


def _has(client: DockerClient, image: str) -> bool:
    with suppress(ImageNotFound):
        return bool(client.images.get(image))
    return False


def _begin(client: DockerClient, name: str, image: str, command: str, content: dict[str, bytes], network: str) -> None:
    """Root of its own container only, without any capability; the network of the machine where the engine has no bridge."""
    labels = {RUN: name, OWNER: myself(), EXPIRES: str(int(time.time() + LIMIT_S + 60))}
    bridged = any(found.name == "bridge" for found in client.networks.list(names=["bridge"]))
    seccomp = files("services.executor.adapters.sandbox").joinpath("seccomp.json").read_text()
    client.containers.create(
        image, name=name, labels=labels, entrypoint=["sh", "-c", command], user="0:0", cap_drop=["ALL"], init=True,
        network_mode=network or ("bridge" if bridged else "host"), security_opt=["no-new-privileges", f"seccomp={seccomp}"],
        mem_limit=1024 * MIB, memswap_limit=1024 * MIB, pids_limit=256, detach=True,
    )
    client.api.put_archive(name, "/", archive(content, owner=0))
    client.api.start(name)


def _commit(client: DockerClient, container: str, name: str, made_of: str) -> None:
    changes = [f"LABEL {PREPARED}={made_of}", f"ENV PYTHONPATH={SITE}", "ENTRYPOINT []"]
    repository, tag = name.split(":")
    client.api.commit(container, repository, tag, changes=changes)
    older = sorted(client.images.list(filters={"label": PREPARED}), key=lambda image: str(image.attrs["Created"]), reverse=True)
    for image in older[KEPT:]:
        with suppress(APIError, NotFound):
            client.images.remove(str(image.id), force=False)


def settings_of_this_machine() -> dict[str, bytes]:
    """How this machine reaches its package indexes: what its pip and npm are told, its certificates and its proxies."""
    told = _output(sys.executable, "-m", "pip", "config", "list")
    pip = dict(line.split("=", 1) for line in told.splitlines() if "=" in line)
    options = {name.rpartition(".")[2]: " ".join(shlex.split(value)) for name, value in pip.items()}
    kept = {name: _elsewhere(value) for name, value in options.items() if name in _PASSED_ON and _elsewhere(value)}
    found = {"pip.conf": "\n".join(["[global]", *(f"{name} = {value}" for name, value in kept.items())]).encode()}
    exports = {"PIP_CONFIG_FILE": f"{_HERE}/pip.conf", "HOME": _HERE, "npm_config_cache": f"{_HERE}/npm"}
    authorities = options.get("cert") or ssl.get_default_verify_paths().cafile
    if authorities and Path(authorities).is_file():
        found["authorities.pem"] = Path(authorities).read_bytes()
        exports |= dict.fromkeys(("PIP_CERT", "NODE_EXTRA_CA_CERTS"), f"{_HERE}/authorities.pem")
    exports |= {f"{scheme}_proxy": address for scheme, address in urllib.request.getproxies().items()}
    registry = _output("npm", "config", "get", "registry").strip()
    exports |= {"npm_config_registry": registry} if registry.startswith("http") else {}
    found["environment"] = "".join(f"export {name}={shlex.quote(value)}\n" for name, value in exports.items()).encode()
    return found


def _elsewhere(value: str) -> str:
    """Without what lies in files of this machine."""
    return " ".join(part for part in value.split() if not part.startswith("file:"))


def _output(*command: str) -> str:
    with suppress(OSError, subprocess.TimeoutExpired):
        return subprocess.run(command, capture_output=True, text=True, timeout=30, check=False).stdout
    return ""


def _last(said: str) -> str:
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    errors = [line for line in lines if "error" in line.lower()]
    return " / ".join((errors or lines)[-3:])[-800:] or "the installer said nothing"
