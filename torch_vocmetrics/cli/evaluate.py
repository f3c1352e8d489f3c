"""``vocmetrics evaluate``: the task of the protocol says which module does the work."""

from __future__ import annotations

import argparse

from ..protocols import load_protocol
from . import merge, tasks
from .options import device_of, refuse_other_options
from .outputs import check_json_file
from .protocols import full_name


def run(args: argparse.Namespace) -> None:
    """Read, evaluate, and show."""
    device = device_of(args.device)
    check_json_file(args.json)
    merge.check_state_file(args)
    protocol = load_protocol(full_name(args.protocol))
    refuse_other_options(args, protocol.task)
    tasks.EVALUATORS[protocol.task](args, protocol, device)
