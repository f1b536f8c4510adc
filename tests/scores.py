"""How we do on other people's cases: the scores that the reference page states, and that tests hold.

A test that calls the ``score`` fixture with one of these names fails where it comes to another result, be
it better or worse: then change it here and render the page (``python -m tests.reference``).
"""

from __future__ import annotations

from typing import NamedTuple


class Held(NamedTuple):
    """A score: ``got`` of ``of`` cases. ``whose``: where they come from; ``others``: what others get."""

    got: int
    of: int
    whose: str
    others: str = ""


SCORES: dict[str, Held] = {
    "robots.txt rows (Google)": Held(
        400,
        400,
        "Google's robotstxt-spec-test",
        "robotspy 392, Protego 378, `urllib.robotparser` 293",
    ),
    "URLs, parsed href": Held(
        891, 891, "web-platform-tests, `urltestdata.json`", "`urllib.parse.urljoin` 273"
    ),
    "host names, url_toascii.json": Held(87, 87, "web-platform-tests, `toascii.json`"),
    "host names, url_IdnaTestV2.json": Held(2_670, 2_670, "Unicode, `IdnaTestV2.json`"),
    "public suffix vectors": Held(77, 77, "the public suffix list, `test_psl.txt`"),
    "encoding sniffing (html5lib)": Held(82, 82, "html5lib-tests"),
    "encoding of real texts (chardet's corpus)": Held(422, 425, "the test texts of chardet 5.2.0"),
    "encoding of real texts, by detector alone": Held(423, 425, "the same, their declarations ignored"),
    "explain: robots.txt rows (Google)": Held(400, 400, "the same, through `milliarde explain --stdin`"),
    "explain: URLs, parsed href": Held(891, 891, "the same"),
    "explain: host names": Held(2_757, 2_757, "the same"),
    "links: encoding sniffing (html5lib)": Held(82, 82, "the same, through `milliarde links`"),
}
"""By the names under which they are printed at the end of a test run."""


def missed(name: str, got: int, of: int) -> str | None:
    """What is wrong with a result, in a sentence; None where it is as stated, or not stated at all."""
    held = SCORES.get(name)
    if held is None or (held.got, held.of) == (got, of):
        return None
    stated = f"{held.got:,} of {held.of:,}"
    return f"{name}: {got:,} of {of:,}, while docs/reference.md says {stated} (tests/scores.py)"
