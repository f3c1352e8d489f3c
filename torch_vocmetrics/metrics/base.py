"""What every metric has: a state that is updated, merged, synchronised, saved and computed."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Generic, Self, TypeVar, cast, overload

import torch

from ..distributed import check_arguments, num_ranks, own_rank, sync, warns_for_all
from ..distributed.transport import Group
from ..errors import InputError, StateError, warn, warnings_of_one_rank
from ..host_work import host_work
from ..protocols import protocol_title
from ..states.files import protocols_of, read_header, read_state, write_state
from ..states.plain import num_images, order_of_arrival, with_own_tensors
from ..transfer import read_device
from .identity import all_metrics, named_fault, refuse_other_rules, sizes
from .stateful import R_co, Stateful
from .stored import StoredTables

T = TypeVar("T")
IN_MEMORY_BYTES = 2**28
"""State files that are longer, all of them together, stay on the disk if the metric allows it."""

NO_UPDATE = "compute() came before update(): numbers are NaN and counts 0"
NO_IDS = (
    "images have no image_id: if a distributed sampler filled up its last round, the copies are "
    "counted as images of their own; give image_id in every target"
)


class Metric(Stateful[R_co], Generic[R_co]):
    """A plain object that accumulates batches; ``copy.deepcopy`` and ``pickle`` copy it.

    Methods are not wrapped, nothing is cached and there is no ``forward``. Whatever raises, Ctrl-C
    and a lack of memory included, leaves the state as it was before the call. Several threads may
    use one metric: their calls take turns, but for the computation of results.
    """

    _kinds: ClassVar[dict[str, type[Metric[Any]]]] = {}

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        Metric._kinds[cls.__name__] = cls

    @abstractmethod
    def update(self, predictions: Any, targets: Any) -> Self:
        """Add a batch and return the metric."""

    @overload
    def compute(
        self,
        *,
        sync: bool = ...,
        group: Group = ...,
        dst: None = ...,
        shard_by: str | None = ...,
    ) -> R_co: ...

    @overload
    def compute(
        self, *, sync: bool = ..., group: Group = ..., dst: int, shard_by: str | None = ...
    ) -> R_co | None: ...

    def compute(
        self,
        *,
        sync: bool = True,
        group: Group = None,
        dst: int | None = None,
        shard_by: str | None = None,
    ) -> R_co | None:
        """A collective in a process group: the result over everything since ``reset``.

        All ranks of the group must call it, also those that have seen nothing, and all get the same
        bits. Of several copies of an image, which a distributed sampler makes to fill up its last
        round, the one met earliest counts (smallest index on its rank, then smallest rank), and a
        warning says how many were dropped, on the first rank of the group, or on the rank that
        alone gets the result; this needs image ids. Images without ids are taken in
        the order of a distributed sampler (index, then rank), copies as images of their own. The
        state of a rank stays its own, so that ``update`` may go on.

        Args:
            sync: False for this rank's own images, which is no collective.
            group: the process group; None for the default one.
            dst: the rank (of the default group) that gets the result, while the others get None;
                None for all ranks.
            shard_by: ``"class"`` sends every class to one rank instead of all records to all ranks,
                where a metric can be computed so (:class:`DetectionAP`); ``"none"`` never does, and
                None does if a rank holds more than 2**24 detections. The numbers are the same;
                whole curves of more than 64 MiB are then left out.

        Raises:
            InputError: if values on a device broke the rules; until ``reset``. If it happens on one
                rank, all raise and name it.
            StateError: if ranks differ in protocol, classes or version, or one is lost; if an image
                came twice with different ground truth. Unless a rank is lost, all raise the same.
        """
        return self._of_all(
            lambda metric, distinct: metric._result(distinct), sync, group, dst, shard_by
        )

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
        with self._lock:
            state, starts = self._exported(), self._block_starts(self._accumulated.whole)
        write_state(path, state, self._all_protocols(), starts)
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
        and images without ids come by their index in the file, then by file.

        Files of detections that are longer than 256 MiB, all of them together, are checked and stay
        on the disk: ``compute`` reads them class by class; any other method reads them whole.

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
        metric = cls._of_header(paths[0])
        if sum(Path(path).stat().st_size for path in paths) > IN_MEMORY_BYTES:
            return metric._of_stored_files(paths)
        return metric._of_files(paths)

    @classmethod
    def _of_header(cls, path: str | Path) -> Self:
        """A metric of the rules of a state file."""
        header = read_header(path)
        state = header["state"]
        kind = all_metrics(Metric._kinds).get(str(state.get("metric")))
        if kind is None or not issubclass(kind, cls):
            raise StateError(
                f"the state is of another metric than {cls.__name__}",
                where=str(path),
                got=state.get("metric"),
            )
        protocols = protocols_of(state, header["protocols"], str(path))
        try:
            metric = kind._of(protocols, state["class_names"], state["label_ids"])
            metric.diagnostics = state.get("diagnostics", False) is True
        except Exception as error:  # forged classes may be of any type
            raise StateError(f"the state is damaged: {error!r}", where=str(path)) from None
        return metric

    def _of_files(self, paths: Sequence[str | Path]) -> Self:
        """A metric of its own with what all files hold."""
        states = [read_state(path)[0] for path in paths]
        parts = []
        for path, state in zip(paths, states, strict=True):
            with named_fault(path):
                parts.append(self._blank()._load(state))
        return self._union(parts, states)

    def _of_stored_files(self, paths: Sequence[str | Path]) -> Self:
        """The same for large files; a metric that can be computed from parts leaves them there."""
        return self._of_files(paths)

    def _of_all(
        self,
        answer: Callable[[Any, Any], T],
        together: bool,
        group: Group,
        dst: int | None,
        shard_by: str | None = "none",
    ) -> T | None:
        """``answer`` of a metric with the images of all ranks, and of its distinct images."""
        with host_work():
            ranks = num_ranks(group) if together else 1
            if together and ranks == 1:  # several ranks check it together, in sync
                check_arguments(dst, [own_rank()], shard_by)
            metric = self if ranks == 1 else self._synced(group, dst, shard_by)
            with warnings_of_one_rank(ranks == 1 or warns_for_all(group, dst)):
                if metric is None:
                    return cast(T | None, self._result_by_class(group, dst))
                state = metric._accumulated
                if not state.updated:
                    warn(NO_UPDATE)
                elif ranks > 1 and metric.num_images and state.tables[0][0].image_ids is None:
                    warn(NO_IDS)
                stored = shard_by != "none" and not state.pending
                if stored and isinstance(state.tables, StoredTables):
                    return cast(T, self._result_of_stored(state.tables))
                distinct = metric._distinct()
                if together and dst not in (None, own_rank()):
                    return None
                return answer(metric, distinct)

    def _wants_classes(self, shard_by: str | None) -> bool:  # noqa: ARG002
        """Whether this rank asks for a computation class by class; may read the device."""
        return False

    def _result_by_class(self, group: Group, dst: int | None) -> R_co | None:
        """The result over all ranks, one of which asked for a computation class by class."""
        raise NotImplementedError

    def _result_of_stored(self, tables: StoredTables) -> R_co:
        """The result of files, read class by class."""
        raise NotImplementedError

    def _synced(self, group: Group, dst: int | None, shard_by: str | None) -> Self | None:
        """A metric of its own with what all ranks have seen; two collectives.

        None if it is to be computed class by class.
        """
        whole = True
        try:
            whole = not self._wants_classes(shard_by)
            state: dict[str, Any] | Exception = self._exported() if whole else self._images()
        except Exception as error:  # raised by all ranks, after the header
            state = error
        device = self._accumulated.device
        states = sync(
            state,
            self._identity(),
            group=group,
            dst=dst,
            device=device,
            shard_by=shard_by,
            whole=whole,
        )
        if states is None:
            return None
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
