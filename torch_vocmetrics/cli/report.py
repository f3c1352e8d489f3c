"""``vocmetrics report`` and ``vocmetrics compare``: HTML pages on evaluations of files."""

from __future__ import annotations

import argparse
import hashlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import FileFormatError, InputError, VocMetricsError
from ..report import compare as compare_page
from ..report import report as report_page
from ..report.pictures import outcome_pictures
from .evaluate import evaluate
from .evaluation import Evaluation
from .outputs import check_output_file, refuse_to_overwrite
from .pictures import find_picture, read_picture
from .streams import say, show

if TYPE_CHECKING:
    from PIL.Image import Image

Picture = Callable[[Any], "Image | None"]


def run(args: argparse.Namespace) -> None:
    """Evaluate and write a page."""
    _check_output(args)
    done = evaluate(args)
    report_page(
        done.metric,
        args.output,
        title=args.title or f"{args.protocol}: {_name(args.detections)}",
        picture=_picture(args, done),
        files=_hashes([args.ground_truth, *_result_files(args.detections)]),
        num_resamples=args.resamples,
    )
    if not args.quiet:
        show(str(args.output))


def compare(args: argparse.Namespace) -> None:
    """Evaluate two detectors and write a page on their difference."""
    _check_output(args)
    both = []
    for results in (args.first, args.second):
        args.detections = results
        both.append(evaluate(args))
    names = _names(args.first, args.second)
    pictures = [_picture(args, done) for done in both]
    files = [path for results in (args.first, args.second) for path in _result_files(results)]
    compare_page(
        both[0].metric,
        both[1].metric,
        args.output,
        names=names,
        pictures=None if None in pictures else (pictures[0], pictures[1]),  # type: ignore[arg-type]
        files=_hashes([args.ground_truth, *files]),
        num_resamples=args.resamples,
    )
    if not args.quiet:
        values = " and ".join(
            f"{name} {done.result.headline:.4f}" for name, done in zip(names, both, strict=True)
        )
        show(f"{values}\n{args.output}")


def _check_output(args: argparse.Namespace) -> None:
    check_output_file(args.output, "--output")
    refuse_to_overwrite([args.output], force=args.force)


def _picture(args: argparse.Namespace, done: Evaluation) -> Picture | None:
    """What gives images with outcomes drawn, if the command has ``--images``.

    Images that are missing or damaged are named, and the page does without them.
    """
    images = done.images
    if args.images is None or images is None:
        return None

    def load(index: int) -> Image | None:
        file_name = images.file_names[index] if images.file_names else ""
        try:
            path = find_picture(args.images, images.ids[index], file_name)
            return read_picture(path, max_pixels=args.max_pixels)
        except (InputError, FileFormatError) as error:
            say(f"vocmetrics: warning: {error}", style="yellow")
            return None

    return outcome_pictures(done.metric, images, load)


def _name(results: str) -> str:
    """What results are called: the folder of files of classes, else the file."""
    path = Path(results)
    return path.parent.name if "{class}" in path.name and path.parent.name else path.stem


def _names(first: str, second: str) -> tuple[str, str]:
    names = _name(first), _name(second)
    return names if names[0] != names[1] else (first, second)


def _result_files(results: str) -> Iterator[Path]:
    """The files of a pattern, a folder or a path."""
    path = Path(results)
    if "{class}" in path.name:
        yield from sorted(path.parent.glob(path.name.replace("{class}", "*")))
    else:
        yield path


def _hashes(paths: list[Path]) -> dict[str, str]:
    """SHA-256 of each file; folders by the names and hashes of all their files."""
    found = {}
    for path in paths:
        try:
            found[str(path)] = folder_hash(path) if path.is_dir() else _file_hash(path)
        except OSError as error:  # a file that was read before and is gone
            raise VocMetricsError(f"{path}: {error.strerror or error}") from None
    return found


def _file_hash(path: Path) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def folder_hash(folder: Path) -> str:
    """SHA-256 over names and hashes of all files; JPEG images are not read.

    Args:
        folder: such as the data of a development kit.

    Raises:
        OSError: for a file that may not be read.
    """
    digest = hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        if path.is_file() and path.suffix.lower() not in (".jpg", ".jpeg"):
            digest.update(f"{path.relative_to(folder)}\0{_file_hash(path)}\n".encode())
    return f"{digest.hexdigest()} (files of the folder without JPEG images)"
