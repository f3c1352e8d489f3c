"""The states of all ranks on every rank, in two collectives whatever the ranks hold.

First an all-gather of a header of fixed size: what the state is, how long it is, and what went
wrong on the rank, if something did. Every local check is made before it and travels as a word in
it, so that no rank raises alone while the others wait: afterwards all raise the same sentence. Then
one all-gather of the states as bytes, padded to the longest.

States that are too large for that are not gathered: :func:`sync` then ends after the headers, and
:mod:`.classes` sends every class to one rank.

Backends: gloo is tested. Under NCCL, which moves CUDA memory only, the bytes go to a device of the
rank's own and come back; that path is tested with a stand-in and has not been run on NCCL itself,
whose watchdog ends a process when another rank is lost, where gloo raises.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from .._version import __version__
from ..errors import InputError, StateError, VocMetricsError
from ..states.plain import from_bytes, kind_of_ids, num_images, to_bytes
from .transport import Group, Route
from .transport import all_gather as _all_gather

HEADER_BYTES = 2048
HEADER_SCHEMA = 3
SHOWN = 100
"""Names longer than this are cut short in a sentence; their hash is compared."""


def num_ranks(group: Group = None) -> int:
    """Ranks of the group, 1 where there is none.

    Raises:
        StateError: if this process is not in the group.
    """
    if not (dist.is_available() and dist.is_initialized()):
        return 1
    if dist.get_rank(group) < 0:
        raise StateError(
            "this process is not in the process group",
            where="group",
            remedy="call compute(group=...) on the ranks of the group only",
        )
    return dist.get_world_size(group)


def own_rank() -> int:
    """Rank of this process in the default group, 0 where there is none."""
    return dist.get_rank() if dist.is_available() and dist.is_initialized() else 0


def warns_for_all(group: Group, dst: int | None) -> bool:
    """Whether this rank of the group warns of a result that all ranks of it have computed.

    The rank that alone gets the result does, or the first rank of the group where all get it.
    """
    return dist.get_rank() == dst if dst is not None else dist.get_rank(group) == 0


def check_arguments(dst: object, ranks: Sequence[int], shard_by: object = None) -> None:
    """Raise InputError unless ``dst`` is None or a rank of the group, and ``shard_by`` is known."""
    if dst is not None and dst not in ranks:
        remedy = f"give {_ranks(ranks)}"
        raise InputError("must be a rank of the group", where="dst", got=repr(dst), remedy=remedy)
    if shard_by not in (None, "class", "none"):
        remedy = 'give None, "class" or "none"'
        raise InputError("is not known", where="shard_by", got=repr(shard_by), remedy=remedy)


def sync(
    state: Mapping[str, Any] | Exception,
    identity: Mapping[str, Any],
    *,
    group: Group = None,
    dst: int | None = None,
    device: torch.device | None = None,
    shard_by: str | None = "none",
    whole: bool = True,
) -> list[dict[str, Any]] | None:
    """The states of all ranks in the order of their ranks; a collective.

    Args:
        state: nested dicts and lists of numbers, text and tensors, with ``image_ids`` and
            ``num_images``; it is left as it was. Or the error that reading it raised.
        identity: ``schema``, ``metric``, ``protocols``, ``fingerprints``, ``class_names``,
            ``label_ids``; they must be the same on all ranks.
        group: the process group; None for the default one.
        dst: a rank that the caller is going to single out; it must be in the group.
        device: where the metric of this rank works, None if it has seen nothing.
        shard_by: what the caller asked for; it must be the same on all ranks.
        whole: False if the state is not to be gathered: only its ids and their number are read.

    Returns:
        One state a rank, with tensors on the CPU; None if a rank's state is not to be gathered.

    Raises:
        InputError: if reading a state failed so on a rank.
        StateError: if the ranks hold states of different kinds, a rank failed otherwise, or a rank
            did not take part. Unless a rank is lost, the sentence is the same on all of them.
    """
    names = [_global_rank(group, index) for index in range(dist.get_world_size(group))]
    try:
        check_arguments(dst, names, shard_by)
    except InputError as error:
        state = error
    run, header = _payload(state, {**identity, "shard_by": shard_by}, whole=whole)
    route = Route.of(group, device)
    headers = _agreed(header, names, route, state)
    if not all(one["whole"] for one in headers):
        return None
    return _gathered(run, headers, route)


def gather(state: Mapping[str, Any] | Exception, route: Route) -> list[dict[str, Any]]:
    """Parts of a computation from all ranks, after :func:`sync` found their states to agree.

    Args:
        state: nested dicts and lists of numbers, text and tensors, or the error that making it
            raised.
        route: between the ranks.

    Raises:
        InputError, StateError: the same on all ranks, if making it failed on one.
    """
    names = [_global_rank(route.group, index) for index in range(route.num_ranks)]
    run, header = _payload(state, None)
    return _gathered(run, _agreed(header, names, route, state), route)


def _agreed(
    header: dict[str, Any], names: list[int], route: Route, state: object
) -> list[dict[str, Any]]:
    """The headers of all ranks, none of which failed, and which agree."""
    headers = [_read_header(row) for row in _all_gather(_header_bytes(header), route)]
    failed = _failure(headers, names) or _difference(headers, names)
    if failed is not None:
        raise failed from (state if isinstance(state, Exception) else None)
    return headers


def _gathered(run: Tensor, headers: list[dict[str, Any]], route: Route) -> list[dict[str, Any]]:
    """The states of all ranks, which have these headers."""
    longest = max(one["bytes"] for one in headers)
    if run.numel() < longest:
        run = torch.cat([run, run.new_zeros(longest - run.numel())])
    rows = _all_gather(run, route)
    return [from_bytes(row[: one["bytes"]]) for row, one in zip(rows, headers, strict=True)]


def _payload(
    state: Mapping[str, Any] | Exception,
    identity: Mapping[str, Any] | None,
    *,
    whole: bool = True,
) -> tuple[Tensor, dict[str, Any]]:
    """The state as bytes and its header; whatever fails becomes a word of the header."""
    run = torch.zeros(0, dtype=torch.uint8, device="cpu")
    header: dict[str, Any] = {"header": HEADER_SCHEMA, "version": __version__, "whole": whole}
    error = state if isinstance(state, Exception) else None
    try:
        if identity is not None:
            header |= _shown_identity(identity)
        if not isinstance(state, Exception):
            run = to_bytes(state) if whole else run
            if identity is not None:
                header |= {"images": num_images(state), "ids": kind_of_ids(state)}
    except Exception as failure:  # raised by all ranks, after the header
        error = failure
    if error is not None:
        kind = "InputError" if isinstance(error, InputError) else "StateError"
        known = isinstance(error, VocMetricsError)
        message = str(error) if known else f"{type(error).__name__}: {error}"
        header |= {"error": kind, "message": message}
    return run, header | {"bytes": run.numel()}


def _shown_identity(identity: Mapping[str, Any]) -> dict[str, Any]:
    """What is compared as hashes, and what a sentence says of it."""
    names = [str(name) for name in identity["class_names"]]
    prints = [str(one) for one in identity["fingerprints"]]
    labels = [str(label) for label in identity["label_ids"]]
    protocols = [
        f"{name} ({one[:8]})" for name, one in zip(identity["protocols"], prints, strict=True)
    ]
    return {
        "schema": identity["schema"],
        "shard_by": identity.get("shard_by"),
        "metric": identity["metric"],
        "protocols": [_digest(prints), ", ".join(protocols)[:SHOWN]],
        "classes": [_digest(names), f"{len(names)}: {', '.join(names)}"[:SHOWN]],
        "labels": [_digest(labels), f"{len(labels)}: {', '.join(labels)}"[:SHOWN]],
    }


def _digest(words: list[str]) -> str:
    return hashlib.sha256(json.dumps(words).encode()).hexdigest()


# Header -------------------------------------------------------------------------------------------


def _header_bytes(header: dict[str, Any]) -> Tensor:
    """JSON with spaces behind it; a message that does not fit is cut short."""
    text = _encoded(header)
    while len(text) > HEADER_BYTES:
        # A letter takes six bytes at most.
        cut = max((len(text) - HEADER_BYTES) // 6, 1)
        header = {**header, "message": header["message"][:-cut]}
        text = _encoded(header)
    return torch.frombuffer(bytearray(text.ljust(HEADER_BYTES)), dtype=torch.uint8)


def _encoded(header: dict[str, Any]) -> bytes:
    return json.dumps(header, ensure_ascii=False).encode("utf-8", "replace")


def _read_header(row: Tensor) -> dict[str, Any]:
    """The header of a rank; of a rank that sent something else, an error in its place."""
    try:
        header = json.loads(row.numpy().tobytes())
        if header["header"] == HEADER_SCHEMA:
            return dict(header)
        version = header["version"]
    except (ValueError, KeyError, TypeError):
        version = "unknown"
    message = (
        f"its header is not one of this version (version there: {version}): are all ranks in "
        "compute() of the same metric, with the same torch_vocmetrics?"
    )
    return {"error": "StateError", "message": message, "bytes": 0}


def _failure(headers: list[dict[str, Any]], names: list[int]) -> VocMetricsError | None:
    """The error of the first rank that failed, in which the others are named."""
    failed = [
        (name, header) for name, header in zip(names, headers, strict=True) if "error" in header
    ]
    if not failed:
        return None
    first = failed[0][1]
    kind = InputError if first["error"] == "InputError" else StateError
    more = "" if len(failed) == 1 else f" (and {_ranks(name for name, _ in failed[1:])})"
    return kind(first["message"], where=f"{_ranks([failed[0][0]])}{more}")


def _difference(headers: list[dict[str, Any]], names: list[int]) -> StateError | None:
    """The first thing in which the ranks' states must not differ and do."""
    remedy = "give the metric of every rank the same protocol and classes"
    checks: list[tuple[str, str, str, Callable[[Any], str]]] = [
        ("version", "versions of torch_vocmetrics", "install the same everywhere", str),
        ("schema", "schemas", "install the same torch_vocmetrics everywhere", str),
        ("shard_by", "values of shard_by", "give compute() the same on every rank", str),
        ("metric", "metrics", "compute the metrics in the same order on every rank", str),
        ("protocols", "protocols", remedy, lambda value: str(value[1])),
        ("classes", "classes", remedy, lambda value: str(value[1])),
        ("labels", "label ids", remedy, lambda value: str(value[1])),
        ("ids", "kinds of image ids", "give image_id on every rank or on none, of one kind", str),
    ]
    for key, what, fix, shown in checks:
        # A rank without images has no ids, and no say in their kind.
        held: dict[str, list[int]] = {}
        words: dict[str, str] = {}
        for name, header in zip(names, headers, strict=True):
            if header.get(key) is not None:
                value = json.dumps(header[key])
                held.setdefault(value, []).append(name)
                words[value] = shown(header[key])
        if len(held) > 1:
            got = "; ".join(f"{words[value]} on {_ranks(there)}" for value, there in held.items())
            return StateError(
                f"the ranks hold states of different {what}", where="compute", got=got, remedy=fix
            )
    return None


def _global_rank(group: Group, position: int) -> int:
    return dist.get_global_rank(group, position) if group is not None else position


def _ranks(names: Iterable[int]) -> str:
    """``rank 3``, ``ranks 0, 2``, and runs of ranks as ``4-7``."""
    runs: list[list[int]] = []
    listed = list(names)
    for before, name in pairwise([-2, *listed]):
        if name == before + 1:
            runs[-1].append(name)
        else:
            runs.append([name])
    words = [f"{run[0]}-{run[-1]}" if len(run) > 2 else ", ".join(map(str, run)) for run in runs]
    return f"rank{'s' if len(listed) > 1 else ''} {', '.join(words)}"
