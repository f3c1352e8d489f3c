"""``vocmetrics evaluate``: the task of the protocol says which module does the work."""

from __future__ import annotations

import argparse

from ..protocols import load_protocol
from . import merge, tasks
from .evaluation import Evaluation
from .options import device_of, refuse_other_options
from .outputs import check_json_file
from .protocols import full_name
from .render import publish


def run(args: argparse.Namespace) -> None:
    """Read, evaluate, and show."""
    check_json_file(args.json)
    merge.check_state_file(args)
    done = evaluate(args)
    merge.keep_state(args, done.metric)
    publish(args, [done.result], done.facts, done.without_numbers)


def evaluate(args: argparse.Namespace) -> Evaluation:
    """Evaluate what the options of ``option_groups.add_inputs`` say.

    Raises:
        VocMetricsError: for options or files at fault, in one sentence.
    """
    device = device_of(args.device)
    protocol = load_protocol(full_name(args.protocol))
    refuse_other_options(args, protocol.task)
    return tasks.EVALUATORS[protocol.task](args, protocol, device)
