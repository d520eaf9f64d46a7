"""Pictures: what is drawn, in whose colours, and that nothing outside gets in."""

import re
from functools import partial
from importlib.resources import files
from xml.etree import ElementTree

import matplotlib
import numpy as np
import pytest
from matplotlib.text import Text

from unpooled.results.exhibits import Picture
from unpooled.results.plots import charts, class_plots, forest
from unpooled.results.plots.drawing import OF_CLASSES, page_variable, settings
from unpooled.results.plots.heatmap import heatmap
from unpooled.results.plots.svg import svg

SHARES = np.array([0.5, 0.25, 0.125])
COMPONENTS = np.array([[0.6, -0.8, 0.0], [0.8, 0.6, 0.0]])
NAMES = ["age", "chol", "thal"]


def picture(draw):
    return Picture("bars", "Shares", "Three bars.", draw, ("shares",))


def scree(shares=SHARES, name="scree-0", kept=None):
    expected = np.linspace(0.4, 0.1, len(shares))
    return svg(picture(lambda: charts.scree(shares, kept, expected)), name)


def loadings(columns=NAMES, components=COMPONENTS, titles=("1", "2"), **options):
    draw = partial(charts.loadings, components, columns, titles, **options)
    return svg(picture(draw), "loadings-0")


def texts(drawn: str) -> list[str]:
    """Return the texts of a picture, which is XML as well as HTML."""
    root = ElementTree.fromstring(drawn)
    return ["".join(one.itertext()).strip() for one in root.iter("text")]


def bars(drawn: str, colour: str) -> list[tuple[float, float]]:
    """Return (width, height) of the bars in a colour, in order."""
    sizes = []
    for path in ElementTree.fromstring(drawn).iter("path"):
        if path.get("style") == f"fill: {colour}":
            points = np.array(re.findall(r"[ML] (\S+) (\S+)", path.get("d", "")), float)
            sizes.append(tuple(np.ptp(points, axis=0)))
    return sizes


def written(axes):
    """Return the texts of a panel, but for ticks beyond its ends."""
    beyond = set[Text]()
    for axis in (axes.xaxis, axes.yaxis):
        low, high = sorted(axis.get_view_interval())
        for tick in axis.get_major_ticks():
            if not low <= tick.get_loc() <= high:
                beyond |= {tick.label1, tick.label2}
    texts = axes.findobj(Text)
    return [one for one in texts if one.get_text().strip() and one not in beyond]


def test_a_line_on_bars_is_seen_on_dark_pages_too():
    # Their colours are equally light there: the line has a margin in the page's own.
    styles = re.findall('style="([^"]*stroke[^"]*)"', scree())

    margin = [i for i, style in enumerate(styles) if "var(--paper)" in style]
    line = [i for i, style in enumerate(styles) if "stroke: var(--second)" in style]
    assert len(margin) == 1
    assert margin[0] < line[0]


def test_intervals_of_a_forest_end_within_the_panel():
    estimates = np.array([[1.0, -2.0, 4.0], [3.0, 2.0, 4.5]])
    lines = (["clinic", "pooled rows"], estimates, np.array([False, True]))

    (axes,) = forest.forests(["age"], [lines]).axes

    low, high = axes.get_xlim()
    assert low < -2.0
    assert high > 4.5


@pytest.mark.slow
def test_numbers_beside_a_line_have_separators_as_in_tables():
    drawn = texts(svg(picture(lambda: charts.objective(np.array([8e4, 2e4]))), "x"))

    assert "80,000" in drawn
    drawn = texts(svg(picture(lambda: charts.objective(np.array([8e4, 1.0]))), "x"))
    assert "10,000" in drawn


@pytest.mark.slow
@pytest.mark.parametrize("draw", [scree, loadings])
def test_same_picture_every_time_and_under_all_settings(draw):
    first = draw()
    with matplotlib.rc_context({"font.size": 30, "axes.facecolor": "pink"}):
        second = draw()

    assert first == second
    assert not re.search(r"\b20\d\d-\d\d-\d\d", first)


@pytest.mark.thinned(1)
@pytest.mark.parametrize("draw", [scree, loadings])
def test_picture_asks_for_nothing_and_styles_nothing_but_itself(draw):
    drawn = draw()

    assert "http" not in drawn
    assert "<style" not in drawn
    assert "font-family" not in drawn
    assert "<metadata" not in drawn


