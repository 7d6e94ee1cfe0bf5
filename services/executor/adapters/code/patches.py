"""A planned patch of a running target, with everything that it was made for."""

from dataclasses import dataclass

from pydantic import ValidationError

from autopatch.chassis.chassis import Blobs
from autopatch.chassis.jobs import diff_of, tree_of
from autopatch.contract.actions import PatchCode
from autopatch.contract.code import CodeJob
from autopatch.contract.errors import ContractError, Refused
from autopatch.contract.evidence import BlobRef
from autopatch.contract.plan import Plan
from autopatch.contract.target import Target
from autopatch.repair.tree import Files
from services.executor.adapters.workshop.batch import Changes
from services.executor.adapters.workshop.patches import patched


@dataclass(frozen=True)
class Patch:
    """`tree` is the snapshot with the attached tests; `changes` are new contents by path, as `git apply` has them."""

    action: PatchCode
    job: CodeJob
    tree: Files
    diff: bytes
    ref: BlobRef
    changes: Changes


def patch_in(plan: Plan) -> PatchCode | None:
    """The patch of a plan that has one; it is its only step, else the policy refuses the plan."""
    return next((step.action for step in plan.steps if isinstance(step.action, PatchCode)), None)


async def understood(blobs: Blobs, target: Target, action: PatchCode) -> Patch:
    """Raises Refused when it is not for this target, or changes what no patch may, Unavailable without object store or git."""
    try:
        job = CodeJob.model_validate_json(await blobs.get(BlobRef(name=action.job, size=0, digest=action.job)))
        tree = await tree_of(blobs, job)
    except (ValidationError, ContractError) as error:
        raise Refused(f"the patch's job cannot be read: {error}") from error
    ref, diff = await diff_of(blobs, action)
    if (job.repository, job.command, job.commit) != (target.name, target.tests, action.base):
        raise Refused("the patch was made for another target, other tests or another commit", tip="plan anew")
    changes = await patched(diff, tree)
    if tuple(sorted(changes)) != action.files:
        raise Refused(f"the diff changes {', '.join(sorted(changes))}, the plan says {', '.join(action.files)}")
    if gone := sorted(path for path, content in changes.items() if content is None):
        raise Refused(f"the diff removes {', '.join(gone)}", tip="files are laid over an image, none is taken out of it")
    return Patch(action, job, tree, diff, ref, changes)
