"""A crawl to which everything happens that happens in a week, within minutes, and what must hold after it.

- ``plan``      the faults: a table of kinds, and a schedule drawn from a seed
- ``place``     where it runs: a network, a clock and a small disk of its own, with a web and a name server
- ``wall``      the wall clock of what runs there
- ``names``     that name server, as a process
- ``strikes``   how each kind strikes a crawl, and how it is undone
- ``run``       one run: strike by the schedule, look on, start again what was killed
- ``proof``     what must hold at the end, by the web's log and by what the crawl left
- ``picture``   a run as a picture; ``__main__`` makes one run by hand

``tests/whole/test_chaos.py`` does it in two minutes, ``scripts/soak chaos`` for hours.
"""
