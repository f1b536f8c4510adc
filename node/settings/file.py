"""``node.toml``: read, checked, and written."""

from __future__ import annotations

import tomllib
from pathlib import Path

import msgspec

from node.errors import SettingsError
from node.settings.checks import validate
from node.settings.sections import Paths
from node.settings.tree import Settings


def build(raw: object, source: str = "settings") -> Settings:
    """Settings from a plain mapping (parsed TOML). Raises ``SettingsError`` in one sentence."""
    try:
        settings = msgspec.convert(raw, Settings)
    except msgspec.ValidationError as error:
        words = str(error).replace("`$.", "`").replace("Object contains", "there is an")
        raise SettingsError(f"{source}: {words}") from None
    validate(settings)
    return settings


def load(path: Path) -> Settings:
    """Read ``node.toml``; relative paths in it become absolute, from the file's own folder."""
    try:
        raw = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise SettingsError(f"there is no settings file {path}") from None
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"{path} can't be read: {error}") from None
    except tomllib.TOMLDecodeError as error:
        raise SettingsError(f"{path} is not TOML: {error}") from None
    settings = build(raw, str(path))
    return resolved(settings, path.resolve().parent)


def resolved(settings: Settings, here: Path) -> Settings:
    """The same with relative paths taken from ``here``."""
    paths, gateway, signing = settings.paths, settings.gateway, settings.web_bot_auth
    if gateway.credentials_file is not None:
        gateway = msgspec.structs.replace(gateway, credentials_file=str(here / gateway.credentials_file))
    if signing.key_file is not None:
        signing = msgspec.structs.replace(signing, key_file=str(here / signing.key_file))
    return msgspec.structs.replace(
        settings,
        paths=Paths(data=str(here / paths.data), redis_socket=str(here / paths.redis_socket)),
        gateway=gateway,
        web_bot_auth=signing,
    )


def _toml_value(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, list | tuple):
        return "[" + ", ".join(_toml_value(item) for item in value) + "]"
    if isinstance(value, dict):
        pairs = (f"{key} = {_toml_value(item)}" for key, item in value.items() if item is not None)
        return "{" + ", ".join(pairs) + "}"
    # a TOML basic string has JSON's escapes
    return msgspec.json.encode(str(value)).decode()


def dump(settings: Settings) -> str:
    """The TOML text of ``settings``; ``load`` of it gives the same tree."""
    lines: list[str] = []
    for section, table in msgspec.to_builtins(settings).items():
        lines.append(f"[{section}]")
        lines += [f"{key} = {_toml_value(value)}" for key, value in table.items() if value is not None]
        lines.append("")
    return "\n".join(lines)
