"""How a study's names are looked up: in a catalogue, or taken as they are."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


def _as_given(name: str) -> str:
    return name


@dataclass(frozen=True)
class Names:
    """How names are looked up: each function gives the catalogue's own spelling.

    Each raises UnknownName, with the nearest names, for a name the catalogue does not have. The
    defaults take any name as it is.
    """

    accelerator: Callable[[str], str] = _as_given
    site: Callable[[str], str] = _as_given
    model: Callable[[str], str] = _as_given
    trace: Callable[[str], str] = _as_given
