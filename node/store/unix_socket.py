"""A connection of an event loop to Redis that says so when it is lost, whatever the loop is."""

from __future__ import annotations

from collections.abc import Iterable

import redis.asyncio
from redis.exceptions import ConnectionError as RedisConnectionError


class UnixSocket(redis.asyncio.UnixDomainSocketConnection):
    """The client's own, but for one thing: uvloop answers a write to a transport that is closed already with
    a RuntimeError, where asyncio's own loop has an OSError, which is all that the client knows of.
    """

    async def send_packed_command(
        self, command: bytes | str | Iterable[bytes], check_health: bool = True
    ) -> None:
        """See the client. Raises its ``ConnectionError`` where the connection is gone."""
        try:
            await super().send_packed_command(command, check_health)
        except RuntimeError as error:
            if "handler is closed" not in str(error):
                raise
            raise RedisConnectionError(f"Redis has hung up: {error}") from None
