"""Work: the processes of a node."""
