"""Between NumPy on the host and the tensors of a result."""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor


def mean_of_defined(values: Tensor) -> float:
    """Mean of the entries that are not NaN, added as NumPy adds a flat array; NaN if none."""
    flat = np.ascontiguousarray(values.numpy()).ravel()
    defined = flat[~np.isnan(flat)]
    return float(np.mean(defined)) if defined.size else math.nan


def as_tensor(values: object) -> Tensor:
    """A NumPy array or nested lists of numbers as a CPU tensor of the same precision."""
    return torch.from_numpy(np.ascontiguousarray(values))