@pytest.mark.parametrize("draw", [scree, loadings])
def test_colours_are_those_of_the_page(draw):
    drawn = draw()

    assert not re.search("#[0-9a-f]{6}", drawn)
    assert {"currentColor", "var(--accent)", "var(--second)"} <= set(
        re.findall(r"currentColor|var\(--\w+\)", drawn)
    )


@pytest.mark.slow
def test_every_class_has_a_colour_of_the_page_and_of_notebooks():
    names = [f"{j}" for j in range(6)]
    draw = partial(
        class_plots.plane,
        np.random.default_rng(0).standard_normal((6, 2)),
        np.broadcast_to(np.eye(2), (6, 2, 2)),
        names,
        {},
    )

    drawn = svg(picture(draw), "classes-0")

    assert not re.search("#[0-9a-f]{6}", drawn)
    used = set(re.findall(r"stroke: var\((--\w+)\)", drawn))
    assert used == {page_variable(name) for name in OF_CLASSES}
    style = (files("unpooled.report") / "style.css").read_text("utf-8")
    for variable in used:
        # In light and in dark, and on paper.
        assert len(re.findall(rf"{variable}: #[0-9a-f]{{6}};", style)) == 3


@pytest.mark.thinned(1)
@pytest.mark.parametrize("draw", [scree, loadings])
def test_picture_is_named_and_described(draw):
    root = ElementTree.fromstring(draw())

    assert root.get("role") == "img"
    for reference in root.get("aria-labelledby", "").split():
        (target,) = [e for e in root.iter() if e.get("id") == reference]
        assert target.text


@pytest.mark.slow
def test_names_within_a_picture_are_its_own():
    one, two = (set(re.findall(r'id="([^"]+)"', scree(name=n))) for n in ("a", "b"))

    assert not one & two
    assert all(re.fullmatch("a-.*", name) for name in one)
    references = re.findall(r'(?:href="#|url\(#)([^")]+)', scree(name="a"))
    assert set(references) <= one


def test_bars_are_as_high_as_their_shares():
    heights = [height for _, height in bars(scree(), "var(--accent)")]

    # Coordinates are written to six places, so ratios hold to about 1e-6.
    np.testing.assert_allclose(
        np.array(heights) / heights[0], [1, 0.5, 0.25], rtol=1e-5
    )


def test_components_that_are_not_kept_are_paler():
    drawn = scree(kept=2)

    assert len(bars(drawn, "var(--accent)")) == 2
    assert len(bars(drawn, "var(--accent); opacity: 0.4")) == 1
    # The cumulative share is named where the kept components end.
    assert "75 % with 2 kept" in texts(drawn)


@pytest.mark.slow
def test_few_bars_carry_their_numbers_and_many_do_not():
    assert {"50 %", "25 %", "12 %"} <= set(texts(scree()))
    # 100 % and the like are the axis.
    many = texts(scree(np.full(30, 1 / 30)))
    assert "3 %" not in many


def test_bars_of_loadings_are_as_long_as_their_numbers():
    drawn = loadings()

    right = [width for width, _ in bars(drawn, "var(--accent)")]
    left = [width for width, _ in bars(drawn, "var(--second)")]
    # In the order drawn: 0.6, 0.0 of the first component, 0.8, 0.6, 0.0 of the other.
    np.testing.assert_allclose(
        np.array(right) / left[0], [0.75, 0.0, 1.0, 0.75, 0.0], atol=1e-5
    )


def test_loadings_of_nothing_but_zeros_can_be_drawn():
    assert texts(loadings(components=np.zeros((1, 3)), titles=[""]))


@pytest.mark.slow
def test_panels_with_numbers_say_what_they_are_and_the_axis_what_it_shows():
    assert "component" in texts(loadings())
    named = texts(loadings(titles=["a", "b"]))
    assert "component" not in named
    drawn = texts(loadings(word="class", label="coefficient"))
    assert {"class", "coefficient"} <= set(drawn)
    assert "component" not in drawn


@pytest.mark.slow
def test_a_low_share_is_written_above_its_point():
    """Below it are the numbers of the axis."""

    def height(shares, text):
        root = ElementTree.fromstring(scree(shares))
        (found,) = [
            one for one in root.iter("text") if "".join(one.itertext()).strip() == text
        ]
        return float(re.findall(r"[\d.]+", found.get("transform", ""))[-1])

    low = height(np.array([0.06, 0.06]), "12 % with 2")
    high = height(np.array([0.9, 0.1]), "100 % with 2")
    # A point of the page is lower the larger its coordinate.
    assert low > high


