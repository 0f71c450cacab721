"""Published runs as points, drawn as an SVG that needs nothing to be looked at.

Predicted over measured speed against measured speed of one device, both on logarithms.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

WIDTH, HEIGHT = 760, 420
LEFT, TOP, RIGHT, BOTTOM = 70, 40, 150, 60
"""Margins around the plot."""

RATIOS = (0.5, 0.67, 0.8, 1.0, 1.25, 1.5, 2.0)
GUIDES = {0.8: "5 4", 1.0: "", 1.25: "5 4"}
"""Ratios with a line across the plot, and how it is dashed."""

COLOURS = ("#2166ac", "#d6604d")
INK = "#222222"


@dataclass(frozen=True)
class Point:
    """One run.

    Parameters
    ----------
    tokens_per_s : measured, of one device
    ratio : predicted over measured
    kind : what it is drawn as
    name : told where a pointer rests on it
    """

    tokens_per_s: float
    ratio: float
    kind: str
    name: str


def scatter_svg(points: Sequence[Point], title: str) -> str:
    """The chart as text; points of the first kind are circles, of the second squares."""
    kinds = sorted({point.kind for point in points})
    decades = _decades([point.tokens_per_s for point in points])
    drawn = [_mark(point, kinds.index(point.kind), decades) for point in points]
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" '
        'font-family="sans-serif" font-size="12">'
    )
    back = f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>'
    parts = [head, back, *_axes(decades, title), *drawn, *_legend(kinds), "</svg>"]
    return "\n".join(parts) + "\n"


def _decades(values: Sequence[float]) -> tuple[int, int]:
    """Whole decades that hold all values."""
    logs = np.log10(values)
    return int(np.floor(logs.min())), int(np.ceil(logs.max()))


def _across(value: float, decades: tuple[int, int]) -> float:
    frac = (np.log10(value) - decades[0]) / (decades[1] - decades[0])
    return float(LEFT + frac * (WIDTH - LEFT - RIGHT))


def _down(ratio: float) -> float:
    """Ratios beyond the axis are drawn at its end."""
    low, high = np.log(RATIOS[0]), np.log(RATIOS[-1])
    frac = (np.clip(np.log(ratio), low, high) - low) / (high - low)
    return float(HEIGHT - BOTTOM - frac * (HEIGHT - TOP - BOTTOM))


def _axes(decades: tuple[int, int], title: str) -> list[str]:
    """Frame, guides, ticks and words."""
    right, floor = WIDTH - RIGHT, HEIGHT - BOTTOM
    parts = [
        _text(LEFT, TOP - 16, title, "start", 14),
        f'<path d="M{LEFT} {TOP}V{floor}H{right}" fill="none" stroke="{INK}"/>',
        _text((LEFT + right) / 2, HEIGHT - 16, "measured tokens/s of a device", "middle"),
    ]
    parts += [_text(LEFT - 8, _down(ratio) + 4, f"{ratio:g}", "end") for ratio in RATIOS]
    for ratio, dash in GUIDES.items():
        line = f'<path d="M{LEFT} {_down(ratio):.1f}H{right}" stroke="#888888"'
        parts.append(f'{line} stroke-dasharray="{dash}"/>' if dash else f"{line}/>")
    parts += [
        _text(_across(10.0**decade, decades), floor + 18, f"{10**decade:,}", "middle")
        for decade in range(decades[0], decades[1] + 1)
    ]
    return parts


def _mark(point: Point, kind: int, decades: tuple[int, int]) -> str:
    x, y = _across(point.tokens_per_s, decades), _down(point.ratio)
    name = f"<title>{point.name}: {point.ratio:.2f}</title>"
    return _shape(x, y, kind, name)


def _shape(x: float, y: float, kind: int, inside: str) -> str:
    """A circle, or a square, that those behind shine through."""
    paint = f'fill="{COLOURS[kind % 2]}" fill-opacity="0.55"'
    if kind % 2 == 0:
        return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" {paint}>{inside}</circle>'
    corner = f'x="{x - 4:.1f}" y="{y - 4:.1f}" width="8" height="8"'
    return f"<rect {corner} {paint}>{inside}</rect>"


def _legend(kinds: Sequence[str]) -> list[str]:
    at = WIDTH - RIGHT + 24
    parts = []
    for i, kind in enumerate(kinds):
        parts.append(_shape(at, TOP + 14 + 20 * i, i, ""))
        parts.append(_text(at + 12, TOP + 18 + 20 * i, kind, "start"))
    return [*parts, _text(at - 4, TOP + 18 + 20 * len(kinds), "dashed: 0.8, 1.25", "start")]


def _text(x: float, y: float, words: str, anchor: str, size: int = 12) -> str:
    place = f'x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"'
    return f'<text {place} font-size="{size}" fill="{INK}">{words}</text>'
