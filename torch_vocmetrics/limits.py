"""Every limit on the size of an input, in one module.

A size is checked before memory of that size is asked for, or before native code sees it. Each limit
is far above what the known data sets need; where a user may need more, a reader has an argument for
it (``max_bytes``, ``max_pixels``) and the command has ``--max-file-size``.
"""

from __future__ import annotations

MAX_TEXT_BYTES = 2**30
"""The largest text file that is read: 1 GiB."""

MAX_JSON_BYTES = 2 * 2**30
"""The largest JSON file that is read: 2 GiB."""

MAX_XML_BYTES = 4 * 2**20
"""The largest XML file that is parsed: 4 MiB."""

MIN_BYTES_PER_TAG = 8
"""An XML file may hold a tag for each so many bytes of its limit: an empty tag takes 3 bytes in the
file and hundreds in memory."""

MAX_MATLAB_BYTES = 2**28
"""The largest MATLAB file that is read, and what its compressed parts may grow to: 256 MiB."""

MAX_TOML_BYTES = 2**20
"""The largest TOML file that is parsed: 1 MiB."""

MAX_IMAGE_BYTES = 2**28
"""The largest image file that is read: 256 MiB."""

MAX_PIXELS = 2**26
"""The largest image that is decoded or painted: 8192 x 8192 pixels."""

MAX_IMAGE_ID = 2**63 - 1
"""The largest integer id of an image or a category: ids are kept as int64."""

MAX_COORDINATE = 2.0**31
"""Coordinates beyond this are no pixels but a fault of the file."""

MAX_LEVELS = 2**16
"""The most thresholds or recall levels that a protocol may have."""
