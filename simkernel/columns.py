"""The one alias for a quantity that may be a number or a column of numbers."""

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Codes = npt.NDArray[np.int64]
Masks = npt.NDArray[np.bool_]

Column = float | Floats
"""A quantity of one candidate (a number) or of n candidates (shape (n,)); equations take either."""
