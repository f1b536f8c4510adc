"""The misbehaving domains: ``table`` names them all, the other modules do what it says."""
