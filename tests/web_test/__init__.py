"""Tests of the miniature web itself: each domain answers as its row of the table says."""
