"""One metric on several CUDA streams: what one stream has made another waits for.

A metric works on the stream that is current where it is called. A call on another stream first
makes this stream wait for the earlier one, and tells the allocator that the tensors are now used
there as well. The host waits for neither. Arguments of ``update`` are the caller's: as for every
function of torch, whoever makes them on another stream lets the current stream wait for it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import is_dataclass
from typing import Any

import torch
from torch import Tensor

from ..image_masks import BitMasks


def current_stream(device: torch.device) -> Any:
    """The stream on which work for a CUDA device is put now; None where there is no card."""
    return torch.cuda.current_stream(device) if torch.cuda.is_available() else None


class OnCurrentStream:
    """An attribute that holds an ``Accumulated``, ready for the stream that is current.

    It lies in the dict of the object under its own name; the stream of the last call beside it.
    """

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        if instance is None:
            return self
        held = vars(instance)
        state = held[self._name]
        if state.device is not None and state.device.type == "cuda":
            held["_stream"] = handed_over(state, held.get("_stream"))
        return state

    def __set__(self, instance: Any, state: Any) -> None:
        held = vars(instance)
        held[self._name] = state
        if state.device is not None and state.device.type == "cuda":
            held["_stream"] = current_stream(state.device)


def handed_over(state: Any, last: Any) -> Any:
    """Make a state that was made on the stream ``last`` usable on the current one; gives that."""
    current = current_stream(state.device)
    if last is not None and current != last:
        current.wait_stream(last)
        for tensor in tensors_of(state):
            if tensor.is_cuda:
                tensor.record_stream(current)
    return current


def tensors_of(value: Any) -> Iterator[Tensor]:
    """Every tensor in nested objects of this package, tuples, lists and dicts."""
    if isinstance(value, Tensor):
        yield value
        return
    if isinstance(value, dict):
        parts = list(value.values())
    elif isinstance(value, tuple | list):
        # Ids are many, and none is a tensor if the first is not.
        parts = [] if value and isinstance(value[0], int | str) else list(value)
    else:
        has_parts = is_dataclass(value) or isinstance(value, BitMasks)
        parts = list(vars(value).values()) if has_parts else []
    for part in parts:
        yield from tensors_of(part)
