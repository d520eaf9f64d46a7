"""The report in a real browser: quiet, alone, legible on screens and on paper."""

import shutil
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.pipeline import make_pipeline

import unpooled as up
from tiers import mostly_slow
from unpooled.data import heart_disease
from unpooled.report.html import report

pytestmark = pytest.mark.browser

CHROMIUM = shutil.which("chromium") or "/usr/bin/chromium"
# No sandbox: tests often run as root in a container, and the page is our own.
QUIET = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
    "--no-default-browser-check",
]
WIDTHS, SCHEMES = (400, 1400), ("light", "dark")
# WCAG 2, 1.4.3: the least contrast of text to what is behind it.
LEAST_CONTRAST = 4.5

CONTRASTS = """() => {
  const canvas = document.createElement('canvas').getContext(
    '2d', {willReadFrequently: true});
  const rgb = colour => {
    canvas.clearRect(0, 0, 1, 1);
    canvas.fillStyle = colour;
    canvas.fillRect(0, 0, 1, 1);
    return [...canvas.getImageData(0, 0, 1, 1).data];
  };
  const luminance = ([r, g, b]) => [r, g, b].map(c => c / 255)
    .map(c => c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4)
    .reduce((sum, c, i) => sum + c * [0.2126, 0.7152, 0.0722][i], 0);
  const behind = element => {
    for (let e = element; e; e = e.parentElement) {
      const colour = rgb(getComputedStyle(e).backgroundColor);
      if (colour[3] > 0) return colour;
    }
    return [255, 255, 255];
  };
  const found = [];
  for (const element of document.querySelectorAll('body *')) {
    const own = [...element.childNodes].some(n => n.nodeType == 3 && n.data.trim());
    if (!own || !element.getClientRects().length) continue;
    const style = getComputedStyle(element);
    const text = element instanceof SVGElement ? style.fill : style.color;
    const [a, b] = [luminance(rgb(text)), luminance(behind(element))];
    const contrast = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    found.push([contrast, element.textContent]);
  }
  return found;
}"""


def heart(path: Path) -> Path:
    federation = up.simulate(heart_disease.load(), label="num", study="heart")
    model = make_pipeline(up.SimpleImputer(), up.StandardScaler(), up.PCA(5))
    return report(model.fit(federation), federation, path)


def warned(path: Path) -> Path:
    """Every kind of warning, names that attack the page, and more columns than fit."""
    rng = np.random.default_rng(0)
    names = [f"a measurement with a rather long name, number {j}" for j in range(40)]
    names[0], names[1] = "<script>alert(1)</script>", "x" * 120
    rows = [rng.standard_normal((20, 40)) for _ in range(2)]
    parties = {
        f"University Hospital of a Long Name {i} <img src=x onerror=alert(1)>"
        + i * "y" * 60: pd.DataFrame(X, columns=names)
        for i, X in enumerate(rows)
    }
    federation = up.simulate(
        parties, secure_sum="plain", policy=up.Policy.open(), study="s" * 200
    )
    return report(up.PCA().fit(federation), federation, path)


def described(path: Path) -> Path:
    """Cells with several numbers, "53.5 (9.4)", of all rows and of five classes."""
    tables = {n: t.to_pandas() for n, t in heart_disease.load().items()}
    federation = up.simulate(tables, label="num", policy=up.Policy.open())
    model = up.Describe(quartiles=False).fit(federation.select(["age", "oldpeak"]))
    return report(model, federation, path)


def long_numbers(path: Path) -> Path:
    rng = np.random.default_rng(3)
    tables = {
        name: pd.DataFrame({"ill": rng.integers(0, 2, 60)}).assign(
            Albumin=5e6 * rng.lognormal(size=60), Height=rng.normal(170.0, 8.0, 60)
        )
        for name in "abc"
    }
    federation = up.simulate(tables, label="ill", policy=up.Policy.open())
    return report(up.Describe().fit(federation), federation, path)


def classified(path: Path) -> Path:
    rng = np.random.default_rng(3)
    names = ["mean fractal dimension", "worst smoothness", "radius"]
    tables = {
        name: pd.DataFrame({"kind": rng.integers(0, 2, 60)}).assign(
            **{column: rng.normal(-3.0, 0.3, 60) for column in names}
        )
        for name in "abc"
    }
    federation = up.simulate(tables, label="kind", policy=up.Policy.open())
    return report(up.LogisticRegression().fit(federation), federation, path)


@pytest.fixture(scope="module")
def address_of(tmp_path_factory) -> Callable[[Callable[[Path], Path]], str]:
    """Make each report once, whatever is asked of it."""

    @cache
    def address_of(make: Callable[[Path], Path]) -> str:
        folder = tmp_path_factory.mktemp("report")
        return make(folder / "report.html").as_uri()

    return address_of


@pytest.fixture(scope="module", params=[heart, warned])
def address(request, address_of) -> str:
    return address_of(request.param)


@pytest.fixture(scope="module")
def browser():
    if not Path(CHROMIUM).exists():
        pytest.skip("chromium absent")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=QUIET)
        yield browser
        browser.close()


# The slow tests have the other two of the four.
USUAL = [(1400, "light"), (400, "dark")]


