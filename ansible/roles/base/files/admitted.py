"""Would a firewall that admits these addresses and networks let in the ssh that this comes through?

Says why not, and ends with 1.
"""

from __future__ import annotations

import ipaddress
import os
import sys


def main() -> str:
    """Why not; empty where all is well."""
    if not sys.argv[1:]:
        return (
            "milliarde_operator_addresses is empty: name the addresses that you connect from; "
            "nobody else will get in"
        )
    networks = []
    for word in sys.argv[1:]:
        try:
            networks.append(ipaddress.ip_network(word, strict=False))
        except ValueError as error:
            return f"milliarde_operator_addresses: {error}"
    connection = os.environ.get("SSH_CONNECTION", "")
    if not connection:  # from the machine itself
        return ""
    here = ipaddress.ip_address(connection.split()[0].partition("%")[0])
    here = getattr(here, "ipv4_mapped", None) or here
    if not any(here in network for network in networks):
        return (
            f"you connect from {here}, which is not among milliarde_operator_addresses "
            f"({', '.join(sys.argv[1:])}): you would be locked out"
        )
    return ""


if __name__ == "__main__":
    why = main()
    print(why)
    sys.exit(1 if why else 0)
