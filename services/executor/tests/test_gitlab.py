"""Merge requests, against a server that is as strict as GitLab's reference."""

from collections.abc import Iterator

import pytest
from pydantic import SecretStr

from autopatch.contract.errors import OperatorError, Refused
from services.executor.adapters.branches.forges import Offer, offer
from services.executor.adapters.branches.remotes import Remote
from services.executor.tests import gitlab_api
from services.executor.tests.gitlab_api import PROJECT, TOKEN, State

WANTED = Offer(head="autopatch/calc-1", base="main", title="double doubles", body="text")


@pytest.fixture
def gitlab() -> Iterator[State]:
    with gitlab_api.served() as state:
        yield state


def remote(gitlab: State, token: str = TOKEN, path: str = PROJECT) -> Remote:
    return Remote("gitlab", "gitlab.com", path, gitlab.url, SecretStr(token), f"https://gitlab.com/{path}.git")


def test_a_merge_request_is_made_once_and_found_after(gitlab: State) -> None:
    first, second = offer(remote(gitlab), WANTED), offer(remote(gitlab), WANTED)
    assert first.made and not second.made and first.url == second.url and first.number == second.number == 1
    assert len(gitlab.requests) == 1 and gitlab.requests[0]["description"] == "text"


def test_one_that_was_made_between_looking_and_making_is_found(gitlab: State) -> None:
    offer(remote(gitlab), WANTED)
    gitlab.hide_once = True
    assert not offer(remote(gitlab), WANTED).made and len(gitlab.requests) == 1


def test_a_closed_one_is_not_taken_for_an_open_one(gitlab: State) -> None:
    offer(remote(gitlab), WANTED)
    gitlab.requests[0]["state"] = "closed"
    assert offer(remote(gitlab), WANTED).number == 2


def test_the_default_branch_is_asked_for_where_none_is_named(gitlab: State) -> None:
    offer(remote(gitlab), WANTED.model_copy(update={"base": ""}))
    assert gitlab.requests[0]["target_branch"] == "main"


def test_faults_are_told_with_their_field(gitlab: State) -> None:
    with pytest.raises(Refused, match="source_branch does not exist"):
        offer(remote(gitlab), WANTED.model_copy(update={"head": "nowhere"}))
    with pytest.raises(OperatorError, match="does not know the token: 401 Unauthorized"):
        offer(remote(gitlab, token="wrong"), WANTED)
    with pytest.raises(OperatorError, match="shows no group/other"):
        offer(remote(gitlab, path="group/other"), WANTED)
