"""What becomes a plan for a target, and what does not."""

from typing import Any

import pytest

from autopatch.contract.actions import (
    Action,
    PatchCode,
    Reload,
    Restart,
    RollbackRelease,
    RunCommand,
    Scale,
    SetConfig,
    TriggerPipeline,
)
from autopatch.contract.plan import Alternative, Basis, Plan, Precondition
from services.planner.binding import bind
from services.planner.ports import Candidate, Failure
from services.planner.tests.fakes import POOL, plan, question, state, target


def _candidate(*actions: Action) -> Candidate:
    return Candidate("pool_exhausted", actions, Basis(kind="runbook", ref="pool", why="w"))


def _plan(*actions: Action, **facts: Any) -> Plan:
    made = bind(question(**facts), _candidate(*actions))
    assert isinstance(made, Plan), made
    return made


def _why_not(*actions: Action, **facts: Any) -> str:
    made = bind(question(**facts), _candidate(*actions))
    assert isinstance(made, Alternative), made
    return made.why_not


def _set(key: str, value: Any, file: str = "main") -> SetConfig:
    return SetConfig(file=file, key=key, value=value)


def test_a_plan_has_fresh_preconditions_inverse_undo_and_the_targets_soak() -> None:
    made = _plan(POOL, Reload())
    edit, reload = made.steps
    assert edit.precondition == Precondition(config_digest="d-main", release="2", instance="c1")
    assert edit.undo == _set("database.pool_size", 10) and reload.undo is None
    assert reload.precondition == Precondition(release="2", instance="c1")
    assert (made.success.signal, made.success.settle_s, made.success.soak_s, made.risk) == ("latency", 30, 20, "low")
    assert made.summary == "set database.pool_size to 20 in main; reload the configuration"


@pytest.mark.parametrize(
    ("actions", "kinds"),
    [
        ([POOL], ["set_config", "reload"]),
        ([_set("WORKERS", 8, "boot")], ["set_config", "restart"]),
        ([_set("WORKERS", 8, "boot"), Reload()], ["set_config", "reload", "restart"]),
        ([_set("WORKERS", 8, "boot"), POOL], ["set_config", "set_config", "restart"]),
        ([POOL, Restart()], ["set_config", "restart"]),
        ([Restart(), POOL], ["restart", "set_config", "reload"]),
        ([POOL, RollbackRelease(release="1")], ["set_config", "rollback_release"]),
        ([Reload()], ["reload"]),
    ],
)
def test_the_reload_or_restart_that_an_edit_needs_is_added_once(actions: list[Action], kinds: list[str]) -> None:
    assert [step.action.kind for step in _plan(*actions).steps] == kinds


def test_a_second_edit_of_a_file_has_no_digest_and_undoes_to_what_the_first_left() -> None:
    first, second, _ = _plan(POOL, _set("database.pool_size", 30)).steps
    assert (first.precondition.config_digest, second.precondition.config_digest) == ("d-main", None)
    assert second.undo == POOL and second.precondition.instance == "c1"


def test_after_a_restart_another_instance_runs_and_after_a_rollback_another_release() -> None:
    _, edit, _ = _plan(Restart(), POOL).steps
    assert edit.precondition == Precondition(config_digest="d-main", release="2", instance=None)
    back, reload = _plan(RollbackRelease(release="1"), Reload()).steps
    assert back.undo == RollbackRelease(release="2") and reload.precondition == Precondition(release="1")


def test_previous_is_the_release_before_the_running_one() -> None:
    made = _plan(RollbackRelease(release="previous"), state=state(release="b", releases=("a", "b", "c")))
    assert made.steps[0].action == RollbackRelease(release="a")


