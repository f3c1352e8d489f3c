"""Whether Triton works on a device, and how its kernels are launched there."""

from __future__ import annotations

import importlib.util
from contextlib import AbstractContextManager, nullcontext
from functools import cache
from typing import Any

import torch
from torch import Tensor

from ..errors import warn


def triton_works(device: torch.device) -> bool:
    """Whether Triton's kernels can be launched on a device; tried once, without waiting for it.

    Triton may be missing, lack a C compiler or a folder for its cache, or not know the card. Then
    one warning says so, and other operations do the work.
    """
    if importlib.util.find_spec("triton") is None:
        return False
    # Without a card there are only tensors without values, for which nothing is launched.
    return not torch.cuda.is_available() or _launches(device)


@cache
def _launches(device: torch.device) -> bool:
    try:
        from .probe import probe  # noqa: PLC0415

        with torch.cuda.device(device):
            probe[(1,)](0)
    except Exception as error:  # of Triton, of the compiler, of the operating system
        text = " ".join(str(error).split())[:300]
        warn(
            f"Triton cannot run on {device}, so that slower operations take the place of its "
            f"kernels: {type(error).__name__}: {text}"
        )
        return False
    return True


def current(tensor: Tensor) -> AbstractContextManager[Any]:
    """Make the device of a tensor the current one, on which Triton launches.

    Without it a tensor on ``cuda:1`` would be read from ``cuda:0``. Triton's interpreter works on
    the CPU, where there is nothing to do.
    """
    return torch.cuda.device(tensor.device) if tensor.is_cuda else nullcontext()
