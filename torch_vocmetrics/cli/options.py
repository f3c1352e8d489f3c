"""Options of ``vocmetrics evaluate`` as arguments of the readers."""

from __future__ import annotations

import argparse
from typing import Any

from ..errors import ON_FAULT, InputError


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
