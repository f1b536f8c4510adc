"""Who we say we are, and how that can be checked: the User-Agent and the signer, from the settings."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from node import __version__
from node.errors import SettingsError
from node.settings import Settings

if TYPE_CHECKING:
    from node.work.signing import Signer


def user_agent(settings: Settings) -> str:
    """``token/version (+contact)``; robots.txt groups are matched against the token.

    Raises ``SettingsError`` for a fleet that doesn't say who it is.
    """
    identity = settings.identity
    if settings.crawl.nodes > 1 and not identity.contact.startswith(("https://", "http://")):
        raise SettingsError(
            "a crawl of more than one node needs identity.contact: the URL of a page that says who you are "
            "and how a site is left out (docs/bot.md has its text)"
        )
    contact = f" (+{identity.contact})" if identity.contact else ""
    return f"{identity.token}/{__version__}{contact}"


def warc_info(settings: Settings) -> dict[str, str]:
    """What each WARC file says of the crawl it is from."""
    return {
        "software": "Milliarde",
        "format": "WARC File Format 1.1",
        "robots": "RFC 9309",
        "isPartOf": settings.crawl.name,
        "operator": settings.identity.contact or "unknown",
        "http-header-user-agent": user_agent(settings),
    }


def signer_of(settings: Settings) -> Signer | None:
    """Who signs our requests; None where nobody does. Raises ``SettingsError``."""
    signing = settings.web_bot_auth
    if signing.key_file is None:
        return None
    from node.work.signing import Signer, read_key  # what it needs takes a while to load

    return Signer(read_key(Path(signing.key_file)), signing.agent, signing.valid_s)
