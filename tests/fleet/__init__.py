"""A fleet in a box: machines with real systemd and real sshd on this one, and what is proved of them.

``boxes.py`` makes them (``Fleet``), ``box.py`` is one of them, ``base.py`` what they are made from,
``network.py`` the wires between them, ``cgroups.py`` where their processes live.
"""
