"""Questions to ``milliarde explain`` and ``milliarde links``, asked as the commands ask them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from io import BytesIO
from typing import Any

from node.settings import Settings, build
from node.work.explain import Explainer
from node.work.listing import list_links
from node.work.questions import answers, to_json

PAGE = "http://h.test/dir/page.html"


def settings(**sections: Mapping[str, object]) -> Settings:
    """The defaults, with some of some sections changed."""
    return build({"paths": {"data": "."}, **sections})


def ask(*questions: object, explainer: Explainer | None = None) -> list[dict[str, Any]]:
    """The answers to questions, through their lines of JSON."""
    lines = b"".join(json.dumps(each).encode() + b"\n" for each in questions)
    return [json.loads(each) for each in answers(explainer or Explainer(settings()), BytesIO(lines))]


def explain(url: str, **more: object) -> dict[str, Any]:
    """The answer to one question."""
    (answer,) = ask({"url": url, **more})
    return answer


def allowed(robots: str, *urls: str, agent: str = "us") -> list[bool]:
    """What a robots.txt says about URLs (paths of h.test)."""
    found = ask(*({"url": f"http://h.test{url}", "robots": robots, "agent": agent} for url in urls))
    return [each["allowed"] for each in found]


def listing(body: bytes | str, content_type: str | None = None, base: str = PAGE) -> dict[str, Any]:
    """What ``links --json`` says of a page."""
    raw = body if isinstance(body, bytes) else body.encode()
    found: dict[str, Any] = json.loads(to_json(list_links(settings(), raw, base, content_type)))
    return found


def urls(body: bytes | str, content_type: str | None = None, base: str = PAGE) -> list[str]:
    """The URLs that a page leads to."""
    return [each["url"] for each in listing(body, content_type, base)["links"]]


def left_out(body: bytes | str) -> list[tuple[str, str]]:
    """The links of a page that are not followed, and why."""
    return [(each["href"], each["refused"]) for each in listing(body)["left_out"]]
