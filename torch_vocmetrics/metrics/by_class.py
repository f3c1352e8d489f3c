"""Detection metrics over several ranks without gathering their records: every class on one rank.

1. All ranks get the image ids of all, and find the images that came more than once.
2. For those images alone they get digests of what was recorded, and compare them.
3. Every class goes to its owner, without the copies of images.
4. Owners compute the curves of their classes, which all ranks get and take means of.

What fails on one rank travels to the others in the next step, so that all raise it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import accumulate, pairwise
from typing import Any, NamedTuple

import torch
from torch import Tensor

from ..curves.class_curves import DETAIL_BYTES, ClassCurves, class_curves, detail_bytes
from ..curves.detection_result import Totals, result_of_curves
from ..curves.ranking import Ranker
from ..distributed import gather
from ..distributed.classes import OwnedClasses, exchange
from ..distributed.transport import Route
from ..errors import warn
from ..lanes import Lanes
from ..protocols import DetectionProtocol
from ..results import DetectionResult
from ..tables.class_slices import ClassSlices, positives_of_classes
from ..tables.columns import refuse_partial_order
from ..tables.digests import digest_of_detections, digest_of_truth
from ..tables.records import MatchRecords, cat_ids
from ..tables.repeats import arranged


class Shard(NamedTuple):
    """What a rank has seen.

    Attributes:
        protocols: the rules.
        class_names: K names.
        tables: for each protocol the records in parts, which have the same images.
        updated: whether there was any update.
    """

    protocols: Sequence[DetectionProtocol]
    class_names: tuple[str, ...]
    tables: Sequence[Sequence[MatchRecords]]
    updated: bool

    @property
    def num_images(self) -> int:
        """How many images the rank has, copies included."""
        return sum(part.num_images for part in self.tables[0])

    @property
    def image_ids(self) -> list[Any] | None:
        """Their ids, or None where none were given."""
        ids = cat_ids([part.image_ids for part in self.tables[0] if part.num_images])
        return None if ids is None else list(ids)


class ByClass:
    """The results over all ranks; each method is a collective.

    Args:
        shard: of this rank.
        route: between the ranks.
    """

    def __init__(self, shard: Shard, route: Route) -> None:
        self._shard, self._route = shard, route

    def check_images(self, no_ids: str, no_update: str) -> None:
        """Let all ranks know the images of all, and check those that came more than once.

        Args:
            no_ids, no_update: what to warn of where images have no ids, or no rank was updated.

        Raises:
            StateError: if an image came twice with different ground truth.
        """
        shard = self._shard
        every = self._gather(
            lambda: {
                "image_ids": shard.image_ids,
                "num_images": shard.num_images,
                "updated": shard.updated,
            }
        )
        starts = list(accumulate((int(one["num_images"]) for one in every), initial=0))
        ids = [image_id for one in every for image_id in one["image_ids"] or ()]
        if not any(one["updated"] for one in every):
            warn(no_update)
        elif starts[-1] and not ids:
            warn(no_ids)
        self._arrangement = arranged(ids, [stop - start for start, stop in pairwise(starts)])
        self._images = [slice(*pair) for pair in pairwise(starts)]
        if len(self._arrangement.copies):
            self._check_copies(ids)

    def _check_copies(self, ids: Sequence[Any]) -> None:
        asked = torch.zeros_like(self._arrangement.positions, dtype=torch.bool)
        asked[self._arrangement.copies.flatten()] = True
        mine = asked[self._images[self._route.rank]]

        def digests() -> dict[str, Tensor]:
            parts = [part for part in _of_images(self._shard.tables[0], mine) if part.num_images]
            both = {"truth": digest_of_truth, "found": digest_of_detections}
            none = [torch.zeros(0, dtype=torch.int64)]
            return {
                name: torch.cat(none + [of(p).cpu() for p in parts]) for name, of in both.items()
            }

        every = self._gather(digests)
        found = {}
        for name in ("truth", "found"):
            found[name] = torch.zeros_like(self._arrangement.positions)
            found[name][asked] = torch.cat([one[name] for one in every])
        self._arrangement.check_truth(found["truth"], ids)
        self._arrangement.warn_of_copies(found["found"])

    def results(self, *, wanted: bool) -> tuple[list[DetectionResult], Tensor]:
        """The result of each protocol, and [K] detections and ground truths of each class.

        Args:
            wanted: False on ranks that are not to get them: their list is empty.
        """
        shard, kept = self._shard, self._arrangement.kept
        mine = kept[self._images[self._route.rank]]
        tables: list[Sequence[MatchRecords]] = []

        def rows_by_class() -> dict[str, Tensor]:
            tables.extend(_of_images(parts, mine) for parts in shard.tables)
            return {"rows": torch.stack([part.rows_by_class().cpu() for part in tables[0]]).sum(0)}

        rows = torch.stack([one["rows"] for one in self._gather(rows_by_class)]).sum(dim=0)
        results = []
        for protocol, parts in zip(shard.protocols, tables, strict=True):
            result = self._result(protocol, parts, wanted=wanted)
            results += [] if result is None else [result]
        return results, rows

    def _result(
        self, protocol: DetectionProtocol, parts: Sequence[MatchRecords], *, wanted: bool
    ) -> DetectionResult | None:
        lanes, names = Lanes.of(protocol), protocol.evaluated_classes(self._shard.class_names)
        kept = self._arrangement.kept
        images = [int(kept[of_rank].sum()) for of_rank in self._images]
        slices: list[ClassSlices] = []

        def prepare() -> dict[str, Any]:
            slices.append(ClassSlices(parts))
            counts = [positives_of_classes(part, lanes, len(names)).cpu() for part in parts]
            return {
                "positives": torch.stack(counts).sum(dim=0),
                "has_order": [part.order is not None for part in parts if part.num_detections],
            }

        every = self._gather(prepare)
        refuse_partial_order([given for one in every for given in one["has_order"]])
        positives = torch.stack([one["positives"] for one in every]).sum(dim=0)
        owned = exchange(slices[0], images, self._route)

        def curves() -> Mapping[str, Any]:
            mine = owned.classes[self._route.rank]
            return self._curves(protocol, lanes, owned, positives).columns() if mine else {}

        every = self._gather(curves)
        if not wanted:
            return None
        order = [label for classes in owned.classes for label in classes]
        joined = ClassCurves.joined(
            [ClassCurves.read(one) for one in every if one],
            [order.index(label) for label in range(len(names))],
        )
        totals = Totals(sum(images), owned.num_detections, positives)
        return result_of_curves(protocol, joined, totals, names)

    def _curves(
        self, protocol: DetectionProtocol, lanes: Lanes, owned: OwnedClasses, positives: Tensor
    ) -> ClassCurves:
        """Curves of the classes of this rank."""
        mine = owned.classes[self._route.rank]
        ranker = Ranker(
            owned.parts,
            lanes,
            len(mine),
            protocol.max_detections[:-1],
            positions=self._arrangement.positions[self._arrangement.kept],
            num_positives=positives[:, mine],
        )
        size = detail_bytes(
            protocol, sum(map(len, owned.classes)), owned.num_detections, ranker.score_dtype
        )
        curves = class_curves(protocol, ranker, details=size <= DETAIL_BYTES)
        owned.parts.clear()  # before the curves of all ranks come
        return curves

    def _gather(self, work: Callable[[], Mapping[str, Any]]) -> list[dict[str, Any]]:
        """What the work of each rank made; where it fails, all raise."""
        try:
            made: Mapping[str, Any] | Exception = work()
        except Exception as error:  # raised by all ranks, after the header
            made = error
        return gather(made, self._route)


def _of_images(parts: Sequence[MatchRecords], keep: Tensor) -> list[MatchRecords]:
    """The records of the images where ``keep`` [I] bool is set; other parts are as they are."""
    kept, start = [], 0
    for part in parts:
        of_part = keep[start : start + part.num_images]
        start += part.num_images
        kept.append(part if of_part.all() else part.keep_images(of_part.to(part.device)))
    return kept
