"""The state of a metric as plain data: text and named tensors, in one run of bytes.

``state_dict`` of every metric is nested dicts and lists of numbers, text and tensors. Here its
tensors are taken out and named, image ids become tensors too, and the rest is JSON. Nothing is
pickled.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from ..errors import StateError

ALIGNMENT = 64
"""Tensors start at multiples of so many bytes, so that they can be read where they lie."""

DTYPES = {
    str(dtype).removeprefix("torch."): dtype
    for dtype in (
        torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64,
        torch.float16, torch.float32, torch.float64,
    )
}  # fmt: skip


def flatten(state: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Split a ``state_dict`` into JSON data and named tensors; :func:`restore` is the inverse.

    Returns:
        The same nesting with ``{"tensor": name}`` in place of a tensor, and the tensors, called by
        their path, such as ``records.0.score``.
    """
    tensors: dict[str, Tensor] = {}
    text = {
        key: _flat_ids(value, key, tensors)
        if key == "image_ids"
        else _flat(value, str(key), tensors)
        for key, value in state.items()
    }
    return text, tensors


def _flat(value: Any, path: str, tensors: dict[str, Tensor]) -> Any:
    if isinstance(value, Tensor):
        tensors[path] = value
        return {"tensor": path}
    if isinstance(value, Mapping):
        return {str(key): _flat(one, f"{path}.{key}", tensors) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_flat(one, f"{path}.{index}", tensors) for index, one in enumerate(value)]
    return value


def _flat_ids(ids: Sequence[Any] | None, path: str, tensors: dict[str, Tensor]) -> Any:
    """Ids of one kind as tensors: whole numbers, letters with lengths, or pairs of these."""
    if not ids:
        return None if ids is None else []
    if isinstance(ids[0], tuple | list):
        sides = zip(*ids, strict=True)
        return {"pairs": [_flat_ids(side, f"{path}.{n}", tensors) for n, side in enumerate(sides)]}
    if isinstance(ids[0], str):
        letters = [one.encode("utf-8", "surrogatepass") for one in ids]
        tensors[f"{path}.bytes"] = _bytes(b"".join(letters))
        tensors[f"{path}.lengths"] = torch.tensor([len(one) for one in letters], device="cpu")
        return {"text": path}
    if not all(isinstance(one, int) and -(2**63) <= one < 2**63 for one in ids):
        return list(ids)
    tensors[path] = torch.tensor(ids, dtype=torch.int64, device="cpu")
    return {"numbers": path}


