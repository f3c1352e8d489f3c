"""The collectives, on bytes of the CPU or over the memory that the backend moves."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple, TypeAlias

import torch
import torch.distributed as dist
from torch import Tensor

from ..errors import StateError

Group: TypeAlias = "dist.ProcessGroup | None"


class Route(NamedTuple):
    """How bytes go from rank to rank.

    Attributes:
        group: the process group; None for the default one.
        device: whose memory the backend moves.
    """

    group: Group
    device: torch.device

    @classmethod
    def of(cls, group: Group, own: torch.device | None) -> Route:
        """Between the ranks of a group, of which this one works on the device ``own``."""
        return cls(group, transport_device(group, own))

    @property
    def num_ranks(self) -> int:
        """Ranks of the group."""
        return dist.get_world_size(self.group)

    @property
    def rank(self) -> int:
        """Of this process in the group."""
        return dist.get_rank(self.group)


def all_gather(row: Tensor, route: Route) -> Tensor:
    """[ranks, n] on the CPU, from [n] of each rank.

    Raises:
        StateError: if the backend lost a rank or waited too long for one.
    """
    mine = row.to(route.device)
    gathered = torch.empty((route.num_ranks, mine.numel()), dtype=row.dtype, device=route.device)
    with _lost_rank():
        dist.all_gather(list(gathered.unbind()), mine, group=route.group)
    return gathered.cpu()


def all_to_all(rows: Tensor, sent: Sequence[int], received: Sequence[int], route: Route) -> Tensor:
    """[n, ...] rows for this rank from each rank in turn, on the CPU.

    Args:
        rows: [m, ...] on the CPU, those for each rank in turn.
        sent, received: how many rows go to each rank, and come from it.
        route: between the ranks.

    Raises:
        StateError: if the backend lost a rank or waited too long for one.
    """
    width = rows.element_size()
    for size in rows.shape[1:]:
        width *= size
    mine = rows.contiguous().view(-1).view(torch.uint8).to(route.device)
    theirs = torch.empty(sum(received) * width, dtype=torch.uint8, device=route.device)
    take, give = ([count * width for count in counts] for counts in (received, sent))
    with _lost_rank():
        dist.all_to_all_single(theirs, mine, take, give, group=route.group)
    return theirs.cpu().view(rows.dtype).reshape(sum(received), *rows.shape[1:])


@contextmanager
def _lost_rank() -> Iterator[None]:
    """Turn the backend's error into a sentence."""
    try:
        yield
    except RuntimeError as error:  # torch's DistBackendError among them
        raise StateError(
            "a rank was lost, or did not come in time",
            where="compute",
            got=f"{type(error).__name__}: {' '.join(str(error).split())[:300]}",
            remedy="look in the logs for the rank that ended first; all ranks of the group must "
            "call compute(), compute(sync=False) is for one alone; if a rank is only slow, give "
            "init_process_group a longer timeout",
        ) from error


def transport_device(group: Group, own: torch.device | None) -> torch.device:
    """The CPU where the backend can move its memory, else a device of this rank.

    All ranks choose the same kind, but each its own device: two ranks on one device would be
    refused by NCCL, or wait for each other. It is the device that the group is bound to, or that
    the metric works on. A rank that has seen nothing and has set no device takes the device that
    its launcher names.
    """
    config = dist.get_backend_config(group)
    kinds = [entry.partition(":")[0] for entry in config.split(",")]
    if "cpu" in kinds:
        return torch.device("cpu")
    bound = getattr(group or dist.distributed_c10d._get_default_group(), "bound_device_id", None)
    for known in (bound, own):
        if known is not None and known.type == kinds[0] and known.index is not None:
            return torch.device(known)
    module = torch.get_device_module(kinds[0])
    current, launched = module.current_device(), int(os.environ.get("LOCAL_RANK", "0"))
    unset = current == 0 and launched < module.device_count()
    return torch.device(kinds[0], launched if unset else current)
