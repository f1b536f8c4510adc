"""Requests signed by us are good to somebody else's verifier, and nothing else is."""

from __future__ import annotations

import stat
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from http_message_signatures import InvalidSignature

from node import __version__
from node import settings as settings_of
from node.errors import DiskError, ExitCode, InputError, SettingsError
from node.rules.request import head, target_of
from node.rules.signature import DIRECTORY_TAG, DIRECTORY_TYPE, TAG
from node.settings import Settings, WebBotAuth
from node.work import key as keys_of
from node.work.identity import user_agent
from node.work.signing import Key, Signer, directory, make_key, read_key
from tests.redis_server import RedisServer
from tests.web.running import MiniWeb
from tests.work.net import Server, plays
from tests.work.verifier import Response, parsed, verified
from tests.work.visiting import visits

AGENT = "https://bot.test"


@pytest.fixture(scope="module")
def web(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MiniWeb]:
    with MiniWeb(tmp_path_factory.mktemp("web"), domains=1, mean_bytes=2_000) as running:
        yield running


@pytest.fixture
def key(tmp_path: Path) -> Key:
    return make_key(tmp_path / "key.pem")


def _settings(folder: Path, **changes: dict[str, object]) -> Settings:
    return settings_of.build({"paths": {"data": str(folder)}} | changes)


def _request(signer: Signer, url: str, unix_s: float) -> bytes:
    target = target_of(url)
    return head(target, signer.lines(target, unix_s), None)


# -- requests


@pytest.mark.parametrize(
    "url", ["https://h.test/a?b=c", "https://h.test:8443/", "http://h.test/", "http://[2001:db8::1]:81/"]
)
def test_somebody_else_verifies_it(key: Key, url: str) -> None:
    """A signed request, parsed and checked by an independent library with our published directory."""
    request = parsed(_request(Signer(key, AGENT, 300), url, time.time()), url.partition(":")[0])
    (found,) = verified(request, directory([key]), TAG)
    assert {'"@authority"', '"signature-agent";key="sig1"'} <= set(found.covered_components)
    assert found.parameters["keyid"] == key.id
    lives_s = int(str(found.parameters["expires"])) - int(str(found.parameters["created"]))
    assert 0 < lives_s <= 300
    assert request.headers["Signature-Agent"] == f'sig1="{AGENT}"'


def test_it_is_about_one_host_and_one_agent(key: Key) -> None:
    """What is sent to one site is no signature for another, nor for another agent, nor after its time."""
    now = time.time()
    signer = Signer(key, AGENT, 300)
    for name, value in (("Host", "other.test"), ("Signature-Agent", 'sig1="https://evil.test"')):
        request = parsed(_request(signer, "https://h.test/", now), "https")
        request.headers[name] = value
        request.url = f"https://{request.headers['Host']}/"
        with pytest.raises(InvalidSignature):
            verified(request, directory([key]), TAG)
    with pytest.raises(InvalidSignature):
        verified(parsed(_request(signer, "http://h.test/", now), "https"), directory([key]), TAG)
    with pytest.raises(InvalidSignature):
        verified(parsed(_request(signer, "https://old.test/", now - 400), "https"), directory([key]), TAG)


def test_a_signature_is_used_again_while_it_is_young(key: Key) -> None:
    """One signature an authority serves until three quarters of its life are over, never longer."""
    signer = Signer(key, AGENT, 100)
    target = target_of("https://h.test/a")
    first = signer.lines(target, 1_000.0)
    assert signer.lines(target_of("https://h.test/b"), 1_074.9) == first
    assert signer.lines(target, 1_075.0) != first
    assert signer.lines(target, 900.0) != first, "after a jump of the clock it would not be valid yet"
    assert signer.lines(target_of("http://h.test/a"), 900.0) != signer.lines(target, 900.0)


def test_what_is_kept_is_bounded(key: Key) -> None:
    """The signer remembers the authorities that it met last, and no more of them than its bound."""
    signer = Signer(key, AGENT, 300, max_kept=2)
    hosts = [target_of(f"https://h{number}.test/") for number in range(3)]
    for host in (hosts[0], hosts[1], hosts[0], hosts[2]):
        signer.lines(host, 1_000.0)
    assert [authority for _, authority in signer._kept] == ["h0.test", "h2.test"]


