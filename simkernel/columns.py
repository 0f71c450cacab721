"""The aliases for a quantity that may be a number or a column of numbers.

The dtype is in the alias's name for the reader; the type checker sees any array, because NumPy's
promotion of mixed columns is not expressible without casts on every line.
"""

from typing import Any

import numpy.typing as npt

Floats = npt.NDArray[Any]
Codes = npt.NDArray[Any]
Masks = npt.NDArray[Any]

Column = float | npt.NDArray[Any]
"""A quantity of one candidate (a number) or of n candidates ((n,)); any equation takes either."""
