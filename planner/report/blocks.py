"""What a report consists of, whatever file it becomes: headings, words, tables, charts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Heading:
    """Title of a part."""

    text: str


@dataclass(frozen=True)
class Words:
    """A paragraph; `is_decision` for the sentence that a reader must not miss."""

    text: str
    is_decision: bool = False


@dataclass(frozen=True)
class Points:
    """Sentences one under the other."""

    lines: Sequence[str]


@dataclass(frozen=True)
class Table:
    """Rows of text under headings.

    Parameters
    ----------
    title : what it shows, as a finding where there is one
    shares : widths of the columns, one to another
    marked : place of a row that stands out, -1 for none
    """

    title: str
    heads: Sequence[str]
    rows: Sequence[Sequence[str]]
    shares: Sequence[float] = ()
    marked: int = -1


@dataclass(frozen=True)
class Picture:
    """A chart.

    Parameters
    ----------
    title : its finding
    words : what it shows, for those who cannot see it
    spec : Vega-Lite
    """

    title: str
    words: str
    spec: Mapping[str, Any]


@dataclass(frozen=True)
class Listing:
    """A file letter by letter."""

    text: str


Block = Heading | Words | Points | Table | Picture | Listing


@dataclass(frozen=True)
class Paper:
    """A report ready to be set.

    Parameters
    ----------
    title, subtitle : of the first page
    language : "en" or "zh"
    """

    title: str
    subtitle: str
    language: str
    blocks: Sequence[Block]
