"""Long runs that CI has no time for: ``scripts/soak NAME``. One module per soak, listed in ``__main__``.

A soak is a module with

- ``HELP``: one line for the command line;
- ``options(parser)``: its own arguments, added to an ``argparse`` parser;
- ``run(args, work, say)``: does it in the folder ``work``, tells ``say`` how far it is, answers a
  ``verdict.Verdict``: what it claims, and what was measured.

- ``verdict``   claims with what was measured, as a table
- ``memory``    the memory of a crawl's processes over time, and whether it grows
- ``hostile``   a web of which half misbehaves, for 20,000 requests (``hostile_seeds``: what is
  asked of it; ``hostile_claims``: what must come of it)
- ``chaos``     all faults at random, crawl after crawl (the engine is ``tests/chaos``)
"""
