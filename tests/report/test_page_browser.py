"""The HTML page in a real browser: sorting, filters, the gallery by mouse and by keyboard, names that stay text."""

import shutil

import pytest
from frames import collected
from matplotlib.figure import Figure
from test_page import IMAGE, QUOTES, SCRIPT, hostile

from counteredge.report.page import write_page

playwright = pytest.importorskip("playwright.sync_api", reason="needs playwright")
CHROMIUM = shutil.which("chromium")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="needs Debian's chromium")
ARGS = ("--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking",
        "--disable-component-update", "--disable-sync")  # fmt: skip
# of a colour "rgb(r, g, b)" as WCAG 2 has it, and of the text of an element against what lies behind it
CONTRAST = """element => {
  const channels = (c) => c.match(/[\\d.]+/g).map(Number);
  const light = (c) => channels(c).slice(0, 3).map((v) => v / 255)
    .map((v) => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
    .reduce((sum, v, k) => sum + v * [0.2126, 0.7152, 0.0722][k], 0);
  let behind = element;
  while (behind && (channels(getComputedStyle(behind).backgroundColor)[3] ?? 1) === 0) behind = behind.parentElement;
  const ground = getComputedStyle(behind || document.body).backgroundColor;
  const [a, b] = [getComputedStyle(element).color, ground].map(light);
  return (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
}"""


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pages")
    found = collected()
    found.instances.loc[found.instances["dataset"] == "MUTAG", "ged"] *= 10  # 300 comes after 31
    figures = [("First figure", Figure((4, 3))), (IMAGE, Figure((4, 3)))]
    return {
        "plain": write_page(found, folder / "plain.html", figures=figures[:1]),
        "hostile": write_page(hostile(), folder / "hostile.html", title=SCRIPT, figures=figures),
    }


@pytest.fixture(scope="module")
def browser():
    with playwright.sync_playwright() as p:
        chromium = p.chromium.launch(executable_path=CHROMIUM, args=list(ARGS))
        yield chromium
        chromium.close()


@pytest.fixture
def opened(browser, files):
    """Opens a page; afterwards nothing must have gone wrong on any, and nothing been fetched."""
    contexts, wrong = [], []

    def opener(name="plain", width=1280, height=900, **options):
        context = browser.new_context(viewport={"width": width, "height": height}, **options)
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(5000)
        page.on("console", lambda m: wrong.append(f"console {m.type}: {m.text}"))
        page.on("pageerror", lambda e: wrong.append(f"error: {e}"))
        page.on("dialog", lambda d: (wrong.append(f"dialog: {d.message}"), d.dismiss()))
        page.on("request", lambda r: None if r.url.startswith(("file:", "data:")) else wrong.append(r.url))
        page.on("request", lambda r: wrong.append(r.url) if r.url.startswith("file:") and r.url != url else None)
        url = files[name].as_uri()
        page.goto(url)
        return page

    yield opener
    for context in contexts:
        context.close()
    assert wrong == []


def column(page, title):
    """Values of a column of the main table as they stand, ``None`` for a dash; hidden rows left out."""
    return page.evaluate(
        """title => {
          const table = document.querySelector("#main");
          const heads = [...table.tHead.rows[0].cells];
          const k = heads.findIndex((h) => h.querySelector("button").textContent === title);
          return [...table.tBodies[0].rows].filter((r) => r.offsetParent !== null).map((r) => {
            const text = r.cells[k].innerText.trim().split(/[\\n★]/)[0].trim();
            return text === "–" ? null : text;
          });
        }""",
        title,
    )


def head(page, title):
    return page.locator("#main thead th").filter(has=page.get_by_role("button", name=title, exact=True))


def arrow(page, title):
    return head(page, title).locator("button").evaluate("b => getComputedStyle(b, '::after').content")


@pytest.mark.parametrize("press", ["click", "Enter", "Space"])
def test_sorting(opened, press):
    page = opened()
    before = column(page, "GED")
    values = sorted(float(v) for v in before if v is not None)
    dashes = [None] * before.count(None)
    assert len(dashes) == 3  # CF2
    assert values != [float(v) for v in before if v is not None]
    assert head(page, "GED").get_attribute("aria-sort") == "none"

    def sort(title):
        button = head(page, title).locator("button")
        if press == "click":
            button.click()
        else:
            button.focus()
            page.keyboard.press(press)

    seen = {arrow(page, "GED")}
    for direction, expected in (("ascending", values), ("descending", values[::-1]), ("ascending", values)):
        sort("GED")
        assert head(page, "GED").get_attribute("aria-sort") == direction
        seen.add(arrow(page, "GED"))
        shown = column(page, "GED")
        assert [v if v is None else float(v) for v in shown] == expected + dashes
    assert len(seen) == 3  # one for each state
    sort("Method")
    assert head(page, "GED").get_attribute("aria-sort") == "none"
    methods = column(page, "Method")
    assert methods == sorted(methods, key=str.lower)
    sort("Validity (%)")
    shares = [v for v in column(page, "Validity (%)") if v is not None]
    assert [float(v) for v in shares] == sorted(float(v) for v in shares)  # 100.0 after 23.3, not as text
    assert len(set(shares)) > 5


