"""``milliarde key``: the key that requests are signed with, and the document that publishes it."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path

from node.errors import InputError
from node.rules.signature import DIRECTORY_PATH, DIRECTORY_TYPE
from node.settings import WebBotAuth
from node.work.signing import directory, directory_headers, make_key, read_key


def published(known: WebBotAuth, files: Sequence[Path], *, headers: bool, say: Callable[[str], None]) -> str:
    """The document for the keys in ``files`` (none = that of the settings), or the headers to serve it with.

    A key that isn't there is made; one that is there is left alone. Several are for the days on which one
    takes the place of another. Raises ``InputError``, ``SettingsError`` and ``DiskError``.
    """
    if not files:
        if known.key_file is None:
            raise InputError("name a file for the key, or set web_bot_auth.key_file")
        files = [Path(known.key_file)]
    if headers and not known.agent:
        raise InputError("the headers name the host that serves them: set web_bot_auth.agent")
    keys = []
    for file in files:
        if file.exists():
            keys.append(read_key(file))
        else:
            keys.append(make_key(file))
            say(f"made the key {file}: keep it to yourself, and give every node a copy that only it can read")
    if headers:
        return directory_headers(keys, known.agent, time.time())
    say(f"serve this at {known.agent or 'https://...'}{DIRECTORY_PATH} as {DIRECTORY_TYPE}")
    return directory(keys)
