"""Where the numbers of a page come from: versions, files, and rules with their sources."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..errors import VocMetricsError
from ..protocols import protocol_file
from .page import Section, table_view


def provenance(result: Any, files: Mapping[str, str]) -> Section:
    """Versions, hashes of files, and every rule of the protocol with its source.

    Args:
        result: of the protocol.
        files: names of input files and their SHA-256.
    """
    facts = result.report()
    rules = result.protocol
    versions = facts["versions"]
    columns: dict[str, Sequence[Any]] = {
        "what": ["protocol", "fingerprint of the rules", *versions, *files],
        "value": [facts["protocol"], facts["fingerprint"], *versions.values(), *files.values()],
    }
    try:
        shipped = protocol_file(f"{rules.task}/{rules.name}")
        sources: Mapping[str, str] = shipped.sources
    except VocMetricsError:  # rules of one's own under a name of their own
        sources, shipped = {}, None
    own = {} if shipped is None else shipped.protocol(rules.name).rules
    of_rules: dict[str, Sequence[Any]] = {
        "rule": list(rules.rules),
        "value": [_plain(value) for value in rules.rules.values()],
        "source": [
            sources.get(name, "own rules") if own.get(name) == value else "own rules"
            for name, value in rules.rules.items()
        ],
    }
    tables = [table_view("Versions and files", columns), table_view("Rules", of_rules)]
    return Section("provenance", "Provenance", tables=tables)


def _plain(value: Any) -> str:
    """A rule as text, long lists cut."""
    text = str(value) if not isinstance(value, tuple) else ", ".join(map(str, value))
    return text if len(text) <= 160 else f"{text[:160]}..."
