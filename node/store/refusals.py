"""Why Redis refuses a write for now, though it is there."""

from __future__ import annotations

from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import OutOfMemoryError, ResponseError


class CanNotWriteError(RedisConnectionError):
    """Redis takes no writes until its own disk has room again.

    Nothing was changed. It passes by itself, and meanwhile there is nothing to do but to wait, as for a Redis
    that is gone: so it is one of ``LOST``.
    """


class NewRedisError(RedisConnectionError):
    """This Redis is another one than the caller has met, or it was restarted: what the call said may rest on
    what a crash took back.

    Nothing was changed. It is to be met anew, as one that went away and is back: so it is one of ``LOST``.
    """


def is_out_of_memory(error: Exception) -> bool:
    """Did Redis refuse for want of memory (``maxmemory``, noeviction)?"""
    # of a plain command the client makes a class of its own, of one inside a script it does not
    return isinstance(error, OutOfMemoryError) or (isinstance(error, ResponseError) and "OOM" in str(error))


def refuses_writes(error: Exception) -> bool:
    """Does Redis take no write for now, for want of memory or of room on its disk?"""
    return is_out_of_memory(error) or isinstance(understood(error), CanNotWriteError)


def understood(error: Exception) -> Exception:
    """What an answer that is an error means to callers: one of the above, or what it is."""
    # before Redis 7 the words are in the middle of those about a script
    if isinstance(error, ResponseError) and "MISCONF " in str(error):
        return CanNotWriteError(str(error))
    if isinstance(error, ResponseError) and "NEWREDIS " in str(error):
        return NewRedisError("Redis was restarted")
    return error