def test_filters(opened):
    page = opened()
    status = page.get_by_role("status")
    assert status.inner_text() == "21 rows"
    page.get_by_label("Search").fill("xplore  FREEDOM")
    assert column(page, "Method") == ["XPlore (paper, freedom)"] * 3
    assert status.inner_text() == "3 of 21 rows"
    page.get_by_role("combobox", name="Dataset").select_option(label="MUTAG")
    assert column(page, "Dataset") == ["MUTAG"]
    head(page, "GED").locator("button").click()
    assert column(page, "Dataset") == ["MUTAG"]  # sorting keeps the filter
    page.get_by_label("Search").fill("nothing")
    assert column(page, "Dataset") == []
    assert status.inner_text() == "0 of 21 rows"
    page.get_by_label("Search").fill("")
    assert len(column(page, "Dataset")) == 7


def test_gallery_by_mouse(opened):
    page = opened()
    dialog = page.locator("#detail")
    assert page.locator(".thumb:visible").count() == 14  # the first dataset is open
    playwright.expect(page.locator(".thumb:visible svg")).to_have_count(14)
    page.locator("summary", has_text="BZR").click()
    playwright.expect(page.locator(".thumb:visible svg")).to_have_count(28)
    page.locator(".thumb:visible").nth(1).click()
    assert dialog.is_visible()
    assert page.locator("#detail-title").inner_text() == "Tree-Cycles, graph 0"
    panes = dialog.locator(".pane")
    assert panes.nth(0).locator("circle").count() == panes.nth(1).locator("circle").count() == 5
    assert panes.nth(0).locator("path.removed").count() == 0
    assert panes.nth(1).locator("path.removed").count() == 1
    assert dialog.locator(".edits li").all_inner_texts() == ["-edge (0, 1)"]
    assert "class 1 (p=1.00)" in panes.nth(0).inner_text()
    assert "class 0 (p=1.00)" in panes.nth(1).inner_text()
    for text in ("xplore, preset minimal", "One-minimal\nyes", "Oracle calls\n5 forward"):
        assert text in dialog.inner_text(), text
    places = [
        p.locator("circle").evaluate_all("cs => cs.map((c) => [c.cx.baseVal.value, c.cy.baseVal.value])")
        for p in (panes.nth(0), panes.nth(1))
    ]
    assert places[0] == places[1]
    assert len({tuple(p) for p in places[0]}) == 5
    page.get_by_role("button", name="Next").click()
    assert page.locator("#detail-title").inner_text() == "Tree-Cycles, graph 1"
    chosen = dialog.get_by_label("Method")
    assert chosen.locator("option:checked").inner_text() == "CF-GNNExplainer"  # stays chosen
    assert dialog.locator("path.added").count() == 1
    chosen.select_option(label="CF2")
    assert "Not found: the prediction did not depend on edges" in dialog.inner_text()
    assert page.locator("#detail-title").inner_text() == "Tree-Cycles, graph 1"
    for _ in range(2):
        page.get_by_role("button", name="Previous").click()
    assert page.locator("#detail-title").inner_text() == "BZR, graph 1"  # round and round
    dialog.get_by_role("button", name="Close").click()
    assert not dialog.is_visible()


def test_gallery_by_keyboard(opened):
    page = opened()
    dialog, thumb = page.locator("#detail"), page.locator(".thumb").nth(2)
    thumb.focus()
    page.keyboard.press("Enter")
    assert dialog.is_visible()
    assert dialog.evaluate("d => d.contains(document.activeElement)")
    titles = []
    for press in ("ArrowRight", "ArrowRight", "ArrowRight", "ArrowLeft", "ArrowLeft", "ArrowLeft", "ArrowLeft"):
        page.keyboard.press(press)
        titles.append(page.locator("#detail-title").inner_text())
    assert titles == [
        "Tree-Cycles, graph 1", "MUTAG, graph 0", "MUTAG, graph 1", "MUTAG, graph 0", "Tree-Cycles, graph 1",
        "Tree-Cycles, graph 0", "BZR, graph 1",
    ]  # fmt: skip
    dialog.get_by_label("Method").focus()
    page.keyboard.press("ArrowRight")  # the list of methods keeps its keys
    assert page.locator("#detail-title").inner_text() == "BZR, graph 1"
    assert dialog.get_by_label("Method").locator("option:checked").inner_text() == "XPlore (paper, freedom)"
    for _ in range(12):  # focus stays inside
        page.keyboard.press("Tab")
        assert dialog.evaluate("d => d.contains(document.activeElement) || document.activeElement === document.body")
    page.keyboard.press("Escape")
    assert not dialog.is_visible()
    assert thumb.evaluate("t => t === document.activeElement")


