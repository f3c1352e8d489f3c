"""``vocmetrics protocols``: the names of all protocols, or the rules of one with their sources."""

from __future__ import annotations

import argparse
import json
import math
from pathlib import Path
from typing import Any

from ..errors import printable
from ..protocols import ProtocolFile, protocol_file, protocol_titles
from .streams import show


def full_name(name: str) -> str:
    """``task/name``: the task may be left out, as it may in ``DetectionAP``."""
    return name if "/" in name or name.endswith(".toml") else f"detection/{name}"


def find_protocol(name: str) -> tuple[ProtocolFile, str]:
    """The file of a protocol, and the name of the protocol in it.

    Raises:
        ProtocolError: if no such protocol is shipped, or a file of one's own is at fault.
    """
    full = full_name(name)
    if full.endswith(".toml"):
        content = ProtocolFile.read(Path(full))
        return content, content.names[0]
    return protocol_file(full), full.split("/")[1]


def run(args: argparse.Namespace) -> None:
    """List all protocols, or show the rules of one."""
    if args.name is None:
        titles = protocol_titles()
        listed = [{"name": name, "title": title} for name, title in titles.items()]
        width = max(map(len, titles))
        lines = [f"{name.ljust(width)}  {title}" for name, title in titles.items()]
        show(json.dumps(listed, indent=2) if args.json else "\n".join(lines))
        return
    content, name = find_protocol(args.name)
    protocol = content.protocol(name)
    if args.json:
        shown = {
            "name": f"{content.task}/{protocol.name}",
            "title": content.title,
            "fingerprint": protocol.fingerprint,
            "rules": as_json(protocol.rules),
            "sources": content.sources,
        }
        show(json.dumps(shown, indent=2, allow_nan=False))
        return
    lines = [f"{content.task}/{protocol.name}: {content.title}"]
    lines.append(f"fingerprint {protocol.fingerprint}")
    for rule, value in protocol.rules.items():
        lines += ["", f"{rule} = {json.dumps(as_json(value))}", f"    {content.sources[rule]}"]
    show("\n".join(map(printable, lines)))


def as_json(value: Any) -> Any:
    """Make a rule JSON data; JSON has no infinity, so that is the string ``inf`` or ``-inf``."""
    if isinstance(value, dict):
        return {key: as_json(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [as_json(entry) for entry in value]
    return str(value) if isinstance(value, float) and math.isinf(value) else value
