"""The page in Chromium, offline: nothing fails, charts are there to be seen, and a phone shows it without scrolling sideways."""

import json
import shutil

import pytest

from records import page_of

playwright = pytest.importorskip("playwright.sync_api", reason="no playwright; install it with: pip install playwright")

DESKTOP, PHONE = {"width": 1280, "height": 900}, {"width": 375, "height": 800}
# The page is our own and opened offline: no sandbox and no network access is needed.
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update", "--disable-sync"]
NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


@pytest.fixture(scope="module")
def browser():
    with playwright.sync_playwright() as started:
        found = next(filter(None, map(shutil.which, NAMES)), None)
        try:
            opened = started.chromium.launch(executable_path=found, args=FLAGS)
        except playwright.Error as error:
            if found is not None:
                raise
            pytest.skip(
                f"no Chromium; install Debian's package chromium or run `playwright install chromium` ({error.message[:60]})"
            )
        yield opened
        opened.close()


class Visit:
    """An open page, and all that went wrong on it."""

    def __init__(self, browser, file, size):
        self.context = browser.new_context(viewport=size, offline=True)
        self.page = self.context.new_page()
        self.complaints: list[str] = []
        self.page.on("console", lambda message: self.complaints.append(f"{message.type}: {message.text}"))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("request", lambda request: self.asked(request.url))
        self.page.goto(file.as_uri())
        self.draw_all()

    def asked(self, address: str) -> None:
        if not address.startswith(("file:", "data:")):
            self.complaints.append(f"asked for {address}")

    def draw_all(self) -> None:
        """Scroll to each chart: a chart is drawn when it comes near the viewport."""
        for box in self.page.query_selector_all(".chart"):
            box.scroll_into_view_if_needed()
        self.page.wait_for_function("document.querySelectorAll('.chart:not([data-drawn])').length === 0", timeout=20_000)

    def sizes(self) -> dict[str, list[float]]:
        """Width and height of what was drawn in each chart's box, and how many marks or coloured pixels it has."""
        return self.page.evaluate(
            """() => Object.fromEntries([...document.querySelectorAll('.chart')].map((box) => {
                const drawing = box.querySelector('svg, canvas');
                const {width, height} = drawing.getBoundingClientRect();
                const marks = drawing.querySelectorAll('path, rect, text').length;
                if (drawing.tagName !== 'CANVAS') return [box.id, [width, height, marks]];
                const copy = new OffscreenCanvas(drawing.width, drawing.height).getContext('2d', {willReadFrequently: true});
                copy.drawImage(drawing, 0, 0);
                const pixels = copy.getImageData(0, 0, drawing.width, drawing.height).data;
                let coloured = 0;
                for (let i = 0; i < pixels.length; i += 4) coloured += pixels[i + 3] > 0 && pixels[i] > pixels[i + 2] + 60;
                return [box.id, [width, height, coloured]];
            }))"""
        )


@pytest.fixture(scope="module")
def full_page(full_folder, tmp_path_factory):
    return page_of(full_folder, tmp_path_factory.mktemp("page"))


@pytest.fixture(scope="module")
def desktop(browser, full_page):
    return Visit(browser, full_page, DESKTOP)


@pytest.fixture(scope="module")
def phone(browser, full_page):
    return Visit(browser, full_page, PHONE)


@pytest.fixture(params=["desktop", "phone"])
def opened(request):
    """The full page on each."""
    return request.getfixturevalue(request.param)


def test_every_chart_is_drawn_at_a_sensible_size_and_nothing_complains(opened):
    assert opened.complaints == []
    for name, (width, height, marks) in opened.sizes().items():
        assert 200 < width <= opened.page.viewport_size["width"], name
        assert 100 < height < 600, name
        assert marks > 10, name
    assert len(opened.sizes()) > 15


def test_the_page_does_not_scroll_sideways(opened):
    assert opened.page.evaluate("document.documentElement.scrollWidth") <= opened.page.viewport_size["width"]
    beyond = "[...document.querySelectorAll('body *')].filter((e) => e.getBoundingClientRect().right > innerWidth + 1)"
    assert opened.page.evaluate(f"{beyond}.filter((e) => !e.closest('.scroll, svg')).map((e) => e.outerHTML.slice(0, 80))") == []


def test_tables_scroll_by_themselves_on_a_phone(phone):
    assert phone.page.evaluate("[...document.querySelectorAll('.scroll')].some((box) => box.scrollWidth > box.clientWidth)")


def test_text_on_a_phone_is_large_enough_to_read(phone):
    sizes = "[...document.querySelectorAll('p, td, li, button, svg text')].map((e) => parseFloat(getComputedStyle(e).fontSize))"
    assert phone.page.evaluate(f"Math.min(...{sizes})") >= 11


def test_charts_follow_the_width_of_the_window(desktop):
    before = desktop.sizes()["frequency-bars"][0]
    width = "document.querySelector('#frequency-bars svg').getBoundingClientRect().width"
    desktop.page.set_viewport_size(PHONE)
    desktop.page.wait_for_function(f"{width} <= {PHONE['width']}")
    desktop.page.set_viewport_size(DESKTOP)
    desktop.page.wait_for_function(f"{width} === {before}")
    assert desktop.complaints == []


def test_a_choice_changes_what_is_drawn(desktop):
    before = desktop.sizes()["frequency-raster"][2]
    desktop.page.select_option(".part:has(#frequency-raster) select", label="before training")
    desktop.page.wait_for_timeout(300)
    assert desktop.sizes()["frequency-raster"][2] < before  # made-up ratios grow with training
    assert desktop.complaints == []


def test_a_name_of_a_legend_singles_out_its_lines_and_lets_the_others_back(desktop):
    part = ".part:has(#frequency-learning-0)"
    lines = f"[...document.querySelectorAll('{part} .mark-line path')]"
    faint = f"{lines}.filter((line) => Number(line.getAttribute('opacity')) < 0.5).length"
    assert desktop.page.evaluate(faint) == 0
    desktop.page.click(f"{part} .legend button >> nth=2")
    desktop.page.wait_for_function(f"{faint} === 9")  # of four lines in each of three panels, one stays
    desktop.page.click(f"{part} .legend button >> nth=2")
    desktop.page.wait_for_function(f"{faint} === 0")
    assert desktop.complaints == []


def test_pages_with_little_or_nothing_on_them_complain_no_more_than_full_ones(result, put, browser, tmp_path):
    (tmp_path / "empty").mkdir()
    assert Visit(browser, page_of(tmp_path / "empty", tmp_path / "empty"), PHONE).complaints == []
    lines = [result(epochs=1, scale="quick"), result(epochs=1, scale="quick", model="lstm")]
    lines[1]["curve"][0]["test"] = None
    odd = result(epochs=2) | {"experiment": "</script><script>console.error('no')</script>", "name": "odd"}
    put(tmp_path / "few", *lines)
    (tmp_path / "few" / "odd.jsonl").write_text(json.dumps(odd))
    few = Visit(browser, page_of(tmp_path / "few", tmp_path / "few"), PHONE)
    assert few.complaints == []
    assert few.page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]
    assert all(width > 200 and height > 100 for width, height, _ in few.sizes().values())
