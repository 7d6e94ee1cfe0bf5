"""NATS users: one nkey per room, with permissions generated from the catalogue, so that table and server cannot drift."""

import os
from collections.abc import Iterable, Mapping
from pathlib import Path

import nkeys

from autopatch.chassis.bus import SEED
from autopatch.contract import catalogue as cat

USERS = ("admin", *cat.ROOMS)


def make_keys(folder: Path) -> dict[str, str]:
    """Seeds that are missing are made (mode 0600, each in a folder of its own). Returns user -> public key."""
    public: dict[str, str] = {}
    for user in USERS:
        path = folder / user / SEED
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        if not path.exists():
            seed = nkeys.encode_seed(os.urandom(32), nkeys.PREFIX_BYTE_USER)
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(descriptor, "wb") as file:
                file.write(bytes(seed))
        public[user] = nkeys.from_seed(bytearray(path.read_bytes())).public_key.decode()
    return public


def allowed(room: str) -> tuple[list[str], list[str]]:
    """(subjects that the room may publish to, subjects that it may subscribe to)."""
    publish = [f"incidents.*.{event.name}" for event in cat.SAYS[room]]
    publish += [cat.dead_letter_subject(room)]
    publish += [request.subject for request in cat.ASKS.get(room, ())]
    publish += _reads(cat.INCIDENTS)
    for event in cat.HEARS[room]:
        publish += _hears(cat.INCIDENTS, cat.durable(room, event))
    if room in cat.TIMERS:
        publish += [f"timers.set.{room}.>", *_hears(cat.TIMER_STREAM, f"{room}_timers")]
    for bucket in _buckets(room):
        publish += [f"$KV.{bucket}.>", *_reads(f"KV_{bucket}")]
    if cat.LEASES_BUCKET in _buckets(room):
        publish += _watches(f"KV_{cat.LEASES_BUCKET}")
    for bucket in _read_buckets(room):
        publish += _reads(f"KV_{bucket}")
    if room in cat.KEEPS_BLOBS:
        publish += _blobs(f"OBJ_{cat.BLOBS_BUCKET}")
    if room == "monitor":
        publish += [cat.UNMATCHED_SUBJECT]
    if room == "gateway":
        publish += ["live.cancelled.*", *_reads(cat.UNMATCHED), *_reads(cat.DEAD_LETTERS), *_reads(cat.TIMER_STREAM)]
        publish += _hears(cat.ADVISORIES, "gateway_advisories")
    subscribe = [f"_IN_{room}.>", "live.cancelled.*", *(request.subject for request in cat.SERVES.get(room, ()))]
    return sorted(set(publish)), sorted(set(subscribe))


def server_config(public: Mapping[str, str]) -> str:
    """The accounts block of nats-server's configuration."""
    users = [f"      {{ nkey: {public['admin']} }}"]
    users += [_user(room, public[room]) for room in cat.ROOMS]
    return "accounts {\n  AP {\n    jetstream: enabled\n    users: [\n" + "\n".join(users) + "\n    ]\n  }\n}\n"


def _user(room: str, key: str) -> str:
    publish, subscribe = allowed(room)
    answers = ", allow_responses: { max: 1, expires: \"900s\" }" if cat.SERVES.get(room) else ""
    return (
        f"      {{ nkey: {key}, permissions: {{\n"
        f"          publish: {{ allow: [{_quoted(publish)}] }}\n"
        f"          subscribe: {{ allow: [{_quoted(subscribe)}] }}{answers} }} }}"
    )


def _buckets(room: str) -> tuple[str, ...]:
    return {
        "monitor": (cat.TARGETS_BUCKET,), "executor": (cat.TARGETS_BUCKET,), "gateway": (cat.TARGETS_BUCKET, cat.CONTROL_BUCKET),
        "diagnosis": (cat.LEASES_BUCKET,), "planner": (cat.LEASES_BUCKET,), "validator": (cat.LEASES_BUCKET,),
    }.get(room, ())


def _read_buckets(room: str) -> tuple[str, ...]:
    return {"executor": (cat.CONTROL_BUCKET,)}.get(room, ())


def _reads(stream: str) -> list[str]:
    return [f"$JS.API.DIRECT.GET.{stream}", f"$JS.API.DIRECT.GET.{stream}.>", f"$JS.API.STREAM.INFO.{stream}"]


def _watches(stream: str) -> list[str]:
    """An ordered consumer of its own, which goes with its watcher."""
    verbs = [f"$JS.API.CONSUMER.{verb}.{stream}.>" for verb in ("CREATE", "INFO", "DELETE")]
    return [f"$JS.API.CONSUMER.CREATE.{stream}", *verbs, f"$JS.FC.{stream}.>"]


def _blobs(stream: str) -> list[str]:
    """Objects are added and read, never purged: a name is a digest, so nothing is ever written over."""
    bucket = cat.BLOBS_BUCKET
    looks = [f"$JS.API.STREAM.MSG.GET.{stream}", "$JS.API.STREAM.NAMES", *_reads(stream), *_watches(stream)]
    return [f"$O.{bucket}.C.>", f"$O.{bucket}.M.>", *looks]


def _hears(stream: str, durable: str) -> list[str]:
    return [
        f"$JS.API.CONSUMER.MSG.NEXT.{stream}.{durable}", f"$JS.API.CONSUMER.INFO.{stream}.{durable}",
        f"$JS.ACK.{stream}.{durable}.>",
    ]


def _quoted(subjects: Iterable[str]) -> str:
    return ", ".join(f'"{subject}"' for subject in subjects)


