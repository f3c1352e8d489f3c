"""``vocmetrics evaluate``: the task of the protocol says which module does the work."""

from __future__ import annotations

import argparse

import torch

from ..errors import InputError
from ..protocols import load_protocol
from . import merge, tasks
from .options import refuse_other_options
from .protocols import full_name
from .report import check_json_file


def run(args: argparse.Namespace) -> None:
    """Read, evaluate, and show."""
    device = _device(args.device)
    check_json_file(args.json)
    merge.check_state_file(args)
    protocol = load_protocol(full_name(args.protocol))
    refuse_other_options(args, protocol.task)
    tasks.EVALUATORS[protocol.task](args, protocol, device)


def _device(name: str) -> torch.device:
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
