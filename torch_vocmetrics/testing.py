"""Laws that every metric keeps, to be checked on your own protocols, classes and batches.

    from torch_vocmetrics.testing import MetricTester

    def test_my_protocol():
        MetricTester(lambda: DetectionAP("my_rules.toml", num_classes=3), batches).check()

Nothing here is for use outside tests.
"""

from __future__ import annotations

import copy
import dataclasses
import io
import math
import pickle
import tempfile
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.multiprocessing.spawn import spawn

from torch_vocmetrics import Metric, VocMetricsWarning

Batch = tuple[Any, ...]
"""The arguments of one ``update``."""


class MetricTester:
    """Checks laws of a metric on some batches; results are compared to the last bit.

    Args:
        factory: gives a new metric; for :meth:`check_processes` it must be picklable, such as a
            function of a module.
        batches: at least two, each the arguments of one ``update``: lists with an entry an image,
            tensors whose first dimension is the images, or None. Use several classes, ties of
            score, images without detections and without objects.
        laws: names of the laws to check; None for all, see :attr:`laws`.

    Laws that need image ids (any merge order, dropped copies) are checked where there are ids.

    Raises:
        ValueError: for an unknown law or too few batches.

    Example:
        >>> from torch_vocmetrics import DetectionAP
        >>> box = {"boxes": [[1, 1, 9, 9]], "labels": [0]}
        >>> batches = [([box | {"scores": [s]}], [box | {"image_id": i}])
        ...            for i, s in enumerate([0.5, 0.5, 0.25])]
        >>> tester = MetricTester(lambda: DetectionAP("voc2007", num_classes=1), batches)
        >>> tester.check()
    """

    def __init__(
        self,
        factory: Callable[[], Metric[Any]],
        batches: Sequence[Batch],
        *,
        laws: Sequence[str] | None = None,
    ) -> None:
        self.factory = factory
        self.batches = [tuple(batch) for batch in batches]
        self.laws = tuple(LAWS) if laws is None else tuple(laws)
        unknown = set(self.laws) - LAWS.keys()
        if unknown or len(self.batches) < 2:
            raise ValueError(f"unknown laws {sorted(unknown)}, or fewer than two batches")

    def check(self) -> None:
        """Check the laws in this process.

        Raises:
            AssertionError: naming the law that is broken and where two results differ.
        """
        for name in self.laws:
            LAWS[name](self)

    def check_processes(self, num_processes: int = 2) -> None:
        """Check that so many gloo processes, batches dealt among them, all give the one result.

        Raises:
            AssertionError: naming the rank and where its result differs.
        """
        wanted = self.result(self._updated())
        with tempfile.TemporaryDirectory() as folder:
            work = (self.factory, self.batches, num_processes, folder)
            spawn(_evaluate_share, work, num_processes)  # type: ignore[no-untyped-call]
            for rank in range(num_processes):
                with (Path(folder) / f"{rank}").open("rb") as file:
                    same(wanted, pickle.load(file), f"rank {rank} of {num_processes}")

    # Pieces of laws ------------------------------------------------------------------------------

    def result(self, metric: Metric[Any]) -> Any:
        """What a metric computes from its own state, whatever process group there is."""
        with quietly():
            return metric.compute(sync=False)

    def _updated(self, batches: Iterable[Batch] | None = None) -> Metric[Any]:
        metric = self.factory()
        for batch in self.batches if batches is None else batches:
            metric.update(*batch)
        return metric

    def _parts(self) -> list[Metric[Any]]:
        return [self._updated([batch]) for batch in self.batches]

    @property
    def has_ids(self) -> bool:
        """Whether the batches name their images."""
        return self._updated().state_dict()["image_ids"] is not None


# Laws ---------------------------------------------------------------------------------------------


def compute_twice(tester: MetricTester) -> None:
    """``compute`` changes nothing: two in a row agree, and updates may follow."""
    metric = tester._updated(tester.batches[:-1])
    same(tester.result(metric), tester.result(metric), "a second compute")
    metric.update(*tester.batches[-1])
    same(tester.result(tester._updated()), tester.result(metric), "an update after compute")


def batch_split(tester: MetricTester) -> None:
    """One image at a time, or all at once: the size of batches plays no part."""
    wanted = tester.result(tester._updated())
    for size in (1, 2, None):
        got = tester.result(tester._updated(rebatched(tester.batches, size)))
        same(wanted, got, f"batches of {size or 'all'} images")


def merge_grouping(tester: MetricTester) -> None:
    """Merging is associative, and leaves the others as they were."""
    wanted = tester.result(tester._updated())
    first, *others = tester._parts()
    before = [tester.result(other) for other in others]
    same(wanted, tester.result(first.merge(*others)), "merging all at once")
    for one, other in zip(before, others, strict=True):
        same(one, tester.result(other), "a metric that was merged into another")
    first, *others = tester._parts()
    for other in reversed(others[:-1]):
        other.merge(others[others.index(other) + 1])
    same(wanted, tester.result(first.merge(others[0])), "merging from the last on")


