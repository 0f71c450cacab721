"""The font of reports, which has both of their alphabets: a box for a letter is a fault."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pylopdf_fonts_zh_cn
import vl_convert

FAMILY = "Noto Sans SC"


def folder() -> Path:
    """Where its files are."""
    found = sorted(Path(pylopdf_fonts_zh_cn.__file__).parent.rglob("NotoSansSC*.otf"))
    return found[0].parent


@cache
def registered() -> bool:
    """True once charts can be drawn with it."""
    vl_convert.register_font_directory(str(folder()))
    return True
