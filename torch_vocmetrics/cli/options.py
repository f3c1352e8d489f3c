"""Options of ``vocmetrics evaluate`` as arguments of the readers."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from ..errors import ON_FAULT, InputError

if TYPE_CHECKING:
    import torch


def reader_options(args: argparse.Namespace) -> dict[str, Any]:
    """The arguments ``max_bytes`` and ``on_fault`` of a reader."""
    return {"on_fault": args.on_fault, **size_limit(args)}


def size_limit(args: argparse.Namespace) -> dict[str, Any]:
    """The argument ``max_bytes`` of a reader, if the command gives it."""
    return {} if args.max_file_size is None else {"max_bytes": args.max_file_size * 2**20}


TASKS_OF_OPTIONS = {
    "classes": ("detection", "segmentation", "classification", "action"),
    "iou_thresholds": ("detection", "miss_rate"),
    "max_detections": ("detection", "miss_rate"),
    "label_colors": ("segmentation",),
    "label_ids": ("segmentation",),
    "void": ("segmentation",),
    "reduce_zero_label": ("segmentation",),
}
"""Options that not every task has, and the tasks that have them."""


def refuse_other_options(args: argparse.Namespace, task: str) -> None:
    """Raise InputError for options that were given and that a task does not have."""
    for name, tasks in TASKS_OF_OPTIONS.items():
        if task not in tasks:
            refuse_option(args, name, task)


def refuse_option(args: argparse.Namespace, name: str, what: str) -> None:
    """Raise InputError if an option was given that ``what`` does not have."""
    if getattr(args, name) not in (None, False, ON_FAULT[0]):
        raise InputError(f"not an option of {what}", where=f"--{name.replace('_', '-')}")


def device_of(name: str) -> torch.device:
    """The device that ``--device`` names.

    Raises:
        InputError: if it is another kind of device, or none of this machine.
    """
    import torch  # noqa: PLC0415 - most commands need no device

    try:
        device = torch.device(name)
    except RuntimeError:
        device = torch.device("meta")
    if device.type not in ("cpu", "cuda"):
        raise InputError("must be cpu, cuda or cuda:N", where="--device", got=repr(name))
    if device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
        got = f"{name!r} among {torch.cuda.device_count()} CUDA devices"
        raise InputError("no such device", where="--device", got=got, remedy="try --device cpu")
    return device