def merge_order(tester: MetricTester) -> None:
    """With image ids the order of updates and merges plays no part."""
    if not tester.has_ids:
        return
    wanted = tester.result(tester._updated())
    last, *others = tester._parts()[::-1]
    same(wanted, tester.result(last.merge(*others)), "merging backwards")
    backwards = tester._updated(rebatched(tester.batches[::-1], 1))
    same(wanted, tester.result(backwards), "updating backwards")


def merge_identity(tester: MetricTester) -> None:
    """An unused metric merges without effect, on either side."""
    wanted = tester.result(tester._updated())
    same(wanted, tester.result(tester._updated().merge(tester.factory())), "merging a new metric")
    same(wanted, tester.result(tester.factory().merge(tester._updated())), "merging into a new one")


def copies_count_once(tester: MetricTester) -> None:
    """With image ids the same images once more change nothing, and a warning counts them."""
    if not tester.has_ids:
        return
    metric = tester._updated().merge(tester._parts()[0])
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        got = metric.compute(sync=False)
    same(tester.result(tester._updated()), got, "images that came twice")
    assert any("repeated" in str(w.message) for w in caught), "copies were dropped without a word"


def reset_forgets(tester: MetricTester) -> None:
    """After ``reset`` a metric is as new."""
    metric = tester._updated()
    tester.result(metric)
    metric.reset()
    same(tester.factory().state_dict(), metric.state_dict(), "the state after reset")
    for batch in tester.batches[1:]:
        metric.update(*batch)
    wanted = tester.result(tester._updated(tester.batches[1:]))
    same(wanted, tester.result(metric), "updates after reset")


def copies_are_independent(tester: MetricTester) -> None:
    """``copy.deepcopy`` and ``pickle`` give metrics with a state of their own."""
    metric = tester._updated(tester.batches[:-1])
    before, wanted = tester.result(metric), tester.result(tester._updated())
    for name, made in (
        ("a deep copy", copy.deepcopy(metric)),
        ("a pickled copy", pickle.loads(pickle.dumps(metric))),
    ):
        same(wanted, tester.result(made.update(*tester.batches[-1])), name)
        same(before, tester.result(metric), f"the original of {name}")


def state_dict_round_trip(tester: MetricTester) -> None:
    """A state goes through ``torch.save`` in the middle, and evaluation goes on."""
    half = len(tester.batches) // 2
    file = io.BytesIO()
    torch.save(tester._updated(tester.batches[:half]).state_dict(), file)
    file.seek(0)
    metric = tester.factory().load_state_dict(torch.load(file, weights_only=True))
    for batch in tester.batches[half:]:
        metric.update(*batch)
    same(tester.result(tester._updated()), tester.result(metric), "a loaded state")
    unused = tester.factory().load_state_dict(tester.factory().state_dict())
    same(tester.factory().state_dict(), unused.state_dict(), "a loaded state of a new metric")


def state_file_round_trip(tester: MetricTester) -> None:
    """A state goes through a file, and files of parts make the whole."""
    wanted = tester.result(tester._updated())
    with tempfile.TemporaryDirectory() as folder:
        whole = Path(folder) / "whole.npz"
        tester._updated().save_state(whole)
        same(wanted, tester.result(tester.factory().load_state(whole)), "a state file")
        same(wanted, tester.result(Metric.from_states(whole)), "a metric from a state file")
        paths = []
        parts = [share(tester.batches, rank, 2) for rank in range(2)]
        for position, part in enumerate(parts):
            paths.append(Path(folder) / f"{position}.npz")
            tester._updated(part).save_state(paths[-1])
        same(wanted, tester.result(Metric.from_states(*paths)), "a metric from two state files")


def inputs_untouched(tester: MetricTester) -> None:
    """Inputs stay as they were, and may be overwritten after ``update``."""
    given = copy.deepcopy(tester.batches)
    metric = tester._updated(given)
    same(tester.batches, given, "the inputs after update")
    wanted = tester.result(tester._updated(copy.deepcopy(tester.batches)))
    for tensor in tensors_of(given):
        tensor.zero_()
    same(wanted, tester.result(metric), "inputs that were overwritten after update")


LAWS: dict[str, Callable[[MetricTester], None]] = {
    law.__name__: law
    for law in (
        compute_twice,
        batch_split,
        merge_grouping,
        merge_order,
        merge_identity,
        copies_count_once,
        reset_forgets,
        copies_are_independent,
        state_dict_round_trip,
        state_file_round_trip,
        inputs_untouched,
    )
}
"""Every law by its name; the first line of each says what it is."""


