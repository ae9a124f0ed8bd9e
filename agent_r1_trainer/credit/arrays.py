"""The kinds of array that credit is computed with."""

import numpy as np
from numpy.typing import NDArray

__all__ = ["Floats", "Integers"]

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
