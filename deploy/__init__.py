"""What the operator's machine runs."""
