"""Brings an incident to any state and keeps it there until it is let go."""

import asyncio
from typing import Any

from autopatch.contract.lifecycle import Incident, State
from tests.flow.hands import Gate
from tests.flow.harness import Flow
from tests.flow.props import GatedSources, ScriptedPlans, ScriptedRehearsal

IN_HANDS = {State.APPLYING: "act", State.ROLLING_BACK: "take_back"}
"""States in which somebody waits for an answer of the target."""


class Stage:
    """One state, and what keeps an incident in it. `flow(**stage.given)` is a flow that can be brought there."""

    def __init__(self, state: State) -> None:
        self.state = state
        self.gate = Gate()
        self.plans = ScriptedPlans((20,), self.gate if state is State.DIAGNOSED else None)
        self.rehearsal = ScriptedRehearsal(gate=self.gate if state is State.PLANNED else None)

    @property
    def given(self) -> dict[str, Any]:
        """Arguments of `flow`."""
        adapters: dict[str, dict[str, Any]] = {"planner": {"source": self.plans}, "executor": {"rehearse": self.rehearsal}}
        if self.state is State.REPRODUCED:
            adapters["diagnosis"] = {"sources": GatedSources(self.gate)}
        return {"rung": "approve" if self.state in (State.AWAITING, State.APPROVED) else "auto", "adapters": adapters}

    async def reach(self, it: Flow) -> Incident:
        """The incident, which stays there."""
        match self.state:
            case State.OPEN:
                it.world.up = False
            case State.REHEARSED:
                await it.person("POST", "/v1/targets/payments/hold", {"reason": "the test looks"})
            case State.APPROVED:
                await it.person("POST", "/v1/pause", {"reason": "the test looks"})
            case State.UNDO_DUE | State.ROLLING_BACK:
                it.world.services["payments"].forced = 2.0
            case _:
                pass
        if self.state in IN_HANDS:
            it.hands.gates[IN_HANDS[self.state]] = self.gate
        await it.alert("payments")
        if self.state is State.APPROVED:
            await it.say(await it.wait(State.AWAITING), "approve")
        if self.state is State.UNDO_DUE:
            await it.wait(State.APPLIED)
            await it.stop("executor")
        if self.state in (*IN_HANDS, State.REPRODUCED, State.DIAGNOSED, State.PLANNED):
            await asyncio.wait_for(self.gate.reached.wait(), 30)
        return await it.wait(self.state)

    async def leave(self, it: Flow) -> None:
        """Whatever kept it there is gone."""
        self.gate.open()
        match self.state:
            case State.OPEN:
                it.world.up = True
            case State.REHEARSED:
                await it.person("DELETE", "/v1/targets/payments/hold")
            case State.AWAITING:
                await it.say(await it.only(), "approve")
            case State.APPROVED:
                await it.person("DELETE", "/v1/pause")
            case State.UNDO_DUE:
                await it.start("executor")
            case _:
                pass
