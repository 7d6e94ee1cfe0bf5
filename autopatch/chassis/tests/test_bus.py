"""The connection: what was flushed is at the server, seen on the wire."""

import asyncio

from autopatch.chassis.bus import connect
from autopatch.chassis.tests.nats_server import NatsServer


async def test_a_flush_ends_with_a_ping_that_was_sent_after_everything_before_it(nats_server: NatsServer) -> None:
    sent = bytearray()

    async def relay(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, seen: bytearray) -> None:
        while data := await reader.read(4096):
            seen += data
            writer.write(data)
        writer.close()

    async def accepted(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        inner_reader, inner_writer = await asyncio.open_connection("127.0.0.1", nats_server.port)
        await asyncio.gather(relay(reader, inner_writer, sent), relay(inner_reader, writer, bytearray()))

    async with await asyncio.start_server(accepted, "127.0.0.1", 0) as between:
        port = between.sockets[0].getsockname()[1]
        bus = await connect(f"nats://127.0.0.1:{port}", "validator", budget_s=5)
        await bus.client.subscribe("validator.recheck")
        await bus.flush()
        assert 0 < sent.index(b"SUB validator.recheck") < sent.rindex(b"PING")
        await bus.close()
        nats_server.kill()
