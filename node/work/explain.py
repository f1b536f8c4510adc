"""Why a URL is or isn't crawled: what the rules say of one address, with no node running.

Rules decide, here as in a crawl; this asks them and gathers what they answer. What only a node's store
can know (seeds, exclusions, queues) is for ``milliarde inspect``.
"""

from __future__ import annotations

import re
from functools import lru_cache
from pathlib import Path
from typing import Annotated, NamedTuple
from urllib.parse import quote

import msgspec
from msgspec import UNSET, UnsetType

from node.rules import budget
from node.rules import url as urls
from node.rules.address import names_inside
from node.rules.admit import Admission, DomainSet, Scope, ScopeKind
from node.rules.connect_to import ConnectTo
from node.rules.domain import registrable
from node.rules.outcome import Outcome
from node.rules.priority import LEVELS, Rule
from node.rules.refusal import Refusal
from node.rules.robots import Rules, parse
from node.rules.shard import lane_of, node_of
from node.rules.usage import Said, denial
from node.settings import Settings
from node.work import seed

ROBOTS_DENIED = "robots.txt denies it."
ROBOTS_OPTED_OUT = "robots.txt denies what identity.purpose says the pages are for, by"
PRIVATE_ADDRESS = "Its host is not on the public internet."
TRAP_LIMITS = (
    f" At most {urls.MAX_URL_BYTES:,} bytes are fetched, {urls.MAX_SEGMENTS} path segments, and no segment "
    f"more than {urls.MAX_SEGMENT_REPEATS} times."
)

_ASCII = "".join(map(chr, range(0x80)))
_STRIPPED = "".join(map(chr, range(0x21)))
_PATH = re.compile(r"[/?].*", re.DOTALL)


class Question(msgspec.Struct, frozen=True, kw_only=True):
    """What is asked about one URL. Only ``url`` must be there."""

    url: str
    base: str | None = None
    """What ``url`` is relative to."""
    robots: str | None = None
    """The text of its origin's robots.txt."""
    agent: str | None = None
    """The product token to read it for (a whole User-Agent will do); none = that of the settings."""
    depth: Annotated[int, msgspec.Meta(ge=0)] | None = None
    """Links from a seed; none = 0, and 1 where there is a base."""


class Budget(msgspec.Struct, frozen=True):
    """How many URLs of a domain may wait at once, and be admitted in the whole crawl."""

    queue_cap: int
    life_cap: int


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """What the rules say. Exactly one of ``canonical`` and ``refused`` is there; None = can't be known."""

    url: str
    """As asked."""
    canonical: str | UnsetType = UNSET
    """The address to fetch: without fragment and userinfo."""
    refused: Refusal | UnsetType = UNSET
    why_not: str | None
    """The first reason for which it is not fetched; ``why`` has it in words."""
    why: str | None
    href: str | None
    """The parsed URL, as a browser has it (WHATWG), of any scheme."""
    dedup_key: str | None = None
    origin: str | None = None
    domain: str | None = None
    shard: int | None = None
    """The node that owns the domain, of ``nodes``."""
    nodes: int
    lane: int | None = None
    depth: int
    priority: int | None = None
    """0 (best) to 7."""
    priority_rule: str | None = None
    """The rule of ``priority.rules`` that decides it; None where it is by depth."""
    scope: str
    budget: Budget | None = None
    agent: str
    """The product token that robots.txt was read for."""
    allowed: bool | None = None
    """None where no robots.txt was given."""
    rule: str | None = None
    """The line of it that decides."""
    checked: dict[str, bool] | None = None
    """Path asked for -> verdict. The first is what would be sent. Letters beyond ASCII that an absolute
    address holds raw are sent encoded; as written they are asked for, too, and the stricter counts."""
    signals: list[str] | None = None
    """What robots.txt says about the use of the page, line by line; what the page itself says isn't known."""
    crawl_delay: float | None = None
    """Seconds, as robots.txt asks and the settings allow."""
    delay: float | None = None
    """Seconds between two visits, before the site gives cause to slow down."""


def gates(settings: Settings) -> Admission:
    """Shard, scope and depth as the settings have them.

    With scope ``seeds`` every domain passes, since which they are is in the store. Raises ``InputError``
    where the list of scope ``list`` can't be read.
    """
    crawl = settings.crawl
    scope = Scope(ScopeKind.OPEN)
    if crawl.scope == "list":
        scope = Scope(ScopeKind.LIST, DomainSet(seed.domains_of(Path(crawl.domain_list or ""))))
    return Admission(scope, crawl.nodes, crawl.me, _never, crawl.max_depth, settings.priorities)


def _never(_host: str) -> bool:
    return False


class _Said(NamedTuple):
    """What a robots.txt says, as far as there is one."""

    agent: str
    checked: dict[str, bool] | None = None
    rule: str | None = None
    crawl_delay_s: float | None = None
    usage: Said = ()


