"""Why a URL did not enter the frontier: the names it is counted under.

(The store has a few more, for what only it can know: a full queue, a spent budget, a dead host.)
"""

from __future__ import annotations

from enum import StrEnum
from typing import Self


class Refusal(StrEnum):
    """The named reason a link was dropped before it was offered; ``words`` say it to people."""

    words: str

    def __new__(cls, name: str, words: str) -> Self:
        """A member that is its name, and knows what that means."""
        member = str.__new__(cls, name)
        member._value_ = name
        member.words = words
        return member

    BAD_URL = "bad_url", "Not a URL to any browser."
    BAD_HOST = "bad_host", "A URL, but its host can't be a name in the DNS: a label empty or too long."
    SCHEME = "scheme", "Neither http nor https."
    TRAP = "trap", "Too long, too deep or repeating itself: the marks of endless made-up URLs."
    OTHER_SHARD = "other_shard", "Another node's domain."
    OUT_OF_SCOPE = "out_of_scope", "A domain this crawl was not asked to visit."
    EXCLUDED = "excluded", "A domain or host this crawl was asked not to visit."
    TOO_DEEP = "too_deep", "More links away from a seed than `max_depth`."
    NOFOLLOW = "nofollow", "The page asks that this link, or any of its links, not be followed."
    LINKS_CAP = "links_cap", "Beyond `max_links_per_page` of its page."
    SITEMAP_CAP = "sitemap_cap", "Beyond what is read of a sitemap, an index or a domain's sitemaps."
