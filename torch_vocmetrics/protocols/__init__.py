"""Protocols are data: one complete TOML file per distinct set of rules.

A file has no defaults and no inheritance, so a diff of two files shows every difference. Each table
names its ``source``. Loading checks everything and reports all mistakes at once.
"""

from .datasets import Dataset, load_dataset
from .detection import FLAGS, AreaRange, DetectionProtocol
from .files import (
    ProtocolFile,
    config_root,
    load_protocol,
    protocol_file,
    protocol_names,
    protocol_title,
)
from .rules import Protocol

__all__ = [
    "FLAGS",
    "AreaRange",
    "Dataset",
    "DetectionProtocol",
    "Protocol",
    "ProtocolFile",
    "config_root",
    "load_dataset",
    "load_protocol",
    "protocol_file",
    "protocol_names",
    "protocol_title",
]
