"""A stand-in for a CUDA device that has values: tensors say ``cuda`` and are kept on the host.

Unlike fake tensors they can be read, so that the device branches of a metric run to the end and
their results can be compared with those of the host. The stand-in counts what a device would be
asked to do: launches, copies to it, and waits. It refuses mixes of devices, as CUDA does.

Operators of this package run as their plain form, or, where ``kernels`` is set, as the kernel
itself in Triton's interpreter.
"""

from __future__ import annotations

import contextlib
import traceback
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map

from helpers.fake_cuda import DENIED, FACTORIES, WaitError
from torch_vocmetrics.inputs import packing

aten = torch.ops.aten

EMPTY = {aten.empty, aten.empty_like, aten.new_empty, aten.empty_strided, aten.new_empty_strided}
FREE = {aten._unsafe_view, aten.lift_fresh, aten.alias, aten.detach}
READS = {aten._to_copy, aten.copy_, aten.index, aten.index_put, aten.index_put_}
"""Operators that take tensors of several devices."""


class DeviceTensor(Tensor):
    """Says that it is on a device; ``host`` is a tensor on the CPU with the values."""

    host: Tensor
    __torch_function__ = torch._C._disabled_torch_function_impl

    @staticmethod
    def __new__(cls, host: Tensor, device: torch.device) -> DeviceTensor:
        made = Tensor._make_wrapper_subclass(  # type: ignore[attr-defined]
            cls,
            host.shape,
            strides=host.stride(),
            storage_offset=host.storage_offset(),
            dtype=host.dtype,
            device=device,
        )
        made.host = host
        return made  # type: ignore[no-any-return]

    def __init__(self, host: Tensor, device: torch.device) -> None:
        pass

    def as_subclass(self, cls: Any) -> Any:
        """Itself, since a real tensor on a device is of no subclass."""
        return self

    def __repr__(self) -> str:  # type: ignore[override]
        return f"DeviceTensor({self.host}, {self.device})"

    @classmethod
    def __torch_dispatch__(cls, func: Any, *_: Any) -> Any:
        raise AssertionError(f"{func} outside the stand-in")


class Counts(TorchDispatchMode):
    """Runs every operation on the host and counts what it would be on a device.

    Attributes:
        launches: operations on the device, views and empty allocations left out.
        copies: to the device, from pinned memory without blocking; they are launches as well.
        waits: every operation for which the host waits, and where it was called.
        operators: launches by name.
    """

    def __init__(self, kind: str = "cuda", *, refuse: bool = False, kernels: bool = False) -> None:
        super().__init__()
        self.kind, self.refuse, self.kernels = kind, refuse, kernels
        self.reset()
        self._pinned: list[Tensor] = []

    def reset(self) -> None:
        """Count from 0 again."""
        self.launches = self.copies = 0
        self.waits: list[str] = []
        self.operators: Counter[str] = Counter()

    def wait(self, what: str) -> None:
        """Note that the host waits, and for which line of the package; tests may wait."""
        calls = [f for f in traceback.extract_stack() if "torch_vocmetrics/" in f.filename]
        if not calls:
            return
        self.waits.append(f"{what} at {Path(calls[-1].filename).name}:{calls[-1].lineno}")
        if self.refuse:
            raise WaitError(self.waits[-1])

    def __torch_dispatch__(
        self,
        func: Any,
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        kwargs = dict(kwargs or {})
        packet = func.overloadpacket
        tensors = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, Tensor)]
        held = [one for one in tensors if isinstance(one, DeviceTensor)]
        target = self._target(packet, args, kwargs, held)
        if held:
            self._refuse_mixes(func, packet, tensors, held)
        self._count(func, packet, args, kwargs, held, target)
        pinned = bool(kwargs.pop("pin_memory", False))
        host_args, host_kwargs = tree_map(_on_host, (args, kwargs))
        if kwargs.get("device") is not None:
            host_kwargs["device"] = torch.device("cpu")
        out = self._run(func, host_args, host_kwargs, on_device=bool(held))
        if pinned:
            self._pinned.append(out)
        if target is None:
            return out
        known = {id(one.host): one for one in held}
        return tree_map(lambda one: _wrapped(one, target, known), out)

    def _run(self, func: Any, args: Any, kwargs: Any, *, on_device: bool) -> Any:
        if on_device and func.namespace == "torch_vocmetrics" and self.kernels:
            from torch_vocmetrics.kernels.operators import implementation  # noqa: PLC0415

            return implementation(func.overloadpacket.__name__, "CUDA")(*args, **kwargs)
        return func(*args, **kwargs)

    def _target(self, packet: Any, args: Any, kwargs: Any, held: list[Any]) -> Any:
        """The device of what comes out, None for the host."""
        wanted = kwargs.get("device")
        if wanted is not None:
            return wanted if wanted.type == self.kind else None
        if packet is aten.copy_:
            return args[0].device if isinstance(args[0], DeviceTensor) else None
        return held[0].device if held else None

    def _refuse_mixes(self, func: Any, packet: Any, tensors: Any, held: list[Any]) -> None:
        if packet in READS:
            return
        devices = {one.device for one in held}
        if len(devices) > 1 or any(
            not isinstance(one, DeviceTensor) and (one.dim() or "custom" in func.namespace)
            for one in tensors
        ):
            names = sorted({str(one.device) for one in tensors})
            raise RuntimeError(f"{func}: expected all tensors on one device, got {names}")

    def _count(
        self, func: Any, packet: Any, args: Any, kwargs: Any, held: list[Any], target: Any
    ) -> None:
        if not held and target is None:
            return
        moving = packet is aten._to_copy or packet is aten.copy_
        if packet in DENIED:
            self.wait(str(func))
        if packet in (aten.index, aten.index_put, aten.index_put_):
            for index in args[1]:
                if index is not None and (index.dtype == torch.bool or index.is_cpu):
                    self.wait(f"{func} with a bool or host index")
                    break
        if packet is aten.repeat_interleave and kwargs.get("output_size") is None:
            self.wait(str(func))
        if moving and self._moves(func, args, kwargs):
            return
        is_view = any(
            one.alias_info is not None and not one.alias_info.is_write
            for one in func._schema.returns
        )
        if not (is_view or packet in EMPTY or packet in FREE):
            self.launches += 1
            self.operators[str(packet)] += 1

    def _moves(self, func: Any, args: Any, kwargs: Any) -> bool:
        """Count a copy between devices; whether it was one."""
        if func.overloadpacket is aten._to_copy:
            source, wanted = args[0], kwargs.get("device")
            target = source.device if wanted is None else wanted
            non_blocking = kwargs.get("non_blocking", False)
            pinned = source if target.type == self.kind else None
        else:
            source, target = args[1], args[0].device
            non_blocking = args[2] if len(args) > 2 else kwargs.get("non_blocking", False)
            pinned = source if target.type == self.kind else args[0]
        if source.device == target:
            return False
        if source.device.type == target.type:  # from one device to the next
            self.launches += 1
            return True
        if not non_blocking or pinned is None or not self._is_pinned(pinned):
            self.wait(f"{func} from {source.device} to {target}")
        self.launches += 1
        self.copies += 1
        self.operators[str(func.overloadpacket)] += 1
        return True

    def _is_pinned(self, tensor: Tensor) -> bool:
        storage = tensor.untyped_storage().data_ptr()
        return any(one.untyped_storage().data_ptr() == storage for one in self._pinned)


