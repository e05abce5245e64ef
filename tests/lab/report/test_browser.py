"""One page and one visit of Chromium, offline: nothing fails, every chart can be seen and used, and a phone shows the page."""

import shutil
from itertools import pairwise

import pytest

playwright = pytest.importorskip("playwright.sync_api", reason="no playwright; install it with: pip install playwright")

DESKTOP, PHONE = {"width": 1280, "height": 900}, {"width": 375, "height": 800}
# The page is our own and opened offline: no sandbox and no network access is needed.
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update", "--disable-sync"]
NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


@pytest.fixture(scope="module")
def page(report):
    """The full page, and all that went wrong on it."""
    with playwright.sync_playwright() as started:
        found = next(filter(None, map(shutil.which, NAMES)), None)
        try:
            browser = started.chromium.launch(executable_path=found, args=FLAGS)
        except playwright.Error as error:
            if found is not None:
                raise
            pytest.skip(
                f"no Chromium; install Debian's package chromium or run `playwright install chromium` ({error.message[:60]})"
            )
        page = browser.new_context(viewport=DESKTOP, offline=True).new_page()
        page.complaints = []
        page.on("console", lambda message: page.complaints.append(f"{message.type}: {message.text}"))
        page.on("pageerror", lambda error: page.complaints.append(str(error)))
        page.on("request", lambda request: page.complaints.append(request.url) if request.url.startswith("http") else None)
        page.goto(report.page.as_uri())
        yield page
        browser.close()


def draw_all(page) -> None:
    """Scroll to each chart: a chart is drawn when it comes near the viewport."""
    for box in page.query_selector_all(".chart"):
        box.scroll_into_view_if_needed()
    page.wait_for_function("document.querySelectorAll('.chart:not([data-drawn])').length === 0", timeout=60_000)


@pytest.mark.parametrize("size", [DESKTOP, PHONE], ids=["desktop", "phone"])
def test_every_chart_is_drawn_and_the_page_fits_the_width_of_the_window(page, size):
    page.set_viewport_size(size)
    page.wait_for_timeout(100)
    draw_all(page)
    assert page.complaints == []
    sizes = page.evaluate(
        """() => Object.fromEntries([...document.querySelectorAll('.chart')].map((box) => {
            const {width, height} = box.querySelector('svg, canvas').getBoundingClientRect();
            return [box.id, [width, height, box.querySelectorAll('svg path').length]];
        }))"""
    )
    assert len(sizes) > 15
    for name, (width, height, marks) in sizes.items():
        assert 0.6 * size["width"] < width <= size["width"], name
        assert 100 < height < 1600, name
        assert marks > 10 or name.endswith("raster"), name
    assert page.evaluate("document.documentElement.scrollWidth") <= size["width"]
    beyond = "[...document.querySelectorAll('body *')].filter((e) => e.getBoundingClientRect().right > innerWidth + 1)"
    assert page.evaluate(f"{beyond}.filter((e) => !e.closest('.scroll, svg')).map((e) => e.outerHTML.slice(0, 80))") == []


def test_on_a_phone_the_names_of_bars_are_apart(page):
    lines = page.evaluate(
        """() => [...document.querySelectorAll('#frequency-bars .role-axis-label text')]
            .flatMap((text) => text.children.length ? [...text.children] : [text])
            .filter((line) => /[a-z]/.test(line.textContent))
            .map((line) => { const {top, left, right} = line.getBoundingClientRect(); return [Math.round(top), left, right]; })"""
    )
    assert len(lines) == 6
    for (top, _, right), (other, left, _) in pairwise(sorted(lines)):
        assert top != other or left - right > 8


def test_on_a_phone_tables_scroll_by_themselves_and_text_can_be_read(page):
    assert page.evaluate("[...document.querySelectorAll('.scroll')].some((box) => box.scrollWidth > box.clientWidth)")
    sizes = "[...document.querySelectorAll('p, td, li, svg text')].map((e) => parseFloat(getComputedStyle(e).fontSize))"
    assert page.evaluate(f"Math.min(...{sizes})") >= 11


def test_a_choice_changes_what_is_drawn_and_a_name_of_a_legend_singles_out_its_lines_and_lets_the_others_back(page):
    dots = "document.querySelector('#frequency-gates .mark-symbol path').getAttribute('transform')"
    before = page.evaluate(dots)
    page.select_option("#frequency-gates select", label="Phased LSTM, leak 0, standard")
    page.wait_for_function(f"{dots} !== '{before}'")
    lines = "[...document.querySelectorAll('#frequency-learning .mark-line path')]"
    faint = f"{lines}.filter((line) => Number(line.getAttribute('opacity')) < 0.5).length"
    assert page.evaluate(faint) == 0
    name = page.locator("#frequency-learning .role-legend-label text").nth(2)
    name.click(force=True)  # Vega finds what is below the pointer itself
    page.wait_for_function(f"{faint} === 9")  # of four lines in each of three panels, one stays
    name.click(force=True)
    page.wait_for_function(f"{faint} === 0")
    assert page.complaints == []
