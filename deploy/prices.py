"""What machines are there for rent, and at what price: a list that comes with us, or the operator's own."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Annotated

import msgspec

from deploy.errors import InputError

SHIPPED = Path(__file__).with_name("prices.toml")

Positive = Annotated[float, msgspec.Meta(gt=0)]
GIB, GB, TB = 2**30, 10**9, 10**12


class PriceError(InputError):
    """The price list can't be used; says why in one sentence."""


class Instance(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One kind of machine. Prices are for an hour; ``spot`` none where the list has none."""

    vcpus: Annotated[int, msgspec.Meta(ge=2, le=1024)]
    threads_per_core: Annotated[int, msgspec.Meta(ge=1, le=2)] = 1
    memory_gib: Positive
    disk_gb: Positive
    internet_gbps: Positive
    on_demand: Positive
    spot: Positive | None = None

    @property
    def memory_bytes(self) -> float:
        return self.memory_gib * GIB

    @property
    def disk_bytes(self) -> float:
        return self.disk_gb * GB


class Tier(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What a gigabyte out of the region costs, up to so much in a month; the last tier has no end."""

    per_gb: Annotated[float, msgspec.Meta(ge=0)]
    up_to_tb: Positive | None = None


class PriceList(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A price list: where and when it held, who says so."""

    region: str
    date: str
    sources: list[str] = []
    public_ipv4_per_hour: Annotated[float, msgspec.Meta(ge=0)] = 0.0
    egress: list[Tier] = []
    instances: dict[str, Instance]

    def instance(self, name: str) -> Instance:
        """Raises ``PriceError`` where the list does not have it."""
        try:
            return self.instances[name]
        except KeyError:
            raise PriceError(
                f"the price list has no {name}; it has {', '.join(self.instances) or 'no instances at all'}"
            ) from None

    def hourly(self, name: str, *, spot: bool) -> float:
        """US dollars for an hour of a node, its public address included."""
        instance = self.instance(name)
        price = instance.spot if spot else instance.on_demand
        if price is None:
            raise PriceError(
                f"the price list has no spot price of {name}: ask EC2 for it (aws ec2 "
                "describe-spot-price-history), and add it to a list for --prices, or give it with --price"
            )
        return price + self.public_ipv4_per_hour

    def egress_usd(self, count: float) -> float:
        """For so many bytes out of the region in a month."""
        usd = begin = 0.0
        for tier in self.egress:
            end = count if tier.up_to_tb is None else min(count, tier.up_to_tb * TB)
            usd += max(0.0, end - begin) / GB * tier.per_gb
            begin = max(begin, end)
        return usd


def read(path: Path = SHIPPED) -> PriceList:
    """A price list from TOML. Raises ``PriceError``."""
    try:
        return msgspec.convert(tomllib.loads(path.read_text(encoding="utf-8")), PriceList)
    except OSError as error:
        raise PriceError(f"the price list {path} can't be read: {error.strerror}") from None
    except (ValueError, msgspec.ValidationError) as error:
        raise PriceError(f"{path} is no price list: {error}") from None
