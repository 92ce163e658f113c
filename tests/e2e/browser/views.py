"""Each view of recorded traces, against the numbers of the API."""

from page import VIEWS, Dashboard, every_view_is_there, number


def the_overview_answers_at_once(chromium, base):
    dashboard = Dashboard(chromium, base)
    page = dashboard.open("overview")
    answer = dashboard.ask("explain")
    worst = answer["findings"][0]
    card = page.locator("details.finding").first
    assert card.get_attribute("open") is not None
    assert worst["title"] in card.locator("> summary").inner_text()
    badge = f"as built: {worst['by_design']}" if worst.get("by_design") else worst["severity"]
    assert badge.lower() in card.locator("> summary").inner_text().lower()
    # What follows from how a program is built has a neutral colour, not that of a small loss.
    grades = page.locator("details.finding").evaluate_all("(all) => all.map((one) => one.className)")
    expected = ["finding built" if one.get("by_design") else f"finding {one['severity']}" for one in answer["findings"]]
    assert grades == expected, (grades, expected)
    told = card.locator("dl.answers").inner_text()
    for part in [worst["where"]["python"][0], *[fix.replace("`", "") for fix in worst["fixes"]], worst["causes"][0]["class"]]:
        assert part in told, (part, told)
    # It is on the first screen.
    assert card.locator("ol.fixes").bounding_box()["y"] < 900
    # What is drawn are the shares, and they sum to 100.
    for bar in page.locator("details.finding .answers .bar").all():
        shares = bar.evaluate("(bar) => [...bar.children].map((one) => Number(one.style.flexGrow))")
        assert abs(sum(shares) - 100) < 0.6, shares
    shares = page.locator("details.finding .answers .bar").first.evaluate("(bar) => [...bar.children].map((one) => Number(one.style.flexGrow))")
    for drawn, cause in zip(shares, worst["causes"]):
        assert abs(drawn - cause["share_pct"]) < 0.01
    idle = answer["idle"][0]
    ledger = page.locator("[data-panel=idle] .bar").first.get_attribute("aria-label")
    assert f"{round(idle['busy_upper_pct'])}%" in ledger, ledger
    curves = dashboard.ask("series", of="gpus")["series"]
    # How busy they were has a place of its own, above.
    others = {curve["name"].split(" of ")[0] for curve in curves} - {"sm_pct"}
    assert page.locator("[data-panel=gpus] figure").count() == len(others)
    # All findings are there, some of them folded.
    assert page.locator("details.finding").count() == len(answer["findings"])
    dashboard.close()


def operations_are_counted_sorted_and_filtered(chromium, base):
    dashboard = Dashboard(chromium, base)
    page = dashboard.open("operations")
    rows = dashboard.ask("operations")["rows"]
    table = page.locator("[data-panel=operations] tbody tr")
    assert table.count() == len(rows)
    for place, row in enumerate(rows[:5]):
        cells = table.nth(place).locator("th, td").all_inner_texts()
        assert cells[0] == row["op"] and number(cells[1]) == row["count"], (cells, row)
    page.get_by_role("button", name="calls", exact=True).click()
    page.wait_for_url("**sort=count**")
    dashboard.loaded()
    counts = [number(text) for text in page.locator("[data-panel=operations] tbody tr td:nth-child(2)").all_inner_texts()]
    assert counts == sorted(counts, reverse=True), counts
    assert page.locator("th[aria-sort=descending]").inner_text().startswith("calls")
    # The focus stays where the reader was.
    assert page.evaluate("document.activeElement.dataset.key") == "sort-count"
    wanted = rows[0]["op"]
    page.get_by_label("Find an operation").fill(wanted)
    page.get_by_label("Find an operation").press("Enter")
    dashboard.until("(wanted) => [...document.querySelectorAll('[data-panel=operations] tbody th')].every((one) => one.innerText.includes(wanted))", arg=wanted)
    page.get_by_role("link", name=wanted, exact=True).first.click()
    page.wait_for_selector("[data-panel=operation] table")
    blame = dashboard.ask("blame", op=wanted)["rows"]
    assert blame[0]["cause"] in dashboard.text("[data-panel=operation]")
    dashboard.close()


