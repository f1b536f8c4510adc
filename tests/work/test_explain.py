"""``milliarde explain``: what it answers, and that nothing stops it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from io import BytesIO
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from node import cli
from node.cli import which
from node.rules.admit import Admission, Place, Scope, ScopeKind
from node.rules.refusal import Refusal
from node.rules.shard import node_of
from node.work import questions
from node.work.explain import Explainer, gates
from tests.work.asking import PAGE, ask, explain, settings

HOUSE = "User-agent: *\nDisallow: /private/\nAllow: /private/door\nCrawl-delay: 100\n"


def test_everything_about_a_url() -> None:
    """One answer holds where a URL would be fetched from, by whom, how soon, how often and by whose leave."""
    assert explain("HTTP://u:p@www.Bücher.co.uk:80/private/a/../door/%7Ex#y", robots=HOUSE) == {
        "url": "HTTP://u:p@www.Bücher.co.uk:80/private/a/../door/%7Ex#y",
        "canonical": "http://www.xn--bcher-kva.co.uk/private/door/%7Ex",
        "why_not": None,
        "why": None,
        "href": "http://u:p@www.xn--bcher-kva.co.uk/private/door/%7Ex#y",
        "dedup_key": "http://www.xn--bcher-kva.co.uk/private/door/~x",
        "origin": "http://www.xn--bcher-kva.co.uk",
        "domain": "xn--bcher-kva.co.uk",
        "shard": 0,
        "nodes": 1,
        "lane": 54,
        "depth": 0,
        "priority": 0,
        "priority_rule": None,
        "scope": "seeds",
        "budget": {"queue_cap": 100_000, "life_cap": 400_000},
        "agent": "Milliarde",
        "allowed": True,
        "rule": "Allow: /private/door",
        "checked": {"/private/door/%7Ex": True},
        "signals": [],
        "crawl_delay": 100.0,
        "delay": 100.0,
    }


def test_a_refused_url_has_its_reason_and_no_address() -> None:
    """What is no address to fetch has a name for why, in words too, and nothing that would need one."""
    answer = explain("mailto:a@h.test", robots=HOUSE)
    assert "canonical" not in answer
    assert answer["refused"] == answer["why_not"] == "scheme"
    assert answer["why"] == Refusal.SCHEME.words
    assert answer["href"] == "mailto:a@h.test"
    assert {answer[key] for key in ("domain", "shard", "dedup_key", "origin", "priority", "budget")} == {None}
    assert answer["allowed"] is None
    assert "2,048 bytes" in explain("http://h.test/" + "x" * 3_000)["why"]


def test_reasons_in_the_order_of_a_crawl() -> None:
    """Shard, depth, robots.txt: the first that keeps a URL from being fetched is the reason given."""
    explainer = Explainer(settings(crawl={"nodes": 4, "me": 2, "max_depth": 3}))
    ours, theirs = (next(d for d in DOMAINS if node_of(d, 4) == node) for node in (2, 1))
    answers = ask(
        {"url": f"http://{theirs}/private/", "depth": 4, "robots": HOUSE},
        {"url": f"http://{ours}/private/", "depth": 4, "robots": HOUSE},
        {"url": f"http://{ours}/private/", "depth": 3, "robots": HOUSE},
        {"url": f"http://{ours}/", "depth": 3, "robots": HOUSE},
        explainer=explainer,
    )
    assert [each["why_not"] for each in answers] == ["other_shard", "too_deep", "robots_denied", None]
    assert [each["shard"] for each in answers] == [1, 2, 2, 2]
    assert [each["why"] is None for each in answers] == [False, False, False, True]


DOMAINS = [f"d{number}.test" for number in range(100)]


def test_the_list_of_a_crawl_decides_about_scope(tmp_path: Path) -> None:
    """With scope ``list`` a domain that is not on it is out of scope, whatever its host."""
    (tmp_path / "list").write_text("1,a.test\n2,b.test\n")
    crawl = {"scope": "list", "domain_list": str(tmp_path / "list")}
    answers = ask(
        *({"url": f"http://www.{d}.test/"} for d in "abc"), explainer=Explainer(settings(crawl=crawl))
    )
    assert [each["why_not"] for each in answers] == [None, None, "out_of_scope"]


@pytest.mark.parametrize(
    "host", ["127.0.0.1", "10.0.0.1:8080", "[::1]", "0x7f.1", "localhost", "a.localhost."]
)
def test_the_inside_of_a_network_is_told(host: str) -> None:
    """I7: an address that is nobody's but ours is not fetched, unless connect_to leads elsewhere."""
    assert explain(f"https://{host}/")["why_not"] == "private_address"
    tested = settings(dns={"connect_to": ["::127.0.0.1:9443"]})
    (answer,) = ask({"url": f"https://{host}/"}, explainer=Explainer(tested))
    assert answer["why_not"] is None
    assert explain("https://192.0.1.1/")["why_not"] is explain("https://localhost.test/")["why_not"] is None


