"""A large frontier, fast."""

from __future__ import annotations

from node.rules.entry import Entry
from node.rules.shard import lane_of
from node.store import domain_record, keys
from node.store.domain_record import DomainRecord
from tests.store.frontier_world import START_MS, World


def fill(world: World, domains: int, per_domain: int) -> None:
    """A frontier as ``offer`` leaves it, written past it: what matters here is how much there is."""
    world.offer("model.test", "https://model.test/")
    model = world.record("model.test")
    fields = {name: getattr(model, name) for name in model.__slots__}
    packed = domain_record.pack(DomainRecord(**(fields | {"queued": per_domain, "admitted": per_domain})))
    redis = world.store.redis
    for start in range(0, domains, 2_000):
        pipe = redis.pipeline(transaction=False)
        for number in range(start, min(start + 2_000, domains)):
            name = f"site-{number:06d}.test"
            entries = [Entry(f"https://{name}/article-{k}", 1, 1).pack() for k in range(per_domain)]
            pipe.execute_command("RPUSH", keys.queue(1, name), *entries)
            pipe.execute_command("SET", keys.domain(name), packed)
            pipe.execute_command("ZADD", keys.ready(lane_of(name)), START_MS + number, name)
        pipe.execute()
    pipe = redis.pipeline(transaction=False)
    for counter, by in (
        ("queued", domains * per_domain),
        ("admitted", domains * per_domain),
        ("domains", domains),
    ):
        pipe.execute_command("HINCRBY", keys.LEDGER, counter, by)
    pipe.execute()
