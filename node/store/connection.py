"""Talking to the node's Redis: verbs in, decoded answers out.

Two doors to the same room: ``Store`` blocks (parsers, commands), ``AsyncStore`` does not
(fetchers, watch). Neither retries by itself: a call whose answer was lost may have been carried
out, and every verb is safe to repeat, so the caller decides.

A Redis that turns out to be a new one (a script is unknown, or the connection was lost and the run
id is another) is met again with ``begin`` before anything else is said to it, and ``generation``
goes up: what was leased under an earlier generation is no longer ours to use.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence
from typing import Any, TypeVar, cast

import redis
import redis.asyncio
from redis.backoff import NoBackoff
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import NoScriptError, RedisError, ResponseError
from redis.exceptions import TimeoutError as RedisTimeoutError
from redis.retry import Retry

from node.errors import NoRedisError
from node.settings import Settings
from node.store import keys
from node.store.clock import Clock
from node.store.meeting import Begun, begin
from node.store.refusals import CanNotWriteError, is_out_of_memory, understood
from node.store.scripts import Verb, all_scripts, script
from node.store.unix_socket import UnixSocket

T = TypeVar("T")

LOST = (RedisConnectionError, RedisTimeoutError, OSError)
"""What a broken connection raises, and a Redis that is still loading, or has no room on its disk; anything
else is a bug."""


ADOPT_MS = 10_000
"""A fetcher silent this long loses its lanes. It stops sending a second before (``GRACE_MS``)."""
GRACE_MS = 9_000
"""How long after its last word from Redis a process may go on sending requests."""


CONNECTIONS = 16
"""Most connections of one event loop to Redis."""


READ_RUN_ID = ("HGET", keys.META, "run")
"""Command: the run id of the Redis that some process met last."""


class _Common:
    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.clock = Clock()
        self.generation = 0
        self.commands = 0
        """Commands sent by this process."""
        self.begun: Begun | None = None
        self.run_id = ""
        """Of the Redis that was met last."""

    def _met(self, run_id: str, begun: Begun) -> None:
        self.clock.base_ms = begun.base_ms
        if run_id != self.run_id:
            self.generation += 1
            self.run_id = run_id
        self.begun = begun

    def now_ms(self) -> int:
        return self.clock.now_ms()


def _options(settings: Settings, timeout_s: float) -> dict[str, Any]:
    return {
        "unix_socket_path": settings.paths.redis_socket,
        "socket_timeout": timeout_s,
        "socket_connect_timeout": 5,
        "retry": Retry(NoBackoff(), 0),
        "protocol": 2,
    }


def info_of(text: bytes) -> dict[str, str]:
    """The fields of an INFO answer."""
    pairs = (line.partition(":") for line in text.decode().splitlines() if not line.startswith("#"))
    return {name: value for name, colon, value in pairs if colon}


def _unreachable(settings: Settings, error: Exception) -> NoRedisError:
    return NoRedisError(f"no Redis answers at {settings.paths.redis_socket}: {error}")


class Store(_Common):
    """A blocking connection. Not for use by several threads at once."""

    def __init__(self, settings: Settings, *, timeout_s: float = 30.0) -> None:
        super().__init__(settings)
        self.redis: Any = redis.Redis(**_options(settings, timeout_s))
        # answers as Redis gives them, in every version of the client
        self.redis.response_callbacks.clear()

    def begin(self) -> Begun:
        """Meet Redis: check whose it is, load the scripts, take over the clock.

        Raises ``NoRedisError`` where nothing answers, ``CanNotWriteError`` where its disk is full,
        ``OtherCrawlError`` where it isn't ours.
        """
        try:
            return self._meet()
        except CanNotWriteError:
            raise
        except LOST as error:
            raise _unreachable(self.settings, error) from None

    def _meet(self) -> Begun:
        run_id = info_of(self.redis.execute_command("INFO", "server"))["run_id"]
        # The rest only once it has begun: else another process that is back could lease before `epoch` moved.
        self.redis.script_load(script("begin").source)
        known = self.redis.execute_command("EXISTS", keys.META)
        verb = begin(self.settings, run_id, GRACE_MS, new=not known)
        try:
            begun = verb.decode(self.redis.execute_command(*verb.command()))
        except ResponseError as error:
            raise understood(error) from None
        for each in all_scripts():
            self.redis.script_load(each.source)
        self._met(run_id, begun)
        return begun

    def peek(self) -> None:
        """Meet a Redis that takes no writes, to read: its clock is taken over, nothing is checked."""
        self.clock.base_ms = int(self.redis.execute_command("HGET", keys.META, "base") or 0)

    def call(self, verb: Verb[T]) -> T:
        """Carry out one verb."""
        return cast("T", self.calls([verb])[0])

    def calls(
        self, verbs: Sequence[Verb[Any]], *, extra: Sequence[tuple[Any, ...]] = (), spare: bool = False
    ) -> list[Any]:
        """Carry out verbs, then plain commands, in one round trip.

        Returns the decoded answers, then the raw ones of ``extra``; with ``spare``, None for those that
        Redis has no memory for. Raises one of ``LOST`` where the
        connection broke, ``redis.ResponseError`` where Redis refused (out of memory).
        """
        commands = [*(verb.command() for verb in verbs), *extra]
        answers = self._send(commands)
        if any(isinstance(answer, NoScriptError) for answer in answers):
            self._meet()
            again = [i for i, answer in enumerate(answers) if isinstance(answer, NoScriptError)]
            for i, answer in zip(again, self._send([commands[i] for i in again]), strict=True):
                answers[i] = answer
        return _decode(verbs, answers, spare=spare)

    def _send(self, commands: Sequence[tuple[Any, ...]]) -> list[Any]:
        self.commands += len(commands)
        pipe = self.redis.pipeline(transaction=False)
        for command in commands:
            pipe.execute_command(*command)
        return list(pipe.execute(raise_on_error=False))

    def close(self) -> None:
        self.redis.close()


class AsyncStore(_Common):
    """The same for an event loop; calls may overlap, each on a connection of the pool."""

    def __init__(self, settings: Settings, *, timeout_s: float = 30.0) -> None:
        super().__init__(settings)
        # Thousands of visits may want something at once: beyond these they wait their turn. (The
        # client's own pool refuses instead, with an error that looks like a broken connection.)
        options = _options(settings, timeout_s)
        pool = redis.asyncio.BlockingConnectionPool(
            connection_class=UnixSocket,
            path=options.pop("unix_socket_path"),
            max_connections=CONNECTIONS,
            timeout=timeout_s,
            **options,
        )
        self.redis: Any = redis.asyncio.Redis.from_pool(pool)
        self.redis.response_callbacks.clear()
        self._beginning = asyncio.Lock()

    async def begin(self) -> Begun:
        """See ``Store.begin``."""
        try:
            return await self.meet()
        except CanNotWriteError:
            raise
        except LOST as error:
            raise _unreachable(self.settings, error) from None

    async def meet(self) -> Begun:
        """The same at work: where nothing answers, that is one of ``LOST``, and waited for."""
        async with self._beginning:
            run_id = info_of(await self.redis.execute_command("INFO", "server"))["run_id"]
            await self.redis.script_load(script("begin").source)  # then the rest: see Store
            known = await self.redis.execute_command("EXISTS", keys.META)
            verb = begin(self.settings, run_id, GRACE_MS, new=not known)
            try:
                begun = verb.decode(await self.redis.execute_command(*verb.command()))
            except ResponseError as error:
                raise understood(error) from None
            for each in all_scripts():
                await self.redis.script_load(each.source)
            self._met(run_id, begun)
            return begun

    async def call(self, verb: Verb[T]) -> T:
        """Carry out one verb."""
        return cast("T", (await self.calls([verb]))[0])

    async def calls(
        self, verbs: Sequence[Verb[Any]], *, extra: Sequence[tuple[Any, ...]] = (), spare: bool = False
    ) -> list[Any]:
        """See ``Store.calls``."""
        commands = [*(verb.command() for verb in verbs), *extra]
        answers = await self._send(commands)
        if any(isinstance(answer, NoScriptError) for answer in answers):
            await self.meet()
            again = [i for i, answer in enumerate(answers) if isinstance(answer, NoScriptError)]
            for i, answer in zip(again, await self._send([commands[i] for i in again]), strict=True):
                answers[i] = answer
        return _decode(verbs, answers, spare=spare)

    async def _send(self, commands: Sequence[tuple[Any, ...]]) -> list[Any]:
        self.commands += len(commands)
        pipe = self.redis.pipeline(transaction=False)
        for command in commands:
            pipe.execute_command(*command)
        return list(await pipe.execute(raise_on_error=False))

    async def close(self) -> None:
        with contextlib.suppress(RedisError, OSError):
            await self.redis.aclose()


def _decode(verbs: Sequence[Verb[Any]], answers: list[Any], *, spare: bool) -> list[Any]:
    plain = len(verbs)
    for at, answer in enumerate(answers):
        if isinstance(answer, Exception):
            if not (spare and at >= plain and is_out_of_memory(answer)):
                raise understood(answer)
            answers[at] = None
    return [verb.decode(answer) for verb, answer in zip(verbs, answers, strict=False)] + answers[plain:]