class Explainer:
    """Answers questions by one node's settings. The other arguments are for questions that don't say."""

    def __init__(
        self,
        settings: Settings,
        *,
        base: str | None = None,
        robots: bytes | None = None,
        agent: str | None = None,
        depth: int | None = None,
    ) -> None:
        self._crawl = settings.crawl
        self._purposes = settings.identity.purposes
        self._base = base
        self._robots = robots
        self._agent = agent if agent is not None else settings.identity.token
        self._depth = depth
        self._gates = gates(settings)
        self._priorities = settings.priorities
        self._connect_to = ConnectTo(settings.dns.connect_to)
        cap = budget.queue_cap(self._crawl.max_urls_per_domain, self._crawl.delay_s, self._crawl.horizon_s)
        self._budget = Budget(cap, budget.life_cap(cap))

    def answer(self, asked: Question) -> Answer:
        """All that the rules say about one URL. Never raises."""
        base = self._base if asked.base is None else asked.base
        depth = self._depth if asked.depth is None else asked.depth
        if depth is None:
            depth = 0 if base is None else 1
        url = urls.canonical(asked.url, base)
        said = self._ask_robots(asked, url)
        why_not, why = self._why_not(url, depth, said)
        answer = Answer(
            url=asked.url,
            why_not=why_not,
            why=why,
            href=urls.parse(asked.url, base),
            nodes=self._crawl.nodes,
            depth=depth,
            scope=self._crawl.scope,
            agent=said.agent,
            allowed=all(said.checked.values()) if said.checked else None,
            rule=said.rule,
            checked=said.checked,
            signals=None if said.checked is None else [each.text for each in said.usage],
        )
        if isinstance(url, Refusal):
            return msgspec.structs.replace(answer, refused=url)
        domain = registrable(urls.host(url))
        rule = self._priority_rule(url)
        level = min(depth, LEVELS - 1)
        return msgspec.structs.replace(
            answer,
            canonical=url,
            dedup_key=urls.dedup_key(url),
            origin=urls.origin(url),
            domain=domain,
            shard=node_of(domain, self._crawl.nodes),
            lane=lane_of(domain),
            priority=level if rule is None else rule.applied(level),
            priority_rule=None if rule is None else rule.words,
            budget=self._budget,
            crawl_delay=said.crawl_delay_s,
            delay=max(self._crawl.delay_s, said.crawl_delay_s or 0.0),
        )

    def _priority_rule(self, url: str) -> Rule | None:
        rules = self._priorities.of(urls.host(url))
        return None if rules is None else rules.deciding(urls.path_and_query(url))

    def _ask_robots(self, asked: Question, url: str | Refusal) -> _Said:
        agent = _token(self._agent if asked.agent is None else asked.agent)
        body = self._robots if asked.robots is None else _bytes(asked.robots)
        if body is None:
            return _Said(agent)
        rules = _parsed(body, agent)
        if isinstance(url, Refusal):
            paths = [] if url is Refusal.SCHEME else [_path_as_written(asked.url)]
        else:
            raw = _raw_path(asked.url, url)
            paths = [urls.path_and_query(url), *([] if raw is None else [raw])]
        checked = {path: rules.allows(path) for path in paths}
        strictest = min(paths, key=lambda path: checked[path], default=None)
        delay_s = rules.crawl_delay_s
        return _Said(
            agent,
            checked,
            None if strictest is None else rules.deciding(strictest),
            None if delay_s is None else min(delay_s, self._crawl.max_crawl_delay_s),
            rules.said(paths[0]) if paths else (),
        )

    def _why_not(self, url: str | Refusal, depth: int, said: _Said) -> tuple[str | None, str | None]:
        """The first reason not to fetch it, in the order in which a crawl comes upon them."""
        verdict: object = url
        if not isinstance(url, Refusal):
            verdict = self._gates.admit(url, depth - 1)
        if isinstance(verdict, Refusal):
            return verdict.value, verdict.words + (TRAP_LIMITS if verdict is Refusal.TRAP else "")
        if self._is_inside(str(url)):
            return Outcome.PRIVATE_ADDRESS.value, PRIVATE_ADDRESS
        if said.checked and not next(iter(said.checked.values())):
            return Outcome.ROBOTS_DENIED.value, ROBOTS_DENIED
        against = denial(said.usage, self._purposes)
        if against is not None:
            return Outcome.ROBOTS_OPTED_OUT.value, f"{ROBOTS_OPTED_OUT} {against.text!r}."
        return None, None

    def _is_inside(self, url: str) -> bool:
        host = urls.host(url)
        if not names_inside(host):
            return False
        port = urls.origin(url).partition("://")[2].removeprefix(host)[1:]
        return self._connect_to.target(host, int(port or (443 if url[4] == "s" else 80))) is None


def _bytes(robots: str) -> bytes:
    """A robots.txt given as text. Halves of surrogate pairs may stand for its bytes that are not UTF-8."""
    try:
        return robots.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return robots.encode("utf-8", "surrogatepass")


def _token(agent: str) -> str:
    """The product token of a User-Agent: ``Name`` of ``Name/1.0 (+https://…)``."""
    return agent.partition("/")[0].strip()


@lru_cache(maxsize=4)
def _parsed(robots: bytes, agent: str) -> Rules:
    return parse(robots, agent)


def _raw_path(written: str, url: str) -> str | None:
    """The path of an address as written, where that differs from what is sent in raw letters only."""
    if written.isascii():
        return None
    rest = written.strip(_STRIPPED).partition("#")[0]
    found = _PATH.search(rest.partition("://")[2] or (rest if rest[:1] == "/" else ""))
    if found is None or quote(found[0], safe=_ASCII, errors="replace") != urls.path_and_query(url):
        return None
    return found[0]


def _path_as_written(text: str) -> str:
    """What stands where the path should, in text that is no URL."""
    text = text.partition("#")[0]
    found = _PATH.search(text.partition("://")[2] or text)
    return "/" if found is None else "/" + found[0].removeprefix("/")