def restore(text: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> dict[str, Any]:
    """The ``state_dict`` that :func:`flatten` split.

    Raises:
        StateError: if the two do not belong together.
    """
    try:
        return _restored(text, tensors)
    except Exception as error:  # forged text may name, nest and mix anything
        raise StateError(f"the state is damaged: {error!r}") from None


def _restored(text: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> dict[str, Any]:
    return {
        key: _full_ids(value, tensors) if key == "image_ids" else _full(value, tensors)
        for key, value in text.items()
    }


def _full(value: Any, tensors: Mapping[str, Tensor]) -> Any:
    if isinstance(value, list):
        return [_full(one, tensors) for one in value]
    if isinstance(value, dict):
        if value.keys() == {"tensor"}:
            return tensors[value["tensor"]]
        return {key: _full(one, tensors) for key, one in value.items()}
    return value


def _full_ids(value: Any, tensors: Mapping[str, Tensor]) -> list[Any] | None:
    if value is None or isinstance(value, list):
        return value
    kind, path = next(iter(value.items()))
    if kind == "pairs":
        first, second = (_full_ids(side, tensors) or [] for side in path)
        return list(zip(first, second, strict=True))
    if kind == "numbers":
        return list(_column(tensors[path], torch.int64).tolist())
    if kind != "text":
        raise ValueError(f"image ids as {kind!r}")
    letters = _column(tensors[f"{path}.bytes"], torch.uint8).numpy().tobytes()
    lengths = _column(tensors[f"{path}.lengths"], torch.int64).tolist()
    if min(lengths, default=0) < 0 or sum(lengths) != len(letters):
        raise ValueError("the lengths of image ids do not add up")
    ids, start = [], 0
    for length in lengths:
        ids.append(letters[start : start + length].decode("utf-8", "surrogatepass"))
        start += length
    return ids


def _column(values: Tensor, dtype: torch.dtype) -> Tensor:
    if values.dtype != dtype or values.dim() != 1:
        raise ValueError(f"image ids as {values.dtype} of shape {tuple(values.shape)}")
    return values


def kind_of_ids(state: Mapping[str, Any]) -> str | None:
    """``"none"``, ``"int"``, ``"str"`` or ``"pairs of ..."``; None where there are no images."""
    ids = state.get("image_ids")
    if ids is None:
        return "none" if num_images(state) else None
    if not ids:
        return None
    first = ids[0]
    if isinstance(first, tuple | list):
        return f"pairs of {type(first[0]).__name__}"
    return type(first).__name__


def num_images(state: Mapping[str, Any]) -> int:
    """How many images a state holds; every state says so under this key."""
    return int(state["num_images"])


def with_own_tensors(state: Any) -> Any:
    """The same nested dicts and lists with a copy of each tensor."""
    if isinstance(state, Tensor):
        return state.detach().clone()
    if isinstance(state, Mapping):
        return {key: with_own_tensors(value) for key, value in state.items()}
    if isinstance(state, list) and any(isinstance(value, Mapping | Tensor) for value in state[:1]):
        return [with_own_tensors(value) for value in state]
    return state


# Bytes --------------------------------------------------------------------------------------------


def to_bytes(state: Mapping[str, Any]) -> Tensor:
    """A state as one run of bytes on the CPU: length of the text, the text, then each tensor."""
    text, tensors = flatten(state)
    hosted = {name: one.detach().cpu().contiguous() for name, one in tensors.items()}
    columns = [
        [name, str(one.dtype).removeprefix("torch."), list(one.shape)]
        for name, one in hosted.items()
    ]
    head = json.dumps([text, columns], separators=(",", ":")).encode()
    parts = [_bytes(len(head).to_bytes(8, "little") + head)]
    # Tensors of one element or none may have a stride of 0 and count as contiguous.
    parts += [one.as_strided((one.numel(),), (1,)).view(torch.uint8) for one in hosted.values()]
    starts = [0]
    for part in parts:
        starts.append(starts[-1] + _padded(part.numel()))
    run = torch.zeros(starts[-1], dtype=torch.uint8, device="cpu")
    for start, part in zip(starts, parts, strict=False):
        run[start : start + part.numel()] = part
    return run


def from_bytes(run: Tensor) -> dict[str, Any]:
    """The state in a run of bytes; its tensors lie in the run itself.

    Raises:
        StateError: if the bytes are no state.
    """
    try:
        size = int.from_bytes(run[:8].numpy().tobytes(), "little")
        text, columns = json.loads(run[8 : 8 + size].numpy().tobytes())
        start, tensors = _padded(8 + size), {}
        for name, dtype, shape in columns:
            kind = DTYPES[dtype]
            end = start + torch.Size(shape).numel() * kind.itemsize
            tensors[name] = run[start:end].view(kind).reshape(shape)
            start += _padded(end - start)
        return _restored(text, tensors)
    except Exception as error:  # forged bytes may say anything
        raise StateError(f"the bytes are no state: {error!r}") from None


def _bytes(values: bytes) -> Tensor:
    """Bytes as a tensor of their own."""
    return torch.frombuffer(bytearray(values or b"\0"), dtype=torch.uint8)[: len(values)]


def _padded(size: int) -> int:
    return -(-size // ALIGNMENT) * ALIGNMENT


# Order --------------------------------------------------------------------------------------------


def order_of_arrival(images: Sequence[int]) -> Tensor:
    """[I] int64 on the CPU: rows of states laid end to end, by index in the state, then by state.

    Of a distributed sampler's ranks this is the order of the data set.

    Args:
        images: how many images each state holds.
    """
    counts = torch.tensor(images, dtype=torch.int64, device="cpu")
    states = torch.arange(len(images), device="cpu")
    state = states.repeat_interleave(counts)
    index = torch.arange(len(state), device="cpu") - (counts.cumsum(0) - counts)[state]
    return torch.argsort(index * max(len(images), 1) + state)
