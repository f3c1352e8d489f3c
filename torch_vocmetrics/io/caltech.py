"""Caltech pedestrians: annotated videos (``.vbb``) and results (``setXX/VXXX.txt``).

Source: Caltech pedestrian code 3.2.1, vbb.m, dbInfo.m and dbEval.m loadGt and loadDt.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from ..errors import FileFormatError, InputError
from ..limits import MAX_MATLAB_BYTES
from ..protocols import CALTECH_FRAME_STEP
from .bb_gt import detection_file
from .matlab import load_matlab
from .number_rows import read_number_rows
from .tables import DetectionFile, Floats, GroundTruthFile

IMAGE_SIZE = (480, 640)

_VIDEO = re.compile(r"set(\d\d)/V\d\d\d\.vbb$")


class Track(NamedTuple):
    """What a frame says of one object; boxes are [4] x, y, width, height.

    Attributes:
        number: of the object in its video, from 1.
        label: of the object.
        box: where it is.
        occluded: whether something hides a part of it.
        visible_box: the part that is seen, zeros where the file says nothing.
    """

    number: int
    label: str
    box: Floats
    occluded: bool
    visible_box: Floats


def read_vbb(path: str | Path, *, max_bytes: int = MAX_MATLAB_BYTES) -> list[list[Track]]:
    """Read an annotated video: the objects of every frame.

    Args:
        path: a ``.vbb`` file, a MATLAB container.
        max_bytes: the largest file that is read, and what its compressed parts may grow to.

    Raises:
        FileFormatError: if it is no such container, or a frame has no boxes of finite numbers.
        OSError: if there is no such file or it may not be read.
    """
    content = load_matlab(Path(path), max_bytes=max_bytes)
    try:
        video = content["A"][0, 0]
        labels = [name if isinstance(name, str) else "" for name in video["objLbl"].ravel()]
        frames = [_tracks(frame, labels) for frame in video["objLists"].ravel()]
        count = _whole(video["nFrame"])
    except (KeyError, IndexError, ValueError, TypeError, AttributeError) as error:
        raise FileFormatError(
            "not an annotated video", where=str(path), got=f"{type(error).__name__}: {error}"
        ) from None
    if len(frames) != count:
        raise FileFormatError(
            "the number of frames does not agree with nFrame",
            where=str(path),
            got=f"{len(frames)} frames and nFrame {count}",
        )
    return frames


def _tracks(frame: NDArray[Any], labels: list[str]) -> list[Track]:
    if frame.size == 0:
        return []
    tracks = []
    for one in frame.ravel():
        number = _whole(one["id"])
        box, part = (one[key].astype(np.float64).ravel() for key in ("pos", "posv"))
        if box.shape != (4,) or part.shape != (4,) or not 1 <= number <= len(labels):
            raise ValueError(f"object {number} with boxes of {box.size} and {part.size} numbers")
        if not (np.isfinite(box).all() and np.isfinite(part).all()):
            raise ValueError(f"object {number} with a box that is not finite")
        occluded = _whole(one["occl"]) != 0
        tracks.append(Track(number, labels[number - 1], box, occluded, part))
    return tracks


def _whole(numbers: NDArray[Any]) -> int:
    """The first of the numbers, which must be an integer."""
    number = float(numbers.ravel()[0])
    if not number.is_integer():  # nor infinite, nor NaN
        raise ValueError(f"{number} is not a whole number")
    return int(number)


def find_videos(folder: str | Path, sets: Sequence[int] | None = None) -> list[str]:
    """Names such as ``set06/V000`` of the annotated videos in a folder, in order.

    Args:
        folder: holds ``setXX/VXXX.vbb``.
        sets: the sets to take; None takes all.

    Raises:
        FileFormatError: if the folder has no videos, or none of a set that was asked for.
    """
    root = Path(folder)
    found = sorted(path.relative_to(root).as_posix() for path in root.glob("set*/*.vbb"))
    matches = [(name, _VIDEO.match(name)) for name in found]
    videos = [(name.removesuffix(".vbb"), int(match.group(1))) for name, match in matches if match]
    wanted = {number for _, number in videos} if sets is None else set(sets)
    missing = wanted - {number for _, number in videos}
    if missing or not videos:
        names = ", ".join(f"set{number:02d}" for number in sorted(missing)) or "setXX"
        raise FileFormatError(f"no videos {names}/VXXX.vbb", where=str(root))
    return [name for name, number in videos if number in wanted]


def evaluated_frames(count: int, step: int = CALTECH_FRAME_STEP) -> range:
    """Frames of a video that are evaluated, counted from 0: step - 1, 2 * step - 1, ...

    Raises:
        InputError: unless the step is in [1, 2**31).
    """
    if not 1 <= step < 2**31:
        raise InputError("must be at least 1 and below 2**31", where="step", got=step)
    return range(step - 1, count, step)


def read_caltech_ground_truths(
    folder: str | Path,
    *,
    sets: Sequence[int] | None = None,
    step: int = CALTECH_FRAME_STEP,
    labels: Sequence[str] = ("person",),
    ignored_labels: Sequence[str] = ("person?", "people", "ignore"),
    max_bytes: int = MAX_MATLAB_BYTES,
) -> GroundTruthFile:
    """Read the evaluated frames of annotated videos.

    Targets hold ``boxes`` (x, y, width, height), ``labels`` (all 0), ``ignore``,
    ``visible_boxes``, ``image_id`` such as ``set06/V000/I00029`` and ``image_size``.

    Args:
        folder: holds ``setXX/VXXX.vbb``.
        sets: the sets to take, such as ``CALTECH_SETS["test"]`` of the protocols; None takes all.
        step: every so many frames are taken.
        labels, ignored_labels: objects of other labels are dropped, those of the latter ignored.
        max_bytes: the largest file that is read.

    Raises:
        FileFormatError: naming the file, for what cannot be understood.
        OSError: if a file may not be read.
    """
    targets, image_ids = [], []
    for video in find_videos(folder, sets):
        frames = read_vbb(Path(folder) / f"{video}.vbb", max_bytes=max_bytes)
        for number in evaluated_frames(len(frames), step):
            kept = [one for one in frames[number] if one.label in (*labels, *ignored_labels)]
            image_ids.append(f"{video}/I{number:05d}")
            targets.append(
                {
                    "boxes": _boxes([one.box for one in kept]),
                    "visible_boxes": _boxes([one.visible_box for one in kept]),
                    "labels": torch.zeros(len(kept), dtype=torch.int64),
                    "ignore": torch.tensor([one.label not in labels for one in kept]).bool(),
                    "image_id": image_ids[-1],
                    "image_size": IMAGE_SIZE,
                }
            )
    return GroundTruthFile(
        image_ids=tuple(image_ids),
        class_names=("person",),
        label_ids=(0,),
        box_format="xywh",
        targets=targets,
    )


def _boxes(rows: list[Floats]) -> torch.Tensor:
    return torch.from_numpy(np.array(rows, np.float64).reshape(-1, 4))


def read_caltech_detections(
    folder: str | Path,
    annotations: str | Path,
    *,
    sets: Sequence[int] | None = None,
    step: int = CALTECH_FRAME_STEP,
    max_bytes: int = MAX_MATLAB_BYTES,
) -> DetectionFile:
    """Read results ``setXX/VXXX.txt``: rows frame (from 1), x, y, width, height, score.

    Rows of frames that are not evaluated are passed over.

    Args:
        folder: the results of one detector.
        annotations, sets, step: as for :func:`read_caltech_ground_truths`.
        max_bytes: the largest file that is read.

    Raises:
        FileFormatError: naming file and line, for another number of columns, what is no number, or
            a frame that the video does not have.
        OSError: if a video has no results, or a file may not be read.
    """
    indices, boxes, scores, images = [], [], [], 0
    for video in find_videos(annotations, sets):
        count = len(read_vbb(Path(annotations) / f"{video}.vbb", max_bytes=max_bytes))
        rows = read_number_rows(
            Path(folder) / f"{video}.txt",
            ("frame", "x", "y", "width", "height", "score"),
            max_bytes=max_bytes,
        )
        evaluated = evaluated_frames(count, step)
        frame = rows.indices(0, 1, count, "the frame")
        mine = frame % step == step - 1
        indices.append(images + frame[mine] // step)
        boxes.append(rows.boxes(1)[mine])
        scores.append(rows.values[mine, 5])
        images += len(evaluated)
    return detection_file(
        np.concatenate(indices), np.concatenate(boxes), np.concatenate(scores), images
    )
