"""A fleet in a box: machines with real systemd and real sshd on this one, and what is proved of them.

``boxes.py`` makes them (``Fleet``), ``box.py`` is one of them, ``base.py`` what they are made from,
``network.py`` the wires between them, ``cgroups.py`` where their processes live, ``slots.py`` how several
fleets get along. All is removed at the end or, where its owner was killed, when the next one starts.

What holds in a box as on a machine: systemd with its watchdogs, limits (memory, tasks, processor), sandboxes
and timers, journald, sshd, the settings of its own network, nftables, a disk of its own (``/dev/nvme1n1``,
empty, without a model). It has no way out: packages come from a folder. What does not hold: the clock,
settings of the one kernel (``vm.*``), device units (so a disk wants a mount unit: systemd leaves out what
/etc/fstab says of devices), IPAddressDeny, more than 20,000 open files, negative OOMScoreAdjust. ``lsblk``,
``free`` and ``nproc`` show the whole machine.
"""
