"""The page of `gpuwhy report`, opened from disk."""

from page import serious_of


def opened(chromium, address, **options):
    context = chromium.new_context(**options)
    page = context.new_page()
    wrong, asked = [], []
    page.on("console", lambda message: wrong.append(message.text))
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.on("request", lambda request: asked.append(request.url))
    page.goto(address)
    return context, page, wrong, asked


def plain(chromium, address, axe):
    for width in (400, 1400):
        for scheme in ("light", "dark"):
            context, page, wrong, asked = opened(chromium, address, viewport={"width": width, "height": 900}, color_scheme=scheme)
            assert asked == [address] and not wrong, (asked, wrong)
            wide, room = page.evaluate("[document.documentElement.scrollWidth, innerWidth]")
            assert wide <= room, (width, wide)
            paper = page.evaluate("getComputedStyle(document.body).backgroundColor")
            assert (paper == "rgb(255, 255, 255)") == (scheme == "light"), paper
            assert page.locator("h1").count() == 1 and page.locator("article.finding").count() >= 1
            assert page.locator("svg[role=img]").count() >= 1
            context.close()
            # Its policy runs no script, a test's neither; the same page without the policy is looked at.
            context = chromium.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme, bypass_csp=True)
            page = context.new_page()
            page.goto(address)
            serious = serious_of(page, axe)
            assert not serious, (width, scheme, serious)
            context.close()
    context, page, _, _ = opened(chromium, address, viewport={"width": 1000, "height": 900}, color_scheme="dark")
    page.emulate_media(media="print", color_scheme="dark")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)", "paper is white"
    assert len(page.pdf()) > 10000
    context.close()


def hostile(chromium, address):
    context, page, wrong, asked = opened(chromium, address, viewport={"width": 400, "height": 900})
    assert asked == [address] and not wrong, (asked, wrong)
    assert page.evaluate("window.taken") is None
    assert page.locator("script, img, iframe, link, object, a").count() == 0
    text = page.inner_text("body")
    assert "<script>window.taken=1</script>" in text, "shown as text"
    assert "\u202e" not in text and "\u001b" not in text
    assert "characters more)" in text and max(map(len, text.splitlines())) < 5000, "cut, and said so"
    wide, room = page.evaluate("[document.documentElement.scrollWidth, innerWidth]")
    assert wide <= room, wide
    context.close()
