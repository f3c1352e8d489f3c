"""Tensors that say they are on CUDA, on a machine without one, and a guard against waiting.

``FakeTensorMode`` fails on mixes of devices and on whatever needs the values (``.item()``, sizes
that depend on data). It is silent about copies between devices, so a second mode refuses those that
would wait: everything from the device, and everything to it but non-blocking copies from pinned
memory.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

aten = torch.ops.aten

DENIED = {
    aten._local_scalar_dense,
    aten.nonzero,
    aten.masked_select,
    aten._unique2,
    aten.unique_dim,
    aten.unique_consecutive,
    aten.bincount,
    aten.equal,
    aten.is_nonzero,
}
FACTORIES = {torch.tensor, torch.as_tensor, torch.from_numpy, torch.asarray}


class WaitError(AssertionError):
    """An operation that would wait for the device."""


class _NoWaiting(TorchDispatchMode):
    """Refuses what waits; counts the operations and the copies to the device."""

    def __init__(self) -> None:
        super().__init__()
        self.calls = 0
        self.copies = 0
        self._pinned: set[int] = set()

    def __torch_dispatch__(
        self,
        func: Any,
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        kwargs = kwargs or {}
        packet = func.overloadpacket
        self.calls += 1
        tensors = [arg for arg in args if isinstance(arg, Tensor)]
        on_device = any(tensor.device.type == "cuda" for tensor in tensors)
        if packet in DENIED and on_device:
            raise WaitError(f"{func} reads the device")
        if packet in (aten.index, aten.index_put, aten.index_put_) and on_device:
            for index in args[1]:
                if index is not None and (index.dtype == torch.bool or index.device.type == "cpu"):
                    raise WaitError(f"{func} with a bool or host index")
        if packet is aten._to_copy and isinstance(kwargs.get("device"), torch.device):
            self._check(args[0], kwargs["device"].type, kwargs.get("non_blocking", False), func)
        if packet is aten.copy_:
            non_blocking = args[2] if len(args) > 2 else kwargs.get("non_blocking", False)
            self._check(args[1], args[0].device.type, non_blocking, func)
        out = func(*args, **kwargs)
        if kwargs.get("pin_memory") and isinstance(out, Tensor):
            self._pinned.add(out.untyped_storage()._cdata)
        return out

    def _check(self, source: Tensor, target: str, non_blocking: bool, func: Any) -> None:
        if source.device.type == target or "meta" in (source.device.type, target):
            return
        if target != "cuda":
            raise WaitError(f"{func} from the device")
        if not non_blocking or source.untyped_storage()._cdata not in self._pinned:
            raise WaitError(f"{func} to the device, not from pinned memory without blocking")
        self.copies += 1


class _NoFactories(TorchFunctionMode):
    """Refuses host data made straight into device tensors, which is a blocking copy."""

    def __torch_function__(
        self,
        func: Any,
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        kwargs = kwargs or {}
        if func in FACTORIES and "cuda" in str(kwargs.get("device")):
            raise WaitError(f"{func.__name__}(..., device='cuda')")
        return func(*args, **kwargs)


@functools.cache
def _copies_can_be_faked() -> bool:
    """Whether a fake copy to a fake device works here: torch 2.4 needs a driver for it."""
    try:
        with FakeTensorMode():
            torch.empty(1, pin_memory=True).to("cuda", non_blocking=True)
    except RuntimeError:
        return False
    return True


@contextlib.contextmanager
def fake_cuda() -> Iterator[_NoWaiting]:
    """Inside, ``device="cuda"`` makes fake tensors and waiting raises."""
    if not torch.backends.cuda.is_built():
        pytest.skip("this torch was built without CUDA, so there is no pinned memory to fake")
    if not _copies_can_be_faked():
        pytest.skip("this torch asks for a driver where a fake tensor is copied to a fake device")
    with FakeTensorMode(), _NoFactories(), _NoWaiting() as guard:
        yield guard
