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
from ..protocols import protocol_title
from .report import aligned, check_json_file, check_output_file, defined, publish, shown


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
    """Merge, compute, and show."""
    check_json_file(args.json)
    check_state_file(args)
    metric: Metric[Any] = Metric.from_states(*args.states)
    result = metric.compute()
    keep_state(args, metric)
    results = list(result.values()) if isinstance(result, Mapping) else [result]
    reports = [merged_report(one, len(args.states)) for one in results]
    content = reports[0] if len(reports) == 1 else {"results": reports}
    publish(args, content, "\n\n".join(merged_table(one) for one in results))


def merged_report(result: Any, num_states: int) -> dict[str, Any]:
    """Give the numbers of a result for programs; undefined is None."""
    return {
        "protocol": protocol_title(result.protocol),
        "fingerprint": result.protocol.fingerprint,
        "num_states": num_states,
        "num_images": result.num_images,
        "headline": defined(result.headline),
        "summary": {key: defined(value) for key, value in result.to_dict().items()},
    }


def merged_table(result: Any) -> str:
    """Give a table for people: every number by its key."""
    rows = [(key, shown(value)) for key, value in result.to_dict().items()]
    title = f"{protocol_title(result.protocol)}: {result.num_images} images"
    return "\n".join([title, "", *aligned(rows)])