@pytest.mark.parametrize("depth", [0, 1, 6, 7, 8, 500])
def test_the_priority_is_that_of_the_gate(depth: int) -> None:
    """A URL is said to have the priority with which a crawl would queue it."""
    place = Admission(Scope(ScopeKind.OPEN), 1, 0, lambda _host: False).admit("http://h.test/", depth - 1)
    assert isinstance(place, Place)
    answer = explain("http://h.test/", depth=depth)
    assert (answer["priority"], answer["lane"], answer["domain"]) == (place.level, place.lane, place.domain)


def test_the_rule_that_decides_a_priority_is_told() -> None:
    """With the level that a crawl would give it, in JSON and in words."""
    ruled = settings(priority={"rules": [{"pattern": "/archive/", "domain": "h.test", "shift": 3}]})
    explainer = Explainer(ruled, depth=2)
    asked = [{"url": f"https://{host}/archive/1"} for host in ("www.h.test", "i.test")]
    answers = ask(*asked, explainer=explainer)
    assert [(each["priority"], each["priority_rule"]) for each in answers] == [
        (5, "/archive/ at h.test: shift +3"),
        (2, None),
    ]
    place = gates(ruled).admit("https://www.h.test/archive/1", 1)
    assert isinstance(place, Place)
    assert place.level == 5


def test_a_link_is_one_away_from_a_seed() -> None:
    """Without being told, a bare URL is taken for a seed, and one with a base for a link of a seed."""
    assert [each["priority"] for each in ask({"url": "http://h.test/"}, {"url": "x", "base": PAGE})] == [0, 1]


def test_the_budget_follows_the_horizon() -> None:
    """What a domain can use in the time of a crawl is what it may queue."""
    planned = settings(crawl={"delay_s": 70, "horizon_s": 86_400})
    (answer,) = ask({"url": "http://h.test/"}, explainer=Explainer(planned))
    assert answer["budget"] == {"queue_cap": 1_543, "life_cap": 6_172}
    assert answer["delay"] == 70


def test_delays_in_force() -> None:
    """R19, R20: ours is the floor, the site's wish is honoured up to a named setting."""
    node = Explainer(settings(crawl={"delay_s": 5, "max_crawl_delay_s": 3_600}))
    questions_ = [
        {"url": "http://h.test/", "robots": f"User-agent: *\nCrawl-delay: {value}\n"}
        for value in ("0", "3", "60", "86400", "abc")
    ]
    answers = ask(*questions_, explainer=node)
    assert [each["crawl_delay"] for each in answers] == [None, 3, 60, 3_600, None]
    assert [each["delay"] for each in answers] == [5, 5, 60, 3_600, 5]


