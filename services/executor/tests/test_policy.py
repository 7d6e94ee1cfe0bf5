"""The policy: only what is covered runs, by the strictest rung, within limits, and a broken file allows nothing."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from autopatch.contract.actions import Action, PatchCode, Reload, RollbackRelease, RunCommand, Scale, SetConfig, TriggerPipeline
from autopatch.contract.errors import OperatorError, Unavailable
from autopatch.contract.plan import Precondition, Step
from services.executor.adapters.rules.policy_file import load_policy, usable_policy
from services.executor.policy import Facts, Policy, Verdict, decide
from services.executor.tests.given import NOW, RELEASE, RELOAD, RESTART, a_plan, a_target, hours, pool, timeout

ALL = ["set_config", "reload", "restart", "rollback_release", "scale", "patch_code", "run_command", "trigger_pipeline"]
REHEARSED = Facts(rehearsed=True)


def a_policy(**changes: Any) -> Policy:
    return Policy.model_validate({"rules": [{"name": "all", "actions": ALL, "targets": ["pay*"], **changes}]})


def verdict(
    folder: Path, *actions: Action, policy: Policy | None = None, facts: Facts = REHEARSED, now: datetime = NOW, **target: Any
) -> Verdict:
    return decide(policy or a_policy(), a_target(folder, **target), a_plan(*actions), facts, now)


def test_a_covered_and_rehearsed_plan_runs_on_the_targets_rung(tmp_path: Path) -> None:
    made = verdict(tmp_path, pool())
    assert (made.rung, made.rule, made.people) == ("auto", "all", 1)


@pytest.mark.parametrize("changes", [{"actions": ["reload"]}, {"targets": ["other"]}])
def test_what_no_rule_covers_is_refused(tmp_path: Path, changes: dict[str, Any]) -> None:
    made = verdict(tmp_path, pool(), RELOAD, policy=a_policy(**changes))
    assert made.rung == "refuse"
    assert any("no rule covers set_config on payments" in reason for reason in made.reasons)


def test_several_steps_take_the_strictest_rung(tmp_path: Path) -> None:
    autonomy = {"default": "auto", "actions": {"restart": "suggest", "set_config": "approve"}}
    assert verdict(tmp_path, pool(), autonomy=autonomy).rung == "approve"
    made = verdict(tmp_path, pool(), RESTART, autonomy=autonomy)
    assert made.rung == "suggest"
    assert made.reasons == ("the target's autonomy for restart is suggest",)


def test_a_rule_can_lower_the_rung_and_never_raise_it(tmp_path: Path) -> None:
    assert verdict(tmp_path, pool(), policy=a_policy(at_most="approve")).rung == "approve"
    assert verdict(tmp_path, pool(), policy=a_policy(at_most="auto"), autonomy={"default": "observe"}).rung == "observe"


def test_an_unrehearsed_plan_needs_a_person_unless_the_target_names_all_its_kinds(tmp_path: Path) -> None:
    assert verdict(tmp_path, RESTART, facts=Facts()).rung == "auto"
    made = verdict(tmp_path, pool(), RESTART, facts=Facts(), autonomy={"default": "auto", "unrehearsed": ["restart"]})
    assert made.rung == "approve"
    assert made.reasons == ("the plan was not rehearsed",)


@pytest.mark.parametrize(
    ("value", "says"),
    [(51, "from 1.0 to 50.0, is 51"), (0, "is 0"), ("20", "of type int"), (True, "of type int"), (20.5, "of type int")],
)
def test_a_value_out_of_bounds_is_refused(tmp_path: Path, value: Any, says: str) -> None:
    made = verdict(tmp_path, pool(value))
    assert made.rung == "refuse"
    assert says in made.reasons[0]


CHOICES = [
    ({"type": "int", "choices": ["10", "20"]}, 20, 30), ({"type": "float", "choices": ["0.5"]}, 0.5, 0.7),
    ({"type": "bool", "choices": ["True"]}, True, False), ({"type": "str", "choices": ["info"]}, "info", "debug"),
]


@pytest.mark.parametrize(("bounds", "good", "bad"), CHOICES)
def test_choices_are_compared_as_they_are_written_whatever_the_type(
    tmp_path: Path, bounds: dict[str, Any], good: Any, bad: Any
) -> None:
    file = {"name": "main", "path": str(tmp_path / "config.json"), "format": "json", "editable": {"key": bounds}}
    good_one, bad_one = (SetConfig(file="main", key="key", value=value) for value in (good, bad))
    assert verdict(tmp_path, good_one, configs=[file]).rung == "auto"
    assert "key must be one of" in verdict(tmp_path, bad_one, configs=[file]).reasons[0]


@pytest.mark.parametrize(
    ("action", "says"),
    [
        (SetConfig(file="main", key="database.password", value="x"), "not an editable key"),
        (SetConfig(file="other", key="a", value=1), "no configuration file 'other'"),
        (RollbackRelease(release="r9"), "not one of the target's: r1, r2"),
        (Scale(replicas=2), "scale is not supported by this target's runtime"),
        (PatchCode(diff="d", base="b"), "code is patched only where"),
        (RunCommand(command=("ls",)), "run_command is not supported"),
        (TriggerPipeline(pipeline="p"), "trigger_pipeline is not supported"),
    ],
)
def test_what_the_executor_has_no_hands_for_is_refused(tmp_path: Path, action: Action, says: str) -> None:
    made = verdict(tmp_path, action)
    assert made.rung == "refuse"
    assert says in made.reasons[0]


def test_configuration_that_git_owns_is_refused(tmp_path: Path) -> None:
    assert "git owns" in verdict(tmp_path, pool(), source_of_truth="git", repository="/r").reasons[0]


def test_a_step_without_what_its_target_could_check_is_refused(tmp_path: Path) -> None:
    for action in (pool(), RESTART, RELEASE, RELOAD):
        plan = a_plan(action).model_copy(update={"steps": (Step(action=action, precondition=Precondition()),)})
        assert decide(a_policy(), a_target(tmp_path), plan, REHEARSED, NOW).rung == "refuse"


def test_a_reload_that_the_target_does_not_know_and_another_targets_plan_are_refused(tmp_path: Path) -> None:
    runtime = {"kind": "process", "command": ["x"], "pidfile": "p"}
    assert "reload is not supported" in verdict(tmp_path, Reload(), runtime=runtime).reasons[0]
    plan = a_plan(pool()).model_copy(update={"target": "other"})
    assert decide(a_policy(), a_target(tmp_path), plan, REHEARSED, NOW).reasons[0] == "the plan is for other"


def test_two_starts_or_a_key_set_twice_in_one_plan_are_refused(tmp_path: Path) -> None:
    assert verdict(tmp_path, RESTART, RELEASE).rung == "refuse"
    assert verdict(tmp_path, pool(), pool(30)).rung == "refuse"
    assert verdict(tmp_path, pool(), timeout(), RESTART).rung == "auto"


def test_the_rate_per_target_and_hour_is_a_bound(tmp_path: Path) -> None:
    times = (NOW - hours(0.9), NOW - hours(0.5))
    assert verdict(tmp_path, pool(), policy=a_policy(max_per_hour=3), facts=Facts(times, True)).rung == "auto"
    made = verdict(tmp_path, pool(), policy=a_policy(max_per_hour=2), facts=Facts(times, True))
    assert made.reasons == ("rule all allows 2 actions per hour on a target, 2 were done",)
    assert (
        verdict(tmp_path, pool(), policy=a_policy(max_per_hour=2), facts=Facts(times, True), now=NOW + hours(0.2)).rung == "auto"
    )


def test_a_cool_down_says_when_it_ends(tmp_path: Path) -> None:
    made = verdict(tmp_path, pool(), policy=a_policy(cool_down_s=7200), facts=Facts((NOW - hours(1),), True))
    assert made.not_before == NOW + hours(1)
    assert verdict(tmp_path, pool(), policy=a_policy(cool_down_s=7200)).not_before is None


def test_too_many_steps_are_refused(tmp_path: Path) -> None:
    assert "allows 1 steps" in verdict(tmp_path, pool(), RELOAD, policy=a_policy(max_steps=1)).reasons[0]


@pytest.mark.parametrize(
    ("window", "at", "frozen"),
    [
        ({"days": ["tue"], "from": "11:00", "until": "13:00"}, NOW, True),
        ({"days": ["mon"], "from": "11:00", "until": "13:00"}, NOW, False),
        ({"days": ["tue"], "from": "12:30", "until": "14:00", "zone": "Europe/Berlin"}, NOW, True),
        ({"days": ["tue"], "from": "12:30", "until": "14:00"}, NOW, False),
        ({"days": ["mon"], "from": "22:00", "until": "06:00"}, datetime(2026, 12, 1, 5, 59, tzinfo=UTC), True),
        ({"days": ["mon"], "from": "22:00", "until": "06:00"}, datetime(2026, 12, 1, 6, 0, tzinfo=UTC), False),
        ({"days": ["tue"], "from": "22:00", "until": "06:00"}, datetime(2026, 12, 1, 5, 0, tzinfo=UTC), False),
        ({"start": "2026-12-01T00:00:00Z", "end": "2026-12-02T00:00:00Z"}, NOW, True),
        ({"start": "2026-12-02T00:00:00Z", "end": "2026-12-03T00:00:00Z"}, NOW, False),
    ],
)
def test_in_a_freeze_window_nothing_runs(tmp_path: Path, window: dict[str, Any], at: datetime, frozen: bool) -> None:
    made = verdict(tmp_path, pool(), policy=a_policy(freeze=[{**window, "why": "holidays"}]), now=at)
    assert (made.rung == "refuse") == frozen
    assert not frozen or made.reasons == ("freeze of rule all: holidays",)


@pytest.mark.parametrize("limit", [
    {"freeze": [{"start": "2026-12-01T00:00:00Z", "end": "2026-12-02T00:00:00Z"}]}, {"max_per_hour": 1}, {"max_steps": 1},
])
@pytest.mark.parametrize("rung", ["observe", "suggest", "approve", "auto"])
def test_limits_are_told_on_every_rung_and_refuse_what_could_be_applied(tmp_path: Path, limit: dict[str, Any], rung: str) -> None:
    made = verdict(tmp_path, pool(), RELOAD, policy=a_policy(at_most=rung, **limit), facts=Facts((NOW,), True))
    assert made.rung == (rung if rung in ("observe", "suggest") else "refuse")
    assert any(word in made.reasons[-1] for word in ("freeze of rule all", "actions per hour", "steps in a plan"))


def test_two_persons_lower_auto_to_approve(tmp_path: Path) -> None:
    made = verdict(tmp_path, pool(), policy=a_policy(two_persons=True))
    assert (made.rung, made.people) == ("approve", 2)


def test_a_missing_policy_file_allows_nothing(tmp_path: Path) -> None:
    with pytest.raises(Unavailable, match=r"policy: .*none\.yaml cannot be read.*nothing is applied"):
        load_policy(tmp_path / "none.yaml")


RULE = "rules:\n- name: x\n  actions: [reload]\n  targets: ['*']\n"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (RULE + "  max_per_hor: 3\n", r"p.yaml:5: rules.0.max_per_hor: Extra"),
        ("rules:\n- name: x\n  actions: [relod]\n  targets: ['*']\n", r"p.yaml:3: rules.0.actions.0: Input should be"),
        ("rules: []\n", "p.yaml:1: rules: Tuple should have at least 1"),
        ("rules: [\n", "p.yaml:2: not YAML"),
        ("", "p.yaml:1: policy: Input should be"),
        (
            "rules:\n- name: x\n  actions: [reload]\n  targets: ['*']\n  freeze:\n"
            "  - {days: [fri], from: '16:00', until: '8:00', zone: Mars}\n",
            r"p.yaml:6: rules.0.freeze.0.weekly",
        ),
        (RULE + "  freeze:\n  - {days: [fri], from: '10:00Z', until: '12:00'}\n", r"p.yaml:6: rules.0.freeze.0.weekly.*zone"),
        (RULE + "  freeze:\n  - {days: [fri], from: '10:00', until: '11:00+05:00'}\n", r"p.yaml:6: .*zone"),
        (RULE + "  cool_down_s: 1.0e+15\n", r"p.yaml:5: rules.0.cool_down_s: .*2592000"),
        (RULE + "  cool_down_s: .inf\n", r"p.yaml:5: rules.0.cool_down_s: .*finite"),
        ("[" * 1000, "p.yaml: not YAML"),
    ],
)
def test_a_mistake_in_the_policy_names_file_line_and_field(tmp_path: Path, text: str, says: str) -> None:
    (tmp_path / "p.yaml").write_text(text)
    with pytest.raises(OperatorError, match=says):
        load_policy(tmp_path / "p.yaml")
    with pytest.raises(Unavailable, match="policy: "):
        usable_policy(tmp_path / "p.yaml")


def test_the_shipped_policy_can_be_read() -> None:
    assert load_policy(Path(__file__).parents[1] / "policies" / "policy.yaml").rules


DOCKER = {"kind": "docker", "container": "c", "image": "i", "releases": ["r1"], "source": "/app"}
CODE: dict[str, Any] = {
    "runtime": DOCKER, "repository": "/repo", "tests": ["pytest"],
    "autonomy": {"default": "auto", "actions": {"patch_code": "auto"}},
}
PATCH = PatchCode(diff="d" * 64, base="b", files=("a.py",), job="j" * 64)


def test_code_is_patched_by_two_people_unless_a_rule_says_otherwise_of_that_target_by_name(tmp_path: Path) -> None:
    made = verdict(tmp_path, PATCH, **CODE)
    assert (made.rung, made.people) == ("approve", 2)
    waived = verdict(tmp_path, PATCH, policy=a_policy(two_persons=False, targets=["payments"]), **CODE)
    assert (waived.rung, waived.people) == ("auto", 1)
    with pytest.raises(ValueError, match="by name"):
        a_policy(two_persons=False)


@pytest.mark.parametrize(("changes", "says"), [
    ({"autonomy": {"default": "auto"}}, "autonomy.actions names patch_code"),
    ({"runtime": DOCKER | {"source": ""}}, "runtime.source"),
    ({"repository": ""}, "repository and tests"),
    ({"tests": []}, "repository and tests"),
])
def test_code_of_a_target_that_does_not_name_all_it_takes_is_never_patched(
    tmp_path: Path, changes: dict[str, Any], says: str
) -> None:
    made = verdict(tmp_path, PATCH, **CODE | changes)
    assert made.rung == "refuse" and says in made.reasons[0]


def test_a_patch_stands_alone_and_names_release_instance_and_job(tmp_path: Path) -> None:
    target = a_target(tmp_path, **CODE)
    for plan, says in (
        (a_plan(PATCH, RELOAD), "a plan of its own"), (a_plan(PATCH, instance=""), "release and instance"),
        (a_plan(PATCH.model_copy(update={"job": ""})), "the job"),
    ):
        made = decide(a_policy(), target, plan, REHEARSED, NOW)
        assert made.rung == "refuse" and any(says in reason for reason in made.reasons)


def test_the_shipped_policy_lets_code_be_patched_by_approval_only(tmp_path: Path) -> None:
    policy = load_policy(Path(__file__).parents[1] / "policies" / "policy.yaml")
    made = verdict(tmp_path, PATCH, policy=policy, **CODE)
    assert (made.rung, made.rule, made.people) == ("approve", "code", 2)
