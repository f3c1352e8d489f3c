"""What every metric has: a state that is updated, merged, synchronised, saved and computed."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar, Generic, Self, TypeVar, overload

import torch

from ..distributed import Group, check_destination, num_ranks, own_rank, sync, warns_for_all
from ..errors import InputError, StateError, warn, warnings_of_one_rank
from ..host_work import host_work
from ..protocols import Protocol, protocol_title
from ..states.files import protocols_of, read_state, write_state
from ..states.plain import num_images, order_of_arrival, with_own_tensors
from ..transfer import read_device
from .accumulated import Accumulated, Lockable
from .identity import all_metrics, named_fault, refuse_other_rules, sizes, tables_of

STATE_SCHEMA = 5

T = TypeVar("T")
R_co = TypeVar("R_co", covariant=True)
"""What a metric computes."""

_NO_IDS = (
    "images have no image_id: if a distributed sampler filled up its last round, the copies are "
    "counted as images of their own; give image_id in every target"
)


class Metric(Lockable, ABC, Generic[R_co]):
    """A plain object that accumulates batches; ``copy.deepcopy`` and ``pickle`` copy it.

    Methods are not wrapped, nothing is cached and there is no ``forward``. Whatever raises, Ctrl-C
    and a lack of memory included, leaves the state as it was before the call. Several threads may
    use one metric: their calls take turns, but for the computation of results.
    """

    class_names: tuple[str, ...]
    label_ids: tuple[int, ...]
    diagnostics = False  # whether the state has more than results need, for analyses
    _kinds: ClassVar[dict[str, type[Metric[Any]]]] = {}
    _accumulated: Any  # the only attribute that changes: an Accumulated

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        Metric._kinds[cls.__name__] = cls

    @abstractmethod
    def update(self, predictions: Any, targets: Any) -> Self:
        """Add a batch and return the metric."""

    @overload
    def compute(self, *, sync: bool = ..., group: Group = ..., dst: None = ...) -> R_co: ...

    @overload
    def compute(self, *, sync: bool = ..., group: Group = ..., dst: int) -> R_co | None: ...

    def compute(
        self, *, sync: bool = True, group: Group = None, dst: int | None = None
    ) -> R_co | None:
        """A collective in a process group: the result over everything since ``reset``.

        All ranks of the group must call it, also those that have seen nothing, and all get the same
        bits. Of several copies of an image, which a distributed sampler makes to fill up its last
        round, the one met earliest counts (smallest place on its rank, then smallest rank), and a
        warning says how many were dropped, on the first rank of the group, or on the rank that
        alone gets the result; this needs image ids. Images without ids are taken in
        the order of a distributed sampler (place, then rank), copies as images of their own. The
        state of a rank stays its own, so that ``update`` may go on.

        Args:
            sync: False for this rank's own images, which is no collective.
            group: the process group; None for the default one.
            dst: the rank (of the default group) that gets the result, while the others get None;
                None for all ranks.

        Raises:
            InputError: if values on a device broke the rules; until ``reset``. If it happens on one
                rank, all raise and name it.
            StateError: if ranks differ in protocol, classes or version, or one is lost; if an image
                came twice with different ground truth. Unless a rank is lost, all raise the same.
        """
        return self._of_all(lambda metric, distinct: metric._result(distinct), sync, group, dst)

    def reset(self) -> Self:
        """Forget everything, device included."""
        with self._lock:
            self._accumulated = self._nothing()
        return self

    @host_work()
    def merge(self, *others: Self) -> Self:
        """Add what other metrics of the same protocols and classes have seen.

        The images of ``others`` come after one's own. They keep their state.

        Raises:
            StateError: if protocols, classes or label ids differ, or only some have image ids.
            InputError: if an argument is no metric; if values on a device broke the rules, until
                ``reset``.
        """
        for other in others:
            if not isinstance(other, Metric):
                got = type(other).__name__
                raise InputError("must be metrics", where="merge", got=got)
            refuse_other_rules(self._identity(), other._identity(), "merge")
        # One lock at a time, so that two metrics that merge each other never wait for one another.
        added = [other._joined() for other in others]
        with self._lock:
            seen = [self._joined(), *added]
            device = next((one.device for one in seen if one.device), None)
            tables = [
                type(parts[0]).cat([part.to(device or part.device) for part in parts])
                for parts in zip(*(one.whole for one in seen), strict=True)
            ]
            updated = any(one.updated for one in seen)
            self._accumulated = self._holding(tables, device, updated)
        return self

    @host_work()
    def state_dict(self) -> dict[str, Any]:
        """The state as numbers, text and tensors, fit for ``torch.save`` with ``weights_only``.

        The tensors are copies: changing them leaves the metric as it is.
        """
        state: dict[str, Any] = with_own_tensors(self._exported())
        return state

    @host_work()
    def load_state_dict(self, state: dict[str, Any]) -> Self:
        """Replace the state by one of the same protocols and classes.

        Raises:
            StateError: if it is of other rules, or damaged; the state is then as it was.
        """
        return self._load(with_own_tensors(state))

    @host_work()
    def to(self, device: torch.device | str) -> Self:
        """Move the state and all later work to a device.

        Raises:
            InputError: if there is no device of this name, or it keeps no numbers.
        """
        target = read_device(device, "to")
        with self._lock:
            state = self._joined()
            tables = [table.to(target) for table in state.whole]
            self._accumulated = self._holding(tables, target, state.updated)
        return self

    def __repr__(self) -> str:
        names = ", ".join(map(protocol_title, self._all_protocols()))
        return f"{type(self).__name__}({names}; {sizes(self.num_classes, self.num_images)})"

    @property
    def num_classes(self) -> int:
        """How many classes there are."""
        return len(self.class_names)

    @property
    def num_images(self) -> int:
        """How many images were seen since ``reset``, copies of an image included."""
        return int(self._accumulated.num_images_seen)

    def cpu(self) -> Self:
        """Move the state and all later work to the CPU."""
        return self.to("cpu")

    @host_work()
    def save_state(self, path: str | Path) -> Self:
        """Write the state to a ``.npz`` file of arrays and JSON, which is read without pickle.

        A file that is there is replaced at once and whole: symbolic links are followed, its mode is
        kept. The file has a SHA-256 that finds damage; it is no signature and shows no origin.

        Raises:
            InputError: if values on a device broke the rules, until ``reset``; if ``path`` is a
                folder, a device, a pipe or a socket.
            OSError: if the file cannot be written.
        """
        write_state(path, self._exported(), self._all_protocols())
        return self

    @host_work()
    def load_state(self, path: str | Path) -> Self:
        """Replace the state by that of a file of the same protocol and classes.

        Raises:
            StateError: if the file is no state, damaged, or of other rules; the state is then as it
                was.
            OSError: if there is no such file.
        """
        state, _ = read_state(path)
        with named_fault(path):
            return self._load(state)

    @classmethod
    @host_work()
    def from_states(cls, *paths: str | Path) -> Self:
        """A metric as state files describe it, with all that they have seen.

        The files are taken as ranks are: of several copies of an image the one met earliest counts,
        and images without ids come by their place in the file, then by file.

        Raises:
            StateError: if a file is no state, damaged, or of other rules than the first.
            OSError: if there is no such file.

        Example:
            >>> import tempfile
            >>> from torch_vocmetrics import DetectionAP
            >>> path = tempfile.mkdtemp() + "/shard.npz"
            >>> DetectionAP("voc2007", class_names=["cat"]).update([], []).save_state(path)
            DetectionAP(detection/voc2007; 1 class, 0 images)
            >>> Metric.from_states(path)
            DetectionAP(detection/voc2007; 1 class, 0 images)
        """
        if not paths:
            raise InputError("must be at least one state file", where="paths")
        states, saved = zip(*map(read_state, paths), strict=True)
        kind = all_metrics(Metric._kinds).get(str(states[0].get("metric")))
        if kind is None or not issubclass(kind, cls):
            raise StateError(
                f"the state is of another metric than {cls.__name__}",
                where=str(paths[0]),
                got=states[0].get("metric"),
            )
        protocols = protocols_of(states[0], saved[0], str(paths[0]))
        try:
            metric = kind._of(protocols, states[0]["class_names"], states[0]["label_ids"])
            metric.diagnostics = states[0].get("diagnostics", False) is True
        except Exception as error:  # forged classes may be of any type
            raise StateError(f"the state is damaged: {error!r}", where=str(paths[0])) from None
        parts = []
        for path, state in zip(paths, states, strict=True):
            with named_fault(path):
                parts.append(metric._blank()._load(state))
        return metric._union(parts, states)

    @classmethod
    @abstractmethod
    def _of(
        cls, protocols: Sequence[Any], class_names: Sequence[str], label_ids: Sequence[int]
    ) -> Self:
        """A metric with these rules."""

    @abstractmethod
    def _nothing(self) -> Accumulated:
        """What a new metric has seen."""

    @abstractmethod
    def _settled(self, state: Any) -> Any:
        """The same with all batches in the tables, and nothing left to be checked.

        Raises:
            InputError: if values flagged on a device broke the rules.
        """

    @abstractmethod
    def _columns(self, tables: Any) -> dict[str, Any]:
        """What a saved state says of the tables, beside ids and rules."""

    @abstractmethod
    def _read(self, ids: list[Any] | None, state: dict[str, Any]) -> Sequence[Any]:
        """The tables of a saved state; whatever does not hold together raises."""

    @abstractmethod
    def _all_protocols(self) -> Sequence[Protocol]:
        """The rules."""

    @abstractmethod
    def _distinct(self) -> Any:
        """The state without repeated images; copies are checked and warned of."""

    @abstractmethod
    def _result(self, distinct: Any) -> R_co:
        """The result of what :meth:`_distinct` gave."""

    def _identity(self) -> dict[str, Any]:
        """What states must have in common."""
        return {
            "schema": STATE_SCHEMA,
            "metric": type(self).__name__,
            "protocols": [protocol.name for protocol in self._all_protocols()],
            "fingerprints": [protocol.fingerprint for protocol in self._all_protocols()],
            "class_names": list(self.class_names),
            "label_ids": list(self.label_ids),
        }

    def _settle(self) -> Any:
        """Everything seen so far, with all batches in the tables.

        Raises:
            InputError: if values flagged on a device broke the rules; until ``reset``.
        """
        with self._lock:
            self._accumulated = self._settled(self._accumulated)
            return self._accumulated

    def _joined(self) -> Any:
        """Everything seen so far, each table in one part.

        Raises:
            InputError: if values flagged on a device broke the rules; until ``reset``.
        """
        with self._lock:
            state = self._settle()
            self._accumulated = replace(state, tables=tuple((table,) for table in state.whole))
            return self._accumulated

    def _holding(
        self, tables: Sequence[Any], device: torch.device | None, updated: bool
    ) -> Accumulated:
        """These tables as all that was seen."""
        parts = tuple((table,) for table in tables)
        return replace(self._nothing(), tables=parts, device=device, updated=updated)

    def _exported(self) -> dict[str, Any]:
        """:meth:`state_dict` whose tensors are those of the metric."""
        state = self._joined()
        tables = state.whole
        ids = tables[0].image_ids
        return {
            **self._identity(),
            "updated": state.updated,
            "num_images": tables[0].num_images,
            "image_ids": None if ids is None else list(ids),
            **self._columns(tables),
        }

    def _load(self, state: dict[str, Any]) -> Self:
        """:meth:`load_state_dict` that keeps the tensors themselves."""
        refuse_other_rules(self._identity(), state, "load_state_dict")
        tables = tables_of(state, self._read)
        device = tables[0].device if tables[0].num_images else None
        with self._lock:
            self._accumulated = self._holding(tables, device, state["updated"])
        return self

    def _of_all(
        self, answer: Callable[[Any, Any], T], together: bool, group: Group, dst: int | None
    ) -> T | None:
        """``answer`` of a metric with the images of all ranks, and of its distinct images."""
        with host_work():
            ranks = num_ranks(group) if together else 1
            if together and ranks == 1:  # several ranks check it together, in sync
                check_destination(dst, [own_rank()])
            metric = self if ranks == 1 else self._synced(group, dst)
            with warnings_of_one_rank(ranks == 1 or warns_for_all(group, dst)):
                if not metric._accumulated.updated:
                    warn("compute() came before update(): numbers are NaN and counts 0")
                elif (
                    ranks > 1
                    and metric.num_images
                    and metric._accumulated.tables[0][0].image_ids is None
                ):
                    warn(_NO_IDS)
                distinct = metric._distinct()
                if together and dst not in (None, own_rank()):
                    return None
                return answer(metric, distinct)

    def _synced(self, group: Group, dst: int | None) -> Self:
        """A metric of its own with what all ranks have seen; two collectives."""
        try:
            state: dict[str, Any] | Exception = self._exported()
        except Exception as error:  # raised by all ranks, after the header
            state = error
        device = self._accumulated.device
        states = sync(state, self._identity(), group=group, dst=dst, device=device)
        parts = [self._blank()._load(one) for one in states]
        if device is not None:
            parts = [part.to(device) for part in parts]
        return self._union(parts, states)

    def _union(self, parts: Sequence[Self], states: Sequence[Mapping[str, Any]]) -> Self:
        """A metric of its own with the images of all parts, which have these states.

        Images come in the order in which they were met, unless their ids are distinct: then their
        order plays no part.
        """
        union = self._blank().merge(*parts)
        ids = [image_id for state in states for image_id in state["image_ids"] or ()]
        if len(parts) > 1 and (not ids or len(set(ids)) < len(ids)):
            order = order_of_arrival([num_images(state) for state in states])
            whole = union._joined()
            tables = [table.in_order(order) for table in whole.whole]
            union._accumulated = union._holding(tables, whole.device, whole.updated)
        return union

    def _blank(self) -> Self:
        """A metric of the same rules that has seen nothing."""
        return copy.copy(self).reset()
