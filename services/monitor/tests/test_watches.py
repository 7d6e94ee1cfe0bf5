"""The room's own watches."""

from datetime import timedelta

import pytest

from autopatch.chassis.prometheus import Failed, Nothing, Result, Series, Value
from autopatch.contract.errors import OperatorError, Unavailable
from autopatch.contract.lifecycle import State
from services.monitor.agent import Rules
from services.monitor.ingest import Ingest
from services.monitor.service import build
from services.monitor.settings import Watch
from services.monitor.tests.given import Chassis, Metrics, chassis, settings
from services.monitor.watches import Watches

YES = Value(series=(Series(times=(1.0,), values=(3.0,)),))
WATCH = Watch(name="PoolFull", expr="pool_waiting > 0", labels={"service": "payments"}, for_s=60)


def watching(on: Chassis, answer: Result | Unavailable) -> tuple[Watches, Metrics]:
    metrics = Metrics(answer)
    ingest = Ingest(on, Rules(timedelta(seconds=300), 3), 0.3)
    return Watches(on, ingest, (WATCH,), lambda _: metrics, 15), metrics


async def test_a_watch_that_holds_long_enough_opens_an_incident_and_clears_it_when_it_stops() -> None:
    on = chassis()
    watches, metrics = watching(on, YES)
    for _ in range(6):
        await watches.once()
        on.clock.later(15)
    alert = on.incidents[0].opened.alert
    assert on.told() == ["opened"] and alert and (alert.alertname, alert.source) == ("PoolFull", "watch")
    metrics.answer = Nothing()
    await watches.once()
    assert on.told() == ["opened", "cleared"] and on.incidents[0].state is State.CLOSED


async def test_a_watch_that_does_not_hold_long_enough_opens_nothing() -> None:
    on = chassis()
    watches, metrics = watching(on, YES)
    for answer in (YES, YES, Nothing(), YES, YES, YES):
        metrics.answer = answer
        await watches.once()
        on.clock.later(20)
    assert on.incidents == []


@pytest.mark.parametrize("trouble", [Failed(reason="parse error"), Unavailable("prometheus", "refused")])
async def test_a_watch_that_cannot_be_measured_neither_opens_nor_clears(trouble: Result | Unavailable) -> None:
    on = chassis()
    watches, metrics = watching(on, YES)
    for _ in range(6):
        await watches.once()
        on.clock.later(15)
    metrics.answer = trouble
    await watches.once()
    assert on.told() == ["opened"]


async def test_a_restarted_monitor_clears_what_stopped_in_the_meantime() -> None:
    on = chassis()
    watches, _ = watching(on, YES)
    for _ in range(6):
        await watches.once()
        on.clock.later(15)
    restarted, _ = watching(on, Nothing())
    await restarted.once()
    assert on.told() == ["opened", "cleared"]


def test_a_watch_whose_labels_belong_to_no_target_is_the_operators_mistake() -> None:
    watch = Watch(name="X", expr="up", labels={"service": "nobody"})
    with pytest.raises(OperatorError, match=r"monitor.watches.0 \(X\)"):
        build(settings(watches=(watch,)), chassis())


def test_watches_are_given_in_the_environment_as_json(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AUTOPATCH_MONITOR_WATCHES", '[{"name": "X", "expr": "up == 0", "labels": {"service": "payments"}}]')
    assert settings().watches[0].expr == "up == 0"
