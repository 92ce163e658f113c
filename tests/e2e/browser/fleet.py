"""The fleet's dashboard: a server that simulated agents push to, one job with a straggler and one that hangs, and a node that went silent."""

import os
import re

from page import Dashboard, every_view_is_there

VIEWS = ["overview", "job", "hangs", "nodes", "cost", "events", "sql"]
#: What was planted, as the test wrote it: "JOB RANK" of the straggler and of the hang.
PLANTED = {"straggler": os.environ.get("GPUWHY_STRAGGLER", "").split(), "hang": os.environ.get("GPUWHY_HANG", "").split()}


def all_of_it(chromium, base, axe, token):
    login(chromium, base, token)
    the_overview_answers_at_once(chromium, base, token)
    every_view_is_there(chromium, base, axe, VIEWS, "· gpuwhy fleet", token)
    the_job_shows_its_ranks(chromium, base, token)
    the_hang_has_its_stack(chromium, base, token)
    cost_and_events_say_what_the_api_says(chromium, base, token)
    sql_reads_and_shows(chromium, base, token)
    it_stays_up_to_date(chromium, base, token)
    keys_lead_everywhere(chromium, base, token)
    the_silent_node_is_told(chromium, base, token)


def login(chromium, base, token):
    dashboard = Dashboard(chromium, base)
    page = dashboard.page
    page.goto(f"{dashboard.base}/#nodes?sort=node_id")
    assert page.title() == "gpuwhy fleet: log in" and "silent" not in page.inner_text("body").lower()
    dashboard.show_token("not the token, but as long")
    page.wait_for_selector("text=That is no token of this server.")
    dashboard.show_token(token)
    page.wait_for_selector("[data-panel=nodes] table")
    # The link that was asked for is shown; the token is in no address and in no store that scripts see.
    assert page.url.endswith("#nodes?sort=node_id"), page.url
    assert not any(token in url for url in [page.url, *dashboard.asked])
    assert token not in page.evaluate("document.cookie + JSON.stringify({...localStorage}) + JSON.stringify({...sessionStorage})")
    cookie = dashboard.context.cookies()[0]
    assert cookie["httpOnly"] and cookie["sameSite"] == "Strict" and "gpuwhy-fleet" in cookie["name"], cookie
    # A session that ended asks for the token again, and so does who logged out.
    dashboard.context.clear_cookies()
    page.wait_for_selector("#token")
    dashboard.show_token(token)
    page.wait_for_selector("[data-panel=nodes] table")
    page.get_by_role("button", name="Log out").click()
    page.wait_for_selector("#token")
    dashboard.wrong = [one for one in dashboard.wrong if "401" not in one]
    dashboard.close()


def the_overview_answers_at_once(chromium, base, token):
    dashboard = Dashboard(chromium, base, token)
    page = dashboard.open("overview")
    dashboard.until("document.querySelectorAll('details.finding').length >= 2")
    told = dashboard.text("[data-panel=figures]")
    planted = "job {} hangs because of rank {}, rank {} drags job {}".format(*PLANTED["hang"], *reversed(PLANTED["straggler"]))
    assert planted in told.lower(), told
    # The hang comes first, then the straggler; both say who and since when, on the first screen.
    job, rank = PLANTED["hang"]
    hang = page.locator("details.finding.critical").first
    assert f"Job {job} hangs in collective" in hang.locator("> summary").inner_text()
    assert f"rank {rank} on" in hang.locator("> summary").inner_text()
    assert re.search(r"\w+\.py:\d+", hang.locator(".answers").inner_text())
    assert hang.bounding_box()["y"] < 900
    job, rank = PLANTED["straggler"]
    slow = page.locator("details.finding.high").first
    summary, answers = slow.locator("> summary").inner_text(), slow.locator(".answers").inner_text()
    assert f"Rank {rank} on" in summary and f"drags job {job}" in summary and "for " in summary, summary
    verdict = next(one for one in dashboard.tool("find_outlier_nodes")["verdicts"] if one["kind"] == "straggler")
    assert (verdict["job"], verdict["rank"]) == (job, int(rank)), verdict
    for part in ["cpu.preempted", "ago", "train.py:142 forward", "pin the loader", "GPU-h"]:
        assert part in answers, (part, answers)
    # Jobs as strips: the rank is marked, and the strip says it in words.
    strip = page.locator(f"[data-panel=jobs] li:has(a[href*='{job}']) .strip")
    assert f"rank {rank} drags the others" in strip.get_attribute("aria-label")
    assert strip.locator(".cell.slow").inner_text() == f"▲{rank}"
    assert strip.locator(".cell").count() == 8
    # From there to the job, by the keyboard.
    slow.get_by_role("link", name="The job and its ranks").press("Enter")
    dashboard.until("document.querySelector('main').dataset.view === 'job'")
    assert f"job={job}" in page.url
    dashboard.close()