def filters_and_links_hold(chromium, base):
    dashboard = Dashboard(chromium, base)
    process = dashboard.ask("processes")["rows"][0]
    page = dashboard.open("overview")
    page.get_by_label("Process", exact=True).select_option(str(process["pid"]))
    page.wait_for_url(f"**pid={process['pid']}**")
    page.get_by_label("Time", exact=True).select_option("10s")
    page.wait_for_url("**since=10s**")
    # The filters go along to the next view, and hold there.
    page.get_by_role("link", name="Operations").click()
    page.wait_for_url("**#operations?pid=*")
    dashboard.loaded()
    some = dashboard.ask("operations", pid=process["pid"], since="10s")["rows"]
    assert page.locator("[data-panel=operations] tbody tr").count() == len(some)
    # The address alone shows the same again, and going back works.
    address = page.url
    text = dashboard.text("[data-panel=operations]")
    again = dashboard.open(address.split("#", 1)[1])
    assert dashboard.text("[data-panel=operations]") == text
    again.go_back()
    # An address that leads nowhere leads to the overview; one without data says so in words.
    dashboard.open("nosuchview")
    dashboard.until("document.querySelector('main h1')?.innerText === 'Overview'")
    page = dashboard.open("operations?pid=1")
    assert "The trace has no calls of process 1" in dashboard.text(), dashboard.text()
    dashboard.close()


def the_timeline_asks_for_what_is_seen(chromium, base):
    dashboard = Dashboard(chromium, base)
    page = dashboard.open("timeline")
    canvas = page.get_by_role("application", name="Timeline")
    dashboard.until("document.querySelector('canvas.timeline').height > 200")
    colours = page.evaluate("""() => {
      const canvas = document.querySelector('canvas.timeline');
      const { data } = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);
      return new Set(new Uint32Array(data.buffer)).size;
    }""")
    assert colours > 20, colours
    trace = dashboard.ask("trace")
    for key in ["+", "+", "ArrowRight"]:
        canvas.press(key)
    with page.expect_response(lambda reply: "/api/v1/timeline" in reply.url and "from_ns" in reply.url) as waited:
        pass
    asked = dict(part.split("=") for part in waited.value.url.split("?")[1].split("&"))
    whole = trace["end_ns"] - trace["start_ns"]
    assert trace["start_ns"] < int(asked["from_ns"]) and int(asked["to_ns"]) - int(asked["from_ns"]) < whole / 2, asked
    assert f"from={int(asked['from_ns'])}"[:12] in page.url
    # The wheel zooms with Ctrl, a drag pans; the server is asked again.
    box = canvas.bounding_box()
    page.mouse.move(box["x"] + 300, box["y"] + 100)
    before = page.url
    page.keyboard.down("Control")
    page.mouse.wheel(0, -300)
    page.keyboard.up("Control")
    dashboard.until("(before) => location.href !== before", arg=before)
    before = page.url
    page.mouse.down()
    page.mouse.move(box["x"] + 100, box["y"] + 100, steps=4)
    page.mouse.up()
    dashboard.until("(before) => location.href !== before", before)
    # By the keyboard alone: all of it, down to the first track, to its next slice, and into it.
    canvas.press("0")
    dashboard.loaded()
    answer = dashboard.ask("timeline", slices=200)
    canvas.press("ArrowDown")
    page.wait_for_selector("section[aria-label=Details] h2")
    assert answer["findings"][0]["title"] in dashboard.text("section[aria-label=Details]")
    canvas.press("ArrowDown")
    details = dashboard.text("section[aria-label=Details]")
    assert any(piece["name"] in details for piece in answer["tracks"][0]["slices"]), details
    canvas.press("ArrowDown")
    canvas.press("n")
    assert "thread" in dashboard.text("section[aria-label=Details]")
    before = page.url
    canvas.press("Enter")
    dashboard.until("(before) => location.href !== before", before)
    # A link leads to the same time again, and names the finding.
    finding = dashboard.ask("explain")["findings"][0]
    dashboard.open("overview")
    page.get_by_role("link", name="Timeline").nth(1).click()
    page.wait_for_selector("section[aria-label=Details] h2")
    assert finding["title"] in dashboard.text("section[aria-label=Details]")
    assert str(finding["window"]["start_ns"]) in page.url
    dashboard.close()


