"""A container made again with another image: what its owner chose stays, what its image chose is the new image's."""

from typing import Any

from docker import DockerClient

Attrs = dict[str, Any]


def recreate(client: DockerClient, original: Attrs, name: str, image: str) -> Attrs:
    """Creates, does not start. Mounts, networks, environment, labels, command, health check, limits and restart policy stay."""
    networks = _endpoints(original)
    first = original["HostConfig"]["NetworkMode"]
    body = {
        **_chosen(original, client.api.inspect_image(original["Image"])["Config"]),  # type: ignore[no-untyped-call]
        "Image": image,
        "HostConfig": _host(original),
        "NetworkingConfig": {"EndpointsConfig": {first: networks[first]} if first in networks else {}},
    }
    made = client.api.create_container_from_config(body, name)  # type: ignore[no-untyped-call]
    for network, endpoint in networks.items():
        if network != first:
            client.api.connect_container_to_network(
                made["Id"], network, aliases=endpoint["Aliases"], links=endpoint["Links"],
                **{f"ipv{v}_address": (endpoint["IPAMConfig"] or {}).get(f"IPv{v}Address") for v in (4, 6)},
            )
    attrs: Attrs = client.api.inspect_container(made["Id"])
    return attrs


def _chosen(original: Attrs, image: Attrs | None) -> Attrs:
    """The configuration less what came from the old image, so that the new one's defaults count."""
    image = image or {}
    config = {k: v for k, v in original["Config"].items() if k not in ("Image", "MacAddress", "Volumes")}
    if config.get("Hostname") == original["Id"][:12]:
        del config["Hostname"]
    for field in ("Cmd", "Entrypoint", "WorkingDir", "User", "Healthcheck", "ExposedPorts", "StopSignal", "Shell", "OnBuild"):
        if config.get(field) == image.get(field):
            config.pop(field, None)
    config["Env"] = [entry for entry in config.get("Env") or [] if entry not in (image.get("Env") or [])]
    labels = image.get("Labels") or {}
    config["Labels"] = {k: v for k, v in (config.get("Labels") or {}).items() if labels.get(k) != v}
    return config


def _host(original: Attrs) -> Attrs:
    """With anonymous volumes named, so that their data moves along."""
    host = dict(original["HostConfig"])
    binds = [bind for bind in host.get("Binds") or [] if ":" in bind]
    known = {mount.get("Target") for mount in host.get("Mounts") or []} | {bind.split(":")[1] for bind in binds}
    volumes = [m for m in original["Mounts"] if m["Type"] == "volume" and m["Destination"] not in known]
    host["Binds"] = [*binds, *(f"{m['Name']}:{m['Destination']}:{'rw' if m['RW'] else 'ro'}" for m in volumes)]
    return host


def _endpoints(original: Attrs) -> dict[str, Attrs]:
    """Settings of user-defined networks; the engine makes the others itself."""
    found = {}
    for name, network in (original["NetworkSettings"].get("Networks") or {}).items():
        if name not in ("host", "none", "bridge"):
            aliases = [alias for alias in network.get("Aliases") or [] if alias != original["Id"][:12]]
            found[name] = {"Aliases": aliases, "Links": network.get("Links"), "IPAMConfig": network.get("IPAMConfig")}
    return found
