"""Where a repository came from: its remote's address taken apart, and the branch brought there."""

import base64
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal
from urllib.parse import unquote, urlsplit

from pydantic import SecretStr

from autopatch.contract.errors import OperatorError, Refused
from services.executor.adapters.branches.git import Git, GitFailed
from services.executor.adapters.branches.settings import ForgeSettings

Kind = Literal["github", "gitlab"]
_SCP = re.compile(r"^(?:[^@/\s]+@)?(?P<host>[^:/\s]+):(?!//)(?P<path>.+)$")
_NOT_LET = re.compile(r"authentication|permission|could not read username|\b40[13]\b|denied")
"""Git names commits in its words, and one in fifty of those names holds a 401 or 403."""
PUSH_S = 120
SETTING = {"github": "AUTOPATCH_FORGE_GITHUB_TOKEN", "gitlab": "AUTOPATCH_FORGE_GITLAB_TOKEN"}


@dataclass(frozen=True)
class Remote:
    """`path`: owner/name, with GitLab's subgroups. `url`: as git has it."""

    kind: Kind
    host: str
    path: str
    api: str
    token: SecretStr
    url: str = ""

    @property
    def owner(self) -> str:
        """Before the last slash."""
        return self.path.rpartition("/")[0]


def parse(url: str, settings: ForgeSettings) -> Remote:
    """https, ssh and scp-like addresses. Raises OperatorError for all others and for hosts of an unknown kind."""
    host, path = _address(url)
    if not host or path.count("/") < 1 or ".." in path.split("/"):
        raise OperatorError(f"remote {_harmless(url)}: not one of GitHub or GitLab", tip="it needs an https or ssh address")
    if host in settings.github_hosts:
        api = settings.github_api or ("https://api.github.com" if host == "github.com" else f"https://{host}/api/v3")
        return Remote("github", host, path, api.rstrip("/"), settings.github_token, url)
    if host in settings.gitlab_hosts:
        api = settings.gitlab_api or f"https://{host}/api/v4"
        return Remote("gitlab", host, path, api.rstrip("/"), settings.gitlab_token, url)
    raise OperatorError(
        f"remote {_harmless(url)}: {host} is not known as GitHub or GitLab",
        tip="add it to AUTOPATCH_FORGE_GITHUB_HOSTS or AUTOPATCH_FORGE_GITLAB_HOSTS",
    )


def remote_of(folder: Path, name: str, settings: ForgeSettings, environment: Mapping[str, str]) -> Remote:
    """Of a repository's remote. Raises OperatorError when there is none of that name."""
    url = Git(folder, environment=environment, neutral=False).ask("remote", "get-url", "--push", "--", name)
    if not url:
        raise OperatorError(f"{folder} has no remote {name}", tip="git remote add origin <address>, or leave --pr out")
    return parse(url, settings)


def push(folder: Path, remote: Remote, commit: str, branch: str, environment: Mapping[str, str]) -> None:
    """Bring the commit there as `branch`; being there already is fine. Raises Refused, OperatorError, Unavailable.

    Over https with our token, else with the person's own keys and helpers. Nothing is ever pushed over.
    """
    git = Git(folder, environment=environment, neutral=False, timeout_s=PUSH_S)
    own = {"GIT_SSH_COMMAND": "ssh -oBatchMode=yes"}
    if remote.url.startswith("https://") and remote.token.get_secret_value():
        own = _header(remote)
    try:
        git.run("push", "--no-verify", "--", remote.url, f"{commit}:refs/heads/{branch}", extra=own)
    except GitFailed as error:
        raise _told(remote, branch, error.said) from None


def _header(remote: Remote) -> dict[str, str]:
    """The token by environment, where no process list shows it, and for this host only; helpers are not asked."""
    user = "x-access-token" if remote.kind == "github" else "oauth2"
    word = base64.b64encode(f"{user}:{remote.token.get_secret_value()}".encode()).decode()
    parts = urlsplit(remote.url)
    where = f"https://{parts.hostname}{f':{parts.port}' if parts.port else ''}/"
    return {
        "GIT_CONFIG_COUNT": "3", "GIT_CONFIG_KEY_0": f"http.{where}.extraHeader",
        "GIT_CONFIG_VALUE_0": f"Authorization: Basic {word}",
        "GIT_CONFIG_KEY_1": "credential.helper", "GIT_CONFIG_VALUE_1": "",
        "GIT_CONFIG_KEY_2": "http.followRedirects", "GIT_CONFIG_VALUE_2": "false",
    }


def _told(remote: Remote, branch: str, said: str) -> Exception:
    low = said.lower()
    if _NOT_LET.search(low):
        web = remote.url.startswith("https://")
        tip = f"set {SETTING[remote.kind]} to a token that may push" if web else "`ssh-add` your key"
        return OperatorError(f"{remote.host} does not let us push to {remote.path}: {said}", tip=tip)
    if "rejected" in low or "fetch first" in low or "non-fast-forward" in low:
        return Refused(f"{remote.host} has another branch {branch}: {said}", tip="name another one with --branch NAME")
    return Refused(f"git push to {remote.host}: {said}", tip=f"`git push` of {branch} by hand says more")


def _address(url: str) -> tuple[str, str]:
    if "://" in url:
        parts = urlsplit(url)
        if parts.scheme not in ("https", "http", "ssh", "git+ssh"):
            return "", ""
        host, path = parts.hostname or "", parts.path
    elif found := _SCP.match(url):
        host, path = found["host"], found["path"]
    else:
        return "", ""
    return host.lower(), unquote(path).strip("/").removesuffix(".git")


def _harmless(url: str) -> str:
    """Without the name and password that some keep in it."""
    return re.sub(r"//[^/@]*@", "//", url)[:200]
