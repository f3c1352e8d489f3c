"""Damage that happens to files, or is done to them: to bytes, to words of text, to JSON values."""

from __future__ import annotations

import copy
import json
import random
import re
import struct
import zlib
from collections.abc import Callable
from typing import Any

Damage = Callable[[random.Random, bytes], bytes]

WORDS = [
    *("0", "-1", "1", "nan", "inf", "-inf", "1e400", "1e308", "-1e308", "1e-320", "0x10", "1_0"),
    *("9" * 400, "9" * 5000, str(2**31), str(2**32), str(2**63), str(-(2**63)), str(2**64), "1e8"),
    *("", " ", "\t", "\n", "\0", "\x1b[31m", "\u202e", "\ufeff", "\u00e9", "\u0661", "true"),
    *("../../evil", "/etc/passwd", "a" * 5000, "[" * 5000, "{}", "[]", '"', "null", "<a>", "</a>"),
    *(
        "&lt;",
        "&x;",
        "<!DOCTYPE x>",
        "<![CDATA[",
        "1000000000",
        "{ linspace = [0, 1, 1000000000] }",
    ),
]
VALUES: list[Any] = [
    *(
        None,
        True,
        False,
        0,
        -1,
        1,
        2,
        16384,
        10**9,
        1.5,
        -0.0,
        2**31,
        2**32,
        2**63,
        -(2**63),
        2**64,
        10**399,
    ),
    *(1e308, -1e308, 1e8, 1e-320, float("inf"), float("nan"), "", "x", "\ud800", "\x1b[31m", "1"),
    *("../../evil", [], {}, [[]], [None], [1e8] * 6, [1e8, -1e8] * 50, [0] * 2000, {"size": None}),
    {"size": [10**9, 10**9], "counts": [10**18]},
    {"size": [2**31, 1], "counts": "0"},
    {"size": [40, 60], "counts": [2**70]},
    {"size": [40, 60], "counts": None},
    {"size": [40, 60], "counts": "\x7f" * 50},
]
INTEGERS = [0, 1, 0x7F, 0xFF, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 2**24, 2**16]


def bytes_damaged(chance: random.Random, data: bytes) -> bytes:
    """Some bytes cut off, changed, inserted, removed, repeated or swapped."""
    for _ in range(chance.choice((1, 1, 1, 2, 3, 8))):
        place = chance.randrange(len(data) + 1)
        length = chance.choice((1, 2, 4, 8, 30))
        kind = chance.randrange(7)
        if kind == 0:
            data = data[:place]
        elif kind == 1 and place < len(data):
            changed = data[place] ^ (1 << chance.randrange(8))
            data = data[:place] + bytes([changed]) + data[place + 1 :]
        elif kind == 2:
            data = data[:place] + chance.randbytes(length) + data[place:]
        elif kind == 3:
            data = data[:place] + data[place + length :]
        elif kind == 4:
            data = data[:place] + data[place : place + length] * 3 + data[place + length :]
        elif kind == 5:
            integer = struct.pack(chance.choice(("<I", ">I")), chance.choice(INTEGERS))
            data = data[:place] + integer + data[place + 4 :]
        else:
            other = chance.randrange(len(data) + 1)
            data = data[:place] + data[other : other + length] + data[place + length :]
    return data


def words_damaged(chance: random.Random, data: bytes) -> bytes:
    """Some words, numbers, lines or tags replaced by hostile ones, removed, repeated, swapped."""
    if chance.random() < 0.2:
        return bytes_damaged(chance, data)
    parts = re.split(r"([\w.+-]+|[<>\[\]{}=,\"\n])", data.decode("utf-8", "replace"))
    for _ in range(chance.choice((1, 1, 2, 4))):
        place, other = chance.randrange(len(parts)), chance.randrange(len(parts))
        kind = chance.randrange(5)
        if kind <= 1:
            parts[place] = chance.choice(WORDS)
        elif kind == 2:
            parts[place] = ""
        elif kind == 3:
            parts[place] *= chance.choice((2, 3, 100))
        else:
            parts[place], parts[other] = parts[other], parts[place]
    return "".join(parts).encode("utf-8", "surrogatepass")


