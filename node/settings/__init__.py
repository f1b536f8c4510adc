"""Every setting of a node, in one frozen tree, read from ``node.toml``.

The tree is strict: an unknown key, a wrong type or a contradiction stops the start with one
sentence. Units are in the names. Sections of the file are the fields of ``Settings``; all
have defaults but ``identity`` (a crawler says who it is) and ``paths.data``.
"""

from __future__ import annotations

from node.settings.file import build, dump, load, resolved
from node.settings.sections import Gateway, Parser, WebBotAuth
from node.settings.tree import Settings

__all__ = ["Gateway", "Parser", "Settings", "WebBotAuth", "build", "dump", "load", "resolved"]