def test_figures_open(opened):
    page = opened()
    button, zoom = page.get_by_role("button", name="Enlarge: First figure"), page.locator("#zoom")
    button.focus()
    page.keyboard.press("Enter")
    assert zoom.is_visible()
    image = zoom.locator("img")
    assert image.get_attribute("alt") == "First figure"
    assert image.evaluate("i => i.complete && i.naturalWidth") == 520
    page.keyboard.press("Escape")
    assert not zoom.is_visible()
    assert button.evaluate("b => b === document.activeElement")


def test_skip_link(opened):
    page = opened()
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to the results"
    assert page.locator(".skip").bounding_box()["x"] >= 0
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "results"


def test_hostile_names_stay_text(opened):
    page = opened("hostile")
    assert page.title() == SCRIPT
    page.get_by_role("combobox", name="Dataset").select_option(label=IMAGE)
    assert set(column(page, "Dataset")) == {IMAGE}
    assert column(page, "Method")[0] == SCRIPT
    page.locator("summary", has_text="img").click()
    page.locator(".group", has_text="img").locator(".thumb").first.click()
    dialog = page.locator("#detail")
    seen = []
    for _ in range(4):
        seen.append(dialog.evaluate("d => d.textContent"))
        page.keyboard.press("ArrowLeft")
    text = "".join(seen)
    assert all(name in text for name in (IMAGE, SCRIPT, QUOTES, f"x[0]: {QUOTES} -> {IMAGE}"))
    methods = dialog.locator("option").evaluate_all("os => os.map((o) => o.textContent)")
    assert {SCRIPT, QUOTES} <= set(methods)
    page.keyboard.press("Escape")
    page.get_by_role("button", name="Enlarge").nth(1).click()
    assert page.locator("#zoom-caption").evaluate("c => c.textContent") == IMAGE
    page.wait_for_timeout(100)  # an image that fails would have called its handler by now
    assert page.evaluate("window.__hacked") is None
    assert page.locator("script").count() == 2
    assert page.locator("[onerror], [onclick], img[src='x']").count() == 0


def test_policy_stops_what_would_be_injected(opened, browser, files):
    """The policy is one that browsers heed: markup put in by hand runs nothing and loads nothing."""
    context = browser.new_context()
    page = context.new_page()
    refused = []
    page.on("console", lambda m: refused.append(m.text))
    page.goto(files["plain"].as_uri())
    page.evaluate(
        """() => {
          const s = document.createElement("script");
          s.textContent = "window.__hacked = 1";
          document.body.append(s);
          const image = '<img src="http://127.0.0.1:9/x.png" onerror="window.__hacked=2">';
          document.body.insertAdjacentHTML("beforeend", image);
        }"""
    )
    page.wait_for_timeout(100)
    assert page.evaluate("window.__hacked") is None
    assert sum("Content Security Policy" in text for text in refused) >= 2
    context.close()


@pytest.mark.parametrize("name", ["plain", "hostile"])
def test_phone(opened, name):
    page = opened(name, 360, 740, is_mobile=True, has_touch=True)

    def widths():
        return page.evaluate("[document.documentElement.scrollWidth, document.documentElement.clientWidth]")

    assert widths() == [360, 360]
    box = page.locator(".box").first
    assert box.evaluate("b => b.scrollWidth > b.clientWidth")  # the table scrolls inside
    page.locator("summary").last.tap()
    page.locator(".thumb:visible").last.tap()
    dialog = page.locator("#detail")
    assert dialog.is_visible()
    assert dialog.evaluate("d => d.scrollWidth <= d.clientWidth")
    assert dialog.bounding_box()["width"] <= 360
    assert widths() == [360, 360]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_contrast(opened, scheme):
    page = opened(color_scheme=scheme)
    ground = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (ground == "rgb(255, 255, 255)") == (scheme == "light")
    page.locator(".thumb").first.click()
    texts = ("body", "h1", ".note", ".facts dt", "nav a", "#shown", "thead button", "thead small", "td.number",
             "td:has(.star) strong", "td:has(.star) small", ".warn", ".control td", "pre", "figcaption", "h4 small",
             ".thumb .state", "#detail h2", "#detail dt", "#detail .edits li", "#next", "#detail-method")  # fmt: skip
    for selector in texts:
        assert page.locator(selector).first.evaluate(CONTRAST) >= 4.5, selector


def test_print_shows_every_picture(opened):
    page = opened()
    page.emulate_media(media="print")
    page.evaluate("window.dispatchEvent(new Event('beforeprint'))")
    assert page.locator(".thumb svg").count() == page.locator(".thumb:visible").count() == 40
    assert page.locator(".controls").is_hidden()
    assert page.locator(".box").first.evaluate("b => getComputedStyle(b).overflow") == "visible"
