"""A tiny database over TCP: JSON lines, a login first, then one insert after the other, each taking a fixed time."""

import argparse
import asyncio
import hmac
import json
import logging
from itertools import count
from pathlib import Path
from typing import Any

from payments import logs
from payments.config import ConfigError, Database, load
from payments.lifetime import stop_event

log = logging.getLogger("database")


class DatabaseError(Exception):
    """The database refused, or the connection to it broke."""


class Client:
    """One connection. A query that fails or is cancelled half way leaves it unusable."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._busy = False

    @classmethod
    async def connect(cls, config: Database, port: int) -> "Client":
        """Opens and logs in; raises DatabaseError."""
        try:
            reader, writer = await asyncio.open_connection(config.host, port)
        except OSError as error:
            raise DatabaseError(f"cannot reach the database: {error.strerror}") from error
        client = cls(reader, writer)
        await client.query({"user": config.user, "password": config.password})
        return client

    @property
    def usable(self) -> bool:
        """False after a failure, and once the other side has hung up."""
        return not self._busy and not self._reader.at_eof()

    async def query(self, request: dict[str, Any]) -> dict[str, Any]:
        """Sends one request and waits for its answer; raises DatabaseError."""
        self._busy = True
        try:
            self._writer.write(json.dumps(request).encode() + b"\n")
            line = await self._reader.readline()
        except OSError as error:
            raise DatabaseError("the connection to the database broke") from error
        if not line:
            raise DatabaseError("the database closed the connection")
        answer: dict[str, Any] = json.loads(line)
        if "error" in answer:
            raise DatabaseError(answer["error"])
        self._busy = False
        return answer

    def close(self) -> None:
        """Hangs up."""
        self._writer.close()


class Server:
    """Keeps nothing but a counter per table: the demo needs its time, not its data."""

    def __init__(self, user: str, password: str, query_s: float) -> None:
        self._login = f"{user}\n{password}".encode()
        self._query_s = query_s
        self._ids = count(1)
        self._open: dict[asyncio.StreamWriter, asyncio.Future[None]] = {}

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection, until the other side hangs up or sends something that is no request."""
        ended = self._open[writer] = asyncio.get_running_loop().create_future()
        try:
            welcome = False
            while line := await reader.readline():
                request = json.loads(line)
                answer = await self._insert(request) if welcome else self._check_login(request)
                writer.write(json.dumps(answer).encode() + b"\n")
                if "error" in answer:
                    break
                welcome = True
        except (OSError, ValueError) as error:
            log.info("connection dropped", extra={"fields": {"reason": error.__class__.__name__}})
        finally:
            writer.close()
            del self._open[writer]
            ended.set_result(None)

    async def hang_up(self) -> None:
        """Closes every connection and waits until none is served any more."""
        for writer in self._open:
            writer.close()
        if self._open:
            await asyncio.wait(self._open.values(), timeout=2)

    def _check_login(self, request: dict[str, Any]) -> dict[str, Any]:
        login = f"{request.get('user')}\n{request.get('password')}".encode()
        return {"ok": True} if hmac.compare_digest(login, self._login) else {"error": "login refused"}

    async def _insert(self, request: dict[str, Any]) -> dict[str, Any]:
        await asyncio.sleep(self._query_s)
        return {"id": next(self._ids)} if request.get("insert") else {"error": "only inserts are known here"}


async def run(config: Database, port: int, query_s: float) -> None:
    """Serves on the loopback until it is told to stop, or until the process that started it is gone."""
    stop = stop_event(end_with_parent=True)
    database = Server(config.user, config.password, query_s)
    server = await asyncio.start_server(database.serve, config.host, port)
    log.info("listening", extra={"fields": {"port": server.sockets[0].getsockname()[1], "query_ms": round(query_s * 1000)}})
    async with server:
        await stop.wait()
        await database.hang_up()


def main() -> None:
    """`python -m payments.database --config FILE [--port N] [--query-ms N]`"""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--config", type=Path, required=True)
    parser.add_argument("--port", type=int, help="instead of database.port")
    parser.add_argument("--query-ms", type=int, default=90)
    options = parser.parse_args()
    logs.configure("payments_database", "")
    try:
        config = load(options.config).database
    except ConfigError as error:
        parser.exit(2, f"database: {error}\n")
    asyncio.run(run(config, options.port or config.port, options.query_ms / 1000))


if __name__ == "__main__":
    main()
