"""The benchmark that the figures come from: ``scripts/bench``, or ``python -m tests.bench``.

Read it in this order:

- ``__main__``    the words of the command line, and the order of the whole
- ``plan``        how large a run is: quick, default, full
- ``served``      the pages: made-up, behind a real nginx with real chains; what the server saw
- ``processes``   one command and all processes it starts: CPU time, peak memory, the machine meanwhile
- ``crawls``      one run of ours, one run of Scrapy (``scrapy_side`` is its program)
- ``frontier``    what URLs weigh in Redis: queues and seen filters filled through the real offer
- ``stages``      the life of a URL one stage at a time, each stage's CPU time noted (``laps``); what a
                  TLS handshake costs (``handshakes``)
- ``machine``     what it ran on, with which versions
- ``per_run``     what one run says, and how runs are held against each other; pure
- ``figures``     raw measurements in, figures with their goals out; pure
- ``report``      figures as bench.json, as tables, and into docs/performance.md

docs/performance.md says what is measured how, and holds the numbers.
"""
