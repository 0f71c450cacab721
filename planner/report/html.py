"""A report as one HTML file that works offline: charts are drawn in it, nothing is fetched."""

from __future__ import annotations

from html import escape

import vl_convert

from planner.report.blocks import Block, Heading, Listing, Paper, Picture, Points, Table, Words
from planner.report.fonts import registered

STYLE = """
:root { color-scheme: light dark; --ink: #1d2733; --paper: #fff; --line: #c9d1da; --mark: #eef4fb;
        --lead: #0b5394; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e4e9ef; --paper: #14181d; --line: #3b4550; --mark: #1d2a38; --lead: #7db8f0; } }
body { font: 16px/1.5 "Noto Sans SC", "Noto Sans", "Segoe UI", sans-serif; color: var(--ink);
       background: var(--paper); max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.7rem; margin-bottom: 0; } .subtitle { opacity: .75; margin-top: .2rem; }
h2 { font-size: 1.2rem; margin-top: 2.2rem; border-bottom: 1px solid var(--line); }
.decision { font-size: 1.15rem; font-weight: 600; border-left: 4px solid var(--lead);
            padding: .6rem 1rem; background: var(--mark); }
.wide { overflow-x: auto; } table { border-collapse: collapse; font-size: .86rem; width: 100%; }
caption, figcaption { text-align: left; font-weight: 600; padding: .4rem 0; }
th, td { text-align: left; vertical-align: top; padding: .3rem .6rem .3rem 0;
         border-bottom: 1px solid var(--line); overflow-wrap: anywhere; }
tr.marked { background: var(--mark); font-weight: 600; }
figure { margin: 1rem 0; } figure svg { max-width: 100%; height: auto; background: #fff; }
.words { font-size: .86rem; opacity: .8; }
"""


def html(paper: Paper) -> str:
    """The file's text; every name in it is escaped."""
    registered()
    lang = "zh-CN" if paper.language == "zh" else "en"
    body = "\n".join(_block(block) for block in paper.blocks)
    title = escape(paper.title)
    return (
        f'<!doctype html>\n<html lang="{lang}"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<meta http-equiv="Content-Security-Policy" content="default-src \'none\'; '
        "style-src 'unsafe-inline'; img-src data:\">"
        f"<title>{title}</title><style>{STYLE}</style></head>\n<body><h1>{title}</h1>"
        f'<p class="subtitle">{escape(paper.subtitle)}</p>\n{body}\n</body></html>\n'
    )


def _block(block: Block) -> str:
    match block:
        case Heading(text):
            return f"<h2>{escape(text)}</h2>"
        case Words(text, is_decision):
            mark = ' class="decision"' if is_decision else ""
            return f"<p{mark}>{escape(text)}</p>"
        case Points(lines):
            return "<ul>" + "".join(f"<li>{escape(line)}</li>" for line in lines) + "</ul>"
        case Listing(text):
            return f'<pre class="wide">{escape(text)}</pre>'
        case Table():
            return _table(block)
        case Picture(title, words, spec):
            drawn = vl_convert.vegalite_to_svg(dict(spec))
            return (
                f'<figure role="img" aria-label="{escape(words)}"><figcaption>{escape(title)}'
                f'</figcaption>{drawn}<p class="words">{escape(words)}</p></figure>'
            )


def _table(table: Table) -> str:
    heads = "".join(f'<th scope="col">{escape(head)}</th>' for head in table.heads)
    rows = "".join(
        ('<tr class="marked">' if i == table.marked else "<tr>")
        + "".join(f"<td>{escape(cell)}</td>" for cell in row)
        + "</tr>"
        for i, row in enumerate(table.rows)
    )
    return (
        f'<div class="wide"><table><caption>{escape(table.title)}</caption><thead><tr>{heads}'
        f"</tr></thead><tbody>{rows}</tbody></table></div>"
    )
