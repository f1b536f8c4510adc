"""What Redis keeps of an IP address that is in use: one packed string, ``ip:{address}``, there for as long
as it means something. ``lua/_address.lua`` packs the same fields in the same order.
"""

from __future__ import annotations

import struct

from node.rules.addresses import Address

_FORMAT = struct.Struct("<ddi")


def unpack(packed: bytes) -> Address:
    """Raises ``struct.error`` where the string is no record."""
    return Address(*_FORMAT.unpack(packed))


def pack(address: Address) -> bytes:
    """The inverse of ``unpack``."""
    return _FORMAT.pack(address.last_turn, address.next_ms, address.out)
