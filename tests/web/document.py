"""Renders docs/miniature-web.md: ``python -m tests.web.document > docs/miniature-web.md``."""

from __future__ import annotations

from dataclasses import fields

from tests.web.behaviours.table import GROUPS, Behaviour
from tests.web.log import Entry

_TOP = """\
# The miniature web

A made-up web on loopback, for the demo, the tests and the benchmark: many ordinary domains, and one domain
for each way to misbehave. All names end in `.test`, all TLS is signed by an authority of its own, nothing
leaves the machine.

<!-- Rendered by `python -m tests.web.document` from tests/web/behaviours/table.py; a test compares. -->

## Start one

    python -m tests.web --dir /tmp/web --domains 100

prints one JSON line when it listens, and runs until SIGTERM or until its stdin (a pipe or a terminal) is
closed:

| key | what |
|---|---|
| `https_port`, `http_port` | where it listens (on 127.0.0.1, unless `--address` names another) |
| `connect_to` | how to get there, as for curl's `--connect-to`; the first entry that matches counts |
| `ca` | PEM file with the root certificates to trust |
| `seeds` | seed file: the misbehaving domains, then all ordinary ones |
| `ordinary_seeds` | seed file with the ordinary domains alone |
| `log` | the access log |

`--seed` makes another web of the same kind, `--mean-bytes` smaller pages, `--pages-per-domain` more of them,
`--ca` picks the kind of certificate chains: `rsa` (RSA-2048 throughout), `ec` (P-256 under P-384), `mixed`
(half and half). A hundred thousand domains start as quickly as ten: what a host answers is worked out when
it is asked for.

In tests:

    from tests.web.running import MiniWeb

    with MiniWeb(tmp_path, domains=20, mean_bytes=5_000) as web:
        crawl(web.ordinary_seeds, connect_to=web.connect_to, ca=web.ca)
        assert {entry.url for entry in web.requests()} >= web.expected().requested

`web.expected()` is the oracle: the pages to store, the 404s, files and redirects to meet, and the URLs that
are linked but denied by robots.txt, worked out from the same rules without any HTTP.

Where speed is measured, the pages come from a real nginx: `tests.web.tree.generate_tree` writes them as
files, `tests.web.nginx.Nginx` serves them (or any other folders) over TLS.

## The ordinary domains

`site-00000.test`, `site-00001.test`, … Sizes are log-normal as on the web (median 138 KB, mean 242 KB; gzip
makes a fifth of it), about 150 links a page. Two links in three stay within the domain; the others prefer low
numbers: half of them lead to an eighth of the domains. All links stand in a page's first 200 KB. Drawn for
each domain:

- its number of pages, from half to one and a half times the mean; all can be reached from the home page;
- the look of its addresses: flat, dated folders, numbered, or with a query;
- 1 in 8 lives at `www.` and redirects the bare name there; 1 in 16 has a quarter of its pages at `blog.`;
- robots.txt: 70 % deny `/private/` (except `/private/open-…`) and `/*?sort=`, both of which are linked; 15 %
  allow everything; 15 % have none;
- 9 in 10 compress, 1 in 4 sends chunks; plain HTTP redirects to https;
- a few links lead to missing pages (404) and to PDFs.

"""

_LOG = """\

## The access log

One JSON line per request, written when its answer has ended (however it ended). A connection that never sent
a request has a line too, with `method` null: refused certificates and silent ports are seen there. The keys:
"""

_FIELD_NOTES = {
    "t_ms": "CLOCK_BOOTTIME in ms: the request had arrived (without one: the connection was accepted)",
    "conn": "number of the connection",
    "peer": "the address that it came from",
    "host": "from the Host header; without request the SNI name, or the domain whose own port it is",
    "sni": "the name asked for in TLS",
    "path": "the request target, query included",
    "status": "as sent; null where none was",
    "bytes": "all that was sent: head, framing, body",
    "ms": "from `t_ms` to the end of the answer",
    "resumed": "whether the TLS session was a resumed one; null without TLS",
}


def _row(row: Behaviour) -> str:
    return f"| `{row.name}` | {row.does} | {row.expect} |\n"


def render() -> str:
    """The page, from the table of behaviours and the fields of the log."""
    parts = [_TOP, "## The misbehaving domains\n\n"]
    parts.append(
        "Unless its row says otherwise, a domain allows everything in robots.txt and serves https only.\n"
    )
    for topic, rows in GROUPS.items():
        parts.append(
            f"\n### {topic}\n\n| domain | what it does | what a good crawler does |\n|---|---|---|\n"
        )
        parts += map(_row, rows)
    parts.append(_LOG)
    for field in fields(Entry):
        note = _FIELD_NOTES.get(field.name)
        parts.append(f"\n- `{field.name}`" + (f": {note}" if note else ""))
    return "".join(parts) + "\n"


if __name__ == "__main__":
    print(render(), end="")
