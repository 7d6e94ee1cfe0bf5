"""What people send to have a repository repaired, and what they are told of it while it is under way."""

from typing import Annotated

from pydantic import Base64Bytes, BaseModel, ConfigDict, Field

from autopatch.contract.code import CodeJob, Toolchain
from autopatch.contract.evidence import BlobRef
from autopatch.contract.model import Word, canonical, digest
from services.gateway.views import Row

Argument = Annotated[str, Field(min_length=1, max_length=4000)]


class Ask(BaseModel):
    """A job. `archive`: gzipped tar of regular files. The same `request_id` for the same job finds what was begun for it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    repository: str = Field(pattern=r"^[A-Za-z0-9._-]{1,80}$")
    archive: Base64Bytes
    command: tuple[Argument, ...] = Field(min_length=1, max_length=100)
    commit: str = Field(default="", pattern=r"^([0-9a-f]{40}|[0-9a-f]{64})?$")
    issue: str = Field(default="", max_length=8000)
    toolchain: Toolchain = "python"
    image: str = Field(default="", max_length=300, pattern=r"^[A-Za-z0-9._/:@-]*$")
    test_s: float = Field(default=10, gt=0, le=600)
    suite_s: float = Field(default=120, gt=0, le=1800)
    request_id: str = Field(default="", max_length=100)
    cancel_on_disconnect: bool = False

    def job(self, snapshot: BlobRef, tree: str, issue: str) -> CodeJob:
        """The same as rooms see it."""
        return CodeJob(
            repository=self.repository, snapshot=snapshot, tree=tree, commit=self.commit, command=self.command, issue=issue,
            toolchain=self.toolchain, image=self.image, test_s=self.test_s, suite_s=self.suite_s,
        )

    def incident(self, tree: str) -> str:
        """The id that this job's incident has, whoever asks and however often."""
        key = canonical([self.repository, tree, list(self.command), self.request_id])
        name = "".join(c if c.isalnum() or c == "-" else "-" for c in self.repository)
        return f"{name.strip('-')[:60] or 'repository'}-{digest(key)[:16]}"


class Begun(Word):
    """A job's incident. `created`: it was not there before."""

    incident: str
    tree: str
    created: bool


class Unfinished(Row):
    """How far it is."""