@pytest.mark.parametrize("shares", [[0.4, 0.31], [0.6, 0.4], [0.5, 0.3, 0.2]])
def test_no_line_crosses_the_number_at_its_end(shares):
    with settings():
        axes = charts.scree(np.array(shares)).axes[1]
        (written,) = axes.texts
        box = written.get_window_extent()
        line = axes.transData.transform(axes.lines[0].get_xydata())

    places = np.linspace(line[0, 0], line[-1, 0], 200)
    heights = np.interp(places, line[:, 0], line[:, 1])
    behind = (places >= box.x0) & (places <= box.x1)
    assert (heights[behind] < box.y0).all()
    assert box.y1 <= axes.get_window_extent().y1


@pytest.mark.thinned(1)
@pytest.mark.parametrize(
    "draw",
    [
        lambda: charts.objective(np.array([19_205.0, 13_349.0])),
        lambda: charts.objective(np.array([4e7, 3e3, 2.0])),
        lambda: heatmap(np.eye(2), ["a", "b"], ["1", "2"]),
        lambda: heatmap(np.eye(2), ["a", "b"], ["factor 1", "factor 2"]),
        lambda: charts.scree(SHARES, 2, SHARES),
        lambda: charts.loadings(COMPONENTS[:1], NAMES, ["1"], label="coefficient"),
    ],
    ids=["objective", "steep", "numbered", "named", "scree", "loadings"],
)
def test_every_text_is_within_its_picture_and_apart_from_others(draw):
    with settings():
        figure = draw()
        figure.draw_without_rendering()
        found = [
            text.get_window_extent() for axes in figure.axes for text in written(axes)
        ]

    width, height = figure.get_size_inches() * figure.dpi
    for i, box in enumerate(found):
        assert -1 <= box.x0 <= box.x1 <= width + 1
        assert -1 <= box.y0 <= box.y1 <= height + 1
        for other in found[i + 1 :]:
            across = min(box.x1, other.x1) - max(box.x0, other.x0)
            up = min(box.y1, other.y1) - max(box.y0, other.y0)
            # The room of a letter reaches a little beyond what is drawn of it.
            assert across <= 2 or up <= 4


def test_iterations_are_numbered_in_whole_numbers():
    # The other axis has hundreds.
    drawn = svg(picture(partial(charts.objective, np.array([300.0, 100.0]))), "line")

    numbers = [float(t) for t in texts(drawn) if re.fullmatch(r"[\d.]+", t)]
    assert [number for number in numbers if number < 50] == [1.0, 2.0]


def test_names_of_columns_are_text_and_only_text():
    hostile = ["<script>alert(1)</script>", "$x_1^2$", "a\x00b\u202ec\ud800"]

    found = texts(loadings(hostile, COMPONENTS[:1], [""]))

    assert "<script" not in loadings(hostile)
    # Behind the three numbers of the axis.
    assert found[3:5] == hostile[:2]
    assert found[5] == "a\ufffdb\ufffdc\ufffd"


def test_long_names_keep_both_ends():
    found = texts(loadings(["measurement number 1", "measurement number 2", "c"]))

    assert "measure…mber 1" in found
    assert "measure…mber 2" in found


@pytest.mark.filterwarnings("error")
def test_letters_that_the_font_lacks_are_no_trouble():
    assert "年齢" in texts(loadings(["年齢", "कोलेस्ट्रॉल", "c"]))


@pytest.mark.slow
@pytest.mark.parametrize(("size", "letters", "numbered"), [(13, 8, 1), (13, 14, 0)])
def test_numbers_of_heatmaps_are_large_enough_for_a_telephone(size, letters, numbered):
    names = ["c" * letters] * size
    with settings():
        axes = heatmap(np.eye(size), names, names).axes[0]

    assert len(axes.texts) == numbered * size**2
    # A telephone shows pictures at four fifths of their width.
    assert all(0.8 * float(text.get_fontsize()) > 7.5 for text in axes.texts)
    # None is wider than its cell.
    cell = axes.get_window_extent().width / size
    assert all(2.43 * float(text.get_fontsize()) < cell for text in axes.texts)
