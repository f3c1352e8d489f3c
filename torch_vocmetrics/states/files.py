"""A state in a file: ``.npz`` of plain arrays and one JSON text; read without pickle.

The entry ``header`` is UTF-8 JSON: ``schema`` of the file, ``version`` that wrote it, ``protocols``
with all their rules, ``state`` (metric, classes, labels, and whatever else is not an array),
``columns`` (of each array dtype, shape, the first row of each block and its SHA-256) and ``sha256``
of all this. Arrays are stored as they are, so that a file can never grow when it is read. The
blocks of match records are the classes, so that a class can be read by itself (:mod:`.blocks`).

The SHA-256 finds damage. It is no signature: whoever can write a file can make it fit. Therefore
every column of a state that was read is checked before a metric takes it (see ``tables``); numbers
that are false but possible cannot be told from true ones.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import torch
from torch import Tensor

from .._version import __version__
from ..errors import ProtocolError, StateError
from ..protocols import Protocol, protocol_of_rules
from .atomic import written_whole
from .blocks import check_blocks, check_description, damaged, described
from .plain import flatten, restore

FILE_SCHEMA = 3
_HEADER = "header"
_ENTRIES = {"protocols": list, "state": dict, "columns": dict, "sha256": str}


def write_state(
    path: str | Path,
    state: Mapping[str, Any],
    protocols: Sequence[Protocol],
    starts: Mapping[str, Sequence[int]] | None = None,
) -> None:
    """Write a ``state_dict``; the file appears whole or not at all.

    Args:
        path: where to; symbolic links are followed, and the mode of a file that is there is kept.
        state: as of a metric's ``state_dict``.
        protocols: whose rules go into the header.
        starts: rows at which the blocks of an array begin, and the end of the last. Arrays are
            called by their path in the state, such as ``records.0.score``; others are one block.

    Raises:
        InputError: if ``path`` is there and is no plain file.
        OSError: if the file cannot be written.
    """
    text, tensors = flatten(state)
    arrays = {name: one.detach().cpu().contiguous().numpy() for name, one in tensors.items()}
    header = {
        "schema": FILE_SCHEMA,
        "version": __version__,
        "protocols": [
            {"task": one.task, "name": one.name, "rules": _as_json(one.rules)} for one in protocols
        ],
        "state": text,
    }
    header = sealed(header, arrays, starts or {})
    letters = np.frombuffer(json.dumps(header, allow_nan=False).encode(), dtype=np.uint8)
    with written_whole(path) as file:
        np.savez(file, **{_HEADER: letters}, **arrays)  # type: ignore[arg-type]


def read_state(path: str | Path) -> tuple[dict[str, Any], list[Any]]:
    """The ``state_dict`` in a file, and its protocols as plain data (see :func:`protocols_of`).

    Raises:
        StateError: if the file is no state, is damaged, or is of another schema.
        OSError: if there is no such file or it may not be read.
    """
    where = str(path)
    header, arrays = _read(Path(path), where)
    try:
        if header["sha256"] != _digest(header):
            raise ValueError("the SHA-256 does not fit its header")
        for name, array in arrays.items():
            entry = header["columns"][name]
            check_blocks(array, name, entry["starts"], entry["sha256"])
    except ValueError as error:
        raise damaged(error, where) from None
    tensors: dict[str, Tensor] = {name: torch.from_numpy(one) for name, one in arrays.items()}
    try:
        return restore(header["state"], tensors), header["protocols"]
    except StateError as error:
        raise StateError(error.what, where=where) from None


def protocols_of(state: Mapping[str, Any], saved: Sequence[Any], where: str) -> list[Protocol]:
    """The protocols of a state that was read, from their rules.

    Raises:
        StateError: if the rules do not hold, or are others than those of the state.
    """
    try:
        protocols = [
            protocol_of_rules(one["task"], str(one["name"]), _from_json(one["rules"]))
            for one in saved
        ]
    except ProtocolError as error:
        raise StateError(f"the protocol in the state file: {error}", where=where) from None
    except Exception as error:  # forged rules may be of any type and size
        raise StateError(f"the protocol in the state file: {error!r}", where=where) from None
    if [one.fingerprint for one in protocols] != state.get("fingerprints"):
        raise StateError("the rules in the state file have another fingerprint", where=where)
    return protocols


def read_header(path: str | Path) -> dict[str, Any]:
    """The header of a state file; its arrays are not read.

    Raises:
        StateError: if the file is no state, its header is damaged, or is of another schema.
        OSError: if there is no such file or it may not be read.
    """
    with _opened(Path(path), str(path)) as content:
        header = _header(content[_HEADER], str(path))
    if header["sha256"] != _digest(header):
        raise damaged("the SHA-256 does not fit its header", str(path))
    return header


def _read(path: Path, where: str) -> tuple[dict[str, Any], dict[str, np.ndarray[Any, Any]]]:
    """Header and arrays of any file that has the form of a state."""
    with _opened(path, where) as content:
        arrays = dict(content)
        header = _header(arrays.pop(_HEADER), where)
        columns = header["columns"]
        if sorted(columns) != sorted(arrays):
            raise ValueError("it holds other arrays than its header names")
        for name, array in arrays.items():
            check_description(columns[name], name, array.dtype, array.shape)
    return header, arrays


@contextmanager
def _opened(path: Path, where: str) -> Iterator[Mapping[str, np.ndarray[Any, Any]]]:
    """The arrays of a file; whatever is wrong with them inside is a StateError."""
    with path.open("rb") as file:
        try:
            _check_archive(file)
            with np.load(file, allow_pickle=False) as content:
                yield content
        except StateError:
            raise
        except Exception as error:  # what damaged bytes may do to a reader has no end
            raise StateError(
                f"not a state file of torch_vocmetrics, or a damaged one: {error}",
                where=where,
                remedy="give a file that save_state or --save-state wrote",
            ) from None


def _check_archive(file: BinaryIO) -> None:
    """Raise ValueError if reading the entries could take more memory than the file is long."""
    with zipfile.ZipFile(file) as archive:
        entries = archive.infolist()
    packed = [one.filename for one in entries if one.compress_type]
    names = [one.filename for one in entries]
    if packed or len(set(names)) != len(names):
        raise ValueError(f"entries are compressed or repeated: {packed or names}")
    if sum(one.file_size for one in entries) > file.seek(0, os.SEEK_END):
        raise ValueError("entries overlap")
    file.seek(0)


def _header(letters: np.ndarray[Any, Any], where: str) -> dict[str, Any]:
    """The header, of the schema of this version and with all its entries."""
    header = json.loads(letters.tobytes(), parse_constant=_refuse_constant)
    if not isinstance(header, dict):
        raise TypeError("its header is no JSON object")
    if header.get("schema") != FILE_SCHEMA:
        raise StateError(
            f"the state file has another schema than {FILE_SCHEMA}",
            where=where,
            got=f"{header.get('schema')!r}, written by torch_vocmetrics {header.get('version')}",
            remedy="use that version, or evaluate again",
        )
    for key, kind in _ENTRIES.items():
        if not isinstance(header.get(key), kind):
            raise TypeError(f"its header has no {key}")
    return header


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is no JSON")


def sealed(
    header: Mapping[str, Any],
    arrays: Mapping[str, np.ndarray[Any, Any]],
    starts: Mapping[str, Sequence[int]],
) -> dict[str, Any]:
    """The header with ``columns`` and ``sha256``; arguments as for :func:`write_state`."""
    columns = {name: described(one, name, starts.get(name)) for name, one in arrays.items()}
    whole = {**header, "columns": columns}
    return whole | {"sha256": _digest(whole)}


def _digest(header: Mapping[str, Any]) -> str:
    """SHA-256 of a header without its own; it has those of all arrays."""
    rest = {key: value for key, value in header.items() if key != "sha256"}
    return hashlib.sha256(json.dumps(rest, sort_keys=True).encode()).hexdigest()


def _as_json(value: Any) -> Any:
    """Rules as JSON data; an infinite number is the word ``inf`` or ``-inf``."""
    if hasattr(value, "_asdict"):
        value = value._asdict()
    if isinstance(value, Mapping):
        return {key: _as_json(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_as_json(one) for one in value]
    return str(value) if isinstance(value, float) and math.isinf(value) else value


def _from_json(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _from_json(one) for key, one in value.items()}
    if isinstance(value, list):
        return [_from_json(one) for one in value]
    return float(value) if value in ("inf", "-inf") else value
