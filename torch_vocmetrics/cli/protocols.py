"""``vocmetrics protocols``: the names of all protocols, or the rules of one with their sources."""

from __future__ import annotations

import argparse
import json
import math
import textwrap
from pathlib import Path
from typing import Any

from ..errors import printable
from ..protocols import ProtocolFile, protocol_file, protocol_titles
from .render import aligned
from .streams import show

WIDTH = 100
"""Letters of a line, as far as a value can be cut."""


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
            "headline": protocol.headline,
            "fingerprint": protocol.fingerprint,
            "rules": as_json(protocol.rules),
            "sources": content.sources,
        }
        show(json.dumps(shown, indent=2, allow_nan=False))
        return
    lines = [f"{content.task}/{protocol.name}: {content.title}"]
    lines += [f"headline: {protocol.headline}", f"fingerprint {protocol.fingerprint}"]
    for rule, value in protocol.rules.items():
        lines += ["", *_rule_lines(rule, value), *_wrapped(content.sources[rule], "    ")]
    show("\n".join(map(printable, lines)))


def _rule_lines(rule: str, value: Any) -> list[str]:
    """A rule and its value in lines of no great width; area ranges, subsets and such as a table."""
    if isinstance(value, tuple) and value and hasattr(value[0], "_fields"):
        rows = [tuple(map(_cell, entry)) for entry in value]
        if all(len(cell) < WIDTH // 2 for row in rows for cell in row):
            table = aligned([value[0]._fields, *rows])
        else:
            table = [line for row in rows for line in _wrapped("  ".join(row))]
        return [f"{rule} =", *(f"    {line}" for line in table)]
    return _wrapped(f"{rule} = {json.dumps(as_json(value))}")


def _wrapped(text: str, indent: str = "") -> list[str]:
    return textwrap.wrap(
        text, WIDTH, initial_indent=indent, subsequent_indent="    ", break_long_words=False
    )


def _cell(value: Any) -> str:
    """A value of a table: words without quotes, whole numbers without their point."""
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_cell, value))}]"
    is_short = isinstance(value, float) and float(f"{value:g}") == value
    return f"{value:g}" if is_short else str(value)


def as_json(value: Any) -> Any:
    """Make a rule JSON data; JSON has no infinity, so that is the string ``inf`` or ``-inf``."""
    if isinstance(value, dict):
        return {key: as_json(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [as_json(entry) for entry in value]
    return str(value) if isinstance(value, float) and math.isinf(value) else value
