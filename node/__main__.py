"""``python -m node`` is ``milliarde``."""

from __future__ import annotations

import sys

from node.cli import main

sys.exit(main())