@pytest.fixture(
    scope="module",
    params=mostly_slow(
        [(str((w, s)), (w, s)) for w in WIDTHS for s in SCHEMES], *map(str, USUAL)
    ),
)
def visit(browser, address, request):
    """Open the report and return (page, what the console said, what was asked for)."""
    width, scheme = request.param
    page = browser.new_page(
        viewport={"width": width, "height": 900}, color_scheme=scheme
    )
    said: list[str] = []
    asked: list[str] = []
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    page.on("dialog", lambda dialog: (said.append(dialog.message), dialog.dismiss()))
    page.on("request", lambda message: asked.append(message.url))
    page.goto(address)
    yield page, said, asked
    page.close()


@pytest.mark.slow
def test_page_is_quiet_and_asks_for_nothing(visit, address):
    page, said, asked = visit
    page.wait_for_load_state("networkidle")

    assert said == []
    assert [url for url in asked if not url.startswith("data:")] == [address]


@pytest.mark.slow
def test_nothing_is_wider_than_the_screen(visit):
    page, _, _ = visit

    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    # Wide tables scroll in a box of their own; everything else stays on the screen.
    beyond = """() => [...document.querySelectorAll('body *')]
      .filter(e => !e.closest('.scroll') && e.getClientRects().length)
      .filter(e => e.getBoundingClientRect().right > innerWidth + 1)
      .map(e => e.outerHTML.slice(0, 80))"""
    assert page.evaluate(beyond) == []
    # Tables of many columns do not scroll either: on a telephone a row is a block.
    scrolling = """() => [...document.querySelectorAll('.scroll:has(> .broad)')]
      .filter(e => e.scrollWidth > e.clientWidth + 1).length"""
    if page.viewport_size["width"] == min(WIDTHS):
        assert page.evaluate(scrolling) == 0


@pytest.mark.slow
def test_text_stands_out_from_what_is_behind_it(visit):
    page, _, _ = visit

    faint = [
        text for contrast, text in page.evaluate(CONTRASTS) if contrast < LEAST_CONTRAST
    ]

    assert faint == []


def test_dark_is_dark_and_light_is_light(visit):
    page, _, _ = visit
    scheme = "matchMedia('(prefers-color-scheme: dark)').matches"
    paper = "getComputedStyle(document.body).backgroundColor.match(/\\d+/g)"

    dark, colour = page.evaluate(f"[{scheme}, {paper}]")

    assert (max(map(int, colour)) < 60) == dark


@pytest.mark.slow
def test_pictures_have_a_name_and_a_size(visit):
    page, _, _ = visit

    pictures: list[Any] = page.get_by_role("img").all()

    assert len(pictures) >= 2
    for picture in pictures:
        box = picture.bounding_box()
        assert box["width"] > 250
        assert box["height"] > 100
    tree = page.locator("main").aria_snapshot()
    assert 'img "Share of variance by component' in tree


@pytest.mark.slow
def test_the_first_result_stands_near_the_top(browser, address_of):
    page = browser.new_page(viewport={"width": 1400, "height": 900})
    page.goto(address_of(heart))

    first = page.locator("figure").first

    # Its picture and its table, whole.
    box = first.bounding_box()
    assert first.locator("svg").count() == 1
    assert first.locator("table").count() == 1
    assert box["y"] + box["height"] < 2500
    page.close()


@pytest.mark.slow
def test_tables_of_few_columns_that_are_broad_are_stacked_on_a_telephone(
    browser, tmp_path
):
    rng = np.random.default_rng(0)
    names = ["Shell.Weight", "Length", "Ring.Count", "Whole.Weight", "a", "b", "c", "d"]
    tables = {
        s: pd.DataFrame(rng.standard_normal((60, 8)) * 1e-7, columns=names)
        for s in "xyz"
    }
    federation = up.simulate(tables, policy=up.Policy.open())
    model = up.PLSRegression(1).fit(federation, y=names[:4])
    page = browser.new_page(viewport={"width": 400, "height": 900})
    page.goto(report(model, federation, tmp_path / "report.html").as_uri())

    # Four responses beside the names of the predictors, and the page to sign.
    assert page.locator(".broad:not(.wide)").count() >= 1
    scrolling = """() => [...document.querySelectorAll('.scroll')]
      .filter(e => e.scrollWidth > e.clientWidth).map(e => e.ariaLabel)"""
    assert page.evaluate(scrolling) == []
    # A row's name may be a number, such as a pair's: its heading stands before it.
    named = """() => [...document.querySelectorAll('.broad tbody th')]
      .map(e => getComputedStyle(e, '::before').content)"""
    assert {'"Pair "', '"Column "'} <= set(page.evaluate(named))
    page.close()


