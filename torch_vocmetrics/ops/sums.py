"""Running sums."""

from __future__ import annotations

import torch
from torch import Tensor


def sums_before(values: Tensor, dtype: torch.dtype = torch.int64) -> Tensor:
    """[..., N + 1] the sum of ``values`` [..., N] before each place, and behind the last of all."""
    sums = values.new_empty((*values.shape[:-1], values.shape[-1] + 1), dtype=dtype)
    sums[..., 0].zero_()  # an assignment would copy from the host
    torch.cumsum(values, dim=-1, dtype=dtype, out=sums[..., 1:])
    return sums
