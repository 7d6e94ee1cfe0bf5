"""One job as the command line asks for it, and how it came back."""

import base64
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from autopatch.chassis.llm.settings import Mode as Mode
from autopatch.cli.snapshot import Snapshot
from autopatch.cli.testing import Tests
from autopatch.contract.code import RepairVerdict
from autopatch.contract.errors import OperatorError
from autopatch.contract.lifecycle import Stored

Tell = Callable[[Stored], None]
"""Called with every event of the job as it happens."""


@dataclass(frozen=True)
class Limits:
    """Seconds that one test, and one run of all tests, may take."""

    test_s: float = 10
    suite_s: float = 120


@dataclass(frozen=True)
class Asking:
    """A repository as it was found, and what is to be done with it."""

    snapshot: Snapshot
    tests: Tests
    issue: str = ""
    image: str = ""
    limits: Limits = Limits()

    def body(self) -> dict[str, Any]:
        """The gateway's words for it; every call is a request of its own. Raises OperatorError that names the option."""
        from services.gateway.adapters.repairs.words import Ask

        body = {
            "repository": self.snapshot.name, "archive": base64.b64encode(self.snapshot.archive).decode(),
            "command": list(self.tests.command), "commit": self.snapshot.commit, "issue": self.issue,
            "toolchain": self.tests.toolchain, "image": self.image, "test_s": self.limits.test_s,
            "suite_s": self.limits.suite_s, "request_id": uuid.uuid4().hex,
        }
        try:
            Ask.model_validate({**body, "archive": ""})
        except ValidationError as error:
            fault = error.errors(include_url=False, include_input=False)[0]
            name = str(fault["loc"][0])
            raise OperatorError(f"{_OPTIONS.get(name, name)}: {fault['msg']}", tip="`autopatch repair --help`") from None
        return body


_OPTIONS = {
    "command": "--test", "issue": "--issue", "image": "--image", "test_s": "--test-seconds", "suite_s": "--suite-seconds",
}


@dataclass(frozen=True)
class Result:
    """The verdict and, when it is `fixed`, the diff byte by byte."""

    verdict: RepairVerdict
    diff: bytes = b""

    @classmethod
    def unbegun(cls, repository: str) -> "Result":
        """Cancelled before there was an incident."""
        return cls(RepairVerdict(verdict="cancelled", reason="stopped before it began", incident="", repository=repository))
