"""Store: Redis and the disk. It applies what rules decided."""
