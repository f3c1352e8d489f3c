"""``vocmetrics protocols``: the names of all protocols, or the rules of one with their sources."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from ..errors import printable
from ..protocols import ProtocolFile, protocol_file, protocol_titles
from .report import as_json
from .streams import show


def full_name(name: str) -> str:
    """``task/name``: the task may be left out, as it may in ``DetectionAP``."""
    return name if "/" in name or name.endswith(".toml") else f"detection/{name}"


def run(args: argparse.Namespace) -> None:
    """List all protocols, or show the rules of one."""
    if args.name is None:
        titles = protocol_titles()
        listed = [{"name": name, "title": title} for name, title in titles.items()]
        width = max(map(len, titles))
        lines = [f"{name.ljust(width)}  {title}" for name, title in titles.items()]
        show(json.dumps(listed, indent=2) if args.json else "\n".join(lines))
        return
    name = full_name(args.name)
    own = name.endswith(".toml")
    content = ProtocolFile.read(Path(name)) if own else protocol_file(name)
    protocol = content.protocol(content.names[0] if own else name.split("/")[1])
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
