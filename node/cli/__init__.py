"""The command line: arguments in, exit codes out. Data goes to stdout, talk to stderr."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from node.cli import arguments, commands
from node.errors import ExitCode, MilliardeError


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; answers its exit code. Expected errors are one sentence on stderr."""
    args = arguments.parser().parse_args(argv)
    try:
        return int(args.run(args))
    except MilliardeError as error:
        commands.say(f"milliarde {args.command}: {error}")
        return int(error.exit_code)
    except ImportError as error:
        library = (error.name or "").partition(".")[0]
        if library in ("", "node"):
            raise
        commands.say(
            f"milliarde {args.command}: the library {library} is missing or broken ({error}): "
            "install Milliarde and what it needs anew"
        )
        return int(ExitCode.NOT_INSTALLED)
    except KeyboardInterrupt:
        return int(ExitCode.INTERRUPTED)
    except BrokenPipeError:
        sys.stderr.close()
        return int(ExitCode.OK)
