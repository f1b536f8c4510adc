"""What a queue holds of a URL."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from node.rules.entry import MAX_DEPTH, NESTED, SITEMAP, Entry, parse_lease, unpack

kinds = [{"bare": False}, {"bare": True}, {"sitemap": SITEMAP}, {"sitemap": NESTED}]
entries = st.builds(
    lambda kind, **rest: Entry(**kind, **rest),
    st.sampled_from(kinds),
    url=st.text(alphabet=st.characters(min_codepoint=0x21, max_codepoint=0x7E), min_size=1).map(
        lambda rest: "https://h.test/" + rest
    ),
    level=st.integers(0, 7),
    depth=st.integers(0, MAX_DEPTH),
    tries=st.integers(0, 3),
    reaped=st.integers(0, 3),
)


@given(entries)
def test_an_entry_survives_its_packing(entry: Entry) -> None:
    """What is queued is what was offered."""
    packed = entry.pack()
    assert unpack(packed) == entry
    assert packed.isascii()
    assert packed.isprintable()
    assert len(packed) == 3 + len(entry.url)


def test_depth_saturates() -> None:
    """A depth beyond the last printable character stays the greatest, and does not wrap."""
    assert unpack(Entry("https://h.test/", 7, 10_000).pack()).depth == MAX_DEPTH


@given(entries, st.integers(0, 9))
def test_a_lease_is_taken_apart(entry: Entry, hops: int) -> None:
    """A lease's text gives back its URL, its domain and the hops it owes."""
    lease = parse_lease(f"3.ab-1.7 {hops} h.test {entry.pack()}", 5, 10, 20)
    assert (lease.entry, lease.domain, lease.hops) == (entry, "h.test", hops)
