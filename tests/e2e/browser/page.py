"""A page of the dashboard in real Chromium, and what must hold on every page: nothing in the console, no request to elsewhere."""

import json
import re
import time
import urllib.error
import urllib.parse
import urllib.request
from contextlib import contextmanager

from playwright.sync_api import sync_playwright

PATIENCE = 20
VIEWS = ["overview", "timeline", "operations", "processes", "collectives", "memory", "stacks", "sql", "coverage"]


@contextmanager
def browser(executable):
    with sync_playwright() as playwright:
        # Tests may run as root, where Chromium has no sandbox.
        chromium = playwright.chromium.launch(executable_path=executable, args=["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"])
        yield chromium
        chromium.close()


class Dashboard:
    def __init__(self, chromium, base, token=None, **options):
        self.base = base.rstrip("/")
        self.token = token
        self.context = chromium.new_context(
            viewport=options.pop("viewport", {"width": 1280, "height": 900}), timezone_id="Europe/Zurich", locale="en-GB", **options)
        self.context.grant_permissions(["clipboard-read", "clipboard-write"])
        self.page = self.context.new_page()
        self.page.set_default_timeout(15000)
        self.wrong = []
        self.asked = []
        self.page.on("console", self._console)
        self.page.on("pageerror", lambda error: self.wrong.append(f"error: {error}"))
        self.page.on("request", self._request)
        if token:
            self.log_in()

    def log_in(self):
        self.page.goto(self.base)
        self.show_token(self.token)
        self.page.wait_for_selector("main h1")

    def show_token(self, token):
        self.page.get_by_label("Token").fill(token)
        self.page.get_by_role("button", name="Log in").click()

    def _console(self, message):
        # Chromium notes each status 404, which here says that the trace has no such data.
        no_data = "/api/v1/" in message.location.get("url", "") and "404" in message.text
        if message.type in ("error", "warning") and not no_data:
            self.wrong.append(f"console: {message.text}")

    def _request(self, request):
        self.asked.append(request.url)
        if not request.url.startswith((self.base, "data:", "blob:" + self.base)):
            self.wrong.append(f"a request to {request.url}")

    def open(self, address):
        # From another page, so that the address is loaded and not only its fragment changed.
        self.page.goto("about:blank")
        self.page.goto(f"{self.base}/#{address}")
        return self.loaded()

    def loaded(self):
        self.page.wait_for_selector("main h1")
        self.until("!document.querySelector('main [aria-busy=true]') && !/^Loading/.test(document.getElementById('trace').textContent)")
        self.until("![...document.querySelectorAll('main .state.loading')].some((one) => one.offsetParent)")
        return self.page

    def until(self, condition, arg=None, patience=PATIENCE):
        """Waits until a script says so. It is asked from outside: the page's policy forbids Playwright's own way, which is eval."""
        end = time.monotonic() + patience
        while not self.page.evaluate(condition, arg):
            assert time.monotonic() < end, f"waited in vain until {condition}"
            time.sleep(0.02)

    def text(self, selector="main"):
        return self.page.inner_text(selector)

    def widths(self):
        return self.page.evaluate("[document.documentElement.scrollWidth, innerWidth]")

    def serious(self, axe):
        """Violations that keep somebody from using the page."""
        return serious_of(self.page, axe)

    def ask(self, name, **request):
        """The same from the API, beside the page."""
        query = urllib.parse.urlencode(request)
        try:
            with urllib.request.urlopen(f"{self.base}/api/v1/{name}?{query}") as reply:
                return json.load(reply)
        except urllib.error.HTTPError as error:
            return json.load(error)

    def tool(self, name, **request):
        """A tool of a fleet, beside the page."""
        return self.post(f"/api/v1/tools/fleet.cluster.{name}", request)

    def post(self, path, request):
        headers = {"authorization": f"Bearer {self.token}", "content-type": "application/json"}
        asked = urllib.request.Request(self.base + path, json.dumps(request).encode(), headers)
        with urllib.request.urlopen(asked) as reply:
            return json.load(reply)

    def close(self):
        self.context.close()
        assert not self.wrong, self.wrong


def serious_of(page, axe):
    if not page.evaluate("typeof axe !== 'undefined'"):
        page.evaluate(axe)
    found = page.evaluate("axe.run(document, {resultTypes: ['violations'], runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice']})")
    return [f"{one['id']}: {one['help']}: {[node['target'] for node in one['nodes']][:3]}"
            for one in found["violations"] if one["impact"] in ("serious", "critical")]


def number(text):
    return float(re.sub(r"[^\d.]", "", text))


def every_view_is_there(chromium, base, axe, views, title, token=None):
    """Text, titles, both colour schemes at a phone's and a desk's width, and what keeps people out."""
    phone = dict(viewport={"width": 400, "height": 780}, has_touch=True, reduced_motion="reduce")
    desk = dict(viewport={"width": 1400, "height": 900})
    papers = {}
    for size, scheme in [(size, scheme) for size in (desk, phone) for scheme in ("light", "dark")]:
        options = dict(size, color_scheme=scheme)
        dashboard = Dashboard(chromium, base, token, **options)
        page = dashboard.open(views[-1])
        for view in views:
            page.locator(f"nav a[href^='#{view}']").click()
            dashboard.until("(view) => document.querySelector('main').dataset.view === view", view)
            dashboard.loaded()
            assert page.title().endswith(title), page.title()
            assert page.get_attribute("nav [aria-current=page]", "href").startswith(f"#{view}")
            assert len(dashboard.text()) > 100, (view, dashboard.text())
            assert "cannot be drawn" not in dashboard.text(), (view, dashboard.text())
            wide, room = dashboard.widths()
            assert wide <= room, (view, options, wide)
            serious = dashboard.serious(axe)
            assert not serious, (view, options, serious)
        papers.setdefault(scheme, set()).add(page.evaluate("getComputedStyle(document.body).backgroundColor"))
        dashboard.close()
    assert papers["light"].isdisjoint(papers["dark"]), papers
