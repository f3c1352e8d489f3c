"""Custom operators: one name for the CPU, for CUDA and for tensors without values.

An operator can be traced, faked and counted as one operation. Its form for CUDA is a Triton kernel
where Triton works, and else plain tensor operations on the device.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

NAMESPACE = "torch_vocmetrics"

Implementation = Callable[..., Any]

# The plain form of torch.library: its decorator loads the compiler at the first call (1.5 s).
_LIBRARY = torch.library.Library(NAMESPACE, "FRAGMENT")
_IMPLEMENTATIONS: dict[tuple[str, str], Implementation] = {}


def operator(
    schema: str, *, cpu: Implementation, cuda: Implementation, fake: Implementation
) -> Callable[..., Any]:
    """Register an operator and return what calls it.

    Args:
        schema: such as ``"areas(Tensor words) -> Tensor"``.
        cpu, cuda: the work itself, on tensors of either kind of device.
        fake: gives empty tensors of the shapes and types that come out.
    """
    name = schema.partition("(")[0]
    _LIBRARY.define(schema)
    for kind, work in (("CPU", cpu), ("CUDA", cuda)):
        _LIBRARY.impl(name, work, kind)
        _IMPLEMENTATIONS[name, kind] = work
    torch.library.register_fake(f"{NAMESPACE}::{name}", fake, lib=_LIBRARY)
    called: Callable[..., Any] = getattr(getattr(torch.ops, NAMESPACE), name)
    return called


def implementation(name: str, kind: str) -> Implementation:
    """What an operator runs on a kind of device, ``"CPU"`` or ``"CUDA"``."""
    return _IMPLEMENTATIONS[name, kind]
