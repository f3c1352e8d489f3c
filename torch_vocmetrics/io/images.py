"""Opening images with Pillow: form and size are checked before anything is decoded."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, NamedTuple

from ..errors import FileFormatError
from ..limits import MAX_IMAGE_BYTES, MAX_IMAGE_CHUNKS, MAX_IMAGE_METADATA_BYTES, MAX_PIXELS

if TYPE_CHECKING:
    from PIL.Image import Image as PillowImage

_PNG = b"\x89PNG\r\n\x1a\n"
_GREY = 0  # colour type of a PNG whose pixels are single numbers


class OpenImage(NamedTuple):
    """An image whose header was read.

    Attributes:
        image: of Pillow, not decoded.
        grey_bits: bits of a pixel of a grey PNG, which Pillow stretches to 8; 0 for other images.
    """

    image: PillowImage
    grey_bits: int


@contextmanager
def open_image(
    path: str | Path, *, formats: tuple[str, ...] = ("PNG", "JPEG"), max_pixels: int = MAX_PIXELS
) -> Iterator[OpenImage]:
    """Open an image of a known form and size; what fails while it is open names the file.

    Args:
        path: the file.
        formats: what the file may be, whatever its name says: Pillow's names.
        max_pixels: the largest image that is opened.

    Raises:
        FileFormatError: if it is no such image, is damaged, or is larger than the limits.
        OSError: if there is no such file or it may not be read.
    """
    from PIL import Image, UnidentifiedImageError  # noqa: PLC0415

    with Path(path).open("rb") as stream:
        grey_bits = _check_file(path, stream)
        try:
            with Image.open(stream, formats=formats) as image:
                _check_pixels(path, image.size, max_pixels)
                yield OpenImage(image, grey_bits)
        except (FileFormatError, MemoryError):
            raise
        # Packages that extend Image.open look for decoders, which may be missing.
        except (UnidentifiedImageError, ImportError):
            raise FileFormatError(
                "not an image",
                where=str(path),
                remedy=f"give a file whose content is {' or '.join(formats)}",
            ) from None
        except (Image.DecompressionBombError, Image.DecompressionBombWarning) as error:
            raise FileFormatError(f"too large an image: {error}", where=str(path)) from None
        except Exception as error:  # Pillow raises many types for a damaged file
            raise FileFormatError(f"a damaged image: {error}", where=str(path)) from None


def _check_pixels(path: str | Path, size: tuple[int, int], max_pixels: int) -> None:
    if size[0] * size[1] > max_pixels:
        raise FileFormatError(
            f"the image is larger than the limit of {max_pixels:,} pixels",
            where=str(path),
            got=f"{size[0]} x {size[1]}",
            remedy="check that it is the right file, or give a larger limit",
        )


def _check_file(path: str | Path, stream: BinaryIO) -> int:
    """Check the size of a file and of the chunks of a PNG; gives the bits of a grey pixel."""
    if not stream.seekable():
        raise FileFormatError("not an image", where=str(path), got="no plain file")
    size = stream.seek(0, 2)
    stream.seek(0)
    if size > MAX_IMAGE_BYTES:
        raise FileFormatError(
            f"the image is larger than the limit of {MAX_IMAGE_BYTES:,} bytes",
            where=str(path),
            got=f"{size:,} bytes",
            remedy="check that it is the right file",
        )
    start = stream.read(26)
    if not start.startswith(_PNG):
        stream.seek(0)
        return 0
    stream.seek(len(_PNG))
    number, metadata = 0, 0
    while len(head := stream.read(8)) == 8:
        length = int.from_bytes(head[:4], "big")
        number += 1
        metadata += 0 if head[4:] == b"IDAT" else length
        if number > MAX_IMAGE_CHUNKS or metadata > MAX_IMAGE_METADATA_BYTES:
            raise FileFormatError(
                "the image has more chunks, or more text and other data beside its pixels, than "
                f"the limits of {MAX_IMAGE_CHUNKS:,} chunks and {MAX_IMAGE_METADATA_BYTES:,} bytes",
                where=str(path),
                got=f"chunk {number} of {length:,} bytes",
                remedy="save its pixels alone",
            )
        stream.seek(length + 4, 1)
    stream.seek(0)
    return start[24] if len(start) == 26 and start[25] == _GREY else 0
