"""An Alertmanager that sends everything to one webhook."""

from pathlib import Path

from autopatch.cli.lab.probes import LOOPBACK, answers_http, free_port
from autopatch.cli.lab.process import Server, on_free_port
from autopatch.cli.lab.programs import at_least, find
from autopatch.cli.lab.templates import render

OLDEST = (0, 25, 0)


class Alertmanager(Server):
    """`url` is its API, `address` the same as host:port."""

    def __init__(
        self, folder: Path, port: int, *, webhook: str, token: str, config: Path | None = None, program: Path | None = None,
    ) -> None:
        self.address = f"{LOOPBACK}:{port}"
        self.url = f"http://{self.address}"
        config = config or self._render(folder, webhook, token)
        command = [
            at_least(program or find("prometheus-alertmanager", "alertmanager"), OLDEST), f"--config.file={config}",
            f"--storage.path={folder / 'data'}", f"--web.listen-address={self.address}", "--cluster.listen-address=",
            "--log.level=warn",
        ]
        ready = answers_http(f"{self.url}/-/ready")
        super().__init__("alertmanager", command, log=folder / "alertmanager.log", ready=ready, ports=[port])

    @staticmethod
    def _render(folder: Path, webhook: str, token: str) -> Path:
        secret = folder / "token"
        folder.mkdir(parents=True, exist_ok=True)
        secret.touch(mode=0o600)
        secret.write_text(token)
        return render("alertmanager/alertmanager.yml.tmpl", folder / "alertmanager.yml", WEBHOOK=webhook, TOKEN_FILE=str(secret))


def start(
    folder: Path, *, webhook: str, token: str, config: Path | None = None, program: Path | None = None
) -> Alertmanager:
    """A running server whose files are all in `folder`; `token` is sent as bearer token to `webhook`. Raises Unavailable."""
    return on_free_port(lambda: Alertmanager(
        folder, free_port(), webhook=webhook, token=token, config=config, program=program
    ))
