"""Protocols are data: one complete TOML file per distinct set of rules.

A file has no defaults and no inheritance, so a diff of two files shows every difference. Each table
names its ``source``. Loading checks everything and reports all mistakes at once.
"""

from .classification import ActionProtocol, ClassificationProtocol
from .datasets import (
    CALTECH_FRAME_STEP,
    CALTECH_SETS,
    PAINTINGS,
    SET_TASKS,
    Dataset,
    dataset_of,
    load_dataset,
)
from .detection import FLAGS, AreaRange, DetectionProtocol
from .files import (
    TASKS,
    ProtocolFile,
    config_root,
    load_protocol,
    protocol_file,
    protocol_names,
    protocol_of_rules,
    protocol_title,
    protocol_titles,
)
from .layout import LayoutProtocol
from .miss_rate import FppiReferences, MissRateProtocol, Subset
from .rules import Protocol, with_rules
from .segmentation import SegmentationProtocol

__all__ = [
    "CALTECH_FRAME_STEP",
    "CALTECH_SETS",
    "FLAGS",
    "PAINTINGS",
    "SET_TASKS",
    "TASKS",
    "ActionProtocol",
    "AreaRange",
    "ClassificationProtocol",
    "Dataset",
    "DetectionProtocol",
    "FppiReferences",
    "LayoutProtocol",
    "MissRateProtocol",
    "Protocol",
    "ProtocolFile",
    "SegmentationProtocol",
    "Subset",
    "config_root",
    "dataset_of",
    "load_dataset",
    "load_protocol",
    "protocol_file",
    "protocol_names",
    "protocol_of_rules",
    "protocol_title",
    "protocol_titles",
    "with_rules",
]
