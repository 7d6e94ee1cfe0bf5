"""`python -m payments --config FILE`: starts the service, and its database too when asked to. SIGHUP reloads."""

import argparse
import asyncio
import logging
import signal
import sys
from asyncio.subprocess import PIPE, Process
from importlib import import_module
from pathlib import Path

from aiohttp import web

from payments import logs
from payments.config import Config, ConfigError, load, public
from payments.database import DatabaseError
from payments.lifetime import stop_event
from payments.service import Fee, Refund, Service

log = logging.getLogger("payments")
RELEASE_FILE = Path(__file__).parent / "RELEASE"


async def start_database(options: argparse.Namespace, port: int) -> Process:
    """Its standard input is ours to close: it ends when we do, however we end."""
    command = ("-m", "payments.database", "--config", str(options.config), "--port", str(port))
    return await asyncio.create_subprocess_exec(
        sys.executable, *command, "--query-ms", str(options.query_ms), stdin=PIPE, cwd=Path(__file__).parents[1]
    )


async def wait_for_database(service: Service, within_s: float = 10) -> None:
    """Opens one connection; raises DatabaseError when that does not work in time."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + within_s
    while True:
        try:
            async with service.pool.connection():
                return
        except DatabaseError:
            if loop.time() > deadline:
                raise
            await asyncio.sleep(0.05)


async def run(options: argparse.Namespace, config: Config, fee_cents: Fee, refund: Refund | None) -> int:
    """Serves until it is told to stop; the exit code."""
    stop = stop_event(end_with_parent=options.end_with_parent)
    database_port = options.database_port or config.database.port
    service = Service(options.config, config, options.release, fee_cents, database_port, refund)
    database = await start_database(options, database_port) if options.with_database else None
    runner = web.AppRunner(service.app(), access_log=None, handle_signals=False)
    try:
        await wait_for_database(service)
        await runner.setup()
        site = web.TCPSite(
            runner, options.host, options.port or config.api.port, backlog=config.api.max_connections, shutdown_timeout=5
        )
        await site.start()
        asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, service.reload)
        log.info("listening", extra={"fields": {"port": options.port or config.api.port, "config": public(config)}})
        await _until_over(stop, database)
    except (DatabaseError, OSError) as error:
        log.error("cannot start", extra={"fields": {"reason": str(error)}})
        return 1
    finally:
        await runner.cleanup()
        service.pool.close()
        if database and database.returncode is None:
            database.terminate()
            await database.wait()
    return 0 if stop.is_set() else 1


async def _until_over(stop: asyncio.Event, database: Process | None) -> None:
    stopped = asyncio.ensure_future(stop.wait())
    ends = {stopped, asyncio.ensure_future(database.wait())} if database else {stopped}
    await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
    if not stop.is_set():
        log.error("the database process ended, so does the service")
    for end in ends:
        end.cancel()


def parse() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="payments", description=__doc__)
    parser.add_argument("--config", type=Path, default=Path("/etc/payments/config.json"))
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on")
    parser.add_argument("--port", type=int, help="instead of api.port")
    parser.add_argument("--database-port", type=int, help="instead of database.port")
    parser.add_argument("--release", default=RELEASE_FILE.read_text().strip() if RELEASE_FILE.exists() else "1")
    parser.add_argument("--with-database", action="store_true", help="start the database as a child")
    parser.add_argument("--query-ms", type=int, default=90, help="how long the child's queries take")
    parser.add_argument("--end-with-parent", action="store_true", help="stop when standard input is closed")
    return parser.parse_args()


def main() -> None:
    """Exit codes: 0 told to stop, 1 could not go on, 2 configuration or release unusable."""
    options = parse()
    try:
        config = load(options.config)
        release = import_module(f"payments.releases.r{options.release}")
    except (ConfigError, ModuleNotFoundError) as error:
        sys.exit(_complain(f"payments: cannot start with {options.config}, release {options.release}: {error}"))
    logs.configure(config.service_name, options.release)
    sys.exit(asyncio.run(run(options, config, release.fee_cents, getattr(release, "refund", None))))


def _complain(message: str) -> int:
    print(message, file=sys.stderr)
    return 2


if __name__ == "__main__":
    main()
