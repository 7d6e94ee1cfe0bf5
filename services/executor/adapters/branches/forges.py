"""Pull requests on GitHub, merge requests on GitLab: found when they are there, made when they are not."""

from typing import Any, assert_never
from urllib.parse import quote

import httpx2

from autopatch.contract.errors import AutoPatchError, OperatorError, Refused, Unavailable
from autopatch.contract.model import Word
from services.executor.adapters.branches.remotes import SETTING, Remote


class Offer(Word):
    """What is asked for: `head` into `base` ('' takes the repository's default branch)."""

    head: str
    base: str = ""
    title: str
    body: str = ""


class Offered(Word):
    """The request where people see it. `made`: it was not there before."""

    url: str
    number: int
    made: bool


def offer(remote: Remote, wanted: Offer, *, timeout_s: float = 20) -> Offered:
    """Raises OperatorError for a token or repository that does not do, Refused for what the server refuses, Unavailable."""
    if not remote.token.get_secret_value():
        raise OperatorError(f"no token for {remote.host}", tip=f"set {SETTING[remote.kind]}")
    with _Forge(remote, timeout_s) as forge:
        match remote.kind:
            case "github":
                return _github(forge, remote, wanted)
            case "gitlab":
                return _gitlab(forge, remote, wanted)
            case _:
                assert_never(remote.kind)


class _Forge:
    """One server's API."""

    def __init__(self, remote: Remote, timeout_s: float) -> None:
        token = remote.token.get_secret_value()
        self._remote = remote
        headers = {
            "github": {
                "Authorization": f"Bearer {token}", "Accept": "application/vnd.github+json, application/json",
                "X-GitHub-Api-Version": "2022-11-28",
            },
            "gitlab": {"PRIVATE-TOKEN": token, "Accept": "application/json"},
        }[remote.kind]
        local = remote.api.startswith(("http://127.", "http://localhost", "http://[::1]"))
        self._client = httpx2.Client(
            headers={**headers, "User-Agent": "autopatch"}, timeout=timeout_s, trust_env=not local, follow_redirects=False
        )

    def __enter__(self) -> "_Forge":
        return self

    def __exit__(self, *_: object) -> None:
        self._client.close()

    def ask(self, method: str, path: str, *, params: dict[str, str] | None = None, body: dict[str, Any] | None = None) -> Any:
        """Its JSON. Raises what `offer` raises."""
        try:
            answer = self._client.request(method, f"{self._remote.api}{path}", params=params, json=body)
        except httpx2.HTTPError as error:
            raise Unavailable(self._remote.host, f"no answer ({type(error).__name__})", tip="is the network there?") from error
        if not answer.is_success:
            raise _told(self._remote, answer)
        try:
            return answer.json()
        except ValueError:
            raise Unavailable(self._remote.host, "its answer is not JSON", tip="is the API's address right?") from None


def _github(forge: _Forge, remote: Remote, wanted: Offer) -> Offered:
    owner, _, name = remote.path.partition("/")
    at = f"/repos/{quote(owner, safe='')}/{quote(name, safe='')}"

    def there() -> Offered | None:
        found = forge.ask("GET", f"{at}/pulls", params={"head": f"{owner}:{wanted.head}", "state": "open", "per_page": "20"})
        for each in found:
            if each["head"]["ref"] == wanted.head:
                return Offered(url=each["html_url"], number=each["number"], made=False)
        return None

    def make() -> Offered:
        base = wanted.base or forge.ask("GET", at)["default_branch"]
        body = {"title": wanted.title, "head": wanted.head, "base": base, "body": wanted.body, "maintainer_can_modify": True}
        made = forge.ask("POST", f"{at}/pulls", body=body)
        return Offered(url=made["html_url"], number=made["number"], made=True)

    return _once(there, make, remote)


def _gitlab(forge: _Forge, remote: Remote, wanted: Offer) -> Offered:
    at = f"/projects/{quote(remote.path, safe='')}"

    def there() -> Offered | None:
        params = {"source_branch": wanted.head, "state": "opened"}
        for each in forge.ask("GET", f"{at}/merge_requests", params=params):
            if each["source_branch"] == wanted.head:
                return Offered(url=each["web_url"], number=each["iid"], made=False)
        return None

    def make() -> Offered:
        base = wanted.base or forge.ask("GET", at)["default_branch"]
        body = {
            "source_branch": wanted.head, "target_branch": base, "title": wanted.title, "description": wanted.body,
            "remove_source_branch": True,
        }
        made = forge.ask("POST", f"{at}/merge_requests", body=body)
        return Offered(url=made["web_url"], number=made["iid"], made=True)

    return _once(there, make, remote)


def _once(there: Any, make: Any, remote: Remote) -> Offered:
    """Somebody may be faster between looking and making: then theirs is found."""
    try:
        found: Offered | None = there()
        if found:
            return found
        try:
            made: Offered = make()
            return made
        except Refused:
            found = there()
            if found is None:
                raise
            return found
    except (KeyError, TypeError, IndexError) as error:
        raise Unavailable(remote.host, f"an answer without {error}", tip="is the API's address right?") from None


def _told(remote: Remote, answer: httpx2.Response) -> AutoPatchError:
    said, setting, where = _said(answer), SETTING[remote.kind], f"{remote.path} on {remote.host}"
    match answer.status_code:
        case 401:
            return OperatorError(f"{remote.host} does not know the token: {said}", tip=f"renew {setting}")
        case 403:
            return OperatorError(f"not allowed for {where}: {said}", tip=f"give the token in {setting} more rights")
        case 404:
            return OperatorError(f"{remote.host} shows no {remote.path} to this token", tip=f"check the remote, and {setting}")
        case 301 | 302 | 307 | 308:
            return OperatorError(f"{remote.path} has moved on {remote.host}", tip="git remote set-url to its new address")
        case 429 | 500 | 502 | 503 | 504:
            return Unavailable(remote.host, f"HTTP status {answer.status_code}: {said}", tip="try again later")
        case _:
            return Refused(f"{where} refused ({answer.status_code}): {said}", tip="correct what it names; the branch is there")


def _said(answer: httpx2.Response) -> str:
    """Its message and the fields that it complains about."""
    try:
        told = answer.json()
    except ValueError:
        return answer.reason_phrase
    if not isinstance(told, dict):
        return answer.reason_phrase
    message = told.get("message") or told.get("error") or told.get("title") or answer.reason_phrase
    faults = told.get("errors", [])
    parts = [_fault(fault) for fault in faults] if isinstance(faults, list) else []
    text = "; ".join([_flat(message), *(part for part in parts if part)])
    return "".join(c if c.isprintable() else " " for c in text)[:300]


def _fault(fault: Any) -> str:
    if not isinstance(fault, dict):
        return str(fault)
    return " ".join(str(fault[key]) for key in ("field", "code", "message") if fault.get(key))


def _flat(message: Any) -> str:
    """GitLab's messages are texts, lists, or lists by field."""
    if isinstance(message, dict):
        return "; ".join(f"{field} {_flat(value)}" for field, value in message.items())
    return ", ".join(map(str, message)) if isinstance(message, list) else str(message)