async def test_every_request_of_a_visit_is_signed(
    tmp_path: Path, web: MiniWeb, redis_server: RedisServer, key: Key
) -> None:
    """robots.txt, the page and its hop carry signatures that verify; without a key nothing is added."""
    answers = {
        "/robots.txt": b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n",
        "/a": b"HTTP/1.1 302 Found\r\nLocation: /b\r\nContent-Length: 0\r\n\r\n",
        "/b": b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 2\r\n\r\nhi",
    }
    signing = {"key_file": str(tmp_path / "key.pem"), "agent": AGENT}
    for extra in ({"web_bot_auth": signing}, {}):
        with Server(lambda exchange: exchange.send(answers[exchange.request.split()[1].decode()])) as server:
            dns = {"connect_to": [f"h.test:80:127.0.0.1:{server.port}"]}
            crawl = {"delay_s": 0.01, "hop_gap_s": 0.0}
            folder = tmp_path / f"crawl{len(extra)}"
            async with visits(folder, web, redis_server, dns=dns, crawl=crawl, **extra) as made:
                await made.visit("http://h.test/a")
            requests = [parsed(each, "http") for each in server.requests]
        assert [each.url for each in requests] == [f"http://h.test{path}" for path in answers]
        for request in requests:
            if extra:
                assert len(verified(request, directory([key]), TAG)) == 1
            else:
                assert not any(name.lower().startswith("signature") for name in request.headers)