def json_damaged(chance: random.Random, data: bytes) -> bytes:
    """Some values replaced by values of other types and sizes, some keys missing or renamed."""
    if chance.random() < 0.2:
        return words_damaged(chance, data)
    lines = data.splitlines()
    row = chance.randrange(len(lines))
    content = {"whole": json.loads(lines[row])}
    for _ in range(chance.choice((1, 1, 2, 4))):
        _damage_value(chance, content)
    lines[row] = json.dumps(next(iter(content.values()), None)).encode()
    return b"\n".join(lines)


def _damage_value(chance: random.Random, content: Any) -> None:
    """Go down to a random container in a list of a value, and change an entry of it."""
    while True:
        keys = list(content) if isinstance(content, dict) else list(range(len(content)))
        if not keys:
            return
        key = chance.choice(keys)
        below = content[key]
        if not isinstance(below, dict | list) or not below or chance.random() < 0.15:
            break
        content = below
    kind = chance.randrange(6)
    if kind == 0 and isinstance(content, dict):
        content[chance.choice(("", "id", "bbox", key + "x"))] = content.pop(key)
    elif kind == 1:
        del content[key]
    elif kind == 2 and isinstance(content, list):
        content.insert(key, copy.deepcopy(chance.choice(VALUES)))
    elif kind == 3 and isinstance(content, list):
        content.append(content[key])
    else:
        content[key] = copy.deepcopy(chance.choice(VALUES))


def png_damaged(chance: random.Random, data: bytes) -> bytes:
    """A chunk damaged, repeated or lost in a PNG whose checksums are right."""
    if chance.random() < 0.3:
        return bytes_damaged(chance, data)
    chunks, place = [], 8
    while place + 8 <= len(data):
        length = int.from_bytes(data[place : place + 4], "big")
        chunks.append((data[place + 4 : place + 8], data[place + 8 : place + 8 + length]))
        place += 12 + length
    number = chance.randrange(len(chunks))
    kind, content = chunks[number]
    if chance.random() < 0.2:
        chunks.insert(number, chance.choice(chunks))
    elif chance.random() < 0.1:
        del chunks[number]
    elif kind == b"IDAT" and chance.random() < 0.5:
        chunks[number] = (kind, zlib.compress(bytes_damaged(chance, zlib.decompress(content))))
    else:
        chunks[number] = (kind, bytes_damaged(chance, content))
    if chance.random() < 0.2:
        text = chance.choice((b"tEXt", b"zTXt", b"iTXt", b"iCCP", b"tRNS", b"acTL", b"fcTL"))
        chunks.insert(1, (text, b"a\0\0" + zlib.compress(bytes(2**20))))
    return data[:8] + b"".join(
        struct.pack(">I", len(content))
        + kind
        + content
        + struct.pack(">I", zlib.crc32(kind + content))
        for kind, content in chunks
    )


def matlab_damaged(chance: random.Random, data: bytes) -> bytes:
    """Damage to the elements of a MATLAB file before they are compressed again, or after."""
    if chance.random() < 0.3:
        return bytes_damaged(chance, data)
    header, parts, place = data[:128], [], 128
    while place + 8 <= len(data):
        kind, length = struct.unpack_from("<II", data, place)
        content = data[place + 8 : place + 8 + length]
        parts.append((kind, zlib.decompress(content) if kind == 15 else data[place:][: length + 8]))
        place += 8 + length
    number = chance.randrange(len(parts))
    for row, (kind, content) in enumerate(parts):
        content = bytes_damaged(chance, content) if row == number else content  # noqa: PLW2901
        packed = zlib.compress(content)
        header += struct.pack("<II", 15, len(packed)) + packed if kind == 15 else content
    return header
