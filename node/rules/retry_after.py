"""Retry-After: how long a site asks us to wait (RFC 9110 section 10.2.3)."""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import UTC, datetime

_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_MONTH = f"(?P<month>{'|'.join(_MONTHS)})"
_TIME = r"(?P<hour>\d\d):(?P<minute>\d\d):(?P<second>\d\d)"
_DATES = tuple(
    re.compile(pattern, re.ASCII | re.IGNORECASE)
    for pattern in (
        rf"[a-z]{{3}}, (?P<day>\d\d) {_MONTH} (?P<year>\d{{4}}) {_TIME} GMT",  # RFC 9110
        rf"[a-z]{{6,9}}, (?P<day>\d\d)-{_MONTH}-(?P<year>\d\d) {_TIME} GMT",  # RFC 850
        rf"[a-z]{{3}} {_MONTH} (?P<day>[ \d]\d) {_TIME} (?P<year>\d{{4}})",  # asctime
    )
)
_SECONDS = re.compile(r"\d+", re.ASCII)
_DIGITS_ENOUGH = 15
"""A number this long is beyond any cap; Python refuses to read one of thousands of digits."""


def retry_after_s(values: Iterable[str], now_unix_s: float, cap_s: float) -> float | None:
    """Seconds to wait from now, between 0 and ``cap_s``; None where nothing valid was said.

    ``values`` are the header's values, in order; the first valid one counts. Whole seconds and the
    three forms of HTTP dates are valid; signs, fractions and dates that don't exist are not.
    """
    for value in values:
        text = value.strip(" \t")
        if _SECONDS.fullmatch(text):
            return min(float(text.lstrip("0")[:_DIGITS_ENOUGH] or "0"), cap_s)
        moment = http_date(text, now_unix_s)
        if moment is not None:
            return min(max(moment - now_unix_s, 0.0), cap_s)
    return None


def http_date(text: str, now_unix_s: float) -> float | None:
    """Unix time of an HTTP date (RFC 9110 section 5.6.7), or None."""
    for pattern in _DATES:
        match = pattern.fullmatch(text)
        if match is not None:
            break
    else:
        return None
    year = int(match["year"])
    if len(match["year"]) == 2:
        this_year = datetime.fromtimestamp(now_unix_s, UTC).year
        year = this_year + (year - this_year) % 100
        if year > this_year + 50:  # "more than 50 years in the future" means the century before
            year -= 100
    try:
        moment = datetime(
            year,
            _MONTHS.index(match["month"].lower()) + 1,
            int(match["day"]),
            int(match["hour"]),
            int(match["minute"]),
            59 if match["second"] == "60" else int(match["second"]),  # a leap second
            tzinfo=UTC,
        )
    except ValueError:
        return None
    return moment.timestamp()
