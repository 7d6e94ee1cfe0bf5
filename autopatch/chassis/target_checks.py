"""What a target file must satisfy beyond the shape of its fields. Pure: nothing on disk or network is looked at."""

from collections.abc import Iterator
from dataclasses import dataclass
from signal import Signals

from autopatch.contract.target import Bounds, ConfigFile, DockerRuntime, Signal, Target

Location = tuple[str | int, ...]


@dataclass(frozen=True)
class Fault:
    """Where, what, and what to do about it."""

    where: Location
    what: str
    remedy: str


def faults_of(target: Target) -> Iterator[Fault]:
    """Everything wrong with a target."""
    for key, value in target.match.items():
        if not value:
            yield Fault(("match", key), "is empty, and no alert has an empty label", "name the value that alerts carry")
    yield from _runtime(target)
    yield from _urls(target)
    yield from _configs(target.configs)
    yield from _checks(target)
    for name, signal in target.signals.items():
        yield from _query(name, signal)


def _runtime(target: Target) -> Iterator[Fault]:
    releases = target.runtime.releases
    if len(set(releases)) < len(releases):
        yield Fault(("runtime", "releases"), "names a release twice", "list each release once, oldest first")
    if target.runtime.reload_signal and target.runtime.reload_signal not in Signals.__members__:
        yield Fault(("runtime", "reload_signal"), f"{target.runtime.reload_signal!r} is no signal", "write it like SIGHUP")
    if target.source_of_truth == "git" and not target.repository:
        yield Fault(("repository",), "is missing though git is the source of truth", "add the path of the repository")
    yield from _code(target)
    if isinstance(target.runtime, DockerRuntime) and ":" in target.runtime.image.rpartition("/")[2]:
        yield Fault(("runtime", "image"), "carries a tag", "leave it out: the releases are the tags")


def _code(target: Target) -> Iterator[Fault]:
    """What it takes to have its code patched."""
    source = target.runtime.source if isinstance(target.runtime, DockerRuntime) else ""
    if source and not source.startswith("/"):
        yield Fault(("runtime", "source"), "is no absolute path", "name the folder in the image, such as /app")
    if target.tests and not target.repository:
        yield Fault(("tests",), "are those of no repository", "add repository, or remove them")
    if "patch_code" not in target.autonomy.actions:
        return
    wanted = "though autonomy.actions names patch_code"
    if not isinstance(target.runtime, DockerRuntime):
        yield Fault(("autonomy", "actions", "patch_code"), "is for containers only", "remove it")
    elif not source:
        yield Fault(("runtime", "source"), f"is missing {wanted}", "name the folder in the image that is the repository's root")
    if not target.repository:
        yield Fault(("repository",), f"is missing {wanted}", "add the path of a checkout of what is deployed")
    if not target.tests:
        yield Fault(("tests",), f"are missing {wanted}", "add the command, such as [python3, -m, pytest, -q]")


def _urls(target: Target) -> Iterator[Fault]:
    urls: dict[Location, str] = {
        ("prometheus", "url"): target.prometheus.url, ("health",): target.health,
        ("runtime", "reload_url"): target.runtime.reload_url,
    }
    for where, url in urls.items():
        required = where == ("prometheus", "url")
        if (url or required) and not url.startswith(("http://", "https://")):
            yield Fault(where, "is no HTTP address", "write it like http://host:9090")


def _configs(configs: tuple[ConfigFile, ...]) -> Iterator[Fault]:
    for index, config in enumerate(configs):
        if any(config.name == other.name for other in configs[:index]):
            yield Fault(("configs", index, "name"), f"{config.name!r} is used twice", "give each file a name of its own")
        if any(config.path == other.path for other in configs[:index]):
            yield Fault(("configs", index, "path"), "the same file again", "list each file once")
        for key, bounds in config.editable.items():
            for what, remedy in _bounds(bounds):
                yield Fault(("configs", index, "editable", key), what, remedy)


def _bounds(bounds: Bounds) -> Iterator[tuple[str, str]]:
    ends = [end for end in (bounds.min, bounds.max) if end is not None]
    numeric = bounds.type in ("int", "float")
    if ends and not numeric:
        yield f"min and max mean nothing for type {bounds.type}", "remove them"
    if numeric and len(ends) < 2:
        yield "a number needs both min and max", "add what it may be at least and at most"
    if numeric and bounds.choices:
        yield "choices are for type str", "remove them"
    if bounds.type == "bool" and bounds.choices:
        yield "choices are for type str", "remove them"
    if bounds.type == "str" and not bounds.choices:
        yield "text needs choices", "list what it may be"
    if len(ends) == 2 and ends[0] > ends[1]:
        yield "min is above max", "swap them"
    elif bounds.type == "int" and any(end != int(end) for end in ends):
        yield "min and max of an int must be whole", "round them"


def _checks(target: Target) -> Iterator[Fault]:
    checks = {name: signal for name, signal in target.signals.items() if signal.role == "check"}
    if not checks:
        yield Fault(
            ("signals",), "none has role: check, so nothing could be measured", "give one signal role: check and a threshold"
        )
    seen: dict[str, str] = {}
    for name, signal in checks.items():
        if len(checks) > 1 and not signal.alerts:
            yield Fault(
                ("signals", name), "one check of several, without alerts", "add alerts: with the names that it stands for"
            )
        for alert in signal.alerts:
            if alert in seen:
                yield Fault(
                    ("signals", name, "alerts"), f"{alert} stands for {seen[alert]} already", "name each alert at one check"
                )
            seen[alert] = name


def _query(name: str, signal: Signal) -> Iterator[Fault]:
    """Syntax only, and only where the parser is installed."""
    try:
        import promql_parser
    except ImportError:
        return
    try:
        promql_parser.parse(signal.query)
    except ValueError as error:
        yield Fault(
            ("signals", name, "query"), f"not PromQL: {str(error).splitlines()[0][:200]}", "try it in Prometheus' own page first"
        )
