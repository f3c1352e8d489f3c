"""Reading what the PASCAL VOC kits read: sets of annotations, and results files."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from ..errors import FileFormatError
from ..limits import MAX_TEXT_BYTES, MAX_XML_BYTES
from .entry_log import EntryLog
from .files import read_bytes
from .image_names import ImageIndex
from .safe_xml import parse_xml_bytes, tag_limit
from .tables import DetectionFile, GroundTruthFile, count_labels, split_by_image, with_images
from .voc_annotations import ParsedAnnotation, parse_annotation, parse_xml_annotation
from .voc_folder import find_voc_images
from .voc_objects import VocAnnotation
from .voc_plain import PlainAnnotation, match_plain_annotation
from .voc_results import DetectionRows, read_results


class VocSet(NamedTuple):
    """The annotated images of a set, before classes are chosen.

    Attributes:
        folder: where they are.
        image_ids: I ids in the order of the set.
        parsed: the annotation of each image, or why it cannot be understood.
    """

    folder: Path
    image_ids: tuple[str, ...]
    parsed: tuple[PlainAnnotation | ParsedAnnotation | FileFormatError, ...]

    @property
    def num_objects(self) -> Counter[str]:
        """Objects by class, those at fault too."""
        counts: Counter[str] = Counter()
        for one in self.parsed:
            if not isinstance(one, FileFormatError):
                counts.update(one.names)
            if isinstance(one, ParsedAnnotation):
                counts.update(name for name, _ in one.faults if name)
        return counts

    def annotations(
        self, class_names: Sequence[str] | None = None, *, on_fault: str = "error"
    ) -> dict[str, VocAnnotation]:
        """Annotations by image id.

        Args:
            class_names: faults of objects of other classes do not matter; None knows no others.
            on_fault: ``"error"``, or ``"skip"`` to leave objects at fault, and images whose
                annotation cannot be understood at all, out with a warning.

        Raises:
            FileFormatError: naming file and element, for the first fault.

        Warns:
            VocMetricsWarning: of what is left out.
        """
        kept = self._sound(class_names, on_fault)
        return {
            image_id: (one.parsed() if isinstance(one, PlainAnnotation) else one).annotation
            for image_id, one in kept.items()
        }

    def _sound(
        self, class_names: Sequence[str] | None, on_fault: str
    ) -> dict[str, PlainAnnotation | ParsedAnnotation]:
        """What can be understood, by image id; the rest is reported."""
        log = EntryLog(self.folder, on_fault)
        kept: dict[str, PlainAnnotation | ParsedAnnotation] = {}
        for image_id, one in zip(self.image_ids, self.parsed, strict=True):
            if isinstance(one, FileFormatError):
                log.add_faults(1, [one])
                continue
            if isinstance(one, ParsedAnnotation):
                one.report(class_names, log)
            kept[image_id] = one
        log.finish()
        return kept

    def ground_truths(
        self, class_names: Sequence[str] | None = None, *, on_fault: str = "error"
    ) -> GroundTruthFile:
        """The objects of some classes as targets; see :func:`read_voc_ground_truths`."""
        counts = self.num_objects
        names = tuple(sorted(counts) if class_names is None else class_names)
        label_of = {name: label for label, name in enumerate(names)}
        kept = self._sound(names, on_fault)
        images = kept.values()
        image_index = np.repeat(np.arange(len(kept)), [len(one.names) for one in images])
        labels = np.array([label_of.get(n, -1) for one in images for n in one.names], np.int64)
        corners = np.array([corner for one in images for corner in one.corners], np.float64)
        difficult = np.array([flag for one in images for flag in one.difficult], np.bool_)
        chosen = labels >= 0
        columns = {"boxes": corners.reshape(-1, 4), "labels": labels, "difficult": difficult}
        targets = split_by_image(
            image_index[chosen], len(kept), {key: one[chosen] for key, one in columns.items()}
        )
        return GroundTruthFile(
            image_ids=tuple(kept),
            class_names=names,
            label_ids=tuple(range(len(names))),
            box_format="xyxy",
            targets=with_images(targets, tuple(kept), [one.image_size for one in images]),
            other_objects={name: count for name, count in counts.items() if name not in label_of},
        )


def read_voc_set(
    folder: str | Path,
    image_set: str | None = None,
    *,
    max_bytes: int = MAX_XML_BYTES,
    progress: Callable[[int, int], object] | None = None,
) -> VocSet:
    """Read the annotations of a set; faults are kept until classes are chosen.

    Args:
        folder, image_set: see :func:`find_voc_images`.
        max_bytes: the largest annotation that is read.
        progress: called with the number of images read and their total.

    Raises:
        FileFormatError: if there is no such set.
        OSError: for a file that may not be read.
    """
    images = find_voc_images(folder, image_set)
    parsed: list[PlainAnnotation | ParsedAnnotation | FileFormatError] = []
    for number, image_id in enumerate(images.ids, 1):
        try:
            parsed.append(_read_boxes(images.path(image_id), max_bytes))
        except FileFormatError as error:
            parsed.append(error)
        except FileNotFoundError as error:
            parsed.append(FileFormatError("there is no annotation", where=str(error.filename)))
        if progress is not None:
            progress(number, len(images.ids))
    return VocSet(Path(folder), images.ids, tuple(parsed))


def _read_boxes(path: Path, max_bytes: int) -> PlainAnnotation | ParsedAnnotation:
    """The annotation of an image, by the short way where its form allows it."""
    if path.suffix.lower() == ".txt":
        return parse_annotation(path, max_bytes=max_bytes)
    data, max_tags = read_bytes(path, max_bytes=max_bytes), tag_limit(max_bytes)
    plain = match_plain_annotation(path, data) if len(data) <= max_tags else None
    return plain or parse_xml_annotation(path, parse_xml_bytes(path, data, max_tags=max_tags))


def read_voc_ground_truths(
    folder: str | Path,
    image_set: str | None = None,
    *,
    class_names: Sequence[str] | None = None,
    on_fault: str = "error",
    max_bytes: int = MAX_XML_BYTES,
    progress: Callable[[int, int], object] | None = None,
) -> GroundTruthFile:
    """Read the ground truth of an image set of a development kit, or of a folder of annotations.

    Targets hold ``boxes`` [M, 4] float64 (xmin, ymin, xmax, ymax), ``labels`` [M] int64,
    ``difficult`` [M] bool, ``image_id`` and, where the annotation says it, ``image_size``. Objects
    of classes that are not asked for are left out, whatever is wrong with them; images without
    objects stay.

    Args:
        folder: the kit's data, such as ``VOCdevkit/VOC2007``, with Annotations and ImageSets, or a
            folder with annotations alone.
        image_set: a list in ``ImageSets/Main``; None for ``"test"``, and for all annotations where
            there are no lists.
        class_names: K names; class k has label k. None takes all classes, in order of their names.
        on_fault: ``"error"``, or ``"skip"`` to leave what is at fault out with a warning.
        max_bytes: the largest annotation that is read.
        progress: called with the number of images read and their total.

    Raises:
        FileFormatError: naming file and line or element, for what cannot be understood, or if there
            is no such set.
        OSError: for a file that may not be read.

    Warns:
        VocMetricsWarning: of what is left out.
    """
    found = read_voc_set(folder, image_set, max_bytes=max_bytes, progress=progress)
    return found.ground_truths(class_names, on_fault=on_fault)


def read_voc_detections(
    files: Mapping[str, str | Path],
    ground_truths: GroundTruthFile,
    *,
    file_order: bool = True,
    on_fault: str = "error",
    max_bytes: int = MAX_TEXT_BYTES,
) -> DetectionFile:
    """Read the detections of one results file per class.

    Predictions hold ``boxes`` [N, 4] and ``scores`` [N] in float64, ``labels`` [N] int64 and, for
    the ties of the development kit, ``order`` [N] int64: the row of the results file.

    Args:
        files: results file of each class; a class without one has no detections.
        ground_truths: says which images and classes there are.
        file_order: leave ``order`` out if false: ties then fall by image, as COCO's do.
        on_fault: ``"error"``, or ``"skip"`` to leave rows at fault out with a warning.
        max_bytes: the largest results file that is read.

    Raises:
        FileFormatError: naming file and line, for a malformed row or an unknown image.
        OSError: for a file that does not exist or may not be read.

    Warns:
        VocMetricsWarning: of rows that are left out.
    """
    images = ImageIndex([str(image_id) for image_id in ground_truths.image_ids])
    log = EntryLog("results files", on_fault)
    empty = DetectionRows(
        image_index=np.empty(0, np.int64), scores=np.empty(0), boxes=np.empty((0, 4))
    )
    tables, labels, orders = [empty], [np.empty(0, np.int64)], [np.empty(0, np.int64)]
    for name, label in zip(ground_truths.class_names, ground_truths.label_ids, strict=True):
        if name in files:
            table = read_results(files[name], images, log=log, max_bytes=max_bytes)
            tables.append(table)
            labels.append(np.full(len(table.scores), label, np.int64))
            orders.append(np.arange(len(table.scores), dtype=np.int64))
    log.finish()
    columns = {
        "boxes": np.concatenate([table.boxes for table in tables]),
        "scores": np.concatenate([table.scores for table in tables]),
        "labels": np.concatenate(labels),
    }
    if file_order:
        columns["order"] = np.concatenate(orders)
    image_index = np.concatenate([table.image_index for table in tables])
    return DetectionFile(
        predictions=split_by_image(image_index, len(ground_truths.image_ids), columns),
        num_detections=count_labels(columns["labels"], ground_truths.label_ids),
    )