def test_raw_letters_are_asked_for_as_they_stand_too() -> None:
    """What is sent is said first. An Allow that does not reach an address as it was written allows less."""
    robots = "User-agent: *\nDisallow: /\nAllow: /ö\n"
    raw, sent = ask(*({"url": f"http://h.test/{path}", "robots": robots} for path in ("ö", "%C3%B6")))
    assert raw["checked"] == {"/%C3%B6": True, "/ö": False}
    assert sent["checked"] == {"/%C3%B6": True}
    assert [raw["allowed"], sent["allowed"]] == [False, True]
    assert raw["why_not"] is None
    for url in ("http://h.test/a/../ö/\tx", "ö", "http://ö.test/"):  # not only raw letters: sent otherwise
        assert len(explain(url, base="http://h.test/", robots=robots)["checked"]) == 1


def test_whole_user_agents_are_understood() -> None:
    """Who pastes a User-Agent is answered for its product token."""
    answer = explain("http://h.test/x", robots="User-agent: us\nDisallow: /\n", agent="Us/1.0 (+https://us)")
    assert (answer["agent"], answer["allowed"]) == ("Us", False)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (b"x", "not JSON"),
        (b"{", "not JSON"),
        (b"\xff\xfe\xff", "not JSON"),
        (b"[" * 100_000, "not JSON"),
        (b'{"url": %s}' % (b"1" * 5_000), "not JSON"),
        (b"[]", "Expected `object`"),
        (b'"http://h.test/"', "Expected `object`"),
        (b"null", "Expected `object`"),
        (b"{}", "missing required field `url`"),
        (b'{"url": 1}', "Expected `str`, got `int` - at `url`"),
        (b'{"url": null}', "Expected `str`"),
        (b'{"url": "", "robots": 1}', "at `robots`"),
        (b'{"url": "", "agent": []}', "at `agent`"),
        (b'{"url": "", "base": {}}', "at `base`"),
        (b'{"url": "", "depth": -1}', "at `depth`"),
        (b'{"url": "", "depth": 1.5}', "at `depth`"),
    ],
    ids=lambda value: str(value[:20]),
)
def test_a_bad_question_costs_its_own_line_only(line: bytes, words: str) -> None:
    """An error is an answer like others, in words; the questions after it are answered."""
    good = b'{"url": "http://h.test/", "unknown": "is ignored"}'
    lines = BytesIO(b"\n".join([good, line, b"", b"  \r", good]))
    first, error, last = map(json.loads, questions.answers(Explainer(settings()), lines))
    assert first == last
    assert first["canonical"] == "http://h.test/"
    assert list(error) == ["error"]
    assert words in error["error"]


def test_endless_questions_are_turned_away(monkeypatch: pytest.MonkeyPatch) -> None:
    """I4: a line is read up to a bound, one beyond it is an error, and what follows is answered."""
    monkeypatch.setattr(questions, "MAX_LINE_BYTES", 100)
    lines = [b'{"url": "' + b"x" * length + b'"}\n' for length in (80, 87, 88, 89, 90, 1_000, 80)]
    found = [json.loads(each) for each in questions.answers(Explainer(settings()), BytesIO(b"".join(lines)))]
    assert ["error" in each for each in found] == [False, False, False, True, True, True, False]


TEXT = st.text(max_size=30) | st.sampled_from(
    ["http://h.test/", "//", "/é\ud800", "http://[", "\udcff", "x:"]
)


@given(TEXT, st.none() | TEXT, st.none() | TEXT.map("User-agent: *\nDisallow: ".__add__), st.none() | TEXT)
@example("\udcff\ud800", "http://h.test/", "\ud800", "\udcff")
def test_every_question_has_an_answer(
    url: str, base: str | None, robots: str | None, agent: str | None
) -> None:
    """Whatever is asked, one line of ASCII comes back: either a canonical address or a refusal."""
    asked = {"url": url, "base": base, "robots": robots, "agent": agent}
    (line,) = questions.answers(Explainer(settings()), BytesIO(json.dumps(asked).encode() + b"\n"))
    assert line.isascii()
    assert "\n" not in line
    answer = json.loads(line)
    assert ("canonical" in answer) != ("refused" in answer)
    assert answer["url"] == url
    assert (answer["allowed"] is None) == (robots is None or answer.get("refused") == "scheme")


