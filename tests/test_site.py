"""The documentation site: it builds without a warning, its links lead somewhere, and a browser has nothing to say."""

import functools
import html.parser
import http.server
import os
import subprocess
import sys
import threading
import urllib.parse
from pathlib import Path

import pytest

import irlax as ix
from tests.browser import PROGRAM, browser

ROOT = Path(__file__).parent.parent
DESKTOP, PHONE = 1280, 390
#: Looked at in every size and scheme: words and tables, formulas and code, signatures.
EVERY_WAY = ("index.html", "estimators/mce.html", "api/estimators.html")

needs_browser = pytest.mark.skipif(PROGRAM is None, reason="no Chromium is installed")


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    pytest.importorskip("mkdocs", reason="the site is built by `irlax[docs]`, which is not installed")
    out = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(out)]
    built = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, env=os.environ | {"NO_MKDOCS_2_WARNING": "1"}, check=False
    )
    assert built.returncode == 0, built.stdout + built.stderr
    return out


class Page(html.parser.HTMLParser):
    """The links, images, scripts and anchors of a page."""

    def __init__(self, path):
        super().__init__()
        self.links, self.loaded, self.anchors, self.formulas = [], [], set(), 0
        self.feed(path.read_text())

    def handle_starttag(self, tag, attrs):
        given = dict(attrs)
        self.anchors |= {given[name] for name in ("id", "name") if given.get(name)}
        self.formulas += tag == "math"
        if tag == "a" and given.get("href"):
            self.links.append(given["href"])
        elif tag in ("img", "script", "iframe", "source") and given.get("src"):
            self.loaded.append(given["src"])
        elif tag == "link" and given.get("rel") != "canonical":
            self.loaded.append(given["href"])


@pytest.fixture(scope="module")
def pages(site):
    return {path: Page(path) for path in sorted(site.rglob("*.html"))}


def test_links_lead_somewhere(site, pages):
    broken = []
    for path, page in pages.items():
        if path.name == "404.html":
            continue
        for link in page.links:
            parts = urllib.parse.urlsplit(link)
            if parts.scheme in ("http", "https", "mailto"):
                continue
            there = (path.parent / urllib.parse.unquote(parts.path)).resolve() if parts.path else path
            there = there / "index.html" if there.is_dir() else there
            anchor = urllib.parse.unquote(parts.fragment)
            missing = not there.exists() or (there in pages and anchor and anchor not in pages[there].anchors)
            broken += [f"{path.relative_to(site)}: {link}"] if missing else []
    assert not broken
    assert sum(len(page.links) for page in pages.values()) > 1000


def test_nothing_is_fetched_from_elsewhere(site, pages):
    for path, page in pages.items():
        for source in page.loaded:
            assert not urllib.parse.urlsplit(source).netloc, (path, source)
            local = urllib.parse.urlsplit(source).path
            # The page for what is not found has absolute addresses.
            base = site if local.startswith("/") else path.parent
            assert (base / local.lstrip("/")).exists(), (path, source)


def test_formulas_are_mathml_in_pages_and_docstrings(site, pages):
    assert pages[site / "estimators/mce.html"].formulas >= 5
    assert pages[site / "api/estimators.html"].formulas >= 5
    assert not [path for path in pages if "arithmatex" in path.read_text()]


def test_every_public_name_is_in_the_reference(site, pages):
    anchors = set().union(*(page.anchors for path, page in pages.items() if path.parent.name == "api"))
    modules = {"datasets", "envs", "panels", "rl", "routes", "widgets", "__version__"}
    assert not [name for name in ix.__all__ if name not in modules and f"irlax.{name}" not in anchors]


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass


@pytest.fixture
def served(site):
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=site))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/"
    server.shutdown()
    server.server_close()


@needs_browser
@pytest.mark.parametrize("dark", [False, True])
def test_a_browser_has_nothing_to_complain_about(dark, site, pages, served, tmp_path):
    names = [str(path.relative_to(site)) for path in pages if path.name != "404.html"]
    # Every page once, in one of the four ways by turns, and some in all of them.
    visits = {(name, (DESKTOP, PHONE)[i % 2]) for i, name in enumerate(names[dark::2])}
    visits |= {(name, width) for name in EVERY_WAY for width in (DESKTOP, PHONE)}
    with browser(tmp_path, dark=dark) as tab:
        for name, width in sorted(visits):
            tab.visit(served + name, width=width)
            assert not tab.complaints(), (name, width)
            assert all(url.startswith((served, "data:")) for url in tab.requests()), (name, width)
            assert tab.run("[...document.images].filter(image => !image.naturalWidth).length") == 0, (name, width)
            assert tab.run("document.documentElement.scrollWidth") <= width, (name, width)
            assert tab.run("document.body.dataset.mdColorScheme") == ("slate" if dark else "default"), (name, width)
