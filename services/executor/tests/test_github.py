"""Pull requests: every request of ours and every answer that we read is checked against GitHub's own description of its API."""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx2
import pytest
from pydantic import SecretStr

from autopatch.contract.errors import OperatorError, Refused, Unavailable
from services.executor.adapters.branches import forges
from services.executor.adapters.branches.forges import Offer, offer
from services.executor.adapters.branches.remotes import Remote
from services.executor.tests import github_api

THERE = "new-topic"
"""The branch of the pull request in the description's example."""


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with ExitStack() as stack:
        try:
            url = stack.enter_context(github_api.served(tmp_path_factory.mktemp("prism") / "prism.log"))
        except Unavailable as error:
            pytest.skip(str(error))
        yield url


@pytest.fixture
def prefer(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Ask the mock for one of the described answers."""

    def answers(**wanted: str) -> None:
        real = httpx2.Client.request

        def request(client: httpx2.Client, method: str, url: str, **given: Any) -> httpx2.Response:
            if prefer := wanted.get(method.lower()):
                given["headers"] = {"Prefer": prefer}
            return real(client, method, url, **given)

        monkeypatch.setattr(httpx2.Client, "request", request)

    return answers


def remote(api: str, token: str = "a token") -> Remote:
    return Remote("github", "github.com", "ann/calc", api, SecretStr(token), "https://github.com/ann/calc.git")


def test_a_pull_request_is_made_by_a_request_that_githubs_description_allows(api: str) -> None:
    made = offer(remote(api), Offer(head="autopatch/calc-1", base="main", title="double doubles", body="text"))
    assert made.made and made.number == 1347 and made.url.startswith("https://github.com/")


def test_without_a_base_the_repositorys_default_branch_is_taken(api: str) -> None:
    assert offer(remote(api), Offer(head="autopatch/calc-1", title="double doubles")).made


def test_an_open_pull_request_of_the_branch_is_found_and_none_is_made(api: str, prefer: Any) -> None:
    prefer(post="code=422")
    found = offer(remote(api), Offer(head=THERE, base="main", title="double doubles"))
    assert not found.made and found.number == 1347


def test_one_that_was_made_meanwhile_is_found(api: str, monkeypatch: pytest.MonkeyPatch, prefer: Any) -> None:
    prefer(post="code=422")
    asked: list[str] = []
    real = forges._Forge.ask

    def ask(self: Any, method: str, path: str, **given: Any) -> Any:
        asked.append(method)
        return [] if asked == ["GET"] else real(self, method, path, **given)

    monkeypatch.setattr(forges._Forge, "ask", ask)
    assert offer(remote(api), Offer(head=THERE, base="main", title="x")).number == 1347
    assert asked == ["GET", "POST", "GET"]


def test_a_missing_head_is_refused_with_422(api: str) -> None:
    with forges._Forge(remote(api), 10) as forge, pytest.raises(Refused, match=r"refused \(422\)"):
        forge.ask("POST", "/repos/ann/calc/pulls", body={"title": "x", "base": "main"})


@pytest.mark.parametrize(("code", "kind", "says"), [
    ("403", OperatorError, "not allowed"), ("422", Refused, "422"),
])
def test_what_github_refuses_is_told_with_the_remedy(api: str, prefer: Any, code: str, kind: type[Exception], says: str) -> None:
    prefer(post=f"code={code}")
    with pytest.raises(kind, match=says) as refused:
        offer(remote(api), Offer(head="autopatch/calc-1", base="main", title="x"))
    assert getattr(refused.value, "tip", "")


@pytest.mark.parametrize(("status", "body", "kind", "says"), [
    (401, {"message": "Bad credentials"}, OperatorError, "does not know the token: Bad credentials"),
    (404, {"message": "Not Found"}, OperatorError, "shows no ann/calc"),
    (422, {"message": "Validation Failed", "errors": [{"resource": "PullRequest", "field": "base", "code": "invalid"}]}, Refused,
     "Validation Failed; base invalid"),
    (422, {"message": "Validation Failed", "errors": [{"message": "No commits between"}]}, Refused, "No commits between"),
    (502, "<html>", Unavailable, "502"), (301, "", OperatorError, "has moved"), (200, "<html>", Unavailable, "not JSON"),
    (200, {"message": "odd"}, Unavailable, "an answer without"),
])
def test_the_servers_words_reach_the_person(
    httpserver: Any, status: int, body: Any, kind: type[Exception], says: str
) -> None:
    if isinstance(body, dict):
        httpserver.expect_request("/repos/ann/calc/pulls").respond_with_json(body, status=status)
    else:
        httpserver.expect_request("/repos/ann/calc/pulls").respond_with_data(body, status=status)
    with pytest.raises(kind, match=says) as refused:
        offer(remote(httpserver.url_for("").rstrip("/")), Offer(head="x", base="main", title="x"))
    assert "a token" not in str(refused.value)


def test_nobody_there_and_no_token_are_told_apart() -> None:
    with pytest.raises(Unavailable, match="no answer"):
        offer(remote("http://127.0.0.1:9"), Offer(head="x", base="main", title="x"), timeout_s=2)
    with pytest.raises(OperatorError, match="no token") as refused:
        offer(remote("http://127.0.0.1:9", token=""), Offer(head="x", base="main", title="x"))
    assert "AUTOPATCH_FORGE_GITHUB_TOKEN" in refused.value.tip


def test_the_cut_description_is_the_one_that_requires_a_head(api: str) -> None:
    text = Path(github_api.CUT).read_text()
    answer = httpx2.post(f"{api}/repos/ann/calc/pulls", json={"title": "x", "head": "y", "base": "main"}, trust_env=False)
    assert answer.status_code == 201 and '"head"' in text
