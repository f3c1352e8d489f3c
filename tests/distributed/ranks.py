"""Processes that evaluate together: each world size is started once and runs everything.

What a rank finds goes into a file of its own, as a dict of :class:`Outcome` by ``(scenario,
subject)``; the tests compare it with what one process gives.
"""

from __future__ import annotations

import contextlib
import datetime
import functools
import os
import pickle
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import torch
import torch.distributed as dist
from distributed.registry import SUBJECTS, Image, Subject, images
from torch.multiprocessing.spawn import spawn

import torch_vocmetrics
from torch_vocmetrics import InputError, Metric, VocMetricsWarning, distributed
from torch_vocmetrics.metrics import detection
from torch_vocmetrics.testing import rebatched

COUNT = 13
SECONDS = 60
PATIENCE = 3  # of the group in which a rank does not come
COLLECTIVES = [
    name
    for name in ("all_gather", "all_gather_into_tensor", "all_gather_object", "all_gather_single",
                 "all_reduce", "all_to_all", "all_to_all_single", "barrier", "broadcast",
                 "broadcast_object_list", "gather", "gather_object", "monitored_barrier", "recv",
                 "reduce", "reduce_scatter", "reduce_scatter_tensor", "scatter",
                 "scatter_object_list", "send", "isend", "irecv")
    if hasattr(dist, name)
]  # fmt: skip


class Outcome(NamedTuple):
    """What a rank saw of one ``compute``."""

    result: Any
    error: tuple[str, str] | None
    warnings: list[str]
    collectives: list[str]


def start(ranks: int, folder: Path) -> list[dict[Any, Outcome]]:
    """Start the processes, wait for their end, and read what each found."""
    folder.mkdir(exist_ok=True)
    for name, subject in SUBJECTS.items():
        torch.save(_half(subject, rest=False).state_dict(), folder / f"{name}.pt")
    spawn(_run, (ranks, str(folder)), ranks)
    return [pickle.loads((folder / f"{rank}.pickle").read_bytes()) for rank in range(ranks)]


def _run(rank: int, ranks: int, folder: str) -> None:
    torch.set_num_threads(1)
    warnings.simplefilter("error")
    dist.init_process_group(
        "gloo",
        init_method=f"file://{folder}/store",
        rank=rank,
        world_size=ranks,
        timeout=datetime.timedelta(seconds=SECONDS),
    )
    found: dict[Any, Outcome] = {}
    for name, subject in SUBJECTS.items():
        for scenario in SCENARIOS:
            for label, outcome in scenario(subject, rank, ranks):
                found[label, name] = outcome
    for name, subject in SUBJECTS.items():
        state = torch.load(f"{folder}/{name}.pt", weights_only=True)
        metric = _half(subject, rest=True, metric=subject.new().load_state_dict(state))
        found["resumed", name] = outcome_of(metric, sync=False)
    for special in (versions, cases, groups, lost_ranks):
        for label, outcome in special(rank, ranks):
            found[label] = outcome
    Path(folder, f"{rank}.pickle").write_bytes(pickle.dumps(found))
    sys.stdout.flush()
    os._exit(0)  # a group that lost a rank cannot be taken down in order


@contextlib.contextmanager
def counted() -> Iterator[list[str]]:
    """Names of the collectives that are called inside."""
    called: list[str] = []
    original = {name: getattr(dist, name) for name in COLLECTIVES}

    def wrapped(name: str) -> Callable[..., Any]:
        @functools.wraps(original[name])
        def call(*args: Any, **kwargs: Any) -> Any:
            called.append(name)
            return original[name](*args, **kwargs)

        return call

    for name in COLLECTIVES:
        setattr(dist, name, wrapped(name))
    try:
        yield called
    finally:
        for name, function in original.items():
            setattr(dist, name, function)


def outcome_of(metric: Metric, **options: Any) -> Outcome:
    """Compute and keep what came of it."""
    result, error = None, None
    with warnings.catch_warnings(record=True) as caught, counted() as collectives:
        warnings.simplefilter("always")
        try:
            result = metric.compute(**options)
        except torch_vocmetrics.VocMetricsError as raised:
            error = (type(raised).__name__, str(raised))
    texts = [str(one.message) for one in caught if issubclass(one.category, VocMetricsWarning)]
    return Outcome(result, error, texts, collectives)


def updated(new: Callable[[], Metric], given: list[Image], size: int) -> Metric:
    metric = new()
    for batch in rebatched(given, size):
        metric.update(*batch)
    return metric


