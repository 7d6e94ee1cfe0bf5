"""The patch as a branch of the target's repository, with the tests that show the fault; taken back with the patch."""

import asyncio
from collections.abc import Callable

from autopatch.chassis.chassis import Blobs
from autopatch.chassis.telemetry import span, trace_id
from autopatch.contract import events as ev
from autopatch.contract.errors import Refused
from autopatch.contract.lifecycle import Incident
from autopatch.contract.plan import Plan
from autopatch.contract.target import Target
from autopatch.repair.diffs import make_diff
from services.executor.adapters.branches.commits import commit_on_branch, message_of
from services.executor.adapters.branches.git import GitFailed
from services.executor.adapters.code.patches import Patch, patch_in, understood
from services.executor.adapters.code.sources import ENVIRONMENT, commit_of, files_at, repository_of


def branch_of(incident: Incident, plan: Plan) -> str:
    """A later attempt of the same incident has another."""
    attempts = sum(isinstance(stored.envelope.data, ev.Planned) for stored in incident.log)
    return f"autopatch/{incident.id}" + (f"-{attempts}" if attempts > 1 else "")


class Offers:
    """Made once the patch runs, so that there is no branch of what was never tried; gone when it is rolled back."""

    def __init__(self, blobs: Blobs, target: Callable[[str], Target | None]) -> None:
        self._blobs = blobs
        self._target = target

    async def made(self, incident: Incident, plan: Plan) -> str:
        """What was made, or is there already; '' where nothing is patched. Raises OperatorError, Refused, Unavailable."""
        found = await self._found(incident, plan)
        if found is None:
            return ""
        branch = branch_of(incident, plan)
        with span("offer a branch", branch=branch, files=list(found[1].action.files)) as current:
            commit = await asyncio.to_thread(_commit, *found, incident, plan)
            current.set_attribute("commit", commit)
        return f"branch {branch} at {commit[:12]}"

    async def withdrawn(self, incident: Incident, plan: Plan) -> str:
        """Removes the branch if it still is as it was made and nobody is on it. Raises OperatorError, Refused, Unavailable."""
        found = await self._found(incident, plan)
        return await asyncio.to_thread(_removed, *found, incident, plan) if found else ""

    async def _found(self, incident: Incident, plan: Plan) -> tuple[Target, Patch] | None:
        action, target = patch_in(plan), self._target(incident.target)
        if action is None or target is None:
            return None
        return target, await understood(self._blobs, target, action)


def _commit(target: Target, patch: Patch, incident: Incident, plan: Plan) -> str:
    """Base, change, message and time are those of the claim, so the same call gives the same commit."""
    git = repository_of(target)
    before = files_at(git, commit_of(git, patch.action.base))
    diff = make_diff(before, patch.tree.changed(patch.changes))
    message = message_of(
        f"Mend {', '.join(patch.action.files)}", f"{incident.opened.title}\n\n{plan.basis.kind}: {plan.basis.why}",
        incident=incident.id, trace=trace_id(incident.log[0].headers),
    )
    branch, claim = branch_of(incident, plan), incident.last_stored(ev.Applying)
    assert claim
    at = claim.envelope.at
    return commit_on_branch(git.folder, diff, patch.action.base, branch, message, at=at, environment=ENVIRONMENT)


def _removed(target: Target, patch: Patch, incident: Incident, plan: Plan) -> str:
    git, branch = repository_of(target), branch_of(incident, plan)
    reference, stays = f"refs/heads/{branch}", f"branch {branch} stays, though its patch is not validated"
    if not git.ask("rev-parse", "--verify", "--quiet", reference):
        return ""
    if there := git.text("for-each-ref", "--format=%(worktreepath)", reference):
        raise Refused(f"{stays}: it is checked out in {there}", tip=f"git switch there, then git branch -D {branch}")
    commit = _commit(target, patch, incident, plan)
    try:
        git.run("update-ref", "-d", reference, commit)
    except GitFailed as error:
        raise Refused(f"{stays}: {error.said}") from None
    return f"branch {branch} removed"
