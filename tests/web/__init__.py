"""A made-up web on loopback: many well-behaved domains, and one domain for every way to misbehave.

It is deterministic. What a host answers is a pure function of the web's ``Shape`` (seed and
sizes), the host and the path, worked out when it is asked for, so a hundred thousand domains
cost nothing at the start, and the oracle can say beforehand what a crawl must find.

Read it in this order:

- ``shape``       what a web is made of, and the traits of each of its domains
- ``graph``       which pages there are and which links they carry; ``oracle`` walks it
- ``pages``       HTML of realistic size and texture around those links
- ``behaviours``  the table of misbehaving domains: name, what it does, what a good crawler does
- ``wire``        one request and the ways to answer it, byte by byte if need be
- ``server``      listeners, TLS (``certs``), the access log (``log``)
- ``running``     ``MiniWeb``: the server as a process of its own, for tests
- ``nginx``       the same pages as files (``tree``) behind a real nginx, where speed is measured
- ``document``    renders docs/miniature-web.md from the table

``python -m tests.web --help`` starts one by hand.
"""
