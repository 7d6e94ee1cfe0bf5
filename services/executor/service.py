"""The composition root: which handler hears what, and which adapters it stands on."""

from collections.abc import Callable
from pathlib import Path

from autopatch.chassis.chassis import Chassis
from autopatch.chassis.room import Room
from autopatch.contract import events as ev
from autopatch.contract import requests as rq
from autopatch.contract.target import Target
from services.executor.acting import Acting
from services.executor.adapters.code.answers import Answers
from services.executor.adapters.code.layers import Layers
from services.executor.adapters.code.offers import Offers
from services.executor.adapters.code.proof import Proof
from services.executor.adapters.delivery.start import HandsFor, look_around, rehearsal_for
from services.executor.adapters.rules.policy_file import usable_policy
from services.executor.adapters.runtimes.engine import Engine
from services.executor.adapters.sandbox.owner import reaping
from services.executor.adapters.workshop.start import workshop_for
from services.executor.deciding import Deciding
from services.executor.adapters.defects.jobs import Jobs, RunsTests, for_jobs
from services.executor.ports import Hands, PatchesReleases, Rehearse
from services.executor.settings import Settings


def build(
    settings: Settings, chassis: Chassis, *, rehearse: Rehearse | None = None, hands: Callable[[Target], Hands] | None = None,
    workshop: RunsTests | None = None, code: PatchesReleases | None = None, crash: Callable[[str], None] = lambda _: None,
) -> Room:
    """Tests pass hands, a rehearsal, a workshop, patches of releases, and a `crash` that is called at received, decided, claimed,
    before_effect, after_effect, after_offer and before_return."""
    engine = Engine(settings.docker_host)
    own, code = workshop_for(settings, engine, chassis.blobs), code or Layers(engine, chassis.blobs)
    tests = workshop or own
    hands_on = hands or HandsFor(settings, engine, chassis.clock, code)
    policy, tries, proof = Path(settings.policy), rehearse or rehearsal_for(settings, engine), Proof(chassis.blobs, tests)
    deciding = Deciding(chassis, hands_on, tries, proof, lambda: usable_policy(policy), crash)
    acting = Acting(chassis, hands_on, Offers(chassis.blobs, chassis.targets.get), crash)
    answers = Answers(chassis, hands_on, code)
    jobs = Jobs(chassis, tests, crash)

    return Room(
        name="executor",
        handlers={
            ev.Planned: for_jobs(jobs.planned, deciding.planned), ev.Rehearsed: for_jobs(jobs.rehearsed, deciding.rehearsed),
            ev.Approved: deciding.approved, ev.Applying: for_jobs(jobs.applying, acting.applying),
            ev.ApplyFailed: acting.undo_due, ev.NotRecovered: acting.undo_due,
            ev.RollingBack: for_jobs(jobs.rolling_back, acting.rolling_back),
            ev.Cancelled: for_jobs(jobs.cancelled, acting.cancelled),
        },
        timers={"expiry": deciding.expiry},
        responders={
            rq.Inspect: answers.inspect, rq.Logs: answers.logs, rq.RunTests: tests.run_tests, rq.Snapshot: answers.snapshot,
        },
        shielded=frozenset({ev.Applying, ev.ApplyFailed, ev.NotRecovered, ev.RollingBack, ev.Cancelled}),
        background=(lambda: reaping(engine),), on_start=(lambda: look_around(settings, engine),), on_stop=(own.close,),
    )