# Batches ------------------------------------------------------------------------------------------


def images_of(batches: Iterable[Batch]) -> Iterator[Batch]:
    """Batches of one image each."""
    for batch in batches:
        for image in range(len(batch[0])):
            yield tuple(None if one is None else one[image : image + 1] for one in batch)


def rebatched(batches: Iterable[Batch], size: int | None) -> list[Batch]:
    """The same images in batches of another size; None for one batch."""
    single = list(images_of(batches))
    step = size or max(len(single), 1)
    return [_joined(single[start : start + step]) for start in range(0, len(single), step)]


def share(batches: Iterable[Batch], rank: int, ranks: int) -> list[Batch]:
    """What a distributed sampler deals to a rank, without padding: every so manieth image."""
    return list(images_of(batches))[rank::ranks]


def _joined(batches: Sequence[Batch]) -> Batch:
    return tuple(_joined_argument(column) for column in zip(*batches, strict=True))


def _joined_argument(parts: Sequence[Any]) -> Any:
    if isinstance(parts[0], Tensor):
        return torch.cat(list(parts))
    if isinstance(parts[0], np.ndarray):
        return np.concatenate(parts)
    return None if parts[0] is None else [entry for part in parts for entry in part]


def tensors_of(value: Any) -> Iterator[Tensor]:
    """All tensors in nested lists, tuples and dicts."""
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, Mapping):
        yield from tensors_of(list(value.values()))
    elif isinstance(value, list | tuple):
        for one in value:
            yield from tensors_of(one)


# Comparison ---------------------------------------------------------------------------------------


@contextmanager
def quietly() -> Iterator[None]:
    """Without this package's warnings."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", VocMetricsWarning)
        yield


def same(wanted: Any, got: Any, what: str) -> None:
    """Raise unless two results, states or inputs agree in every bit; NaN equals NaN.

    Raises:
        AssertionError: naming what differs.
    """
    found = list(differences(wanted, got))
    assert not found, f"{what}: {len(found)} differences, the first at {found[0]}"


def differences(wanted: Any, got: Any, path: str = "result") -> Iterator[str]:
    """Places in which two nested values differ in any bit; NaN equals NaN."""
    if isinstance(wanted, Tensor | np.ndarray):
        yield from _array_differences(wanted, got, path)
    elif dataclasses.is_dataclass(wanted) and type(wanted) is type(got):
        for field in dataclasses.fields(wanted):
            one, other = (getattr(side, field.name) for side in (wanted, got))
            yield from differences(one, other, f"{path}.{field.name}")
    elif type(wanted) is not type(got):
        yield f"{path} ({type(wanted).__name__} and {type(got).__name__})"
    elif isinstance(wanted, Mapping):
        if wanted.keys() != got.keys():
            yield f"{path} (other keys)"
        for key in wanted.keys() & got.keys():
            yield from differences(wanted[key], got[key], f"{path}[{key!r}]")
    elif isinstance(wanted, list | tuple):
        if len(wanted) != len(got):
            yield f"{path} (lengths {len(wanted)} and {len(got)})"
        for position, (one, other) in enumerate(zip(wanted, got, strict=False)):
            yield from differences(one, other, f"{path}[{position}]")
    elif wanted != got and not (_is_nan(wanted) and _is_nan(got)):
        yield f"{path} ({wanted!r} and {got!r})"


def _array_differences(wanted: Any, got: Any, path: str) -> Iterator[str]:
    if type(wanted) is not type(got) or wanted.dtype != got.dtype or wanted.shape != got.shape:
        yield f"{path} (types or shapes)"
        return
    a, b = (torch.as_tensor(one).detach().cpu().numpy() for one in (wanted, got))
    if a.tobytes() != b.tobytes() and not np.array_equal(a, b, equal_nan=a.dtype.kind == "f"):
        yield path


def _is_nan(value: Any) -> bool:
    return isinstance(value, float) and math.isnan(value)


# Processes ----------------------------------------------------------------------------------------


def _evaluate_share(
    rank: int,
    factory: Callable[[], Metric[Any]],
    batches: Sequence[Batch],
    ranks: int,
    folder: str,
) -> None:
    """Body of one process: update with its share, compute with all, leave the result in a file."""
    torch.set_num_threads(1)
    torch.distributed.init_process_group(
        "gloo", init_method=f"file://{folder}/store", rank=rank, world_size=ranks
    )
    metric = factory()
    for batch in share(batches, rank, ranks):
        metric.update(*batch)
    with quietly():
        result = metric.compute()
    with (Path(folder) / f"{rank}").open("wb") as file:
        pickle.dump(result, file)
    torch.distributed.destroy_process_group()
