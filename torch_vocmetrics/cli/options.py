"""Options of ``vocmetrics evaluate`` as arguments of the readers."""

from __future__ import annotations

import argparse
from typing import Any

from ..errors import ON_FAULT, InputError


def reader_options(args: argparse.Namespace) -> dict[str, Any]:
    """The arguments ``max_bytes`` and ``on_fault`` of a reader."""
    return {"on_fault": args.on_fault, **size_limit(args)}


def size_limit(args: argparse.Namespace) -> dict[str, int]:
    """The argument ``max_bytes`` of a reader, if the command gives it."""
    return {} if args.max_file_size is None else {"max_bytes": args.max_file_size * 2**20}


def refuse_options(args: argparse.Namespace, task: str, *names: str) -> None:
    """Raise InputError for options that were given and that a task does not have."""
    for name in names:
        if getattr(args, name) not in (None, ON_FAULT[0]):
            raise InputError(f"not an option of {task}", where=f"--{name.replace('_', '-')}")