def _half(subject: Subject, *, rest: bool, metric: Metric | None = None) -> Metric:
    """An epoch that was stopped in the middle, or the rest of it."""
    metric = metric or subject.new()
    for number in range(COUNT // 2, COUNT) if rest else range(COUNT // 2):
        metric.update(*subject.image(number))
    return metric


# Scenarios of every metric ------------------------------------------------------------------------

Outcomes = Iterator[tuple[str, Outcome]]


def sampled(subject: Subject, rank: int, ranks: int) -> Outcomes:
    """Every so manieth image; uneven unless the ranks divide their number."""
    metric = updated(subject.new, images(subject, COUNT, ids=True)[rank::ranks], rank + 1)
    before = metric.state_dict()
    yield "sampled", outcome_of(metric)
    yield "state", Outcome((before, metric.state_dict()), None, [], [])
    yield "twice", outcome_of(metric)
    yield "dst", outcome_of(metric, dst=ranks - 1)
    yield "alone", outcome_of(metric, sync=False)
    metric = updated(subject.new, images(subject, COUNT, ids=False)[rank::ranks], 2)
    yield "no ids", outcome_of(metric)


def blocks(subject: Subject, rank: int, ranks: int) -> Outcomes:
    """Images in one piece a rank, the last rank first."""
    given = images(subject, COUNT, ids=True)
    size = -(-COUNT // ranks)
    place = ranks - 1 - rank
    yield "blocks", outcome_of(updated(subject.new, given[place * size : (place + 1) * size], 3))


def last_only(subject: Subject, rank: int, ranks: int) -> Outcomes:
    """All ranks but the last are empty, rank 0 without any update."""
    given = images(subject, COUNT, ids=True) if rank == ranks - 1 else []
    yield "last only", outcome_of(updated(subject.new, given, 5))


def padded(subject: Subject, rank: int, ranks: int) -> Outcomes:
    """A sampler's padding, with equal predictions, then with slightly other ones."""
    share = padded_share(rank, ranks)
    given = [subject.image(number) for number in share]
    metric = updated(subject.new, given, 2)
    yield "padded", outcome_of(metric)
    yield "padded dst", outcome_of(metric, dst=ranks - 1)
    if rank + ranks * (len(share) - 1) >= COUNT:
        given[-1] = subject.noisy(share[-1])
    yield "padded noisily", outcome_of(updated(subject.new, given, 2))


def padded_share(rank: int, ranks: int) -> list[int]:
    """As ``torch.utils.data.DistributedSampler`` deals them, without shuffling."""
    rows = torch.utils.data.DistributedSampler(
        range(COUNT), num_replicas=ranks, rank=rank, shuffle=False
    )
    return list(rows)


def disagreeing(subject: Subject, rank: int, ranks: int) -> Outcomes:
    """The last rank is of other rules, other truth, other ids, or found a fault late."""
    last = rank == ranks - 1
    given = images(subject, COUNT, ids=True)[rank::ranks]
    yield "rules", outcome_of(updated(subject.new, given, 4) if not last else subject.other_rules())
    other = [subject.other_truth(number) for number in range(4)] if last else []
    yield "truth", outcome_of(updated(subject.new, given + other, 4))
    bare = images(subject, COUNT, ids=False)[rank::ranks]
    yield "ids", outcome_of(updated(subject.new, bare if last else given, 4))
    metric = updated(subject.new, given, 4)
    if last:
        fail_late(metric)
    yield "late", outcome_of(metric)
    yield "late again", outcome_of(metric)
    metric.__dict__.pop("_settled", None)
    metric.reset()
    for image in given:
        metric.update(*image)
    yield "after reset", outcome_of(metric)


def fail_late(metric: Any) -> None:
    """Leave the metric as a value error on a device does, which is read by ``compute``."""

    def failing(state: Any) -> Any:
        where = "prediction 2 (image_id 14), row 0"
        raise InputError("the score is not finite", where=where, got=float("nan"))

    metric._settled = failing


def by_class(subject: Subject, rank: int, ranks: int) -> Outcomes:
    """What the scenarios above do, with every class on one rank where the metric allows it."""
    last, given = rank == ranks - 1, images(subject, COUNT, ids=True)
    options: Any = {"shard_by": "class"}
    metric = updated(subject.new, given[rank::ranks], rank + 1)
    yield "class sampled", outcome_of(metric, **options)
    yield "class dst", outcome_of(metric, dst=ranks - 1, **options)
    limit, detection.SHARD_ROWS = detection.SHARD_ROWS, 1 if last else 2**24
    yield "class automatic", outcome_of(metric)
    detection.SHARD_ROWS = limit
    yield "class mixed", outcome_of(metric, shard_by="none" if last else "class")
    yield "class unknown", outcome_of(metric, shard_by="image")
    bare = images(subject, COUNT, ids=False)[rank::ranks]
    yield "class no ids", outcome_of(updated(subject.new, bare, 2), **options)
    yield "class last only", outcome_of(updated(subject.new, given if last else [], 5), **options)
    share = padded_share(rank, ranks)
    copies = [subject.image(number) for number in share]
    yield "class padded", outcome_of(updated(subject.new, copies, 2), **options)
    if rank + ranks * (len(share) - 1) >= COUNT:
        copies[-1] = subject.noisy(share[-1])
    yield "class padded noisily", outcome_of(updated(subject.new, copies, 2), **options)
    other = [subject.other_truth(number) for number in range(4)] if last else []
    metric = updated(subject.new, given[rank::ranks] + other, 4)
    yield "class truth", outcome_of(metric, **options)
    yield (
        "class ids",
        outcome_of(updated(subject.new, bare if last else given[rank::ranks], 4), **options),
    )
    metric = updated(subject.new, given[rank::ranks], 4)
    if last:
        fail_late(metric)
    yield "class late", outcome_of(metric, **options)


SCENARIOS = (sampled, blocks, last_only, padded, disagreeing, by_class)


# Scenarios of the group ---------------------------------------------------------------------------


def versions(rank: int, ranks: int) -> Outcomes:
    """The last rank has another version of this package, or fails in an unforeseen way."""
    subject = SUBJECTS["detection"]
    metric: Any = updated(subject.new, images(subject, 4, ids=True)[rank::ranks], 4)
    true_version = distributed.__version__
    if rank == ranks - 1:
        distributed.__version__ = "0.0.1"
    yield "version", outcome_of(metric)
    distributed.__version__ = true_version
    if rank in (0, ranks - 1):
        metric._exported = functools.partial(_unforeseen, rank)
    yield "unforeseen", outcome_of(metric)
    if rank in (0, ranks - 1):
        del metric._exported
    yield "wrong dst", outcome_of(metric, dst=ranks)


def _unforeseen(rank: int) -> dict[str, Any]:
    raise MemoryError(f"no memory on {rank}" + " and so on" * 900)


def cases(rank: int, ranks: int) -> Outcomes:
    """The lines of cases.jsonl that speak of ranks; ranks beyond them are empty."""
    from helpers.support import coco_problem, load_cases  # noqa: PLC0415 - a test of its own reads it

    for line, case in enumerate(load_cases("COCO bbox, 2 ranks")):
        given = case["input"]
        categories = sorted(given["category_ids"])
        for place, sharding in enumerate([given["ranks"], *given.get("also_as_ranks", [])]):
            if len(sharding) > ranks:
                continue
            kwargs = coco_problem([], categories, [], []).kwargs
            metric = torch_vocmetrics.DetectionAP("coco2017", **kwargs)
            for batch in sharding[rank] if rank < len(sharding) else []:
                problem = coco_problem(batch["image_ids"], categories, batch["gt"], batch["dt"])
                metric.update(*problem[:2])
            yield f"case {line}.{place}", outcome_of(metric)


def groups(rank: int, ranks: int) -> Outcomes:
    """Even and odd ranks evaluate other things at once, in groups of their own."""
    if ranks < 3:
        return
    members = [list(range(parity, ranks, 2)) for parity in (0, 1)]
    both = [dist.new_group(ranks=one) for one in members]
    mine = rank % 2
    name = ("detection", "segmentation")[mine]
    subject = SUBJECTS[name]
    place, size = members[mine].index(rank), len(members[mine])
    given = images(subject, COUNT, ids=True)[place::size]
    metric = updated(subject.new, given, 3)
    yield "group", outcome_of(metric, group=both[mine])
    yield "group dst", outcome_of(metric, group=both[mine], dst=members[mine][-1])
    yield "other group", outcome_of(metric, group=both[1 - mine])


def lost_ranks(rank: int, ranks: int) -> Outcomes:
    """One rank comes too late (of four) or ends (of three); last, as the group is lost with it."""
    if ranks < 3:
        return
    last = rank == ranks - 1
    subject = SUBJECTS["detection"]
    metric = updated(subject.new, images(subject, 4, ids=True)[rank::ranks], 4)
    patient = dist.new_group(timeout=datetime.timedelta(seconds=PATIENCE))
    dist.barrier()
    started = time.monotonic()
    if not last:
        yield "lost", outcome_of(metric, group=patient)
        yield "lost after", Outcome(time.monotonic() - started, None, [], [])
    elif ranks == 4:
        time.sleep(2 * PATIENCE)