def stacks_are_searched_and_entered(chromium, base):
    dashboard = Dashboard(chromium, base)
    page = dashboard.open("stacks?of=calls")
    frames = dashboard.ask("stacks", limit=2000)["frames"]
    heaviest = next(frame for frame in frames if frame["kind"] == "python")
    name = f"{heaviest['file'].split('/')[-1]}:{heaviest['line']} {heaviest['function']}"
    button = page.locator(f"[data-key=frame-{heaviest['id']}]")
    assert button.get_attribute("aria-label").startswith(name)
    share = button.evaluate("(one) => one.getBoundingClientRect().width / one.parentElement.getBoundingClientRect().width")
    assert abs(share - heaviest["value"] / dashboard.ask("stacks")["value"]) < 0.01, share
    page.get_by_label("Find a function").fill("sync")
    page.wait_for_selector(".frame.hit")
    assert all("sync" in text.lower() for text in page.locator(".frame.hit").evaluate_all("(all) => all.map((one) => one.ariaLabel)"))
    # Into a frame with the keyboard, and out again.
    page.locator("[data-key=frame-null]").focus()
    page.keyboard.press("ArrowDown")
    assert page.evaluate("document.activeElement.dataset.key") == f"frame-{heaviest['id']}"
    page.keyboard.press("Enter")
    page.wait_for_url("**at=*")
    assert page.locator(".frame.faint").count() == 1
    page.keyboard.press("Escape")
    assert page.locator(".frame.faint").count() == 0
    # A flame graph has its root at the bottom.
    page.get_by_label("Shape", exact=True).select_option("flame")
    dashboard.loaded()
    tops = page.evaluate("['null', '0'].map((id) => document.querySelector(`[data-key=frame-${id}]`).getBoundingClientRect().top)")
    assert tops[0] > tops[1], tops
    dashboard.close()


def stacks_open_on_all_time_of_a_thread(chromium, base):
    dashboard = Dashboard(chromium, base)
    page = dashboard.open("stacks")
    all_threads = dashboard.ask("stacks", of="time", limit=1)["threads"]
    busiest = all_threads[0]
    answer = dashboard.ask("stacks", of="time", tid=busiest["tid"], limit=2000)
    # Its time is that of its phases, and what each of them is made of is told apart.
    thread = next(frame for frame in answer["frames"] if frame["kind"] == "thread")
    phases = [frame for frame in answer["frames"] if frame["kind"] == "phase"]
    assert thread["function"] == busiest["name"] and thread["value"] == answer["value"]
    assert abs(sum(frame["value"] for frame in phases) - thread["value"]) <= 1000, phases
    everything = dashboard.ask("stacks", of="time", limit=2000)["frames"]
    assert {"op", "wait", "run"} <= {frame["kind"] for frame in everything}, "calls, waits and running code"
    lefts = {frame["function"]: page.locator(f"[data-key=frame-{frame['id']}]").bounding_box()["x"] for frame in phases}
    order = [name for name in ("start", "loop", "end") if name in lefts]
    assert "loop" in order and [lefts[name] for name in order] == sorted(lefts.values()), lefts
    # Another thread, and all of them.
    choose = page.get_by_label("Thread", exact=True)
    other = all_threads[1]
    choose.select_option(str(other["tid"]))
    dashboard.until("(name) => document.querySelector('[data-key=frame-0]')?.ariaLabel.startsWith(name)", other["name"])
    page.get_by_label("Thread", exact=True).select_option("all")
    dashboard.loaded()
    names = page.locator(".frame").evaluate_all("(all) => all.map((one) => one.ariaLabel)")
    assert any(name.startswith(busiest["name"]) for name in names), names[:9]
    dashboard.close()


def the_overview_begins_with_the_step_and_the_gpu(chromium, base):
    dashboard = Dashboard(chromium, base, viewport={"width": 1400, "height": 900})
    page = dashboard.open("overview")
    panels = page.locator("main > section").evaluate_all("(all) => all.map((one) => one.dataset.panel)")
    assert panels[:3] == ["steps", "utilisation", "findings"], panels
    tops = [page.locator(f"[data-panel={name}]").bounding_box() for name in ("steps", "utilisation", "findings")]
    assert tops[0]["y"] == tops[1]["y"] < 300 and tops[2]["y"] > tops[0]["y"], tops
    explained = dashboard.ask("explain")
    tree = next(tree for tree in explained["steps"] if tree["phase"] == "loop")
    assert tree["path"][0]["message"] in dashboard.text("[data-panel=steps]")
    assert page.locator("[data-panel=utilisation] svg[role=img]").count() >= 1
    # Bounds of all streams of a process together, not those of one of them.
    page = dashboard.open("processes")
    streams = {}
    for row in dashboard.ask("gpu_time")["rows"]:
        streams.setdefault(row["pid"], []).append(row)
    for pid, rows in streams.items():
        upper = min(100, sum(row["busy_upper_pct"] or 0 for row in rows))
        text = page.locator("[data-panel=processes] tbody tr").filter(has_text=f"[{pid}]").first.inner_text()
        shown = next(line for line in text.replace("\t", "\n").splitlines() if " – " in line and "%" in line)
        assert abs(number(shown.split(" – ")[1]) - upper) < 1, (shown, upper)
        assert f"{len(rows)} stream" in text, text
    dashboard.close()


