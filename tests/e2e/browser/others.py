"""What is not a recorded trace: ranks whose lateness is known, hostile strings, a login, a trace that grows."""

from page import VIEWS, Dashboard, number


def late_ranks(chromium, base):
    """The trace has four ranks; rank 2 comes 5 ms late to every collective, and rank 3 not to the last one."""
    dashboard = Dashboard(chromium, base)
    page = dashboard.open("collectives")
    text = dashboard.text()
    assert "Rank 2 is the last at 100% of these collectives, 5 ms late on average" in text, text
    rows = page.locator("[data-panel=arrivals] tbody tr")
    assert rows.first.locator("th, td").all_inner_texts()[:4] == ["rank 2", "30 of 30", "30 (100%)", "5 ms"]
    canvas = page.get_by_role("application", name="Arrival of 4 ranks at 30 collectives, at most 5 ms late")
    canvas.press("ArrowRight")
    canvas.press("ArrowDown")
    canvas.press("ArrowDown")
    assert "Rank 2, collective 0 (ALL_REDUCE): 5 ms after the first" in dashboard.text()
    box = canvas.bounding_box()
    page.mouse.click(box["x"] + 64 + 29 * 18 + 9, box["y"] + 3 * 18 + 9)
    assert "Rank 3 did not come to collective 29" in dashboard.text()
    dashboard.close()


def hostile(chromium, base):
    """Process, thread, operation and function names of a trace that wants to be a page."""
    dashboard = Dashboard(chromium, base, viewport={"width": 380, "height": 780})
    seen = ""
    for view in VIEWS:
        page = dashboard.open(view)
        if view == "stacks":
            for frame in page.locator(".frame").all()[:20]:
                frame.focus()
                seen += dashboard.text(".readout")
        if view == "timeline":
            for key in ["ArrowDown", "ArrowDown", "ArrowDown", "n"]:
                page.get_by_role("application").press(key)
                seen += dashboard.text("section[aria-label=Details]")
        text = dashboard.text("body")
        seen += text
        assert page.evaluate("window.taken") is None
        assert page.locator("main img, main script, main iframe").count() == 0, view
        assert "\u202e" not in seen and "\u001b" not in seen, view
        assert max(map(len, text.splitlines())) < 5000, view
        wide, room = dashboard.widths()
        assert wide <= room, (view, wide)
        long = page.evaluate("[...document.querySelectorAll('*')].flatMap((one) => one.getAttributeNames().filter((name) => name !== 'href' && one.getAttribute(name).length > 20000))")
        assert not long, (view, long)
    assert "<script>window.taken" in seen and "⟨U+202E⟩" in seen and "␛" in seen, "shown as text"
    assert "characters)" in seen, "cut, and said so"
    dashboard.close()


def link(chromium, address):
    base, token = address.split("/#token=")
    dashboard = Dashboard(chromium, base)
    page = dashboard.page
    # Without it nothing is shown.
    page.goto(base)
    page.wait_for_selector("#token")
    # As from a terminal, twice: the second time its reader is logged in already.
    for _ in range(2):
        page.goto("about:blank")
        page.goto(address)
        page.wait_for_selector("details.finding")
        assert token not in page.url, page.url
        page.go_back()
        assert token not in page.url, page.url
    page.goto(base)
    page.wait_for_selector("details.finding")
    assert not any(token in url for url in dashboard.asked), dashboard.asked
    assert token not in page.evaluate("document.cookie + JSON.stringify({...localStorage}) + JSON.stringify({...sessionStorage})")
    cookie = dashboard.context.cookies()[0]
    assert cookie["httpOnly"] and cookie["sameSite"] == "Strict", cookie
    dashboard.wrong = [one for one in dashboard.wrong if "401" not in one]
    dashboard.close()


def login(chromium, base, token):
    dashboard = Dashboard(chromium, base, ignore_https_errors=True)
    page = dashboard.page
    page.goto(f"{base}/#operations?sort=count")
    assert page.title() == "gpuwhy: log in" and "operations" not in page.inner_text("body").lower()
    dashboard.show_token("not the token, but as long")
    page.wait_for_selector("text=That is not the token.")
    dashboard.show_token(token)
    page.wait_for_selector("[data-panel=operations] table")
    # The link that was asked for is shown, and the token is in no address.
    assert page.url.endswith("#operations?sort=count"), page.url
    assert not any(token in url for url in [page.url, *dashboard.asked])
    cookie = dashboard.context.cookies()[0]
    assert cookie["httpOnly"] and cookie["secure"] and cookie["sameSite"] == "Strict" and cookie["name"].startswith("__Host-")
    assert token not in page.evaluate("document.cookie + JSON.stringify({...localStorage}) + JSON.stringify({...sessionStorage})")
    # A session that ended asks for the token again.
    dashboard.context.clear_cookies()
    page.keyboard.press("1")
    page.wait_for_selector("#token")
    dashboard.show_token(token)
    page.wait_for_selector("details.finding")
    page.get_by_role("button", name="Log out").click()
    page.wait_for_selector("#token")
    dashboard.wrong = [one for one in dashboard.wrong if "401" not in one]
    dashboard.close()


def live(chromium, base):
    """The trace is being written: numbers rise by themselves, and the age of the newest is told."""
    dashboard = Dashboard(chromium, base)
    page = dashboard.open("operations")
    dashboard.until("/^Live · newest data .* old$/.test(document.getElementById('age').innerText.replace('● ', ''))")
    calls = "Number(document.querySelector('[data-panel=operations] tbody td:nth-child(2)').innerText.replaceAll(',', ''))"
    page.wait_for_selector("[data-panel=operations] tbody td")
    first = page.evaluate(calls)
    page.locator("[data-key=sort-count]").focus()
    dashboard.until(f"({calls}) > {first}")
    # Who is at something stays there.
    assert page.evaluate("document.activeElement.dataset.key") == "sort-count"
    dashboard.open("timeline")
    events = number(page.locator("#trace").inner_text().split(",")[-1])
    dashboard.until(f"Number(document.getElementById('trace').innerText.split(', ').pop().replace(/[^0-9]/g, '')) > {events}")
    dashboard.open("overview")
    assert "Loading" not in dashboard.text()
    dashboard.close()
