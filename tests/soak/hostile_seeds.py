"""What the soak asks of the misbehaving domains: all they can do wrong, again and again, until it ends."""

from __future__ import annotations

from collections.abc import Iterator

from tests.web.behaviours.gates import GATES
from tests.web.behaviours.table import GROUPS, Behaviour

MISBEHAVING: tuple[Behaviour, ...] = tuple(
    row for group, rows in GROUPS.items() if group != "Healthy" for row in rows
)

_LENGTHS = ("abc", "-1", "12%00", "99999999999999999999")
MORE: dict[str, tuple[str, ...]] = {
    # domain: further paths that misbehave in ways of their own
    "slow.test": ("/wait/0.5", "/wait/3"),
    "endless-audio.test": ("/live.mp3",),
    "ratelimited.test": tuple(f"/retry-after/{text}" for text in ("0", "-5", "1.5", "soon")),
    "unavailable.test": tuple(f"/retry-after/{text}" for text in ("1", "99999999999")),
    "status.test": tuple(f"/{code}" for code in (204, 206, 304, 401, 402, 403, 404, 410, 418, 451, 500, 599)),
    "challenge.test": tuple(f"/{name}" for name in GATES),
    "nochunkend.test": ("/bad-size",),
    "malformed.test": (
        *(f"/content-length/{text}" for text in _LENGTHS),
        *(
            f"/{name}"
            for name in ("garbage", "double-content-length", "length-and-chunked", "control-in-header")
        ),
        *(f"/{name}" for name in ("no-reason", "no-status", "http-2", "folded", "bare-lf", "nothing")),
    ),
    "bigheaders.test": ("/one", "/endless"),
    "notgzip.test": ("/cut",),
    "br.test": ("/zstd",),
    "redirects.test": (
        *("/chain/1", "/chain/5", "/chain/6", "/self", "/loop/a", "/cookiewall", "/newcookie", "/nolocation"),
        *("/emptylocation", "/twolocations", "/relative", "/fragment", "/denied-target", "/unparsable"),
        *("/other-scheme", "/to/other.test"),
    ),
    "lures.test": tuple(f"/to/{number}" for number in range(9)),
}


def seed_lines(each: int) -> Iterator[str]:
    """``each`` URLs of every misbehaving domain: its paths in turn, each time another query."""
    for row in MISBEHAVING:
        paths = (*row.seeds, *MORE.get(row.name, ()))
        for number in range(each):
            yield f"https://{row.name}{paths[number % len(paths)]}?again={number}"