def the_job_shows_its_ranks(chromium, base, token):
    dashboard = Dashboard(chromium, base, token)
    job, rank = PLANTED["straggler"]
    page = dashboard.open(f"job?cluster=load&job={job}")
    page.wait_for_selector("[data-panel=ranks] tbody tr")
    rows = page.locator("[data-panel=ranks] tbody tr")
    assert rows.count() == 8
    worst = rows.first.locator("th, td").all_inner_texts()
    assert worst[0] == f"rank {rank}" and "drags the others" in worst[2], worst
    own = [row.locator("td").nth(3).inner_text() for row in rows.all()]
    assert all(re.fullmatch(r"[\d.]+ (ms|s)", value) for value in own), own
    # Sorted by a click, and the address says so.
    page.locator("[data-key=sort-rank]").click()
    dashboard.until("document.querySelector('[data-panel=ranks] tbody th')?.innerText === 'rank 0'")
    assert "sort=rank" in page.url
    canvas = page.get_by_role("application", name="Arrival of 8 ranks at 16 collectives")
    canvas.press("ArrowRight")
    assert re.search(r"Rank 0, collective \d+ \(\w+\): ", dashboard.text("[data-panel=arrivals]"))
    assert f"Rank {rank} on" in dashboard.text("[data-panel=arrivals] .verdict")
    assert page.locator("[data-panel=waits] tbody tr").first.locator("td").first.inner_text() == f"rank {rank}"
    clocks = dashboard.text("[data-panel=clocks]")
    assert "reference" in clocks and re.search(r"-?[\d.]+ (ms|s)", clocks), clocks
    # A job that is not there says so and lets one choose.
    dashboard.open("job?job=no-such-job")
    assert "No rank of this job" in dashboard.text()
    page.get_by_label("Job").select_option(label=f"{job} of load")
    page.wait_for_selector("[data-panel=ranks] tbody tr")
    dashboard.close()


def the_hang_has_its_stack(chromium, base, token):
    dashboard = Dashboard(chromium, base, token)
    job, rank = PLANTED["hang"]
    page = dashboard.open("hangs")
    card = page.locator("details.finding").first
    told = card.inner_text()
    assert f"rank {rank}" in told.lower() and f"Job {job}" in told, told
    assert re.search(r"\w+\.py:\d+ \w+", told), told
    card.get_by_text("ranks wait in collective").click()
    assert card.locator("tbody tr").count() >= 6, told
    dashboard.close()


def cost_and_events_say_what_the_api_says(chromium, base, token):
    dashboard = Dashboard(chromium, base, token)
    page = dashboard.open("cost")
    cost = dashboard.tool("get_cost")
    assert "$" in dashboard.text(".figures") and cost["dollars"] is not None
    assert "rank.straggler" in dashboard.text("[data-panel=by_cause]")
    sure = [one for one in cost["counterfactuals"] if one["gpu_hours_low"] > 0]
    assert page.locator("[data-panel=saved]").is_visible() == bool(sure), sure
    page = dashboard.open("events")
    assert "rank.straggler" in dashboard.text() and "rank.hang" in dashboard.text()
    page.get_by_label("Class").fill("rank.hang")
    page.get_by_role("button", name="Show").click()
    dashboard.until("!document.querySelector('[data-panel=events]').innerText.includes('rank.straggler')")
    assert "class=rank.hang" in page.url
    page = dashboard.open("events?kind=all&metric=gpuwhy.rank.health&rank=3")
    ranks = page.locator("[data-panel=events] tbody tr td:nth-child(6)").all_inner_texts()
    assert ranks and set(ranks) == {"3"}, ranks
    dashboard.open("nodes")
    assert "pushes taken" in dashboard.text("[data-panel=server]")
    dashboard.close()


