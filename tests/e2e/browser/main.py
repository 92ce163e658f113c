"""Drives the dashboard: main.py CHROMIUM SCENARIO ADDRESS. Ends with status 0 where all of it held."""

import os
import sys
from pathlib import Path

import axe_playwright_python
import fleet
import others
import report
import views
from page import browser

AXE = next(Path(axe_playwright_python.__file__).parent.rglob("axe.min.js")).read_text()

executable, scenario, base = sys.argv[1:4]
with browser(executable) as chromium:
    match scenario:
        case "recorded":
            views.every_recorded_view(chromium, base, AXE)
        case "findings":
            views.the_overview_answers_at_once(chromium, base)
            views.the_timeline_asks_for_what_is_seen(chromium, base)
            views.waits_stand_under_their_thread_and_others_are_folded(chromium, base)
        case "threads":
            views.threads_and_processes(chromium, base)
        case "ranks":
            others.late_ranks(chromium, base)
        case "hostile":
            others.hostile(chromium, base)
        case "login":
            others.login(chromium, base.rstrip("/"), os.environ["GPUWHY_TOKEN"])
        case "link":
            others.link(chromium, base)
        case "live":
            others.live(chromium, base)
        case "report":
            report.plain(chromium, base, AXE)
        case "report-hostile":
            report.hostile(chromium, base)
        case "fleet":
            fleet.all_of_it(chromium, base, AXE, os.environ["GPUWHY_TOKEN"])
        case "fleet-place":
            fleet.the_place_is_told(chromium, base, os.environ["GPUWHY_TOKEN"])
        case "fleet-tenant":
            fleet.a_tenant(chromium, base, os.environ["GPUWHY_TOKEN"])
        case "fleet-hostile":
            fleet.hostile(chromium, base, os.environ["GPUWHY_TOKEN"])
        case _:
            sys.exit(f"there is no scenario {scenario}")
