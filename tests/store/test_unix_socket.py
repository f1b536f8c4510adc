"""A connection to Redis that is lost."""

from __future__ import annotations

import asyncio

import pytest
import uvloop

from node.store.connection import LOST
from node.store.unix_socket import UnixSocket
from tests.redis_server import RedisServer


@pytest.mark.parametrize("run", [uvloop.run, asyncio.run], ids=["uvloop", "asyncio"])
def test_a_connection_that_redis_has_closed_is_lost(run: object, redis_server: RedisServer) -> None:
    """Also to uvloop, which has an error of its own for it: a visit that asked something just then would be
    taken for a fault of ours, and its URL given up."""

    async def closed() -> None:
        connection = UnixSocket(path=str(redis_server.socket))
        await connection.connect()
        await connection.send_command("PING")
        assert await connection.read_response() in (b"PONG", "PONG")
        assert connection._writer is not None
        connection._writer.transport.abort()  # as when the other end is gone, before anybody reads
        await asyncio.sleep(0.01)

        async def ask() -> None:
            await connection.send_command("PING")
            await connection.read_response()

        with pytest.raises(LOST):
            await ask()
        await connection.disconnect()

    assert callable(run)
    run(closed())