def sql_reads_and_shows(chromium, base, token):
    dashboard = Dashboard(chromium, base, token)
    page = dashboard.open("sql?sql=SELECT+count(DISTINCT+rank)+AS+ranks+FROM+events+WHERE+rank+IS+NOT+NULL")
    page.wait_for_selector("[aria-label=Console] tbody tr")
    assert page.locator("[aria-label=Console] tbody tr").inner_text().strip() == "8"
    assert "collectives" in dashboard.text("[data-panel=schema]")
    field = page.get_by_label("SQL statement")
    field.fill("DROP TABLE events")
    field.press("Control+Enter")
    page.wait_for_selector("[aria-label=Console] .state.error")
    dashboard.wrong = [one for one in dashboard.wrong if "400" not in one]
    dashboard.close()


def it_stays_up_to_date(chromium, base, token):
    """Agents push: what is shown changes by itself, who is at something stays there, and nobody asks while nobody looks."""
    dashboard = Dashboard(chromium, base, token)
    page = dashboard.open("nodes")
    dashboard.until("/Live · updated/.test(document.getElementById('age').innerText)")
    page.locator("[data-key=sort-node_id]").focus()
    rows = "Number(document.querySelector('[data-panel=server] dt:nth-child(1)').innerText.replaceAll(',', ''))"
    first = page.evaluate(rows)
    dashboard.until(f"({rows}) > {first}")
    assert page.evaluate("document.activeElement.dataset.key") == "sort-node_id"
    asked = len(dashboard.asked)
    page.wait_for_timeout(5000)
    more = len(dashboard.asked) - asked
    assert 4 <= more <= 25, f"{more} requests in 5 s"
    dashboard.close()


def keys_lead_everywhere(chromium, base, token):
    dashboard = Dashboard(chromium, base, token)
    page = dashboard.open("overview")
    for at, view in enumerate(VIEWS):
        page.keyboard.press(str(at + 1))
        dashboard.until("(view) => document.querySelector('main').dataset.view === view", view)
        page.evaluate("document.activeElement.blur()")
    page.keyboard.press("?")
    assert "Overview" in page.get_by_role("dialog").inner_text()
    page.keyboard.press("Escape")
    dashboard.close()


def the_silent_node_is_told(chromium, base, token):
    """It spoke when the test began, and a node is silent after a minute."""
    dashboard = Dashboard(chromium, base, token)
    page = dashboard.open("overview")
    dashboard.until("/node silent-node is silent/i.test(document.querySelector('[data-panel=figures]').innerText)", patience=90)
    assert "silent-node of load has not been heard of for" in dashboard.text("[data-panel=silent]")
    page = dashboard.open("nodes")
    assert "silent-node" in page.locator("[data-panel=nodes] tbody tr").first.inner_text(), "the silent one first"
    dashboard.close()


def the_place_is_told(chromium, base, token):
    dashboard = Dashboard(chromium, base, token)
    dashboard.open("overview")
    dashboard.until("/Where\\s+loader.py:61 next_batch 5% of its time, its peers 0%/.test(document.querySelector('details.finding.high')?.innerText)")
    dashboard.close()


def a_tenant(chromium, base, token):
    """A token of one cluster, without SQL: it sees its own and no console."""
    dashboard = Dashboard(chromium, base, token)
    page = dashboard.open("nodes")
    assert page.locator("nav a").all_inner_texts() == ["Overview", "Job", "Hangs", "Nodes", "Cost", "Events"]
    assert "b-node" in dashboard.text() and "a-node" not in page.inner_text("body")
    assert page.locator("[data-panel=server]").is_hidden()
    dashboard.open("sql")
    dashboard.until("document.querySelector('main').dataset.view === 'overview'")
    dashboard.close()


def hostile(chromium, base, token):
    """Names of nodes, jobs, clusters, findings and frames that want to be a page."""
    dashboard = Dashboard(chromium, base, token, viewport={"width": 380, "height": 780})
    seen = ""
    for view in [*VIEWS, "events?kind=all"]:
        page = dashboard.open(view)
        page.evaluate("document.querySelectorAll('main details').forEach((one) => { one.open = true; })")
        text = dashboard.text("body")
        seen += text
        assert page.evaluate("window.taken") is None
        assert page.locator("main img, main script, main iframe").count() == 0, view
        assert "\u202e" not in text and "\u001b" not in text, view
        wide, room = dashboard.widths()
        assert wide <= room, (view, wide)
    assert "<img src=x onerror" in seen and "⟨U+202E⟩" in seen, seen
    dashboard.close()