# --- the command itself -------------------------------------------------------------------------


def test_the_command_answers_line_by_line(tmp_path: Path) -> None:
    """Beside another program: each question is answered at once, with no node and no settings."""
    with subprocess.Popen(
        [sys.executable, "-m", "node", "explain", "--stdin"],
        cwd=tmp_path,
        env=WITHOUT_SETTINGS | {"PYTHONPATH": str(Path(cli.__file__).parent.parent)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stdin
        assert process.stdout
        assert process.stderr
        for url, wanted in (("http://h.test/é", "http://h.test/%C3%A9"), ("http://a..test/", None)):
            process.stdin.write(json.dumps({"url": url}).encode() + b"\n")
            process.stdin.flush()
            assert json.loads(process.stdout.readline()).get("canonical") == wanted
        process.stdin.close()
        assert process.stdout.read() == b""
        assert process.stderr.read() == b""
    assert process.returncode == 0


WITHOUT_SETTINGS = {name: value for name, value in os.environ.items() if name != which.CONFIG_VARIABLE}


@pytest.fixture
def no_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder without a node."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv(which.CONFIG_VARIABLE, raising=False)
    monkeypatch.setattr(which, "CONFIG_PLACES", (Path("crawl/node.toml"),))
    return tmp_path


def test_one_url_in_words(no_settings: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """An operator reads what is fetched, by which line of robots.txt, and what keeps it from being so."""
    (no_settings / "robots.txt").write_text(HOUSE)
    words = [
        "explain",
        "/private/x",
        "--base",
        "https://www.h.test/",
        "--robots",
        "robots.txt",
        "--agent",
        "us",
    ]
    assert cli.main(words) == 0
    out = capsys.readouterr().out
    for part in (
        "canonical  https://www.h.test/private/x\n",
        "1 link from a seed",
        "its Crawl-delay is 100 s",
        "denies us /private/x\n           by 'Disallow: /private/'\n",
        "not fetched: robots_denied.",
    ):
        assert part in out
    assert cli.main(["explain", "example.com"]) == 0
    out = capsys.readouterr().out
    assert "refused    bad_url: Not a URL to any browser." in out
    assert "as a seed  it stands for https://example.com/\n" in out


def test_a_long_url_is_not_folded(no_settings: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A URL is printed whole, to be copied."""
    url = "https://h.test/" + "x" * 500
    assert cli.main(["explain", url]) == 0
    assert f" {url}\n" in capsys.readouterr().out


def test_settings_are_those_of_the_node_if_there_is_one(
    no_settings: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Like other commands it finds the node by itself; a named one must be there."""
    (no_settings / "crawl").mkdir()
    text = '[paths]\ndata = "."\n[crawl]\nnodes = 5\nme = 1\nscope = "open"\n[identity]\ntoken = "Other"\n'
    (no_settings / "crawl" / "node.toml").write_text(text)
    assert cli.main(["explain", "http://h.test/", "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert (answer["nodes"], answer["scope"], answer["agent"]) == (5, "open", "Other")
    assert cli.main(["explain", "http://h.test/", "--config", "nowhere.toml"]) == 3


@pytest.mark.parametrize("words", [[], ["http://h.test/", "--stdin"], ["http://h.test/", "--robots", "none"]])
def test_wrong_words_are_told(
    no_settings: Path, capsys: pytest.CaptureFixture[str], words: list[str]
) -> None:
    """A call that can't be meant ends with a sentence and the exit code for bad input."""
    assert cli.main(["explain", *words]) == 4
    captured = capsys.readouterr()
    assert captured.err.startswith("milliarde explain: ")
    assert captured.out == ""
