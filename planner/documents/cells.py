"""Cells of tables that people open in a spreadsheet: text stays text."""

from __future__ import annotations

import re
from typing import Any

FORMULA = re.compile(r"[=@\t\r]|[+-](?![\d.])")
"""How a text begins that a spreadsheet would work out; a signed number is one."""


def harmless(cell: Any) -> Any:
    """A cell as it is, a text that would be worked out with a quote before it.

    References
    ----------
    OWASP, CSV Injection: https://owasp.org/www-community/attacks/CSV_Injection
    """
    return f"'{cell}" if isinstance(cell, str) and FORMULA.match(cell) else cell
