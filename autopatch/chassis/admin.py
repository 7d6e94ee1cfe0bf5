"""Makes the streams, buckets and consumers that rooms bind to. Safe to run again: it brings what differs into line."""

from dataclasses import dataclass

from nats.js import JetStreamContext, api
from nats.js.errors import NotFoundError

from autopatch.chassis.bus import Bus
from autopatch.chassis.permissions import allowed
from autopatch.contract import catalogue as cat
from autopatch.contract.errors import OperatorError

MAX_DELIVER = 10
"""The server gives up after this many deliveries and says so on the advisories: handlers that crash their process end here."""


@dataclass(frozen=True)
class Limits:
    """What the streams may take."""

    stream_bytes: int = 2 * 1024**3
    stream_age_s: float = 90 * 86400
    ack_wait_s: float = 30
    replicas: int = 1


def streams(limits: Limits) -> list[api.StreamConfig]:
    """Every stream that is not the back of a bucket."""
    file, old, new = api.StorageType.FILE, api.DiscardPolicy.OLD, api.DiscardPolicy.NEW
    month, week, mib = 30 * 86400, 7 * 86400, 1024**2
    return [
        api.StreamConfig(
            name=cat.INCIDENTS, subjects=["incidents.*.*"], storage=file, discard=new, max_bytes=limits.stream_bytes,
            max_age=limits.stream_age_s, deny_delete=True, deny_purge=True, allow_direct=True, duplicate_window=120,
            num_replicas=limits.replicas,
        ),
        api.StreamConfig(
            name=cat.TIMER_STREAM, subjects=["timers.set.>", "timers.fired.*"], storage=file, discard=old, max_bytes=64 * mib,
            allow_msg_schedules=True, allow_direct=True, max_msgs_per_subject=-1, num_replicas=limits.replicas,
        ),
        api.StreamConfig(
            name=cat.DEAD_LETTERS, subjects=["dead_letters.*"], storage=file, discard=old, max_bytes=64 * mib, max_age=month,
            allow_direct=True, num_replicas=limits.replicas,
        ),
        api.StreamConfig(
            name=cat.ADVISORIES, subjects=["$JS.EVENT.ADVISORY.CONSUMER.MAX_DELIVERIES.>"], storage=file, discard=old,
            max_bytes=16 * mib, max_age=week, num_replicas=limits.replicas,
        ),
        api.StreamConfig(
            name=cat.UNMATCHED, subjects=[cat.UNMATCHED_SUBJECT], storage=file, discard=old, max_bytes=16 * mib, max_age=week,
            allow_direct=True, num_replicas=limits.replicas,
        ),
    ]


def consumers(limits: Limits) -> list[tuple[str, api.ConsumerConfig]]:
    """(stream, consumer) for every room and what it hears."""
    made: list[tuple[str, api.ConsumerConfig]] = []

    def add(stream: str, name: str, subject: str) -> None:
        made.append((stream, api.ConsumerConfig(
            durable_name=name, filter_subject=subject, ack_policy=api.AckPolicy.EXPLICIT, ack_wait=limits.ack_wait_s,
            max_deliver=MAX_DELIVER, max_ack_pending=512, deliver_policy=api.DeliverPolicy.ALL,
        )))

    for room, heard in cat.HEARS.items():
        for event in heard:
            add(cat.INCIDENTS, cat.durable(room, event), f"incidents.*.{event.name}")
    for room in cat.TIMERS:
        add(cat.TIMER_STREAM, f"{room}_timers", f"timers.fired.{room}")
    add(cat.ADVISORIES, "gateway_advisories", "$JS.EVENT.ADVISORY.CONSUMER.MAX_DELIVERIES.>")
    return made


async def prepare(bus: Bus, limits: Limits) -> None:
    """Make or update everything. Raises Unavailable and nats errors."""
    js = bus.js
    for wanted in streams(limits):
        await bus.patiently(lambda w=wanted: _stream(js, w))  # type: ignore[misc]
    for stream, consumer in consumers(limits):
        await bus.patiently(lambda s=stream, c=consumer: js.add_consumer(s, c))  # type: ignore[misc]
    for bucket, ttl in ((cat.TARGETS_BUCKET, None), (cat.CONTROL_BUCKET, None), (cat.LEASES_BUCKET, 3600.0)):
        await bus.patiently(lambda b=bucket, t=ttl: _bucket(js, b, t, limits.replicas))  # type: ignore[misc]
    await bus.patiently(lambda: _blobs(js, limits.replicas))


async def look(bus: Bus) -> None:
    """Is everything there that the room may use? Raises OperatorError naming what is not, Unavailable."""
    publish, _ = allowed(bus.room)
    for parts in (subject.split(".")[2:] for subject in publish if subject.startswith("$JS.API.") and ".INFO." in subject):
        if "*" in parts or ">" in parts:
            continue
        kind, _, *names = parts
        info = bus.js.stream_info if kind == "STREAM" else bus.js.consumer_info
        try:
            await bus.patiently(lambda i=info, n=names: i(*n))  # type: ignore[misc]
        except NotFoundError:
            what = f"{kind.lower()} {'.'.join(names)}"
            raise OperatorError(f"NATS has no {what}", tip="run `python -m infra.nats.streams` with admin's seed") from None


async def _stream(js: JetStreamContext, wanted: api.StreamConfig) -> None:
    try:
        await js.stream_info(wanted.name or "")
    except NotFoundError:
        await js.add_stream(wanted)
    else:
        await js.update_stream(wanted)


async def _bucket(js: JetStreamContext, bucket: str, ttl: float | None, replicas: int) -> None:
    try:
        await js.stream_info(f"KV_{bucket}")
    except NotFoundError:
        await js.create_key_value(
            api.KeyValueConfig(bucket=bucket, history=1, ttl=ttl, storage=api.StorageType.FILE, replicas=replicas, direct=True)
        )


async def _blobs(js: JetStreamContext, replicas: int) -> None:
    try:
        await js.stream_info(f"OBJ_{cat.BLOBS_BUCKET}")
    except NotFoundError:
        await js.create_object_store(cat.BLOBS_BUCKET, api.ObjectStoreConfig(storage=api.StorageType.FILE, replicas=replicas))
