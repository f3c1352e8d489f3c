"""``vocmetrics view``: annotations, detections or their outcomes drawn on images, as PNG files."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from ..drawing import draw_boxes
from ..errors import FileFormatError, InputError
from ..io.names import path_inside
from ..protocols import load_protocol
from .label_views import label_pictures
from .outputs import check_output_folder, refuse_to_overwrite
from .pictures import find_picture, read_picture
from .progress import Progress
from .protocols import full_name
from .scenes import only_images, scenes_of
from .streams import say

if TYPE_CHECKING:
    from PIL.Image import Image


class Picture(NamedTuple):
    """An image that is to be written.

    Attributes:
        image_id: names the PNG file.
        draw: makes the picture.
    """

    image_id: str
    draw: Callable[[], Image]


def run(args: argparse.Namespace) -> None:
    """Draw and write; images that are missing or damaged are named, and the rest goes on."""
    check_output_folder(args.output, "--output")
    for option in ("true_positives", "outcomes", "truth"):
        if getattr(args, option) and not args.detections:
            raise InputError("needs --detections", where=f"--{option.replace('_', '-')}")
    protocol = load_protocol(full_name(args.protocol or _usual_protocol(args.ground_truth)))
    wanted = args.images.split(",") if args.images else None
    if protocol.task == "segmentation":
        pictures = [Picture(*one) for one in label_pictures(args, protocol, wanted)]
    else:
        pictures = list(_box_pictures(args, protocol, wanted))
    paths = [path_inside(args.output, f"{one.image_id}.png", to_write=True) for one in pictures]
    refuse_to_overwrite(paths, force=args.force)
    written = 0
    with Progress(quiet=False) as progress:
        for number, (one, path) in enumerate(zip(pictures, paths, strict=True), 1):
            try:
                image = one.draw()
            except (InputError, FileFormatError) as error:
                say(f"vocmetrics: warning: {error}", style="yellow")
                continue
            path.parent.mkdir(parents=True, exist_ok=True)
            image.save(path)
            written += 1
            progress("images drawn", number, len(pictures))
    if pictures and not written:
        raise InputError("none of the images could be drawn", where=str(args.ground_truth))
    say(f"{written} images written to {args.output}")


def _usual_protocol(source: Path) -> str:
    """COCO's for its files, VOC's for folders."""
    return "voc2012" if source.is_dir() else "coco2017"


def _box_pictures(
    args: argparse.Namespace, protocol: object, wanted: list[str] | None
) -> Iterator[Picture]:
    scenes = scenes_of(args, protocol)  # type: ignore[arg-type]
    folder = args.image_folder or args.ground_truth
    if not folder.is_dir():
        folder = folder.parent

    def drawn(index: int) -> Image:
        file_name = scenes.file_names[index] if scenes.file_names else ""
        path = find_picture(folder, scenes.ids[index], file_name)
        return draw_boxes(read_picture(path, max_pixels=args.max_pixels), scenes.boxes(index))

    for index in only_images(scenes, wanted):
        yield Picture(str(scenes.ids[index]), lambda index=index: drawn(index))  # type: ignore[misc]
