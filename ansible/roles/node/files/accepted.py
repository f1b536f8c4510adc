"""Would a node take these settings? They come on stdin, as TOML; says why not, and ends with 1.

Runs on the operator's machine, with the node's own code of this checkout.
"""

from __future__ import annotations

import sys
import tomllib

from node.errors import SettingsError
from node.settings import build
from node.work.identity import user_agent


def main() -> str:
    """Why not; empty where all is well."""
    try:
        user_agent(build(tomllib.loads(sys.stdin.read()), "node.toml"))
    except tomllib.TOMLDecodeError as error:
        return f"node.toml would be no TOML: {error}"
    except SettingsError as error:
        return str(error)
    return ""


if __name__ == "__main__":
    why = main()
    print(why)
    sys.exit(1 if why else 0)