async def test_through_a_proxy_requests_stay_ours(
    tmp_path: Path, web: MiniWeb, redis_server: RedisServer, key: Key
) -> None:
    """A forward proxy passes our requests on, so the sites behind it see our signature."""
    with Server(plays(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n")) as proxy:
        gateway = {"mode": "proxy", "proxy": f"http://127.0.0.1:{proxy.port}", "ceiling_per_s": 100.0}
        signing = {"key_file": str(tmp_path / "key.pem"), "agent": AGENT}
        async with visits(tmp_path, web, redis_server, gateway=gateway, web_bot_auth=signing) as made:
            await made.visit("http://h.test/x")
        heads = [request.split(b"\r\n", 1) for request in proxy.requests]
    assert [line for line, _ in heads] == [
        b"GET http://h.test/robots.txt HTTP/1.1",
        b"GET http://h.test/x HTTP/1.1",
    ]
    for _, rest in heads:
        assert len(verified(parsed(b"GET /x HTTP/1.1\r\n" + rest, "http"), directory([key]), TAG)) == 1


# -- the key


def test_a_key_is_for_its_owner_alone(tmp_path: Path) -> None:
    """The file is made with mode 0600, never over another, and refused where others can read it."""
    path = tmp_path / "deep" / "key.pem"
    made = make_key(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert read_key(path).public == made.public
    with pytest.raises(DiskError):
        make_key(path)
    path.chmod(0o640)
    with pytest.raises(SettingsError, match="others can read"):
        read_key(path)


@pytest.mark.parametrize(
    "text", ["", "no key", "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n"]
)
def test_what_is_no_key_is_refused_without_being_shown(tmp_path: Path, text: str) -> None:
    """One sentence that names the file and nothing of what is in it."""
    path = tmp_path / "key.pem"
    path.touch(0o600)
    path.write_text(text)
    with pytest.raises(SettingsError) as caught:
        read_key(path)
    assert str(path) in str(caught.value)
    assert not text or text.strip() not in str(caught.value)


def test_a_key_prints_as_its_name(tmp_path: Path, key: Key) -> None:
    """No log line can hold the secret: what prints is the public thumbprint."""
    secret = (tmp_path / "key.pem").read_text().split("\n")[1]
    assert repr(key) == f"Key({key.id})"
    assert secret not in repr(key) + repr(Signer(key, AGENT, 300).__dict__)


def test_a_missing_key_stops_the_start(tmp_path: Path) -> None:
    """Whoever asks for signatures and has no key is told how to make one; nothing is sent unsigned."""
    with pytest.raises(SettingsError, match="milliarde key") as caught:
        read_key(tmp_path / "none.pem")
    assert caught.value.exit_code is ExitCode.BAD_SETTINGS


# -- what is published


def test_the_command_makes_and_publishes(tmp_path: Path) -> None:
    """The first time a key is made, then it is only shown; two keys are published side by side."""
    told: list[str] = []
    known = WebBotAuth(key_file=str(tmp_path / "a.pem"), agent=AGENT)
    document = keys_of.published(known, [], headers=False, say=told.append)
    assert keys_of.published(known, [], headers=False, say=told.append) == document
    assert [line.split()[0] for line in told] == ["made", "serve", "serve"]
    assert f"{AGENT}/.well-known/http-message-signatures-directory" in told[-1]
    both = keys_of.published(known, [tmp_path / "a.pem", tmp_path / "b.pem"], headers=False, say=told.append)
    assert both == directory([read_key(tmp_path / "a.pem"), read_key(tmp_path / "b.pem")])
    with pytest.raises(InputError):
        keys_of.published(WebBotAuth(), [], headers=False, say=told.append)


def test_the_directory_proves_its_keys(tmp_path: Path) -> None:
    """The printed headers verify for the document as it is served, from the host that it names, only."""
    known = WebBotAuth(key_file=str(tmp_path / "a.pem"), agent=AGENT)
    told: list[str] = []
    document = keys_of.published(known, [], headers=False, say=told.append)
    lines = keys_of.published(known, [], headers=True, say=told.append).splitlines()
    headers = dict(line.split(": ", 1) for line in lines)
    assert headers["Content-Type"] == DIRECTORY_TYPE
    request = parsed(b"GET /.well-known/x HTTP/1.1\r\nHost: bot.test\r\n\r\n", "https")
    (found,) = verified(Response(200, headers, request), document, DIRECTORY_TAG)
    assert found.covered_components['"content-digest"'] == headers["Content-Digest"]
    request.url = "https://evil.test/"
    with pytest.raises(InvalidSignature):
        verified(Response(200, headers, request), document, DIRECTORY_TAG)


# -- who we say we are


@pytest.mark.parametrize("contact", ["", "bot@example.org", "example.org/bot"])
def test_a_fleet_says_who_it_is(tmp_path: Path, contact: str) -> None:
    """More than one node and no address of a page about us: one sentence, and nothing is sent."""
    settings = _settings(tmp_path, crawl={"nodes": 2}, identity={"contact": contact})
    with pytest.raises(SettingsError, match=r"identity\.contact") as caught:
        user_agent(settings)
    assert caught.value.exit_code is ExitCode.BAD_SETTINGS
    alone = _settings(tmp_path, identity={"contact": contact})
    assert user_agent(alone).startswith("Milliarde/")


def test_the_user_agent(tmp_path: Path) -> None:
    """Token, version and contact."""
    settings = _settings(tmp_path, crawl={"nodes": 2}, identity={"contact": "https://us.test/bot"})
    assert user_agent(settings) == f"Milliarde/{__version__} (+https://us.test/bot)"


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"web_bot_auth": {"key_file": "k"}}, "web_bot_auth.agent"),
        ({"web_bot_auth": {"agent": "http://bot.test"}}, "web_bot_auth.agent"),
        ({"web_bot_auth": {"valid_s": 1e6}}, "web_bot_auth.valid_s"),
        (
            {
                "web_bot_auth": {"key_file": "k", "agent": AGENT},
                "gateway": {"mode": "api", "url": "https://g.test/?u={url}"},
            },
            "gateway.mode",
        ),
        ({"identity": {"purpose": "world peace"}}, "identity.purpose"),
    ],
)
def test_contradictions_stop_the_start(
    tmp_path: Path, changes: dict[str, dict[str, object]], words: str
) -> None:
    """A signature that nobody could verify, or a purpose that nobody knows, is no setting."""
    with pytest.raises(SettingsError, match=words.replace(".", r"\.")):
        _settings(tmp_path, **changes)
