"""A report as a picture: horizontal bars in one SVG file, for light and dark pages, written without a plotting library."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final
from xml.sax.saxutils import escape

from langmem_adapter.evaluation.datasets import OVERALL
from langmem_adapter.evaluation.runner import CONTEXT

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from langmem_adapter.evaluation.report import Report, Scores

__all__ = ["svg"]

_WIDTH: Final = 760
_LEFT: Final = 190  # where bars begin
_SCALE: Final = 480  # how long 1.0 is
_TOP: Final = 96
_BAR: Final = 13
_GAP: Final = 3
_BETWEEN: Final = 22  # rows
_LABEL: Final = 48  # height of a row's three lines of text
_LONGEST: Final = 17  # characters of a category's name
_SHADES: Final = (("#1e40af", "#93b4ff"), ("#3b82f6", "#5b8def"), ("#a5c8fd", "#3556a8"))  # on light, on dark
_STYLE: Final = """
    text { font: 13px system-ui, -apple-system, "Segoe UI", "Noto Sans", sans-serif; fill: #1f2937 }
    .title { font-size: 17px; font-weight: 600 }
    .name { font-weight: 600 }
    .small { font-size: 11.5px; fill: #6b7280 }
    .value { font-size: 11.5px; font-variant-numeric: tabular-nums }
    .page { fill: #ffffff }
    .grid { stroke: #e5e7eb }
"""
_DARK: Final = """
      text { fill: #e5e7eb }
      .small { fill: #9ca3af }
      .page { fill: #111827 }
      .grid { stroke: #374151 }
"""


def svg(report: Report, title: str, *, below: str = "") -> str:
    """Recall of each kind of question as bars, with the other numbers beside them.

    Args:
        report: What was measured.
        title: What it was measured on.
        below: A line at the bottom, on how it was measured.

    Returns:
        The text of an SVG file; what it says in numbers is in its `desc`, too.
    """
    cuts = tuple(report.scores[0].recall)
    step = max(len(cuts) * (_BAR + _GAP), _LABEL) + _BETWEEN
    bottom = _TOP + len(report.scores) * step
    height = bottom + 62
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" role="img" aria-labelledby="title desc" {_size(height)}>',
        f'<title id="title">{_plain(title)}</title>',
        f'<desc id="desc">{_plain(_described(report))}</desc>',
        f"<style>{_style(len(cuts))}</style>",
        f'<rect class="page" width="{_WIDTH}" height="{height}" rx="8"/>',
        _text(24, 36, title, "title"),
        *_legend(cuts),
        *_grid(bottom - _BETWEEN // 2),
        *(line for row, scores in enumerate(report.scores) for line in _row(scores, _TOP + row * step)),
        _text(24, bottom + 30, _cost(report), "small"),
        _text(24, bottom + 47, below, "small"),
        "</svg>",
    ]
    return "\n".join(part for part in parts if part) + "\n"


def _size(height: int) -> str:
    return f'viewBox="0 0 {_WIDTH} {height}" width="{_WIDTH}" height="{height}"'


def _style(cuts: int) -> str:
    light, dark = ([_shade(place)[page] for place in range(cuts)] for page in (0, 1))
    bars = "".join(f"    .k{place} {{ fill: {colour} }}\n" for place, colour in enumerate(light))
    night = "".join(f"      .k{place} {{ fill: {colour} }}\n" for place, colour in enumerate(dark))
    return f"{_STYLE}{bars}    @media (prefers-color-scheme: dark) {{{_DARK}{night}    }}\n  "


def _shade(place: int) -> tuple[str, str]:
    return _SHADES[min(place, len(_SHADES) - 1)]


def _legend(cuts: Sequence[int]) -> Iterator[str]:
    for place, k in enumerate(cuts):
        x = _LEFT + place * min(110, _SCALE // len(cuts))
        yield f'<rect class="k{place}" x="{x}" y="56" width="12" height="12" rx="2"/>'
        yield _text(x + 18, 66, f"recall@{k}", "small")


def _grid(bottom: int) -> Iterator[str]:
    for quarter in range(5):
        x = _LEFT + quarter * _SCALE // 4
        yield f'<line class="grid" x1="{x}" y1="{_TOP - 8}" x2="{x}" y2="{bottom}"/>'
        yield f'<text class="small" x="{x}" y="{bottom + 14}" text-anchor="middle">{quarter / 4:g}</text>'


def _row(scores: Scores, top: int) -> Iterator[str]:
    name = scores.category if len(scores.category) <= _LONGEST else f"{scores.category[: _LONGEST - 1]}…"
    beside = " · apart" if scores.apart else ""
    yield _text(24, top + 12, name, "name")
    yield _text(24, top + 28, f"{scores.questions} questions{beside}", "small")
    yield _text(24, top + 43, f"MRR {scores.mrr:.2f} · nDCG@{CONTEXT} {scores.ndcg:.2f}", "small")
    for place, share in enumerate(scores.recall.values()):
        y, length = top + place * (_BAR + _GAP), round(share * _SCALE, 1)
        yield f'<rect class="k{place}" x="{_LEFT}" y="{y}" width="{length}" height="{_BAR}" rx="2"/>'
        yield _text(_LEFT + length + 6, y + 10.5, f"{share:.3f}", "value")


def _text(x: float, y: float, text: str, kind: str) -> str:
    return f'<text class="{kind}" x="{x:g}" y="{y:g}">{_plain(text)}</text>' if text else ""


def _plain(text: str) -> str:
    # XML has no place for control characters, not even escaped.
    return escape("".join(sign if sign.isprintable() else "\N{REPLACEMENT CHARACTER}" for sign in text))


def _described(report: Report) -> str:
    rows = (
        f"{scores.category}, {scores.questions} questions: "
        + ", ".join(f"recall@{k} {share:.3f}" for k, share in scores.recall.items())
        + f", MRR {scores.mrr:.3f}, nDCG@{CONTEXT} {scores.ndcg:.3f}"
        for scores in sorted(report.scores, key=lambda scores: scores.category != OVERALL)
    )
    return "; ".join((*rows, _cost(report)))


def _cost(report: Report) -> str:
    context = f"context of {CONTEXT} hits: {report.tokens:.0f} tokens"
    return f"{context} · a search: {report.p50:.1f} ms (median), {report.p95:.1f} ms (95 %)"