def links_keep_the_time(chromium, base):
    dashboard = Dashboard(chromium, base)
    page = dashboard.open("timeline")
    canvas = page.get_by_role("application", name="Timeline")
    canvas.press("+")
    dashboard.until("location.hash.includes('from=')")
    dashboard.loaded()
    span = dict(part.split("=") for part in page.url.split("?")[1].split("&"))
    for view in ["operations", "stacks", "processes", "overview", "timeline"]:
        page.locator(f"nav a[href^='#{view}']").click()
        dashboard.until("(view) => document.querySelector('main').dataset.view === view", view)
        dashboard.loaded()
        assert f"from={span['from']}" in page.url and f"to={span['to']}" in page.url, page.url
        if view == "operations":
            rows = dashboard.ask("operations", from_ns=span["from"], to_ns=span["to"])["rows"]
            assert page.locator("[data-panel=operations] tbody tr").count() == len(rows)
            assert sum(row["count"] for row in rows) < sum(row["count"] for row in dashboard.ask("operations")["rows"])
    page.locator("[data-key=range]").click()
    dashboard.until("!location.hash.includes('from=')")
    dashboard.close()


def waits_stand_under_their_thread_and_others_are_folded(chromium, base):
    dashboard = Dashboard(chromium, base)
    page = dashboard.open("timeline")
    tracks = dashboard.ask("timeline", tracks=80)["tracks"]
    main = {track["pid"] for track in tracks if track["kind"] in ("stream", "rank")}
    others = {track["pid"] for track in tracks if track["pid"] is not None} - main
    canvas = page.get_by_role("application", name="Timeline")
    fold = page.locator("[data-key=fold]")
    if not others:
        assert fold.is_hidden()
    else:
        folded = canvas.bounding_box()["height"]
        assert fold.get_attribute("aria-expanded") == "false" and str(len(others)) in fold.inner_text()
        fold.click()
        assert fold.get_attribute("aria-expanded") == "true" and "open=all" in page.url
        dashboard.until("(before) => document.querySelector('canvas').getBoundingClientRect().height > before", folded)
        fold.click()
        dashboard.until("(before) => document.querySelector('canvas').getBoundingClientRect().height === before", folded)
    # Down from a thread's calls lie its waits.
    with_waits = [track["tid"] for track in tracks if track["kind"] == "waits" and track["pid"] in main]
    called = [track for track in tracks if track["kind"] == "thread" and track["tid"] in with_waits and track["tid"] == track["pid"]]
    if called:
        for _ in range(12):
            canvas.press("ArrowDown")
            if f"calls of thread {called[0]['name']}" in dashboard.text("section[aria-label=Details]"):
                break
        canvas.press("ArrowDown")
        assert f"waits of {called[0]['name']}" in dashboard.text("section[aria-label=Details]"), dashboard.text("section[aria-label=Details]")
    dashboard.close()


