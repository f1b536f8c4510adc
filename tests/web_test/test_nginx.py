"""Trees of files and the nginx in front of them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import missing
from tests.web import nginx as module
from tests.web.certs import Authority
from tests.web.nginx import Nginx, find_nginx
from tests.web.tree import Tree, generate_tree
from tests.web_test.client import ask, connect, read, request_bytes


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Tree:
    """A small tree of small pages."""
    return generate_tree(tmp_path_factory.mktemp("tree") / "tree", 12, 3, mean_bytes=6_000)


@pytest.fixture(scope="module")
def authority(tls_dir: Path) -> Authority:
    """Certificates of both kinds."""
    return Authority(tls_dir, "mixed")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, tree: Tree, authority: Authority) -> Iterator[Nginx]:
    """The tree behind nginx, as the benchmark has it."""
    if find_nginx() is None:
        missing("nginx is not installed")
    folder = tmp_path_factory.mktemp("nginx")
    with Nginx(
        folder, tree.sites, authority=authority, keepalive=False, precompressed=True, access_log=True
    ) as server:
        yield server


def test_every_page_of_the_tree_is_served(server: Nginx, tree: Tree) -> None:
    """nginx answers all the pages that the oracle names, packed for who accepts it, unpacked for others."""
    expected = tree.expected()
    assert len(expected.pages) == tree.pages == 36
    assert len(tree.seeds.read_text().split()) == 12
    codings = set()
    for url in sorted(expected.pages):
        packed, plain = ask(server, url, Accept_Encoding="gzip"), ask(server, url)
        assert (packed.status, plain.status) == (200, 200)
        assert (packed.header("Content-Type") or "").startswith("text/html")
        assert packed.content == plain.content
        assert plain.content.endswith(b"</html>\n")
        codings.add((packed.header("Content-Encoding"), plain.header("Content-Encoding")))
    assert ("gzip", None) in codings
    assert ask(server, "https://site-00000.test/robots.txt").content.startswith(b"# Everyone")
    assert ask(server, "https://site-00000.test/none").status == 404


def test_connections_end_and_sessions_are_resumed(server: Nginx) -> None:
    """With keepalive off each answer ends its connection; the next one resumes its TLS session."""
    url = "https://site-00003.test/"
    with connect(server, url) as connection:
        connection.send(request_bytes(url, close=False))
        assert read(connection)[1] == "eof"
    first = ask(server, url)
    second = ask(server, url, resume=first)
    assert (first.resumed, second.resumed) == (False, True)
    last = server.log_entries()[-1]
    assert (last.url, last.status, last.bytes, last.resumed) == (url, 200, len(second.raw), True)
    assert last.user_agent == "probe"


def test_other_hosts_and_plain_http(server: Nginx) -> None:
    """A host that isn't served is told so; plain HTTP leads to https."""
    with connect(server, "https://site-00003.test/") as connection:
        connection.send(request_bytes("https://unknown.test/"))
        assert read(connection)[0].startswith(b"HTTP/1.1 421 ")
    answer = ask(server, "http://site-00003.test/a?b")
    assert (answer.status, answer.header("Location")) == (301, "https://site-00003.test/a?b")


def test_plain_folders_without_tickets(tmp_path: Path, authority: Authority) -> None:
    """Any folder can be served under a name; folders redirect to themselves with a slash; no resumption."""
    if find_nginx() is None:
        missing("nginx is not installed")
    (tmp_path / "doc" / "sub").mkdir(parents=True)
    (tmp_path / "doc" / "index.html").write_text("<p>home")
    (tmp_path / "doc" / "sub" / "index.html").write_text("<p>sub")
    (tmp_path / "doc" / "page.html.ko.euc-kr").write_bytes("한국어".encode("euc-kr"))
    with Nginx(
        tmp_path / "run", {"doc.test": tmp_path / "doc"}, authority=authority, tickets=False
    ) as server:
        first = ask(server, "https://doc.test/", Accept_Encoding="gzip")
        assert (first.body, first.header("Content-Encoding")) == (b"<p>home", None)
        assert not ask(server, "https://doc.test/", resume=first).resumed
        assert ask(server, "https://doc.test/sub").header("Location") == "https://doc.test/sub/"
        korean = ask(server, "https://doc.test/page.html.ko.euc-kr")
        assert (korean.header("Content-Type"), korean.body.decode("euc-kr")) == ("text/html", "한국어")
        assert server.log_entries() == []


def test_what_is_wrong_with_nginx_is_said(
    tmp_path: Path, authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A missing nginx and a configuration it doesn't like are errors with words."""
    if find_nginx() is None:
        missing("nginx is not installed")
    with (
        pytest.raises(RuntimeError, match=r"(?s)didn't start.*no-such"),
        Nginx(
            tmp_path, {"a.test": tmp_path}, authority=authority, default_type="text/html;\n no-such directive"
        ),
    ):
        pass
    monkeypatch.setattr(module, "find_nginx", lambda: None)
    with pytest.raises(FileNotFoundError, match="nginx-light"), Nginx(tmp_path, {}):
        pass


def test_a_tree_is_made_once(tmp_path: Path) -> None:
    """The same tree is not written again, another one replaces it, and other folders are left alone."""
    folder = tmp_path / "tree"
    page = next(iter(generate_tree(folder, 2, 2, mean_bytes=5_000).sites.values()))
    before = page.stat().st_mtime_ns
    generate_tree(folder, 2, 2, mean_bytes=5_000)
    assert page.stat().st_mtime_ns == before
    assert len(generate_tree(folder, 3, 2, mean_bytes=5_000).sites) == 3
    assert (folder / "site-00002.test" / "robots.txt").exists()
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "precious").write_text("")
    with pytest.raises(FileExistsError, match="holds no generated tree"):
        generate_tree(tmp_path / "other", 2, 2)
