"""``vocmetrics statistics`` of COCO files and of pedestrian benchmarks."""

from __future__ import annotations

import argparse
import json
import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .. import io
from ..errors import ON_FAULT, FileFormatError
from ..protocols import CALTECH_FRAME_STEP
from .options import size_limit
from .render import aligned
from .streams import show

if TYPE_CHECKING:
    from ..analysis.data_set import DatasetStatistics


def is_pedestrian_folder(folder: Path) -> bool:
    """Whether a folder holds Caltech's videos or bbGt text files, and no VOC annotations."""
    if (folder / "Annotations").is_dir() or (folder / "ImageSets").is_dir():
        return False
    return any(folder.glob("set*/*.vbb")) or any(folder.glob("*.txt"))


def show_statistics(args: argparse.Namespace) -> None:
    """Read, count and print.

    Raises:
        FileFormatError: for a file of another form, or the first entry at fault.
    """
    statistics = _statistics(args)
    if args.json:
        content = {k: _plain(value) for k, value in statistics.to_dict().items()}
        show(json.dumps(content, indent=2))
        return
    names = ("num_objects", "num_images", "num_difficult", "num_crowd", "num_ignored")
    counts = [getattr(statistics, name).tolist() for name in names]
    heads = ("objects", "images", "difficult", "crowd", "ignored", "median height", "median area")
    medians = [column.tolist() for column in (statistics.median_height, statistics.median_area)]
    rows: list[tuple[str, ...]] = [("class", *heads)]
    for row, name in enumerate(statistics.class_name):
        cells = [str(column[row]) for column in counts]
        rows.append((name, *cells, *(_shown(column[row]) for column in medians)))
    summary = [(name, _shown(value)) for name, value in statistics.summary().items()]
    show("\n".join([*aligned(rows), "", *aligned(summary)]))


def _statistics(args: argparse.Namespace) -> DatasetStatistics:
    # VOC folders need no torch.
    from ..analysis.data_set import dataset_statistics  # noqa: PLC0415
    from .miss_rate import read_files  # noqa: PLC0415

    path = args.folder
    if path.suffix.lower() == ".json" and not args.pedestrians:
        truth = io.read_coco_ground_truths(path, **size_limit(args))
    elif path.exists():
        options = {"sets": None, "frame_step": CALTECH_FRAME_STEP, "load": ""}
        truth, _ = read_files(
            argparse.Namespace(
                ground_truth=path,
                detections=None,
                on_fault=ON_FAULT[0],
                max_file_size=args.max_file_size,
                **options,
            )
        )
    else:
        raise FileFormatError("there is no such file or folder", where=str(path))
    return dataset_statistics(
        truth.targets,
        truth.class_names,
        label_ids=truth.label_ids,
        box_format=truth.box_format,
    )


def _plain(value: Any) -> Any:
    """Plain data for JSON, None for NaN."""
    if isinstance(value, dict):
        return {key: _plain(entry) for key, entry in value.items()}
    if isinstance(value, list):
        return [_plain(entry) for entry in value]
    return None if isinstance(value, float) and math.isnan(value) else value


def _shown(value: float) -> str:
    """A number with up to four digits behind the point."""
    return "-" if math.isnan(value) else f"{value:.4f}".rstrip("0").rstrip(".")
