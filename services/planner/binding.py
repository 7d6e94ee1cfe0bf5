"""A candidate held against one target: bounds, present state, earlier failures. What passes is a plan. Pure."""

from collections.abc import Sequence
from typing import assert_never

from autopatch.contract.actions import (
    Action,
    PatchCode,
    Reload,
    Restart,
    RollbackRelease,
    RunCommand,
    Scalar,
    Scale,
    SetConfig,
    TriggerPipeline,
    describe,
)
from autopatch.contract.evidence import TargetState
from autopatch.contract.plan import Alternative, Plan, Precondition, Step, SuccessCheck
from autopatch.contract.target import Bounds, Target
from services.planner.ports import Candidate, Question

PREVIOUS = "previous"


class Unfit(ValueError):
    """Why a candidate is no plan for this target now."""


def bind(question: Question, candidate: Candidate) -> Plan | Alternative:
    """The plan, or the candidate and why not."""
    target, state = question.target, question.state
    try:
        actions = _complete(target, state, [_checked(target, state, action) for action in candidate.actions])
        _not_again(question, actions)
        steps = _steps(state, actions)
    except Unfit as why:
        return Alternative(summary=_summary(candidate.actions) or candidate.basis.ref, why_not=str(why))
    success = SuccessCheck(signal=question.signal, settle_s=target.soak.settle_s, soak_s=target.soak.soak_s)
    return Plan(
        target=target.name, summary=_summary(actions), cause=candidate.cause, steps=steps, success=success, basis=candidate.basis
    )


def _summary(actions: Sequence[Action]) -> str:
    return "; ".join(describe(action) for action in actions)[:300]


def _not_again(question: Question, actions: Sequence[Action]) -> None:
    """Actions, not hashes, are compared: with fresh preconditions the same fix has another hash, and fails as before."""
    for failure in question.failures:
        if [step.action for step in failure.plan.steps] == list(actions):
            raise Unfit(f"it was tried in this incident and failed: {failure.why}")


def _checked(target: Target, state: TargetState, action: Action) -> Action:
    """The action with its names resolved. Raises Unfit."""
    match action:
        case SetConfig():
            return _checked_setting(target, state, action)
        case Reload():
            if not (target.runtime.reload_signal or target.runtime.reload_url):
                raise Unfit("the target file names neither reload_signal nor reload_url")
            return action
        case Restart():
            return action
        case RollbackRelease():
            return RollbackRelease(release=_release(state, action.release))
        case PatchCode():
            if not action.job:
                raise Unfit("patch_code without tests that prove it: it is found by a search, not written down")
            if not state.release or not state.instance:
                raise Unfit("no release is known to run that a patch could be laid over")
            return action
        case Scale() | RunCommand() | TriggerPipeline():
            raise Unfit(f"{action.kind} is not supported for alerts")
        case _:
            assert_never(action)


def _checked_setting(target: Target, state: TargetState, action: SetConfig) -> SetConfig:
    file = target.config(action.file)
    if file is None:
        raise Unfit(f"the target has no configuration file named {action.file!r}")
    bounds = file.editable.get(action.key)
    if bounds is None:
        raise Unfit(f"{action.key} is not editable in {action.file}")
    if target.source_of_truth == "git":
        raise Unfit("git owns this target's configuration: it is changed by a commit only")
    _within(action.key, action.value, bounds)
    if same(_present(state, action.file, action.key), action.value):
        raise Unfit(f"{action.key} is {action.value!r} already")
    return action


def _within(key: str, value: Scalar, bounds: Bounds) -> None:
    kinds: dict[str, tuple[type, ...]] = {"int": (int,), "float": (int, float), "bool": (bool,), "str": (str,)}
    if not isinstance(value, kinds[bounds.type]) or (isinstance(value, bool) and bounds.type != "bool"):
        raise Unfit(f"{key} must be {bounds.type}, not {value!r}")
    if bounds.choices and str(value) not in bounds.choices:
        raise Unfit(f"{key} must be one of {', '.join(bounds.choices)}, not {value!r}")
    if isinstance(value, int | float) and not isinstance(value, bool):
        if bounds.min is not None and value < bounds.min:
            raise Unfit(f"{key} must be at least {bounds.min:g}, not {value!r}")
        if bounds.max is not None and value > bounds.max:
            raise Unfit(f"{key} must be at most {bounds.max:g}, not {value!r}")


def same(one: Scalar, other: Scalar) -> bool:
    """1 and 1.0 are the same value, 1 and true are not."""
    return one == other and isinstance(one, bool) == isinstance(other, bool)


def _present(state: TargetState, file: str, key: str) -> Scalar:
    seen = next((config for config in state.configs if config.file == file), None)
    if seen is None:
        raise Unfit(f"the present state of {file} is not known")
    if key not in seen.values:
        raise Unfit(f"{file} has no {key} now, so that there is nothing to go back to")
    return seen.values[key]


def _release(state: TargetState, wanted: str) -> str:
    if not state.release or state.release not in state.releases:
        raise Unfit(f"the running release {state.release or '(unknown)'} is not among the known ones")
    if wanted == PREVIOUS and PREVIOUS not in state.releases:
        position = state.releases.index(state.release)
        if position == 0:
            raise Unfit(f"no release before {state.release} is known")
        return state.releases[position - 1]
    if wanted not in state.releases:
        raise Unfit(f"release {wanted!r} is not known; known are {', '.join(state.releases)}")
    if wanted == state.release:
        raise Unfit(f"release {wanted} runs already")
    return wanted


def _complete(target: Target, state: TargetState, actions: list[Action]) -> list[Action]:
    """With the reload or restart that edited files need, where nothing after the edit brings it already."""
    if not actions:
        raise Unfit("it names no action")
    needed: Action | None = None
    for action in actions:
        match action:
            case SetConfig():
                file = target.config(action.file)
                by_restart = (file is not None and file.effective_by == "restart") or isinstance(needed, Restart)
                needed = Restart() if by_restart else Reload()
            case Restart() | RollbackRelease() | PatchCode():
                needed = None
            case Reload():
                needed = needed if isinstance(needed, Restart) else None
            case _:
                pass
    return actions if needed is None else [*actions, _checked(target, state, needed)]


def _steps(state: TargetState, actions: Sequence[Action]) -> tuple[Step, ...]:
    """Each step with what will be so when its turn comes: a restart makes another instance, an edit another digest."""
    digests = {config.file: config.digest for config in state.configs}
    values = {(config.file, key): value for config in state.configs for key, value in config.values.items()}
    release, instance = state.release or None, state.instance or None
    steps = []
    for action in actions:
        config_digest, now = None, release
        undo: Action | None = None
        match action:
            case SetConfig():
                config_digest = digests.pop(action.file, None)
                undo = SetConfig(file=action.file, key=action.key, value=values[action.file, action.key])
                values[action.file, action.key] = action.value
            case RollbackRelease():
                undo = RollbackRelease(release=release) if release else None
                release = action.release
            case PatchCode():
                undo, release = (RollbackRelease(release=release) if release else None), None
            case _:
                pass
        before = Precondition(config_digest=config_digest, release=now, instance=instance)
        if before == Precondition():
            raise Unfit("nothing about the target is known that could be checked before acting")
        steps.append(Step(action=action, precondition=before, undo=undo))
        if isinstance(action, Restart | RollbackRelease | PatchCode):
            instance = None
    return tuple(steps)
