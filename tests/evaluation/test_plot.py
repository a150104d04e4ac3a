from __future__ import annotations

from xml.etree import ElementTree as ET

from hypothesis import given
from hypothesis import strategies as st

from langmem_adapter.evaluation.plot import svg
from langmem_adapter.evaluation.report import Report, Scores

SVG = "{http://www.w3.org/2000/svg}"
SHARES = st.floats(0, 1)
SCORES = st.builds(
    Scores, st.text(max_size=40), st.integers(1, 9_999), st.fixed_dictionaries({5: SHARES, 10: SHARES}), SHARES, SHARES
)


def drawn(text: str) -> ET.Element:
    return ET.fromstring(text)  # noqa: S314 - our own text


@given(st.lists(SCORES, min_size=1, max_size=8), st.text(max_size=60))
def test_a_plot_is_well_formed_and_stays_on_its_page(rows: list[Scores], title: str) -> None:
    root = drawn(svg(Report(tuple(rows), 1.0, 1.0, 1.0), title, below=title))
    width, height = float(root.attrib["width"]), float(root.attrib["height"])
    for part in root.iter():
        x, y = float(part.get("x", 0)), float(part.get("y", 0))
        assert 0 <= x <= width and 0 <= y <= height
        assert x + float(part.get("width", 0)) <= width


def test_bars_are_as_long_as_the_shares() -> None:
    root = drawn(svg(Report((Scores("a", 3, {5: 0.25, 10: 0.5, 20: 1.0}, 0.5, 0.5),), 1, 1, 1), "t"))
    bars = [
        part for part in root.iter(f"{SVG}rect") if part.get("class", "").startswith("k") and part.get("x") == "190"
    ]
    lengths = [float(part.attrib["width"]) for part in bars if part.attrib["height"] == "13"]
    assert lengths == [120, 240, 480]


def test_a_plot_says_its_numbers_to_those_who_cannot_see_it() -> None:
    root = drawn(svg(Report((Scores("a <b> & c", 3, {5: 0.25}, 0.5, 0.75),), 484.2, 1, 2), "mine & yours"))
    told = root.findtext(f"{SVG}desc") or ""
    assert "a <b> & c, 3 questions: recall@5 0.250, MRR 0.500, nDCG@10 0.750" in told
    assert "context of 10 hits: 484 tokens" in told
    assert root.findtext(f"{SVG}title") == "mine & yours"
    assert root.attrib["role"] == "img"


def test_kinds_apart_are_told_as_such() -> None:
    rows = (Scores("overall", 3, {10: 0.5}, 0, 0), Scores("trick", 1, {10: 0.5}, 0, 0, apart=True))
    texts = [part.text for part in drawn(svg(Report(rows, 1, 1, 1), "t")).iter(f"{SVG}text")]
    assert "1 questions · apart" in texts
