"""What AutoPatch may do to a target: a closed tagged union. A model can only fill in the fields of one of these."""

from typing import Annotated, Literal

from pydantic import Field, StrictBool, StrictFloat, StrictInt, StrictStr

from autopatch.contract.model import Word, later

Scalar = StrictBool | StrictInt | StrictFloat | StrictStr
Risk = Literal["low", "medium", "high"]


class SetConfig(Word):
    """One editable key of one configuration file gets another value; no other byte changes."""

    kind: Literal["set_config"] = "set_config"
    file: str = Field(description="name of a configuration file of the target, as its target file calls it")
    key: str = Field(description="dotted path, such as database.pool_size")
    value: Scalar


class Reload(Word):
    """The target reads its configuration again without losing requests."""

    kind: Literal["reload"] = "reload"


class Restart(Word):
    """The target's process or container is started anew. There is nothing to undo."""

    kind: Literal["restart"] = "restart"


class RollbackRelease(Word):
    """The target runs another, already known release."""

    kind: Literal["rollback_release"] = "rollback_release"
    release: str


class Scale(Word):
    """The target runs with another number of replicas."""

    kind: Literal["scale"] = "scale"
    replicas: int = Field(ge=1)


class PatchCode(Word):
    """A unified diff, by the digest under which the object store holds it."""

    kind: Literal["patch_code"] = "patch_code"
    diff: str = Field(description="SHA-256 of the diff")
    base: str = Field(description="commit that the diff applies to; of a defect job, the digest of its tree")
    files: tuple[str, ...] = later((), "what it changes")
    job: str = later("", "of a running target: SHA-256 of the CodeJob whose tests prove it, in the object store")


class RunCommand(Word):
    """A command in the sandbox only, never on a host."""

    kind: Literal["run_command"] = "run_command"
    command: tuple[str, ...] = Field(min_length=1)


class TriggerPipeline(Word):
    """A deployment pipeline that the target names."""

    kind: Literal["trigger_pipeline"] = "trigger_pipeline"
    pipeline: str


Action = Annotated[
    SetConfig | Reload | Restart | RollbackRelease | Scale | PatchCode | RunCommand | TriggerPipeline,
    Field(discriminator="kind"),
]
ActionKind = Literal[
    "set_config", "reload", "restart", "rollback_release", "scale", "patch_code", "run_command", "trigger_pipeline"
]

RISK: dict[str, Risk] = {
    "set_config": "low",
    "reload": "low",
    "restart": "medium",
    "rollback_release": "medium",
    "scale": "medium",
    "patch_code": "high",
    "run_command": "high",
    "trigger_pipeline": "high",
}
"""How risky an action is before anything is known of the target."""


def describe(action: Action) -> str:
    """One short line for people."""
    match action:
        case SetConfig():
            return f"set {action.key} to {action.value!r} in {action.file}"
        case RollbackRelease():
            return f"roll back to release {action.release}"
        case Scale():
            return f"scale to {action.replicas} replicas"
        case PatchCode():
            return f"patch {', '.join(action.files) or 'the code'} ({action.diff[:12]})"
        case RunCommand():
            return f"run {' '.join(action.command)} in the sandbox"
        case TriggerPipeline():
            return f"trigger the pipeline {action.pipeline}"
        case Reload():
            return "reload the configuration"
        case Restart():
            return "restart"
