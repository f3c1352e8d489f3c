"""Every limit on the size of an input, in one module.

A size is checked before memory of that size is asked for, or before native code sees it. Each limit
is far above what the known data sets need; where a user may need more, a reader has an argument for
it (``max_bytes``, ``max_pixels``) and the command has ``--max-file-size`` and ``--max-pixels``.
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

MAX_MATLAB_ARRAYS = 2**21
"""The most arrays and entries of cells in a MATLAB file: each takes hundreds of bytes in memory."""

MAX_TOML_BYTES = 2**20
"""The largest TOML file that is parsed: 1 MiB."""

MAX_IMAGE_BYTES = 2**28
"""The largest image file that is read: 256 MiB."""

MAX_IMAGE_METADATA_BYTES = 2**24
"""The most bytes of a PNG that are not pixels, such as text and colour profiles: 16 MiB."""

MAX_IMAGE_CHUNKS = 2**16
"""The most chunks of a PNG: as many as 512 MiB of pixels in chunks of 8 KiB."""

MAX_PIXELS = 2**26
"""The largest image that is decoded or painted: 8192 x 8192 pixels."""

MAX_IMAGE_ID = 2**63 - 1
"""The largest integer id of an image or a category, in files and in ``update``: ids are kept as
int64."""

MAX_CLASSES = 2**20
"""The most classes of a metric: each has a name and, in results, several rows of numbers."""

MAX_COORDINATE = 2.0**31
"""Coordinates beyond this are no pixels but a fault of the file."""

MAX_LEVELS = 2**16
"""The most thresholds or recall levels that a protocol may have."""

# Values that are given to metrics ----------------------------------------------------------------

MAX_BOX_COORDINATE = 3.4028234663852886e38
"""Largest absolute value of a box coordinate: the largest float32, so that areas are finite in
float64. Only float64 boxes can be larger."""

MAX_IMAGE_SIDE = 2**20
"""Pixels: largest height or width of an image."""

MAX_MASK_PIXELS = 2**28
"""Pixels: largest image whose masks may be run lengths or polygons, 16,384 x 16,384. Run lengths
are 32-bit integers in pycocotools, and a mask takes a byte for each pixel while it is decoded."""

MAX_POLYGON_COORDINATE = 2**20
"""Pixels: largest absolute value of a polygon's coordinate. pycocotools multiplies coordinates by 5
and converts them to 32-bit integers."""

MAX_POLYGON_OUTLINE = 2**21
"""Pixels: longest outline of a polygon; pycocotools takes about 100 bytes for each pixel of it."""