class _Calls(TorchFunctionMode):
    """What does not reach the dispatcher: ``tolist``, devices without a number."""

    def __init__(self, counts: Counts) -> None:
        super().__init__()
        self._counts = counts

    def __torch_function__(
        self,
        func: Any,
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        kwargs = kwargs or {}
        if func is torch.device:
            return func(*args, **kwargs)
        args, kwargs = tree_map(self._numbered, (args, kwargs))
        if func is Tensor.tolist and isinstance(args[0], DeviceTensor):
            self._counts.wait("tolist")
            return args[0].host.tolist()
        if func is Tensor.numpy and isinstance(args[0], DeviceTensor):
            raise TypeError("can't convert a device tensor to numpy")
        if func is Tensor.is_pinned:
            return self._counts._is_pinned(args[0])
        wanted = kwargs.get("device")
        if func in FACTORIES and wanted is not None and torch.device(wanted).type != "cpu":
            self._counts.wait(func.__name__)
            host = func(*args, **{**kwargs, "device": "cpu"})
            return DeviceTensor(host, torch.device(wanted))
        return func(*args, **kwargs)

    def _numbered(self, value: Any) -> Any:
        kind = self._counts.kind
        unnumbered = isinstance(value, str | torch.device) and str(value) == kind
        return torch.device(kind, 0) if unnumbered else value


def _on_host(value: Any) -> Any:
    return value.host if isinstance(value, DeviceTensor) else value


def _wrapped(value: Any, device: torch.device, known: dict[int, DeviceTensor]) -> Any:
    if not isinstance(value, Tensor):
        return value
    if id(value) in known:
        mine = known[id(value)]
        assert mine.shape == value.shape, "the stand-in keeps shapes"
        return mine
    return DeviceTensor(value, device)


@contextlib.contextmanager
def host_backed_cuda(
    kind: str = "cuda", *, refuse: bool = False, kernels: bool = False
) -> Iterator[Counts]:
    """Inside, ``device="cuda"`` makes tensors with values and all work on them is counted.

    Args:
        kind: the kind of device, such as ``"mps"``.
        refuse: whether what waits raises :class:`fake_cuda.WaitError`.
        kernels: whether operators of the package run as their kernel, in Triton's interpreter.
    """
    if not torch.backends.cuda.is_built():
        pytest.skip("this torch was built without CUDA")
    if not torch.cuda.is_available():
        torch._C._ensureCUDADeviceGuardSet()  # so that nobody asks a driver for its device
    counts = Counts(kind, refuse=refuse, kernels=kernels)

    def plain(parts: Any) -> bool:
        return set(map(type, parts)) in ({Tensor}, {DeviceTensor})

    with (
        mock.patch("torch.cuda._lazy_init"),
        mock.patch.object(packing, "_plain", plain),
        _Calls(counts),
        counts,
    ):
        yield counts


def moved(value: Any, device: str | torch.device = "cuda") -> Any:
    """The same nested values with every tensor on the stand-in."""
    home = torch.device(device)
    home = torch.device(home.type, home.index or 0)

    def there(one: Any) -> Any:
        if not isinstance(one, Tensor) or one.device == home:
            return one
        # Not by ``to``, which asks for modules that this torch may not have.
        return one.cpu() if home.type == "cpu" else DeviceTensor(_on_host(one).clone(), home)

    return tree_map(there, value)
