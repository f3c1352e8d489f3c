"""One result from the states of many ``vocmetrics evaluate --save-state``, or of ``save_state``.

Each shard of a data set is evaluated on its own, by whatever starts commands; its state file holds
arrays and text only. Images that are in several files count once. States of other protocols or
classes, damaged files and other files are refused.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import Any

from torch_vocmetrics import Metric

from ..errors import InputError
from .options import device_of
from .outputs import check_json_file, check_output_file
from .render import publish


def check_state_file(args: argparse.Namespace) -> None:
    """Raise InputError if ``--save-state`` names a file that cannot be written."""
    path = args.save_state
    if path is None:
        return
    check_output_file(path, "--save-state")
    if path.exists() and not path.is_file():
        raise InputError("only a plain file can be replaced", where=f"--save-state {path}")


def keep_state(args: argparse.Namespace, metric: Metric[Any]) -> None:
    """Write the state of a metric where ``--save-state`` says, if it does."""
    if args.save_state is not None:
        metric.save_state(args.save_state)


def run(args: argparse.Namespace) -> None:
    """Merge, compute, and show what ``vocmetrics evaluate`` of the whole shows."""
    device = device_of(args.device)
    check_json_file(args.json)
    check_state_file(args)
    metric: Metric[Any] = Metric.from_states(*args.states)
    result = metric.to(device).compute()
    keep_state(args, metric)
    results = list(result.values()) if isinstance(result, Mapping) else [result]
    publish(args, results, {"num_states": len(args.states)})
