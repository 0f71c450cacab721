"""A report as PDF, set by Typst without a browser, fonts embedded."""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import typst
import vl_convert

from planner.report.blocks import Block, Heading, Listing, Paper, Picture, Points, Table, Words
from planner.report.fonts import FAMILY, folder, registered

TEMPLATE = Path(__file__).with_name("report.typ")
PT_PER_PX = 0.75
_SEAM = re.compile(r"(?<=\w)[/_.](?=[A-Za-z])")
"""Where a name may be broken over two lines."""

_WIDTH = re.compile(r'<svg[^>]*\bwidth="([\d.]+)"')


def pdf(paper: Paper) -> bytes:
    """The file's bytes."""
    registered()
    with tempfile.TemporaryDirectory() as name:
        room = Path(name)
        blocks = [_block(block, i, room) for i, block in enumerate(paper.blocks)]
        document = {
            "title": paper.title,
            "subtitle": paper.subtitle,
            "lang": paper.language,
            "font": FAMILY,
            "blocks": blocks,
        }
        (room / "paper.json").write_text(json.dumps(document, ensure_ascii=False), "utf-8")
        (room / TEMPLATE.name).write_text(TEMPLATE.read_text("utf-8"), "utf-8")
        found: bytes = typst.compile(
            str(room / TEMPLATE.name), root=str(room), font_paths=[str(folder())]
        )
    return found


def _block(block: Block, place: int, room: Path) -> Mapping[str, Any]:
    """A block as the template reads it; a chart becomes a file beside it."""
    match block:
        case Heading(text):
            return {"kind": "heading", "text": text}
        case Words(text, is_decision):
            return {"kind": "words", "text": text, "is_decision": is_decision}
        case Points(lines):
            return {"kind": "points", "lines": list(lines)}
        case Listing(text):
            return {"kind": "listing", "text": text}
        case Table(title, heads, rows, shares, marked):
            return {
                "kind": "table",
                "title": title,
                "heads": [_breakable(head) for head in heads],
                "rows": [[_breakable(cell) for cell in row] for row in rows],
                "shares": list(shares) or [1] * len(heads),
                "marked": marked,
            }
        case Picture(title, words, spec):
            drawn = vl_convert.vegalite_to_svg(dict(spec))
            file = f"chart{place}.svg"
            (room / file).write_text(drawn, "utf-8")
            width = _WIDTH.search(drawn)
            width_pt = float(width[1]) * PT_PER_PX if width else 400.0
            return {
                "kind": "picture", "title": title, "words": words, "file": file,
                "width_pt": width_pt,
            }  # fmt: skip


def _breakable(cell: str) -> str:
    """A cell that may be broken within paths and names of facts."""
    return _SEAM.sub(lambda seam: f"{seam[0]}\u200b", cell)
