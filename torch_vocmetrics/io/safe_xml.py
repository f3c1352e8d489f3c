"""Parsing XML from strangers: small files, no declarations, every fault a plain sentence."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

from ..errors import FileFormatError
from ..limits import MAX_XML_BYTES, MIN_BYTES_PER_TAG
from .files import line_of, read_bytes


def parse_xml(path: Path, *, max_bytes: int = MAX_XML_BYTES) -> ElementTree.Element:
    """Read an XML file and parse it; see :func:`parse_xml_bytes`.

    Raises:
        FileFormatError: if the file is too large, or as there.
        OSError: if there is no such file or it may not be read.
    """
    return parse_xml_bytes(
        path, read_bytes(path, max_bytes=max_bytes), max_tags=tag_limit(max_bytes)
    )


def tag_limit(max_bytes: int) -> int:
    """How many tags a file may have whose size is limited."""
    return max_bytes // MIN_BYTES_PER_TAG


def parse_xml_bytes(path: Path, data: bytes, *, max_tags: int) -> ElementTree.Element:
    """Parse what an XML file holds, without a document type, and give its root element.

    A document type or an entity declaration is refused before the parser sees it, so nothing is
    expanded or fetched. UTF-16, in which such a declaration could hide, is refused as well.

    Raises:
        FileFormatError: naming ``path``, if it has too many tags, declares entities or is not
            well-formed XML.
    """
    zero = data.find(b"\0")
    if zero >= 0 or data.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise FileFormatError(
            "not an XML file in UTF-8",
            where=f"{path}, line {line_of(data, max(zero, 0))}",
            got="a zero byte, as in UTF-16 or in an image",
            remedy="save the file as UTF-8",
        )
    for declaration in (b"<!DOCTYPE", b"<!ENTITY"):
        place = data.find(declaration)
        if place >= 0:
            raise FileFormatError(
                "document types and entities are not read",
                where=f"{path}, line {line_of(data, place)}",
                got=declaration.decode(),
                remedy="remove the declaration: annotations need none",
            )
    tags = data.count(b"<")
    if tags > max_tags:
        raise FileFormatError(
            f"more tags than the limit of {max_tags:,}",
            where=str(path),
            got=f"{tags:,}",
            remedy="check that it is the right file, or give a larger limit",
        )
    try:
        return ElementTree.fromstring(data)
    except ElementTree.ParseError as error:
        raise _malformed(path, f"line {error.position[0]}", error) from None
    except (ValueError, LookupError) as error:  # an encoding that Python or expat does not have
        raise _malformed(path, "line 1", error) from None


def _malformed(path: Path, place: str, error: Exception) -> FileFormatError:
    return FileFormatError(
        "not well-formed XML",
        where=f"{path}, {place}",
        got=str(error),
        remedy="check that the file is complete and in the encoding that its first line declares",
    )