@pytest.mark.parametrize(
    ("action", "facts", "why"),
    [
        (RollbackRelease(release="previous"), {"state": state(release="1")}, "no release before 1 is known"),
        (RollbackRelease(release="previous"), {"state": state(release="")}, "running release (unknown) is not among"),
        (RollbackRelease(release="9"), {}, "release '9' is not known; known are 1, 2"),
        (RollbackRelease(release="2"), {}, "release 2 runs already"),
        (_set("database.pool_size", 10), {}, "database.pool_size is 10 already"),
        (_set("database.pool_size", 51), {}, "must be at most 50, not 51"),
        (_set("database.pool_size", 0), {}, "must be at least 1, not 0"),
        (_set("database.pool_size", "20"), {}, "must be int, not '20'"),
        (_set("database.pool_size", True), {}, "must be int, not True"),
        (_set("database.pool_size", 20.5), {}, "must be int, not 20.5"),
        (_set("cache", 1), {}, "must be bool, not 1"),
        (_set("level", "trace"), {}, "must be one of info, debug, not 'trace'"),
        (_set("ratio", 1.5), {}, "must be at most 1, not 1.5"),
        (_set("absent", 1), {}, "main has no absent now"),
        (_set("database.password", "x"), {}, "database.password is not editable in main"),
        (_set("a", 1, "other"), {}, "no configuration file named 'other'"),
        (POOL, {"state": state(configs=())}, "the present state of main is not known"),
        (POOL, {"target": target(source_of_truth="git")}, "git owns this target's configuration"),
        (
            Reload(),
            {"target": target(runtime={"kind": "process", "command": ["x"], "pidfile": "p"})},
            "neither reload_signal nor reload_url",
        ),
        (Restart(), {"state": state(release="", instance="")}, "nothing about the target is known"),
        (Scale(replicas=3), {}, "scale is not supported"),
        (PatchCode(diff="d", base="b"), {}, "patch_code without tests"),
        (RunCommand(command=("rm", "-rf", "/")), {}, "run_command is not supported"),
        (TriggerPipeline(pipeline="p"), {}, "trigger_pipeline is not supported"),
    ],
)
def test_what_the_target_does_not_allow_or_need_is_turned_down_with_why(action: Action, facts: dict[str, Any], why: str) -> None:
    assert why in _why_not(action, **facts)


@pytest.mark.parametrize(("bounds", "now", "good", "bad"), [
    ({"type": "int", "choices": ["10", "20"]}, 10, 20, 30), ({"type": "float", "choices": ["0.5"]}, 0.1, 0.5, 0.7),
    ({"type": "bool", "choices": ["True"]}, False, True, False), ({"type": "str", "choices": ["info"]}, "warn", "info", "debug"),
])
def test_choices_are_compared_as_they_are_written_whatever_the_type(
    bounds: dict[str, Any], now: Any, good: Any, bad: Any
) -> None:
    file = {"name": "main", "path": "main.json", "format": "json", "editable": {"key": bounds}}
    seen = {"file": "main", "digest": "d", "values": {"key": now}}
    given: dict[str, Any] = {"target": target(configs=[file]), "state": state(configs=[seen])}
    assert _plan(_set("key", good), **given).steps[0].action == _set("key", good)
    assert "key must be one of" in _why_not(_set("key", bad), **given)


def test_one_bad_step_turns_the_whole_candidate_down() -> None:
    assert "at most 50" in _why_not(Reload(), _set("database.pool_size", 99)) and _why_not() == "it names no action"


def test_a_float_key_takes_whole_numbers_and_equal_values_change_nothing() -> None:
    assert _plan(_set("ratio", 1)).steps[0].undo == _set("ratio", 0.5)
    changed = state().configs[0].model_copy(update={"values": {"ratio": 1.0}})
    assert "is 1 already" in _why_not(_set("ratio", 1), state=state(configs=(changed,)))


def test_actions_that_failed_in_this_incident_are_never_proposed_again_whatever_their_preconditions() -> None:
    failures = (Failure(plan(), "rehearsal failed: still red"),)
    assert plan().hash != _plan(POOL, Reload()).hash
    assert "failed: rehearsal failed: still red" in _why_not(POOL, Reload(), failures=failures)
    assert "still red" in _why_not(POOL, failures=failures)  # the reload is added, then it is the same
    assert _plan(_set("database.pool_size", 30), failures=failures).steps[0].action == _set("database.pool_size", 30)
