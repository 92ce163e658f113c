"""Makes the pictures of docs/screenshots: screenshots.py CHROMIUM FOLDER NAME=ADDRESS..., with dashboards that run on the recording
`loader-cpu` (crates/query/tests/recordings) and on the demos `h200-item` and `late-rank`; as `report` the page that `gpuwhy report` makes of
`loader-cpu` (file://...); and as `fleet` one that `gpuwhy-fleet load` pushes to, its token in GPUWHY_TOKEN. Pictures of names that are not
given stay as they are."""

import os
import sys
from pathlib import Path

try:
    from PIL import Image
except ImportError:
    # The pictures are larger, then.
    Image = None

from page import Dashboard, browser

PICTURES = [
    ("overview", "loader-cpu", "overview", {"viewport": {"width": 1200, "height": 960}}),
    ("overview-dark", "late-rank", "overview", {"color_scheme": "dark"}),
    ("timeline", "loader-cpu", "timeline", {"viewport": {"width": 1200, "height": 1150}}),
    ("stacks", "loader-cpu", "stacks", {}),
    ("collectives", "late-rank", "collectives", {}),
    ("memory-dark", "h200-item", "memory", {"color_scheme": "dark"}),
    ("phone", "loader-cpu", "overview", {"viewport": {"width": 380, "height": 900}}),
    ("phone-timeline-dark", "loader-cpu", "timeline", {"viewport": {"width": 380, "height": 900}, "color_scheme": "dark"}),
    ("fleet-overview", "fleet", "overview", {"viewport": {"width": 1200, "height": 1320}}),
    ("fleet-job", "fleet", "job?cluster=load&job=load-0", {"viewport": {"width": 1200, "height": 1290}}),
]



def save(page, folder, name):
    path = Path(folder) / f"{name}.png"
    page.screenshot(path=path)
    if Image:
        Image.open(path).convert("RGB").quantize(256, method=Image.Quantize.MAXCOVERAGE).save(path, optimize=True)


executable, folder, *given = sys.argv[1:]
addresses = dict(one.split("=", 1) for one in given)
with browser(executable) as chromium:
    if "report" in addresses:
        page = chromium.new_context(viewport={"width": 1000, "height": 1100}).new_page()
        page.goto(addresses["report"])
        save(page, folder, "report")
    for name, trace, view, options in PICTURES:
        if trace not in addresses:
            continue
        token = os.environ["GPUWHY_TOKEN"] if trace == "fleet" else None
        dashboard = Dashboard(chromium, addresses[trace], token, **{"viewport": {"width": 1200, "height": 900}, **options})
        page = dashboard.open(view)
        if view == "timeline":
            canvas = page.get_by_role("application", name="Timeline")
            for key in ["ArrowDown", "ArrowDown", "ArrowDown", "n"]:
                canvas.press(key)
            page.evaluate("document.activeElement.blur()")
        # A fleet's is never idle.
        page.wait_for_timeout(6000) if token else page.wait_for_load_state("networkidle")
        page.wait_for_timeout(300)
        page.evaluate("scrollTo(0, 0)")
        save(page, folder, name)
        dashboard.close()