def sql_is_asked_and_copied(chromium, base):
    dashboard = Dashboard(chromium, base)
    page = dashboard.open("sql")
    field = page.get_by_label("SQL statement")
    field.fill("SELECT op, count FROM op_summary ORDER BY count DESC")
    field.press("Control+Enter")
    page.wait_for_selector("table")
    rows = sorted(dashboard.ask("operations")["rows"], key=lambda row: -row["count"])
    assert page.locator("section[aria-label=Console] tbody tr").first.locator("th, td").all_inner_texts() == [rows[0]["op"], str(rows[0]["count"])]
    field.fill("SELECT '=1+1' AS a, '-2' AS b, '@x' AS c, 'a,\"b' AS d, 1794749628511085510 AS e, char(13) || '=1' AS f, '\"12345678901234567890' AS g")
    page.get_by_role("button", name="Run").click()
    page.wait_for_selector("text=1794749628511085510")
    page.get_by_role("button", name="Copy as CSV").click()
    page.wait_for_selector("text=Copied.")
    copied = page.evaluate("navigator.clipboard.readText()").replace("\r\n", "\n")
    assert copied.startswith("a,b,c,d,e,f,g\n'=1+1,-2,'@x,\"a,\"\"b\",1794749628511085510,\"'"), copied
    field.fill("DELETE FROM calls")
    field.press("Control+Enter")
    page.wait_for_selector("section[aria-label=Console] .state.error")
    field.fill("SELECT * FROM nosuch")
    field.press("Control+Enter")
    dashboard.until("document.querySelector('section[aria-label=Console] .state.error')?.innerText.includes('nosuch')")
    page.get_by_label("Find a table or column").fill("comm_id_hash")
    assert page.locator(".schema summary").all_inner_texts(), "schema help"
    assert all("comm_id_hash" in text for text in page.locator(".schema details").evaluate_all("(all) => all.map((one) => one.textContent)"))
    # The statement is in the address; opening that runs it.
    dashboard.open("sql?sql=SELECT+41%2B1+AS+answer")
    page.wait_for_selector("section[aria-label=Console] tbody th")
    assert page.locator("section[aria-label=Console] tbody th").inner_text() == "42"
    # The wrong statements were noted by the browser as failed requests.
    dashboard.wrong = [one for one in dashboard.wrong if "400" not in one]
    dashboard.close()


def coverage_processes_and_memory_say_what_the_api_says(chromium, base):
    dashboard = Dashboard(chromium, base)
    dashboard.open("coverage")
    coverage = dashboard.ask("coverage")["coverage"]
    text = dashboard.text()
    assert f"{coverage['lost']:,}\nrecords lost" in text and f"{coverage['sampled']:,}\ncalls counted" in text, text
    assert all(sentence in text for sentence in coverage["degraded"])
    dashboard.open("processes")
    for process in dashboard.ask("processes")["rows"]:
        assert f"{process['comm']}[{process['pid']}]" in dashboard.text() and process["cmdline"] in dashboard.text()
    page = dashboard.open("memory")
    sites = dashboard.ask("series", of="sites")["series"]
    assert page.locator("[data-panel=sites] .legend li").count() == len(sites)
    assert sites[1]["name"] in dashboard.text("[data-panel=sites]")
    dashboard.close()


def keys_lead_everywhere(chromium, base):
    dashboard = Dashboard(chromium, base)
    page = dashboard.open("overview")
    for place, view in enumerate(VIEWS):
        page.keyboard.press(str(place + 1))
        dashboard.until("(view) => document.querySelector('nav [aria-current]')?.getAttribute('href').startsWith(`#${view}`)", arg=view)
    page.keyboard.press("1")
    dashboard.loaded()
    page.keyboard.press("?")
    assert page.locator("dialog").is_visible()
    page.keyboard.press("Escape")
    assert not page.locator("dialog").is_visible()
    # What has the focus can be seen.
    page.locator("nav a").first.focus()
    page.keyboard.press("Tab")
    assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"
    # A chosen theme is kept.
    dark = page.evaluate("getComputedStyle(document.body).backgroundColor")
    page.locator("#theme").click()
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") != dark
    page.reload()
    dashboard.loaded()
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") != dark
    # Times are the reader's; hovering tells them in UTC.
    shown = page.locator("#trace time")
    assert shown.get_attribute("title").endswith("UTC") and shown.inner_text() not in shown.get_attribute("title")
    dashboard.close()


def every_recorded_view(chromium, base, axe):
    every_view_is_there(chromium, base, axe, VIEWS, "· gpuwhy")
    the_overview_answers_at_once(chromium, base)
    operations_are_counted_sorted_and_filtered(chromium, base)
    filters_and_links_hold(chromium, base)
    the_timeline_asks_for_what_is_seen(chromium, base)
    stacks_are_searched_and_entered(chromium, base)
    links_keep_the_time(chromium, base)
    sql_is_asked_and_copied(chromium, base)
    coverage_processes_and_memory_say_what_the_api_says(chromium, base)
    keys_lead_everywhere(chromium, base)


def threads_and_processes(chromium, base):
    """A training loop whose batches come from a worker process, with samples of running code."""
    stacks_open_on_all_time_of_a_thread(chromium, base)
    the_overview_begins_with_the_step_and_the_gpu(chromium, base)
    links_keep_the_time(chromium, base)
    waits_stand_under_their_thread_and_others_are_folded(chromium, base)
