"""Every folder of scenarios through the whole room, without a model."""

import pytest

from autopatch.contract import events as ev
from services.diagnosis.service import build
from services.diagnosis.settings import Settings
from services.diagnosis.tests.given import SCENARIOS, Answers, Commits, Desk, Probe, Recorded, Scenario


async def diagnosed(scenario: Scenario) -> ev.Event:
    room = build(
        Settings(), Desk(scenario, Answers(scenario)), sources=Recorded(scenario), history=Commits(),
        health=Probe(scenario.known["health"]),
    )
    (found,) = await room.handlers[ev.Reproduced](scenario.heard())
    return found


@pytest.mark.parametrize("folder", SCENARIOS, ids=lambda p: p.name)
async def test_a_scenario_ends_in_the_expected_cause_or_in_abstention(folder: object) -> None:
    scenario = Scenario(folder)  # type: ignore[arg-type]
    found, wanted = await diagnosed(scenario), scenario.known["expect"]
    if wanted["first"] is None:
        assert isinstance(found, ev.Undiagnosed), found
        assert "no cause stands out" in found.reason
        return
    assert isinstance(found, ev.Diagnosed), found
    assert found.causes[0].id == wanted["first"], [(c.id, c.confidence) for c in found.causes]
    assert found.causes[0].confidence >= 0.5
    assert found.signature == f"app:{scenario.known['check']}:{wanted['first']}"
    assert not {c.id for c in found.causes} & set(wanted.get("not_shown", ()))
    sources = {e.source for e in found.evidence if e.id in found.causes[0].cites}
    assert set(wanted.get("cites", ())) <= sources
    for name in wanted.get("missing", ()):
        assert any(m.startswith(name) for m in found.missing)
    assert (found.model.mode, found.model.calls) == ("off", 0)


def test_names_of_scenarios_do_not_give_the_cause_away() -> None:
    for scenario in map(Scenario, SCENARIOS):
        assert not any(word in scenario.folder.name for word in (scenario.known["expect"]["first"] or "none").split("_"))
