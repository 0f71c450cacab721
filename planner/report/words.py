"""What a report says, in both of its languages, from the phrases beside this file.

A phrase is looked up by key and filled with figures that are text already: numbers are rounded
where they are made, once. Names of facts, metrics and sites stay as they are.
"""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

from simkernel.errors import UnknownName, unknown

LANGUAGES = ("en", "zh")
PHRASES = Path(__file__).with_name("phrases.toml")

_ABOUT = (
    ("in_prefill", "prefill: ", ""),
    ("in_decode", "decode: ", ""),
    ("in_prefill", "prefill.", ""),
    ("in_decode", "decode.", ""),
    ("end_low", "", "_low"),
    ("end_high", "", "_high"),
    ("when_empty", "", " of an empty replica"),
    ("when_failed", "", " after failures of prefill"),
    ("when_failed", "", " after failures of decode"),
    ("when_failed", "", " after failures"),
    ("by_a_bound", "", " by a bound"),
)
"""What stands around the name of a metric or a limit: phrase, what begins it, what ends it."""


class Say:
    """Phrases in one language.

    Raises
    ------
    UnknownName : a language that the report does not have
    """

    def __init__(self, language: str) -> None:
        if language not in LANGUAGES:
            raise unknown("language", language, LANGUAGES)
        self.language = language

    def __call__(self, key: str, **figures: object) -> str:
        """A phrase with its figures.

        Raises
        ------
        UnknownName : no such phrase
        """
        phrases = _phrases()["phrase"]
        if key not in phrases:
            raise UnknownName(f"phrase {key!r} is not one of {PHRASES.name}")
        return str(phrases[key][self.language]).format(**figures)

    def name(self, word: str) -> str:
        """An input, a scenario or a term of cost, as its reader knows it."""
        if self.language == "zh":
            return str(_phrases()["zh"].get(word, word))
        return word.replace("_", " ")

    def metric(self, name: str) -> str:
        """A metric or a limit as its reader knows it, with its pool, its end or its condition."""
        known = _phrases()["metric"]
        if name in known:
            return str(known[name][self.language])
        for key, first, last in _ABOUT:
            if name.startswith(first) and name.endswith(last) and len(name) > len(first + last):
                inner = name.removeprefix(first).removesuffix(last)
                return self(key, metric=self.metric(inner))
        return name.replace("_", " ")

    def case(self, words: str) -> str:
        """A case of a study, "capex_usd = 200,000,000", as its reader knows it."""
        name, sign, value = words.partition(" = ")
        return self.metric(name) + sign + value

    def term(self, words: str) -> str:
        """A term of a sum with its share, "own_step (73%)", as its reader knows it."""
        name, apart, share = words.partition(" (")
        return self.name(name) + apart + share

    def listed(self, words: Sequence[str]) -> str:
        """Words one after the other."""
        return ("、" if self.language == "zh" else ", ").join(words)


@cache
def _phrases() -> dict[str, Any]:
    return tomllib.loads(PHRASES.read_text(encoding="utf-8"))
