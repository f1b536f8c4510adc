"""Ask the name server at 127.0.0.1 for ``localhost``, which it knows without asking anybody.

Ends with 1 and says why where it does not answer 127.0.0.1.
"""

from __future__ import annotations

import socket
import struct
import sys


def main() -> str:
    """What is wrong; empty where all is well."""
    question = b"\x09localhost\x00" + struct.pack(">HH", 1, 1)
    asked = struct.pack(">6H", 0x4D49, 0x0100, 1, 0, 0, 0) + question
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as out:
        out.settimeout(2)
        out.connect(("127.0.0.1", 53))
        try:
            out.send(asked)
            answer = out.recv(4096)
        except OSError as error:
            return f"the resolver does not answer: {error}"
    number, flags, _, answers, _, _ = struct.unpack(">6H", answer[:12])
    if number != 0x4D49 or flags & 0xF or not answers or not answer.endswith(bytes((127, 0, 0, 1))):
        return f"the resolver does not know localhost: {answer.hex()}"
    return ""


if __name__ == "__main__":
    why = main()
    print(why)
    sys.exit(1 if why else 0)