@pytest.mark.slow
@pytest.mark.parametrize("width", WIDTHS)
def test_cells_with_several_numbers_stay_on_one_line(browser, address_of, width):
    page = browser.new_page(viewport={"width": width, "height": 900})
    page.goto(address_of(described))

    # Of all rows and of each class, a p-value and a difference.
    cells = page.locator("td.figure").all_text_contents()
    assert len(cells) >= 16
    broken = """() => [...document.querySelectorAll('td.figure')].filter(e => {
      const range = document.createRange();
      range.selectNodeContents(e);
      return new Set([...range.getClientRects()].map(r => r.top)).size > 1;
    }).map(e => e.textContent)"""
    assert page.evaluate(broken) == []
    scrolling = """() => [...document.querySelectorAll('.scroll:has(.figure)')]
      .filter(e => e.scrollWidth > e.clientWidth + 1).length"""
    assert page.evaluate(scrolling) == 0
    page.close()


@pytest.mark.slow
def test_what_is_folded_opens_and_is_printed(browser, address):
    page = browser.new_page(viewport={"width": 1400, "height": 900})
    page.goto(address)
    folded = page.locator("#came ~ details dl").first

    assert not folded.is_visible()
    page.locator("#came ~ details summary").click()
    assert folded.is_visible()
    page.locator("#came ~ details summary").click()
    page.emulate_media(media="print")
    assert folded.is_visible()
    assert not page.locator("summary").first.is_visible()
    # The page to sign is a page of its own, the last one.
    assert (
        page.evaluate(
            "getComputedStyle(document.querySelector('section:last-of-type')).breakBefore"
        )
        == "page"
    )
    page.close()


@pytest.mark.slow
def test_nothing_is_cut_on_paper(browser, address):
    # A4 less the margins of the page's own style, in CSS pixels.
    page = browser.new_page(
        viewport={"width": round((210 - 32) / 25.4 * 96), "height": 900}
    )
    page.emulate_media(media="print")
    page.goto(address)

    beyond = """() => [...document.querySelectorAll('body *')]
      .filter(e => e.getBoundingClientRect().right > innerWidth + 1)
      .map(e => e.outerHTML.slice(0, 80))"""
    assert page.evaluate(beyond) == []
    page.close()


@pytest.mark.slow
def test_a_tall_picture_is_on_one_sheet_of_paper(browser, tmp_path):
    federation = up.simulate(
        {n: t.to_pandas() for n, t in heart_disease.load().items()}, label="num"
    )
    model = up.Histogram().fit(federation)
    path = report(model, federation, tmp_path / "report.html")
    page = browser.new_page(
        viewport={"width": round((210 - 32) / 25.4 * 96), "height": 900}
    )
    page.goto(path.as_uri())
    picture = page.locator(".picture svg")
    page.emulate_media(media="screen")
    shown = picture.bounding_box()
    page.emulate_media(media="print")
    printed = picture.bounding_box()

    # Millimetres in CSS pixels: as tall as a sheet allows, and no taller.
    limit = 190 / 25.4 * 96
    assert shown is not None
    assert printed is not None
    assert shown["height"] > limit
    assert abs(printed["height"] - limit) < 2
    page.close()


@pytest.mark.slow
def test_paper_has_no_list_of_sections_and_no_dark(browser, address):
    page = browser.new_page(viewport={"width": 1400, "height": 900})
    page.emulate_media(media="print", color_scheme="dark")
    page.goto(address)

    paper = page.evaluate("getComputedStyle(document.body).backgroundColor")

    assert paper == "rgb(255, 255, 255)"
    assert not page.locator("nav").is_visible()
    # Results begin on the first sheet: words do not wait for a picture, which may
    # fill one, and stay with a table, which may continue on the next.
    after = """() => [...document.querySelectorAll('figcaption')]
      .map(e => [e.nextElementSibling.className, getComputedStyle(e).breakAfter])"""
    found = {tuple(pair) for pair in page.evaluate(after)}
    assert found <= {("picture", "auto"), ("scroll", "avoid"), ("caption", "auto")}
    assert found & {("picture", "auto"), ("scroll", "avoid")}
    assert page.pdf(format="A4").startswith(b"%PDF")
    page.close()


@pytest.mark.slow
@pytest.mark.parametrize("width", [900, 1100, 1280, 1440])
def test_p_values_are_in_sight_beside_long_numbers(browser, address_of, width):
    page = browser.new_page(viewport={"width": width, "height": 900})
    page.goto(address_of(long_numbers))

    hidden = """() => [...document.querySelectorAll('.scroll:has(.figure)')]
      .map(e => e.scrollWidth - e.clientWidth)"""
    assert max(page.evaluate(hidden)) <= 1
    # Nor does the page itself scroll sideways.
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    page.close()


@pytest.mark.slow
@pytest.mark.parametrize("width", [400, 560, 700, 900, 1280])
def test_no_table_of_a_logistic_regression_scrolls(browser, address_of, width):
    page = browser.new_page(viewport={"width": width, "height": 900})
    page.goto(address_of(classified))
    # What is folded is read too.
    page.evaluate("document.querySelectorAll('details').forEach(d => d.open = true)")

    hidden = """() => [...document.querySelectorAll('.scroll')]
      .filter(e => e.scrollWidth > e.clientWidth + 1).map(e => e.ariaLabel)"""
    assert page.evaluate(hidden) == []
    # Coefficients have their intervals, and the ratios stand once, with theirs.
    assert page.locator("th:has-text('Odds ratio')").count() == 1
    page.close()
